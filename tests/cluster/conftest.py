"""Clusters for tests; each test has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.nodes import Cluster
from tests.support.broker import Broker


@pytest.fixture
def cluster(make_broker: Callable[..., Broker], tmp_path: Path) -> Iterator[Cluster]:
    """Makes the nodes of one cluster; none runs yet, and none may end by itself."""
    made = Cluster(make_broker, tmp_path)
    yield made
    made.check_alive()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """Show a failed test the logs of its nodes."""
    report = yield
    used = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(used, Cluster):
        for node in used.nodes:
            report.sections.append((f"log of {node.name}", node.broker.log_text()))
    return report
