"""The cluster's tables on this node: their log, their machine, and the queues they call for.

A change is checked, logged, and applied when it is durable, in the log's order. Applying creates
and deletes the queues of this node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.log.batch import KIND_COMMAND, Batch
from warren.log.group import GroupLog
from warren.metadata import commands
from warren.metadata.machine import MetadataMachine, Outcome
from warren.metadata.passwords import SALT_BYTES
from warren.metadata.permissions import Authority, first_commands
from warren.metadata.tables import QueueRecord
from warren.protocols.broker import Confirming
from warren.queues.classic import ClassicQueue
from warren.queues.fifo import Fifo
from warren.queues.logged import TERM, LoggedQueue
from warren.queues.queue import Queue
from warren.queues.quorum import QuorumQueue
from warren.queues.transient import TransientQueue

if TYPE_CHECKING:
    from warren.node.node import Node
    from warren.node.replay import NodeReplayer

METADATA_GROUP: Final = 1
"""The log group of the tables; queues have higher ones."""

DELIVERY_LIMIT: Final = 20
"""Returns a message in a quorum queue survives (POI-03)."""


class Change:
    """Someone who waits for a change of the tables."""

    def applied(self, outcome: Outcome) -> None:
        """The change is durable and in force."""
        raise AssertionError("a change defines applied")


@final
class VirtualHost:
    """The queues of one vhost on this node, by name."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.queues: dict[str, Queue] = {}


@final
class Tables:
    """See the module's head.

    Attributes:
        machine: The tables themselves; read only, `submit` changes them.
        authority: Answers for users and permissions.
        vhosts: Queues by vhost and name.
        logged: Queues with a group in the log, by group.
        removals: Queues about to go because their consumers or their connection went.
        after_removals: Channels that wait for that.
    """

    def __init__(self, node: Node) -> None:
        self.machine: MetadataMachine = MetadataMachine()
        self.authority: Authority = Authority(self.machine)
        self.vhosts: dict[str, VirtualHost] = {}
        self.logged: dict[int, LoggedQueue] = {}
        self.removals: int = 0
        self.after_removals: list[Confirming] = []
        self._node: Node = node
        self._log: GroupLog | None = None
        self._last_group: i64 = METADATA_GROUP

    # Life.

    def recover(self, replayer: NodeReplayer) -> None:
        """Take over what the log holds, and start the queues that belong to it.

        Raises:
            StorageError: The log was written by a later version.
        """
        machine = self.machine
        log = self._node.log
        if replayer.tables_state:
            machine.restore(replayer.tables_state)
        for index, payload in replayer.tables_entries:
            machine.apply(index, commands.decode(payload))
        group = log.group(METADATA_GROUP)
        group.owner = self
        self._log = group
        if not machine.vhosts:
            settings = self._node.settings
            for command in first_commands(
                self._node.random.bytes(SALT_BYTES),
                settings.default_vhost,
                settings.default_user,
                settings.default_password,
                settings.default_user in settings.loopback_users,
            ):
                self.submit(command, None)
        else:
            # What did not outlive the last process is gone before the first client comes.
            command = commands.DropTransient()
            self._append(command, None)
            machine.apply(group.last_index, command)
        known: dict[int, bool] = {METADATA_GROUP: True}
        for name, record in machine.vhosts.items():
            self.vhosts[name] = VirtualHost(name)
            for queue_record in record.queues.values():
                known[int(queue_record.group_id)] = True
                self._start(queue_record, replayer)
        for group_id in log.group_ids():
            if group_id not in known:
                log.drop(group_id)
                self._node.appended(True)
        self._last_group = max(METADATA_GROUP, machine.highest_group_id)

    def submit(self, command: commands.Command, change: Change | None) -> None:
        """Log a change; `change` is told when it is in force."""
        self._append(command, Submitted(command, change))
        self._node.needs_turn = True

    def persisted(self, batch: Batch) -> None:
        """A change is durable: apply it."""
        submitted = batch.origin
        if batch.kind != KIND_COMMAND or submitted is None:
            return
        batch.origin = None
        assert isinstance(submitted, Submitted)
        outcome = self.machine.apply(batch.index, submitted.command)
        self._act(outcome)
        if submitted.change is not None:
            submitted.change.applied(outcome)

    def snapshot(self) -> None:
        """Write the tables into the log, so that older entries can go."""
        log = self._log
        assert log is not None
        log.snapshot(self.machine.applied_index, self.machine.snapshot(), self._node.now_ms())

    def write_clean_snapshots(self) -> None:
        """At an orderly stop, note what only this process knows."""
        for queue in self.logged.values():
            if isinstance(queue, ClassicQueue) and not queue.deleted:
                queue.snapshot_clean()

    def tick(self, now_ms: int) -> None:
        """Give back what abandoned readers have checked out."""
        for queue in self.logged.values():
            if queue.fifo.groups:
                queue.expire_groups(now_ms)

    # Queues.

    def new_group(self) -> i64:
        """The incarnation of a queue that is about to be declared."""
        self._last_group = max(self._last_group, self.machine.highest_group_id) + 1
        return self._last_group

    def delete_unused(self, queue: Queue) -> None:
        """Delete an auto-delete queue without consumers."""
        record = self.machine.queue(queue.vhost, queue.name)
        if record is not None and record.group_id == queue.group_id:
            self._remove(record)

    def delete_owned(self, vhost: str, connection: i64) -> None:
        """Delete the exclusive queues of a connection that is gone (PROP-03)."""
        for record in self.machine.queues_of_owner(vhost, connection):
            self._remove(record)

    def _remove(self, record: QueueRecord) -> None:
        """Delete a queue that nobody asked to delete; who asks for it meanwhile waits."""
        self.removals += 1
        self.submit(
            commands.DeleteQueue(record.vhost, record.name, record.group_id, record.durable),
            Removal(self),
        )

    def removed(self) -> None:
        """One such queue is gone."""
        self.removals -= 1
        if self.removals == 0:
            waiting = self.after_removals
            self.after_removals = []
            for channel in waiting:
                channel.go_on()

    def _append(self, command: commands.Command, origin: object | None) -> None:
        log = self._log
        assert log is not None
        payload = commands.encode(command)
        self._node.appended(True)
        log.append(KIND_COMMAND, TERM, self._node.now_ms(), 0, b"", payload, origin)

    def _act(self, outcome: Outcome) -> None:
        """Start and stop queues as a change demands."""
        created = outcome.created_queue
        if created is not None:
            self._start(created, None)
        for record in outcome.deleted_queues:
            vhost = self.vhosts.get(record.vhost)
            if vhost is not None:
                self._stop(vhost, record)
        for name in self.machine.vhosts:
            if name not in self.vhosts:
                self.vhosts[name] = VirtualHost(name)

    def _start(self, record: QueueRecord, replayer: NodeReplayer | None) -> None:
        """Create a queue's object, with the machine that the log replayed if there was one."""
        node = self._node
        group_id = int(record.group_id)
        queue: Queue
        if not record.durable:
            queue = TransientQueue(node, record.vhost, record.name)
            queue.group_id = record.group_id
        else:
            fifo = None if replayer is None else replayer.machines.get(group_id)
            recovered = fifo is not None
            if fifo is None:
                quorum = record.kind == "quorum"
                fifo = Fifo(DELIVERY_LIMIT if quorum else -1, not quorum)
            group = node.log.group(group_id)
            logged: LoggedQueue
            if record.kind == "quorum":
                logged = QuorumQueue(node, record.vhost, record.name, group, fifo)
            else:
                logged = ClassicQueue(node, record.vhost, record.name, group, fifo)
            group.owner = logged
            self.logged[group_id] = logged
            if replayer is not None and recovered:
                logged.seen_messages, logged.seen_bytes = replayer.seen.get(group_id, (0, 0))
                logged.recovered(replayer.clean.get(group_id, False))
            else:
                logged.configure()
            queue = logged
        queue.auto_delete = record.auto_delete
        vhost = self.vhosts.get(record.vhost)
        if vhost is None:
            vhost = VirtualHost(record.vhost)
            self.vhosts[record.vhost] = vhost
        vhost.queues[record.name] = queue

    def _stop(self, vhost: VirtualHost, record: QueueRecord) -> None:
        queue = vhost.queues.get(record.name)
        if queue is None or queue.group_id != record.group_id:
            return
        del vhost.queues[record.name]
        queue.seal()
        queue.close()
        if self.logged.pop(int(record.group_id), None) is not None:
            self._node.log.drop(int(record.group_id))
            self._node.appended(True)


@final
class Submitted:
    """A change on its way to disk."""

    def __init__(self, command: commands.Command, change: Change | None) -> None:
        self.command: commands.Command = command
        self.change: Change | None = change


@final
class Removal(Change):
    """Waits for a queue to be gone."""

    def __init__(self, tables: Tables) -> None:
        self._tables: Tables = tables

    def applied(self, outcome: Outcome) -> None:
        """It is."""
        self._tables.removed()
