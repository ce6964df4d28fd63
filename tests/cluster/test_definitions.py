"""Definitions that nodes load as they start, and how many nodes they wait for."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster
from tests.support.broker import free_port
from warren.server import definitions

TEXT = json.dumps(
    {
        "vhosts": [{"name": "/"}],
        "queues": [
            {
                "name": "events",
                "vhost": "/",
                "durable": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": "quorum"},
            }
        ],
    }
)


@pytest.mark.process
def test_a_quorum_queue_of_definitions_has_members_on_all_nodes_that_are_to_be(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(TEXT)
    ports = [free_port() for _ in range(3)]
    words = ["--set", f"load_definitions={file}"]
    words += ["--set", "cluster_formation.target_cluster_size_hint=3"]
    for number, port in enumerate(ports, 1):
        key = f"cluster_formation.classic_config.nodes.{number}"
        words += ["--set", f"{key}=n{number}@localhost:{port}"]
    begins = ["--set", "cluster_formation.begin=true"]
    nodes = [
        cluster.new(f"n{number}", *words, *(begins if number == 1 else []), port=port)
        for number, port in enumerate(ports, 1)
    ]
    nodes[0].broker.launch()
    nodes[0].says("1 of 3 nodes (cluster_formation.target_cluster_size_hint) run")
    for node in nodes[1:]:
        node.broker.launch()
    for node in nodes:
        node.broker.wait()
    cluster.settled()
    (queue,) = nodes[0].status()["queues"]
    assert len(queue["members"]) == 3
    # One that comes back waits for nobody: it has loaded them before.
    for node in nodes:
        assert node.broker.stop() == 0
    for node in nodes[:2]:
        node.broker.launch()
    for node in nodes[:2]:
        node.broker.wait()
    eventually(lambda: len(nodes[0].status()["queues"]) == 1, WAIT_S)
    assert nodes[0].broker.log_text().count("of 3 nodes") == 1


@pytest.mark.process
def test_a_node_that_waits_for_others_can_be_stopped(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(TEXT)
    words = ["--set", f"load_definitions={file}"]
    words += ["--set", "cluster_formation.target_cluster_size_hint=2"]
    node = cluster.new("n1", *words)
    node.broker.launch()
    node.says("1 of 2 nodes")
    assert node.broker.stop() == 0


@pytest.mark.parametrize("count", [0, 1, 2])
def test_nobody_waits_for_nodes_that_run(count: int, caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(definitions.await_nodes(count, lambda: ["a", "b"], lambda: False))
    assert caplog.text == ""


def test_a_wait_for_nodes_has_an_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "WAIT_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING):
        asyncio.run(definitions.await_nodes(3, lambda: ["a"], lambda: False))
    assert len(caplog.records) == definitions.WAITS + 1
    assert "only 1 of 3 nodes run: definitions are loaded all the same" in caplog.messages[-1]
