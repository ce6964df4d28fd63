"""Where Warren answers otherwise than RabbitMQ 4.3 over HTTP on purpose, each with its reason.

One that is out of date fails the test that plays its talk.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Deviation(NamedTuple):
    """Why one answer is another, and what of it; a body of None is no body."""

    reason: str
    answer: dict[str, Any]


LACKING: dict[str, str] = {}
"""Keys that Warren's bodies do not have anywhere, by why."""

ADDED: dict[str, str] = {}
"""Keys that only Warren's have."""

DEVIATIONS: dict[tuple[str, str], Deviation] = {}
"""By talk and request."""
