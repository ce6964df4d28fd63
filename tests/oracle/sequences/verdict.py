"""Whether time alone explains that two plays of one sequence differ.

A play looks away when nothing has changed for a while. Where that was too soon, what comes later is
missing at a step, and counts are on their way; all that follows may be another course then. What
came has to be what comes in the other play, too: another body, property, code or text, another
consumer or another place in the order is no matter of time.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.sequences.play import Answers


def is_late(one: Answers, other: Answers) -> bool:
    """Whether at the first step that differs one of both lacks something, and has nothing else."""
    for here, there in zip(one, other, strict=True):
        if here != there:
            return lacks(here, there) or lacks(there, here)
    return False


def lacks(less: dict[str, Any], more: dict[str, Any]) -> bool:
    """Whether all that was said at a step was said in another play, too, in that order."""
    if "failed" in less or "failed" in more:
        # A connection went, or an answer did not come within seconds.
        return False
    places = (less.keys() | more.keys()) - {"counts"}
    return all(_within(less.get(place, []), more.get(place, [])) for place in places)


def _within(less: list[Any], more: list[Any]) -> bool:
    """Whether the events of a channel are some of those of another play, in their order."""
    if not isinstance(less, list) or not isinstance(more, list):
        return less == more
    at = 0
    for event in less:
        while at < len(more) and not _is_part(event, more[at]):
            at += 1
        if at == len(more):
            return False
        at += 1
    return True


def _is_part(event: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two are the same, but for which messages are confirmed and which tags came so far."""
    if event.keys() == other.keys() == {"tags"}:
        return set(event["tags"]) <= set(other["tags"])
    if event.keys() == other.keys() == {"confirmed"}:
        return bool(event["confirmed"].items() <= other["confirmed"].items())
    return event == other
