"""A member that is far behind a queue which is published to all the time."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from warren.wire.amqp091 import spec

BODY = bytes(10_000)
BACKLOG = 1_200
EACH_STEP = 10
"""10 MB/s, of virtual time: the log closes two or three files a second."""
BEHIND_MAX = 10 * EACH_STEP


def publish(client: Client, count: int) -> None:
    """Publish so many messages of 10 KB."""
    for _ in range(count):
        client.publish("orders", BODY)


@pytest.mark.parametrize("seed", (1, 2))
def test_snapshots_do_not_overtake_the_one_being_sent(seed: int) -> None:
    """Else it would begin anew with each, and never hold what the others do."""
    pair = Pair(seed)
    a, b = pair.a, pair.b
    client = a.client()
    arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
    declared = client.call(
        spec.QueueDeclare(0, "orders", False, True, False, False, False, dict(arguments))
    )
    assert isinstance(declared, spec.QueueDeclareOk)
    pair.until(lambda: "orders" in b.node.tables.vhosts["/"].queues)
    b.kill()
    for _ in range(BACKLOG // EACH_STEP):
        publish(client, EACH_STEP)
        pair.step()
    b.start()

    def caught_up() -> bool:
        publish(client, EACH_STEP)
        there = b.queue("orders").ready_count() if b.node.ready else 0
        return a.queue("orders").ready_count() - there <= BEHIND_MAX

    pair.until(caught_up)
