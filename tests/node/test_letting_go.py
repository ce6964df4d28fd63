"""What left a queue in memory is let go of in parts, and so is what a deleted one held."""

from __future__ import annotations

import gc

import pytest

from tests.node.pair import Client, Pair
from warren.queues.paging import ResidentBatch
from warren.queues.transient import EMPTY_STEPS, LET_GO_STEPS
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

COUNT = 1_500
LIFE_MS = 3_600_000
LEVELS = 50
BODY = bytes(10)
BATCHES_A_TURN = LET_GO_STEPS // (1 + EMPTY_STEPS) + 1


@pytest.fixture
def pair() -> Pair:
    return Pair(alone=True)


@pytest.fixture
def others() -> list[ResidentBatch]:
    """What other tests have left in the process; held, so that it stays."""
    return batches()


@pytest.fixture
def client(pair: Pair, others: list[ResidentBatch]) -> Client:
    """Has published messages of many priorities, each with a time to live of its own."""
    client = pair.a.client()
    levels: Table = {"x-max-priority": LEVELS}
    client.call(spec.QueueDeclare(0, "q", False, False, False, False, False, levels))
    method = spec.BasicPublish(0, "", "q", False, False)
    for number in range(COUNT):
        # Content flags: priority and expiration.
        life = str(LIFE_MS + number % 2).encode()
        header = b"\x09\x00" + bytes([number % LEVELS, len(life)]) + life
        client.outbox += content_frames(1, method, header, BODY, 131_072)
    client.published += COUNT
    client.call(spec.BasicQos(0, 0, False))
    pair.until(lambda: pair.a.queue("q").ready_count() == COUNT)
    assert len(batches()) == len(others) + COUNT
    return client


def batches() -> list[ResidentBatch]:
    """All there are in the process."""
    return [each for each in gc.get_objects() if isinstance(each, ResidentBatch)]


@pytest.mark.rule("RES-01")
def test_what_left_is_let_go_of_in_parts(pair: Pair, client: Client) -> None:
    queue = pair.a.queue("q")
    size = queue.body_bytes // COUNT
    client.send(spec.QueuePurge(0, "q", True))
    client.exchange()
    before = queue.body_bytes
    turns = 0
    while queue.body_bytes > 0:
        pair.a.node.turn()
        assert before - queue.body_bytes <= BATCHES_A_TURN * size
        before = queue.body_bytes
        turns += 1
        assert turns < COUNT
    assert queue.ready_count() == 0 and queue.resident_bytes == 0
    # What comes then is kept and let go of as ever.
    client.publish("q", b"more")
    pair.until(lambda: queue.ready_count() == 1)
    assert queue.body_bytes > 0
    client.call(spec.QueuePurge(0, "q", False))
    pair.until(lambda: queue.body_bytes == 0)


@pytest.mark.rule("RES-01")
def test_a_deleted_queue_lets_go_of_all(
    pair: Pair, client: Client, others: list[ResidentBatch]
) -> None:
    """Although the channel that published there remembers where its messages went."""
    client.call(spec.QueueDelete(0, "q", False, False, False))
    pair.settle()
    assert len(batches()) == len(others)
