"""What happens to the messages of queues, told by runs of them for an events feed.

A machine tells its `QueueFeed`, where it has one, what becomes of which messages: it costs one look
at an attribute where it has none. Messages that the same happened to in the same millisecond are
one row, if their numbers are equally far apart: consumers that are served in turn have every fourth
message, or every fiftieth. What each consumer was handed and acked is told apart for that. All
feeds of a vhost on a node write into one `FeedWriter`, of which the node makes blocks.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64, trait

from warren.queues.feed_block import (
    ACKED,
    CONFIRMED,
    DEAD_LETTERED,
    DELIVERED,
    DROPPED,
    LEADING,
    LIFE_CYCLE,
    NO_REASON,
    NONE,
    PUBLISHED,
    REDELIVERED,
    REJECTED,
    RETURNED,
    FeedBlock,
)
from warren.queues.fifo.pieces import Piece, pack_of
from warren.queues.fifo.runs import Run, as_run

if TYPE_CHECKING:
    from warren.queues.fifo.consumers import Consumer
    from warren.queues.queue import Host

RUN_KINDS: Final = 8
"""Kinds of rows that may grow: those before `LEADING`."""

RUNS_AT_ONCE_MAX: Final = 4_096
"""Of what happens to more runs at a time, as when a million scattered messages are acked at once,
the rest is left out: about a millisecond."""

BLOCK_ROWS: Final = 8_192
"""A block with so many rows, about 64 KB, is due."""

BLOCK_TEXT_BYTES: Final = 65_536
"""One with texts and names that take so much is, too."""

OPEN_RUNS_ENOUGH: Final = 2_048
"""A block is due, too, when so many rows still grow: each may be of a queue with a long name."""

OPEN_RUNS_MAX: Final = 8_192
"""No more of them do, however long a block cannot go: to close them all takes some milliseconds."""

ROWS_MAX: Final = 65_536
"""While a block cannot go to its queue, rows past so many are left out: 5.2 MB."""

TEXT_BYTES_MAX: Final = 4_194_304
"""Where texts and names of queues take so many bytes the rest is left out likewise."""


@trait
class FeedSink:
    """Sees to it that blocks get to their queue."""

    @abstractmethod
    def block_begun(self, writer: FeedWriter) -> None:
        """There is something to tell: have it go before long."""

    @abstractmethod
    def block_due(self, writer: FeedWriter) -> None:
        """A block has much in it: have it go in a later turn."""


@final
class OpenRun:
    """The newest row of one kind, of a queue or of one of its consumers, which may grow.

    Attributes:
        feed: That of the queue.
        kind: What it tells; a number of `feed_block`.
        count: Messages; there is no row while it is 0.
        step: How far their numbers are apart; 0 while there is one, so that the second one says.
        noted: Whether the writer knows of it.
        block, place, placed: Where its consumer was last written: the number of the block, the
            place among those of the block, and the consumer.
    """

    def __init__(self, feed: QueueFeed, kind: i64) -> None:
        self.feed: QueueFeed = feed
        self.kind: i64 = kind
        self.first: i64 = 0
        self.count: i64 = 0
        self.step: i64 = 0
        self.bytes: i64 = NONE
        self.consumer: i64 = NONE
        self.reason: i64 = NO_REASON
        self.time_ms: i64 = 0
        self.text: str = ""
        self.noted: bool = False
        self.block: i64 = NONE
        self.place: i64 = NONE
        self.placed: i64 = NONE

    def takes(self, first: i64, count: i64) -> bool:
        """Have messages be part of the row, if there is one and they follow its own at its step."""
        if self.count == 0:
            return False
        if self.step == 0:
            step = first - self.first
            if step <= 0 or (count > 1 and step != 1):
                return False
            self.step = step
        elif first != self.first + self.count * self.step or (count > 1 and self.step != 1):
            return False
        self.count += count
        return True

    def tells(self, time_ms: i64, consumer: i64, reason: i64, text: str) -> bool:
        """Whether the row says just this of its messages."""
        return (
            self.time_ms == time_ms
            and self.consumer == consumer
            and self.reason == reason
            and self.text == text
        )

    def consumer_in(self, block: FeedBlock) -> i64:
        """The place of its consumer in a block, which has it from now on."""
        if self.consumer == NONE:
            return NONE
        if block.nth != self.block or self.placed != self.consumer:
            self.block = block.nth
            self.placed = self.consumer
            self.place = block.consumer(self.consumer)
        return self.place


@final
class ConsumerRuns:
    """What a consumer was handed, and what it has acked.

    Attributes:
        feed: That of the queue which it consumes from.
    """

    def __init__(self, feed: QueueFeed) -> None:
        self.feed: QueueFeed = feed
        self.delivered: OpenRun = OpenRun(feed, DELIVERED)
        self.acked: OpenRun = OpenRun(feed, ACKED)


@final
class FeedWriter:
    """What is told of one vhost on this node, until it is taken as a block.

    Attributes:
        vhost: The vhost's name.
        number: The number of the last block.
        left_out: Rows that could not be told so far.
        block: What has been written; rows that may grow are not.
        due: Whether the sink knows that a block is due.
        over: Whether the vhost has no feed any more: what its queues tell before they hear of that
            is nobody's.
    """

    def __init__(
        self, sink: FeedSink, host: Host, vhost: str, node: str, number: i64, left_out: i64
    ) -> None:
        self.vhost: str = vhost
        self.number: i64 = number
        self.left_out: i64 = left_out
        self.due: bool = False
        self.over: bool = False
        self._sink: FeedSink = sink
        self._host: Host = host
        self._node: str = node
        self.block: FeedBlock = FeedBlock(vhost, node)
        self._open: list[OpenRun] = []
        self._begun: bool = False

    def empty(self) -> bool:
        """Whether there is nothing to tell."""
        return self.block.rows == 0 and not self._open

    def now_ms(self) -> i64:
        """Wall time as of this turn, in milliseconds since the epoch."""
        return self._host.now_ms()

    def opened(self, run: OpenRun) -> None:
        """There is a row that may grow."""
        if self.over:
            return
        if len(self._open) >= OPEN_RUNS_MAX:
            self._close_runs()
        run.noted = True
        self._open.append(run)
        if len(self._open) >= OPEN_RUNS_ENOUGH:
            self._due()
        if not self._begun:
            self._begin()

    def has_room(self) -> bool:
        """Whether a row may be written to the block, which it is then; else it is left out."""
        if self.over:
            return False
        block = self.block
        if block.rows >= ROWS_MAX or block.text_bytes >= TEXT_BYTES_MAX:
            self.left_out += 1
            return False
        if block.rows >= BLOCK_ROWS or block.text_bytes >= BLOCK_TEXT_BYTES:
            self._due()
        if not self._begun:
            self._begin()
        return True

    def life_cycle(self, text: str, at_ms: i64) -> None:
        """Tell what is of no message, and was at a wall time; the text is JSON."""
        if self.has_room():
            block = self.block
            place = block.text(text)
            block.row(LIFE_CYCLE, NO_REASON, at_ms, NONE, NONE, NONE, 1, NONE, NONE, place)

    def take(self, life: i64) -> bytes:
        """All that there is to tell, as the next block.

        Args:
            life: The session of this life of the node.
        """
        # It goes now: that it is due, or has begun, is no news.
        self.due = self._begun = True
        self._close_runs()
        self.due = self._begun = False
        block = self.block
        self.number += 1
        encoded = block.encode(life, self.number, self.left_out)
        self.block = FeedBlock(self.vhost, self._node, block)
        return encoded

    def end(self) -> None:
        """The vhost has no feed any more: leave out what has not gone, and all that comes."""
        self.due = self._begun = True
        self._close_runs()
        self.left_out += self.block.rows
        self.block = FeedBlock(self.vhost, self._node)
        self.over = True

    def _close_runs(self) -> None:
        """Write all rows that could have grown."""
        for run in self._open:
            run.feed.close(run)
        self._open = []

    def _begin(self) -> None:
        self._begun = True
        self._sink.block_begun(self)

    def _due(self) -> None:
        if not self.due:
            self.due = True
            self._sink.block_due(self)


@final
class QueueFeed:
    """Tells what becomes of the messages of one queue.

    Attributes:
        writer: Where it is told.
        to: What is said of where its dead letters go, JSON; empty where they go nowhere.
    """

    def __init__(self, writer: FeedWriter, name: str, incarnation: i64) -> None:
        self.writer: FeedWriter = writer
        self.to: str = ""
        self._name: str = name
        self._incarnation: i64 = incarnation
        self._now_ms: i64 = 0
        self._runs: list[OpenRun] = []
        """A row that may grow for each kind; none of a queue that nothing has happened to."""
        self._block: i64 = NONE
        """Which block has the queue: a block itself would stay for as long as nothing happens,"""
        self._place: i64 = 0
        """and the place of the queue in it."""

    def note_time(self) -> None:
        """Deliveries and acks that are told of are of now, until this is called again."""
        self._now_ms = self.writer.now_ms()

    def leading(self, next_message: i64) -> None:
        """This node tells of the queue from now on, from a message on."""
        if self.writer.has_room():
            block = self.writer.block
            now = self.writer.now_ms()
            place = self._place_in(block)
            block.row(LEADING, NO_REASON, now, place, next_message, 0, 1, NONE, NONE, NONE)

    def published(self, first: i64, count: i64, size: i64, time_ms: i64) -> None:
        """Messages have come, says an entry of that time."""
        run = self._run(PUBLISHED)
        if run.tells(time_ms, NONE, NO_REASON, "") and run.takes(first, count):
            run.bytes += size
        else:
            self._begin(run, first, count, size, NONE, NO_REASON, time_ms, "")

    def confirmed(self, first: i64, count: i64) -> None:
        """Messages are safe: their publishers may hear so."""
        self._tell(self._run(CONFIRMED), first, count, NO_REASON, "")

    def delivered(self, consumer: Consumer, first: i64, count: i64, again: bool) -> None:
        """A consumer was handed messages, at the time noted, which somebody had before or not."""
        runs = consumer.told
        if runs is None or runs.feed is not self:
            runs = self._runs_of(consumer)
        run = runs.delivered
        now = self._now_ms
        reason: i64 = NO_REASON
        if again:
            reason = REDELIVERED
        # The rest of the row is the same for all that this consumer is handed.
        if run.time_ms != now or run.reason != reason or not run.takes(first, count):
            self._begin(run, first, count, NONE, consumer.id, reason, now, "")

    def acked(self, consumer: Consumer, lists: list[list[Piece]]) -> None:
        """A consumer is done with messages, at the time noted."""
        runs = consumer.told
        if runs is None or runs.feed is not self:
            runs = self._runs_of(consumer)
        run = runs.acked
        now = self._now_ms
        lone = _lone(lists)
        if lone is None:
            self._tell_lists(run, lists, consumer.id, NO_REASON, "", now)
        elif run.time_ms != now or not run.takes(lone.first, lone.count):
            self._begin(run, lone.first, lone.count, NONE, consumer.id, NO_REASON, now, "")

    def returned(self, consumer: i64, lists: list[list[Piece]], reason: i64) -> None:
        """Messages go back to the queue."""
        self._tell_now(self._run(RETURNED), lists, consumer, reason, "")

    def rejected(self, consumer: i64, lists: list[list[Piece]]) -> None:
        """A consumer wants messages gone; what becomes of them is told after it."""
        self._tell_now(self._run(REJECTED), lists, consumer, NO_REASON, "")

    def died(self, lists: list[list[Piece]], reason: i64, elsewhere: bool) -> None:
        """Messages died, and go through the dead-letter exchange or nowhere.

        Args:
            reason: As `message.dead_letters` numbers it.
        """
        if elsewhere:
            self._tell_now(self._run(DEAD_LETTERED), lists, NONE, reason, self.to)
        else:
            self._tell_now(self._run(DROPPED), lists, NONE, reason, "")

    def dead(self, first: i64, count: i64, reason: i64) -> None:
        """Messages died, and are kept until they are elsewhere."""
        self._tell(self._run(DEAD_LETTERED), first, count, reason, self.to)

    def dropped(self, lists: list[list[Piece]], reason: i64) -> None:
        """Messages left for good, and went nowhere."""
        self._tell_now(self._run(DROPPED), lists, NONE, reason, "")

    def read(self, group: str, lists: list[list[Piece]]) -> None:
        """A group of readers has taken messages; which of them came back before is not told."""
        self._tell_now(self._run(DELIVERED), lists, 0, NO_REASON, said("group", group))

    def read_done(self, group: str, lists: list[list[Piece]]) -> None:
        """A group of readers is done with messages."""
        self._tell_now(self._run(ACKED), lists, 0, NO_REASON, said("group", group))

    def read_back(self, group: str, lists: list[list[Piece]], reason: i64) -> None:
        """What a group of readers held goes back to the queue."""
        self._tell_now(self._run(RETURNED), lists, 0, reason, said("group", group))

    def close(self, run: OpenRun) -> None:
        """Write a row that could have grown."""
        if run.count > 0:
            self._write(run)
            run.count = 0
        run.noted = False

    def _runs_of(self, consumer: Consumer) -> ConsumerRuns:
        runs = ConsumerRuns(self)
        consumer.told = runs
        return runs

    def _run(self, kind: i64) -> OpenRun:
        if not self._runs:
            for each in range(RUN_KINDS):
                self._runs.append(OpenRun(self, each))
        return self._runs[kind]

    def _tell(self, run: OpenRun, first: i64, count: i64, reason: i64, text: str) -> None:
        """Tell of messages that no consumer has or had, as of now."""
        now = self.writer.now_ms()
        if not (run.tells(now, NONE, reason, text) and run.takes(first, count)):
            self._begin(run, first, count, NONE, NONE, reason, now, text)

    def _tell_now(
        self, run: OpenRun, lists: list[list[Piece]], consumer: i64, reason: i64, text: str
    ) -> None:
        self._tell_lists(run, lists, consumer, reason, text, self.writer.now_ms())

    def _tell_lists(
        self,
        run: OpenRun,
        lists: list[list[Piece]],
        consumer: i64,
        reason: i64,
        text: str,
        time_ms: i64,
    ) -> None:
        same = run.tells(time_ms, consumer, reason, text)
        left: i64 = RUNS_AT_ONCE_MAX
        for pieces in lists:
            pack = pack_of(pieces)
            size: i64 = len(pieces)
            if pack is not None:
                size = pack.size
            left -= size
            if left < 0:
                self.writer.left_out += size
                continue
            if pack is not None:
                pieces = pack.open()
            for piece in pieces:
                each = as_run(piece)
                if not same or not run.takes(each.first, each.count):
                    self._begin(run, each.first, each.count, NONE, consumer, reason, time_ms, text)
                    same = True

    def _begin(
        self,
        run: OpenRun,
        first: i64,
        count: i64,
        size: i64,
        consumer: i64,
        reason: i64,
        time_ms: i64,
        text: str,
    ) -> None:
        """Write a row, if there is one, and begin another one."""
        if run.count > 0:
            self._write(run)
        if not run.noted:
            self.writer.opened(run)
        run.first = first
        run.count = count
        run.step = 0 if count == 1 else 1
        run.bytes = size
        run.consumer = consumer
        run.reason = reason
        run.time_ms = time_ms
        run.text = text

    def _write(self, run: OpenRun) -> None:
        if not self.writer.has_room():
            return
        block = self.writer.block
        text: i64 = NONE
        if run.text:
            text = block.text(run.text)
        block.row(
            run.kind,
            run.reason,
            run.time_ms,
            self._place_in(block),
            run.first,
            run.count,
            max(run.step, 1),
            run.bytes,
            run.consumer_in(block),
            text,
        )

    def _place_in(self, block: FeedBlock) -> i64:
        """The place of the queue in a block, which has it from now on."""
        if block.nth != self._block:
            self._block = block.nth
            self._place = block.queue(self._name, self._incarnation)
        return self._place


def _lone(lists: list[list[Piece]]) -> Run | None:
    """The run in lists that have just one, as where a consumer works on a message at a time."""
    if len(lists) != 1 or len(lists[0]) != 1:
        return None
    piece = lists[0][0]
    return piece if isinstance(piece, Run) else None


def said(key: str, value: str) -> str:
    """What a row says more, as JSON."""
    return json.dumps({key: value})
