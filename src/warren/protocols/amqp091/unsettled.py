"""Delivery tags of one channel that wait for an ack.

Tags are dense and so are a consumer's message ids, so what is unsettled is a short list of runs
however large the prefetch is, unless it is settled here and there or several consumers take turns.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.queues.pieces import Chunk, Piece, Pieces
from warren.queues.queue import Queue


@final
class TagRun(Piece):
    """Tags `key..key+count-1` carry message ids `mid..` of one consumer of one queue."""

    def __init__(self, tag: i64, count: i64, queue: Queue, consumer_id: i64, mid: i64) -> None:
        super().__init__(tag, count)
        self.queue: Queue = queue
        self.consumer_id: i64 = consumer_id
        self.mid: i64 = mid

    def part(self, offset: i64, count: i64) -> Piece:
        """Some of these tags."""
        return TagRun(self.key + offset, count, self.queue, self.consumer_id, self.mid + offset)

    def shorten(self, count: i64) -> None:
        """Give up so many of the first tags."""
        self.key += count
        self.mid += count
        self.count -= count

    def kin(self, other: Piece) -> bool:
        """Whether both are of the same consumer."""
        run = as_tags(other)
        return run.consumer_id == self.consumer_id and run.queue is self.queue


@final
class Unsettled:
    """All unsettled deliveries of a channel, in tag order.

    Attributes:
        next_tag: The next delivery's tag, from 1.
    """

    def __init__(self) -> None:
        self.next_tag: i64 = 1
        self._pieces: Pieces = Pieces()

    def count(self) -> i64:
        """Deliveries unsettled now."""
        return self._pieces.count

    def add(self, count: i64, queue: Queue, consumer_id: i64, mid: i64) -> None:
        """The last `count` tags given out need an ack."""
        tag = self.next_tag - count
        pieces = self._pieces
        piece = pieces.tail()
        if piece is not None:
            tail = as_tags(piece)
            if (
                tail.consumer_id == consumer_id
                and tail.queue is queue
                and tail.key + tail.count == tag
                and tail.mid + tail.count == mid
            ):
                pieces.grow_tail(count)
                return
        pieces.push(TagRun(tag, count, queue, consumer_id, mid))

    def first(self) -> i64:
        """The lowest unsettled tag, 0 if there is none."""
        return self._pieces.head().key if self._pieces.count > 0 else 0

    def owners(self) -> list[TagRun]:
        """A run, or more, of each consumer of which something is unsettled."""
        found: list[TagRun] = []
        for chunk in self._pieces.chunks():
            pieces = chunk.live()
            for piece in pieces if chunk.mixed else pieces[:1]:
                found.append(as_tags(piece))
        return found

    def holds(self, tag: i64) -> bool:
        """Whether a tag is unsettled."""
        return self._pieces.holds(tag)

    def take(self, first: i64, last: i64) -> list[list[Piece]]:
        """Take the unsettled tags of `first..last` out, in order."""
        return self._pieces.take(first, last)

    def spans(self, last: i64) -> list[TagRun]:
        """What is unsettled up to a tag, as one run of message ids for each consumer.

        Between the ids of such a run lie only some that were settled or returned before, so that a
        queue may be told of all of them together. They have the tag of the first.
        """
        spans: list[TagRun] = []
        others: dict[tuple[int, int], TagRun] | None = None
        for chunk in self._pieces.chunks():
            if chunk.pieces[chunk.head].key > last:
                break
            at = chunk.head
            stop = _behind(chunk, last)
            while at < stop:
                run = as_tags(chunk.pieces[at])
                span = spans[-1] if spans else None
                if span is None:
                    span = TagRun(run.key, 0, run.queue, run.consumer_id, run.mid)
                    spans.append(span)
                elif not run.kin(span):
                    if others is None:
                        others = {_owner(span): span}
                    span = others.get(_owner(run))
                    if span is None:
                        span = TagRun(run.key, 0, run.queue, run.consumer_id, run.mid)
                        others[_owner(run)] = span
                        spans.append(span)
                count = min(run.count, last - run.key + 1)
                span.count = run.mid + count - span.mid
                # Where all are of one consumer, the first and the last run say it all.
                at = at + 1 if chunk.mixed or at == stop - 1 else stop - 1
        return spans

    def put_back(self, piece: Piece) -> None:
        """A run that `take` gave is unsettled after all (a transaction was rolled back)."""
        self._pieces.insert(piece)


def as_tags(piece: Piece) -> TagRun:
    """A piece of what a channel has not settled."""
    assert isinstance(piece, TagRun), "channels have runs of tags"
    return piece


def runs_of(lists: list[list[Piece]]) -> list[TagRun]:
    """What `Unsettled.take` gave, run by run."""
    return [as_tags(piece) for pieces in lists for piece in pieces]


def _owner(run: TagRun) -> tuple[int, int]:
    return id(run.queue), int(run.consumer_id)


def _behind(chunk: Chunk, last: i64) -> i64:
    """Index behind a chunk's last run that begins at or before a tag."""
    if chunk.pieces[-1].key <= last:
        return len(chunk.pieces)
    at = chunk.find(last)
    if at < len(chunk.pieces) and chunk.pieces[at].key <= last:
        return at + 1
    return at
