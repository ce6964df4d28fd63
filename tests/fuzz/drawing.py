"""What a seed draws: choices, and values at both ends of every wire type.

One `Draw` belongs to one episode of a run. It is made of the run's seed and the episode's number,
so that an episode can be drawn again without those before it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from tests.clients.raw import Typed

T = TypeVar("T")

DEPTH_MAX = 4
WORDS = ("", "f", "f.none", "a.b.c", "#", "*.*", "\0", "amq.", "ü日🐇", "x" * 255, "a/b%2F", "-1")
BROKEN_TEXTS = (b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\0" * 255)
"""Bytes that are no UTF-8, and those that are and hardly a name."""

ENDS: dict[str, tuple[int, int]] = {
    "b": (-(1 << 7), (1 << 7) - 1),
    "B": (0, (1 << 8) - 1),
    "s": (-(1 << 15), (1 << 15) - 1),
    "u": (0, (1 << 16) - 1),
    "I": (-(1 << 31), (1 << 31) - 1),
    "i": (0, (1 << 32) - 1),
    "l": (-(1 << 63), (1 << 63) - 1),
    "L": (-(1 << 63), (1 << 63) - 1),
    "T": (0, (1 << 64) - 1),
}
"""The smallest and largest number of each type letter of a field table."""
FLOATS = (0.0, -0.0, 1.5, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
SMALL_FLOATS = (0.0, -0.0, 1.5, float("inf"), float("nan"))


class Draw:
    """Draws all that one episode does.

    Args:
        words: What it is drawn from: a seed, the fuzzer's name, the number of the episode.
    """

    def __init__(self, *words: object) -> None:
        self.random = random.Random("/".join(map(str, words)))

    def chance(self, share: float) -> bool:
        """Say yes in this share of the cases."""
        return self.random.random() < share

    def one(self, choices: Sequence[T]) -> T:
        """Choose one."""
        return self.random.choice(choices)

    def weighted(self, choices: Sequence[tuple[int, T]]) -> T:
        """Choose one of some that have weights."""
        return self.random.choices([each for _, each in choices], [most for most, _ in choices])[0]

    def count(self, least: int, most: int) -> int:
        """Choose a number, both ends included."""
        return self.random.randint(least, most)

    def number(self, least: int, most: int) -> int:
        """Choose a number of a type: often one of its ends, or beside a sign's or a byte's."""
        if self.chance(0.3):
            return self.random.randint(least, most)
        middle = (least + most) // 2
        near = (least, least + 1, most, most - 1, middle, middle + 1, 0, 1, 255, 256, 1 << 31)
        return self.one([each for each in near if least <= each <= most])

    def unsigned(self, bits: int) -> int:
        """Choose a number without a sign."""
        return self.number(0, (1 << bits) - 1)

    def bytes(self, most: int) -> bytes:
        """Choose bytes of any content."""
        return self.random.randbytes(self.random.randint(0, most))

    def short_text(self) -> bytes:
        """Choose what a short string may hold: a word, its ends, no UTF-8."""
        if self.chance(0.75):
            return self.one(WORDS).encode()[:255]
        return self.one(BROKEN_TEXTS) if self.chance(0.7) else self.bytes(255)

    def field(self, depth: int = 0) -> Typed:
        """Choose a value of a field table, of any type."""
        tag = self.one("bBsuIilLTfdDtSxVFA?")
        if tag in ENDS:
            return Typed(tag, self.number(*ENDS[tag]))
        if tag == "f":
            return Typed(tag, self.one(SMALL_FLOATS))
        if tag == "d":
            return Typed(tag, self.one(FLOATS))
        if tag == "D":
            return Typed(tag, (self.unsigned(8), self.unsigned(32)))
        if tag == "t":
            return Typed(tag, self.one((0, 1, 255)))
        if tag == "V":
            return Typed(tag, None)
        if tag == "F":
            return Typed(tag, {} if depth >= DEPTH_MAX else self.table(depth + 1))
        if tag == "A":
            several = 0 if depth >= DEPTH_MAX else self.count(0, 4)
            return Typed(tag, [self.field(depth + 1) for _ in range(several)])
        if tag == "?":
            # A letter that no type has.
            return Typed(self.one("Zq\0"), b"x")
        return Typed(tag, self.bytes(300))

    def table(self, depth: int = 0, keys: Sequence[str] = ()) -> dict[str, Any]:
        """Choose a table; some of its keys are of those that mean something."""
        several = self.one((0, 0, 1, 1, 2, 5, 20)) if depth < 2 else self.count(0, 2)
        return {
            (self.one(keys) if keys and self.chance(0.7) else f"k{at}"): self.field(depth)
            for at in range(several)
        }
