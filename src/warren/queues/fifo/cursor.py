"""How far a state was read, and how much more of it one part reads."""

from __future__ import annotations

from typing import final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64


@final
class Cursor:
    """Stands in a state that is read from its beginning to its end.

    Attributes:
        data: The state.
        at: Where what was not read begins.
        room: How many more runs, or what takes as long, this part reads.
    """

    def __init__(self, data: bytes) -> None:
        self.data: bytes = data
        self.at: i64 = 0
        self.room: i64 = 0

    def long(self) -> i64:
        """Read eight octets."""
        at = self.at
        self.at = at + 8
        return read_i64_be(self.data, at)

    def count(self) -> i64:
        """Read four octets."""
        at = self.at
        self.at = at + 4
        return i64(read_i32_be(self.data, at))

    def octet(self) -> i64:
        """Read one octet."""
        at = self.at
        self.at = at + 1
        return self.data[at]

    def take(self, left: i64) -> i64:
        """How many of so many runs this part reads, which has room."""
        some = min(left, self.room)
        self.room -= some
        return some
