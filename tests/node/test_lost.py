"""Messages that no disk has any more: a queue goes on without them, some in each turn.

What a turn does is counted in lines of Python that run; in a compiled build nothing of it is seen,
and what is checked is the result alone.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest

from tests.node.pair import Client, Pair
from tests.queues.test_scattered import steps
from warren.errors import CorruptRecord
from warren.log.runlist import run_list
from warren.node.copy_checks import CopyCheck
from warren.queues.lost import OPENED_MAX, PACKED_MIN, Losses
from warren.queues.queue import Queue
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

COUNTS = (12_000, 36_000)
LINES_OF_A_LOOK = 15
"""What a look at one run of a quorum queue's backlog takes, which a turn may do for all of them."""

PUBLISH = spec.BasicPublish(0, "", "q", False, False)


def filled(kind: str, count: int, levels: int = 1) -> Client:
    """A client of a node whose queue has so many messages, of as many priorities by turns."""
    pair = Pair(alone=True, file_bytes=1 << 26)
    client = pair.a.client()
    declare = spec.QueueDeclare(0, "q", durable=True, arguments={"x-queue-type": kind})
    if levels > 1:
        declare.arguments["x-max-priority"] = levels
    assert isinstance(client.call(declare), spec.QueueDeclareOk)
    part = b"".join(
        # Content flags: delivery mode and priority.
        content_frames(1, PUBLISH, bytes((0x18, 0, 2, number % levels)), b"", 131_072)
        for number in range(1_000)
    )
    for _ in range(count // 1_000):
        client.outbox += part
        client.exchange()
        pair.a.node.turn()
    pair.until(lambda: pair.a.queue("q").ready_count() == count)
    return client


def longest(pair: Pair, queue: Queue, lost: list[tuple[int, int]], left: int) -> int:
    """How many lines the longest turn takes until so many messages are left."""
    error = CorruptRecord("a file", 0, "it is damaged")
    most = steps(lambda: queue.go_without(lost, error))
    for _ in range(2_000):
        if queue.ready_count() == left and not queue._dropping:
            return most
        pair.a.executor.step()
        most = max(most, steps(pair.a.node.turn))
    raise AssertionError("it does not come to an end")


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_is_lost_is_dropped_in_parts(kind: str) -> None:
    """Every second message, and then all between, each of which is a run by then."""
    found = []
    for count in COUNTS:
        client = filled(kind, count)
        pair = client.pair
        queue = pair.a.queue("q")
        odd = longest(pair, queue, [(n, n) for n in range(1, count, 2)], count // 2)
        assert queue.live() == [(n, n) for n in range(0, count, 2)]
        found.append((odd, longest(pair, queue, [(0, count + 7)], 0)))
        assert queue.live() == []
        said = [text for text in pair.a.warnings if "are gone" in text]
        assert len(said) == 2
        assert "messages 1, 3" in said[0] and f"more up to {count - 1} of queue 'q'" in said[0]
        assert "messages 0, 2" in said[1] and f"more up to {count - 2} of queue 'q'" in said[1]
        client.publish("q", b"new")
        pair.settle(20)
        pair.a.kill()
        pair.a.start()
        pair.until(lambda pair=pair: pair.a.node.ready)
        got = pair.a.client().get("q")
        assert got is not None and got.body == b"new"
    looks = 0 if kind == "classic" else LINES_OF_A_LOOK * (COUNTS[1] - COUNTS[0]) // 2
    for few, many in zip(*found, strict=True):
        # One or two entries are applied in a turn.
        assert many <= 2 * (few + looks) + 200


@pytest.mark.parametrize("levels", [1, 50])
def test_an_entry_opens_a_bounded_number_of_packs(levels: int) -> None:
    """Of a long stretch some of each priority lie elsewhere; of one priority all lie together."""
    count, size = 20_000, 100
    client = filled("classic", count, levels)
    queue = client.pair.a.queue("q")
    lost = [(first, first + size - 1) for first in range(0, count, 2 * size)]
    left = [queue.ready_count()]
    error = CorruptRecord("a file", 0, "it is damaged")
    queue.go_without(lost, error)
    left.append(queue.ready_count())
    for _ in range(2_000):
        if not queue._dropping:
            break
        client.pair.a.node.turn()
        left.append(queue.ready_count())
    assert left[-1] == count // 2
    most = max(before - after for before, after in pairwise(left))
    # The last one of an entry may be cut.
    whole = OPENED_MAX // (levels + size // PACKED_MIN)
    assert size * min(whole, len(lost)) <= most <= size * min(whole + 1, len(lost))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_is_lost_is_passed_over_before_it_is_dropped(kind: str) -> None:
    """A client that consumes at once gets all that is not lost, and nothing else."""
    count = 6_000
    client = filled(kind, count)
    pair = client.pair
    queue = pair.a.queue("q")
    lost = [(n, n) for n in range(0, count - 10, 2)]
    queue.go_without(lost, CorruptRecord("a file", 0, "it is damaged"))
    assert queue._dropping
    client.send(spec.BasicConsume(0, "q", "c", False, True, False, False, {}))
    pair.until(lambda: len(client.messages) == count - len(lost))
    pair.until(lambda: not queue._dropping and not queue.live())
    pair.settle(20)
    assert len(client.messages) == count - len(lost)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_may_be_missing_is_looked_for_in_parts(kind: str) -> None:
    """After a start over damage all that is live is read, and first found out."""
    found: list[int] = []
    for count in COUNTS:
        client = filled(kind, count)
        pair = client.pair
        queue = pair.a.queue("q")
        longest(pair, queue, [(n, n) for n in range(1, count, 2)], count // 2)
        pair.settle(20)
        queue.fifo.part_runs = 500
        most = steps(queue.look_for_gaps)
        turns = 0
        while queue._look._runs is None:
            assert not queue._look.over() and queue.looking()
            most = max(most, steps(pair.a.node.turn))
            turns += 1
        assert turns >= count // 2_000
        for _ in range(20):
            pair.a.executor.step()
            most = max(most, steps(pair.a.node.turn))
        assert queue._look._runs.size == count // 2 and queue._look._next > 0
        found.append(most)
    assert found[1] <= 3 * found[0] // 2


def test_a_copy_that_is_read_is_gone_through_once() -> None:
    """What is left is not gone through for each part."""
    client = filled("quorum", 1_000)
    node = client.pair.a.node
    member = node.cluster.members[int(client.pair.a.queue("q").group_id)]
    found: list[int] = []
    for count in (500, 5_000):
        check = CopyCheck(node.repairs, member, "b", 1)
        check.begin(run_list([(n, n) for n in range(0, 2 * count, 2)]))
        found.append(steps(partial(check.raw_read, b"", 3, None)))
        assert check._runs.reaches(3) and check._next == 3
    assert found[1] <= found[0] + 60


def test_losses_are_joined_and_found() -> None:
    losses = Losses()
    for lost in ([(5, 6)], [(1, 2), (9, 9)], [(3, 4)], [(20, 29), (40, 49)], [(25, 45)], [(7, 7)]):
        losses.note(lost)
    losses.note([(40, 41)])
    assert losses.pairs() == [(1, 7), (9, 9), (20, 49)]
    assert [int(losses.end(n)) for n in (0, 1, 7, 8, 9, 10, 19, 20, 49, 50)] == [
        -1, 7, 7, -1, 9, -1, -1, 49, 49, -1,
    ]  # fmt: skip
