"""A broker with the HTTP API, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.http.talk import Peer
from tests.support.broker import Broker, free_port

LIKE_THE_ORACLE = ("--set", "quorum_queue.compat=4.3")


@pytest.fixture(scope="session")
def _http_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("http") / "broker"
    broker = Broker(free_port(), folder, options=list(LIKE_THE_ORACLE))
    broker.management = str(free_port())
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="session")
def _http_peer(_http_broker: Broker) -> Peer:
    return Peer(_http_broker.host, int(_http_broker.management), _http_broker.port)


@pytest.fixture
def peer(_http_broker: Broker, _http_peer: Peer) -> Iterator[Peer]:
    """The broker, to be talked to over HTTP; it has to live through each test."""
    yield _http_peer
    _http_broker.check_alive()


@pytest.fixture
def make_http(make_broker: Callable[..., Broker]) -> Callable[[], Broker]:
    """Makes brokers with the HTTP API, which are not started yet."""

    def make() -> Broker:
        broker = make_broker()
        broker.management = str(free_port())
        return broker

    return make
