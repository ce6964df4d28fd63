"""What idle groups cost: nothing goes over the links, and nobody's time is minded."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from warren.replication.kinds import FIRST_OF_GROUP
from warren.wire.amqp091 import spec

QUEUES = 40
STEPS = 200


@pytest.mark.parametrize("seed", range(1, 4))
def test_idle_groups_say_nothing(seed: int) -> None:
    """However many queues there are, the nodes exchange pings and nothing else."""
    pair = Pair(seed)
    client = pair.a.client()
    client.call(spec.ConfirmSelect())
    for number in range(QUEUES):
        client.declare(f"q{number}", kind="quorum")
        client.publish(f"q{number}", b"one")
    pair.until(lambda: len(client.acked) == QUEUES)
    pair.settle(STEPS)
    kinds: list[int] = []
    carry = pair.carry

    def watched(source: str, target: str, count: int = -1) -> int:
        kinds.extend(message[0] for message in pair.links[source, target])
        return carry(source, target, count)

    pair.carry = watched  # type: ignore[method-assign]
    pair.settle(STEPS)
    assert kinds, "nodes that say nothing at all take each other to be dead"
    assert max(kinds) < FIRST_OF_GROUP
    for station in (pair.a, pair.b):
        members = station.node.cluster.members.values()
        assert len(members) == QUEUES + 1
        assert all(member.raft.deadline_ms == -1 for member in members)
