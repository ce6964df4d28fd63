"""A broker that is scraped, for the tests of this folder."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest

from tests.metrics.exposition import Family, families
from tests.metrics.traffic import traffic
from tests.support.broker import Broker, free_port
from tests.support.patience import patient


class Scraped:
    """A broker with metrics.

    Attributes:
        broker: It.
    """

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def ask(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, str], str]:
        """Status, headers and body of an answer."""
        url = f"http://{self.broker.host}:{self.broker.metrics}{path}"
        request = urllib.request.Request(url, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=patient(20.0)) as answer:
                return answer.status, dict(answer.headers.items()), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, dict(error.headers.items()), error.read().decode()

    def scrape(self, path: str = "/metrics") -> dict[str, Family]:
        """The families of a path."""
        status, headers, text = self.ask(path)
        assert status == 200, text
        assert headers["content-type"] == "text/plain; version=0.0.4"
        return families(text)


@pytest.fixture
def make_scraped(make_broker: Callable[..., Broker]) -> Callable[..., Scraped]:
    """Makes brokers with metrics, and starts them."""

    def make(*options: str) -> Scraped:
        broker = make_broker()
        broker.metrics = str(free_port())
        broker.options += options
        broker.start()
        return Scraped(broker)

    return make


@pytest.fixture(scope="session")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    """A broker on which the traffic of `traffic` was made, with its connections still open."""
    broker = Broker(free_port(), tmp_path_factory.mktemp("metrics") / "broker")
    broker.metrics = str(free_port())
    broker.start()
    with traffic(broker.port):
        yield Scraped(broker)
    broker.stop()
