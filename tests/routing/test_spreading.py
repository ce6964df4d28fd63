"""Exchanges that spread messages: Erlang's hashes, places on a ring, counting off, drawing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warren
from warren.message.properties import MessageProperties
from warren.routing.bindings import Binding
from warren.routing.places import Places
from warren.routing.router import Router
from warren.routing.term_hash import hash_binaries, hash_binary, hash_float, jump
from warren.wire.amqp091.table import Table

HASH = "x-consistent-hash"


def make(kind: str, *weights: str, arguments: Table | None = None) -> tuple[Router, list[Binding]]:
    """A router with one exchange of a type and a queue for each weight."""
    router = Router("/")
    router.add_exchange("x", kind, False, "", arguments)
    bindings = []
    for number, weight in enumerate(weights, 1):
        router.add_queue(f"q{number}")
        binding = Binding("x", f"q{number}", False, weight, {}, True)
        router.add_binding(binding)
        bindings.append(binding)
    return router, bindings


@pytest.mark.parametrize(
    ("parts", "hashed"),
    [
        ([b""], 38220213),
        ([b"a"], 53691870),
        ([b"abcdefghijk"], 95467487),
        ([b"abcdefghijkl"], 89208944),
        ([b"abcdefghijklmnopqrstuvwxyz0123456789"], 85467569),
        ([b"a", b"b"], 3094894),
    ],
)
def test_lists_hash_as_in_erlang(parts: list[bytes], hashed: int) -> None:
    assert hash_binaries(parts) == hashed


def test_binaries_and_floats_hash_as_in_erlang() -> None:
    assert [hash_binary(data) for data in (b"", b"a")] == [13708901, 112802447]
    floats = [1.5, 0.0, -0.0, 1.0e10, -2.5]
    assert [hash_float(value) for value in floats] == [
        10380315, 20875736, 20875736, 73024537, 63894875,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "buckets"),
    [(0, [0, 0, 0, 4, 807]), (5, [0, 0, 2, 4, 125]), (134217727, [0, 0, 2, 6, 220])],
)
def test_jumps_are_those_of_the_plugin(key: int, buckets: list[int]) -> None:
    assert [jump(key, count) for count in (1, 2, 3, 10, 1000)] == buckets


@given(st.integers(), st.integers(1, 5000))
def test_one_bucket_more_moves_a_key_to_it_or_not_at_all(key: int, buckets: int) -> None:
    before, after = jump(key, buckets), jump(key, buckets + 1)
    assert 0 <= before < buckets
    assert after in (before, buckets)


STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), max_size=30)


@given(STEPS)
def test_a_ring_is_that_of_its_bindings_in_order(steps: list[tuple[int, int]]) -> None:
    # What is bound and unbound leaves the same ring as binding what is left, and looking at it in
    # between changes nothing: a node that restores a snapshot routes like the others.
    router, bound = make(HASH)[0], dict[tuple[int, int], Binding]()
    for number in range(5):
        router.add_queue(f"q{number}")
    for queue, weight in steps:
        if (queue, weight) in bound:
            router.remove_binding(bound.pop((queue, weight)))
        else:
            binding = Binding("x", f"q{queue}", False, str(weight), {}, True)
            router.add_binding(binding)
            bound[queue, weight] = binding
        router.route("x", "k")
    fresh, _ = make(HASH)
    for binding in bound.values():
        fresh.add_binding(binding)
    for number in range(20):
        assert router.route("x", str(number)) == fresh.route("x", str(number))


def test_weights_are_shares() -> None:
    router, _ = make(HASH, "1", "3")
    counts = Counter(router.route("x", f"key {number}")[0] for number in range(2000))
    assert 400 < counts["q1"] < 600


def test_a_hash_by_key_needs_nothing_of_each_message() -> None:
    router, _ = make(HASH, "1", "1")
    assert not router.by_message("x")
    assert router.route("x", "k") is router.route("x", "k")


def test_a_hash_by_header() -> None:
    router, _ = make(HASH, "1", "1", "1", "1", arguments={"hash-header": "h"})
    assert router.by_message("x") and not router.needs_properties("x")
    ways = {router.route("x", str(key), {"h": "same"})[0] for key in range(30)}
    assert len(ways) == 1
    assert len({router.route("x", "k", {"h": value})[0] for value in range(30)}) == 4
    assert router.route("x", "k", None) == router.route("x", "l", {"other": 1})


@pytest.mark.parametrize("named", ["message_id", "correlation_id", "timestamp"])
def test_a_hash_by_property(named: str) -> None:
    router, _ = make(HASH, "1", "1", "1", arguments={"hash-property": named})
    router.add_exchange("before", "fanout", False, "")
    router.add_binding(Binding("before", "x", True, "", {}, True))
    assert router.by_message("before") and router.needs_properties("before")

    def way(number: int) -> str:
        text = str(number)
        properties = MessageProperties(
            message_id=text, correlation_id=text, timestamp_ms=1_000 * number
        )
        return router.route("before", "k", {}, properties)[0]

    assert {way(number) for number in range(30)} == {"q1", "q2", "q3"}
    assert [way(number) for number in range(9)] == [way(number) for number in range(9)]
    assert router.route("x", "k", {}, MessageProperties()) == router.route(
        "x", "l", {"h": 1}, MessageProperties(app_id="other")
    )


def test_several_keys_choose_together() -> None:
    router, _ = make("x-modulus-hash", "", "", "")
    for number in range(30):
        assert len(router.route_keys("x", [str(number), "c", "d"])) == 1
    router, _ = make(HASH, "1", "1", "1")
    for number in range(30):
        key = str(number)
        assert router.route_keys("x", [key, "c"]) == router.route("x", key)


def test_destinations_are_counted_by_name() -> None:
    router, bindings = make("x-modulus-hash", "", "", "")
    before = [router.route("x", str(number)) for number in range(30)]
    assert {names[0] for names in before} == {"q1", "q2", "q3"}
    for binding in bindings:
        router.remove_binding(binding)
    assert router.route("x", "1") == []
    for binding in reversed(bindings):
        router.add_binding(binding)
    assert [router.route("x", str(number)) for number in range(30)] == before


def test_each_draw_is_a_message_of_its_own() -> None:
    router, bindings = make("x-random", "", "", "", "")
    assert router.by_message("x")
    counts = Counter(router.route("x", "k")[0] for _ in range(4000))
    assert all(800 < counts[f"q{number}"] < 1200 for number in range(1, 5))
    router.remove_binding(bindings[0])
    assert {router.route("x", "k")[0] for _ in range(100)} == {"q2", "q3", "q4"}
    for binding in bindings[1:]:
        router.remove_binding(binding)
    assert router.route("x", "k") == []


class Some(Places):
    """Queues of some names are here."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def here(self, queue: str) -> bool:
        return queue in self.names


@pytest.mark.skipif(warren.COMPILED, reason="the places of a test derive from compiled code")
def test_what_is_to_stay_here_goes_to_the_queues_here_alone() -> None:
    router, _ = make("x-local-random", *[""] * 40)
    assert router.by_message("x")
    router.places = Some("q3", "q17")
    counts = Counter(router.route("x", "k")[0] for _ in range(2000))
    assert counts.keys() == {"q3", "q17"} and min(counts.values()) > 800
    router.places = Some("q30")
    assert {router.route("x", "k")[0] for _ in range(50)} == {"q30"}
    router.places = Some()
    assert router.route("x", "k") == []
    router.add_queue("rest")
    router.add_exchange("y", "x-local-random", False, "z")
    router.add_exchange("z", "fanout", False, "")
    router.add_binding(Binding("z", "rest", False, "", {}, True))
    assert router.route("y", "k") == ["rest"]


def test_a_key_that_was_checked_for_another_exchange_has_no_places() -> None:
    router, _ = make(HASH, "k", "-3", "\u0663")
    assert router.route("x", "k") == []
    router.add_queue("q4")
    router.add_binding(Binding("x", "q4", False, "1", {}, True))
    assert [router.route("x", str(number)) for number in range(20)] == [["q4"]] * 20
