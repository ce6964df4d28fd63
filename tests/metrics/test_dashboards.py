"""The metrics that RabbitMQ's published dashboards of Grafana ask for, each with samples.

`dashboards.json` has the names that their expressions use. What RabbitMQ itself has no more, or
only with its plugin for streams, no broker can answer.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.metrics.conftest import Scraped
from tests.metrics.exposition import SUFFIXES
from tests.metrics.test_metrics_families import RECORDED

pytestmark = pytest.mark.process

DASHBOARDS: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "dashboards.json").read_text("utf-8")
)
ASKED = [(board, name) for board, names in DASHBOARDS.items() for name in names]


def family_of(name: str, known: set[str]) -> str:
    """The family that a sample is of."""
    for suffix in SUFFIXES["histogram"]:
        if name.removesuffix(suffix) in known:
            return name.removesuffix(suffix)
    return name


def of_rabbitmq() -> set[str]:
    """The families that RabbitMQ has samples of, on the two endpoints that dashboards can be of."""
    return {
        family["name"]
        for endpoint in ("/metrics", "/metrics/per-object")
        for family in RECORDED[endpoint]
        if family["labels"]
    }


@pytest.mark.parametrize(("board", "name"), ASKED)
def test_a_dashboard_has_what_it_asks_for(scraped: Scraped, board: str, name: str) -> None:
    known = of_rabbitmq()
    family = family_of(name, known)
    found = scraped.scrape("/metrics")
    if family in known:
        assert name in {sample.name for sample in found[family].samples}, board
    else:
        # Names of RabbitMQ 3, and of its plugin for streams.
        assert name.startswith(("rabbitmq_raft_log_", "rabbitmq_global_stream_error_")), board


def test_nearly_all_of_it_is_there() -> None:
    """The test above would hold nothing if RabbitMQ's record were empty."""
    known = of_rabbitmq()
    overview = DASHBOARDS["RabbitMQ-Overview"]
    assert len(overview) > 35 and all(family_of(name, known) in known for name in overview)
    raft = DASHBOARDS["RabbitMQ-Quorum-Queues-Raft"]
    assert sum(family_of(name, known) in known for name in raft) == len(raft) - 3


def test_dashboards_find_node_and_cluster(scraped: Scraped) -> None:
    """Each expression joins the identity, by which rows are told apart."""
    (sample,) = scraped.scrape("/metrics")["rabbitmq_identity_info"].samples
    assert sample.labels["rabbitmq_node"] and sample.labels["rabbitmq_cluster"]
    assert sample.labels["rabbitmq_endpoint"] == "aggregated"
