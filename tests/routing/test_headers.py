"""Header matching. The expected answers were read off RabbitMQ 4.3 unless a comment says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.limits import ROUTE_STEPS_MAX
from warren.routing.bindings import Binding
from warren.routing.exchange_types import HeadersIndex
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


VALUES = st.sampled_from([None, 1, 1.0, True, "x", b"x", [1], {"k": 2}])
NAMES = st.sampled_from(["a", "b", "c", "x-d"])
TABLES = st.dictionaries(NAMES, VALUES, max_size=3)
MODES = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])


def bound(number: int, arguments: Table) -> Binding:
    return Binding("h", str(number), False, "", arguments, True)


@given(st.lists(st.tuples(MODES, TABLES), max_size=8), TABLES, st.data())
def test_an_index_finds_what_each_condition_lets_pass(
    demands: list[tuple[str | None, Table]], headers: Table, data: st.DataObject
) -> None:
    index = HeadersIndex()
    bindings: list[Binding] = []
    for number, (mode, table) in enumerate(demands):
        arguments: Table = dict(table) if mode is None else {"x-match": mode, **table}
        bindings.append(bound(number, arguments))
        index.add(bindings[-1])
    gone = data.draw(st.sets(st.sampled_from(range(len(demands))))) if demands else set()
    for number in gone:
        index.remove(bindings[number])
    found: list[Binding] = []
    index.match("", headers, found)
    expected = [
        str(number)
        for number, binding in enumerate(bindings)
        if number not in gone and passes(binding.arguments, headers)
    ]
    assert sorted(each.destination for each in found) == expected
    for number, binding in enumerate(bindings):
        if number not in gone:
            index.remove(binding)
    assert index._by_value == index._by_name == index._always == index._bound == {}


@pytest.mark.parametrize(
    "arguments",
    [
        lambda number: {"kind": "order", "customer": number},
        lambda number: {"x-match": "any", "customer": number, "shop": number},
        lambda number: {f"h{number}": None},
    ],
)
def test_only_bindings_that_a_header_is_a_reason_for_are_asked(
    arguments: Callable[[int], Table],
) -> None:
    """Of 1,000 bindings a message asks a few, though it has a header in common with all."""
    index = HeadersIndex()
    for number in range(1_000):
        index.add(bound(number, arguments(number)))
    found: list[Binding] = []
    index.left = ROUTE_STEPS_MAX
    index.match("", {"kind": "order", "customer": 7, "h7": 1}, found)
    assert [each.destination for each in found] == ["7"]
    assert ROUTE_STEPS_MAX - index.left < 20


def test_a_message_is_given_up_that_too_many_bindings_are_asked_about() -> None:
    index = HeadersIndex()
    for number in range(1_000):
        index.add(bound(number, {"kind": "order", "size": 1}))
    index.left = 3_000
    index.match("", {"kind": "order", "size": 2}, [])
    assert index.left > 0, "each stands under one of the two, by turns"
    index.left = 3_000
    index.match("", {"kind": "order", "size": 1}, [])
    assert index.left < 0
