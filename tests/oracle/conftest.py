"""Takes in the fixtures of the tests that speak to a broker over a socket.

The oracle is a RabbitMQ 4.3, and Warren is set up like one where it can be. Both trace their
default vhost for `scenarios_tracing.py`; where nothing is bound to the firehose, none of it shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.broker import Broker, free_port
from warren.admin.cli.asking import FOLDER_VARIABLE

LIKE_THE_ORACLE = ("--set", "quorum_queue.compat=4.3")
TRACE_ON = "from warren.admin.cli.tools.main import main; main('rabbitmqctl', ['trace_on'])"


def start_like_the_oracle(broker: Broker) -> None:
    """Start a broker that was made with the options of this module."""
    broker.start()
    environment = {**os.environ, FOLDER_VARIABLE: str(broker.data_dir)}
    command = [sys.executable, "-c", TRACE_ON]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def _oracle_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    outside = Broker.from_environment()
    if outside is not None:
        yield outside
        return
    folder = tmp_path_factory.mktemp("oracle") / "broker"
    broker = Broker(free_port(), folder, options=list(LIKE_THE_ORACLE))
    start_like_the_oracle(broker)
    yield broker
    broker.stop()


@pytest.fixture
def amqp_address(_oracle_broker: Broker) -> Iterator[tuple[str, int]]:
    """Where the broker listens that all scenarios are played to."""
    if not _oracle_broker.running:
        start_like_the_oracle(_oracle_broker)
    yield _oracle_broker.host, _oracle_broker.port
    _oracle_broker.check_alive()


@pytest.fixture
def is_warren(_oracle_broker: Broker) -> bool:
    """Whether it is ours, so that what we do otherwise on purpose is expected."""
    return _oracle_broker.ours or os.environ.get("WARREN_TEST_BROKER_KIND") == "warren"
