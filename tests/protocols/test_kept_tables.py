"""Tables that a connection keeps have a bound in memory, and consumers one in number."""

from __future__ import annotations

from tests.node.pair import Pair
from tests.protocols.line import CAPABILITIES, Line
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import PROTOCOL_HEADER
from warren.wire.amqp091.table import Short, Table

DEEP: Table = {"a": [{"b": Short(1)} for _ in range(400)]}
"""4 KB on the wire, and 160 KB in memory."""


def consume(tag: str, arguments: Table) -> spec.Method:
    return spec.BasicConsume(0, "q", tag, False, True, False, False, arguments)


def with_queue(pair: Pair) -> Line:
    line = Line(pair.a)
    line.ask(1, spec.QueueDeclare(0, "q", False, True, False, False, False, {}))
    return line


def test_arguments_of_a_consumer_have_a_bound() -> None:
    line = with_queue(Pair(alone=True))
    usual: Table = {"x-priority": 5, "app": "orders", "labels": ["a", "b", "c"] * 10}
    assert isinstance(line.ask(1, consume("usual", usual)).method, spec.BasicConsumeOk)
    told = line.ask(1, consume("deep", DEEP)).method
    assert isinstance(told, spec.ChannelClose) and told.reply_code == 406
    assert "and 16384 is the most: shorten them" in told.reply_text


def test_a_client_that_says_too_much_of_itself_is_not_let_in() -> None:
    """Nor is anything of that kept."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels=-1)
    line.hand(PROTOCOL_HEADER)
    line.login({**CAPABILITIES, **DEEP})
    pair.settle(3)
    assert line.of(spec.ConnectionTune) == [] and line.end.agreement.client_properties == {}
    assert isinstance(with_queue(pair).end.vhost, str)


def test_consumers_of_a_channel_have_a_bound_as_in_rabbitmq() -> None:
    def two(settings: Settings) -> None:
        settings.consumers_max = 2

    line = with_queue(Pair(alone=True, configure=two))
    for tag in ("one", "two"):
        line.ask(1, consume(tag, {}))
    line.ask(1, spec.BasicCancel("one", False))
    line.ask(1, consume("three", {}))
    line.send(1, consume("four", {}))
    (told,) = line.wait(1, spec.ConnectionClose)
    method = told.method
    assert isinstance(method, spec.ConnectionClose)
    assert (method.reply_code, method.class_id, method.method_id) == (530, 60, 20)
    assert method.reply_text == "NOT_ALLOWED - reached maximum (2) of consumers per channel"
