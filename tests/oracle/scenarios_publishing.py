"""The scripts about publishing: properties, flags, returns, confirms, and what is refused.

Source: R-29, CQ-03, QQ-09, QQ-27; `rabbit_channel`, `mc_amqpl` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Any

from tests.clients.raw import (
    BODY,
    HEADER,
    METHOD,
    RawClient,
    Typed,
    encode_method,
    encode_properties,
)
from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}
KINDS: dict[str, dict[str, Any]] = {"classic": {}, "quorum": QUORUM}

PROPERTIES: dict[str, dict[str, Any]] = {
    "none": {},
    "content_type": {"content_type": "text/plain"},
    "content_encoding": {"content_encoding": "gzip"},
    "no headers": {"headers": {}},
    "one header": {"headers": {"h": 1}},
    "delivery_mode 0": {"delivery_mode": 0},
    "delivery_mode 1": {"delivery_mode": 1},
    "delivery_mode 2": {"delivery_mode": 2},
    "delivery_mode 3": {"delivery_mode": 3},
    "delivery_mode 255": {"delivery_mode": 255},
    "priority 0": {"priority": 0},
    "priority 4": {"priority": 4},
    "correlation_id": {"correlation_id": "c" * 255},
    "reply_to": {"reply_to": "o.reply"},
    "message_id": {"message_id": "\u20ac" * 85},
    "timestamp 0": {"timestamp": 0},
    "timestamp now": {"timestamp": 1_700_000_000},
    "timestamp far": {"timestamp": 2**63 - 1},
    "timestamp too far": {"timestamp": 2**64 - 1},
    "type": {"type": "t"},
    "user_id": {"user_id": "guest"},
    "app_id": {"app_id": ""},
    "cluster_id": {"cluster_id": "c"},
}


@scenario(cases=PROPERTIES)
def property_kept(s: Session, properties: dict[str, Any]) -> None:
    """A property comes back as it was sent, from either type of queue."""
    s.open("a", 1, 2)
    for kind, arguments in KINDS.items():
        s.queue(f"o.{kind}", arguments)
        s.publish(1, "", f"o.{kind}", b"1", properties)
        s.publish(1, "", f"o.{kind}", b"", properties)
        s.until(f"o.{kind}", 2)
        s.get(f"o.{kind}", no_ack=True)
        s.call(2, "basic.consume", queue=f"o.{kind}", no_ack=True)
        s.take(2)


@scenario(cases={"classic": 5, "classic 255": 255})
def priority_without_levels(s: Session, priority: int) -> None:
    """A classic queue that has no priorities keeps the property and the order."""
    s.open()
    s.queue("o.q")
    s.put("o.q", b"first", priority=0)
    s.publish(1, "", "o.q", b"second", {"priority": priority})
    s.until("o.q", 2)
    s.drain("o.q")


@scenario(cases={"5": 5, "9": 9, "255": 255})
def priority_high(s: Session, priority: int) -> None:
    """A quorum queue delivers messages of high priority first."""
    s.open()
    s.queue("o.q", QUORUM)
    for number, value in enumerate((0, 4, priority, 0, priority, 1)):
        s.publish(1, "", "o.q", b"%d" % number, {"priority": value})
    s.until("o.q", 6)
    s.drain("o.q")


HEADERS: dict[str, Any] = {
    "bool": True, "byte": Typed("b", -128), "unsigned byte": Typed("B", 255),
    "short": Typed("s", -32768), "unsigned short": Typed("u", 65535), "int": -(2**31),
    "unsigned int": Typed("i", 2**32 - 1), "long": Typed("l", -(2**63)),
    "float": Typed("f", 1.5), "double": 0.1,
    "decimal": Typed("D", (2, 314)), "decimal, large": Typed("D", (255, 2**32 - 1)),
    "string": "\u00fcber", "no text": Typed("S", b"\xff\xfe"), "empty": "",
    "bytes": Typed("x", b"\x00\xff"), "time": Typed("T", 1), "time, far": Typed("T", 2**64 - 1),
    "void": None, "table": {"a": {"b": {"c": {}}}}, "array": [1, "a", None, [True, [{}]]],
    "long key": {"k" * 255: 1}, "empty key": {"": ""},
}  # fmt: skip


@scenario(cases=HEADERS)
def header_kept(s: Session, value: Any) -> None:
    """A header of each type comes back as it was sent, with its type, from either queue."""
    s.open()
    for kind, arguments in KINDS.items():
        s.queue(f"o.{kind}", arguments)
        s.publish(1, "", f"o.{kind}", b"1", {"headers": {"h": value, "again": [value]}})
        s.until(f"o.{kind}", 1)
        s.get(f"o.{kind}", no_ack=True)


@scenario(cases={"infinite": float("inf"), "negative": float("-inf"), "none": float("nan")})
def header_not_finite(s: Session, value: float) -> None:
    """Numbers that are none."""
    s.open()
    s.queue("o.q")
    s.publish(1, "", "o.q", b"1", {"headers": {"h": value}})
    s.call(1, "basic.qos")


@scenario(cases=["x-death", "x-delivery-count", "x-acquired-count", "x-opt-any", "x-stream-offset"])
def header_of_the_broker(s: Session, name: str) -> None:
    """What clients put into headers that brokers write."""
    s.open()
    for kind, arguments in KINDS.items():
        s.queue(f"o.{kind}", arguments)
        value = [{"count": 3, "queue": "o.q"}] if name == "x-death" else 7
        s.publish(1, "", f"o.{kind}", b"1", {"headers": {name: value}})
        s.until(f"o.{kind}", 1)
        tag = s.get(f"o.{kind}")
        s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        s.until(f"o.{kind}", 1)
        s.get(f"o.{kind}", no_ack=True)


EXPIRATIONS = ("", " ", "-1", "1.5", "soon", "0x10", "1e3", "5 ", " 5",
               "315360000001", "99999999999999999999", "\u0661")  # fmt: skip


@scenario(cases=EXPIRATIONS)
def expiration_invalid(s: Session, text: str) -> None:
    """An expiration that is no number of milliseconds, or too many of them."""
    s.open()
    s.queue("o.q")
    s.publish(1, "", "o.q", b"1", {"expiration": text})
    s.call(1, "basic.qos")
    s.call(1, "basic.qos")


@scenario(cases=["1000000", "+1000000", "4294967296", "315360000000", "00100000"])
def expiration_kept(s: Session, text: str) -> None:
    """An expiration comes back with a message that has not expired."""
    s.open()
    for kind, arguments in KINDS.items():
        s.queue(f"o.{kind}", arguments)
        s.publish(1, "", f"o.{kind}", b"1", {"expiration": text})
        s.until(f"o.{kind}", 1)
        s.get(f"o.{kind}", no_ack=True)


UNROUTABLE: dict[str, tuple[str, str, dict[str, Any]]] = {
    "default": ("", "o.none", {}),
    "default, no key": ("", "", {}),
    "direct": ("amq.direct", "o.none", {"headers": {"h": 1}}),
    "fanout": ("amq.fanout", "", {"message_id": "m", "delivery_mode": 2}),
    "topic": ("amq.topic", "o.a.b", {"timestamp": 5}),
    "headers": ("amq.headers", "k", {"headers": {"a": [1, {}]}}),
    "CC": ("amq.direct", "o.none", {"headers": {"CC": ["o.a"], "BCC": ["o.b"]}}),
    "long key": ("amq.topic", "k" * 255, {}),
}


@scenario(cases=UNROUTABLE)
def mandatory(s: Session, case: tuple[str, str, dict[str, Any]]) -> None:
    """What no queue gets comes back if that is asked for, before its confirm."""
    exchange, key, properties = case
    s.open("a", 1, 2)
    s.publish(1, exchange, key, b"silent", properties)
    s.publish(1, exchange, key, b"back", properties, mandatory=True)
    s.take(1)
    s.call(2, "confirm.select")
    s.publish(2, exchange, key, b"silent", properties)
    s.confirmed(2, 1)
    s.publish(2, exchange, key, b"back", properties, mandatory=True)
    s.take(2)
    s.confirmed(2, 1)
    s.publish(2, exchange, key, b"", properties, mandatory=True)
    s.take(2)
    s.confirmed(2, 1)


MISSING: dict[str, tuple[str, dict[str, Any], dict[str, bool]]] = {
    "plainly": ("o.none", {}, {}),
    "mandatory": ("o.none", {}, {"mandatory": True}),
    "reserved": ("amq.none", {}, {}),
    "with a wrong expiration": ("o.none", {"expiration": "soon"}, {}),
    "with a wrong user": ("o.none", {"user_id": "other"}, {}),
    "immediate": ("o.none", {}, {"immediate": True}),
    "line break": ("amq.direct\n", {}, {}),
    "wrong user": ("", {"user_id": "other"}, {}),
    "no user": ("", {"user_id": ""}, {}),
    "user in capitals": ("", {"user_id": "Guest"}, {}),
    "wrong user and expiration": ("", {"user_id": "other", "expiration": "soon"}, {}),
    "wrong user and CC": ("", {"user_id": "other", "headers": {"CC": 5}}, {}),
    "wrong expiration and CC": ("", {"expiration": "-5", "headers": {"CC": 5}}, {}),
}


@scenario(cases=MISSING)
def publish_refused(s: Session, case: tuple[str, dict[str, Any], dict[str, bool]]) -> None:
    """What is refused, and for which of several reasons; publishes behind it are dropped."""
    exchange, properties, flags = case
    s.open("a", 1, 2)
    s.queue("o.q")
    s.call(2, "confirm.select")
    for channel in (1, 2):
        s.publish(channel, exchange, "o.q", b"1", properties, **flags)
        s.publish(channel, "", "o.q", b"late")
        s.take(channel)
    s.queue("o.q", passive=True)


@scenario(cases=["classic", "quorum"])
def confirms(s: Session, kind: str) -> None:
    """Each publish after confirm.select is confirmed, numbered from 1; ones before it are not."""
    s.open()
    s.queue("o.q", KINDS[kind])
    s.publish(1, "", "o.q", b"before")
    s.call(1, "confirm.select")
    for number in range(5):
        s.publish(1, "", "o.q", b"%d" % number, {"delivery_mode": number % 2 + 1})
    s.confirmed(1, 5)
    s.call(1, "confirm.select")
    s.publish(1, "", "o.q", b"after")
    s.confirmed(1, 1)
    s.quiet(1)
    s.drain("o.q")


@scenario
def confirms_over_queues(s: Session) -> None:
    """A message that goes to several queues is confirmed once."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="fanout")
    for number, arguments in enumerate(({}, QUORUM, {}, QUORUM)):
        s.queue(f"o.q{number}", arguments)
        s.call(1, "queue.bind", queue=f"o.q{number}", exchange="o.x")
    s.call(1, "confirm.select")
    for _ in range(3):
        s.publish(1, "o.x", "", b"1", {"delivery_mode": 2})
    s.confirmed(1, 3)
    s.quiet(1)


@scenario
def confirms_after_an_error(s: Session) -> None:
    """A channel that is opened again has neither confirms nor their numbers."""
    s.open()
    s.queue("o.q")
    s.call(1, "confirm.select")
    s.publish(1, "", "o.q", b"1")
    s.confirmed(1, 1)
    s.publish(1, "o.none", "k", b"2")
    s.take(1)
    s.publish(1, "", "o.q", b"3")
    s.until("o.q", 2)
    s.call(1, "basic.qos")
    client = s.clients["a"]
    client.confirmed_tags = set()  # type: ignore[attr-defined]
    s.call(1, "confirm.select")
    s.publish(1, "", "o.q", b"4")
    s.confirmed(1, 1)


@scenario(cases=["confirm.select", "tx.select", "tx.commit", "tx.rollback"])
def modes(s: Session, second: str) -> None:
    """Which modes follow which."""
    s.open()
    for first in ("confirm.select", "tx.select", "basic.qos"):
        s.given = first
        s.call(1, "channel.close", reply_code=200)
        s.call(1, "channel.open")
        s.call(1, first)
        s.call(1, second)
        s.call(1, "basic.qos")


@scenario(cases=["flags at their end", "flags that go on", "too short", "too long", "two headers"])
def content_header_malformed(s: Session, how: str) -> None:
    """Headers of a message that cannot be read."""
    client = s.open()
    s.queue("o.q")
    good = encode_properties(1, {"content_type": "t", "headers": {"a": 1}})
    header = {
        "flags at their end": good[:12],
        "flags that go on": good[:12] + bytes([good[12], good[13] | 1]) + good[14:],
        "too short": good[:-3],
        "too long": good + b"more",
        "two headers": good,
    }[how]
    method = encode_method("basic.publish", {"routing_key": "o.q"})
    client.send_bytes(
        RawClient.frame(METHOD, 1, method)
        + RawClient.frame(HEADER, 1, header)
        + (RawClient.frame(HEADER, 1, header) if how == "two headers" else b"")
        + RawClient.frame(BODY, 1, b"x")
    )
    s.call(1, "basic.get", queue="o.q", no_ack=True)


@scenario(cases=["V", "S", "F", "A", "D", "z", "Q", "\x00"])
def header_table_malformed(s: Session, letter: str) -> None:
    """A table of headers that ends within a value, or has a type that nobody knows."""
    client = s.open()
    s.queue("o.q")
    entry = b"\x01k" + letter.encode("latin-1") + b"\xff"
    payload = encode_properties(0, {"headers": {}})
    payload = payload[:-4] + len(entry).to_bytes(4, "big") + entry
    method = encode_method("basic.publish", {"routing_key": "o.q"})
    client.send_bytes(RawClient.frame(METHOD, 1, method) + RawClient.frame(HEADER, 1, payload))
    s.call(1, "basic.get", queue="o.q", no_ack=True)


@scenario(cases=["exchange", "user_id", "expiration"])
def publish_no_text(s: Session, where: str) -> None:
    """Bytes that are no text, in what an error's text tells: they are read as Latin-1."""
    client = s.open()
    raw = b"\xc3\xa9\xff"
    exchange = raw if where == "exchange" else b""
    properties = {} if where == "exchange" else {where: raw}
    method = encode_method("basic.publish", {"exchange": exchange, "routing_key": "o.q"})
    client.send_bytes(RawClient.frame(METHOD, 1, method))
    client.send_bytes(RawClient.frame(HEADER, 1, encode_properties(0, properties)))
    s.take(1)
