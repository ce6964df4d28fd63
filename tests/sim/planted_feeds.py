"""Bugs put on purpose into what an events feed tells, for the simulator to find."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import CUT, KILL, LOSE, TRANSFER
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.node.feeds import EventFeeds
from warren.queues.feed import FeedWriter, QueueFeed
from warren.queues.feed_block import FeedBlock
from warren.queues.fifo.machine import Fifo
from warren.queues.queue import Queue
from warren.queues.quorum import QuorumQueue

TOLD: dict[str, Any] = QUORUM | {"told": "quorum", "told_most": -1}


def confirmed_twice() -> Undo:
    """That messages are confirmed is told twice."""

    def confirmed(self: Any, first: int, count: int) -> None:
        original(self, first, count)
        original(self, first, count)

    original = QueueFeed.confirmed
    return replace(QueueFeed, "confirmed", confirmed)


def of_another_queue() -> Undo:
    """A row is of the queue that the block had before its own."""

    def queue(self: Any, name: str, incarnation: int) -> int:
        return max(0, int(original(self, name, incarnation)) - 1)

    original = FeedBlock.queue
    return replace(FeedBlock, "queue", queue)


def under_an_old_name() -> Undo:
    """A queue that is made anew is told of under the number of the one before it."""
    numbers: dict[str, int] = {}

    def init(self: Any, writer: Any, name: str, incarnation: int) -> None:
        original(self, writer, name, numbers.setdefault(name, incarnation))

    original = QueueFeed.__init__
    return replace(QueueFeed, "__init__", init)


def followers_tell() -> Undo:
    """Each member of a queue tells of it, and not its leader alone."""

    def mind(self: Any) -> None:
        self.fifo.feed = self.feed

    return replace(QuorumQueue, "_mind_feed", mind)


def leads_without_a_word() -> Undo:
    """Who tells of a queue does not say from where on."""
    return replace(QueueFeed, "leading", lambda self, next_message: None)


def done_when_returned() -> Undo:
    """What goes back with a consumer that is gone is told to be acked."""

    def take_back(self: Any, consumer_id: int) -> Any:
        consumer = self.consumers.get(consumer_id)
        feed, self.feed = self.feed, None
        strand = original(self, consumer_id)
        self.feed = feed
        if feed is not None and strand is not None and not consumer.automatic:
            feed.acked(consumer, strand.lists)
        return strand

    original = Fifo._take_back
    return replace(Fifo, "_take_back", take_back)


def counts_anew() -> Undo:
    """A feed that was off and is on again begins with block 1."""

    def end(self: Any, writer: Any) -> None:
        original(self, writer)
        self._ended.clear()

    original = EventFeeds._end
    return replace(EventFeeds, "_end", end)


def lost_in_a_jam() -> Undo:
    """A block that its queue cannot have now is gone."""

    def put(self: Any, feed: Any) -> None:
        writer = feed.writer
        if self._messages.queue_for(writer.vhost, feed.settings.queue) is None:
            if not writer.empty():
                writer.take(1)
            return
        original(self, feed)

    original = EventFeeds._put
    return replace(EventFeeds, "_put", put)


def first_of_a_row() -> Undo:
    """Of messages that come one after the other only the first one is told to be handed out."""

    def delivered(self: Any, consumer: Any, first: int, count: int, again: bool) -> None:
        original(self, consumer, first, 1, again)

    original = QueueFeed.delivered
    return replace(QueueFeed, "delivered", delivered)


def waits_for_its_feed() -> Undo:
    """A queue takes no publishes while blocks of its feed wait for theirs."""

    def congested(self: Any) -> bool:
        feed = self.feed
        return bool(original(self)) or (feed is not None and not feed.writer.empty())

    original = Queue.congested
    return replace(Queue, "congested", congested)


PLANTED: dict[Any, Where] = {
    confirmed_twice: Where(1, 100, (LOSE, CUT), TOLD),
    of_another_queue: Where(1, 100, (LOSE, CUT), TOLD),
    under_an_old_name: Where(1, 100, (LOSE, CUT), TOLD),
    followers_tell: Where(1, 100, (LOSE, CUT), TOLD),
    leads_without_a_word: Where(1, 100, (KILL,), TOLD),
    done_when_returned: Where(1, 100, (LOSE, CUT), TOLD),
    counts_anew: Where(1, 100, (LOSE, CUT), TOLD),
    lost_in_a_jam: Where(1, 100, (KILL, TRANSFER), TOLD),
    first_of_a_row: Where(1, 100, (LOSE, CUT), TOLD),
}
"""With each bug where it shows soon; see `hunt`."""
