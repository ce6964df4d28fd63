"""Fixtures for tests that speak to a broker over a socket; imported by the conftests that use them.

Every queue and exchange a test names comes from `names`, which deletes them afterwards: the broker
is shared.
"""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.clients.raw import RawClient
from tests.support.broker import Broker

Connect = Callable[..., BlockingConnection]
Raw = Callable[..., RawClient]


class Names:
    """Gives out names nobody else uses and remembers them for deletion."""

    def __init__(self) -> None:
        self._prefix = f"t-{secrets.token_hex(4)}"
        self._count = itertools.count(1)
        self.queues: list[str] = []
        self.exchanges: list[str] = []

    def queue(self, name: str | None = None) -> str:
        """A name for a queue; one of the test's choice is remembered too."""
        self.queues.append(name or f"{self._prefix}-q{next(self._count)}")
        return self.queues[-1]

    def exchange(self, name: str | None = None) -> str:
        """A name for an exchange."""
        self.exchanges.append(name or f"{self._prefix}-x{next(self._count)}")
        return self.exchanges[-1]


@pytest.fixture
def amqp_address(broker: Broker) -> tuple[str, int]:
    """Host and port of the shared broker."""
    return (broker.host, broker.port)


@pytest.fixture
def is_warren(broker: Broker) -> bool:
    """Whether the broker is ours, so that what we do otherwise on purpose is expected."""
    return broker.ours or os.environ.get("WARREN_TEST_BROKER_KIND") == "warren"


@pytest.fixture
def connect(amqp_address: tuple[str, int]) -> Iterator[Connect]:
    """Makes pika connections, closed at the end of the test."""
    made: list[BlockingConnection] = []

    def make(**options: Any) -> BlockingConnection:
        options.setdefault("heartbeat", 0)
        options.setdefault("blocked_connection_timeout", 30)
        host, port = amqp_address
        made.append(BlockingConnection(pika.ConnectionParameters(host, port, **options)))
        return made[-1]

    yield make
    for connection in made:
        if connection.is_open:
            connection.close()


@pytest.fixture
def raw(amqp_address: tuple[str, int]) -> Iterator[Raw]:
    """Makes raw clients, their sockets closed at the end of the test."""
    made: list[RawClient] = []

    def make(**options: Any) -> RawClient:
        made.append(RawClient(amqp_address, **options))
        return made[-1]

    yield make
    for client in made:
        client.socket.close()


@pytest.fixture
def names(amqp_address: tuple[str, int]) -> Iterator[Names]:
    """Names for queues and exchanges, which are deleted after the test."""
    given = Names()
    yield given
    with RawClient(amqp_address) as cleaner:
        cleaner.open()
        channel = 0
        for method, key, taken in (
            ("queue.delete", "queue", given.queues),
            ("exchange.delete", "exchange", given.exchanges),
        ):
            for name in taken:
                channel += 1
                cleaner.ask(channel, "channel.open")
                if cleaner.call(channel, method, **{key: name}).name == "channel.close":
                    cleaner.send(channel, "channel.close-ok")


@pytest.fixture
def channel(names: Names, connect: Connect) -> BlockingChannel:
    """A pika channel on a connection of its own."""
    return connect().channel()


@pytest.fixture(params=["classic", "quorum"])
def kind(request: pytest.FixtureRequest) -> str:
    """Both queue types, one after the other."""
    chosen: str = request.param
    return chosen


@pytest.fixture
def queue(kind: str, names: Names, channel: BlockingChannel) -> str:
    """An empty durable queue of each type."""
    name = names.queue()
    channel.queue_declare(name, durable=True, arguments={"x-queue-type": kind})
    return name
