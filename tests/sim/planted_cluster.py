"""Bugs put into the nodes of a cluster on purpose, to show that the simulator finds them."""

from __future__ import annotations

import itertools
from typing import Any

from sim.cluster.swarm import (
    BLACKOUT,
    CLOCK,
    CUT,
    DAMAGE,
    KILL,
    LOSE,
    MEMBERS,
    PARTITION,
    PAUSE,
    POWER,
    REPLACE,
    SPOIL,
    STOP,
    TRANSFER,
    WIPE,
)
from sim.swarm import DISK_FAILS
from tests.sim.planted import Undo, Where, replace
from warren.errors import CorruptRecord
from warren.log import group as group_log
from warren.log import reading, wal
from warren.log.batch import Header
from warren.log.runlist import PAIR_BYTES, RunList
from warren.metadata import checks, machine, node_checks
from warren.metadata.commands import AddNode, DeleteQueue
from warren.node import hosting, removals, replay
from warren.node.cluster import dispatch as cluster
from warren.node.cluster import membership, transfer
from warren.node.remote import serving
from warren.protocols.amqp091 import channel
from warren.protocols.amqp091 import tables as class_table
from warren.protocols.peer import refusal
from warren.queues import proxy, quorum, restoring
from warren.queues.fifo.effects import NO_EFFECTS, Effects, PollReply
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.ready import AT_BACK, BY_NUMBER, Ready
from warren.raft.effects import Truncate
from warren.replication import client_sessions, frames, member, proposals, snapshots, wrapping
from warren.wire.amqp091 import spec


def stamps_by_wall() -> Undo:
    """An entry has the wall time of whoever leads, whatever those before it have."""
    return replace(member.Member, "stamp_ms", lambda group: group.host.wall_ms())


def leases_by_wall() -> Undo:
    """A lease ends by the time of the log alone, which a leader's wall clock makes jump."""

    def expire(queue: Any, now_ms: int) -> None:
        queue.minding._leases._renewed = {
            group.name: (int(group.seen_ms), -(1 << 40)) for group in queue.fifo.groups.values()
        }
        original(queue, now_ms)

    original = quorum.QuorumQueue.expire_groups
    return replace(quorum.QuorumQueue, "expire_groups", expire)


def together(*undone: Undo) -> Undo:
    """Several of them as one."""

    def undo() -> None:
        for each in undone:
            each()

    return undo


def raft_unheeded() -> Undo:
    """What Raft says in a frame is taken without a look at its checksum."""

    def raft_message(frame: bytes) -> bytes:
        end = frames.RAFT_BYTES + int.from_bytes(frame[frames.HEAD_BYTES :][:4], "little")
        if end > len(frame):
            raise CorruptRecord("a frame of a node", 0, "it is cut off")
        return frame[frames.RAFT_BYTES : end]

    return replace(frames, "raft_message", raft_message)


def damage_unheeded() -> Undo:
    """A node goes on with what is whole of a damaged log, as if there were no others."""

    def doubtful(replayer: Any, error: Any) -> None:
        replayer.doubts.append(error)

    return together(
        replace(replay.NodeReplayer, "doubtful", doubtful),
        replace(replay.NodeReplayer, "complete", lambda _: None),
    )


def same_name() -> Undo:
    """A node that joins takes the place of the one of its name, whatever directory it has."""

    def judge(members: Any, hello: Any) -> int:
        code = judged(members, hello)
        return 0 if code == refusal.NAME_TAKEN else int(code)

    def check(tables_machine: Any, name: str, uid: bytes, *others: Any) -> Any:
        node = tables_machine.nodes.get(name)
        if node is not None and node.uid != uid:
            return AddNode(name, uid, *others)
        return checked(tables_machine, name, uid, *others)

    def add(nodes: Any, command: Any, outcome: Any) -> None:
        node = nodes.get(command.name)
        if node is not None:
            node.uid = command.uid
        added(nodes, command, outcome)

    judged = membership.Membership.judge
    checked = node_checks.check_add_node
    added = machine.add_node
    return together(
        replace(membership.Membership, "judge", judge),
        replace(node_checks, "check_add_node", check),
        replace(machine, "add_node", add),
    )


def unpersisted_vote() -> Undo:
    """Term and vote count as durable and are not written down."""

    def save(group: Any, origin: Any, urgent: bool = True) -> None:
        if origin is None:
            original(group, origin, urgent)
        else:
            group.raft.state_persisted(origin.sequence, group.host.monotonic_ms())

    original = member.Member.save_hard_state
    return replace(member.Member, "save_hard_state", save)


def failed_writes_are_good() -> Undo:
    """A round that could not be written is taken for one that was."""

    def done(log: Any, job: Any, error: Any) -> None:
        job.written = job.written or error is not None
        original(log, job, None)

    original = wal.Wal.round_done
    return replace(wal.Wal, "round_done", done)


def early_apply() -> Undo:
    """A leader applies what it has appended, before anybody has it on disk."""

    def append(group: Any, session: int, proposal: Any) -> None:
        original(group, session, proposal)
        group.committed(group.log.last_index)

    original = member.Member.append
    return replace(member.Member, "append", append)


def confirms_at_submit() -> Undo:
    """A queue confirms what it submits."""

    def submit(queue: Any) -> None:
        unsealed = queue._unsealed
        runs, unsealed.runs = unsealed.runs, []
        original(queue)
        for run in runs:
            run.safe()

    original = quorum.QuorumQueue._seal_messages
    return replace(quorum.QuorumQueue, "_seal_messages", submit)


def lost_resend() -> Undo:
    """What was under way is not offered again, neither to a new leader nor over a new link."""
    return replace(proposals.Proposals, "offer_from", lambda *_: None)


def unchecked_sequence() -> Undo:
    """A leader takes every proposal, whatever its number."""

    def proposed(taken: Any, group: Any, node: str, session: int, proposal: Any) -> None:
        if group.raft.can_propose():
            group.append(session, proposal)
            group.host.appended(True)

    return replace(client_sessions.ClientSessions, "proposed", proposed)


def open_sessions() -> Undo:
    """Sessions of nodes that are gone are not closed."""
    return replace(client_sessions.ClientSessions, "close_sessions", lambda taken, member: None)


def reopened_sessions() -> Undo:
    """A leader goes on taking what a session that it has closed submits."""

    def proposed(taken: Any, member: Any, node: str, session: int, proposal: Any) -> None:
        if taken.next(session) == 0:
            taken.took(session, proposal.sequence - 1)
        original(taken, member, node, session, proposal)

    original = client_sessions.ClientSessions.proposed
    return replace(client_sessions.ClientSessions, "proposed", proposed)


def ignored_truncation() -> Undo:
    """A leader's word that entries are void changes nothing."""

    def carry_out(group: Any, effect: Any) -> None:
        if not isinstance(effect, Truncate):
            original(group, effect)

    original = member.Member._carry_out
    return replace(member.Member, "_carry_out", carry_out)


def snapshot_without_sessions() -> Undo:
    """A snapshot does not say how far sessions got."""

    def wrap_head(first: int, members: Any, sessions: Any) -> Any:
        return original(first, members, {})

    original = wrapping.wrap_head
    return replace(snapshots, "wrap_head", wrap_head)


def added_restore() -> Undo:
    """A queue's machine keeps what it had beside what a snapshot brings."""

    def go_on_with(queue: Any, fifo: Any, older: bool) -> None:
        for first, last, acquired, failed in queue.fifo.ready.quadruples():
            fifo.ready._fresh.push(first, last, acquired, failed)
            fifo.ready.count += last - first + 1
        original(queue, fifo, older)

    original = quorum.QuorumQueue._go_on_with
    return replace(quorum.QuorumQueue, "_go_on_with", go_on_with)


def alone_again() -> Undo:
    """A member that gives its log up for a snapshot remembers its first members."""

    def prepare(taken: Any, member: Any, offer: Any) -> None:
        member.log.reset_for_install()

    return replace(snapshots.Snapshots, "prepare_install", prepare)


def forgotten_pending() -> Undo:
    """A queue that a pending entry declared is started as if it were new."""

    def recover(self: Any, replayer: Any) -> None:
        original(self, replayer)
        self._replayer = None

    original = hosting.QueueHosting.recover
    return replace(hosting.QueueHosting, "recover", recover)


def what_is_gone_stays() -> Undo:
    """Queues that tables which came as a whole do not name never end."""
    return replace(hosting.QueueHosting, "_next_gone", lambda self: None)


def stale_holders() -> Undo:
    """A channel lets go of its consumers under the ids of a closed session."""
    return replace(channel.Channel, "link_renumbered", lambda *_: None)


def silent_transfer() -> Undo:
    """A snapshot whose answer was lost is not offered again."""
    undone = (
        replace(transfer.Transfers, "greeted", lambda *_: None),
        replace(transfer.Transfers, "tick", lambda *_: None),
    )

    def undo() -> None:
        for each in undone:
            each()

    return undo


def followers_hand_out_nothing() -> Undo:
    """Handing out is left to the leader, so that machines differ."""

    def apply(queue: Any, batch: Any, origin: Any) -> None:
        if queue.group.leads():
            original(queue, batch, origin)
            return
        dispatch, queue.fifo.dispatch = queue.fifo.dispatch, lambda: NO_EFFECTS
        try:
            original(queue, batch, origin)
        finally:
            queue.fifo.dispatch = dispatch

    original = quorum.QuorumQueue.apply
    return replace(quorum.QuorumQueue, "apply", apply)


def unheard_restart() -> Undo:
    """A node that began another life still owns what its last one held."""

    def over(host: Any, session: int) -> bool:
        return False

    return replace(cluster.Cluster, "session_over", over)


def replays_closed() -> Undo:
    """At a start, closed sessions keep their consumers."""
    return replace(replay, "close_sessions", lambda machine, sessions, now_ms, lost: None)


def waits_for_overtaken() -> Undo:
    """A snapshot that is void, for a newer one came, is still waited for."""

    def prepare(taken: Any, member: Any, offer: Any) -> None:
        before = taken._taken_over
        original(taken, member, offer)
        taken._taken_over = before

    def forget(taken: Any) -> None:
        before = taken._taken_over
        forgets(taken)
        taken._taken_over = before

    original = snapshots.Snapshots.prepare_install
    forgets = snapshots.Snapshots.forget
    undone = (
        replace(snapshots.Snapshots, "prepare_install", prepare),
        replace(snapshots.Snapshots, "forget", forget),
    )

    def undo() -> None:
        for each in undone:
            each()

    return undo


def clears_by_pending_tombstones() -> Undo:
    """Files go although what they hold is void only by a tombstone that is not durable."""
    return replace(group_log.GroupLog, "tombstones_pending", False)


def unchecked_bodies() -> Undo:
    """What is read back for a delivery is not compared with its checksum."""

    class Trusting(Header):
        def checksum_holds(self, data: bytes, at: int) -> bool:
            return True

    return replace(reading, "Header", Trusting)


def kept_by_the_gone() -> Undo:
    """What consumers of a closed session held does not return."""

    def down_all(fifo: Any, consumer_ids: list[int], now_ms: int, failed: bool) -> Effects:
        for consumer_id in consumer_ids:
            fifo.consumers[consumer_id].active = False
        return NO_EFFECTS

    return replace(Fifo, "down_all", down_all)


def returns_unmarked() -> Undo:
    """What consumers of a closed session held comes again as if for the first time."""

    def take_back(fifo: Any, consumer_id: int) -> Any:
        strand = original(fifo, consumer_id)
        if strand is not None:
            for run in itertools.chain(*strand.rest()):
                run.acquired = -1
        return strand

    original = Fifo._take_back
    return replace(Fifo, "_take_back", take_back)


def snapshot_without_a_run() -> Undo:
    """A snapshot for another node leaves the last of its live messages out."""

    def go_on(live: Any) -> bool:
        over = original(live)
        if over:
            live.runs = RunList(live.runs.data[:-PAIR_BYTES])
        return over

    original = restoring.StateRuns.go_on
    return replace(restoring.StateRuns, "go_on", go_on)


def ready_after_a_part() -> Undo:
    """A machine goes on from a state of which only the first part was read."""

    def go_on(reading: Any) -> bool:
        original(reading)
        return True

    original = restoring.Restoring.go_on
    return replace(restoring.Restoring, "go_on", go_on)


def dropped_with_the_session() -> Undo:
    """What a node had under way when its session was closed is not submitted again."""

    def next_epoch(own: Any, session: int) -> None:
        own.take_all()
        original(own, session)

    original = proposals.Proposals.next_epoch
    return replace(proposals.Proposals, "next_epoch", next_epoch)


def unattached_again() -> Undo:
    """A node whose session was closed does not attach its consumers in the next."""
    return replace(quorum.QuorumQueue, "session_renewed", lambda queue: None)


def stale_get() -> Undo:
    """A node answers `basic.get` from its own copy, without asking the group."""

    def get(queue: Any, consumer_id: int, waiter: Any) -> None:
        waiter.succeeded(PollReply(queue.fifo.get(consumer_id, -1)))

    return replace(quorum.QuorumQueue, "get", get)


def line_holds_on() -> Undo:
    """A classic queue's node keeps what it handed out over a line that is gone."""

    def leave(served: Any, room: int) -> int:
        served.closed = True
        return 1

    return replace(serving.ServedQueue, "leave", leave)


def confirms_what_it_sends() -> Undo:
    """A node confirms messages for a classic queue of another as soon as they are on their way."""

    def seal(queue: Any) -> None:
        unsealed = queue._unsealed
        runs, unsealed.runs = unsealed.runs, []
        original(queue)
        for run in runs:
            run.safe()

    original = proxy.ProxyQueue._seal_messages
    return replace(proxy.ProxyQueue, "_seal_messages", seal)


def confirms_what_is_lost() -> Undo:
    """What was under way over a line when it broke is confirmed."""
    original = proxy.ProxyQueue._answer_all
    return replace(proxy.ProxyQueue, "_answer_all", lambda queue, _: original(queue, False))


def returns_out_of_order() -> Undo:
    """A classic queue has what it takes back behind what it has not handed out yet."""

    def put_back(waiting: Any, run: Any, place: int) -> None:
        if place == BY_NUMBER:
            run.acquired = 0
        original(waiting, run, AT_BACK if place == BY_NUMBER else place)

    original = Ready.put_back
    return replace(Ready, "put_back", put_back)


def reads_what_it_has() -> Undo:
    """A node answers `table.read` for rows it has not heard of yet with those it has."""

    def handle(channel: Any, method: Any) -> None:
        if isinstance(method, spec.TableRead):
            class_table._read(channel, class_table._queue(channel, method.queue), method)
        else:
            original(channel, method)

    original = class_table.handle
    return replace(class_table, "handle", handle)


def acts_on_old_tables() -> Undo:
    """A queue's leader changes its members by whatever tables its node has."""

    def settled(membership: Any, member: Any, *others: Any) -> Any:
        membership._confirmed[int(member.group_id)] = member.raft.term
        return original(membership, member, *others)

    original = membership.Membership._settled
    return replace(membership.Membership, "_settled", settled)


def eager_deletion() -> Undo:
    """A deletion takes whatever queue has the name when it is committed."""

    def delete(tables: Any, command: Any, outcome: Any) -> None:
        queue = tables.queue(command.vhost, command.name)
        if queue is not None:
            command = DeleteQueue(queue.vhost, queue.name, queue.group_id, queue.durable)
        original(tables, command, outcome)

    original = machine.MetadataMachine._delete_queue
    return replace(machine.MetadataMachine, "_delete_queue", delete)


def open_to_all() -> Undo:
    """Exclusive queues may be used by every connection."""
    return replace(checks, "_check_owner", lambda *_: None)


def outlives_its_connection() -> Undo:
    """An exclusive queue stays when its connection goes while another change is under way."""

    def delete_owned(own: Any, vhost: str, connection: int) -> None:
        if not own.pending:
            original(own, vhost, connection)

    original = removals.QueueRemovals.delete_owned
    return replace(removals.QueueRemovals, "delete_owned", delete_owned)


def outlives_its_process() -> Undo:
    """A node that starts again finds its transient queues in the tables as they were."""

    def up(nodes: Any, vhosts: Any, *others: Any) -> Any:
        return original(nodes, {}, *others)

    original = machine.node_up
    return replace(machine, "node_up", up)


QUORUM = {"groups": False, "classic_queues": 0}
"""Quorum queues alone, and no readers."""
CLASSIC = {"groups": False, "classic_queues": 1}
LEASES = {"groups": True, "lease_ms": 5_000}
SMALL_FILES = {"wal_max_bytes": 8_192, "compact_interval_ms": 100}
FAST = {"gap_us": 2_000, "delay_us": 1_000, "jitter_us": 2_000}
"""Clients and network are."""

PLANTED = {
    unpersisted_vote: Where(2),
    failed_writes_are_good: Where(1, 150, (DISK_FAILS,)),
    early_apply: Where(),
    confirms_at_submit: Where(4),
    stamps_by_wall: Where(1, 150, (CLOCK, TRANSFER)),
    damage_unheeded: Where(10, 250, (SPOIL, KILL, CUT)),
    same_name: Where(2, 250, (WIPE, KILL, CUT)),
    leases_by_wall: Where(399, 300, (CLOCK, TRANSFER, LOSE, KILL), LEASES),
    lost_resend: Where(3, 100, (CUT, TRANSFER), QUORUM),
    unchecked_sequence: Where(5, 150, (CUT, TRANSFER, KILL)),
    open_sessions: Where(15, 120, (KILL, STOP), QUORUM | {"clients": 2}),
    reopened_sessions: Where(5, 150, (PARTITION, PAUSE), {"silence_us": 1_500_000}),
    ignored_truncation: Where(
        21,
        300,
        (PARTITION, KILL, PAUSE),
        {
            "groups": False,
            "clients": 3,
            "gap_us": 2_000,
            "fault_us": 100_000,
            "silence_us": 1_500_000,
            "longest_us": 2_000_000,
        },
    ),
    snapshot_without_sessions: Where(
        4,
        300,
        (MEMBERS, TRANSFER, KILL),
        QUORUM
        | SMALL_FILES
        | {
            "clients": 3,
            "gap_us": 2_000,
            "fault_us": 30_000,
            "large_share": 0.1,
            "large_bytes": 9_000,
        },
    ),
    added_restore: Where(
        4,
        200,
        (POWER, BLACKOUT, REPLACE),
        SMALL_FILES | {"groups": False, "clients": 2, "large_share": 0.1, "large_bytes": 9_000},
    ),
    raft_unheeded: Where(2, 400, (DAMAGE, POWER)),
    forgotten_pending: Where(),
    what_is_gone_stays: Where(21, 250, (POWER, KILL, STOP), SMALL_FILES | {"clients": 2}),
    followers_hand_out_nothing: Where(4),
    unheard_restart: Where(15, 120, (KILL, STOP), QUORUM | {"clients": 2}),
    replays_closed: Where(),
    kept_by_the_gone: Where(1, 120, (KILL, POWER), QUORUM | {"clients": 3}),
    returns_unmarked: Where(18, 60, (KILL, STOP), QUORUM | {"clients": 2}),
    ready_after_a_part: Where(16, 150, (POWER, KILL, REPLACE), SMALL_FILES),
    snapshot_without_a_run: Where(15, 150, (POWER, KILL, REPLACE), SMALL_FILES),
    stale_get: Where(
        1, 150, (CUT, LOSE), QUORUM | {"clients": 3, "gap_us": 2_000, "jitter_us": 2_000}
    ),
    line_holds_on: Where(
        4, 200, (CUT,), CLASSIC | {"clients": 3, "gap_us": 6_000, "fault_us": 30_000}
    ),
    confirms_what_it_sends: Where(1),
    confirms_what_is_lost: Where(
        2,
        250,
        (CUT, KILL),
        {
            "groups": False,
            "quorum_queues": 1,
            "classic_queues": 2,
            "renewed": ["classic", "transient"],
            "clients": 3,
            "gap_us": 2_000,
            "delay_us": 5_000,
            "jitter_us": 2_000,
            "fault_us": 30_000,
        },
    ),
    returns_out_of_order: Where(3, 150, (LOSE, CUT), CLASSIC | {"clients": 2}),
    eager_deletion: Where(
        5,
        400,
        (CUT, PARTITION),
        FAST
        | {
            "renewed": ["quorum"],
            "exclusive": False,
            "groups": False,
            "clients": 1,
            "disk_us": 100,
            "fault_us": 100_000,
            "longest_us": 300_000,
        },
    ),
    open_to_all: Where(12, 100, (LOSE,), {"exclusive": True}),
    outlives_its_connection: Where(14, 150, (LOSE, CUT), {"exclusive": True}),
    outlives_its_process: Where(1, 100, (KILL,), {"renewed": ["transient"], "fault_us": 60_000}),
}
"""With each bug where it shows soon; see `hunt`."""

RARE = (
    dropped_with_the_session,
    stale_holders,
    silent_transfer,
    alone_again,
    waits_for_overtaken,
    clears_by_pending_tombstones,
    unchecked_bodies,
    unattached_again,
    reads_what_it_has,
    acts_on_old_tables,
)
"""It takes more seeds to find these than a test has time for; `hunt` does."""
