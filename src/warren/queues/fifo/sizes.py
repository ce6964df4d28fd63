"""What messages take, when they expire and how they rank, known by their numbers alone.

A machine never opens a record. It is told of each batch how many messages there are and how many
bytes they take together, and counts each of them as an equal share: of 10 bytes for 3 messages the
first has 4, the others 3. So a batch counts exactly, and so does every message of a batch in which
all are of one size. In a queue with a limit in bytes each message's own size is told, which is what
counts towards that.

Messages of one size and rank that follow each other are one stretch, however many they are; where
these vary, a stretch has 5 bytes for each message. When they expire is said of each batch, too: a
stretch has times where any of its messages does, 8 bytes for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from librt.vecs import append, vec
from mypy_extensions import i32, i64, mypyc_attr, u8

from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.pieces import Piece, Pieces

STRETCH_BYTES: Final = 24
"""What a snapshot has of a stretch without times."""

NEVER: Final = 0
"""When a message expires that does not."""

VARIED_MAX: Final = 256
"""Messages of one stretch whose sizes vary: so much memory stays for one of them."""

VARIED_FROM: Final = 32
"""So many messages of one size are worth a stretch of their own beside such."""

VARIED_BYTES_MAX: Final = (1 << 31) - 1
"""What those of one stretch take, at most."""

TIMES_MAX: Final = 256
"""Batches of which one stretch has the times: so much memory stays for one message of them."""

VALUES_A_RUN: Final = 8
"""To read so many sizes or times of a snapshot, or to write them, takes as long as a run does."""

TIME_MAX: Final = (1 << 31) - 2
"""Milliseconds between the earliest time of a stretch and its others, either way: 24 days."""

NEVER_TIME: Final = -(1 << 31)
OFFSET_MAX: Final = (1 << 31) - 1
FOR_EVER: Final = (1 << 63) - 1


@final
class Times:
    """When messages of a stretch expire, from some on up to the next ones of which it is said.

    Attributes:
        base_ms: The first time that is not `NEVER`.
        offsets: Which messages, counted from the stretch's first; the first one is 0.
        times: Their times, counted from `base_ms`; `NEVER_TIME` if they do not expire.
        latest_ms: When all have expired, so that mostly one look is enough.
    """

    def __init__(self, base_ms: i64) -> None:
        self.base_ms: i64 = base_ms
        self.latest_ms: i64 = 0
        self.offsets: vec[i32] = vec[i32]()
        self.times: vec[i32] = vec[i32]()

    def takes(self, offset: i64, expires_ms: i64) -> bool:
        """Whether it can have this time as one more."""
        if len(self.offsets) >= TIMES_MAX or offset > OFFSET_MAX:
            return False
        return expires_ms == NEVER or -TIME_MAX <= expires_ms - self.base_ms <= TIME_MAX

    def add(self, offset: i64, expires_ms: i64) -> None:
        """From this message on they expire at a time."""
        time: i64 = NEVER_TIME if expires_ms == NEVER else expires_ms - self.base_ms
        self.note(time)
        known = len(self.times)
        if known == 0 or i64(self.times[known - 1]) != time:
            self.offsets = append(self.offsets, i32(offset))
            self.times = append(self.times, i32(time))

    def note(self, time: i64) -> None:
        """Mind that this is one of the times."""
        behind = FOR_EVER if time == NEVER_TIME else self.base_ms + time
        self.latest_ms = max(self.latest_ms, behind)

    def trim(self) -> None:
        """Take no more memory than needed: nothing will be added."""
        known = len(self.offsets)
        offsets = vec[i32](capacity=known)
        times = vec[i32](capacity=known)
        for at in range(known):
            offsets = append(offsets, self.offsets[at])
            times = append(times, self.times[at])
        self.offsets = offsets
        self.times = times

    def find(self, offset: i64) -> i64:
        """Which of the times is a message's."""
        low: i64 = 0
        high: i64 = len(self.offsets)
        while low < high:
            middle = (low + high) // 2
            if i64(self.offsets[middle]) <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def time(self, at: i64) -> i64:
        """One of the times, or `NEVER`."""
        time = i64(self.times[at])
        return NEVER if time == NEVER_TIME else self.base_ms + time


@final
class Ends:
    """What is known of each message of a stretch by itself.

    Attributes:
        ends: Where it ends, counted in bytes from the beginning of the stretch's first.
        ranks: How it ranks.
    """

    def __init__(self) -> None:
        self.ends: vec[i32] = vec[i32]()
        self.ranks: vec[u8] = vec[u8]()

    def last(self) -> i64:
        """What all of them take."""
        known = len(self.ends)
        return 0 if known == 0 else i64(self.ends[known - 1])

    def add(self, count: i64, size: i64, rank: i64) -> None:
        """So many messages more, each of a size and of a rank."""
        end = self.last()
        for _ in range(count):
            end += size
            self.ends = append(self.ends, i32(end))
            self.ranks = append(self.ranks, u8(rank))

    def trim(self) -> None:
        """Take no more memory than needed: nothing will be added."""
        known = len(self.ends)
        ends = vec[i32](capacity=known)
        ranks = vec[u8](capacity=known)
        for at in range(known):
            ends = append(ends, self.ends[at])
            ranks = append(ranks, self.ranks[at])
        self.ends = ends
        self.ranks = ranks


@final
class Stretch(Piece):
    """Messages of which the first `longer` take `size + 1` bytes, and the others `size`.

    Attributes:
        left: How many of them have not left the queue.
        position: Bytes of all that was added before its first message, since the queue began.
        rank: How they rank.
        ends: What is known of each of them, if that varies; `size`, `longer` and `rank` are 0 then.
        times: When its messages expire; None if none does.
    """

    def __init__(self, key: i64, count: i64, size: i64, longer: i64, position: i64) -> None:
        super().__init__(key, count)
        self.size: i64 = size
        self.longer: i64 = longer
        self.position: i64 = position
        self.left: i64 = 0
        self.rank: i64 = 0
        self.ends: Ends | None = None
        self.times: Times | None = None

    def part(self, offset: i64, count: i64) -> Piece:
        """Never asked for: a stretch goes as a whole, when nothing of it is left."""
        raise AssertionError("stretches are not cut")

    def shorten(self, count: i64) -> None:
        """Nor is this."""
        raise AssertionError("stretches are not cut")

    def before(self, number: i64) -> i64:
        """The position of a message of this stretch, or of the one behind it."""
        offset = number - self.key
        ends = self.ends
        if ends is not None:
            return self.position if offset == 0 else self.position + i64(ends.ends[offset - 1])
        return self.position + offset * self.size + min(offset, self.longer)

    def room(self, size: i64, expires_ms: i64) -> i64:
        """How many messages of a size it can have as some more of those whose sizes vary."""
        if self.times is None:
            if expires_ms != NEVER:
                return 0
        elif not self.times.takes(self.count, expires_ms):
            return 0
        if self.ends is None and (self.longer > 0 or self.count >= VARIED_FROM):
            return 0
        taken = self.ends.last() if self.ends is not None else self.count * self.size
        room = VARIED_MAX - self.count
        return room if size == 0 else min(room, (VARIED_BYTES_MAX - taken) // size)

    def trim(self) -> None:
        """Take no more memory than needed: nothing will be added."""
        if self.ends is not None:
            self.ends.trim()
        if self.times is not None:
            self.times.trim()


@final
@mypyc_attr(acyclic=True)  # Nothing that it refers to leads back to it.
class Sizes:
    """The bytes of all messages of a queue, ready or held.

    Attributes:
        count: Messages that have not left.
        bytes: What they take.
        expiring: Stretches of which messages expire.
        varied: Stretches of messages whose sizes or ranks vary.
        ranked: Other stretches of messages that have a rank.
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self.bytes: i64 = 0
        self.expiring: i64 = 0
        self.varied: i64 = 0
        self.ranked: i64 = 0
        self._stretches: Pieces = Pieces()
        self._position: i64 = 0
        self._near: Stretch | None = None
        """The stretch that was looked at last: mostly it is the next, too."""
        self._last: Stretch | None = None
        """The last stretch, which is kept when nothing of it is left: it may yet grow."""

    def add(
        self, first: i64, count: i64, size_bytes: i64, expires_ms: i64 = NEVER, rank: i64 = 0
    ) -> None:
        """Messages came, with higher numbers than all before, that take so much together.

        Args:
            expires_ms: When they expire.
            rank: How they rank; 0 where nothing says that.
        """
        size = size_bytes // count
        longer = size_bytes - size * count
        last = self._last
        if (
            last is not None
            and last.size == size
            and last.rank == rank
            and last.ends is None
            and longer == 0
            and last.longer == 0
            and last.key + last.count == first
            and (
                expires_ms == NEVER
                if last.times is None
                else last.times.takes(last.count, expires_ms)
            )
        ):
            if last.times is not None:
                last.times.add(last.count, expires_ms)
            self._stretches.extend_tail(count)
        else:
            if last is not None:
                if last.left == 0:
                    self._remove(last)
                else:
                    last.trim()
            last = Stretch(first, count, size, longer, self._position)
            last.rank = rank
            if rank != 0:
                self.ranked += 1
            if expires_ms != NEVER:
                last.times = Times(expires_ms)
                last.times.add(0, expires_ms)
                self.expiring += 1
            self._stretches.push(last)
            self._last = last
        last.left += count
        self._position += size_bytes
        self.count += count
        self.bytes += size_bytes

    def add_each(self, first: i64, count: i64, size: i64, expires_ms: i64, rank: i64 = 0) -> None:
        """Messages came, likewise, each of which takes so much by itself."""
        last = self._last
        while (
            count > 0
            and last is not None
            and count < VARIED_FROM
            and last.key + last.count == first
            and (last.ends is not None or last.size != size or last.rank != rank)
        ):
            some = min(count, last.room(size, expires_ms))
            if some == 0:
                break
            ends = last.ends
            if ends is None:
                last, ends = self._vary(last)
            ends.add(some, size, rank)
            if last.times is not None:
                last.times.add(last.count, expires_ms)
            self._stretches.extend_tail(some)
            last.left += some
            self._position += some * size
            self.count += some
            self.bytes += some * size
            first += some
            count -= some
        if count > 0:
            self.add(first, count, count * size, expires_ms, rank)

    def rank(self, number: i64) -> i64:
        """How a message ranks, which has not left."""
        stretch = self._at(number)
        ends = stretch.ends
        return stretch.rank if ends is None else i64(ends.ranks[number - stretch.key])

    def alike(self, first: i64, count: i64) -> i64:
        """How many of the first of some messages rank as the first one does, in its stretch."""
        stretch = self._at(first)
        offset = first - stretch.key
        behind = min(offset + count, stretch.count)
        ends = stretch.ends
        if ends is None:
            return behind - offset
        at = offset + 1
        while at < behind and ends.ranks[at] == ends.ranks[offset]:
            at += 1
        return at - offset

    def first_of(self, first: i64, count: i64, least: i64) -> i64:
        """How many of the first of some messages take so many bytes; all if they take less."""
        low: i64 = 1
        high = count
        while low < high:
            middle = (low + high) // 2
            if self.of(first, middle) >= least:
                high = middle
            else:
                low = middle + 1
        return low

    def of(self, first: i64, count: i64) -> i64:
        """Bytes of messages that follow each other, none of which has left."""
        stretch = self._at(first)
        begin = stretch.before(first)
        behind = first + count
        if behind > stretch.key + stretch.count:
            stretch = self._at(behind - 1)
        return stretch.before(behind) - begin

    def has(self, number: i64) -> bool:
        """Whether a message or one beside it has not left; where it is false, this one has."""
        return self._stretches.holds(number)

    def expiry(self, number: i64) -> i64:
        """When a message expires, which has not left; or `NEVER`."""
        stretch = self._at(number)
        times = stretch.times
        return NEVER if times is None else times.time(times.find(number - stretch.key))

    def expired(self, first: i64, count: i64, now_ms: i64) -> i64:
        """How many of the first of some messages have expired by a time.

        Those are of the first one's stretch, so that there may be more behind them.
        """
        stretch = self._at(first)
        times = stretch.times
        if times is None:
            return 0
        offset = first - stretch.key
        behind = min(offset + count, stretch.count)
        if times.latest_ms <= now_ms:
            return behind - offset
        at = times.find(offset)
        while at < len(times.offsets):
            time = times.time(at)
            if time == NEVER or time > now_ms:
                behind = min(behind, max(offset, i64(times.offsets[at])))
                break
            at += 1
        return behind - offset

    def living(self, first: i64, count: i64, now_ms: i64) -> i64:
        """How many of the first of some messages have not expired by a time.

        Those are of the first one's stretch, so that there may be more behind them.
        """
        stretch = self._at(first)
        offset = first - stretch.key
        behind = min(offset + count, stretch.count)
        times = stretch.times
        if times is None:
            return behind - offset
        at = times.find(offset)
        while at < len(times.offsets) and i64(times.offsets[at]) < behind:
            time = times.time(at)
            if NEVER < time <= now_ms:
                return max(offset, i64(times.offsets[at])) - offset
            at += 1
        return behind - offset

    def forget(self, first: i64, count: i64) -> i64:
        """Messages that follow each other left the queue; gives how many of them are forgotten.

        Those are the ones in the first one's stretch, so that this costs a little at a time.
        """
        stretch = self._at(first)
        end = min(stretch.key + stretch.count, first + count)
        done = end - first
        stretch.left -= done
        self.bytes -= stretch.before(end) - stretch.before(first)
        self.count -= done
        assert stretch.left >= 0, f"message {first} left twice"
        if stretch.left == 0 and stretch is not self._last:
            self._remove(stretch)
        return done

    def claim(self, first: i64, count: i64) -> None:
        """Messages that follow each other have not left, says a snapshot."""
        behind = first + count
        at = first
        while at < behind:
            stretch = self._at(at)
            end = min(stretch.key + stretch.count, behind)
            stretch.left += end - at
            self.bytes += stretch.before(end) - stretch.before(at)
            at = end
        self.count += count

    def freeze(self) -> list[list[Piece]]:
        """All stretches as they are now, in lists; but the last may yet grow."""
        return self._stretches.freeze()

    def read(self, cursor: Cursor, more: bool) -> Iterator[None]:
        """Read the stretches of a snapshot, in parts; what is left of them is said by `claim`.

        Args:
            more: Whether it says of each when its messages expire, and how they rank, and what is
                known of each of them if that varies.
        """
        left = cursor.count()
        while left > 0:
            if cursor.room <= 0:
                yield
            some = cursor.take(left)
            left -= some
            for _ in range(some):
                self._read_stretch(cursor, more)

    def _read_stretch(self, cursor: Cursor, more: bool) -> None:
        first = cursor.long()
        messages = cursor.long()
        size = cursor.count()
        last = Stretch(first, messages, size, cursor.count(), self._position)
        self._stretches.push(last)
        self._last = last
        if more:
            self._read_times(last, cursor)
            self._read_ends(last, cursor)
        self._position = last.before(first + messages)

    def _read_ends(self, stretch: Stretch, cursor: Cursor) -> None:
        stretch.rank = cursor.octet()
        if stretch.rank != 0:
            self.ranked += 1
        known = cursor.count()
        if known > 0:
            if known != stretch.count:
                raise ValueError("a stretch has other sizes than messages")
            ends = Ends()
            for _ in range(known):
                ends.ends = append(ends.ends, i32(cursor.count()))
                ends.ranks = append(ends.ranks, u8(cursor.octet()))
            cursor.room -= known // VALUES_A_RUN
            stretch.ends = ends
            self.varied += 1

    def _read_times(self, stretch: Stretch, cursor: Cursor) -> None:
        known = cursor.count()
        if known > 0:
            times = Times(cursor.long())
            for _ in range(known):
                times.offsets = append(times.offsets, i32(cursor.count()))
                time = cursor.count()
                times.times = append(times.times, i32(time))
                times.note(time)
            cursor.room -= known // VALUES_A_RUN
            stretch.times = times
            self.expiring += 1

    def _vary(self, last: Stretch) -> tuple[Stretch, Ends]:
        """Have the last stretch say where each message ends; who looks at it sees it as it was."""
        varied = Stretch(last.key, last.count, 0, 0, last.position)
        varied.left = last.left
        varied.times = last.times
        ends = Ends()
        ends.add(last.count, last.size, last.rank)
        varied.ends = ends
        self.varied += 1
        if last.rank != 0:
            self.ranked -= 1
        self._stretches.replace_tail(varied)
        self._last = varied
        self._near = None
        return varied, ends

    def _remove(self, stretch: Stretch) -> None:
        """Nothing is left of a stretch."""
        if stretch.times is not None:
            self.expiring -= 1
        if stretch.ends is not None:
            self.varied -= 1
        if stretch.rank != 0:
            self.ranked -= 1
        stretches = self._stretches
        if stretches.head() is stretch:
            stretches.drop(stretch.count)
        else:
            stretches.take(stretch.key, stretch.key + stretch.count - 1)

    def _at(self, number: i64) -> Stretch:
        """The stretch of a message that has not left."""
        near = self._near
        if near is not None and near.key <= number < near.key + near.count:
            return near
        found = as_stretch(self._stretches.at(number))
        self._near = found
        return found


def encode_stretches(out: BytesWriter, pieces: list[Piece], behind: i64, more: bool) -> i64:
    """Append stretches to a snapshot; gives as how many runs that counts.

    Args:
        behind: The number behind the last message that counts.
        more: Whether it says when messages expire, how they rank, and what is known of each where
            that varies; else there is nothing of that.
    """
    values: i64 = 0
    for piece in pieces:
        stretch = as_stretch(piece)
        count = min(stretch.count, behind - stretch.key)
        write_i64_be(out, stretch.key)
        write_i64_be(out, count)
        write_i32_be(out, i32(stretch.size))
        write_i32_be(out, i32(stretch.longer))
        if not more:
            continue
        times = stretch.times
        if times is None:
            write_i32_be(out, 0)
        else:
            known = times.find(count - 1) + 1
            values += known
            write_i32_be(out, i32(known))
            write_i64_be(out, times.base_ms)
            for at in range(known):
                write_i32_be(out, times.offsets[at])
                write_i32_be(out, times.times[at])
        out.append(stretch.rank)
        ends = stretch.ends
        write_i32_be(out, 0 if ends is None else i32(count))
        if ends is not None:
            values += count
            for at in range(count):
                write_i32_be(out, ends.ends[at])
                out.append(i64(ends.ranks[at]))
    return len(pieces) + values // VALUES_A_RUN


def as_stretch(piece: Piece) -> Stretch:
    """A piece of what `Sizes` has."""
    assert isinstance(piece, Stretch), "sizes are kept in stretches"
    return piece
