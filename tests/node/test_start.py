"""A node that starts again, alone, up to the moment at which clients may come."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair

HELD = 7
PUBLISHED = 20


@pytest.mark.parametrize("seed", range(1, 21))
def test_what_consumers_held_is_back_before_clients_may_come(seed: int) -> None:
    """Else a new consumer got the messages behind those first, and a count would lack them."""
    pair = Pair(seed, alone=True)
    client = pair.a.client()
    client.declare("orders", kind="quorum")
    client.qos(HELD)
    client.consume("orders")
    client.publish_confirmed("orders", PUBLISHED)
    pair.until(lambda: len(client.messages) == HELD)
    pair.until(lambda: pair.a.queue("orders").ready_count() == PUBLISHED - HELD)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    assert pair.a.queue("orders").ready_count() == PUBLISHED
