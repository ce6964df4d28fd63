"""Takes in the fixtures of the tests that speak to a broker over a socket.

The oracle is a RabbitMQ 4.3, and Warren is set up like one where it can be.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.broker import Broker, free_port

LIKE_THE_ORACLE = ("--set", "quorum_queue.compat=4.3")


@pytest.fixture(scope="session")
def _oracle_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    outside = Broker.from_environment()
    if outside is not None:
        yield outside
        return
    folder = tmp_path_factory.mktemp("oracle") / "broker"
    broker = Broker(free_port(), folder, options=list(LIKE_THE_ORACLE))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def amqp_address(_oracle_broker: Broker) -> Iterator[tuple[str, int]]:
    """Where the broker listens that all scenarios are played to."""
    if not _oracle_broker.running:
        _oracle_broker.start()
    yield _oracle_broker.host, _oracle_broker.port
    _oracle_broker.check_alive()


@pytest.fixture
def is_warren(_oracle_broker: Broker) -> bool:
    """Whether it is ours, so that what we do otherwise on purpose is expected."""
    return _oracle_broker.ours or os.environ.get("WARREN_TEST_BROKER_KIND") == "warren"
