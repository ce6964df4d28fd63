"""Octets that are no UTF-8 in what clients of AMQP declare: the node answers, and goes on."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame


@pytest.mark.parametrize(
    "method",
    [
        spec.QueueDeclare(queue="NAME", durable=True),
        spec.QueueDeclare(queue="q", durable=True, arguments={"NAME": 1}),
        spec.QueueDeclare(queue="q", durable=True, arguments={"x-dead-letter-exchange": "NAME"}),
        spec.ExchangeDeclare(exchange="NAME", type_="fanout", durable=True),
        spec.ExchangeDeclare(
            exchange="x", type_="fanout", arguments={"alternate-exchange": "NAME"}
        ),
        spec.QueueBind(queue="there", exchange="amq.topic", routing_key="NAME"),
        spec.QueueBind(queue="there", exchange="amq.headers", arguments={"NAME": "NAME"}),
    ],
    ids=["queue", "argument", "value", "exchange", "alternate", "key", "header"],
)
def test_the_node_answers_and_goes_on(method: spec.Method) -> None:
    pair = Pair()
    first = pair.b.client()
    assert isinstance(
        first.call(spec.QueueDeclare(queue="there", durable=True)), spec.QueueDeclareOk
    )
    raw = method.encode()
    assert b"NAME" in raw
    client = pair.b.client()
    client.outbox += method_frame(1, raw.replace(b"NAME", b"k\xff\xfe!"))
    pair.settle(60)
    assert client.over or client.methods
    again = pair.b.client().call(spec.QueueDeclare(queue="again", durable=True))
    assert isinstance(again, spec.QueueDeclareOk)
