"""Header matching. The expected answers were read off RabbitMQ 4.3 unless a comment says so."""

from __future__ import annotations

import pytest

from warren.routing.headers import HeaderMatch, match_values
from warren.wire.amqp091.table import Float, SignedInt, Table, Timestamp


def passes(arguments: Table, headers: Table | None) -> bool:
    return HeaderMatch(arguments).passes(match_values(headers))


@pytest.mark.parametrize(
    ("arguments", "headers", "expected"),
    [
        ({}, {}, True),
        ({}, None, True),
        ({"x-match": "any"}, {"a": 1}, False),
        ({"a": SignedInt(5)}, {"a": 5}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1.5}, {"a": Float(1.5)}, True),
        ({"a": b"x"}, {"a": "x"}, True),
        ({"a": [SignedInt(1), "b"]}, {"a": [SignedInt(1), "b"]}, True),
        ({"a": {"k": SignedInt(1)}}, {"a": {"k": SignedInt(1)}}, True),
        ({"a": {"k": 1}}, {"a": {"k": SignedInt(1)}}, False),
        ({"a": None}, {"a": 7}, True),
        ({"a": None}, {"a": None}, True),
        ({"a": None}, {}, False),
        ({"a": 5}, {"a": None}, False),
        ({"x-a": 1}, {}, True),
        ({"x-match": "any", "x-a": 1}, {"x-a": 1}, False),
        ({"x-match": "any-with-x", "x-a": 1}, {"x-a": 1}, True),
        ({"x-match": "all-with-x", "x-a": 1}, {"x-a": 2}, False),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1}, False),
        ({"x-match": "all", "a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}, True),
        ({"x-match": "any", "a": 1, "b": 2}, {"a": 9, "b": 2}, True),
        ({"x-match": "any", "a": None, "b": 2}, {"a": 9}, True),
        ({"a": Timestamp(100)}, {"a": 100}, True),
        # RabbitMQ 4.3 says no: it compares seconds to milliseconds.
        ({"a": Timestamp(100)}, {"a": Timestamp(100)}, True),
    ],
)
def test_passes(arguments: Table, headers: Table | None, expected: bool) -> None:
    assert passes(arguments, headers) is expected
