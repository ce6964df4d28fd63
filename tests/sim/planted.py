"""Bugs put into the node on purpose, to show that the simulator finds them.

Each is a function that breaks something in the uncompiled modules and returns what undoes that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from sim.swarm import DEAF, DISK_FAILS, POWER, STOP
from warren.log import compact, files, wal
from warren.log.batch import Batch
from warren.log.runlist import PAIR_BYTES, RunList
from warren.log.scan import Scan
from warren.metadata import arguments
from warren.protocols.amqp091 import consuming, publishing
from warren.protocols.output import Output
from warren.queues import classic, logged, quorum
from warren.queues import publishing as publishing_runs
from warren.queues.fifo import commands as fifo_commands
from warren.queues.fifo import consumers, machine
from warren.queues.fifo.effects import Delivery, Reply
from warren.queues.fifo.groups import Readers
from warren.queues.fifo.parts import Parts
from warren.replication import client_sessions, member, wrapping

Undo = Callable[[], None]


class Where(NamedTuple):
    """Where a bug shows soon.

    Attributes:
        seed: That found it last, when somebody looked; see `hunt`.
        operations: Of that run.
        faults: These go wrong, whatever the seed has drawn; empty for what it has.
        options: What else is not as drawn, of `Options` and `ClusterOptions`.
    """

    seed: int = 1
    operations: int = 300
    faults: tuple[str, ...] = ()
    options: dict[str, Any] = {}


def replace(owner: Any, name: str, new: Any) -> Undo:
    """Put something else in the place of an attribute."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    return lambda: setattr(owner, name, old)


def leave_out(name: str, empty: Callable[[], Any]) -> Undo:
    """Snapshots are made without one of the machine's parts."""

    def init(self: Any, fifo: Any) -> None:
        original(self, fifo)
        assert hasattr(self, name), name
        setattr(self, name, empty())

    original = Parts.__init__
    return replace(Parts, "__init__", init)


def skipped_sync() -> Undo:
    """The write-ahead log's rounds are written and not synced."""

    def run(job: Any) -> None:
        handle = job.file.handle
        sync, handle.sync = handle.sync, lambda: None
        try:
            original(job)
        finally:
            handle.sync = sync

    original = wal.RoundJob.run
    return replace(wal.RoundJob, "run", run)


def quorum_confirms_at_append() -> Undo:
    """A quorum queue confirms when a batch is appended, before it is on disk."""

    original = quorum.QuorumQueue._seal_messages

    def seal(queue: Any) -> None:
        unsealed = queue._unsealed
        runs, unsealed.runs = unsealed.runs, []
        original(queue)
        for run in runs:
            run.safe()

    return replace(quorum.QuorumQueue, "_seal_messages", seal)


def rejected_is_confirmed() -> Undo:
    """Publishers of what a full queue rejects are told that it is safe."""
    return replace(publishing_runs.PublishRun, "reject", lambda run, at, count: None)


def classic_confirms_at_append() -> Undo:
    """A classic queue confirms persistent messages like transient ones."""
    original = classic.ClassicQueue._seal_messages

    def seal(queue: Any) -> None:
        unsealed = queue._unsealed
        runs, unsealed.runs = unsealed.runs, []
        original(queue)
        for run in runs:
            run.safe()

    return replace(classic.ClassicQueue, "_seal_messages", seal)


def unchecked_tail() -> Undo:
    """Recovery does not look at the checksums of what a torn write may have left."""
    original = Scan.run

    def run(scan: Any, size: int) -> None:
        scan._verify = False
        original(scan, size)

    return replace(Scan, "run", run)


def live_without_held() -> Undo:
    """Compaction is not told of messages that consumers hold."""

    def gather_live(fifo: Any, left: Any, more: Any) -> Any:
        return fifo.gather_ready()

    return replace(machine.Fifo, "gather_live", gather_live)


def no_doubt() -> Undo:
    """After a crash of a sole member what its log has is all that anybody has seen."""
    return replace(member.Member, "_note_doubts", lambda sole: None)


def snapshot_of_what_is_ahead() -> Undo:
    """A sole member's snapshot has what its machine has, and claims to be of less."""
    return replace(member.Member, "is_ahead", lambda sole: False)


def settles_neighbour() -> Undo:
    """An ack of one message also settles the next one."""
    original = machine.Fifo.settle

    def settle(fifo: Any, consumer_id: int, first: int, last: int) -> None:
        original(fifo, consumer_id, first, last + 1)

    return replace(machine.Fifo, "settle", settle)


def forgotten_reset() -> Undo:
    """A quorum queue keeps the consumers of its node's last life."""
    return replace(client_sessions.ClientSessions, "close_sessions", lambda taken, member: None)


def forgotten_live_run() -> Undo:
    """Compaction drops the last run of live messages."""
    original = compact.Compactor._runs

    def runs(compactor: Any, group_id: int, files: Any) -> RunList:
        return RunList(original(compactor, group_id, files).data[:-PAIR_BYTES])

    return replace(compact.Compactor, "_runs", runs)


def no_redelivered() -> Undo:
    """Deliveries never say that they are repeated."""
    original = consuming.ConsumerLink._write_some

    def write(link: Any, batch: Batch, delivery: Delivery, count: int) -> int:
        delivery.acquired = 0
        return original(link, batch, delivery, count)

    return replace(consuming.ConsumerLink, "_write_some", write)


def eager_redelivered() -> Undo:
    """What does not go out with the first batch of a delivery says that it is repeated."""
    original = consuming.ConsumerLink._write_some

    def write(link: Any, batch: Batch, delivery: Delivery, count: int) -> int:
        written = original(link, batch, delivery, count)
        if written < delivery.count:
            delivery.acquired = max(1, delivery.acquired)
        return written

    return replace(consuming.ConsumerLink, "_write_some", write)


def spurious_return() -> Undo:
    """A mandatory message comes back if its queue has no consumers, as an immediate one would."""
    original = publishing.PublishPath.enqueue

    def enqueue(way: Any, route: Any, records: bytes, lengths: bytes, *rest: Any) -> None:
        if route.mandatory and route.queues and not route.queues[0].consumer_count():
            for record in publishing.split_records(records, lengths):
                way._owner.unroutable(record, route)
        original(way, route, records, lengths, *rest)

    return replace(publishing.PublishPath, "enqueue", enqueue)


def first_of_a_run() -> Undo:
    """Only the first of consecutive messages with equal properties is examined for copies."""
    return replace(
        publishing.Shape, "is_checked", lambda shape, properties: properties == shape.properties
    )


def spurious_nack() -> Undo:
    """The last of several publishes that became durable together is nacked."""
    original = logged.LoggedQueue._confirm

    def confirm(queue: Any, size: int, runs: Any) -> None:
        if len(runs) > 1:
            runs[-1].refused = True
        original(queue, size, runs)

    return replace(logged.LoggedQueue, "_confirm", confirm)


def snapshot_ahead() -> Undo:
    """A quorum queue's snapshot claims to cover what is appended and not applied yet."""

    def snapshot(queue: Any) -> int:
        group = queue.group
        if group.log.last_index > 0:
            out = wrapping.wrap_head(group.log.next_message, group.raft.members, group.sessions)
            out.write(group.machine.state())
            group.log.snapshot(group.log.last_index, out.getvalue(), queue.host.now_ms())
        return 0

    return replace(quorum.QuorumQueue, "snapshot_part", snapshot)


def surviving_transients() -> Undo:
    """A classic queue does not drop transient messages at recovery."""

    def recovered(queue: Any, clean: bool) -> None:
        queue.fifo.transient.clear()
        original(queue, clean)

    original = classic.ClassicQueue.recovered
    return replace(classic.ClassicQueue, "recovered", recovered)


def unfenced() -> Undo:
    """A reader that lost its group may go on."""

    def refusal(readers: Any, name: str, epoch: int) -> Reply | None:
        known = readers.groups.get(name)
        return original(readers, name, known.epoch if known else epoch)

    original = Readers.refusal
    return replace(Readers, "refusal", refusal)


def ignored_limit() -> Undo:
    """A consumer's prefetch limit is one too high."""

    def room(consumer: Any) -> int:
        return original(consumer) + 1 if consumer.active and not consumer.paused else 0

    original = consumers.Consumer.room
    return replace(consumers.Consumer, "room", room)


def unfailing_rejections() -> Undo:
    """What a client rejects and wants back has not failed."""
    original = fifo_commands.return_

    def write(out: Any, consumer: int, first: int, last: int, failed: bool) -> None:
        original(out, consumer, first, last, False)

    return replace(fifo_commands, "return_", write)


def ignored_limit_of_its_own() -> Undo:
    """What a quorum queue was declared with says nothing of its delivery limit."""
    return replace(arguments, "delivery_limit", lambda given: {})


def unsynced_manifest() -> Undo:
    """A file that was begun is not made durable before the manifest names it."""

    def run(job: Any) -> None:
        disk = job.wal.store.disk
        sync, disk.sync_directory = disk.sync_directory, lambda path: None
        try:
            original(job)
        finally:
            disk.sync_directory = sync

    original = wal.RollJob.run
    return replace(wal.RollJob, "run", run)


def writes_to_the_closed() -> Undo:
    """What is gathered for a client whose socket was closed goes there at the end of the turn."""

    def lost(output: Any) -> None:
        buffer = output._buffer
        original(output)
        output.closed, output._buffer = False, buffer

    original = Output.lost
    return replace(Output, "lost", lost)


def goes_on_after_failure() -> Undo:
    """A failed sync is taken for one that went well."""
    original = wal.Wal.round_done
    return replace(wal.Wal, "round_done", lambda log, job, error: done(original, log, job))


def refused_once_is_damage() -> Undo:
    """What a disk refuses to read is not asked for once more."""
    return replace(files, "read_patiently", lambda handle, offset, size: handle.read(offset, size))


def done(original: Any, log: Any, job: Any) -> None:
    """A round that claims to have been written."""
    job.written = True
    original(log, job, None)


LARGE = {"trouble_share": 0.03, "large_share": 0.1, "large_bytes": 9_000}
"""Some messages are, and trouble is frequent."""
REJECTING = {"trouble_share": 0.002, "settlings": {"reject": 1}, "delivery_limit": 0}
"""What goes to a quorum queue is rejected, and may be once."""

PLANTED = {
    writes_to_the_closed: Where(4, options={"quits": True}),
    skipped_sync: Where(3),
    quorum_confirms_at_append: Where(15),
    classic_confirms_at_append: Where(94),
    rejected_is_confirmed: Where(22),
    unchecked_tail: Where(4, 200, (POWER,), LARGE | {"large_bytes": 20_000}),
    live_without_held: Where(1),
    no_doubt: Where(456),
    snapshot_of_what_is_ahead: Where(411),
    settles_neighbour: Where(18),
    forgotten_reset: Where(10),
    forgotten_live_run: Where(1),
    no_redelivered: Where(10),
    eager_redelivered: Where(
        183, 150, (DEAF,), {"large_share": 0.1, "groups": False, "trouble_share": 0.01}
    ),
    spurious_return: Where(3),
    spurious_nack: Where(10),
    first_of_a_run: Where(10),
    snapshot_ahead: Where(15),
    surviving_transients: Where(3),
    unfenced: Where(18),
    ignored_limit: Where(1),
    unsynced_manifest: Where(
        34, 300, (POWER,), LARGE | {"wal_max_bytes": 8_192, "compact_interval_ms": 100}
    ),
    goes_on_after_failure: Where(1),
    refused_once_is_damage: Where(1, 300, (DISK_FAILS,), {"trouble_share": 0.03}),
    unfailing_rejections: Where(10, 300, (STOP,), REJECTING),
    ignored_limit_of_its_own: Where(10, 300, (STOP,), REJECTING | {"own_limit": True}),
}
"""With each bug where it shows soon; see `hunt`."""
