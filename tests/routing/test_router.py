"""Routes: exchange types together, cycles, alternates, several keys, and a cache nobody can see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import warren
from warren.errors import Refusal
from warren.limits import ROUTE_STEPS_MAX
from warren.routing.bindings import Binding
from warren.routing.places import Places
from warren.routing.router import Router, routing_keys
from warren.wire.amqp091.table import Table

EXCHANGES = {"d": "direct", "f": "fanout", "t": "topic", "h": "headers"}
QUEUES = ["q1", "q2", "q3"]
KEYS = ["a", "a.b", "#", ""]


def make_router(alternates: dict[str, str] | None = None, router: Router | None = None) -> Router:
    router = router or Router("/")
    for name, kind in EXCHANGES.items():
        router.add_exchange(name, kind, False, (alternates or {}).get(name, ""))
    for queue in QUEUES:
        router.add_queue(queue)
    return router


def bind(
    router: Router, source: str, target: str, key: str = "", arguments: Table | None = None
) -> Binding:
    binding = Binding(source, target, target in EXCHANGES, key, arguments or {}, True)
    router.add_binding(binding)
    return binding


BINDINGS = st.tuples(
    st.sampled_from(sorted(EXCHANGES)),
    st.sampled_from(sorted(EXCHANGES) + QUEUES),
    st.sampled_from(KEYS),
)
LOOKUPS = st.tuples(st.sampled_from(sorted(EXCHANGES) + ["", "none"]), st.sampled_from(KEYS))


@given(
    st.lists(st.one_of(BINDINGS, LOOKUPS, st.integers(0, 20)), max_size=40),
    st.dictionaries(st.sampled_from(sorted(EXCHANGES)), st.sampled_from(sorted(EXCHANGES))),
)
def test_cache_changes_no_answer(
    steps: list[tuple[str, str, str] | tuple[str, str] | int], alternates: dict[str, str]
) -> None:
    # Steps bind, look up twice, or remove a binding; a router that never looked anything up before
    # has to give the same answer.
    cached = make_router(alternates)
    bound: list[Binding] = []
    for step in steps:
        if isinstance(step, int):
            if bound:
                cached.remove_binding(bound.pop(step % len(bound)))
        elif len(step) == 3:
            bound.append(bind(cached, *step))
        else:
            fresh = make_router(alternates)
            for one in bound:
                fresh.add_binding(one)
            headers: Table = {"a": 1}
            expected = fresh.route(*step, headers)
            assert cached.route(*step, headers) == expected
            assert cached.route(*step, headers) == expected
            assert len(set(expected)) == len(expected)


def test_default_exchange_leads_to_the_queue_of_that_name() -> None:
    router = make_router()
    assert router.route("", "q1") == ["q1"]
    assert router.route("", "q9") == []
    router.remove_queue("q1")
    assert router.route("", "q1") == []


def test_each_change_of_topology_changes_the_generation() -> None:
    router = Router("/")
    seen = [router.generation]
    router.add_queue("q")
    seen.append(router.generation)
    router.add_exchange("x", "fanout", False, "")
    seen.append(router.generation)
    binding = Binding("x", "q", False, "", {}, True)
    router.add_binding(binding)
    seen.append(router.generation)
    router.remove_binding(binding)
    seen.append(router.generation)
    router.remove_queue("q")
    seen.append(router.generation)
    router.remove_exchange("x")
    seen.append(router.generation)
    assert len(set(seen)) == 7


def test_destinations_come_once_in_the_order_of_their_bindings() -> None:
    router = make_router()
    bind(router, "f", "q3")
    bind(router, "f", "q1", "one")
    bind(router, "f", "q1", "two")
    assert router.route("f", "any") == ["q3", "q1"]


def test_exchanges_in_a_cycle_are_visited_once() -> None:
    router = make_router()
    bind(router, "f", "t")
    bind(router, "t", "f", "#")
    bind(router, "t", "q1", "#")
    bind(router, "f", "f")
    assert router.route("f", "k") == ["q1"]
    assert router.route("t", "k") == ["q1"]


def test_key_matters_behind_a_fanout() -> None:
    router = make_router()
    bind(router, "f", "d")
    bind(router, "d", "q1", "one")
    assert router.route("f", "one") == ["q1"]
    assert router.route("f", "two") == []


def test_headers_matter_behind_a_fanout_and_an_alternate() -> None:
    router = make_router({"d": "f"})
    assert not router.by_message("d")
    bind(router, "f", "h")
    bind(router, "h", "q1", "", {"a": 1})
    assert router.by_message("h")
    assert router.by_message("f")
    assert router.by_message("d")
    assert not router.by_message("t")
    assert not router.by_message("")
    assert router.route("d", "k", {"a": 1}) == ["q1"]
    assert router.route("d", "k", {"a": 2}) == []


def test_alternate_gets_only_what_found_no_binding() -> None:
    router = make_router({"d": "f"})
    bind(router, "f", "q2")
    bind(router, "d", "q1", "k")
    assert router.route("d", "k") == ["q1"]
    assert router.route("d", "other") == ["q2"]
    assert router.route_keys("d", ["k", "other"]) == ["q1"]


def test_alternates_in_a_cycle_end() -> None:
    router = make_router({"d": "t", "t": "d"})
    assert router.route("d", "k") == []


def test_alternate_that_does_not_exist_leads_nowhere() -> None:
    assert make_router({"d": "missing"}).route("d", "k") == []


def test_several_keys() -> None:
    router = make_router()
    bind(router, "d", "q1", "one")
    bind(router, "d", "q2", "two")
    assert router.route_keys("d", ["one", "two", "one"]) == ["q1", "q2"]
    assert router.route_keys("", ["q3", "q9", "q3", "q1"]) == ["q3", "q1"]
    bind(router, "f", "q1")
    assert router.route_keys("f", ["one", "two"]) == ["q1"]


def test_cc_and_bcc_add_keys() -> None:
    assert routing_keys("k", {"CC": ["a", 5], "BCC": ["b"]}) == ["k", "a", "b"]
    assert routing_keys("k", {}) == ["k"]
    with pytest.raises(Refusal) as caught:
        routing_keys("k", {"BCC": "b"})
    assert str(caught.value) == (
        'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"BCC",longstr}'
    )


def test_publish_checks() -> None:
    router = make_router()
    router.add_exchange("i", "fanout", True, "")
    router.check_publish("")
    router.check_publish("d")
    with pytest.raises(Refusal) as caught:
        router.check_publish("none")
    assert str(caught.value) == "NOT_FOUND - no exchange 'none' in vhost '/'"
    with pytest.raises(Refusal) as caught:
        router.check_publish("i")
    assert (
        str(caught.value) == "ACCESS_REFUSED - cannot publish to internal exchange 'i' in vhost '/'"
    )


def test_cache_is_bounded_and_keeps_what_is_in_use() -> None:
    router = make_router(router=Router("/", routes_max=10))
    bind(router, "t", "q1", "#")
    kept = router.route("t", "kept")
    for number in range(1_000):
        router.route("t", f"key.{number}")
        assert router.route("t", "kept") is kept
        held = sum(len(routes) for routes in router._newer.values()) + sum(
            len(routes) for routes in router._older.values()
        )
        assert held <= 20


def test_cache_is_bounded_in_destinations() -> None:
    router = make_router(router=Router("/", destinations_max=30))
    for queue in QUEUES:
        bind(router, "t", queue, "#")
    for number in range(100):
        assert router.route("t", str(number)) == QUEUES
    held = sum(len(found) for routes in router._newer.values() for found in routes.values())
    assert held <= 30 + len(QUEUES)


def test_keys_do_not_fill_the_cache_of_a_fanout() -> None:
    router = make_router()
    bind(router, "f", "q1")
    for number in range(100):
        assert router.route("f", str(number)) == ["q1"]
    assert len(router._newer["f"]) == 1


def test_lookups_of_unknown_exchanges_are_not_kept() -> None:
    router = make_router()
    for number in range(100):
        assert router.route(f"none.{number}", "k") == []
        assert not router.by_message(f"none.{number}")
    assert not router._newer
    assert not any(name.startswith("none") for name in router._reaches)


def test_a_search_that_takes_too_many_steps_leads_nowhere_and_is_not_remembered() -> None:
    """All keys of a message count together, and so do all exchanges that it comes to."""
    router = make_router()
    for number in range(1_000):
        bind(router, "f", "q1", str(number))
        bind(router, "t", "f", f"{number}.#")
    bind(router, "t", "q2", "#")
    before = router.steps
    assert router.route("t", "5") == ["q2", "q1"]
    assert not router.gave_up
    assert 1_000 < router.steps - before < 2_100
    keys = [f"k{number}" for number in range(ROUTE_STEPS_MAX)]
    before = router.steps
    assert router.route_keys("t", keys) == []
    assert router.gave_up
    assert router.steps - before <= ROUTE_STEPS_MAX + 10
    assert router.route("t", "5") == ["q2", "q1"]
    assert router.route("t", "6") == ["q2", "q1"]
    assert not router.gave_up


def test_an_exchange_may_have_as_many_queues_as_it_likes() -> None:
    router = Router("/")
    router.add_exchange("f", "fanout", False, "")
    count = ROUTE_STEPS_MAX + 1_000
    for number in range(count):
        router.add_queue(str(number))
        bind(router, "f", str(number))
    assert len(router.route("f", "")) == count
    assert not router.gave_up
    assert router.steps >= count


def test_bindings_that_one_header_is_enough_for_are_found_however_many_have_it() -> None:
    """They are what the search finds, and not what it looks at, unless they are found again."""
    router = Router("/")
    router.add_exchange("h", "headers", False, "")
    count = ROUTE_STEPS_MAX // 4 + 1_000
    headers: Table = {f"h{number}": "v" for number in range(6)}
    for number in range(count):
        router.add_queue(str(number))
        bind(router, "h", str(number), "", {"x-match": "any", **headers})
    assert len(router.route("h", "", {"h0": "v", "other": 1})) == count
    assert not router.gave_up
    before = router.steps
    assert router.route("h", "", headers) == []
    assert router.gave_up
    assert router.steps - before < ROUTE_STEPS_MAX + 10


class Elsewhere(Places):
    """Has no queue on this node."""

    def here(self, queue: str) -> bool:
        return False


@pytest.mark.skipif(warren.COMPILED, reason="a router's class has no others below it")
@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash", "x-local-random"])
def test_bindings_that_are_put_in_order_anew_count(kind: str) -> None:
    """A client may unbind and publish by turns; each message has all other bindings looked at."""
    router = Router("/")
    router.places = Elsewhere()
    router.add_exchange("s", kind, False, "")
    bound: list[Binding] = []
    for number in range(1_000):
        router.add_queue(str(number))
        bound.append(bind(router, "s", str(number), "1"))
    router.route("s", "k", {})
    router.remove_binding(bound.pop())
    before = router.steps
    router.route("s", "k", {})
    assert not router.gave_up
    assert 999 <= router.steps - before < 20_000
