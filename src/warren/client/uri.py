"""AMQP URIs: where a broker is and who we are there.

    amqp://user:password@host:port/vhost?heartbeat=seconds&connection_timeout=ms&channel_max=count

Every part may be left out: `amqp://` is guest at localhost:5672 in the vhost `/`. Names are
percent-encoded (`%2F` is the vhost `/`).

    amqps://host:5671/vhost?cacertfile=path&certfile=path&keyfile=path&verify=verify_peer

speaks TLS: the broker's certificate is checked against the authorities in `cacertfile`, or else in
the system's, and against the host, or `server_name_indication`; `verify=verify_none` checks
nothing. `certfile` and `keyfile` are a certificate of one's own.

Source: RabbitMQ's URI specification and query parameters. There, the path `/` is the vhost with
an empty name; here it is the default vhost, as most clients have it.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from warren.errors import ConfigError
from warren.limits import CHANNELS_MAX

DEFAULT_PORT = 5672
DEFAULT_TLS_PORT = 5671
DEFAULT_TIMEOUT_SECONDS = 30.0


class Tls(NamedTuple):
    """How a connection is encrypted, and whose certificate is taken; empty paths are for none.

    Attributes:
        authorities: A file of those that may have signed the broker's certificate; empty for the
            system's.
        certificate, key: Files of one's own.
        verify: Whether the broker's certificate has to be good.
        server_name: Whose it has to be; empty for the host's.
    """

    authorities: str
    certificate: str
    key: str
    verify: bool
    server_name: str


class Address(NamedTuple):
    """What an AMQP URI says of the broker and of the connection to it.

    Attributes:
        heartbeat_seconds: 0 for none.
        timeout_seconds: How long connecting, and any later wait for an answer, may take.
        channel_max: The highest channel number to use.
        tls: How it is encrypted; None if it is not.
    """

    host: str
    port: int
    user: str
    password: str
    vhost: str
    heartbeat_seconds: int
    timeout_seconds: float
    channel_max: int
    tls: Tls | None = None


def parse_uri(uri: str) -> Address:
    """Read an AMQP URI.

    Raises:
        ConfigError: It is no `amqp://` or `amqps://` URI, or something in it is wrong.
    """
    parts = urlsplit(uri)
    if parts.scheme not in ("amqp", "amqps"):
        raise ConfigError("a broker's URI starts with amqp:// or amqps://")
    try:
        port = parts.port
    except ValueError:
        raise ConfigError("the port in the URI is no port number") from None
    query = dict(parse_qsl(parts.query))
    vhost = unquote(parts.path[1:])
    timeout_ms = _number(query, "connection_timeout", int(DEFAULT_TIMEOUT_SECONDS * 1000))
    user = parts.username
    password = parts.password
    tls = _tls(query) if parts.scheme == "amqps" else None
    default_port = DEFAULT_PORT if tls is None else DEFAULT_TLS_PORT
    return Address(
        unquote(parts.hostname) if parts.hostname else "localhost",
        default_port if port is None else port,
        "guest" if user is None else unquote(user),
        "guest" if password is None else unquote(password),
        vhost or "/",
        _number(query, "heartbeat", 0),
        timeout_ms / 1000,
        min(_number(query, "channel_max", CHANNELS_MAX), 65_535),
        tls,
    )


def _tls(query: dict[str, str]) -> Tls:
    verify = query.get("verify", "verify_peer")
    if verify not in ("verify_peer", "verify_none"):
        raise ConfigError("verify in the URI is verify_peer or verify_none")
    return Tls(
        query.get("cacertfile", ""),
        query.get("certfile", ""),
        query.get("keyfile", ""),
        verify == "verify_peer",
        query.get("server_name_indication", ""),
    )


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{name} in the URI is no number")
    return int(text)
