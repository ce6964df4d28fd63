"""Takes in the fixtures of the tests that speak to a broker over a socket.

The oracle is a RabbitMQ 4.3, and Warren is set up like one where it can be. The oracle traces its
default vhost; where nothing is bound to the firehose, none of it shows. Of Warren a broker of its
own does, for `scenarios_tracing.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.broker import Broker, free_port
from warren.admin.cli.asking import FOLDER_VARIABLE

LIKE_THE_ORACLE = ("--set", "quorum_queue.compat=4.3")
TRACE_ON = "from warren.admin.cli.tools.main import main; main('rabbitmqctl', ['trace_on'])"


def trace(broker: Broker) -> None:
    """Have a broker trace its default vhost."""
    environment = {**os.environ, FOLDER_VARIABLE: str(broker.data_dir)}
    command = [sys.executable, "-c", TRACE_ON]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def _oracle_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    yield from _started(tmp_path_factory.mktemp("oracle"))


@pytest.fixture(scope="session")
def _tracing_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    for broker in _started(tmp_path_factory.mktemp("tracing")):
        if broker.ours:
            trace(broker)
        yield broker


def _started(folder: Path) -> Iterator[Broker]:
    outside = Broker.from_environment()
    if outside is not None:
        yield outside
        return
    broker = Broker(free_port(), folder / "broker", options=list(LIKE_THE_ORACLE))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def amqp_address(_oracle_broker: Broker) -> Iterator[tuple[str, int]]:
    """Where the broker listens that scenarios are played to, but for those of tracing."""
    if not _oracle_broker.running:
        _oracle_broker.start()
    yield _oracle_broker.host, _oracle_broker.port
    _oracle_broker.check_alive()


@pytest.fixture
def tracing_address(_tracing_broker: Broker) -> Iterator[tuple[str, int]]:
    """The same for those."""
    if not _tracing_broker.running:
        _tracing_broker.start()
    yield _tracing_broker.host, _tracing_broker.port
    _tracing_broker.check_alive()


@pytest.fixture
def is_warren(_oracle_broker: Broker) -> bool:
    """Whether it is ours, so that what we do otherwise on purpose is expected."""
    return _oracle_broker.ours or os.environ.get("WARREN_TEST_BROKER_KIND") == "warren"
