"""What a broken or hostile client sends costs only its own connection, in bounded memory and time.

Each case is followed by ordinary work of another client on the same broker.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator

import pytest

from tests.clients.fixtures import Connect, Names, Raw
from tests.clients.raw import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    Closed,
    RawClient,
    encode_method,
    encode_properties,
)
from tests.clients.support import Inbox, body_of, eventually
from tests.support.broker import Broker
from tests.support.patience import patient

frame = RawClient.frame
PUBLISH = encode_method("basic.publish", {"exchange": "", "routing_key": "q"})
DECLARE = encode_method("queue.declare", {"queue": "", "exclusive": True})


@pytest.fixture(autouse=True)
def others_go_on(connect: Connect) -> Iterator[None]:
    """A client connected before sees nothing of it, and new ones are let in."""
    before = connect().channel()
    queue = before.queue_declare("", exclusive=True).method.queue
    yield
    before.basic_publish("", queue, b"still here")
    assert Inbox(before, queue, auto_ack=True).take(1)[0][2] == b"still here"
    after = connect().channel()
    assert after.queue_declare("", exclusive=True).method.queue


# What is sent on an open connection with channel 1, and the reply code where RabbitMQ gives one.
BROKEN: dict[str, tuple[bytes, int | None]] = {
    "wrong frame end": (frame(METHOD, 1, DECLARE, end=0), 501),
    "unknown frame type": (frame(77, 1, b"abc"), 501),
    "frame larger than negotiated": (frame(METHOD, 1, bytes(200_000)), None),
    "frame that claims 4 GiB": (struct.pack(">BHI", METHOD, 1, 2**32 - 1), None),
    "method on a channel not open": (frame(METHOD, 9, DECLARE), 504),
    "unknown class": (frame(METHOD, 1, struct.pack(">HH", 999, 10)), None),
    "unknown method": (frame(METHOD, 1, struct.pack(">HH", 50, 999)), None),
    "empty method frame": (frame(METHOD, 1, b""), None),
    "method cut short": (frame(METHOD, 1, DECLARE[:-3]), None),
    "short string past the end": (frame(METHOD, 1, DECLARE[:6] + b"\xff"), None),
    "table longer than its payload": (
        frame(METHOD, 1, DECLARE[:-4] + struct.pack(">I", 1000)), None
    ),
    "unknown field type": (
        frame(METHOD, 1, DECLARE[:-4] + struct.pack(">I", 4) + b"\x01k\x01\x02"), None
    ),
    "header before method": (frame(HEADER, 1, encode_properties(0, {})), 505),
    "body before method": (frame(BODY, 1, b"x"), 505),
    "body before header": (frame(METHOD, 1, PUBLISH) + frame(BODY, 1, b"x"), 505),
    "method before body": (frame(METHOD, 1, PUBLISH) + frame(METHOD, 1, DECLARE), 505),
    "more body than announced": (
        frame(METHOD, 1, PUBLISH)
        + frame(HEADER, 1, encode_properties(2, {}))
        + frame(BODY, 1, b"xyz"),
        501,
    ),
    "header of another class": (
        frame(METHOD, 1, PUBLISH) + frame(HEADER, 1, struct.pack(">HHQH", 50, 0, 0, 0)), 505
    ),
    "header cut short": (frame(METHOD, 1, PUBLISH) + frame(HEADER, 1, b"\0\x3c\0\0"), None),
    "properties cut short": (
        frame(METHOD, 1, PUBLISH) + frame(HEADER, 1, struct.pack(">HHQH", 60, 0, 0, 0x8000)),
        None,
    ),
    "connection method on a channel": (
        frame(METHOD, 1, encode_method("connection.open", {"virtual_host": "/"})), None
    ),
    "channel method on channel 0": (frame(METHOD, 0, DECLARE), 504),
    "server's method from a client": (
        frame(METHOD, 1, encode_method("queue.declare-ok", {"queue": "q"})), None
    ),
    "second handshake": (PROTOCOL_HEADER, None),
    "heartbeat on a channel": (frame(HEARTBEAT, 1, b""), None),
}  # fmt: skip


def test_broken_frames(raw: Raw, is_warren: bool) -> None:
    """The connection is closed, with a reply where there is one to give.

    All cases at once: a broker waits for some seconds before it lets a socket go whose client it
    does not understand any more.
    """
    cases = dict(BROKEN)
    if not is_warren:
        del cases["heartbeat on a channel"]  # RabbitMQ takes one on any channel.
    clients = {case: raw().open(channels=[1]) for case in cases}
    for case, client in clients.items():
        client.send_bytes(cases[case][0])
    told = {case: client for case, client in clients.items() if is_told(case, client)}
    for client in told.values():
        client.wait_closed()


def is_told(case: str, client: RawClient) -> bool:
    """Whether the client gets the reply that it should; False where its socket just ended."""
    code = BROKEN[case][1]
    try:
        event = client.next(0, 10)
        assert event.name == "connection.close", case
        assert 500 < event.args["reply_code"] < 550, case
        assert code is None or event.args["reply_code"] == code, case
        client.send(0, "connection.close-ok")
    except Closed:
        assert code is None, case
        return False
    return True


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x07", b"AMQP\x00\x00\x08\x00", b"\0" * 8,
     b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
)  # fmt: skip
def test_other_protocols(raw: Raw, data: bytes) -> None:
    """Something unknown is told a protocol that is spoken, as RabbitMQ does, and closed."""
    client = raw()
    client.send_bytes(data)
    answer = client.read_exactly(8, time.monotonic() + patient(10.0))
    assert answer in (PROTOCOL_HEADER, b"AMQP\x03\x01\x00\x00")
    client.wait_closed()


def test_cut_off_anywhere(raw: Raw) -> None:
    """A socket closed in the middle of anything is only an end."""
    whole = PROTOCOL_HEADER
    for channel, method, args in (
        (0, "connection.start-ok", {"mechanism": "PLAIN", "response": b"\0guest\0guest"}),
        (0, "connection.tune-ok", {"channel_max": 10, "frame_max": 131072}),
        (0, "connection.open", {"virtual_host": "/"}),
        (1, "channel.open", {}),
        (1, "queue.declare", {"exclusive": True}),
        (1, "basic.publish", {"routing_key": "q"}),
    ):  # fmt: skip
        whole += frame(METHOD, channel, encode_method(method, args))
    whole += frame(HEADER, 1, encode_properties(100, {})) + frame(BODY, 1, bytes(100))
    for length in range(1, len(whole), 7):
        client = raw()
        client.send_bytes(whole[:length])
        client.socket.close()


def test_random_bytes_after_login(raw: Raw) -> None:
    """Noise ends the connection or is waited on; it never does more."""
    noise = random.Random(20261121)
    for _ in range(150):
        client = raw().open(channels=[1])
        data = bytearray(client.publish_bytes(1, "", "q", noise.randbytes(20), {"app_id": "a"}))
        for _ in range(noise.randint(1, 4)):
            data[noise.randrange(len(data))] = noise.randrange(256)
        try:
            client.send_bytes(bytes(data))
        except OSError:
            pass
        client.socket.close()


def test_deep_tables_are_bounded(raw: Raw) -> None:
    """A table nested thousands deep is an error or is taken; it takes nobody down."""
    table = b""
    for _ in range(20_000):
        table = b"\x01kF" + struct.pack(">I", len(table)) + table
        if len(table) > 100_000:
            break
    client = raw().open(channels=[1])
    payload = DECLARE[:-4] + struct.pack(">I", len(table)) + table
    client.send_bytes(frame(METHOD, 1, payload))
    try:
        client.next()
    except Closed:
        pass


def test_never_reading_consumer(raw: Raw, names: Names, connect: Connect, broker: Broker) -> None:
    """One that consumes and never reads holds up nobody, and not the broker's memory."""
    queue, other = names.queue(), names.queue()
    channel = connect().channel()
    for name in (queue, other):
        channel.queue_declare(name, durable=True)
    stuck = raw(receive_buffer_bytes=4096).open(channels=[1])
    stuck.send(1, "basic.consume", queue=queue, no_ack=True)
    before = broker.rss_bytes() if broker.ours else 0
    publisher = raw().open(channels=[1])
    publisher.ask(1, "confirm.select")
    body = body_of(64 * 1024)
    count = 600  # 37 MiB: more than any socket buffer
    for n in range(count):
        publisher.publish(1, "", queue, body, {"delivery_mode": 2})
        if n % 20 == 19:
            while publisher.expect(1, "basic.ack").args["delivery_tag"] < n + 1:
                pass
    inbox = Inbox(channel, other, auto_ack=True)
    for n in range(100):
        channel.basic_publish("", other, b"%d" % n)
    assert [m[2] for m in inbox.take(100)] == [b"%d" % n for n in range(100)]
    if broker.ours:
        assert broker.rss_bytes() - before < 60 << 20
    stuck.socket.close()


def test_never_reading_asker(raw: Raw, connect: Connect, broker: Broker) -> None:
    """One that asks and never reads the answers is held back or closed, not served from memory."""
    greedy = raw(receive_buffer_bytes=4096).open(channels=[1])
    greedy.socket.settimeout(3)
    before = broker.rss_bytes() if broker.ours else 0
    ask = greedy.publish_bytes(1, "", "nobody", body_of(1000), mandatory=True) * 100
    sent = 0
    try:
        while sent < 64 << 20:
            greedy.socket.sendall(ask)
            sent += len(ask)
    except OSError:  # the broker stopped reading, as it should, or closed
        pass
    channel = connect().channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_publish("", queue, b"x")
    assert Inbox(channel, queue, auto_ack=True).take(1)
    if broker.ours:
        assert broker.rss_bytes() - before < 60 << 20


def test_half_a_message_is_dropped(raw: Raw, names: Names, connect: Connect) -> None:
    """A publish cut off in the middle of its body never arrives."""
    queue = names.queue()
    channel = connect().channel()
    channel.queue_declare(queue, durable=True)
    client = raw().open(channels=[1])
    data = client.publish_bytes(1, "", queue, body_of(300_000))
    client.send_bytes(data[:200_000])
    client.socket.close()
    whole = raw().open(channels=[1])
    whole.ask(1, "confirm.select")
    whole.publish(1, "", queue, b"whole")
    whole.expect(1, "basic.ack")
    assert channel.queue_purge(queue).method.message_count == 1


def test_interleaved_channels(raw: Raw, names: Names, connect: Connect) -> None:
    """Content frames of many channels may be mixed."""
    queue = names.queue()
    channel = connect().channel()
    channel.queue_declare(queue, durable=True)
    client = raw().open(channels=range(1, 21))
    pieces: list[list[bytes]] = []
    for number in range(1, 21):
        body = b"%d " % number * 100
        pieces.append(
            [
                frame(METHOD, number, encode_method("basic.publish", {"routing_key": queue})),
                frame(HEADER, number, encode_properties(len(body), {})),
                *(frame(BODY, number, body[i : i + 50]) for i in range(0, len(body), 50)),
            ]
        )
    for step in range(max(map(len, pieces))):
        client.send_bytes(b"".join(p[step] for p in pieces if step < len(p)))
    got = {m[2] for m in Inbox(channel, queue, auto_ack=True).take(20)}
    assert got == {b"%d " % number * 100 for number in range(1, 21)}


def test_connections_come_and_go(raw: Raw, broker: Broker) -> None:
    """Two hundred connections opened and dropped leave nothing behind."""
    before = broker.rss_bytes() if broker.ours else 0
    for n in range(200):
        client = raw().open(channels=[1])
        client.ask(1, "queue.declare", queue="", exclusive=True)
        if n % 2:
            client.close()
        else:
            client.socket.close()
    if broker.ours:
        eventually(lambda: broker.rss_bytes() - before < 20 << 20)
