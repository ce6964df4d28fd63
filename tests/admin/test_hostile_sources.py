"""`warren migrate` against sources that break the protocol, stall, lie or flood it.

A thread plays the source: it answers a client's handshake from a script, and then does its worst.
The target is a real broker. Whatever comes, the command ends by itself with one line that says what
is wrong, holds little memory, and shows no password.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.clients.raw import RawClient, encode_method, encode_properties, long_string
from tests.support.broker import Broker, free_port
from warren.__main__ import main
from warren.admin.cli import migrate
from warren.client import connect
from warren.wire.amqp091.frame import FRAME_BODY, FRAME_HEADER, FRAME_METHOD

pytestmark = pytest.mark.process

TIMEOUT_MS = 500
QUEUE = "q"
CHANNEL_OPEN = encode_method("channel.open", {})
Worst = Callable[["Source"], None]


class Source:
    """One connection that a script answers."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream

    def raw(self, data: bytes) -> None:
        self.stream.sendall(data)

    def say(self, channel: int, method: str, **args: Any) -> None:
        self.raw(RawClient.frame(FRAME_METHOD, channel, encode_method(method, args)))

    def start(self) -> None:
        self.say(
            0, "connection.start",
            version_major=0, version_minor=9, server_properties={}, mechanisms=b"PLAIN",
            locales=b"en_US",
        )  # fmt: skip

    def open(self) -> None:
        """Shake hands, and open channel 1."""
        self.start()
        self.say(0, "connection.tune", channel_max=2047, frame_max=131_072, heartbeat=0)
        self.say(0, "connection.open-ok")
        said = b""
        while CHANNEL_OPEN not in said:
            said += self.stream.recv(1 << 16)
        self.say(1, "channel.open-ok")

    def ready(self, count: int) -> None:
        self.say(1, "queue.declare-ok", queue=QUEUE, message_count=count, consumer_count=0)

    def consumed(self, count: int) -> None:
        """All up to a consumer of a queue of so many messages."""
        self.open()
        self.ready(count)
        self.say(1, "basic.qos-ok")
        self.say(1, "basic.consume-ok", consumer_tag="t")

    def deliver(self, tag: int, size: int) -> None:
        """A message but for its body."""
        self.say(1, "basic.deliver", consumer_tag="t", delivery_tag=tag, routing_key=QUEUE)
        self.raw(RawClient.frame(FRAME_HEADER, 1, encode_properties(0, {})[:4] + size.to_bytes(
            8, "big"
        ) + b"\0\0"))  # fmt: skip

    def flood(self, data: bytes) -> None:
        """Send it until the client has gone."""
        while True:
            self.raw(data)


def body(data: bytes) -> bytes:
    return RawClient.frame(FRAME_BODY, 1, data)


def nested(depth: int) -> bytes:
    """A `connection.start` whose properties are lists in lists."""
    value = b"V"
    for _ in range(depth):
        value = b"A" + struct.pack(">I", len(value)) + value
    table = long_string(b"\x01x" + value)
    return struct.pack(">HHBB", 10, 10, 0, 9) + table + long_string(b"PLAIN") + long_string(b"en")


def _closes(text: str) -> Worst:
    def worst(source: Source) -> None:
        source.open()
        source.say(0, "connection.close", reply_code=320, reply_text=text, class_id=0, method_id=0)

    return worst


def _after(count: int, *steps: Callable[[Source], None]) -> Worst:
    def worst(source: Source) -> None:
        source.consumed(count)
        for step in steps:
            step(source)

    return worst


WORST: dict[str, tuple[Worst, str]] = {
    "garbage": (lambda s: s.raw(bytes(range(256)) * 64), "frame"),
    "http": (lambda s: s.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "frame"),
    "another version": (lambda s: s.raw(b"AMQP\x00\x01\x00\x00"), "frame"),
    "silence": (lambda s: s.stream.recv(1 << 20) and None, "no connection.start"),
    "a stall in the handshake": (lambda s: s.start(), "no connection.tune"),
    "a huge frame": (lambda s: s.raw(b"\x01\0\0\xff\xff\xff\xff" + b"x" * 100_000), "frame"),
    "deep properties": (lambda s: s.raw(RawClient.frame(1, 0, nested(20_000))), "nests deeper"),
    "an end in a frame": (
        lambda s: (s.start(), s.raw(b"\x01\0\0\0\0"), s.stream.shutdown(socket.SHUT_WR))[0],
        "closed the connection",
    ),
    "a text for the terminal": (_closes("\x1b]0;owned\x07\r\n\u202e" + "\u00fc" * 100), "\\x1b"),
    "no queue": (
        lambda s: (
            s.open(),
            s.say(1, "channel.close", reply_code=404, reply_text="no", class_id=0, method_id=0),
        )[0],
        "NOT_FOUND",
    ),
    "the answer to something else": (lambda s: (s.open(), s.say(1, "basic.qos-ok"))[0], "expected"),
    "an endless message": (
        _after(5, lambda s: s.deliver(1, 2**62), lambda s: s.flood(body(b"x" * 100_000))),
        "exceeds maximum",
    ),
    "a message of more than 63 bits": (
        _after(5, lambda s: s.deliver(1, 2**64 - 1)),
        "exceeds maximum",
    ),
    "an end in a message": (
        _after(5, lambda s: s.deliver(1, 10), lambda s: s.stream.shutdown(socket.SHUT_WR)),
        "closed the connection",
    ),
    "a message once more": (_after(5, lambda s: s.raw(_MESSAGE * 2)), "delivery tag 1 after 1"),
    "a flood that was not asked for": (
        lambda s: (s.open(), s.flood(_MESSAGE * 100))[0],
        "more than the 500 messages asked for",
    ),
    "a count that lies": (_after(2**32 - 1, lambda s: _answer_counts(s, 2**32 - 1)), "has given"),
    "a tag of nothing": (
        _after(5, lambda s: s.deliver(0, 1), lambda s: s.raw(body(b"x"))),
        "delivery tag 0 after 0",
    ),
}


def _answer_counts(source: Source, count: int) -> None:
    for _ in range(50):
        source.ready(count)


def _message() -> bytes:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        source = Source(ours)
        source.deliver(1, 100)
        source.raw(body(b"x" * 100))
        return theirs.recv(4096)


_MESSAGE = _message()


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = Broker(free_port(), tmp_path_factory.mktemp("hostile") / "broker").start()
    with connect(broker.url) as connection:
        connection.channel().queue_declare(QUEUE, durable=True)
    yield broker.url
    broker.stop()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def play(listening: socket.socket, worst: Worst) -> None:
    """Take one client."""
    stream, _ = listening.accept()
    with stream, suppress(OSError):
        worst(Source(stream))
        # Then nothing, until the client goes.
        while stream.recv(1 << 16):
            pass


@pytest.mark.parametrize("case", sorted(WORST))
def test_a_hostile_source_is_given_up_with_a_line(
    case: str,
    target: str,
    listener: socket.socket,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(migrate, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(migrate, "QUIET_SECONDS", 0.1)
    worst, said = WORST[case]
    thread = threading.Thread(target=play, args=(listener, worst))
    thread.start()
    port = listener.getsockname()[1]
    uri = f"amqp://u:s3cret@127.0.0.1:{port}/v?connection_timeout={TIMEOUT_MS}"
    assert main(["migrate", "--from", uri, "--to", target, QUEUE]) == 1
    thread.join()
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.removesuffix("\n").split("\n")
    assert line.startswith(f"warren: {QUEUE}: ") and line.isprintable() and len(line) < 500
    assert said in line and "s3cret" not in line and "Error" not in line


NAMES = {
    "a number": 5, "nothing": None, "a list": ["q"], "empty": "", "too long": "\u00fc" * 128,
    "half a surrogate": "\ud800", "unknown": "<b>\x1b[31m'\"\n" + "\u00fc" * 110,
}  # fmt: skip


@pytest.mark.parametrize("case", NAMES)
def test_names_of_a_hostile_source_are_refused_with_a_line(
    case: str, target: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    definitions = tmp_path / "d.json"
    definitions.write_text(json.dumps({"queues": [{"name": NAMES[case], "vhost": "/"}]}))
    source = target.replace("127.0.0.1", "localhost")
    words = ["migrate", "--from", source, "--to", target, "--definitions", str(definitions)]
    assert main(words) == (1 if case == "unknown" else 2)
    (line,) = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert line.startswith("warren: ") and line.isprintable()
    assert ("no queue" if case == "unknown" else "is no name of a queue") in line
