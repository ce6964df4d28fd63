"""How many bytes messages take, known by their numbers alone.

A machine never opens a record. It is told of each batch how many messages there are and how many
bytes they take together, and counts each of them as an equal share: of 10 bytes for 3 messages the
first has 4, the others 3. So a batch counts exactly, and so does every message of a batch in which
all are of one size; a queue that has to know each message's size is told of them by stretches of
one size (`entry.Enqueue`).

Messages of one size that follow each other are one stretch, however many they are.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.queues.fifo.pieces import Piece, Pieces

STRETCH_BYTES: Final = 24
"""What a snapshot has of a stretch."""


@final
class Stretch(Piece):
    """Messages of which the first `longer` take `size + 1` bytes, and the others `size`.

    Attributes:
        left: How many of them have not left the queue.
        position: Bytes of all that was added before its first message, since the queue began.
    """

    def __init__(self, key: i64, count: i64, size: i64, longer: i64, position: i64) -> None:
        super().__init__(key, count)
        self.size: i64 = size
        self.longer: i64 = longer
        self.position: i64 = position
        self.left: i64 = 0

    def part(self, offset: i64, count: i64) -> Piece:
        """Never asked for: a stretch goes as a whole, when nothing of it is left."""
        raise AssertionError("stretches are not cut")

    def shorten(self, count: i64) -> None:
        """Nor is this."""
        raise AssertionError("stretches are not cut")

    def before(self, number: i64) -> i64:
        """The position of a message of this stretch, or of the one behind it."""
        offset = number - self.key
        return self.position + offset * self.size + min(offset, self.longer)


@final
class Sizes:
    """The bytes of all messages of a queue, ready or held.

    Attributes:
        count: Messages that have not left.
        bytes: What they take.
    """

    def __init__(self) -> None:
        self.count: i64 = 0
        self.bytes: i64 = 0
        self._stretches: Pieces = Pieces()
        self._position: i64 = 0
        self._near: Stretch | None = None
        """The stretch that was looked at last: mostly it is the next, too."""
        self._last: Stretch | None = None
        """The last stretch, which is kept when nothing of it is left: it may yet grow."""

    def add(self, first: i64, count: i64, size_bytes: i64) -> None:
        """Messages came, with higher numbers than all before, that take so much together."""
        size = size_bytes // count
        longer = size_bytes - size * count
        last = self._last
        if (
            last is not None
            and last.size == size
            and longer == 0
            and last.longer == 0
            and last.key + last.count == first
        ):
            self._stretches.extend_tail(count)
        else:
            if last is not None and last.left == 0:
                self._remove(last)
            last = Stretch(first, count, size, longer, self._position)
            self._stretches.push(last)
            self._last = last
        last.left += count
        self._position += size_bytes
        self.count += count
        self.bytes += size_bytes

    def of(self, first: i64, count: i64) -> i64:
        """Bytes of messages that follow each other, none of which has left."""
        stretch = self._at(first)
        begin = stretch.before(first)
        behind = first + count
        if behind > stretch.key + stretch.count:
            stretch = self._at(behind - 1)
        return stretch.before(behind) - begin

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

    def decode(self, data: bytes, at: i64) -> i64:
        """Read the stretches of a snapshot; returns the offset behind them.

        What is left of them is said by `claim`.
        """
        count: i64 = i64(read_i32_be(data, at))
        at += 4
        for _ in range(count):
            messages = read_i64_be(data, at + 8)
            size = i64(read_i32_be(data, at + 16))
            longer = i64(read_i32_be(data, at + 20))
            last = Stretch(read_i64_be(data, at), messages, size, longer, self._position)
            self._stretches.push(last)
            self._last = last
            self._position += messages * size + longer
            at += STRETCH_BYTES
        return at

    def _remove(self, stretch: Stretch) -> None:
        """Nothing is left of a stretch."""
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


def encode_stretches(out: BytesWriter, pieces: list[Piece], behind: i64) -> None:
    """Append stretches to a snapshot.

    Args:
        behind: The number behind the last message that counts.
    """
    for piece in pieces:
        stretch = as_stretch(piece)
        write_i64_be(out, stretch.key)
        write_i64_be(out, min(stretch.count, behind - stretch.key))
        write_i32_be(out, i32(stretch.size))
        write_i32_be(out, i32(stretch.longer))


def as_stretch(piece: Piece) -> Stretch:
    """A piece of what `Sizes` has."""
    assert isinstance(piece, Stretch), "sizes are kept in stretches"
    return piece
