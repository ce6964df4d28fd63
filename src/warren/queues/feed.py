"""What happens to the messages of queues, told by runs of them for an events feed.

A machine tells its `QueueFeed`, where it has one, what becomes of which messages: it costs one look
at an attribute where it has none. Neighbours that the same happened to, in the same millisecond,
are one row. All feeds of a vhost on a node write into one `FeedWriter`, of which the node makes
blocks.
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
from warren.queues.fifo.pieces import Piece, opened, size_of
from warren.queues.fifo.runs import as_run

if TYPE_CHECKING:
    from warren.queues.queue import Host

RUN_KINDS: Final = 8
"""Kinds of rows that may grow: those before `LEADING`."""

RUNS_AT_ONCE_MAX: Final = 4_096
"""Of what happens to more runs at a time, as when a million scattered messages are acked at once,
the rest is left out: about a millisecond."""

BLOCK_ROWS: Final = 1_300
"""A block with so many rows, about 64 KB, is due."""

BLOCK_TEXT_BYTES: Final = 65_536
"""One with texts and names that take so much is, too."""

OPEN_QUEUES_ENOUGH: Final = 512
"""A block is due, too, when so many queues have rows that still grow."""

OPEN_QUEUES_MAX: Final = 2_048
"""No more of them have, however long a block cannot go: that of so many are closed at once takes
some milliseconds."""

ROWS_MAX: Final = 65_536
"""While a block cannot go to its queue, rows past so many are left out: 3.3 MB."""

TEXT_BYTES_MAX: Final = 4_194_304
"""Where texts and names of queues take so many bytes the rest is left out likewise."""


@trait
class FeedSink:
    """Sees to it that blocks get to their queue."""

    @abstractmethod
    def block_due(self, writer: FeedWriter) -> None:
        """A block has much in it: have it go in a later turn."""


@final
class OpenRun:
    """The newest row of one kind of a queue, which may grow; it has none while `count` is 0."""

    def __init__(self) -> None:
        self.first: i64 = 0
        self.count: i64 = 0
        self.bytes: i64 = NONE
        self.consumer: i64 = NONE
        self.reason: i64 = NO_REASON
        self.time_ms: i64 = 0
        self.text: str = ""


@final
class FeedWriter:
    """What is told of one vhost on this node, until it is taken as a block.

    Attributes:
        vhost: The vhost's name.
        number: The number of the last block.
        left_out: Rows that could not be told so far.
        due: Whether the sink knows that a block is due.
    """

    def __init__(self, sink: FeedSink, host: Host, vhost: str, node: str) -> None:
        self.vhost: str = vhost
        self.number: i64 = 0
        self.left_out: i64 = 0
        self.due: bool = False
        self._sink: FeedSink = sink
        self._host: Host = host
        self._node: str = node
        self._block: FeedBlock = FeedBlock(vhost, node)
        self._open: list[QueueFeed] = []

    def empty(self) -> bool:
        """Whether there is nothing to tell."""
        return self._block.rows == 0 and not self._open

    def now_ms(self) -> i64:
        """Wall time as of this turn, in milliseconds since the epoch."""
        return self._host.now_ms()

    def opened(self, feed: QueueFeed) -> None:
        """A queue has a row that may grow."""
        if len(self._open) >= OPEN_QUEUES_MAX:
            self._close()
        self._open.append(feed)
        if len(self._open) >= OPEN_QUEUES_ENOUGH:
            self._due()

    def block(self) -> FeedBlock | None:
        """Where a row may be written; None where it is to be left out."""
        block = self._block
        if block.rows >= ROWS_MAX or block.text_bytes >= TEXT_BYTES_MAX:
            self.left_out += 1
            return None
        if block.rows >= BLOCK_ROWS or block.text_bytes >= BLOCK_TEXT_BYTES:
            self._due()
        return block

    def life_cycle(self, text: str, at_ms: i64) -> None:
        """Tell what is of no message, and was at a wall time; the text is JSON."""
        block = self.block()
        if block is not None:
            place = block.text(text)
            block.row(LIFE_CYCLE, NO_REASON, at_ms, NONE, NONE, NONE, NONE, NONE, place)

    def take(self, life: i64) -> bytes:
        """All that there is to tell, as the next block.

        Args:
            life: The session of this life of the node.
        """
        self._close()
        self.due = False
        block = self._block
        self._block = FeedBlock(self.vhost, self._node)
        self.number += 1
        return block.encode(life, self.number, self.left_out)

    def _close(self) -> None:
        """No row grows any more."""
        for feed in self._open:
            feed.close_runs()
        self._open = []

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
        self._runs: list[OpenRun] = []
        """A row that may grow for each kind; none of a queue that nothing happens to."""
        self._open: bool = False
        """Whether the writer's block has, or gets, rows of this queue."""
        self._block: FeedBlock | None = None
        self._place: i64 = 0
        """That of the queue in this block."""

    def leading(self, next_message: i64) -> None:
        """This node tells of the queue from now on, from a message on."""
        if not self._open:
            self._begin()
        block = self.writer.block()
        if block is not None:
            now = self.writer.now_ms()
            place = self._place_in(block)
            block.row(LEADING, NO_REASON, now, place, next_message, 0, NONE, NONE, NONE)

    def published(self, first: i64, count: i64, size: i64, time_ms: i64) -> None:
        """Messages have come, says an entry of that time."""
        self._tell(PUBLISHED, first, count, size, NONE, NO_REASON, time_ms, "")

    def confirmed(self, first: i64, count: i64) -> None:
        """Messages are safe: their publishers may hear so."""
        now = self.writer.now_ms()
        self._tell(CONFIRMED, first, count, NONE, NONE, NO_REASON, now, "")

    def delivered(self, consumer: i64, first: i64, count: i64, again: bool) -> None:
        """A consumer was handed messages, which somebody had before or not."""
        reason = REDELIVERED if again else NO_REASON
        self._tell(DELIVERED, first, count, NONE, consumer, reason, self.writer.now_ms(), "")

    def acked(self, consumer: i64, lists: list[list[Piece]]) -> None:
        """A consumer is done with messages."""
        self._tell_lists(ACKED, lists, consumer, NO_REASON, "")

    def returned(self, consumer: i64, lists: list[list[Piece]], reason: i64) -> None:
        """Messages go back to the queue."""
        self._tell_lists(RETURNED, lists, consumer, reason, "")

    def rejected(self, consumer: i64, lists: list[list[Piece]]) -> None:
        """A consumer wants messages gone; what becomes of them is told after it."""
        self._tell_lists(REJECTED, lists, consumer, NO_REASON, "")

    def died(self, lists: list[list[Piece]], reason: i64, elsewhere: bool) -> None:
        """Messages died, and go through the dead-letter exchange or nowhere.

        Args:
            reason: As `message.dead_letters` numbers it.
        """
        if elsewhere:
            self._tell_lists(DEAD_LETTERED, lists, NONE, reason, self.to)
        else:
            self._tell_lists(DROPPED, lists, NONE, reason, "")

    def dead(self, first: i64, count: i64, reason: i64) -> None:
        """Messages died, and are kept until they are elsewhere."""
        now = self.writer.now_ms()
        self._tell(DEAD_LETTERED, first, count, NONE, NONE, reason, now, self.to)

    def dropped(self, lists: list[list[Piece]], reason: i64) -> None:
        """Messages left for good, and went nowhere."""
        self._tell_lists(DROPPED, lists, NONE, reason, "")

    def read(self, group: str, lists: list[list[Piece]]) -> None:
        """A group of readers has taken messages; which of them came back before is not told."""
        self._tell_lists(DELIVERED, lists, 0, NO_REASON, said("group", group))

    def read_done(self, group: str, lists: list[list[Piece]]) -> None:
        """A group of readers is done with messages."""
        self._tell_lists(ACKED, lists, 0, NO_REASON, said("group", group))

    def read_back(self, group: str, lists: list[list[Piece]], reason: i64) -> None:
        """What a group of readers held goes back to the queue."""
        self._tell_lists(RETURNED, lists, 0, reason, said("group", group))

    def close_runs(self) -> None:
        """Write all rows that could have grown."""
        for kind, run in enumerate(self._runs):
            if run.count > 0:
                self._write(kind, run)
        self._runs = []
        self._open = False
        self._block = None

    def _tell_lists(
        self, kind: i64, lists: list[list[Piece]], consumer: i64, reason: i64, text: str
    ) -> None:
        now = self.writer.now_ms()
        left: i64 = RUNS_AT_ONCE_MAX
        for pieces in lists:
            size = size_of(pieces)
            left -= size
            if left < 0:
                self.writer.left_out += size
                continue
            for piece in opened(pieces):
                run = as_run(piece)
                self._tell(kind, run.first, run.count, NONE, consumer, reason, now, text)

    def _tell(
        self,
        kind: i64,
        first: i64,
        count: i64,
        size: i64,
        consumer: i64,
        reason: i64,
        time_ms: i64,
        text: str,
    ) -> None:
        if not self._open:
            self._begin()
        run = self._runs[kind]
        if run.count > 0:
            if (
                run.first + run.count == first
                and run.time_ms == time_ms
                and run.consumer == consumer
                and run.reason == reason
                and run.text == text
            ):
                run.count += count
                if size > 0:
                    run.bytes += size
                return
            self._write(kind, run)
        run.first = first
        run.count = count
        run.bytes = size
        run.consumer = consumer
        run.reason = reason
        run.time_ms = time_ms
        run.text = text

    def _begin(self) -> None:
        """The writer is to know that there is something of this queue."""
        self._open = True
        for _ in range(RUN_KINDS):
            self._runs.append(OpenRun())
        self.writer.opened(self)

    def _write(self, kind: i64, run: OpenRun) -> None:
        block = self.writer.block()
        if block is None:
            return
        text: i64 = NONE
        if run.text:
            text = block.text(run.text)
        block.row(
            kind,
            run.reason,
            run.time_ms,
            self._place_in(block),
            run.first,
            run.count,
            run.bytes,
            run.consumer,
            text,
        )

    def _place_in(self, block: FeedBlock) -> i64:
        """The place of the queue in a block, which has it from now on."""
        if block is not self._block:
            self._block = block
            self._place = block.queue(self._name, self._incarnation)
        return self._place


def said(key: str, value: str) -> str:
    """What a row says more, as JSON."""
    return json.dumps({key: value})
