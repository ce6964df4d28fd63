"""Delivery tags of one channel that wait for an ack.

Tags are dense and so are a consumer's message ids, so what is unsettled is a short list of runs
however large the prefetch is, unless it is settled here and there or several consumers take turns.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.queues.fifo.pieces import Chunk, Piece, Pieces
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

    def place(self) -> i64:
        """The first message id."""
        return self.mid


@final
class Spans:
    """Joins what each consumer has in one place and the other.

    Attributes:
        found: One run for each.
    """

    def __init__(self) -> None:
        self.found: list[TagRun] = []
        self._places: dict[tuple[int, int], int] | None = None
        """Where each is in `found`, if there are several."""
        self._next: i64 = 0
        """Whose turn it is if they take turns."""

    def add(self, run: TagRun, first: i64, behind: i64) -> None:
        """The consumer of a run has ids from `first`, to before `behind`."""
        found = self.found
        if not found:
            found.append(TagRun(run.key, behind - first, run.queue, run.consumer_id, first))
            return
        at = self._next
        if at >= len(found):
            at = 0
        if not run.kin(found[at]):
            # If only one is left out, it is the next one's turn.
            at += 1
            if at >= len(found) or not run.kin(found[at]):
                at = self._find(run)
                if at == len(found):
                    found.append(TagRun(run.key, behind - first, run.queue, run.consumer_id, first))
        self._next = at + 1
        span = found[at]
        start = min(span.mid, first)
        span.count = max(span.mid + span.count, behind) - start
        span.mid = start

    def _find(self, run: TagRun) -> i64:
        """Where a consumer is in `found`, or will be as the next one."""
        found = self.found
        places = self._places
        if places is None:
            places = {_owner(found[0]): 0}
            self._places = places
        owner = _owner(run)
        at = places.get(owner)
        if at is None:
            at = len(found)
            places[owner] = at
        return at


@final
class Unsettled:
    """All unsettled deliveries of a channel, in tag order.

    Attributes:
        next_tag: The next delivery's tag, from 1.
    """

    def __init__(self) -> None:
        self.next_tag: i64 = 1
        self._pieces: Pieces = Pieces(True)

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
            shares = chunk.shares
            if shares is not None:
                for at in range(i64(len(shares.kin))):
                    if shares.counts[at] > 0:
                        found.append(as_tags(shares.kin[at]))
                continue
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

        Among the ids of such a run are only some more that were settled or returned before, so that
        a queue may be told of all of them together. Its tags mean nothing.
        """
        spans = Spans()
        for chunk in self._pieces.chunks():
            pieces = chunk.pieces
            if pieces[chunk.head].key > last:
                break
            tail = pieces[-1]
            shares = chunk.shares
            if shares is not None and tail.key + tail.count - 1 <= last:
                for share in range(i64(len(shares.kin))):
                    if shares.counts[share] > 0:
                        first = shares.firsts[share]
                        spans.add(as_tags(shares.kin[share]), first, shares.behinds[share])
                continue
            at = chunk.head
            stop = _behind(chunk, last)
            while at < stop:
                run = as_tags(pieces[at])
                spans.add(run, run.mid, run.mid + min(run.count, last - run.key + 1))
                # Where all are of one consumer, the first and the last run say it all.
                at = at + 1 if chunk.mixed or at == stop - 1 else stop - 1
        return spans.found

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
