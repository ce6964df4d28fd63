"""The cluster's tables on this node: their log, their machine, and the queues they call for.

A change is checked, logged, and applied when it is durable, in the log's order. Applying creates
and deletes the queues of this node.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord, StorageError
from warren.ids import of_life
from warren.limits import CHANGES_AT_ONCE_MAX, TICK_GROUPS_MAX
from warren.log.batch import KIND_COMMAND, Batch
from warren.log.runlist import NO_RUNS, KnownRuns, LiveRuns
from warren.metadata import commands, placement
from warren.metadata.foreign_checks import foreign_command
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.metadata.passwords import SALT_BYTES
from warren.metadata.permissions import Authority, first_commands
from warren.metadata.spread import Spread
from warren.metadata.tables import ExchangeRecord, QueueRecord
from warren.node import copies
from warren.node.beginnings import Beginning
from warren.pending import PendingResult, Result
from warren.protocols.broker import ALARM_DISK
from warren.queue_types import type_of
from warren.queues.classic import ClassicQueue
from warren.queues.fifo.machine import Fifo
from warren.queues.logged import LoggedQueue
from warren.queues.proxy import Line, ProxyQueue
from warren.queues.queue import Queue
from warren.queues.transient import TransientQueue
from warren.raft.members import Member as Copy
from warren.replication.hard_state import HardState
from warren.replication.machine import Machine
from warren.replication.member import Member
from warren.replication.raft_entries import RAFT_SESSION
from warren.replication.recovered import Recovered
from warren.versions import too_new
from warren.vhost.pending import Resumable

if TYPE_CHECKING:
    from warren.node.node import Node
    from warren.node.replay import NodeReplayer

METADATA_GROUP: Final = 1
"""The log group of the tables; queues have higher ones."""

LEAVE_EVERY_MS: Final = 1_000
"""How often others are asked whether a copy may go."""
NEVER_MS: Final = -LEAVE_EVERY_MS

COMMAND_KIND: Final = b"\x05"
"""Before a command that belongs to no session, between nodes; see `membership`."""


@final
class VirtualHost:
    """The queues of one vhost on this node, by name."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.queues: dict[str, Queue] = {}


@final
class Going:
    """A queue that is about to go.

    Attributes:
        changes: Commands on their way that delete it; 0 before its turn has come.
        waiting: Channels that go on when they are applied.
    """

    def __init__(self, record: QueueRecord) -> None:
        self.record: QueueRecord = record
        self.changes: i64 = 0
        self.waiting: list[Resumable] = []

    def let_go(self) -> None:
        """Channels that wait go on."""
        waiting = self.waiting
        self.waiting = []
        for channel in waiting:
            channel.go_on()


@final
class Tables(Machine):
    """See the module's head.

    Attributes:
        machine: The tables themselves; read only, `submit` changes them.
        authority: Answers for users and permissions.
        vhosts: Queues by vhost and name.
        logged: Queues with a group in the log, by group.
        removals: Queues about to go because their consumers or their connection went, by vhost and
            name.
    """

    def __init__(self, node: Node) -> None:
        self.machine: MetadataMachine = MetadataMachine()
        self._unfinished: Unfinished | None = None
        self._anew: MetadataMachine | None = None
        """What has been told of a log that began anew and is behind `machine`."""
        self.authority: Authority = Authority(self.machine)
        self.vhosts: dict[str, VirtualHost] = {}
        self.logged: dict[int, LoggedQueue] = {}
        self.removals: dict[tuple[str, str], Going] = {}
        self._to_remove: dict[QueueRecord, None] = {}
        """Further ones, whose turn has not come."""
        self._owners_gone: dict[tuple[str, int], None] = {}
        """Vhosts and connections that are gone and have still further ones."""
        self._removing: i64 = 0
        """How many are under way."""
        self._lacking: dict[int, None] = {}
        """Quorum queues that lack the copy that should be here, by group."""
        self._to_leave: dict[int, int] = {}
        """Quorum queues with a copy here that should not be, by group; when its members were asked
        last whether it may go."""
        self._leased: dict[Queue, None] = {}
        """Queues with groups of readers, whose leases may run out."""
        self._node: Node = node
        self._member: Member | None = None
        self._announcing: bool = False
        self._replayer: NodeReplayer | None = None
        """What the log holds of queues that the tables do not name yet."""
        self._last_group: i64 = 0

    # Life.

    def recover(self, replayer: NodeReplayer) -> None:
        """Take over what the log holds, and start the queues that belong to it.

        Raises:
            StorageError: The log was written by a later version.
        """
        machine = self.machine
        node = self._node
        log = node.log
        if replayer.tables_state:
            machine.restore(replayer.tables_state)
        for index, payload in replayer.tables_entries:
            machine.apply(index, self._logged(index, payload))
        replayer.tables_entries = []
        self._check_version()
        if node.settings.former_uid:
            self._begin_anew(replayer)
        recovered = replayer.groups.get(METADATA_GROUP)
        fresh = recovered is None
        if recovered is None:
            recovered = Recovered(self._first_hard_state(), node.settings.node_name)
        group = log.group(METADATA_GROUP)
        member = node.cluster.add(group, self, recovered)
        member.give_in_lots(node.settings.changes_at_once)
        self._member = member
        self._replayer = replayer
        if fresh:
            member.save_hard_state(None)
        node.cluster.watch_nodes()
        self._know_pending(recovered)
        for name, record in machine.vhosts.items():
            self.vhosts[name] = VirtualHost(name)
            for queue_record in record.queues.values():
                self._start(queue_record)
        node.cluster.start(member)

    def _begin_anew(self, replayer: NodeReplayer) -> None:
        """Give up tables that are not to be trusted; the places of other nodes stay known."""
        for record in self.machine.nodes.values():
            self._node.cluster.know(record.name, record.host, record.port)
        self.machine.restore(self.first_state())
        replayer.groups.pop(METADATA_GROUP, None)
        if self._node.log.has_group(METADATA_GROUP):
            copies.empty(self._node.log.group(METADATA_GROUP), self._first_hard_state())

    def _know_pending(self, recovered: Recovered) -> None:
        """Heed what entries say of nodes that are not known to be committed.

        It takes those nodes to tell, and each life that was announced has begun.
        """
        for batch in recovered.pending:
            if batch.session != RAFT_SESSION:
                command = self._logged(batch.index, batch.body())
                if isinstance(command, (commands.AddNode, commands.NodeMoved)):
                    self._node.cluster.know(command.name, command.host, command.port)
                self._node.membership.note_pending(command)

    def _first_hard_state(self) -> HardState:
        """What an empty data directory begins with: a cluster of its own, or nothing yet."""
        settings = self._node.settings
        incarnation = int.from_bytes(self._node.random.bytes(7), "little") + 1
        if settings.join or settings.former_uid:
            return HardState(incarnation, [])
        return HardState(incarnation, [Copy(settings.node_name, incarnation, True)])

    @property
    def settled(self) -> bool:
        """Whether all that this node wanted changed is in force."""
        return len(self.machine.vhosts) > 0 and len(self._tables_member().proposals) == 0

    def has_majority_without(self, name: str) -> bool:
        """Whether the cluster works, as far as this node sees, and goes on doing so without one."""
        cluster = self._node.cluster
        member = self._tables_member()
        raft = member.raft
        if cluster.session == 0 or raft.leader in ("", name) or member.applies_later():
            return False
        voters = [copy.node for copy in raft.members if copy.voter]
        running = 0
        for voter in voters:
            if voter != name and (voter == cluster.name or cluster.detector.is_up(voter)):
                running += 1
        return 2 * running > len(voters)

    def furnished(self) -> bool:
        """Whether every quorum queue that should have a copy on this node has one."""
        for group_id in self._lacking:
            if not self._node.repairs.halts(group_id):
                return False
        return True

    def furnish(self, record: QueueRecord) -> bool:
        """Begin a quorum queue's copy that is to be on this node and is not; whether it was not."""
        lacking = self._lacks(self.vhosts[record.vhost], record)
        if lacking:
            self._start(record)
        return lacking

    def submit(self, command: commands.Command, change: PendingResult | None) -> None:
        """Have a change logged; `change` is told when it is in force here."""
        payload = commands.encode(command)
        self._tables_member().submit(KIND_COMMAND, 0, b"", payload, Submitted(command, change))
        self._node.appended(True)
        self._node.needs_turn = True

    def submitted(self) -> list[Submitted]:
        """What this node wants changed and is not in force yet."""
        origins = self._tables_member().proposals.origins()
        return [origin for origin in origins if isinstance(origin, Submitted)]

    def withdraw(self, submitted: Submitted) -> bool:
        """Give a change up; False if it may come into force yet."""
        return self._tables_member().proposals.withdraw(submitted)

    def announce(self) -> None:
        """Until the cluster knows this life of the node: say that it has begun."""
        node = self._node
        member = self._tables_member()
        machine = self.machine
        settings = node.settings
        if node.cluster.session or self._announcing or not member.raft.leader:
            return
        if member.raft.is_leader and not machine.cluster_id and not machine.nodes:
            if not member.raft.can_propose():
                return
            member.propose_plain(
                commands.encode(
                    commands.BeginCluster(node.random.bytes(16), settings.cluster_version_max)
                )
            )
            add = commands.AddNode(
                settings.node_name,
                node.uid,
                settings.cluster_host,
                settings.cluster_port,
                member.hard_state.incarnation,
            )
            member.propose_plain(commands.encode(add))
        if member.raft.is_leader or settings.node_name in machine.nodes:
            up = commands.NodeUp(
                settings.node_name,
                node.uid,
                node.nonce,
                settings.boot,
                int(node.first_round),
                settings.cluster_version_max,
            )
            self._announcing = self._have_done(up)

    def _raise_version(self) -> None:
        """As leader: have the cluster move up to the newest version that all its nodes know."""
        member = self._tables_member()
        common = self.machine.common_version()
        if common > self.machine.version and member.raft.can_propose():
            member.propose_plain(commands.encode(commands.RaiseVersion(common)))

    def _check_version(self) -> None:
        """Go no further with a cluster that has moved on to what this node does not know.

        Raises:
            StorageError: It has.
        """
        known = self._node.settings.cluster_version_max
        if self.machine.version > known:
            raise StorageError(too_new("the cluster", self.machine.version, known))

    def _have_done(self, command: commands.Command) -> bool:
        """Have the leader log a command, which may get lost; whether it was sent off."""
        member = self._tables_member()
        payload = commands.encode(command)
        if member.raft.is_leader:
            return member.propose_plain(payload)
        leader = member.raft.leader
        return leader != "" and self._node.cluster.send(leader, [COMMAND_KIND, payload])

    def _ask_for_sessions(self) -> None:
        """Until the tables give this life of the node further sessions: ask, if it needs some."""
        cluster = self._node.cluster
        if cluster.wants_sessions:
            name = self._node.settings.node_name
            self._have_done(commands.MoreSessions(name, self._node.nonce, cluster.newest))

    def leadership(self, member: Member) -> None:
        """Who leads a group is known anew."""
        if member.raft.is_leader:
            # What the group decides is decided here from now on.
            self._node.observers.arrived(member.group_id)
        self._node.membership.unsettle(int(member.group_id))
        record = self.record_of(int(member.group_id))
        if record is not None and not self.is_elsewhere(record):
            copies.replace(self._node, record)
        if member.group_id == METADATA_GROUP:
            self._announcing = False
            self.announce()
            self._ask_for_sessions()
            self._raise_version()
            if not member.raft.leader:
                self._let_go()

    def members_changed(self, member: Member) -> None:
        """Another configuration of a group is in force."""
        self._node.membership.unsettle(int(member.group_id))

    def member(self) -> Member:
        """This node's member of the tables' group."""
        return self._tables_member()

    def desired(self, group_id: int) -> list[Copy]:
        """The members a group should have; empty if it is gone."""
        if group_id == METADATA_GROUP:
            voting = self._tables_voters()
            nodes = self.machine.nodes.values()
            return [
                Copy(record.name, record.incarnation, record.name in voting) for record in nodes
            ]
        record = self.record_of(group_id)
        if record is None:
            return []
        return [Copy(row.node, row.incarnation, row.voter) for row in record.members]

    def _tables_voters(self) -> dict[str, None]:
        """The nodes that are to vote in the group of the tables; those that do go on if they may.

        Of others those come first that run, and that share no host and few zones with voters.
        """
        nodes = self.machine.nodes
        voting: dict[str, None] = {}
        most = self._node.settings.tables_voters
        if len(nodes) <= most:
            for name in nodes:
                voting[name] = None
            return voting
        raft = self.member().raft
        own = self._node.settings.node_name
        if own in nodes:
            # It leads, and need not hand that over.
            voting[own] = None
        for copy in raft.members:
            record = nodes.get(copy.node)
            if copy.voter and record is not None and len(voting) < most:
                voting[copy.node] = None
        running = self._node.queue_members.running()
        spread = Spread(nodes, list(voting))
        while len(voting) < most:
            left = [name for name in nodes if name not in voting]
            chosen = spread.best([name for name in left if name in running] or left)[0]
            voting[chosen] = None
            spread.add(chosen)
        return voting

    def record_of(self, group_id: int) -> QueueRecord | None:
        """What the tables say of a queue with a group in the log here."""
        queue = self.logged.get(group_id)
        record = None if queue is None else self.machine.queue(queue.vhost, queue.name)
        return None if record is None or record.group_id != group_id else record

    def live(self, group_id: int) -> LiveRuns:
        """Messages of a group that are needed, also where its queue is yet to be heard of."""
        queue = self.logged.get(group_id)
        if queue is not None:
            return queue.gather_live()
        fifo = None if self._replayer is None else self._replayer.machines.get(group_id)
        return KnownRuns(NO_RUNS) if fifo is None else fifo.gather_live([], [])

    def refuses(self, group_id: i64) -> bool:
        """Whether the disk is full and a queue's messages would go there."""
        return self._node.alarms() & ALARM_DISK != 0 and group_id in self.logged

    def write_clean_snapshots(self) -> None:
        """At an orderly stop, note what only this process knows."""
        for queue in self.logged.values():
            if not queue.deleted:
                queue.snapshot_clean()

    def tick(self, now_ms: int) -> None:
        """Give back what abandoned readers have checked out; announce again what got lost.

        Args:
            now_ms: Monotonic time.
        """
        for queue in list(self._leased):
            if queue.deleted or not queue.expire_leases(now_ms):
                del self._leased[queue]
        self._announcing = False
        self.announce()
        self._ask_for_sessions()
        self._raise_version()

    def leased(self, queue: Queue) -> None:
        """Readers have taken over a group of a queue: mind their leases."""
        self._leased[queue] = None

    # The machine.

    def check_proposal(self, kind: i64, payload: bytes) -> None:
        """Refuse what no node would submit to the tables."""
        if kind != KIND_COMMAND:
            raise CorruptRecord("a proposal to the tables", 0, "messages")
        foreign_command(payload)

    def apply(self, batch: Batch, origin: object | None) -> None:
        """A change is committed: put it in force."""
        command = origin.command if isinstance(origin, Submitted) else None
        if command is None:
            command = self._logged(batch.index, batch.body())
        anew = self._anew
        if anew is None:
            outcome = self.machine.begin(batch.index, command)
            self._check_version()
            self._act(outcome, batch.index)
            if self.machine.unfinished():
                self._unfinished = Unfinished(origin, outcome)
                return
        else:
            outcome = anew.apply(batch.index, command)
            if anew.applied_index >= self.machine.applied_index:
                self.restore(anew.snapshot())
        _tell(origin, outcome)

    def unfinished(self) -> bool:
        """Whether there is more to do of the last change, as one of a node with many queues."""
        return self._unfinished is not None

    def apply_rest(self) -> None:
        """Put the next part of the last change in force."""
        unfinished = self._unfinished
        assert unfinished is not None, "the member asks before"
        self._act(self.machine.go_on(), self.machine.applied_index)
        if not self.machine.unfinished():
            self._unfinished = None
            _tell(unfinished.origin, unfinished.outcome)

    def _logged(self, index: i64, payload: bytes) -> commands.Command:
        """The command of an entry; one without effect for what is none.

        Only a leader that lies would log such a thing. All nodes leave it out alike.

        Raises:
            StorageError: A later version of Warren wrote it.
        """
        try:
            return commands.decode(payload)
        except CorruptRecord as error:
            self._node.log_warning(f"entry {index} of the tables is left out: {error}")
            return commands.Barrier()

    def state(self) -> bytes:
        """The tables, for a snapshot."""
        return (self.machine if self._anew is None else self._anew).snapshot()

    def first_state(self) -> bytes:
        """Tables with nothing in them."""
        return MetadataMachine().snapshot()

    def restore(self, state: bytes) -> None:
        """Go on from a leader's snapshot: queues come and go by the difference."""
        while self._unfinished is not None:
            self.apply_rest()
        if self.machine.nodes and state == self.first_state():
            # Begun anew. What is here stays in force, for clients too, until the log has told as
            # much again.
            self._anew = MetadataMachine()
            return
        if self._anew is not None:
            told = MetadataMachine()
            told.restore(state)
            if told.applied_index < self.machine.applied_index:
                # Older than what is in force here. What it does not name yet, copies of queues
                # above all, is not gone: it comes with the entries behind it.
                self._anew = told
                return
            self._anew = None
        self.machine.restore(state)
        self._check_version()
        self._take_over_queues()
        self._node.cluster.tables_anew()
        self._node.cluster.watch_nodes()
        own = self.machine.nodes.get(self._node.settings.node_name)
        if own is not None and own.nonce == self._node.nonce:
            self._begin_session(own.session)
            self._node.cluster.sessions_given(own.newest)
        self._node.membership.nodes_changed()
        self._node.reconciler.nodes_changed()
        self._node.reconciler.trigger()
        self._node.policies.changed()
        for group_id in self.logged:
            self._node.membership.unsettle(group_id)
        self._node.cluster.close_sessions()
        self.announce()

    def _take_over_queues(self) -> None:
        """Start and stop queues as tables that came as a whole demand.

        Clients that hear that a queue is gone go on at once, with any queue that the tables name:
        those are started first.
        """
        gone: list[Queue] = []
        for here in self.vhosts.values():
            for queue in list(here.queues.values()):
                now = self.machine.queue(here.name, queue.name)
                if now is None or now.group_id != queue.group_id:
                    del here.queues[queue.name]
                    gone.append(queue)
        kept: list[QueueRecord] = []
        for name, tables in self.machine.vhosts.items():
            vhost = self.vhosts.get(name)
            if vhost is None:
                vhost = VirtualHost(name)
                self.vhosts[name] = vhost
            for record in tables.queues.values():
                if self._lacks(vhost, record):
                    self._start(record)
                else:
                    kept.append(record)
        for record in kept:
            self._keep_copy(record)
        for queue in gone:
            self._end(queue)

    def live_in(self, state: bytes) -> list[tuple[int, int]]:
        """The tables' log has no messages."""
        return []

    def sessions_closed(self, sessions: list[int]) -> None:
        """The tables keep nothing by session."""

    def elected(self) -> None:
        """The tables need nothing set up."""

    def session_renewed(self) -> None:
        """The tables keep nothing of their own session."""

    def skipped(self, origin: object | None) -> None:
        """A change is part of a snapshot: in force, as far as it could be."""
        _tell(origin, Outcome())

    def abandoned(self, origin: object | None) -> None:
        """The tables are never gone."""

    # Queues.

    def new_group(self) -> i64:
        """The incarnation of a queue that is about to be declared."""
        self._last_group += 1
        return of_life(self._node.cluster.session, self._last_group)

    def place(self, command: commands.DeclareQueue) -> None:
        """Say where a queue about to be declared will live."""
        node = self._node
        own = node.settings.node_name
        by_load = type_of(command.kind).replicated and placement.counts(self.machine)
        suspected = node.cluster.detector.suspected
        placement.place(
            command,
            self.machine,
            [name for name in self.machine.nodes if name == own or not suspected(name)],
            own,
            node.settings.quorum_size,
            node.settings.leader_locator,
            command.group_id,
            node.random.bytes(placement.SEED_BYTES),
            node.cluster.leaders() if by_load else {},
        )

    def delete_unused(self, queue: Queue) -> None:
        """Delete an auto-delete queue without consumers."""
        record = self.machine.queue(queue.vhost, queue.name)
        if record is not None and record.group_id == queue.group_id:
            self._remove(record)

    def delete_owned(self, vhost: str, connection: i64) -> None:
        """Delete the exclusive queues of a connection that is gone (PROP-03)."""
        self._owners_gone[(vhost, int(connection))] = None
        self._remove_more()

    def _remove(self, record: QueueRecord) -> None:
        """Delete a queue that nobody asked to delete; who asks for it meanwhile waits."""
        self._to_remove[record] = None
        self._remove_more()

    @property
    def removing(self) -> bool:
        """Whether any queue is about to go."""
        return len(self.removals) > 0 or len(self._to_remove) > 0 or len(self._owners_gone) > 0

    def going(self, vhost: str, name: str) -> Going | None:
        """A queue of this name, if it is about to go."""
        found = self.removals.get((vhost, name))
        if found is None and (self._to_remove or self._owners_gone):
            record = self.machine.queue(vhost, name)
            if record is not None:
                if (vhost, int(record.exclusive_owner)) in self._owners_gone:
                    # Somebody is about to wait for it: from here on it is seen to by itself.
                    self._to_remove[record] = None
                if record in self._to_remove:
                    found = self._note_going(record)
        return found

    def _note_going(self, record: QueueRecord) -> Going:
        name = (record.vhost, record.name)
        going = self.removals.get(name)
        if going is None:
            going = Going(record)
            self.removals[name] = going
        return going

    def _remove_more(self) -> None:
        """Submit what is to be removed, as far as there is not too much under way."""
        while self._removing < CHANGES_AT_ONCE_MAX:
            if not self._to_remove and not self._note_owned():
                break
            self._removing += 1
            record, _ = self._to_remove.popitem()
            going = self._note_going(record)
            going.changes += 1
            self.submit(
                commands.DeleteQueue(record.vhost, record.name, record.group_id, record.durable),
                Removal(self, going),
            )

    def _note_owned(self) -> bool:
        """Note some queues of a connection that is gone as to be removed; whether there are any.

        Those already under way are fewer than what is looked at, so that some are new if not all
        of the connection's were looked at.
        """
        while self._owners_gone and not self._to_remove:
            owner, _ = self._owners_gone.popitem()
            owned = self.machine.queues_of_owner(owner[0], owner[1])
            for record in islice(owned, 2 * CHANGES_AT_ONCE_MAX):
                going = self.removals.get((record.vhost, record.name))
                if going is None or going.changes == 0 or going.record is not record:
                    self._to_remove[record] = None
            if len(owned) > 2 * CHANGES_AT_ONCE_MAX:
                self._owners_gone[owner] = None
        return len(self._to_remove) > 0

    def removed(self, going: Going) -> None:
        """One such queue is gone: channels that wait for that go on."""
        self._removing -= 1
        self._remove_more()
        going.changes -= 1
        if going.changes == 0:
            del self.removals[(going.record.vhost, going.record.name)]
            going.let_go()

    def _let_go(self) -> None:
        """There is no leader: nobody waits for a change now."""
        for going in list(self.removals.values()):
            going.let_go()

    def going_with(self, vhost: str, exchange: str) -> Going | None:
        """A queue about to go whose last binding may take an auto-delete exchange along."""
        exchanges = self.machine.vhosts[vhost].exchanges
        wanted = exchanges.get(exchange)
        if wanted is None or not wanted.bound:
            return None
        if self._owners_gone:
            return self._going_behind(vhost, wanted)
        leaving = [going.record for going in self.removals.values()]
        leaving.extend(self._to_remove)
        for queue in leaving:
            if queue.vhost != vhost or not queue.incoming:
                continue
            sources = [binding.source for binding in queue.incoming]
            seen: set[str] = set()
            while sources:
                source = sources.pop()
                if source == exchange:
                    return self._note_going(queue)
                record = exchanges.get(source)
                if record is not None and record.auto_delete and source not in seen:
                    seen.add(source)
                    sources.extend(binding.source for binding in record.incoming)
        return None

    def _going_behind(self, vhost: str, exchange: ExchangeRecord) -> Going | None:
        """The same, by what the exchange leads to: there are too many queues about to go."""
        exchanges = self.machine.vhosts[vhost].exchanges
        sources = [exchange]
        seen = {exchange.name}
        while sources:
            for binding in sources.pop().bound.values():
                if not binding.to_exchange:
                    going = self.going(vhost, binding.destination)
                    if going is not None:
                        return going
                elif binding.destination not in seen:
                    seen.add(binding.destination)
                    target = exchanges[binding.destination]
                    if target.auto_delete:
                        sources.append(target)
        return None

    def _tables_member(self) -> Member:
        member = self._member
        assert member is not None, "the tables are recovered first"
        return member

    def snapshot(self) -> i64:
        """Write the tables into the log, so that older entries can go; gives their size."""
        return self._tables_member().snapshot()

    def _begin_session(self, session: i64) -> None:
        """The cluster knows this life of the node."""
        node = self._node
        if node.cluster.session:
            return
        node.cluster.session_begun(session)
        replayer = self._replayer
        doubtful = replayer is not None and len(replayer.doubts) > 0
        if replayer is not None:
            self._replayer = None
            forgetting = replayer.forgetting()
            if forgetting is not None:
                node.do_in_parts(forgetting)
        node.cluster.begin(Beginning(node, doubtful))
        if not self.machine.vhosts:
            settings = node.settings
            for command in first_commands(
                node.random.bytes(SALT_BYTES),
                settings.default_vhost,
                settings.default_user,
                settings.default_password,
                settings.default_user in settings.loopback_users,
            ):
                self.submit(command, None)

    def _act(self, outcome: Outcome, index: i64) -> None:
        """Start and stop queues as a change demands."""
        created = outcome.created_queue
        if created is not None and not self._has(created):
            self._start(created)
        if created is not None and created.type.replicated:
            self._node.reconciler.trigger()
        for record in outcome.deleted_queues:
            vhost = self.vhosts.get(record.vhost)
            if vhost is not None:
                self._stop(vhost, record)
        for name in self.machine.vhosts:
            if name not in self.vhosts:
                self.vhosts[name] = VirtualHost(name)
        if outcome.nodes_changed:
            self._node.cluster.watch_nodes()
            self._node.membership.nodes_changed()
            self._node.reconciler.nodes_changed()
            self.announce()
            self._raise_version()
        for record in outcome.members_changed:
            self._members_set(record)
        if outcome.policies_changed:
            self._node.policies.changed()
            self._node.reconciler.trigger()
        up = outcome.node_up
        if up is not None:
            if up.name == self._node.settings.node_name and up.nonce == self._node.nonce:
                self._begin_session(index)
            self._node.cluster.close_sessions()
            self._raise_version()
        given = outcome.more_sessions
        if given is not None:
            if given.name == self._node.settings.node_name:
                self._node.cluster.sessions_given(index)
            # What it was given before the last time is over, except what began its life.
            self._node.cluster.close_sessions()

    def _members_set(self, record: QueueRecord) -> None:
        """A queue's members should be others."""
        self._node.membership.unsettle(int(record.group_id))
        if not self.furnish(record):
            self._keep_copy(record)

    def _keep_copy(self, record: QueueRecord) -> None:
        """Hold what there is of a quorum queue here against the tables."""
        if not record.type.replicated:
            return
        self._node.observers.changed(record)
        if self.is_elsewhere(record):
            if int(record.group_id) in self.logged:
                self._to_leave.setdefault(int(record.group_id), NEVER_MS)
            else:
                self._forget_proxy(record)
        else:
            copies.replace(self._node, record)
        self._note_copy(record)

    def _note_copy(self, record: QueueRecord) -> None:
        """Remember whether a quorum queue lacks its copy here; its members may be others."""
        if self.is_elsewhere(record) or copies.copy_here(self._node, record) is not None:
            self._lacking.pop(int(record.group_id), None)
        else:
            self._lacking[int(record.group_id)] = None

    def is_elsewhere(self, record: QueueRecord) -> bool:
        """Whether it is a quorum queue that other nodes hold, and this one at most uses."""
        own = self._node.settings.node_name
        return record.type.replicated and record.member_on(own) is None

    def _has_left_over(self, record: QueueRecord) -> bool:
        """Whether the log holds a copy that is to go, and that its group may still count."""
        replayer = self._replayer
        if replayer is None or self._node.settings.former_uid:
            return False
        recovered = replayer.groups.get(int(record.group_id))
        return recovered is not None and not recovered.is_empty()

    def _forget_proxy(self, record: QueueRecord) -> None:
        """What stood for a copy that was to come refuses; the queue is observed from now on."""
        queues = self.vhosts[record.vhost].queues
        queue = queues.get(record.name)
        if queue is not None and self._node.observers.queue(record.group_id) is None:
            del queues[record.name]
            self.machine.vhosts[record.vhost].router.generation += 1

    def leave_queues(self, now_ms: i64) -> None:
        """Drop copies here that the tables name no more; who uses those queues goes on.

        In the place of some there is to be another one.

        A copy that votes goes on until its group has counted it out: others may need its vote for
        that. They say so when they are asked, since nothing reaches it any more.
        """
        for _ in range(min(len(self._to_leave), TICK_GROUPS_MAX)):
            group_id, asked_ms = next(iter(self._to_leave.items()))
            del self._to_leave[group_id]
            record = self.record_of(group_id)
            if record is None or not copies.is_to_go(self._node, record):
                continue
            if not self._node.cluster.session or now_ms - asked_ms < LEAVE_EVERY_MS:
                self._to_leave[group_id] = asked_ms
                continue
            member = self._node.cluster.members[group_id]
            if member.raft.is_leader or copies.counts_itself(member):
                self._to_leave[group_id] = int(now_ms)
                if not member.raft.is_leader:
                    self._node.queue_members.ask_to_leave(record, member)
            else:
                copies.give_way(self._node, record)

    def may_leave(self, group_id: int, incarnation: i64) -> None:
        """Another member has counted out a copy here, which the tables name no more."""
        record = self.record_of(group_id)
        member = self._node.cluster.members.get(group_id)
        if record is None or member is None or not copies.is_to_go(self._node, record):
            return
        if member.hard_state.incarnation == incarnation and not member.raft.is_leader:
            self._to_leave.pop(group_id, None)
            copies.give_way(self._node, record)

    def await_leave(self, record: QueueRecord) -> None:
        """Drop a copy here when its group has counted it out."""
        self._to_leave.setdefault(int(record.group_id), NEVER_MS)

    def listen(self, record: QueueRecord) -> None:
        """Hear of a quorum queue that other nodes hold, for an operator who asks."""
        if self.is_elsewhere(record):
            if record.name not in self.vhosts[record.vhost].queues:
                self.use(record.vhost, record.name)
            observer = self._node.observers.observer(record.group_id)
            if observer is not None:
                observer.wake()

    def use(self, vhost: str, name: str) -> Queue | None:
        """A queue that a client here wants to use and that nobody here has used before.

        Nothing is kept of quorum queues that other nodes hold until then.
        """
        record = self.machine.queue(vhost, name)
        if record is None or not self.is_elsewhere(record):
            return None
        queue = self._node.observers.begin(record)
        self.vhosts[vhost].queues[name] = queue
        return queue

    def _lacks(self, vhost: VirtualHost, record: QueueRecord) -> bool:
        """Whether a queue is not here, or a quorum queue only as one that has no member here."""
        if not record.type.replicated:
            return record.name not in vhost.queues
        if int(record.group_id) in self.logged:
            return False
        if self.is_elsewhere(record):
            # Tables that came as a whole may not have named the queue before.
            return self._has_left_over(record)
        return record.name not in vhost.queues or copies.copy_here(self._node, record) is not None

    def _start(self, record: QueueRecord) -> None:
        """Create a queue's object, with the machine that the log replayed if there was one."""
        if self.is_elsewhere(record) and not self._has_left_over(record):
            return
        queue: Queue
        remotes = self._node.remotes
        halted = self._node.repairs.halts(int(record.group_id))
        served = False
        if record.type.replicated:
            if self.is_elsewhere(record):
                self._to_leave[int(record.group_id)] = NEVER_MS
                queue = self._started(copies.start(self._node, record, self._replayer, None))
            elif copies.copy_here(self._node, record) is None:
                # It is used by its member here, and refuses until there is one.
                queue = self._proxy(record, remotes.no_line(record.node))
            else:
                used = self._node.observers.queue(record.group_id)
                queue = copies.start(self._node, record, self._replayer, used)
                self._started(self.logged[int(record.group_id)])
            self._note_copy(record)
        elif record.node != self._node.settings.node_name:
            proxy = self._proxy(record, remotes.line(record.node))
            if not halted:
                remotes.fronts(proxy)
            queue = proxy
        elif halted:
            # It refuses, too: its log is damaged.
            queue = self._proxy(record, remotes.no_line(record.node))
        elif not record.durable:
            queue = TransientQueue(self._node, record.vhost, record.name)
            queue.group_id = record.group_id
            served = True
        else:
            queue = self._started(self._start_classic(record, self._replayer))
            served = True
        queue.auto_delete = record.auto_delete
        vhost = self.vhosts.get(record.vhost)
        if vhost is None:
            vhost = VirtualHost(record.vhost)
            self.vhosts[record.vhost] = vhost
        if record.name in vhost.queues:
            # A quorum queue came to this node: what routes remember is not it.
            self.machine.vhosts[record.vhost].router.generation += 1
        vhost.queues[record.name] = queue
        if served:
            remotes.started(queue)
        elif halted and not record.type.replicated:
            remotes.halt(queue)

    def _started(self, queue: LoggedQueue) -> LoggedQueue:
        """See to a queue that has a group in the log, and may have been there before."""
        queue.mind_leases()
        self._node.repairs.started(queue)
        return queue

    def _proxy(self, record: QueueRecord, line: Line) -> ProxyQueue:
        """Stands for a queue that is not here."""
        queue = ProxyQueue(self._node, record.vhost, record.name, record.type, record.durable, line)
        queue.group_id = record.group_id
        return queue

    def _start_classic(self, record: QueueRecord, replayer: NodeReplayer | None) -> LoggedQueue:
        node = self._node
        group_id = int(record.group_id)
        fifo = None if replayer is None else replayer.machines.get(group_id)
        group = node.log.group(group_id)
        queue = ClassicQueue(
            node, record.vhost, record.name, group, Fifo(-1, True) if fifo is None else fifo
        )
        group.owner = queue
        self.logged[group_id] = queue
        if replayer is not None and fifo is not None:
            queue.seen_messages, queue.seen_bytes = replayer.seen.get(group_id, (0, 0))
            queue.recovered(replayer.clean.get(group_id, False))
        else:
            queue.configure()
        return queue

    def _stop(self, vhost: VirtualHost, record: QueueRecord) -> None:
        queue = vhost.queues.get(record.name)
        if queue is not None and queue.group_id == record.group_id:
            del vhost.queues[queue.name]
            self._end(queue)

    def _has(self, record: QueueRecord) -> bool:
        """Whether this very queue is here already, when the tables' log is applied anew."""
        vhost = self.vhosts.get(record.vhost)
        queue = None if vhost is None else vhost.queues.get(record.name)
        return queue is not None and queue.group_id == record.group_id

    def _end(self, queue: Queue) -> None:
        """Stop a queue that is found by its name no more; its clients hear of that."""
        self._lacking.pop(int(queue.group_id), None)
        queue.seal()
        queue.close()
        unfit = self._node.repairs.begun(int(queue.group_id))
        self._node.remotes.stopped(queue)
        observer = self._node.observers.end(queue.group_id)
        if observer is not None:
            observer.stop()
        if self.logged.pop(int(queue.group_id), None) is not None or unfit:
            self._node.cluster.remove(queue.group_id)
            self._node.log.drop(int(queue.group_id))
            self._node.appended(True)


@final
class Submitted:
    """A change on its way to disk."""

    def __init__(self, command: commands.Command, change: PendingResult | None) -> None:
        self.command: commands.Command = command
        self.change: PendingResult | None = change


@final
class Unfinished:
    """A change that is in force in part, and what the first part came to."""

    def __init__(self, origin: object | None, outcome: Outcome) -> None:
        self.origin: object | None = origin
        self.outcome: Outcome = outcome


def _tell(origin: object | None, outcome: Outcome) -> None:
    """Who wanted a change is told that it is in force."""
    if isinstance(origin, Submitted) and origin.change is not None:
        origin.change.succeeded(outcome)


@final
class Removal(PendingResult):
    """Waits for a queue to be gone."""

    def __init__(self, tables: Tables, going: Going) -> None:
        self._tables: Tables = tables
        self._going: Going = going

    def succeeded(self, result: Result) -> None:
        """It is."""
        self._tables.removed(self._going)
