"""Parts of a regular expression that are followed all ways at once, and the name that they match.

A step takes a set of places in the name, a bit each, to the set of places where what it matches may
end. A place is reached once, however many ways lead there. Steps are counted, and there may be so
many for a name.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from typing import Any, Final, final

from mypy_extensions import trait

NAME_LENGTH: Final = 255
"""Characters of the longest name by which ways to match are counted."""

STEPS_MAX: Final = 5_000
"""Steps after which a name counts as not matched; one takes some 0.1 us."""

NESTING_MAX: Final = 50
"""Groups within each other. What can be read in one place and not in another, because calls are
deeper there, must not be a pattern."""

WITHOUT_END: Final = float("inf")


@final
class MatchedName:
    """A name being matched: where each of its characters stands, as bits, and the steps taken.

    Attributes:
        all: All places, the one behind the last character included.
        fitting: Where a character stands that a part of the pattern fits, by that part.
        looked, there: From where a part was looked for by itself, and where it is.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.all: int = (1 << (len(name) + 1)) - 1
        self.of: dict[str, int] = {}
        self.fitting: dict[OneOf, int] = {}
        self.looked: dict[Look, int] = {}
        self.there: dict[Look, int] = {}
        self.steps: int = 0
        bit = 1
        for character in name:
            self.of[character] = self.of.get(character, 0) | bit
            bit <<= 1

    def too_many(self) -> bool:
        """Count a step; whether there were too many."""
        self.steps += 1
        return self.steps > STEPS_MAX

    def behind_last(self) -> int:
        """The place behind the last character."""
        return 1 << len(self.name)

    def of_lines(self) -> int:
        """Where lines end, each before its `\\n`."""
        return self.of.get("\n", 0)

    def bounds_of_words(self) -> int:
        """Where a word begins or ends."""
        words = 0
        for character, places in self.of.items():
            if _is_of_word(character):
                words |= places
        return words ^ (words << 1)


@trait
class Step:
    """A part of a pattern."""

    @abstractmethod
    def ends(self, places: MatchedName, starts: int) -> int:
        """Where what it matches may end, if it may begin at these places."""

    @abstractmethod
    def cost(self) -> float:
        """At most how many steps it takes from all places of a name together."""

    @abstractmethod
    def ways(self) -> float:
        """At most how many ways there are to match from one place of a name."""

    @abstractmethod
    def width(self) -> int:
        """How many characters it matches, -1 where that differs."""

    def is_anchored(self) -> bool:
        """Whether it can match at the beginning of a name only."""
        return False

    def may_be_empty(self) -> bool:
        """Whether it is a repetition that need not be there."""
        return False

    def samples(self, into: list[str]) -> None:
        """Append characters that it knows."""

    def unable(self) -> str:
        """What of it cannot be followed all ways at once, empty where nothing is."""
        return ""


@final
class OneOf(Step):
    """A character: of a set, or of none of it."""

    def __init__(self, tests: list[tuple[str, Any]], negated: bool, any_case: bool) -> None:
        self._tests = tests
        self._negated = negated
        self._any_case = any_case

    def ends(self, places: MatchedName, starts: int) -> int:
        """A place further on, where such a character stands."""
        if places.too_many():
            return 0
        return (starts & self.fitting(places)) << 1

    def fitting(self, places: MatchedName) -> int:
        """Where such characters stand."""
        fitting = places.fitting.get(self, -1)
        if fitting < 0:
            fitting = 0
            for character, bits in places.of.items():
                if self._fits(character) != self._negated:
                    fitting |= bits
            places.fitting[self] = fitting
        return fitting

    def _fits(self, character: str) -> bool:
        if self._any_case:
            return self._is(character.lower()) or self._is(character.upper())
        return self._is(character)

    def _is(self, character: str) -> bool:
        for kind, value in self._tests:
            if kind == "LITERAL":
                if ord(character) == value:
                    return True
            elif kind == "RANGE":
                if value[0] <= ord(character) <= value[1]:
                    return True
            elif _is_of_category(character, str(value)):
                return True
        return False

    def cost(self) -> float:
        """It takes one step."""
        return 1.0

    def ways(self) -> float:
        """There is one way."""
        return 1.0

    def width(self) -> int:
        """It is one character wide."""
        return 1

    def samples(self, into: list[str]) -> None:
        """One that it names, or the first of a range."""
        for kind, value in self._tests:
            if kind == "LITERAL":
                into.append(chr(value))
            elif kind == "RANGE":
                into.append(chr(value[0]))


@final
class At(Step):
    """A place, such as the beginning of the name."""

    def __init__(self, where: str, by_line: bool) -> None:
        self._where = where
        self._by_line = by_line

    def ends(self, places: MatchedName, starts: int) -> int:
        """The places that are such."""
        places.too_many()
        return starts & self._such(places)

    def _such(self, places: MatchedName) -> int:
        where = self._where
        if where == "AT_BEGINNING":
            return 1 | (places.of_lines() << 1 if self._by_line else 0)
        if where == "AT_BEGINNING_STRING":
            return 1
        end = places.behind_last()
        if where == "AT_END":
            lines = places.of_lines()
            return end | (lines if self._by_line else lines & (end >> 1))
        if where == "AT_END_STRING":
            return end
        bounds = places.bounds_of_words()
        if where == "AT_BOUNDARY":
            return bounds
        assert where == "AT_NON_BOUNDARY", where
        return places.all & ~bounds if places.name else 0

    def cost(self) -> float:
        """It takes one step."""
        return 1.0

    def ways(self) -> float:
        """There is one way."""
        return 1.0

    def width(self) -> int:
        """It takes no character."""
        return 0

    def is_anchored(self) -> bool:
        """Whether it is the beginning."""
        return self._where == "AT_BEGINNING_STRING" or (
            self._where == "AT_BEGINNING" and not self._by_line
        )


@final
class InOrder(Step):
    """Parts, one behind the other."""

    def __init__(self, parts: list[Step]) -> None:
        self.parts = parts

    def ends(self, places: MatchedName, starts: int) -> int:
        """Where the last may end."""
        for part in self.parts:
            if not starts:
                return 0
            starts = part.ends(places, starts)
        return starts

    def samples(self, into: list[str]) -> None:
        """Those of all parts."""
        for part in self.parts:
            part.samples(into)

    def without_empty_ends(self) -> Step:
        """What is found exactly where this is: parts at its ends that need not be there are left
        out, which would be followed through all of a name."""
        parts = list(self.parts)
        while len(parts) > 1 and parts[0].may_be_empty():
            parts.pop(0)
        while len(parts) > 1 and parts[-1].may_be_empty():
            parts.pop()
        return InOrder(parts)

    def cost(self) -> float:
        """Those of all parts."""
        cost = 1.0
        for part in self.parts:
            cost += part.cost()
        return cost

    def ways(self) -> float:
        """Each way of a part with each of the others."""
        ways = 1.0
        for part in self.parts:
            ways *= part.ways()
        return ways

    def width(self) -> int:
        """All of theirs together."""
        width = 0
        for part in self.parts:
            if part.width() < 0:
                return -1
            width += part.width()
        return width

    def is_anchored(self) -> bool:
        """Whether the first is."""
        return bool(self.parts) and self.parts[0].is_anchored()

    def unable(self) -> str:
        """What the first of them says that cannot be followed."""
        return next((part.unable() for part in self.parts if part.unable()), "")


@final
class Either(Step):
    """One of several parts."""

    def __init__(self, parts: list[Step]) -> None:
        self._parts = parts

    def ends(self, places: MatchedName, starts: int) -> int:
        """Where any of them may end."""
        ends = 0
        for part in self._parts:
            ends |= part.ends(places, starts)
            if places.steps > STEPS_MAX:
                break
        return ends

    def samples(self, into: list[str]) -> None:
        """Those of all parts."""
        for part in self._parts:
            part.samples(into)

    def cost(self) -> float:
        """Those of all parts."""
        cost = 1.0
        for part in self._parts:
            cost += part.cost()
        return cost

    def ways(self) -> float:
        """Those of all."""
        ways = 0.0
        for part in self._parts:
            ways += part.ways()
        return ways

    def width(self) -> int:
        """That of each, where all have the same."""
        width = self._parts[0].width()
        for part in self._parts:
            if part.width() != width:
                return -1
        return width

    def is_anchored(self) -> bool:
        """Whether each of them is."""
        return all(part.is_anchored() for part in self._parts)

    def unable(self) -> str:
        """What the first of them says that cannot be followed."""
        return next((part.unable() for part in self._parts if part.unable()), "")


@final
class Repeated(Step):
    """A part several times."""

    def __init__(self, part: Step, least: int, most: int) -> None:
        self.part = part
        self._least = least
        self._most = most

    def ends(self, places: MatchedName, starts: int) -> int:
        """Where the last time may end; a place that was reached before is not gone on from."""
        reached = starts
        for _ in range(self._least):
            further = self.part.ends(places, reached)
            if further == reached:
                break
            reached = further
            if places.too_many():
                return 0
        new = reached
        for _ in range(self._most - self._least):
            new = self.part.ends(places, new) & ~reached
            if not new or places.too_many():
                break
            reached |= new
        return reached

    def runs(self) -> bool:
        """Whether it may come as often as a name has places, or not at all."""
        return self._least == 0 and self._most >= NAME_LENGTH

    def may_be_empty(self) -> bool:
        """Whether it may come no time."""
        return self._least == 0

    def samples(self, into: list[str]) -> None:
        """Those of its part."""
        self.part.samples(into)

    def cost(self) -> float:
        """Those of the part, as often as it may come in a name."""
        return min(self._most, NAME_LENGTH) * (self.part.cost() + 1.0) + 1.0

    def ways(self) -> float:
        """The ways of the part, to the power of each number of times, together."""
        ways = self.part.ways()
        least, most = min(self._least, NAME_LENGTH), min(self._most, NAME_LENGTH)
        if ways == 1.0 and self.part.width() > 0:
            return most - least + 1.0
        if self._least == self._most == 0:
            return 1.0
        if ways <= 1.0 and most == 1:
            return 2.0
        if most > 32:
            return WITHOUT_END
        return sum(max(ways, 2.0) ** times for times in range(least, most + 1))

    def width(self) -> int:
        """That of all times, where their number is fixed."""
        width = self.part.width()
        if self._least != self._most or width < 0:
            return 0 if width == 0 else -1
        return width * self._least

    def is_anchored(self) -> bool:
        """Whether the part is and comes at least once."""
        return self._least > 0 and self.part.is_anchored()

    def unable(self) -> str:
        """What the part says that cannot be followed."""
        return self.part.unable()


@final
class Look(Step):
    """A part that has to match ahead of a place or behind it, or must not."""

    def __init__(self, part: Step, behind: bool, negated: bool) -> None:
        self._part = part
        self._behind = behind
        self._negated = negated

    def ends(self, places: MatchedName, starts: int) -> int:
        """The places where that is so; each is looked at once for a name."""
        places.too_many()
        looked = places.looked.get(self, 0)
        there = places.there.get(self, 0)
        if starts & ~looked:
            ahead = self._run_ahead()
            if ahead is None:
                there |= self._there(self._part, places, starts & ~looked)
                looked |= starts
            else:
                # To look from each place through the rest of the name takes as long as all do.
                looked = places.all
                there = self._there(ahead[1], places, looked)
                over = ahead[0].fitting(places)
                new = there
                while new and not places.too_many():
                    new = (new >> 1) & over & ~there
                    there |= new
            places.looked[self] = looked
            places.there[self] = there
        return starts & ~there if self._negated else starts & there

    def _there(self, part: Step, places: MatchedName, starts: int) -> int:
        """Those of some places from where a part matches, each looked at by itself."""
        width = self._part.width() if self._behind else 0
        there = 0
        left = starts
        while left:
            bit = left & -left
            left ^= bit
            begin = bit >> width
            if begin:
                ends = part.ends(places, begin)
                if ends & bit if self._behind else ends:
                    there |= bit
            if places.too_many():
                return 0
        return there

    def _run_ahead(self) -> tuple[OneOf, Step] | None:
        """The characters that it runs over before what it looks for, and that; None if none."""
        part = self._part
        if self._behind or not isinstance(part, InOrder):
            return None
        parts = part.parts
        first = parts[0]
        if not isinstance(first, Repeated) or not first.runs():
            return None
        over = first.part
        return (over, InOrder(parts[1:])) if isinstance(over, OneOf) else None

    def samples(self, into: list[str]) -> None:
        """Those of its part."""
        self._part.samples(into)

    def cost(self) -> float:
        """Those of the part for each place of a name."""
        ahead = self._run_ahead()
        if ahead is None:
            return NAME_LENGTH * (self._part.cost() + 1.0)
        return NAME_LENGTH * (ahead[1].cost() + 2.0)

    def ways(self) -> float:
        """Those of its part: they are tried at each place."""
        return self._part.ways()

    def width(self) -> int:
        """It takes no character."""
        return 0

    def unable(self) -> str:
        """What the part says that cannot be followed."""
        return self._part.unable()


@final
class Unable(Step):
    """A part that depends on how another one has matched, such as a back reference."""

    def __init__(self, what: str, part: Step | None) -> None:
        self._what = what
        self._part = part

    def ends(self, places: MatchedName, starts: int) -> int:
        """It ends nowhere."""
        return 0

    def samples(self, into: list[str]) -> None:
        """Those of its part."""
        if self._part is not None:
            self._part.samples(into)

    def cost(self) -> float:
        """It is not followed."""
        return 1.0

    def ways(self) -> float:
        """Those of its part."""
        return 1.0 if self._part is None else self._part.ways()

    def width(self) -> int:
        """It is as wide as what it depends on."""
        return -1

    def unable(self) -> str:
        """What it is."""
        return self._what


def translated(tree: Any, flags: int, depth: int) -> Step:
    """What Python's parser read, as steps.

    Args:
        tree: Pairs of an operation and what it takes.
        flags: Those of `re`.
        depth: In how many others it is.

    Raises:
        RecursionError: In too many.
    """
    if depth > NESTING_MAX:
        raise RecursionError(f"more than {NESTING_MAX} groups within each other")
    parts = [_step(str(operation), taken, flags, depth + 1) for operation, taken in tree]
    return parts[0] if len(parts) == 1 else InOrder(parts)


def _step(operation: str, taken: Any, flags: int, depth: int) -> Step:
    any_case = bool(flags & re.IGNORECASE)
    if operation in ("LITERAL", "NOT_LITERAL"):
        return OneOf([("LITERAL", taken)], operation == "NOT_LITERAL", any_case)
    if operation == "ANY":
        lines: list[tuple[str, Any]] = [] if flags & re.DOTALL else [("LITERAL", ord("\n"))]
        return OneOf(lines, True, False)
    if operation == "IN":
        tests = [(str(kind), value) for kind, value in taken]
        negated = tests[0][0] == "NEGATE"
        return OneOf(tests[1:] if negated else tests, negated, any_case)
    if operation == "AT":
        return At(str(taken), bool(flags & re.MULTILINE))
    if operation == "BRANCH":
        return Either([translated(branch, flags, depth) for branch in taken[1]])
    if operation == "SUBPATTERN":
        _, added, removed, part = taken
        return translated(part, (flags | added) & ~removed, depth)
    if operation in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, part = taken
        return Repeated(translated(part, flags, depth), int(least), int(most))
    if operation in ("ASSERT", "ASSERT_NOT"):
        direction, part = taken
        return Look(translated(part, flags, depth), direction < 0, operation == "ASSERT_NOT")
    if operation == "ATOMIC_GROUP":
        return Unable("a group that is not gone back into", translated(taken, flags, depth))
    if operation == "POSSESSIVE_REPEAT":
        least, most, part = taken
        repeated = Repeated(translated(part, flags, depth), int(least), int(most))
        return Unable("a repetition that is not gone back into", repeated)
    if operation == "FAILURE":
        return Either([OneOf([], False, False)])
    return Unable("a reference to a group", None)


def _is_of_category(character: str, category: str) -> bool:
    """Whether a character is of one of the sets with names, such as `\\d`."""
    negated = "_NOT_" in category
    if category.endswith("DIGIT"):
        return character.isdecimal() != negated
    if category.endswith("SPACE"):
        return character.isspace() != negated
    assert category.endswith("WORD"), category
    return _is_of_word(character) != negated


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"
