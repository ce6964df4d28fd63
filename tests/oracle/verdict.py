"""Whether what Warren said in a scenario is what it should say."""

from __future__ import annotations

from tests.oracle.deviations import edited, edits_of
from tests.oracle.recorded import Transcript, difference, lines
from tests.oracle.registry import Scenario
from tests.oracle.session import NOT_YET


def verdict(scenario: Scenario, stored: Transcript, got: Transcript) -> str:
    """What is wrong with Warren's answers, or empty.

    They are the oracle's, but for what deviates on purpose; and that does deviate. Where something
    is marked as lacking, it is refused by name instead.
    """
    if scenario.lacking:
        if any(NOT_YET in line for line in lines(got)):
            return ""
        state = difference(stored, got) or "as the oracle"
        return f"nothing is refused as not there yet: take `lacking` away\n{state}"
    edits = edits_of(scenario.name)
    diff = difference(edited(stored, edits), got)
    if diff:
        return diff
    for edit in edits:
        others = [other for other in edits if other is not edit]
        if not difference(edited(stored, others), got):
            return f"this deviation is not needed any more: {edit}"
    return ""
