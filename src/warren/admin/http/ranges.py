"""Samples that requests ask for: at which moments, and as the API shows them.

`lengths_age=60&lengths_incr=5` asks for lengths of the last minute, five seconds apart; so do
`msg_rates`, `data_rates` and `node_stats` for what else there is over time.

Source: `rabbit_mgmt_util` and `rabbit_mgmt_stats` of RabbitMQ 4.3.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from warren.admin.http.errors import Problem, problem
from warren.admin.service.history import SampleRange, Values

MOMENTS_MAX: Final = 500
DIGITS_MAX: Final = 12
SETTLED_SECONDS: Final = 1
"""After a moment all nodes have its sample: charts do not end earlier on some than on others."""


class Samples(NamedTuple):
    """Some figures at some moments.

    Attributes:
        span: The moments.
        rows: What the figures were, from the oldest moment on.
        first: The column that the figures begin in.
    """

    span: SampleRange
    rows: list[Values]
    first: int = 0

    def details(self, rate: float, column: int) -> dict[str, Any]:
        """One figure as it was, with its rate; newest first, as RabbitMQ has it."""
        values = [row[self.first + column] for row in self.rows]
        seconds = self.span.last - self.span.first
        return {
            "rate": rate,
            "samples": [
                {"sample": value, "timestamp": moment * 1_000}
                for value, moment in zip(reversed(values), reversed(self.span.moments), strict=True)
            ],
            "avg_rate": (values[-1] - values[0]) / seconds,
            "avg": sum(values) / len(values),
        }


def detailed(rate: float, samples: Samples | None, column: int) -> dict[str, Any]:
    """A rate, with samples where they were asked for."""
    return {"rate": rate} if samples is None else samples.details(rate, column)


class Ranges:
    """What samples a request asks for.

    Attributes:
        spans: All moments that it names.
    """

    def __init__(self, query: Mapping[str, str]) -> None:
        """Read a query.

        Raises:
            Problem: A range of it is empty, or has too many moments.
        """
        now = int(time.time()) - SETTLED_SECONDS
        self._places: dict[str, int] = {}
        self.spans: list[SampleRange] = []
        for kind in ("lengths", "msg_rates", "data_rates", "node_stats"):
            span = _span(query, kind, now)
            if span is None:
                continue
            if span not in self.spans:
                self.spans.append(span)
            self._places[kind] = self.spans.index(span)

    def samples(self, kind: str, told: list[list[Values]], first: int = 0) -> Samples | None:
        """What was told of the moments of a kind; None where none were asked for.

        Args:
            told: For each of `spans`; less where there is nothing.
            first: The column that the figures of this kind begin in.
        """
        place = self._places.get(kind, -1)
        if not 0 <= place < len(told):
            return None
        return Samples(self.spans[place], told[place], first)


def _span(query: Mapping[str, str], kind: str, now: int) -> SampleRange | None:
    age, step = _number(query, f"{kind}_age"), _number(query, f"{kind}_incr")
    if age is None or step is None:
        return None
    if age <= 0 or step <= 0 or age // step > MOMENTS_MAX:
        reason = f"Invalid range parameters: age {age}, incr {step}"
        raise Problem(problem(400, "bad_request", reason))
    last = now - now % step
    return SampleRange(last - age, last, step)


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text.removeprefix("-").isdecimal() or len(text) > DIGITS_MAX:
        return None
    return int(text)


NO_RANGES: Final = Ranges({})
