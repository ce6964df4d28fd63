"""The command `warren cluster`: asks one node over its cluster listener, as an operator."""

from __future__ import annotations

import argparse
import json
import os
import socket
import ssl
import sys
from pathlib import Path
from typing import Any

import msgspec

from warren import __version__
from warren.errors import BrokerError, ConfigError
from warren.ports import PeerHello
from warren.protocols.peer.framing import MessageReader, MessageWriter
from warren.protocols.peer.handshake import DONE, REFUSED, Handshake, derive_key
from warren.protocols.peer.hello import ANYONE, NO_CLUSTER
from warren.server import config
from warren.server.identity import SECRET_FILE, read_identity, read_secret
from warren.server.peer_tls import PeerTls, peer_tls, why

WAIT_SECONDS = 15.0
LEAVE_SECONDS = 60.0
"""A node that leaves first sees to it that no queue counts it any more."""
READ_BYTES = 65_536


def run(words: argparse.Namespace) -> int:
    """Do what the words say; returns the exit status: 0 done, 1 refused, 2 wrong words."""
    seconds = LEAVE_SECONDS if words.action == "leave" else WAIT_SECONDS
    state, answer = put(words, request(words), seconds)
    if state == 0 and words.action == "status":
        print(json.dumps(answer, indent=1) if words.json else describe(answer))
    return state


def put(
    words: argparse.Namespace, asked: list[Any], seconds: float = WAIT_SECONDS
) -> tuple[int, Any]:
    """Ask the node that the words name; exit status and answer, complaints being printed.

    Args:
        seconds: How long the node may take.
    """
    try:
        host, port, secret, tls = find_node(words)
        answer = ask(host, port, secret, tls, asked, seconds)
    except BrokerError as error:
        print(f"warren: {error}", file=sys.stderr)
        return 2, None
    except (OSError, ssl.SSLError) as error:
        print(f"warren: node at {host}:{port}: {why(error, tls is not None)}", file=sys.stderr)
        return 1, None
    if answer[0] != "ok":
        print(f"warren: {answer[1]}", file=sys.stderr)
        return 1, None
    return 0, answer[1]


def request(words: argparse.Namespace) -> list[Any]:
    """What is asked of the node."""
    if words.action == "forget":
        return ["forget", words.name, words.force]
    if words.action == "leave":
        return ["leave", words.force]
    return ["status"]


def find_node(words: argparse.Namespace) -> tuple[str, int, bytes, PeerTls | None]:
    """Address, secret and encryption of the node to ask.

    Raises:
        BrokerError: They are not known.
    """
    entries = config.read_file(words.config) if words.config else []
    settings = config.build(
        [entry for entry in entries if entry.key.startswith("cluster.")],
        node_name=words.node_name,
        data_dir=words.data_dir,
    )
    folder = settings.data_dir
    if words.contact:
        host, port = words.contact
    else:
        identity = read_identity(folder)
        if identity is None:
            raise ConfigError(
                f"{folder} is not the data directory of a node: name one with --data-dir, or a "
                "node's cluster listener with --contact"
            )
        host, port = identity.address
    kept = Path(folder) / SECRET_FILE
    if words.secret_file:
        secret = read_secret(Path(words.secret_file))
    else:
        secret = settings.cluster_secret or os.environ.get(config.SECRET_VARIABLE, "")
        if not secret and kept.exists():
            secret = read_secret(kept)
    if not secret:
        raise ConfigError(f"there is no secret in {kept}: name a file with --secret-file")
    tls = None
    if settings.cluster_ssl_cacertfile:
        tls = peer_tls(
            settings.cluster_ssl_cacertfile,
            settings.cluster_ssl_certfile,
            settings.cluster_ssl_keyfile,
        )
    return host, port, secret.encode(), tls


def ask(
    host: str,
    port: int,
    secret: bytes,
    tls: PeerTls | None,
    words: list[Any],
    seconds: float = WAIT_SECONDS,
) -> list[Any]:
    """The answer to a request.

    Raises:
        OSError: The node cannot be reached, or ends the connection.
        ConfigError: It refuses the connection.
    """
    own = PeerHello(ANYONE, os.urandom(16), NO_CLUSTER, 0, __version__, 0)
    handshake = Handshake(own, derive_key(secret), os.urandom(32), ANYONE)
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
        writer.add([msgspec.msgpack.encode(words)])
        stream.sendall(b"".join(writer.take()))
        reader = MessageReader()
        while True:
            for message in reader.receive(receive(stream)):
                answer: list[Any] = msgspec.msgpack.decode(message)
                return answer


def receive(stream: socket.socket) -> bytes:
    """The next bytes. Raises `OSError` at the end of the stream."""
    data = stream.recv(READ_BYTES)
    if not data:
        raise ConnectionResetError("the node ended the connection without an answer")
    return data


def describe(status: dict[str, Any]) -> str:
    """A status in words: a line for each node and each queue."""
    lines = [f"cluster {status['cluster']}, as node {status['node']} sees it"]
    for node in status["nodes"]:
        state = "running" if node["running"] else "down"
        leads = " leads" if node["name"] == status["leader"] else ""
        lines.append(f"node  {node['name']}  {node['address']}  {state}{leads}")
    for queue in status["queues"]:
        where = f"leader {queue['leader'] or '-'}"
        if queue["voters"]:
            where += f"  voters {' '.join(queue['voters'])}"
        if queue["learners"]:
            where += f"  learners {' '.join(queue['learners'])}"
        for word in ("policy", "operator_policy"):
            if queue[word]:
                where += f"  {word} {queue[word]}"
        lines.append(f"queue  {queue['vhost']}  {queue['name']}  {queue['type']}  {where}")
    return "\n".join(lines)
