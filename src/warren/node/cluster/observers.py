"""This node's observers: quorum queues that its clients use and that it does not hold.

An observer begins when a client here uses the queue, and rests when none has for a while.
"""

from __future__ import annotations

from array import array
from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.checksum import crc32
from warren.errors import CorruptRecord
from warren.ids import first_session
from warren.limits import TICK_GROUPS_MAX
from warren.log.log import Log
from warren.metadata.machine import MetadataMachine
from warren.metadata.tables import QueueRecord
from warren.node.identities import Counter
from warren.node.loop import Loop
from warren.node.policies import QueuePolicies
from warren.node.queues import LocalQueues
from warren.ports import Work
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.machine import Fifo
from warren.queues.queue import Queue
from warren.queues.quorum import QuorumQueue
from warren.replication.kinds import BODIES, EXPECT, UNOBSERVE
from warren.replication.machine import NO_MACHINE
from warren.replication.member import Member
from warren.replication.observer import Observer, ObserverHost
from warren.replication.proposals import Proposals

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

REST_MS: Final = 60_000
"""An observer of a queue that nobody has used for so long rests."""


@final
class Observed:
    """A queue that this node uses; `used_ms` is when it was found in use last."""

    def __init__(self, record: QueueRecord, queue: QuorumQueue, observer: Observer) -> None:
        self.record = record
        self.queue: QuorumQueue = queue
        self.observer: Observer = observer
        self.used_ms: i64 = 0


@final
class Arriving:
    """A copy that is new on this node, while clients use the queue through its observer still.

    Attributes:
        queue: Stands for the queue at the copy, with no clients.
    """

    def __init__(self, member: Member, queue: QuorumQueue) -> None:
        self.member: Member = member
        self.queue: QuorumQueue = queue


@final
class LinkNews:
    """A link that came or went, of which observers are told in parts.

    Attributes:
        told: How many of the groups were told.
        linked: Whether there is a new link to the node; else one to or from it is gone.
    """

    def __init__(self, groups: array[int], peer: str, linked: bool) -> None:
        self.groups = groups
        self.told: i64 = 0
        self.peer: str = peer
        self.linked: bool = linked


@final
class Observers(ObserverHost):
    """All of one node."""

    def __init__(
        self,
        loop: Loop,
        log: Log,
        metadata: MetadataMachine,
        queues: LocalQueues,
        policies: QueuePolicies,
        cluster: Cluster,
    ) -> None:
        self._loop: Loop = loop
        self._log: Log = log
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._policies: QueuePolicies = policies
        self._cluster: Cluster = cluster
        self._observed: dict[int, Observed] = {}
        """By group."""
        self._arriving: dict[int, Arriving] = {}
        """By group, those of the same whose copies have not caught up."""
        self._minded: deque[int] = deque()
        """Groups whose observers do not rest, in the order of their ticks."""
        self._news: deque[LinkNews] = deque()
        self._numbers: Counter = Counter("questions to members")

    # --- queues ---------------------------------------------------------------------------------

    def observer(self, group_id: i64) -> Observer | None:
        """The observer of a group; None if there is none here."""
        found = self._observed.get(int(group_id))
        return None if found is None else found.observer

    def queue(self, group_id: i64) -> QuorumQueue | None:
        """The queue whose group is observed; None if none is."""
        found = self._observed.get(int(group_id))
        return None if found is None else found.queue

    def begin(self, record: QueueRecord) -> QuorumQueue:
        """A queue that this node's clients begin to use; nothing is heard of it yet."""
        proposals = Proposals(first_session(self._cluster.newest), self._cluster.load())
        observer = Observer(self, record.group_id, NO_MACHINE, proposals, self._log.cache)
        limit = self._policies.delivery_limit(record)
        fifo = Fifo(NOT_SET_UP, False)
        queue = QuorumQueue(
            self._loop,
            record.vhost,
            record.name,
            observer,
            record.group_id,
            fifo,
            limit,
            record.type,
        )
        queue.auto_delete = record.auto_delete
        self._add(record, queue, observer)
        # What its messages are said to take depends on what is said of the queue.
        self._policies.tell(queue, record)
        return queue

    def use(self, vhost: str, name: str) -> Queue | None:
        """A queue that a client here wants to use and that no client here has used before.

        Nothing is kept of quorum queues that other nodes hold until then.
        """
        record = self._metadata.queue(vhost, name)
        if record is None or not self._queues.is_elsewhere(record):
            return None
        queue = self.begin(record)
        self._queues.vhosts[vhost].queues[name] = queue
        return queue

    def listen(self, record: QueueRecord) -> None:
        """Hear of a quorum queue that other nodes hold, for an operator who asks."""
        if self._queues.is_elsewhere(record):
            if self._queues.find(record.vhost, record.name) is None:
                self.use(record.vhost, record.name)
            observer = self.observer(record.group_id)
            if observer is not None:
                observer.wake()

    def take(self, record: QueueRecord, queue: QuorumQueue, proposals: Proposals) -> Observer:
        """A queue that this node has held, with what its member had submitted."""
        if proposals.session == 0:
            # A start found the copy, and this life had no session when that was begun.
            proposals.renew(first_session(self._cluster.newest))
        observer = Observer(self, record.group_id, queue, proposals, self._log.cache)
        queue.messages = observer
        self._add(record, queue, observer)
        return observer

    def _add(self, record: QueueRecord, queue: QuorumQueue, observer: Observer) -> None:
        assert int(record.group_id) not in self._observed, "a group has one observer here"
        observer.machine = queue
        queue.group = observer
        self._observed[int(record.group_id)] = Observed(record, queue, observer)

    def arrives(self, group_id: i64, member: Member, queue: QuorumQueue) -> None:
        """A queue that is observed has a copy here, which is to be brought up."""
        assert int(group_id) in self._observed, "clients use it through its observer"
        self._arriving[int(group_id)] = Arriving(member, queue)

    def gives_up_arrival(self, group_id: i64) -> bool:
        """A copy is to go again; whether it had not caught up, so that the observer goes on."""
        found = self._arriving.pop(int(group_id), None)
        if found is None:
            return False
        found.queue.close()
        return True

    def is_observed(self, group_id: i64) -> bool:
        """Whether clients use a queue through an observer, though it has a copy here."""
        return int(group_id) in self._arriving

    def _see_to_arrivals(self) -> None:
        """Have clients use those copies that have what the clients have seen."""
        for group_id, arriving in list(self._arriving.items()):
            member = arriving.member
            observer = self._observed[group_id].observer
            try:
                if 0 < observer.applied_index <= member.applied_index and member.is_complete():
                    if observer.catch_up(member.log, member.applied_index):
                        self.arrived(group_id)
            except CorruptRecord as error:
                self._loop.log_warning(f"what was fed of group {group_id} is dropped: {error}")
                self.arrived(group_id)

    def arrived(self, group_id: i64) -> None:
        """Have clients use the copy that is new here, whatever they have seen.

        They see nothing again, and what the copy lacks of what they have seen it gets first.
        """
        arriving = self._arriving.pop(int(group_id), None)
        observed = self._observed.pop(int(group_id), None)
        if arriving is None or observed is None:
            return
        member, observer, queue = arriving.member, observed.observer, observed.queue
        record = observed.record
        self._queues.logged[int(group_id)] = queue
        queue.messages = member.log
        queue.group = member
        if observer.applied_index != member.applied_index:
            queue.take_machine(arriving.queue)
        member.take_over(queue, observer.proposals)
        arriving.queue.close()
        # Policies may have changed, and only members hear of that.
        queue.set_delivery_limit(self._policies.delivery_limit(record))
        self._policies.tell(queue, record)
        observer.leave()
        queue.followed()

    def end(self, group_id: i64) -> Observer | None:
        """A queue is no more: forget its observer."""
        self.gives_up_arrival(group_id)
        found = self._observed.pop(int(group_id), None)
        return None if found is None else found.observer

    def changed(self, record: QueueRecord) -> None:
        """A queue has other members."""
        found = self._observed.get(int(record.group_id))
        if found is not None:
            found.record = record

    # --- for observers --------------------------------------------------------------------------

    def monotonic_ms(self) -> int:
        """Give the node's monotonic time in milliseconds."""
        return self._loop.monotonic_ms()

    def send(self, node: str, message: list[bytes]) -> bool:
        """Send to another node."""
        return self._cluster.send(node, message)

    def backlog_bytes(self, node: str) -> int:
        """What was sent to another node and has not left this one."""
        return self._cluster.backlog_bytes(node)

    def new_number(self) -> i64:
        """A number that no observer of this node had before, or not for 2^32 others."""
        return self._numbers.take_round(self._cluster.session)

    def holders(self, group_id: i64) -> list[str]:
        """The members' nodes, those in this node's zone before others.

        Which comes first of them differs by node and queue, so that all serve.
        """
        found = self._observed.get(int(group_id))
        if found is None:
            return []
        own = self._loop.settings.node_name
        suspected = self._cluster.detector.suspected
        names = [row.node for row in found.record.members if row.node != own]
        running = [name for name in names if not suspected(name)]
        names = sorted(running or names)
        if names:
            at = crc32(f"{own} {group_id}".encode()) % len(names)
            names = names[at:] + names[:at]
        zone = self._loop.settings.zone
        if zone:
            nodes = self._metadata.nodes
            near = [name for name in names if name in nodes and nodes[name].zone == zone]
            names = near + [name for name in names if name not in near]
        return names

    def mind(self, observer: Observer) -> None:
        """An observer begins."""
        group_id = int(observer.group_id)
        found = self._observed.get(group_id)
        if found is not None:
            found.used_ms = self._loop.monotonic_ms()
        self._minded.append(group_id)

    def session_closed(self, observer: Observer) -> i64:
        """This node goes on in a group with another session."""
        return self._cluster.next_session(observer.proposals)

    def do_in_parts(self, work: Work) -> None:
        """Have something done from the next turn on."""
        self._loop.do_in_parts(work)

    def refuse(self, node: str, reason: str) -> None:
        """A node says what cannot be."""
        self._cluster.peers.refuse(node, reason)

    # --- for the node ---------------------------------------------------------------------------

    def received(self, peer: str, message: bytes, group_id: i64, kind: i64) -> bool:
        """A message about a group without a member here; False if it is not for an observer."""
        observer = self.observer(group_id)
        if observer is not None and (kind == EXPECT or UNOBSERVE <= kind <= BODIES):
            observer.received(peer, message)
            return True
        return UNOBSERVE <= kind <= BODIES

    def linked(self, peer: str) -> None:
        """There is a new link to a node."""
        self._tell_all(peer, True)

    def broken(self, peer: str) -> None:
        """A link to or from a node is gone, or the node is down."""
        self._tell_all(peer, False)

    def _tell_all(self, peer: str, linked: bool) -> None:
        if self._minded:
            self._news.append(LinkNews(array("q", self._minded), peer, linked))
            self._loop.needs_turn = True
            self._cluster.tell_observers()

    def has_news(self) -> bool:
        """Whether some are to be told of a link."""
        return len(self._news) > 0

    def tell(self, room: i64) -> i64:
        """Tell some observers of links that came or went, in order; how many more could be told."""
        while self._news and room > 0:
            room -= 1
            news = self._news[0]
            found = self._observed.get(news.groups[news.told])
            news.told += 1
            if news.told == len(news.groups):
                self._news.popleft()
            if found is None:
                continue
            if news.linked:
                found.observer.linked(news.peer)
            else:
                found.observer.lost(news.peer)
        if self._news:
            self._loop.needs_turn = True
        return room

    def session_begun(self) -> None:
        """This life of the node has got its session: what operators had it listen to gets one."""
        for found in self._observed.values():
            if found.observer.proposals.session == 0:
                found.observer.proposals.renew(first_session(self._cluster.newest))

    def tick(self, now_ms: i64) -> None:
        """Time has passed: let some observers mind theirs."""
        self._see_to_arrivals()
        minded = self._minded
        for _ in range(min(len(minded), TICK_GROUPS_MAX)):
            group_id = minded.popleft()
            found = self._observed.get(group_id)
            if found is None:
                continue
            observer = found.observer
            if (
                group_id in self._arriving
                or found.queue.in_use()
                or observer.proposals
                or observer.fetching()
            ):
                found.used_ms = now_ms
            elif now_ms - found.used_ms >= REST_MS:
                observer.rest()
            if observer.tick(now_ms):
                minded.append(group_id)
