"""What says that a vhost has an events feed: a runtime parameter of its own component.

It is kept, listed and exported like any parameter. A policy would have been the wrong place: of the
policies that fit a queue one counts, so that one for a feed would undo what another says.
"""

from __future__ import annotations

from typing import Final, final

import msgspec

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.metadata.access_checks import check_pattern
from warren.metadata.commands import SetParameter
from warren.metadata.names import check_length
from warren.metadata.parameters import FEED, PARAMETERS_MAX, Parameters, check_parameter
from warren.metadata.patterns import Pattern

FEED_NAME: Final = "feed"
"""The name of the one parameter of component `FEED` that a vhost has."""
DEFAULT_QUEUE: Final = "warren.feed"


@final
class FeedSettings:
    """What the parameter says.

    Attributes:
        queue: The queue that blocks go to.
        pattern: Of the names of queues that are told of, as it was given; empty for all of them.
    """

    def __init__(self, queue: str, pattern: str) -> None:
        self.queue: str = queue
        self.pattern: str = pattern
        self._pattern: Pattern | None = Pattern(pattern) if pattern else None

    def covers(self, queue: str) -> bool:
        """Whether a queue is told of: that of the feed itself never is."""
        if queue == self.queue:
            return False
        return self._pattern is None or self._pattern.found_in(queue)


def feed_settings(value: bytes) -> FeedSettings | None:
    """The feed that a parameter's value, JSON, speaks of; None where it is none."""
    try:
        said = msgspec.json.decode(value)
        if not isinstance(said, dict):
            return None
        queue = said.get("queue", DEFAULT_QUEUE)
        pattern = said.get("pattern", "")
        if not isinstance(queue, str) or not isinstance(pattern, str) or not queue:
            return None
        return FeedSettings(queue, pattern)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def check_feed(parameters: Parameters, vhost: str, queue: str, pattern: str) -> SetParameter:
    """The command that turns a feed on, or has it be another one.

    Raises:
        Refusal: `PRECONDITION_FAILED`, its queue's name is none, or the pattern.
    """
    if not queue:
        raise Refusal(PRECONDITION_FAILED, "a feed's queue has a name")
    check_length("the name of a feed's queue", queue)
    check_pattern(pattern)
    if (vhost, FEED, FEED_NAME) not in parameters and len(parameters) >= PARAMETERS_MAX:
        raise Refusal(PRECONDITION_FAILED, f"there are {PARAMETERS_MAX} parameters at most")
    said = {"queue": queue}
    if pattern:
        said["pattern"] = pattern
    command = SetParameter(vhost, FEED, FEED_NAME, msgspec.json.encode(said))
    check_parameter(command)
    return command


def check_feed_value(parameters: Parameters, vhost: str, value: str) -> SetParameter:
    """The same, of what is given as a parameter.

    Args:
        value: JSON: an object with `queue` and `pattern`, both of which may lack.

    Raises:
        Refusal: `PRECONDITION_FAILED`, as above, or it is no such object.
    """
    try:
        said = msgspec.json.decode(value, type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise Refusal(PRECONDITION_FAILED, f"Validation failed\n\n{FEED}: {error}\n") from None
    unknown = sorted(set(said) - {"queue", "pattern"})
    if unknown:
        raise Refusal(
            PRECONDITION_FAILED,
            f"Validation failed\n\n{FEED} has no key '{unknown[0]}': there are queue and pattern\n",
        )
    return check_feed(parameters, vhost, said.get("queue", DEFAULT_QUEUE), said.get("pattern", ""))
