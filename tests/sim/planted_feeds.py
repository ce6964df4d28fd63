"""Bugs put on purpose into what an events feed tells, for the simulator to find."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import KILL, LOSE, TRANSFER
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.node.feeds import EventFeeds
from warren.queues.feed import QueueFeed
from warren.queues.feed_block import ACKED, NO_REASON, NONE, PUBLISHED, FeedBlock
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


def followers_tell() -> Undo:
    """Each member of a queue tells of it, and not its leader alone."""

    def mind(self: Any) -> None:
        self.fifo.feed = self.feed

    return replace(QuorumQueue, "_mind_feed", mind)


def leads_without_a_word() -> Undo:
    """Who tells of a queue does not say from where on."""
    return replace(QueueFeed, "leading", lambda self, next_message: None)


def acked_when_rejected() -> Undo:
    """What a consumer wants gone is told to be acked."""

    def rejected(self: Any, consumer: int, lists: Any) -> None:
        self._tell_now(self._run(ACKED), lists, consumer, NO_REASON, "")

    return replace(QueueFeed, "rejected", rejected)


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


def counts_bytes_of_the_first() -> Undo:
    """Of entries that make one row, only the first one's bytes are told."""

    def published(self: Any, first: int, count: int, size: int, time_ms: int) -> None:
        run = self._run(PUBLISHED)
        grows = run.tells(time_ms, NONE, NO_REASON, "") and run.count > 0
        original(self, first, count, 0 if grows else size, time_ms)

    original = QueueFeed.published
    return replace(QueueFeed, "published", published)


def by_its_own_clock() -> Undo:
    """Messages come at the time of the node that tells of them, and not at that of the log."""

    def published(self: Any, first: int, count: int, size: int, time_ms: int) -> None:
        original(self, first, count, size, self.writer.now_ms())

    original = QueueFeed.published
    return replace(QueueFeed, "published", published)


PLANTED: dict[Any, Where] = {
    confirmed_twice: Where(3, 40, (LOSE,), TOLD),
    of_another_queue: Where(51, 40, (LOSE,), TOLD | {"quorum_queues": 2}),
    followers_tell: Where(3, 40, (LOSE,), TOLD),
    leads_without_a_word: Where(1, 40, (LOSE,), TOLD),
    acked_when_rejected: Where(3, 40, (LOSE,), TOLD),
    first_of_a_row: Where(3, 40, (LOSE,), TOLD),
    counts_anew: Where(12, 100, (LOSE,), TOLD),
    counts_bytes_of_the_first: Where(1, 40, (LOSE,), TOLD),
    by_its_own_clock: Where(3, 40, (LOSE,), TOLD),
    lost_in_a_jam: Where(82, 100, (KILL, TRANSFER), TOLD),
}
"""With each bug where it shows soon; see `hunt`."""
