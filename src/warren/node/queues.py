"""Which queues are here: by vhost and name as clients find them, by group as the log knows them."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import QueueRecord
from warren.queues.logged import LoggedQueue
from warren.queues.queue import Queue
from warren.sharded_dict import ShardedDict


@final
class VirtualHost:
    """The queues of one vhost on this node, by name.

    Attributes:
        before: Those that were here when the tables came as a whole, and are still to be held
            against them: clients find them only when that is done.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.queues: ShardedDict[str, Queue] = ShardedDict()
        self.before: list[ShardedDict[str, Queue]] = []

    def take_before(self, name: str) -> Queue | None:
        """Take out the one of those of before that has a name."""
        for queues in self.before:
            queue = queues.pop(name)
            if queue is not None:
                return queue
        return None


class TakingOver:
    """What has this node's queues follow tables that came as a whole."""

    @abstractmethod
    def see_to(self, record: QueueRecord) -> None:
        """Have a queue be here as the tables say, before its turn comes."""


@final
class LocalQueues:
    """This node's queues; `hosting` starts and stops them.

    Attributes:
        vhosts: Queues by vhost and name.
        logged: Queues with a group in the log, by group.
        taking_over: Has the queues follow the tables, while not all do.
    """

    def __init__(self, metadata: MetadataMachine, node_name: str) -> None:
        self.vhosts: dict[str, VirtualHost] = {}
        self.logged: ShardedDict[int, LoggedQueue] = ShardedDict()
        self.taking_over: TakingOver | None = None
        self._metadata: MetadataMachine = metadata
        self._node_name: str = node_name
        self._leased: dict[Queue, None] = {}
        """Queues with groups of readers, whose leases may run out."""

    def vhost(self, name: str) -> VirtualHost:
        """The queues of a vhost; none are here if it is new."""
        found = self.vhosts.get(name)
        if found is None:
            found = VirtualHost(name)
            self.vhosts[name] = found
        return found

    def keep_vhosts(self, in_use: set[str]) -> None:
        """Have the vhosts that the metadata names, and of others those that clients still use.

        Args:
            in_use: Vhosts of this node's connections.
        """
        for name in self._metadata.vhosts:
            self.vhost(name)
        for name in list(self.vhosts):
            if name not in self._metadata.vhosts and name not in in_use:
                del self.vhosts[name]

    def has(self, record: QueueRecord) -> bool:
        """Whether this very queue is here already, when the metadata's log is applied anew."""
        vhost = self.vhosts.get(record.vhost)
        queue = None if vhost is None else vhost.queues.get(record.name)
        return queue is not None and queue.group_id == record.group_id

    def find(self, vhost: str, name: str) -> Queue | None:
        """A queue that is here, or is to be: a client asks for it, so that it is seen to now."""
        here = self.vhosts.get(vhost)
        if here is None:
            return None
        queue = here.queues.get(name)
        if queue is None and self.taking_over is not None:
            record = self._metadata.queue(vhost, name)
            if record is not None:
                self.taking_over.see_to(record)
                queue = here.queues.get(name)
        return queue

    def record_of(self, group_id: int) -> QueueRecord | None:
        """What the metadata says of a queue with a group in the log here."""
        queue = self.logged.get(group_id)
        record = None if queue is None else self._metadata.queue(queue.vhost, queue.name)
        return None if record is None or record.group_id != group_id else record

    def is_elsewhere(self, record: QueueRecord) -> bool:
        """Whether it is a quorum queue that other nodes hold, and this one at most uses."""
        return record.type.replicated and record.member_on(self._node_name) is None

    def write_clean_snapshots(self) -> None:
        """At an orderly stop, note what only this process knows."""
        for queue in self.logged.values():
            if not queue.deleted:
                queue.snapshot_clean()

    def leased(self, queue: Queue) -> None:
        """Readers have taken over a group of a queue: mind their leases."""
        self._leased[queue] = None

    def expire_leases(self, now_ms: int) -> None:
        """Give back what abandoned readers have checked out.

        Args:
            now_ms: Monotonic time.
        """
        for queue in list(self._leased):
            if queue.deleted or not queue.expire_leases(now_ms):
                del self._leased[queue]
