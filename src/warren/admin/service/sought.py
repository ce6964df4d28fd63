"""Names that a request looks for by a regular expression, with a bound for all of it.

One look is bounded by the pattern (`warren.metadata.patterns`). A request looks at every name that
there is, so that a few requests could keep a node busy.
"""

from __future__ import annotations

from typing import Final

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.metadata.patterns import WORK, Pattern, PatternError

REQUEST_STEPS_MAX: Final = 8_000_000
"""Steps that one request may have taken: about a second, in slices. `^.*orders.*$` takes some 50
for a name, so that it finds what it looks for among 100,000."""


class SoughtPattern:
    """A pattern for names, which may match anywhere in them; for one request."""

    def __init__(self, text: str, steps_max: int = 0, said: str = "") -> None:
        """
        Args:
            steps_max: What all looks together may take; 0 for `REQUEST_STEPS_MAX`.
            said: The pattern as the request has it, where that is written otherwise.

        Raises:
            PatternError: It is no regular expression.
        """
        self.text = said or text
        self._pattern = Pattern(text)
        self._left = self._most = steps_max or REQUEST_STEPS_MAX

    def found_in(self, name: str) -> bool:
        """Whether it matches anywhere in a name.

        Raises:
            Refusal: That is too much with what was looked at before.
        """
        before = WORK.steps
        found = self._pattern.found_in(name)
        self._left -= int(WORK.steps - before)
        if self._left < 0:
            raise Refusal(
                PRECONDITION_FAILED,
                f"looking for '{self.text}' takes more than {self._most} steps: use fewer "
                "repetitions, or look in fewer names",
            )
        return found


def pattern(text: str) -> SoughtPattern:
    """What names have to match, as an operation is asked for it.

    Raises:
        Refusal: It is no regular expression.
    """
    try:
        return SoughtPattern(text)
    except PatternError as error:
        raise Refusal(PRECONDITION_FAILED, f"'{text}' is no regular expression: {error}") from None
