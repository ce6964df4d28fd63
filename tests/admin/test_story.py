"""The story of one message: how it stands, its deaths, its route, and who else has it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.admin.test_looking import looked, publish
from tests.node.pair import Client, Pair
from warren.admin.service.caller import LOCAL
from warren.admin.service.looking import SeenMessage
from warren.admin.service.messages import GivenProperties
from warren.admin.service.story import MessageStanding, copies_of, deaths_of, look_at, route_now
from warren.errors import NOT_FOUND, Refusal
from warren.wire.amqp091 import spec


@pytest.fixture
def pair() -> Pair:
    return Pair()


def filled(pair: Pair, kind: str = "quorum") -> Client:
    """Six messages in `q`, of which the first and the fourth have the message id `id`."""
    client = pair.a.client()
    assert isinstance(client.declare("q", kind=kind), spec.QueueDeclareOk)
    publish(client, "q", 6)
    return client


def stands(pair: Pair, number: int, node: str = "a") -> MessageStanding:
    return answered(
        pair,
        lambda: look_at(service_of(pair, node), LOCAL, vhost="/", queue="q", number=number),
    )


@pytest.mark.parametrize("kind", ["quorum", "classic"])
@pytest.mark.parametrize("node", ["a", "b"])
def test_a_message_is_found_wherever_it_is(pair: Pair, kind: str, node: str) -> None:
    client = filled(pair, kind)
    numbers = [each.number for each in looked(pair).messages]
    found = stands(pair, numbers[3], node)
    assert (found.state, found.message.position, found.message.body) == ("ready", 4, b"m3")
    got = client.get("q")
    assert got is not None
    held = stands(pair, numbers[0], node)
    assert (held.state, held.message.position, held.message.body) == ("held", 0, b"m0")
    assert stands(pair, numbers[3], node).message.position == 3
    client.ack(got.tag)
    pair.until(lambda: pair.a.queue("q").counts().held == 0)
    with pytest.raises(Refusal) as refused:
        stands(pair, numbers[0], node)
    assert refused.value.kind == NOT_FOUND


def route(pair: Pair, message: SeenMessage) -> list[str]:
    return answered(
        pair,
        lambda: route_now(
            service_of(pair),
            LOCAL,
            vhost="/",
            exchange=message.exchange,
            routing_key=message.routing_key,
            properties=message.properties,
        ),
    )


def test_routes_are_those_of_now(pair: Pair) -> None:
    client = filled(pair)
    message = looked(pair, count=1).messages[0]
    assert route(pair, message) == ["q"]
    client.declare("h")
    assert isinstance(
        client.call(spec.QueueBind(0, "h", "amq.match", "", False, {"kind": "odd"})),
        spec.QueueBindOk,
    )
    message.exchange = "amq.match"
    assert route(pair, message) == ["h"]
    message.properties = GivenProperties(headers={"kind": "odd", "CC": ["x"]})
    assert route(pair, message) == ["h"]
    message.properties = GivenProperties(headers={"kind": "even"})
    assert route(pair, message) == []
    message.exchange = "gone"
    with pytest.raises(Refusal) as refused:
        route(pair, message)
    assert refused.value.kind == NOT_FOUND


def test_other_queues_are_searched_by_message_id(pair: Pair) -> None:
    client = filled(pair)
    for name in ("other", "third"):
        client.declare(name)
    publish(client, "other", 4)
    found = answered(
        pair, lambda: copies_of(service_of(pair), LOCAL, vhost="/", message_id="id", but="q")
    )
    rows = {each.queue: [one.position for one in each.messages] for each in found}
    assert rows == {"other": [1, 4], "third": []}
    assert all(each.whole for each in found)


@pytest.mark.parametrize("headers", [None, {}, {"x-death": 1}, {"x-death": [1, "x"]}])
def test_headers_without_deaths_say_nothing(headers: dict[str, Any] | None) -> None:
    assert deaths_of(True, headers) == []


def test_deaths_are_read_from_headers_of_any_make() -> None:
    row = {"queue": "q", "reason": "expired", "exchange": "e", "routing-keys": ["k", 1]}
    headers = {"x-death": [{**row, "count": 3, "time": 7}, {"queue": 5}]}
    first, second = deaths_of(True, headers)
    assert (first.queue, first.reason, first.exchange) == ("q", "expired", "e")
    assert (first.routing_keys, first.count, first.time) == (["k", ""], 3, 7)
    assert (second.queue, second.count, second.time) == ("", 1, None)
