"""Plays scripts on real sockets, several at a time, and keeps what the node answered."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Mapping, Sequence

from tests.fuzz.drawing import Draw
from tests.fuzz.scripts import PLAIN, READ, RESET, SHUT, WRITE, Script, Step

READ_SECONDS = 0.02
"""How long a READ waits for an answer that does not come."""
WRITE_SECONDS = 0.5
"""How long a client waits that a node does not read from, before it gives its script up."""
HANDSHAKE_SECONDS = 5.0
ANSWER_BYTES_MAX = 4 << 20
"""What is kept of the answers to one script."""
RESET_AT_CLOSE = struct.pack("ii", 1, 0)


class Unplayable(AssertionError):
    """The node takes no connection."""


class Wire:
    """One socket of a client that plays a script.

    Attributes:
        script: What is played.
        answers: What the node said, up to a bound.
    """

    def __init__(
        self, script: Script, address: tuple[str, int], context: ssl.SSLContext | None
    ) -> None:
        self.script = script
        self.answers = bytearray()
        self._at = 0
        self._over = False
        self._plain = socket.socket()
        self._socket: socket.socket | ssl.SSLSocket = self._plain
        # A wait for a free place in the kernel's queue is no fault of the node.
        self._plain.settimeout(HANDSHAKE_SECONDS)
        try:
            self._plain.connect(address)
        except OSError as error:
            self._plain.close()
            raise Unplayable(f"{script.port} at {address}: {error}") from None
        self._plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is not None and not (script.steps and script.steps[0].what == PLAIN):
            self._encrypt(context)
        with contextlib.suppress(OSError):
            self._socket.setblocking(False)

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        return self._over or self._at >= len(self.script.steps)

    def go_on(self, fill: Callable[[bytes], bytes]) -> None:
        """Play the next step."""
        step = self.script.steps[self._at]
        self._at += 1
        try:
            self._play(step, fill)
        except (OSError, ssl.SSLError):
            # The node has ended the connection, as it may.
            self._over = True
        if self.script.reads and not self._over:
            self._take()
        if self.over:
            self._close()

    def _play(self, step: Step, fill: Callable[[bytes], bytes]) -> None:
        if step.what == WRITE:
            self._write(fill(step.data))
        elif step.what == PLAIN:
            self._plain.send(step.data)
        elif step.what == READ:
            if self.script.reads and not self._pending():
                select.select([self._socket], [], [], READ_SECONDS)
        elif step.what == SHUT:
            # That of TLS would go on in plain text.
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
        elif step.what == RESET:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
            self._over = True

    def _encrypt(self, context: ssl.SSLContext) -> None:
        try:
            self._socket = context.wrap_socket(self._plain)
        except (OSError, ssl.SSLError):
            self._over = True
            self._plain.close()

    def _write(self, data: bytes) -> None:
        view, given_up = memoryview(data), time.monotonic() + WRITE_SECONDS
        while view:
            try:
                view = view[self._socket.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                if self.script.reads:
                    self._take()
                left = given_up - time.monotonic()
                if left <= 0:
                    self._over = True
                    return
                select.select([], [self._socket], [], min(left, READ_SECONDS))

    def _pending(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def _take(self) -> None:
        """Take what has come."""
        with contextlib.suppress(OSError):
            while data := self._socket.recv(262_144):
                if len(self.answers) < ANSWER_BYTES_MAX:
                    self.answers += data

    def _close(self) -> None:
        self._over = True
        if self.script.reads:
            self._take()
        self._socket.close()


def play(
    draw: Draw,
    scripts: Sequence[Script],
    ports: Mapping[str, tuple[str, int]],
    contexts: Mapping[str, ssl.SSLContext],
    fill: Callable[[bytes], bytes] = bytes,
) -> list[Wire]:
    """Play scripts beside each other, a step of one or another at a time.

    Args:
        draw: Draws whose turn it is.
        ports: Where the ports of scripts are.
        contexts: How those ports are spoken to that are encrypted.
        fill: Puts in what is only known when it is played, such as a session's cookie.

    Raises:
        Unplayable: The node takes no connection.
    """
    wires: list[Wire] = []
    try:
        for script in scripts:
            wires.append(Wire(script, ports[script.port], contexts.get(script.port)))
        playing = [wire for wire in wires if not wire.over]
        while playing:
            wire = draw.one(playing)
            for _ in range(draw.one((1, 1, 2, 5))):
                if not wire.over:
                    wire.go_on(fill)
            if wire.over:
                playing.remove(wire)
    finally:
        for wire in wires:
            wire._close()
    return wires
