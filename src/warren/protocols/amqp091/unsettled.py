"""Delivery tags of one channel that wait for an ack.

Tags are dense and so are a consumer's message ids, so what is unsettled is a short list of runs
however large the prefetch is, unless it is settled here and there or several consumers take turns.

What each of these consumers has up to a tag is known by the chunk (`pieces.Shares`), and where
there are too many of them for that, at some tags (`Marks`).
"""

from __future__ import annotations

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from warren.queues.fifo.pieces import Chunk, Piece, Pieces
from warren.queues.queue import Queue

MARK_RUNS: Final = 8_192
"""Runs between two marks at first: to look through as many takes a millisecond."""

MARKS_MAX: Final = 32
"""Marks of a channel; of more, every second one is dropped."""

OWNERS_MAX: Final = 16_384
"""Consumers that marks may know, of which most may be gone: of more the marks begin anew."""


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
class Mark:
    """How far each consumer's message ids had come at a tag; 0 for one that had none.

    This is about all that was ever handed out under that tag or one before, so that it stays right
    whatever is settled, but for a consumer whose ids begin anew.
    """

    def __init__(self, tag: i64) -> None:
        self.tag: i64 = tag
        self.behinds: vec[i64] = vec[i64]()

    def behind(self, place: i64) -> i64:
        """Behind the last id of the consumer at a place."""
        return self.behinds[place] if place < len(self.behinds) else 0

    def put(self, place: i64, behind: i64) -> None:
        """The consumer at a place had come so far."""
        while len(self.behinds) <= place:
            self.behinds = append(self.behinds, i64(0))
        self.behinds[place] = behind


@final
class Marks:
    """The marks of a channel at ascending tags, for consumers too many to be counted by the chunk.

    Attributes:
        owners: Of each consumer that a mark may know, a run.
        runs_min: Runs between two marks, as long as there are few.
    """

    def __init__(self) -> None:
        self.owners: list[TagRun] = []
        self.runs_min: i64 = MARK_RUNS
        self._places: dict[tuple[int, int], int] = {}
        self._marks: list[Mark] = []
        self._interval: i64 = MARK_RUNS
        self._runs: i64 = 0
        """How many came since the last mark."""

    def due(self) -> bool:
        """Count one more run; whether it is time for a mark."""
        self._runs += 1
        return self._runs >= self._interval

    def put_off(self) -> None:
        """Nobody needs a mark now."""
        self._runs = 0

    def add(self, tag: i64, first: i64, spans: list[TagRun]) -> None:
        """Mark a tag, up to which consumers have `spans`; nothing before `first` is unsettled."""
        marks = self._marks
        while marks and marks[0].tag < first:
            del marks[0]
        if not marks or len(self.owners) > OWNERS_MAX:
            self.clear()
            marks = self._marks
        mark = Mark(tag)
        for span in spans:
            mark.put(self._place(span), span.mid + span.count)
        marks.append(mark)
        self._runs = 0
        if len(marks) > MARKS_MAX:
            # The last one stays.
            del marks[1::2]
            self._interval *= 2

    def clear(self) -> None:
        """Forget all marks."""
        self.owners = []
        self._places = {}
        self._marks = []
        self._interval = self.runs_min
        self._runs = 0

    def before(self, tag: i64) -> Mark | None:
        """The last mark at or before a tag."""
        found: Mark | None = None
        for mark in self._marks:
            if mark.tag > tag:
                break
            found = mark
        return found

    def begins_anew(self, owner: tuple[int, int]) -> None:
        """A consumer that has nothing unsettled is given ids from 0 again."""
        if not self._marks:
            return
        place = self._places.get(owner, -1)
        if place >= 0:
            for mark in self._marks:
                if place < len(mark.behinds):
                    mark.behinds[place] = 0

    def put_back(self, run: TagRun) -> None:
        """These were unsettled at the marks behind them, too, which need not know of them."""
        if not self._marks:
            return
        place: i64 = -1
        for mark in self._marks:
            count = min(run.count, mark.tag - run.key + 1)
            if count > 0:
                if place < 0:
                    place = self._place(run)
                mark.put(place, max(mark.behind(place), run.mid + count))

    def _place(self, run: TagRun) -> i64:
        owner = _owner(run)
        place = self._places.get(owner)
        if place is None:
            place = len(self.owners)
            self._places[owner] = place
            self.owners.append(TagRun(run.key, 1, run.queue, run.consumer_id, 0))
        return place


@final
class Unsettled:
    """All unsettled deliveries of a channel, in tag order.

    Attributes:
        next_tag: The next delivery's tag, from 1.
        marks: Where it is known what many consumers have.
    """

    def __init__(self) -> None:
        self.next_tag: i64 = 1
        self._pieces: Pieces = Pieces(True)
        self.marks: Marks = Marks()

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
        if mid == 0 and pieces.crowded:
            self.marks.begins_anew((id(queue), int(consumer_id)))
        pieces.push(TagRun(tag, count, queue, consumer_id, mid))
        if self.marks.due():
            if pieces.crowded:
                last = self.next_tag - 1
                self.marks.add(last, self.first(), self.spans(last))
            else:
                self.marks.put_off()

    def first(self) -> i64:
        """The lowest unsettled tag, 0 if there is none."""
        return self._pieces.head().key if self._pieces.count > 0 else 0

    def owners(self) -> list[TagRun]:
        """A run, or more, of each consumer of which something is unsettled, and some others."""
        if self._pieces.crowded:
            return self.spans(self.next_tag)
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

    def holds_of(self, queue: Queue, consumer_id: i64, first: i64, last: i64) -> bool:
        """Whether any of a consumer's message ids `first..last` is unsettled; looks at all runs."""
        for piece in self._pieces.all():
            run = as_tags(piece)
            if run.consumer_id == consumer_id and run.queue is queue:
                if run.mid <= last and first < run.mid + run.count:
                    return True
        return False

    def take(self, first: i64, last: i64) -> list[list[Piece]]:
        """Take the unsettled tags of `first..last` out, in order."""
        pieces = self._pieces
        taken = pieces.take(first, last)
        if pieces.count == 0 and pieces.crowded:
            pieces.crowded = False
            self.marks.clear()
        return taken

    def spans(self, last: i64) -> list[TagRun]:
        """What is unsettled up to a tag, as one run of message ids for each consumer.

        Among the ids of such a run are only some more that were settled or returned before, so that
        a queue may be told of all of them together. Its tags mean nothing. Where there are marks, a
        consumer of which all was settled before may be among them.
        """
        spans = Spans()
        chunks = self._pieces.chunks()
        beginning: i64 = 0
        mark = self.marks.before(last)
        if mark is not None and mark.tag >= self.first():
            owners = self.marks.owners
            for place in range(i64(len(mark.behinds))):
                if mark.behinds[place] > 0:
                    spans.add(owners[place], 0, mark.behinds[place])
            beginning = self._pieces.chunks_from(mark.tag + 1)
        for number in range(beginning, i64(len(chunks))):
            chunk = chunks[number]
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
        self.marks.put_back(as_tags(piece))


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
