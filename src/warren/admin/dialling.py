"""How a node is asked over its cluster listener, by who has the cluster's secret.

Commands do so, and a node that wants to know what only another one can say. A long answer comes in
parts: `["more", rows]` as often as it takes, and the last rows with "ok".
"""

from __future__ import annotations

import os
import socket
from typing import Any

import msgspec

from warren import __version__
from warren.config.peer_tls import PeerTls
from warren.errors import ConfigError
from warren.ports import PeerHello
from warren.protocols.peer.framing import MessageReader, MessageWriter
from warren.protocols.peer.handshake import DONE, REFUSED, Handshake
from warren.protocols.peer.hello import ANYONE, NO_CLUSTER

READ_BYTES = 65_536


def ask(
    host: str, port: int, key: bytes, tls: PeerTls | None, words: list[Any], seconds: float
) -> list[Any]:
    """The answer to a request, all its parts together.

    Args:
        key: Derived of the cluster's secret.
        seconds: How long each step may take.

    Raises:
        OSError: The node cannot be reached, or ends the connection.
        ConfigError: It refuses the connection, or some word is not UTF-8.
    """
    try:
        request = msgspec.msgpack.encode(words)
    except UnicodeEncodeError as error:
        text = str(error.object).encode("utf-8", "backslashreplace").decode()
        raise ConfigError(f"'{text}' is not valid UTF-8") from None
    own = PeerHello(ANYONE, os.urandom(16), NO_CLUSTER, 0, __version__, 0)
    handshake = Handshake(own, key, os.urandom(32), ANYONE)
    with socket.create_connection((host, port), seconds) as plain:
        stream: socket.socket = plain
        if tls is not None:
            stream = tls.dialling.wrap_socket(plain, server_hostname=host)
        stream.sendall(handshake.take_output())
        while handshake.state != DONE:
            handshake.receive(receive(stream))
            stream.sendall(handshake.take_output())
            if handshake.state == REFUSED:
                assert handshake.refusal is not None
                raise ConfigError(f"node at {host}:{port}: {handshake.refusal.text}")
        writer = MessageWriter()
        writer.add([request])
        stream.sendall(b"".join(writer.take()))
        reader = MessageReader()
        parts: list[Any] = []
        while True:
            for message in reader.receive(receive(stream)):
                answer: list[Any] = msgspec.msgpack.decode(message)
                if answer[0] == "ok" and parts:
                    return ["ok", parts + answer[1]]
                if answer[0] != "more":
                    return answer
                parts += answer[1]


def receive(stream: socket.socket) -> bytes:
    """The next bytes. Raises `OSError` at the end of the stream."""
    data = stream.recv(READ_BYTES)
    if not data:
        raise ConnectionResetError("the node ended the connection without an answer")
    return data
