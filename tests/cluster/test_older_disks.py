"""A node that is started on an older copy of its data directory, as processes see it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Cluster, declare, ready, seen_by
from tests.cluster.test_recovery import QUEUE, bodies, fill, membership, take


@pytest.mark.rule("BEH-09")
def test_a_restored_directory_is_given_up(cluster: Cluster, tmp_path: Path) -> None:
    """What it lacks comes from the others, and what it acknowledged is never missed."""
    nodes = cluster.start(3)
    declare(nodes[0], QUEUE)
    for node in nodes:
        seen_by(node, QUEUE)
    fill(nodes[0], 0, 100)
    restored = nodes[2]
    assert restored.broker.stop() == 0
    shutil.copytree(restored.folder, tmp_path / "copy")
    restored.broker.start()
    cluster.settled()
    fill(nodes[1], 100, 300)
    restored.broker.kill()
    shutil.rmtree(restored.folder)
    shutil.copytree(tmp_path / "copy", restored.folder)
    restored.broker.start()
    assert "restored from an older copy" in restored.broker.log_text()
    cluster.settled()
    eventually(lambda: membership(restored, restored) == "voter", WAIT_S)
    # With the restored one as half of the majority, nothing is missing.
    nodes[0].broker.kill()
    assert take(nodes[1], 300) == bodies(0, 300)
    assert eventually(lambda: ready(restored, QUEUE) == 0, WAIT_S)
    # From now on it starts like any other.
    restored.broker.restart(kill=True)
    assert restored.broker.log_text().count("restored from an older copy") == 1
