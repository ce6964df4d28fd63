"""AMQP URIs: where a broker is and who we are there.

    amqp://user:password@host:port/vhost?heartbeat=seconds&connection_timeout=ms&channel_max=count

Every part may be left out: `amqp://` is guest at localhost:5672 in the vhost `/`. Names are
percent-encoded (`%2F` is the vhost `/`).

Source: RabbitMQ's URI specification and query parameters. There, the path `/` is the vhost with
an empty name; here it is the default vhost, as most clients have it.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from warren.errors import ConfigError
from warren.limits import CHANNELS_MAX

DEFAULT_PORT = 5672
DEFAULT_TIMEOUT_SECONDS = 30.0


class Address(NamedTuple):
    """What an AMQP URI says of the broker and of the connection to it.

    Attributes:
        heartbeat_seconds: 0 for none.
        timeout_seconds: How long connecting, and any later wait for an answer, may take.
        channel_max: The highest channel number to use.
    """

    host: str
    port: int
    user: str
    password: str
    vhost: str
    heartbeat_seconds: int
    timeout_seconds: float
    channel_max: int


def parse_uri(uri: str) -> Address:
    """Read an AMQP URI.

    Raises:
        ConfigError: It is no `amqp://` URI, or a number in it is none.
    """
    parts = urlsplit(uri)
    if parts.scheme == "amqps":
        raise ConfigError("amqps:// is not supported by this client")
    if parts.scheme != "amqp":
        raise ConfigError("a broker's URI starts with amqp://")
    try:
        port = parts.port
    except ValueError:
        raise ConfigError("the port in the URI is no port number") from None
    query = dict(parse_qsl(parts.query))
    vhost = unquote(parts.path[1:])
    timeout_ms = _number(query, "connection_timeout", int(DEFAULT_TIMEOUT_SECONDS * 1000))
    user = parts.username
    password = parts.password
    return Address(
        unquote(parts.hostname) if parts.hostname else "localhost",
        DEFAULT_PORT if port is None else port,
        "guest" if user is None else unquote(user),
        "guest" if password is None else unquote(password),
        vhost or "/",
        _number(query, "heartbeat", 0),
        timeout_ms / 1000,
        min(_number(query, "channel_max", CHANNELS_MAX), 65_535),
    )


def _number(query: dict[str, str], name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not text.isascii() or not text.isdigit():
        raise ConfigError(f"{name} in the URI is no number")
    return int(text)
