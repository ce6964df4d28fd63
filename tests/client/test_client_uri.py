"""AMQP URIs: every part, its default, and what is refused."""

from __future__ import annotations

import pytest

from warren.client.uri import Address, Tls, parse_uri
from warren.errors import ConfigError

PLAIN = Address("localhost", 5672, "guest", "guest", "/", 0, 30.0, 2047)


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("amqp://", PLAIN),
        ("amqp://localhost", PLAIN),
        ("amqp://localhost/", PLAIN),
        ("amqp://localhost:5672/%2F", PLAIN),
        ("amqp://:5673", PLAIN._replace(port=5673)),
        ("amqp://host:1/v", PLAIN._replace(host="host", port=1, vhost="v")),
        ("amqp://[::1]:1", PLAIN._replace(host="::1", port=1)),
        ("amqp://u:p@h", PLAIN._replace(host="h", user="u", password="p")),
        ("amqp://u%40x:p%3A%2F@h", PLAIN._replace(host="h", user="u@x", password="p:/")),
        ("amqp://:@h", PLAIN._replace(host="h", user="", password="")),
        ("amqp://h/%C3%A9%2fb", PLAIN._replace(host="h", vhost="é/b")),
        (
            "amqp://h?heartbeat=10&connection_timeout=1500&channel_max=7",
            PLAIN._replace(host="h", heartbeat_seconds=10, timeout_seconds=1.5, channel_max=7),
        ),
        ("amqps://h", PLAIN._replace(host="h", port=5671, tls=Tls("", "", "", True, ""))),
        (
            "amqps://h:1?cacertfile=/ca%20x&certfile=c&keyfile=k&verify=verify_none"
            "&server_name_indication=n",
            PLAIN._replace(host="h", port=1, tls=Tls("/ca x", "c", "k", False, "n")),
        ),
    ],
)
def test_parts(uri: str, address: Address) -> None:
    assert parse_uri(uri) == address


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "localhost",
        "http://localhost",
        "amqps://localhost?verify=perhaps",
        "amqp://localhost:port",
        "amqp://localhost:65536",
        "amqp://h?heartbeat=soon",
        "amqp://h?heartbeat=-1",
        "amqp://h?connection_timeout=1.5",
    ],
)
def test_refusals(uri: str) -> None:
    with pytest.raises(ConfigError):
        parse_uri(uri)
