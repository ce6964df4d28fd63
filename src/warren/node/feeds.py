"""The events feeds of one node: what becomes of messages is written to an ordinary queue.

Each vhost may have one (`metadata.feeds`). What this node tells of it, of the messages of queues
that it leads and of its clients, is gathered into blocks, each of which is one message of the
feed's queue: that is stored, replicated, limited and read like any other. A block goes when it is
large enough, or with the next tick of the log, some times a second; what was not written by then is
lost with the process. Blocks have numbers, so that a reader sees which are missing. Of many feeds
some go in one turn, each after those that began before it.

While the feed's queue is behind or cannot be reached, a block grows up to a bound, and what comes
beyond it is left out and counted: telling never holds up what it tells of.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, final

import msgspec
from mypy_extensions import i64

from warren.message.properties import MessageProperties
from warren.metadata.feeds import FEED_NAME, FeedSettings, feed_settings
from warren.metadata.machine import MetadataMachine
from warren.metadata.parameters import FEED
from warren.metadata.plain_tables import plain
from warren.metadata.tables import QueueRecord
from warren.node.loop import Loop
from warren.node.own_messages import OwnMessages
from warren.ports import Work
from warren.queues.feed import FeedSink, FeedWriter, QueueFeed, said
from warren.queues.queue import Queue
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

CONTENT_TYPE: Final = "application/vnd.warren.feed"
TURN_BLOCKS: Final = 8
"""So many blocks, of mostly no more than 64 KB, go in one turn."""
TICK_FEEDS: Final = 64
"""Of so many feeds a tick finds out whether there is still one."""
ENDED_MAX: Final = 1_024
"""Of so many feeds that ended the number of the last block is known."""
DETAIL_BYTES_MAX: Final = 8_192
"""Of an event with more to say, only its name is told."""


@final
class VhostFeed:
    """That of one vhost on this node.

    Attributes:
        source: The parameter that says that there is one.
        settings: What that says; None where it says nothing that this release understands.
        writer: What is told and has not gone.
    """

    def __init__(self, source: bytes, settings: FeedSettings | None, writer: FeedWriter) -> None:
        self.source: bytes = source
        self.settings: FeedSettings | None = settings
        self.writer: FeedWriter = writer


@final
class EventFeeds(Work, FeedSink):
    """See the module's head."""

    def __init__(
        self, loop: Loop, metadata: MetadataMachine, cluster: Cluster, messages: OwnMessages
    ) -> None:
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._cluster: Cluster = cluster
        self._messages: OwnMessages = messages
        self._node: str = loop.settings.node_name
        self._feeds: dict[str, VhostFeed] = {}
        self._ended: dict[str, tuple[int, int]] = {}
        """By vhost, the number of the last block and the rows left out of feeds that ended, in the
        order in which they did."""
        self._number: i64 = 0
        """No feed that ended and is not known any more had a block of a higher number."""
        self._to_check: deque[str] = deque()
        self._begun: dict[str, FeedWriter] = {}
        """By vhost, those with something that is to go with the next tick."""
        self._due: deque[FeedWriter] = deque()
        """Those with something that is to go now."""
        self._at_work: bool = False

    # What is told.

    def tell(self, queue: Queue, record: QueueRecord, dead_letter_exchange: str | None) -> None:
        """Have a queue tell what becomes of its messages, or not, as the tables now say."""
        feed = self._feed(record.vhost)
        if feed is None or feed.settings is None or not feed.settings.covers(record.name):
            if queue.feed is not None:
                queue.set_feed(None)
            return
        told = queue.feed
        if told is None or told.writer is not feed.writer:
            told = QueueFeed(feed.writer, record.name, record.group_id)
            queue.set_feed(told)
        told.to = "" if dead_letter_exchange is None else said("exchange", dead_letter_exchange)

    def look_again(self) -> None:
        """The tables may say something else of feeds, of vhosts without queues here, too."""
        for vhost, component, name in self._metadata.parameters:
            if component == FEED and name == FEED_NAME:
                self._feed(vhost)

    def on(self) -> bool:
        """Whether any vhost may have a feed."""
        return len(self._feeds) > 0

    def life_cycle(self, vhost: str, event: str, headers: Table, at_ms: i64) -> None:
        """Something happened that is of no message, at a wall time."""
        feed = self._feed(vhost)
        if feed is None or feed.settings is None:
            return
        text = msgspec.json.encode({"event": event, **plain(headers)})
        if len(text) > DETAIL_BYTES_MAX:
            text = msgspec.json.encode({"event": event})
        feed.writer.life_cycle(text.decode(), at_ms)

    def _feed(self, vhost: str) -> VhostFeed | None:
        """The feed of a vhost as the tables have it now; None if there is none."""
        source = self._metadata.parameters.get((vhost, FEED, FEED_NAME))
        known = self._feeds.get(vhost)
        if source is None:
            if known is not None:
                # What it has goes yet; its queues are told that it ended, one by one. Who begins
                # to use a queue for that asks for the feed once more.
                del self._feeds[vhost]
                self._put(known)
                self._end(known.writer)
            return None
        if known is not None and known.source == source:
            return known
        writer = known.writer if known is not None else self._writer(vhost)
        feed = VhostFeed(source, feed_settings(source), writer)
        self._feeds[vhost] = feed
        if known is not None:
            self._put(known)
        return feed

    def _writer(self, vhost: str) -> FeedWriter:
        """What tells of a vhost from now on; its blocks go on counting, if it had a feed before."""
        number, left_out = self._ended.pop(vhost, (int(self._number), 0))
        return FeedWriter(self, self._loop, vhost, self._node, number, left_out)

    def _end(self, writer: FeedWriter) -> None:
        """The vhost of a writer has no feed any more."""
        writer.end()
        self._ended[writer.vhost] = (writer.number, writer.left_out)
        if len(self._ended) > ENDED_MAX:
            number, _ = self._ended.pop(next(iter(self._ended)))
            self._number = max(self._number, number)

    # How it gets to its queue.

    def block_begun(self, writer: FeedWriter) -> None:
        """There is something to tell."""
        self._begun[writer.vhost] = writer

    def block_due(self, writer: FeedWriter) -> None:
        """A block is large enough."""
        self._due.append(writer)
        self._work()

    def _work(self) -> None:
        if not self._at_work:
            self._at_work = True
            self._loop.do_in_parts(self)

    def go_on(self) -> bool:
        """Have some blocks go; whether these were the last that are due."""
        for _ in range(min(TURN_BLOCKS, len(self._due))):
            self._go(self._due.popleft())
        if self._due:
            return False
        self._at_work = False
        return True

    def _go(self, writer: FeedWriter) -> None:
        """Have a block go, unless it did, or with the next tick if it cannot."""
        feed = self._feed(writer.vhost)
        if feed is None or feed.writer is not writer or writer.empty():
            return
        self._put(feed)
        if not writer.empty():
            self._begun[writer.vhost] = writer

    def waiting(self) -> bool:
        """Whether there is something that has not gone."""
        return len(self._begun) > 0 or len(self._due) > 0

    def tick(self) -> None:
        """Have all go that there is, in parts if need be; called some times a second."""
        if not self._to_check:
            self._to_check.extend(self._feeds)
        for _ in range(min(TICK_FEEDS, len(self._to_check))):
            self._feed(self._to_check.popleft())
        self._due.extend(self._begun.values())
        self._begun = {}
        if not self._at_work and not self.go_on():
            self._work()

    def flush(self) -> None:
        """Have all go at once that there is: the node stops."""
        self._due.extend(self._begun.values())
        self._begun = {}
        while self._due:
            self._go(self._due.popleft())
        self._begun = {}

    def _put(self, feed: VhostFeed) -> None:
        """Publish a block, unless its queue cannot have it now, so that it grows."""
        writer = feed.writer
        settings = feed.settings
        life: i64 = self._cluster.session
        if settings is None or life == 0 or writer.empty():
            return
        queue = self._messages.queue_for(writer.vhost, settings.queue)
        if queue is None or queue.congested():
            return
        block = writer.take(life)
        properties = MessageProperties(
            content_type=CONTENT_TYPE, persistent=True, timestamp_ms=self._loop.now_ms()
        )
        self._messages.put(queue, properties, block)
