"""A broker that follows a script: for what a real one would hardly do when a test wants it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.support.patience import patient
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import (
    FRAME_METHOD,
    FrameReader,
    content_frames,
    method_frame,
)
from warren.wire.amqp091.spec import Method, decode_method

M = TypeVar("M", bound=Method)

WAIT_SECONDS = patient(10.0)


class Peer:
    """The broker's side of one connection."""

    def __init__(self, stream: socket.socket) -> None:
        self.stream = stream
        self.reader = FrameReader(131_072)

    def send(self, channel: int, *methods: Method) -> None:
        """Send methods without content."""
        for method in methods:
            self.stream.sendall(method_frame(channel, method.encode()))

    def send_content(
        self, channel: int, method: Method, body: bytes, properties: bytes = b"\x00\x00"
    ) -> None:
        """Send a method with content."""
        self.stream.sendall(content_frames(channel, method, properties, body, 131_072))

    def next_frame(self) -> tuple[int, int, bytes]:
        """The next frame: type, channel, payload."""
        reader = self.reader
        while not reader.next():
            data = self.stream.recv(65_536)
            if not data:
                raise EOFError("the client hung up")
            reader.feed(data)
        return reader.kind, reader.channel, reader.buffer[reader.start : reader.end]

    def expect(self, kind: type[M]) -> M:
        """The next frame, which has to be this method."""
        frame_kind, _, payload = self.next_frame()
        assert frame_kind == FRAME_METHOD, frame_kind
        method = decode_method(payload, 0, len(payload))
        assert isinstance(method, kind), method.NAME
        return method

    def shake_hands(self, heartbeat: int = 0) -> spec.ConnectionStartOk:
        """The handshake, up to `open-ok`."""
        header = b""
        while len(header) < 8:
            header += self.stream.recv(8 - len(header))
        assert header == b"AMQP\x00\x00\x09\x01"
        self.send(0, spec.ConnectionStart(mechanisms=b"AMQPLAIN PLAIN"))
        start_ok = self.expect(spec.ConnectionStartOk)
        self.send(0, spec.ConnectionTune(channel_max=5, frame_max=131_072, heartbeat=heartbeat))
        self.expect(spec.ConnectionTuneOk)
        self.expect(spec.ConnectionOpen)
        self.send(0, spec.ConnectionOpenOk())
        return start_ok

    def open_channel(self) -> None:
        """One `channel.open`."""
        _, channel, payload = self.next_frame()
        assert isinstance(decode_method(payload, 0, len(payload)), spec.ChannelOpen)
        self.send(channel, spec.ChannelOpenOk())


@contextmanager
def scripted(script: Callable[[Peer], None], query: str = "") -> Iterator[str]:
    """Run a script for one client; gives the URI to connect to.

    The script's own failures, and its not ending, fail the test.
    """
    failures: list[BaseException] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_SECONDS)

        def run() -> None:
            try:
                stream, _ = server.accept()
                with stream:
                    stream.settimeout(WAIT_SECONDS)
                    script(Peer(stream))
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield f"amqp://127.0.0.1:{server.getsockname()[1]}{query}"
        finally:
            thread.join(2 * WAIT_SECONDS)
    assert not thread.is_alive(), "the script has not come to its end"
    if failures:
        raise failures[0]
