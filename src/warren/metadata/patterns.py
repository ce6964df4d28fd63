"""Regular expressions of operators: found in names in bounded time, by every node alike (ARG-09).

Policies and permissions name queues, exchanges and keys by patterns, which Python's `re` matches by
trying: `^(a+)+$` takes twice as long for each further letter of a name it does not match. RabbitMQ
stops that after some steps, and takes the name as not matched. A limit in time would let two nodes
differ about one name, and what they differ about is state that has to be the same everywhere.

So a pattern with few ways to match is left to `re`, and any other is matched by following all
ways at once: a step takes a set of places in the name, a bit each, to the set of places where what
matched may end. A place is reached once, however many ways lead there. What can still grow,
repetitions that are counted within each other, ends at `STEPS_MAX`, which counts steps and no time.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final, final

from mypy_extensions import trait

from warren.metadata.posix_classes import as_python, unknown_class

NAME_LENGTH: Final = 255
"""Characters of the longest name by which ways to match are counted."""

WAYS_MAX: Final = 1 << 17
"""Ways to match up to which `re` tries them, which takes a millisecond or two."""

STEPS_MAX: Final = 20_000
"""Steps after which a name counts as not matched; one takes about 0.1 us."""

NESTING_MAX: Final = 50
"""Groups within each other. What can be read in one place and not in another, because calls are
deeper there, must not be a pattern."""

WITHOUT_END: Final = float("inf")


class PatternError(ValueError):
    """What is no regular expression, or one that could not be matched in bounded time."""


def new_pattern(text: str) -> Pattern:
    """A pattern of an operator's, which names no class of characters that there is not.

    One that does may be in the tables already: there it matches as Python reads it.

    Raises:
        PatternError: The text says why.
    """
    pattern = Pattern(text)
    unknown = unknown_class(text)
    if unknown:
        raise PatternError(f"there is no class {unknown}")
    return pattern


@final
class Pattern:
    """One regular expression, which may match anywhere in a name.

    Raises:
        PatternError: It is none; the text says why.
    """

    def __init__(self, text: str) -> None:
        try:
            text = as_python(text)
            self._tried: re.Pattern[str] | None = re.compile(text)
            tree = parser.parse(text)
            flags: int = tree.state.flags
            whole = _translated(tree, flags, 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(str(error)) from None
        self._followed: Step = whole
        ways = whole.ways() * (1 if whole.is_anchored() else NAME_LENGTH)
        if ways > WAYS_MAX:
            self._tried = None
            if whole.unable():
                raise PatternError(f"{whole.unable()} beside so many repetitions may take too long")

    def found_in(self, name: str) -> bool:
        """Whether it matches anywhere in a name."""
        if self._tried is not None and len(name) <= NAME_LENGTH:
            return self._tried.search(name) is not None
        return self.followed_in(name)

    def followed_in(self, name: str) -> bool:
        """Whether it matches anywhere in a name, by following all ways at once.

        It does not where that takes more than `STEPS_MAX` steps.
        """
        places = MatchedName(name)
        return self._followed.ends(places, places.all) != 0 and places.steps <= STEPS_MAX


@final
class MatchedName:
    """A name being matched: where each of its characters stands, as bits, and the steps taken.

    Attributes:
        all: All places, the one behind the last character included.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.all: int = (1 << (len(name) + 1)) - 1
        self.of: dict[str, int] = {}
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
    def ways(self) -> float:
        """At most how many ways there are to match from one place of a name."""

    @abstractmethod
    def width(self) -> int:
        """How many characters it matches, -1 where that differs."""

    def is_anchored(self) -> bool:
        """Whether it can match at the beginning of a name only."""
        return False

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
        fitting = 0
        for character, bits in places.of.items():
            if self._fits(character) != self._negated:
                fitting |= bits
        return (starts & fitting) << 1

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

    def ways(self) -> float:
        """There is one way."""
        return 1.0

    def width(self) -> int:
        """It is one character wide."""
        return 1


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
        self._parts = parts

    def ends(self, places: MatchedName, starts: int) -> int:
        """Where the last may end."""
        for part in self._parts:
            if not starts:
                return 0
            starts = part.ends(places, starts)
        return starts

    def ways(self) -> float:
        """Each way of a part with each of the others."""
        ways = 1.0
        for part in self._parts:
            ways *= part.ways()
        return ways

    def width(self) -> int:
        """All of theirs together."""
        width = 0
        for part in self._parts:
            if part.width() < 0:
                return -1
            width += part.width()
        return width

    def is_anchored(self) -> bool:
        """Whether the first is."""
        return bool(self._parts) and self._parts[0].is_anchored()

    def unable(self) -> str:
        """What the first of them says that cannot be followed."""
        return next((part.unable() for part in self._parts if part.unable()), "")


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
        return ends

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
        self._part = part
        self._least = least
        self._most = most

    def ends(self, places: MatchedName, starts: int) -> int:
        """Where the last time may end; a place that was reached before is not gone on from."""
        reached = starts
        for _ in range(self._least):
            further = self._part.ends(places, reached)
            if further == reached:
                break
            reached = further
            if places.too_many():
                return 0
        new = reached
        for _ in range(self._most - self._least):
            new = self._part.ends(places, new) & ~reached
            if not new or places.too_many():
                break
            reached |= new
        return reached

    def ways(self) -> float:
        """The ways of the part, to the power of each number of times, together."""
        ways = self._part.ways()
        least, most = min(self._least, NAME_LENGTH), min(self._most, NAME_LENGTH)
        if ways == 1.0 and self._part.width() > 0:
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
        width = self._part.width()
        if self._least != self._most or width < 0:
            return 0 if width == 0 else -1
        return width * self._least

    def is_anchored(self) -> bool:
        """Whether the part is and comes at least once."""
        return self._least > 0 and self._part.is_anchored()

    def unable(self) -> str:
        """What the part says that cannot be followed."""
        return self._part.unable()


@final
class Look(Step):
    """A part that has to match ahead of a place or behind it, or must not."""

    def __init__(self, part: Step, behind: bool, negated: bool) -> None:
        self._part = part
        self._behind = behind
        self._negated = negated

    def ends(self, places: MatchedName, starts: int) -> int:
        """The places where that is so, each looked at by itself."""
        width = self._part.width() if self._behind else 0
        ends = 0
        place = 0
        while starts >> place:
            bit = 1 << place
            if starts & bit and self._is_there(places, place - width, bit) != self._negated:
                ends |= bit
            if places.too_many():
                return 0
            place += 1
        return ends

    def _is_there(self, places: MatchedName, start: int, place: int) -> bool:
        if start < 0:
            return False
        ends = self._part.ends(places, 1 << start)
        return bool(ends & place) if self._behind else ends != 0

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

    def ways(self) -> float:
        """Those of its part."""
        return 1.0 if self._part is None else self._part.ways()

    def width(self) -> int:
        """It is as wide as what it depends on."""
        return -1

    def unable(self) -> str:
        """What it is."""
        return self._what


def _translated(tree: Any, flags: int, depth: int) -> Step:
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
        return Either([_translated(branch, flags, depth) for branch in taken[1]])
    if operation == "SUBPATTERN":
        _, added, removed, part = taken
        return _translated(part, (flags | added) & ~removed, depth)
    if operation in ("MAX_REPEAT", "MIN_REPEAT"):
        least, most, part = taken
        return Repeated(_translated(part, flags, depth), int(least), int(most))
    if operation in ("ASSERT", "ASSERT_NOT"):
        direction, part = taken
        return Look(_translated(part, flags, depth), direction < 0, operation == "ASSERT_NOT")
    if operation == "ATOMIC_GROUP":
        return Unable("a group that is not gone back into", _translated(taken, flags, depth))
    if operation == "POSSESSIVE_REPEAT":
        least, most, part = taken
        repeated = Repeated(_translated(part, flags, depth), int(least), int(most))
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
