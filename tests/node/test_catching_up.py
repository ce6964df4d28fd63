"""A member that is far behind a queue which is published to all the time."""

from __future__ import annotations

from typing import Any

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


class Listening:
    """A node's listener that counts the bytes of what it hears."""

    def __init__(self, listener: Any) -> None:
        self._listener = listener
        self.bytes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._listener, name)

    def received(self, peer: str, message: bytes) -> None:
        self.bytes += len(message)
        self._listener.received(peer, message)


@pytest.mark.parametrize("seed", (1, 2))
def test_snapshots_do_not_overtake_the_one_being_sent(seed: int) -> None:
    """Else it would begin anew with each, and never hold what the others do."""
    pair = Pair(seed)
    a, b = pair.a, pair.b
    client = a.client()
    assert isinstance(client.declare("orders", kind="quorum", size=1), spec.QueueDeclareOk)
    pair.add_member("orders", "b", votes=False)
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


@pytest.mark.rule("BEH-05")
def test_a_member_that_was_away_gets_what_it_missed_and_no_more() -> None:
    """The others go on meanwhile, and it is not sent what it has."""
    pair = Pair()
    pair.add("c")
    a, b = pair.a, pair.b
    client = a.client()
    assert isinstance(client.declare("orders", kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    publish(client, BACKLOG)
    pair.until(lambda: b.knows("orders"))
    pair.until(lambda: b.queue("orders").ready_count() == BACKLOG)
    b.kill()
    publish(client, EACH_STEP)
    pair.until(lambda: len(client.acked) == BACKLOG + EACH_STEP)
    b.start()
    heard = Listening(b.listener)
    b.listener = heard

    def caught_up() -> bool:
        publish(client, 1)
        return b.node.ready and b.queue("orders").ready_count() >= BACKLOG + EACH_STEP

    pair.until(caught_up)
    pair.until(lambda: len(client.acked) == client.published)
    assert EACH_STEP * len(BODY) < heard.bytes < BACKLOG * len(BODY) // 4
