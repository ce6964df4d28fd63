"""Asks a running node over its cluster listener, as an operator who has the cluster's secret."""

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from warren.admin import dialling
from warren.config import config
from warren.config.building import build
from warren.config.identity import SECRET_FILE, read_identity, read_secret
from warren.config.peer_tls import PeerTls, peer_tls, why
from warren.config.reading import read_file
from warren.errors import BrokerError, ConfigError
from warren.protocols.peer.handshake import derive_key

WAIT_SECONDS = 15.0
FOLDER_VARIABLE = "WARREN_DATA_DIR"
"""Names the data directory of the node to ask, where no option does."""


class Contact(NamedTuple):
    """How a node is asked: where its cluster listener is, the secret, and encryption if any."""

    host: str
    port: int
    secret: bytes
    tls: PeerTls | None


def put(
    words: argparse.Namespace,
    operation: str,
    arguments: dict[str, Any],
    shape: Any,
    seconds: float = WAIT_SECONDS,
) -> tuple[int, Any]:
    """Ask the node that the words name; exit status and answer, complaints being printed.

    Args:
        operation: What is asked of it, one of `service.catalogue`.
        shape: The type of the answer.
        seconds: How long the node may take.
    """
    try:
        contact = find_node(words)
    except BrokerError as error:
        print(f"warren: {error}", file=sys.stderr)
        return 2, None
    return put_to(contact, operation, arguments, shape, seconds)


def put_to(
    contact: Contact,
    operation: str,
    arguments: dict[str, Any],
    shape: Any,
    seconds: float = WAIT_SECONDS,
) -> tuple[int, Any]:
    """Ask a node that was found; the rest is as in `put`."""
    where = f"node at {contact.host}:{contact.port}"
    try:
        answer = ask(*contact, [operation, arguments], seconds)
    except BrokerError as error:
        print(f"warren: {error}", file=sys.stderr)
        return 2, None
    except (OSError, ssl.SSLError) as error:
        print(f"warren: {where}: {why(error, contact.tls is not None)}", file=sys.stderr)
        return 1, None
    if answer[0] != "ok":
        print(f"warren: {answer[1]}", file=sys.stderr)
        return 1, None
    try:
        return 0, msgspec.convert(answer[1], shape)
    except msgspec.ValidationError as error:
        print(f"warren: {where}: this is the answer of another version: {error}", file=sys.stderr)
        return 1, None


def show(words: argparse.Namespace, answer: Any, text: str) -> None:
    """Print an answer: as it came for programs, else in words, of which there may be none."""
    if words.json:
        print(json.dumps(answer, indent=1))
    elif text:
        print(text)


def builtins(answer: Any) -> Any:
    """An answer as maps, lists and plain values, for JSON and for tables."""
    return msgspec.to_builtins(answer)


def find_node(words: argparse.Namespace) -> Contact:
    """Address, secret and encryption of the node to ask.

    Raises:
        BrokerError: They are not known.
    """
    settings = build(
        read_file(words.config) if words.config else [],
        head="cluster.",
        node_name=words.node_name,
        data_dir=words.data_dir or (None if words.node_name else os.environ.get(FOLDER_VARIABLE)),
    )
    folder = settings.data_dir
    if words.contact:
        host, port = words.contact
    else:
        identity = read_identity(folder)
        if identity is None:
            raise ConfigError(
                f"{folder} is not the data directory of a node: name one with --data-dir or "
                f"{FOLDER_VARIABLE}, or a node's cluster listener with --contact"
            )
        host, port = identity.address
        if not port:
            raise ConfigError(
                f"the node of {folder} has no cluster listener at which it could be asked; its "
                "log says why: start it with a free --cluster-port"
            )
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
    return Contact(host, port, secret.encode(), tls)


def ask(
    host: str,
    port: int,
    secret: bytes,
    tls: PeerTls | None,
    words: list[Any],
    seconds: float = WAIT_SECONDS,
) -> list[Any]:
    """The answer to a request, all its parts together.

    Raises:
        OSError: The node cannot be reached, or ends the connection.
        ConfigError: It refuses the connection.
    """
    return dialling.ask(host, port, key_of(secret), tls, words, seconds)


@lru_cache(maxsize=4)
def key_of(secret: bytes) -> bytes:
    """The key of a cluster's secret, derived once: a command asks several times."""
    return derive_key(secret)
