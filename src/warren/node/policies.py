"""Policies that change what queues are set up with, of those that exist, too (POI-05, ARG-10).

Every node tells its queues what policies make of them; a queue's leader has its log say so, so that
all members follow at the same entry.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.limits import TURN_STEPS_MAX
from warren.metadata import arguments
from warren.metadata.arguments import max_priority
from warren.metadata.machine import MetadataMachine
from warren.metadata.patterns import WORK
from warren.metadata.policies import EffectiveSettings
from warren.metadata.rows import Lot
from warren.metadata.tables import QueueRecord, VhostRecord, queues_of
from warren.node.freshness import Freshness
from warren.node.loop import Loop
from warren.node.queues import LocalQueues
from warren.ports import Work
from warren.queue_types import (
    AT_LEAST_ONCE,
    DEAD_LETTER_EXCHANGE,
    DEAD_LETTER_KEY,
    DEAD_LETTER_STRATEGY,
    DELAYED_RETRY_MAX,
    DELAYED_RETRY_MIN,
    DELAYED_RETRY_TYPE,
    DELIVERY_LIMIT,
    DISCONNECTED_TIMEOUT,
    EXPIRES,
    LAZY,
    MAX_LENGTH,
    MAX_LENGTH_BYTES,
    MESSAGE_TTL,
    OVERFLOW,
    QUEUE_MODE,
    REJECT_PUBLISH,
    REJECT_PUBLISH_DLX,
    X_SINGLE_ACTIVE_CONSUMER,
)
from warren.queues.fifo.config import FAIR, STRICT, Limits
from warren.queues.fifo.delayed import ALL, DISABLED, FAILED, NO_RETRY, RETURNED, Retry
from warren.queues.queue import Queue
from warren.routing.exchange_types import STORE_PREFIX
from warren.versions import (
    COUNTED_FAILURES,
    DELAYED_RETRIES,
    DISCONNECTED_TIMEOUTS,
    PRIORITIES,
)

if TYPE_CHECKING:
    from warren.node.feeds import EventFeeds

MATCHES_MAX: Final = 4_096
"""So many patterns are tried on names of queues in one turn,"""
TOLD_MAX: Final = 1_024
"""and so many queues are told, each of which may write its new settings to the log, for some 40
microseconds."""


RETRIES: Final = {"all": int(ALL), "failed": int(FAILED), "returned": int(RETURNED)}
"""What may wait that returns, by what arguments and policies call it."""

FALLEN_BACK_MAX: Final = 1_024
"""So many queues are told of whose dead letters arrive less often than was asked for."""


@final
class QueuePolicies(Work):
    """See the module's head."""

    def __init__(self, loop: Loop, metadata: MetadataMachine, freshness: Freshness) -> None:
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._freshness: Freshness = freshness
        self._untold: bool = False
        """Whether queues of this node alone go by what their logs say, as the tables are old."""
        self._fallen_back: dict[int, None] = {}
        """Queues, by incarnation, whose dead letters arrive less often than was asked for."""
        self._queues: LocalQueues | None = None
        self._feeds: EventFeeds | None = None
        self._lots: deque[Lot] = deque()
        """Rows of queues that are yet to be told,"""
        self._left: list[QueueRecord] = []
        """and those of the lot under way."""
        self._at_work: bool = False

    def wire(self, feeds: EventFeeds) -> None:
        """Know the feeds, which say of queues whether they tell of their messages."""
        self._feeds = feeds

    def delivery_limit(self, record: QueueRecord) -> i64:
        """The delivery limit of a queue, whether it is here yet or not; -1 for none.

        Of its argument and policies the smaller one counts (POI-03, POI-04).
        """
        tables = self._metadata.vhosts.get(record.vhost)
        default = self._loop.settings.delivery_limit
        if record.type.delays:
            return -1
        if tables is None:
            return default
        own = arguments.delivery_limit(record.arguments)
        said = EffectiveSettings(tables, record.name, record.kind, own)
        return max(said.number(DELIVERY_LIMIT, default), -1)

    def tell(self, queue: Queue, record: QueueRecord) -> None:
        """Tell a queue what is said of it, but for the delivery limit.

        That is when it and its messages expire, and how many there may be, and bytes of them: of
        its arguments and policies the smaller one counts. Whether one consumer at a time is served,
        and which priorities there are, arguments say alone, and where messages go that die, they
        say before policies.
        """
        if record.type.delays:
            queue.set_delays(record.name.removeprefix(STORE_PREFIX))
            return
        queue.set_max_priority(max_priority(record.arguments))
        if self._metadata.version >= PRIORITIES:
            queue.set_ranking(STRICT if self._loop.settings.strict_priorities else FAIR)
        if self._metadata.version >= COUNTED_FAILURES:
            queue.set_failures()
        if record.arguments.get(X_SINGLE_ACTIVE_CONSUMER) is True:
            queue.set_single_active()
        tables = self._metadata.vhosts.get(record.vhost)
        if tables is not None:
            said = EffectiveSettings(tables, record.name, record.kind, record.arguments)
            queue.set_lazy(said.text(QUEUE_MODE) == LAZY)
            most = said.number(MAX_LENGTH, -1)
            overflow = said.text(OVERFLOW)
            # In a quorum queue it means no more than to drop the first messages, as in RabbitMQ.
            to_exchange = overflow == REJECT_PUBLISH_DLX and not queue.type.replicated
            rejects = overflow == REJECT_PUBLISH or to_exchange
            queue.set_rejects_to_exchange(to_exchange)
            if self._metadata.version >= DELAYED_RETRIES:
                queue.set_retry(self._retry(tables, record))
            if self._metadata.version >= DISCONNECTED_TIMEOUTS:
                default = self._loop.settings.consumer_disconnected_timeout_ms
                queue.set_disconnected_timeout(said.number(DISCONNECTED_TIMEOUT, default))
            exchange = said.value(DEAD_LETTER_EXCHANGE)
            key = said.value(DEAD_LETTER_KEY)
            kept = said.text(DEAD_LETTER_STRATEGY) == AT_LEAST_ONCE
            dropped: i64 = 0
            if not (kept and rejects and isinstance(exchange, str)):
                dropped = queue.kept_dead()
            if dropped > 0:
                self._loop.log_warning(
                    f"{int(dropped)} dead letters of {queue} are dropped: they are not to arrive "
                    "at least once any more"
                )
            queue.set_dead_letters(
                exchange if isinstance(exchange, str) else None,
                key if isinstance(key, str) else None,
                kept and rejects,
            )
            if self._feeds is not None:
                self._feeds.tell(queue, record, exchange if isinstance(exchange, str) else None)
            self._mind_fallback(queue, kept and not rejects and isinstance(exchange, str))
            if not record.type.replicated and not self._freshness.begun:
                self._untold = True
                return
            queue.set_expires(said.number(EXPIRES, -1))
            # Behind what becomes of the dead: what a new limit has go at once goes by that.
            queue.set_message_ttl(said.number(MESSAGE_TTL, -1))
            queue.set_limits(Limits(most, said.number(MAX_LENGTH_BYTES, -1), rejects))

    def tell_all(self, queue: Queue, record: QueueRecord) -> None:
        """The same, and the delivery limit, which a queue has from the beginning."""
        queue.set_delivery_limit(self.delivery_limit(record))
        self.tell(queue, record)

    def _retry(self, tables: VhostRecord, record: QueueRecord) -> Retry:
        """What waits of what returns to a queue.

        Of its arguments and policies the smaller number counts, and the policies' type. Without a
        shortest time nothing waits, and without a longest one that is the same.
        """
        own = arguments.delayed_retries(record.arguments)
        said = EffectiveSettings(tables, record.name, record.kind, own)
        kind = RETRIES.get(said.text(DELAYED_RETRY_TYPE), int(DISABLED))
        least = said.number(DELAYED_RETRY_MIN, 0)
        most = said.number(DELAYED_RETRY_MAX, 0)
        if kind == DISABLED or least <= 0:
            return NO_RETRY
        return Retry(kind, least, most if most > 0 else least)

    def _mind_fallback(self, queue: Queue, falls_back: bool) -> None:
        """Tell, once, where dead letters are to arrive at least once, and do so at most once."""
        group_id = int(queue.group_id)
        if not falls_back:
            self._fallen_back.pop(group_id, None)
        elif group_id not in self._fallen_back and len(self._fallen_back) < FALLEN_BACK_MAX:
            self._fallen_back[group_id] = None
            self._loop.log_warning(
                f"dead letters of {queue} arrive at most once, although its dead-letter-strategy "
                f"is {AT_LEAST_ONCE}: that takes the overflow {REJECT_PUBLISH}"
            )

    def feeds_changed(self) -> None:
        """Events feeds may be others than before; those of vhosts without queues here tell, too."""
        if self._feeds is not None:
            self._feeds.look_again()

    def begin(self, queues: LocalQueues) -> None:
        """This life of the node is known, and with it all that its lives before went by."""
        self.feeds_changed()
        self._freshness.begin(self, queues)
        if self._untold:
            self.changed(queues)

    def changed(self, queues: LocalQueues) -> None:
        """What policies say of queues may be something else now: tell them all, in later turns."""
        self.feeds_changed()
        self._queues = queues
        self._lots = self._metadata.queue_lots()
        self._left = []
        if not self._at_work:
            self._at_work = True
            self._loop.do_in_parts(self)

    def go_on(self) -> bool:
        """Tell some of the queues."""
        policies = 1
        for tables in self._metadata.vhosts.values():
            policies = max(policies, len(tables.policies) + len(tables.operator_policies))
        before = WORK.steps
        for _ in range(max(1, min(TOLD_MAX, MATCHES_MAX // policies))):
            if WORK.steps - before > TURN_STEPS_MAX:
                return False
            while not self._left:
                if not self._lots:
                    self._at_work = False
                    return True
                self._left = queues_of(self._lots.popleft())
            record = self._left.pop()
            queue = self._queue_of(record)
            if queue is not None and not queue.deleted:
                self.tell_all(queue, record)
        return False

    def _queue_of(self, record: QueueRecord) -> Queue | None:
        """What is here of a queue, if the tables have that very record of it still."""
        queues = self._queues
        assert queues is not None, "there is somebody to tell"
        if self._metadata.queue(record.vhost, record.name) is not record:
            return None
        logged = queues.logged.get(int(record.group_id))
        if logged is not None:
            return logged
        here = queues.vhosts.get(record.vhost)
        queue = None if here is None else here.queues.get(record.name)
        return None if queue is None or queue.group_id != record.group_id else queue
