"""The scripts about methods where they do not belong: on channels, connections, in frames.

Source: R-32 to R-35, B-07; AMQP 0-9-1, 2.3 and 4.2.
"""

from __future__ import annotations

from typing import Any

from tests.clients.raw import (
    BODY,
    FRAME_END,
    HEADER,
    HEARTBEAT,
    METHOD,
    METHODS,
    PROTOCOL_HEADER,
    RawClient,
    encode_method,
    encode_properties,
)
from tests.oracle.registry import scenario
from tests.oracle.session import Session

SERVERS_OWN = (
    "channel.open-ok", "channel.flow-ok", "channel.close-ok", "access.request-ok",
    "exchange.declare-ok", "exchange.delete-ok", "exchange.bind-ok", "exchange.unbind-ok",
    "queue.declare-ok", "queue.bind-ok", "queue.purge-ok", "queue.delete-ok", "queue.unbind-ok",
    "basic.qos-ok", "basic.consume-ok", "basic.cancel-ok", "basic.return", "basic.deliver",
    "basic.get-ok", "basic.get-empty", "basic.recover-ok", "confirm.select-ok", "tx.select-ok",
    "tx.commit-ok", "tx.rollback-ok",
)  # fmt: skip


@scenario(cases=SERVERS_OWN)
def method_of_the_server(s: Session, method: str) -> None:
    """A method that only servers send."""
    client = s.open()
    payload = encode_method(method, {})
    client.send_bytes(RawClient.frame(METHOD, 1, payload))
    if method in ("basic.return", "basic.deliver", "basic.get-ok"):
        client.send_bytes(RawClient.frame(HEADER, 1, encode_properties(0, {})))
    s.call(1, "basic.qos")
    s.call(1, "basic.qos")


CONNECTION = tuple(name for name in METHODS if name.startswith("connection."))


@scenario(cases=[name for name in CONNECTION if name != "connection.close"])
def method_of_the_connection(s: Session, method: str) -> None:
    """A method of the connection when that is open."""
    s.open()
    if method == "connection.close-ok":
        s.send(0, method)
    else:
        s.call(0, method)
    s.call(1, "basic.qos")


@scenario(
    cases=["connection.close", "connection.close-ok", "connection.open", "connection.tune-ok"]
)
def method_of_the_connection_on_a_channel(s: Session, method: str) -> None:
    """A method of the connection on a channel that is open, and on one that is not."""
    s.open("a")
    s.open("b")
    s.call(1, method)
    s.call(5, method, "b")


CHANNEL_ZERO = (
    "channel.open", "channel.close", "channel.close-ok", "channel.flow", "exchange.declare",
    "basic.qos", "basic.ack", "confirm.select", "tx.select",
)  # fmt: skip


@scenario(cases=CHANNEL_ZERO)
def method_on_channel_zero(s: Session, method: str) -> None:
    """A method of a channel where only the connection's belong."""
    s.open()
    s.call(0, method)


NOT_OPEN = (
    "channel.close", "channel.close-ok", "channel.flow", "exchange.declare", "queue.declare",
    "basic.qos", "basic.ack", "basic.get", "basic.publish", "confirm.select", "tx.commit",
)  # fmt: skip


@scenario(cases=NOT_OPEN)
def method_on_a_channel_not_open(s: Session, method: str) -> None:
    """A method on a channel that was never opened, and on one that was closed."""
    silent = method in ("channel.close-ok", "basic.ack", "basic.publish")
    for who, channel in (("a", 9), ("b", 1)):
        s.open(who, 1, 2)
        if who == "b":
            s.call(1, "channel.close", "b", reply_code=200)
        s.closed.discard(("b", 1))
        s.send(channel, method, who)
        if silent:
            s.quiet(0, who, answer=True)
        else:
            s.take(channel, who=who)
        s.call(2, "basic.qos", who)


@scenario(cases=["close", "close-ok", "error"])
def channel_number_again(s: Session, how: str) -> None:
    """When a number may be used again, and what a channel begins with."""
    s.open()
    s.queue("o.q")
    s.call(1, "confirm.select")
    s.call(1, "basic.qos", prefetch_count=1)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    if how == "error":
        s.call(1, "queue.declare", queue="o.none", passive=True)
    else:
        s.call(1, "channel.close", reply_code=200)
    if how == "close-ok":
        s.send(1, "channel.close-ok")
        s.quiet(0, answer=True)
        return
    s.call(1, "channel.open")
    s.put("o.q", b"1", b"2")
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(1, 2)
    s.call(1, "tx.select")


CODES = {"200": (200, ""), "0": (0, "x"), "541": (541, "our fault"), "65535": (65535, "x" * 255)}


@scenario(cases=CODES)
def closes_with_codes(s: Session, code: tuple[int, str]) -> None:
    """What a client gives as its reason is its own business."""
    s.open()
    said = {"reply_code": code[0], "reply_text": code[1], "class_id": 99, "method_id": 99}
    s.call(1, "channel.close", **said)
    s.call(1, "channel.open")
    s.call(0, "connection.close", **said)


FRAMES: dict[str, list[bytes]] = {
    "heartbeat on a channel": [RawClient.frame(HEARTBEAT, 1, b"")],
    "heartbeat on a channel not open": [RawClient.frame(HEARTBEAT, 7, b"")],
    "heartbeat with a payload": [RawClient.frame(HEARTBEAT, 0, b"beat")],
    "method without a payload": [RawClient.frame(METHOD, 1, b"")],
    "method cut in its number": [RawClient.frame(METHOD, 1, b"\x00\x3c\x00")],
    "method with more than it has": [
        RawClient.frame(METHOD, 1, encode_method("basic.qos", {}) + b"more")
    ],
    "body without a method": [RawClient.frame(BODY, 1, b"x")],
    "header without a method": [RawClient.frame(HEADER, 1, encode_properties(1, {}))],
    "header on channel zero": [RawClient.frame(HEADER, 0, encode_properties(1, {}))],
    "body on channel zero": [RawClient.frame(BODY, 0, b"x")],
    "body for a header": [
        RawClient.frame(METHOD, 1, encode_method("basic.publish", {})),
        RawClient.frame(BODY, 1, b"x"),
    ],
    "method for a body": [
        RawClient.frame(METHOD, 1, encode_method("basic.publish", {})),
        RawClient.frame(HEADER, 1, encode_properties(1, {})),
        RawClient.frame(METHOD, 1, encode_method("basic.qos", {})),
    ],
    "header for a body": [
        RawClient.frame(METHOD, 1, encode_method("basic.publish", {})),
        RawClient.frame(HEADER, 1, encode_properties(1, {})),
        RawClient.frame(HEADER, 1, encode_properties(1, {})),
    ],
    "method of another channel between": [
        RawClient.frame(METHOD, 1, encode_method("basic.publish", {})),
        RawClient.frame(METHOD, 2, encode_method("basic.qos", {})),
        RawClient.frame(HEADER, 1, encode_properties(0, {})),
    ],
    "type 0": [RawClient.frame(0, 1, b"")],
    "type 4": [RawClient.frame(4, 1, b"")],
    "type 5": [RawClient.frame(5, 1, b"x" * 20)],
    "type 9": [RawClient.frame(9, 0, b"")],
    "type 255": [RawClient.frame(255, 1, b"\xff")],
    "the protocol's header again": [PROTOCOL_HEADER],
    "an end in the payload": [RawClient.frame(METHOD, 1, encode_method("basic.qos", {})[:4])],
    "content's end of another class": [
        RawClient.frame(METHOD, 1, encode_method("basic.publish", {})),
        RawClient.frame(HEADER, 1, b"\x00\x5a" + encode_properties(0, {})[2:]),
    ],
    "close while content is due": [
        RawClient.frame(METHOD, 1, encode_method("basic.publish", {})),
        RawClient.frame(METHOD, 1, encode_method("channel.close", {})),
    ],
}


@scenario(cases=FRAMES, waits=True)
def frames(s: Session, sent: list[bytes]) -> None:
    """Frames that do not belong where they come, or are none."""
    client = s.open("a", 1, 2)
    assert all(frame[-1] == FRAME_END or frame == PROTOCOL_HEADER for frame in sent)
    client.send_bytes(b"".join(sent))
    s.call(1, "basic.qos")


LOGINS: dict[str, dict[str, Any]] = {
    "no user": {"response": b"\0\0guest"},
    "no password": {"response": b"\0guest\0"},
    "nothing": {"response": b""},
    "one part": {"response": b"guest"},
    "two parts": {"response": b"guest\0guest"},
    "four parts": {"response": b"\0guest\0guest\0more"},
    "in another's name": {"response": b"admin\0guest\0guest"},
    "no text": {"response": b"\0\xff\xfe\0guest"},
    "a long name": {"response": b"\0" + b"n" * 300 + b"\0guest"},
    "AMQPLAIN, garbage": {"mechanism": "AMQPLAIN", "response": b"\x05LOGI"},
    "AMQPLAIN, no password": {"mechanism": "AMQPLAIN", "response": b"\x05LOGINS\x00\x00\x00\x01g"},
    "lower case": {"mechanism": "plain"},
    "no mechanism": {"mechanism": ""},
    "EXTERNAL": {"mechanism": "EXTERNAL", "response": b""},
}


@scenario(cases=LOGINS, waits=True)
def login(s: Session, words: dict[str, Any]) -> None:
    """Logins that fail, of a client that is told and of one that cannot be."""
    for who, capable in (("a", True), ("b", False)):
        client = s.bare(who)
        client.send_bytes(PROTOCOL_HEADER)
        client.expect(0, "connection.start")
        capabilities = {"authentication_failure_close": True} if capable else {}
        said = {"mechanism": "PLAIN", "response": b"\0guest\0guest", "locale": "en_US", **words}
        client.send(
            0, "connection.start-ok", client_properties={"capabilities": capabilities}, **said
        )
        s.take(0, who=who)


OPENS: dict[str, Any] = {
    "missing": "o.none", "empty": "", "in capitals": "/".upper() + "X", "encoded": "%2f",
    "UTF-8": "\u20ac", "long": "v" * 255,
}  # fmt: skip


@scenario(cases=OPENS, waits=True)
def open_vhost(s: Session, vhost: str) -> None:
    """Vhosts that there are not."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **tune)
    s.call(0, "connection.open", virtual_host=vhost)


TOO_EARLY = ("connection.open", "connection.tune-ok", "connection.close", "channel.open",
             "queue.declare", "connection.secure-ok")  # fmt: skip


@scenario(cases=TOO_EARLY, waits=True)
def method_too_early(s: Session, method: str) -> None:
    """A method before the login, and before the connection is opened."""
    client = s.bare()
    client.send_bytes(PROTOCOL_HEADER)
    client.expect(0, "connection.start")
    s.call(1 if method.startswith(("channel", "queue")) else 0, method)
    client = s.bare("b")
    client.send(0, "connection.tune-ok", **client.start().args)
    s.call(1 if method.startswith(("channel", "queue")) else 0, method, "b")
