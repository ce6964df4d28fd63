"""Every type of AMQP 0-9-1, at both ends of its range, through every list and every codec."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from typing import Any

import msgspec
import pytest

from tests.ctl.play import in_process
from tests.http.talk import Ask, Peer
from tests.support.broker import Broker, free_port
from warren.admin.cli.asking import FOLDER_VARIABLE
from warren.admin.cli.tools.session import NODE_VARIABLE
from warren.admin.http.failures import Outermost
from warren.client import connect
from warren.metadata.plain_tables import as_table, plain
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import (
    Byte,
    Decimal,
    Float,
    Short,
    SignedInt,
    Table,
    Timestamp,
    UnsignedByte,
    UnsignedInt,
    UnsignedShort,
    Value,
)

MAX = 2**64 - 1
ENDS: Table = {
    "t-0": False,
    "t-1": True,
    "b-low": Byte(-128),
    "b-high": Byte(127),
    "B-high": UnsignedByte(255),
    "s-low": Short(-(2**15)),
    "s-high": Short(2**15 - 1),
    "u-high": UnsignedShort(2**16 - 1),
    "I-low": SignedInt(-(2**31)),
    "I-high": SignedInt(2**31 - 1),
    "i-high": UnsignedInt(2**32 - 1),
    "l-low": -(2**63),
    "l-high": 2**63 - 1,
    "l-short": 2**62,
    "f-high": Float(3.4028234663852886e38),
    "f-none": Float(math.nan),
    "d-low": -1.7976931348623157e308,
    "d-high": math.inf,
    "D-high": Decimal(255, 2**32 - 1),
    "S": "\u00e9",
    "x": b"\x00\xff",
    "T-0": Timestamp(0),
    "T-below-short": Timestamp(2**62 - 1),
    "T-short": Timestamp(2**62),
    "T-signed": Timestamp(2**63),
    "T-high": Timestamp(MAX),
    "V": None,
}
NESTED: Table = {**ENDS, "A": list(ENDS.values()), "F": dict(ENDS)}
TYPES = (bool, int, float, str, type(None))


def only_plain(value: Any) -> bool:
    """Whether no value has a class that only AMQP's codec knows."""
    if isinstance(value, dict):
        return all(map(only_plain, value.values()))
    if isinstance(value, list):
        return all(map(only_plain, value))
    return type(value) in TYPES


def without_null(value: Any) -> Any:
    """The same without what RabbitMQ's HTTP API does not take in a table."""
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_null(each) for each in value if each is not None]
    return value


@pytest.mark.parametrize("name", NESTED)
def test_values_of_json_are_plain(name: str) -> None:
    found = plain({name: NESTED[name]})
    assert only_plain(found)
    assert msgspec.json.decode(msgspec.json.encode(found)) == found
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found)) == found
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    again = plain(as_table(found, "arguments"))
    assert again == found, "what was exported can be imported"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = Broker(free_port(), tmp_path_factory.mktemp("types") / "broker")
    made.management = str(free_port())
    made.start()
    with connect(made.url) as connection:
        channel = connection.channel()
        for kind in ("classic", "quorum"):
            channel.queue_declare(kind, durable=True, arguments={**NESTED, "x-queue-type": kind})
        channel.exchange_declare("ex", "headers", durable=True, arguments=NESTED)
        channel.queue_bind("classic", "ex", "key", arguments=NESTED)
        properties = Properties(headers=NESTED, timestamp=MAX, delivery_mode=2)
        channel.confirm_select()
        for kind in ("classic", "quorum"):
            channel.publish("", kind, b"x", properties.encode())
        channel.wait_for_confirms()
        channel.qos(10)
        channel.consume("quorum", "tag", arguments=NESTED)
        channel.receive(1, 10.0)
        yield made
    made.stop()


@pytest.fixture(scope="module")
def talker(broker: Broker) -> Peer:
    return Peer(broker.host, int(broker.management), broker.port)


GET = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
ASKED = (
    *(Ask("GET", path) for path in ("/queues", "/queues/%2F/classic", "/queues?page=1&name=q")),
    *(Ask("GET", path) for path in ("/queues/detailed", "/queues/%2F/quorum", "/exchanges")),
    *(Ask("GET", path) for path in ("/exchanges/%2F/ex", "/bindings", "/bindings/%2F")),
    *(Ask("GET", path) for path in ("/queues/%2F/classic/bindings", "/consumers", "/channels")),
    *(Ask("GET", path) for path in ("/exchanges/%2F/ex/bindings/source", "/connections")),
    *(Ask("GET", path) for path in ("/definitions", "/definitions/%2F", "/overview", "/vhosts")),
    Ask("POST", "/queues/%2F/classic/get", GET),
)


@pytest.mark.process
@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: f"{ask.method} {ask.path}")
def test_each_list_over_http_answers(talker: Peer, broker: Broker, ask: Ask) -> None:
    status, _, body = talker.raw(ask)
    assert status == 200, body
    json.loads(body)
    assert "Traceback" not in broker.log_text()


@pytest.mark.process
def test_definitions_go_out_and_in_again(talker: Peer) -> None:
    status, _, body = talker.raw(Ask("GET", "/definitions"))
    assert status == 200
    (queue,) = [each for each in json.loads(body)["queues"] if each["name"] == "classic"]
    assert queue["arguments"]["T-high"] == MAX and queue["arguments"]["T-short"] == 2**62
    status, _, said = talker.raw(Ask("POST", "/definitions", body))
    assert status == 204, said


@pytest.mark.process
def test_a_message_got_over_http_can_be_published_over_it(talker: Peer) -> None:
    _, _, body = talker.raw(Ask("POST", "/queues/%2F/classic/get", GET))
    (message,) = json.loads(body)
    assert message["properties"]["timestamp"] == MAX
    assert message["properties"]["headers"]["T-high"] == MAX
    shown = message["properties"]
    given: dict[str, Any] = {
        "properties": {**shown, "headers": without_null(shown["headers"])},
        "routing_key": "nowhere",
        "payload": "x",
        "payload_encoding": "string",
    }
    status, _, said = talker.raw(Ask("POST", "/exchanges/%2F/amq.default/publish", given))
    assert (status, json.loads(said)) == (200, {"routed": False})
    for wrong in (-1, MAX + 1):
        given["properties"] = {"timestamp": wrong}
        status, _, said = talker.raw(Ask("POST", "/exchanges/%2F/amq.default/publish", given))
        assert status == 400, said


TOLD = (
    ["rabbitmqctl", "list_queues", "name", "arguments"],
    ["rabbitmqctl", "list_bindings"],
    ["rabbitmqctl", "list_exchanges", "name", "arguments"],
    ["rabbitmqctl", "list_consumers"],
    ["rabbitmqctl", "export_definitions", "-"],
)


@pytest.mark.process
@pytest.mark.parametrize("words", TOLD, ids=lambda words: words[1])
@pytest.mark.parametrize("formatter", [[], ["--formatter", "json"]], ids=["text", "json"])
def test_each_list_of_the_tools_answers(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, words: list[str], formatter: list[str]
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(broker.data_dir))
    monkeypatch.delenv(NODE_VARIABLE, raising=False)
    code, out, err = in_process([*words, *formatter, "-q"], "")
    assert code == 0, err
    if "list_exchanges" in words or "export_definitions" in words:
        assert str(MAX) in out
    if formatter:
        json.loads(out, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))


@pytest.mark.parametrize("value", [Timestamp(2**62), Timestamp(MAX), Float(0.5)])
def test_what_cannot_be_encoded_is_answered_with_500_and_logged(
    caplog: pytest.LogCaptureFixture, value: Value
) -> None:
    """The encoder refuses the classes of AMQP's codec, while the answer is sent."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        body = msgspec.json.encode({"value": value})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    scope = {"type": "http", "method": "GET", "path": "/api/queues"}
    with caplog.at_level(logging.ERROR):
        asyncio.run(Outermost(application)(scope, receive, send))
    assert [message.get("status") for message in sent] == [500, None]
    assert "HTTP request GET /api/queues failed" in caplog.text and "TypeError" in caplog.text
