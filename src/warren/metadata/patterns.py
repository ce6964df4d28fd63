"""Regular expressions of operators: found in names in bounded time, by every node alike (ARG-09).

Policies and permissions name queues, exchanges and keys by patterns, which Python's `re` matches by
trying: `^(a+)+$` takes twice as long for each further letter of a name it does not match. RabbitMQ
stops that after some steps, and takes the name as not matched. A limit in time would let two nodes
differ about one name, and what they differ about is state that has to be the same everywhere.

So a pattern with few ways to match is left to `re`, and any other is matched by following all
ways at once (`pattern_steps`). What can still grow, repetitions that are counted within each other,
ends at `STEPS_MAX`, which counts steps and no time. What a pattern said of a name is remembered
where it was not found out at once.
"""

from __future__ import annotations

import re
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Final, final

from mypy_extensions import i64

from warren.metadata.pattern_signs import PatternError as PatternError
from warren.metadata.pattern_signs import with_python_flags
from warren.metadata.pattern_steps import (
    NAME_LENGTH,
    STEPS_MAX,
    InOrder,
    MatchedName,
    Step,
    translated,
)
from warren.metadata.posix_classes import as_python, unknown_class

WAYS_MAX: Final = 1 << 12
"""Ways to match up to which `re` tries them, which takes some 50 us."""

WAYS_UNABLE_MAX: Final = 1 << 17
"""The same of what can be tried only: a millisecond or two."""

WAYS_A_STEP: Final = 8
"""So many ways count as one step of following them."""

REMEMBERED_COST: Final = 16
"""What a pattern said is remembered if it may cost more steps to find out."""

REMEMBERED_MAX: Final = 128
"""Names of which one pattern remembers what it said; it forgets all of them with one more."""

PROBES_MAX: Final = 8
"""Characters of a pattern that names are made of to see what it may cost."""
PROBE_LENGTH: Final = 128
"""How long those names are; hardly any name is longer."""


def _compiled(text: str) -> tuple[str, re.Pattern[str]]:
    """A pattern as Python reads it, and the same compiled.

    What Python reads as it stands keeps its meaning. What it refuses may be RabbitMQ's, such as
    `keda(?i)-1`.

    Raises:
        PatternError, re.error: It is neither.
    """
    try:
        return text, re.compile(text)
    except re.error as error:
        try:
            text = with_python_flags(text)
            return text, re.compile(text)
        except (PatternError, re.error):
            raise error from None


@final
class PatternWork:
    """Counts the steps of all matches so far, of all patterns; it only grows."""

    def __init__(self) -> None:
        self.steps: i64 = 0


WORK: Final = PatternWork()


def new_pattern(text: str) -> Pattern:
    """A pattern of an operator's, which names no class of characters that there is not.

    One that does may be in the tables already: there it matches as Python reads it. So may one that
    takes too many steps: it does not match where it does.

    Raises:
        PatternError: The text says why.
    """
    pattern = Pattern(text)
    unknown = unknown_class(text)
    if unknown:
        raise PatternError(f"there is no class {unknown}")
    pattern.check_cost()
    return pattern


@final
class Pattern:
    """One regular expression, which may match anywhere in a name.

    Attributes:
        follows: Whether all ways to match are followed at once, for they may be many.
        cost: At most how many steps it takes for one name.

    Raises:
        PatternError: It is none; the text says why.
    """

    def __init__(self, text: str) -> None:
        try:
            text, compiled = _compiled(as_python(text))
            self._tried: re.Pattern[str] | None = compiled
            tree = parser.parse(text)
            flags: int = tree.state.flags
            whole = translated(tree, flags, 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(str(error)) from None
        unable = whole.unable()
        ways = whole.ways() * (1 if whole.is_anchored() else NAME_LENGTH)
        self._followed: Step = whole
        if not unable and whole.may_be_empty():
            self._followed = InOrder([])
        elif not unable and isinstance(whole, InOrder):
            self._followed = whole.without_empty_ends()
        self.cost: i64 = 1
        if ways > (WAYS_UNABLE_MAX if unable else WAYS_MAX):
            self._tried = None
            if unable:
                raise PatternError(f"{unable} beside so many repetitions may take too long")
            self.cost = i64(int(min(float(STEPS_MAX), self._followed.cost())))
        else:
            self.cost += i64(int(ways)) // WAYS_A_STEP
        self.follows: bool = self._tried is None
        self._said: dict[str, bool] | None = None

    def found_in(self, name: str) -> bool:
        """Whether it matches anywhere in a name."""
        tried = self._tried
        if tried is not None and self.cost <= REMEMBERED_COST and len(name) <= NAME_LENGTH:
            WORK.steps += self.cost
            return tried.search(name) is not None
        said = self._said
        if said is None or len(said) >= REMEMBERED_MAX:
            said = self._said = {}
        found = said.get(name)
        if found is None:
            if tried is not None and len(name) <= NAME_LENGTH:
                WORK.steps += self.cost
                found = tried.search(name) is not None
            else:
                found = self.followed_in(name)
            said[name] = found
        return found

    def followed_in(self, name: str) -> bool:
        """Whether it matches anywhere in a name, by following all ways at once.

        It does not where that takes more than `STEPS_MAX` steps.
        """
        places = MatchedName(name)
        found = self._followed.ends(places, places.all) != 0 and places.steps <= STEPS_MAX
        WORK.steps += places.steps
        return found

    def check_cost(self) -> None:
        """See that it is matched in time, as far as names show that have its own characters.

        Raises:
            PatternError: It takes too many steps for one of them.
        """
        if not self.follows:
            return
        characters: list[str] = []
        self._followed.samples(characters)
        each = list(dict.fromkeys([*characters, "a"]))[:PROBES_MAX]
        probes = [character * PROBE_LENGTH for character in each]
        probes.append(("".join(each) * PROBE_LENGTH)[:PROBE_LENGTH])
        for probe in probes:
            places = MatchedName(probe)
            self._followed.ends(places, places.all)
            if places.steps > STEPS_MAX:
                raise PatternError(
                    f"it takes more than {STEPS_MAX} steps for names such as '{probe[:8]}...': use "
                    "fewer repetitions within each other"
                )
