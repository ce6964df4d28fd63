"""Who is active in a machine that serves one consumer at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from librt.strings import BytesWriter

from tests.queues.driver import NOW_MS, Driven
from warren.queues.fifo import commands
from warren.queues.fifo.config import write_max_length, write_single_active
from warren.queues.fifo.effects import Reply

TIMEOUT_MS = 1_000
LATE_MS = NOW_MS + 2 * TIMEOUT_MS


def fields() -> bytes:
    out = BytesWriter()
    write_single_active(out)
    return out.getvalue()


def single(keeps_place: bool = False) -> Driven:
    queue = Driven(20, keeps_place)
    queue.write(lambda out: commands.config(out, fields()))
    return queue


def served(queue: Driven) -> list[int]:
    """Who was handed something since the last look."""
    found = [int(delivery.consumer.id) for delivery in queue.deliveries]
    queue.deliveries = []
    return found


def again(queue: Driven) -> Driven:
    """A machine restored from the other one's snapshot."""
    other = Driven(-2)
    other.restore(queue.encode())
    assert other.encode() == queue.encode()
    return other


def test_a_snapshot_knows_who_is_active_and_who_has_to_finish() -> None:
    queue = single()
    queue.enqueue(0, 4)
    queue.attach(1, 1, 0)
    queue.attach(2, 1, 0)
    queue.dispatch()
    assert served(queue) == [1]
    queue.attach(3, 5, 5)
    queue.dispatch()
    for each in (queue, again(queue)):
        each.dispatch()
        assert served(each) == []
        each.settle(1, 0, 0)
        each.dispatch()
        assert served(each) == [3]
        each.down(3)
        each.dispatch()
        assert served(each) == [1]


def test_it_may_be_said_when_consumers_are_there() -> None:
    """A leader that had not heard of it set the queue up: from then on one is served."""
    queue = Driven(20)
    queue.attach(1, 5, 0)
    queue.attach(2, 5, 1)
    queue.entry(lambda out: commands.config(out, fields()))
    queue.enqueue(0, 3)
    queue.dispatch()
    assert set(served(queue)) == {2}
    assert again(queue).config.single_active


def test_thousands_go_with_one_entry() -> None:
    """Who is next is looked for once."""
    queue = single(True)
    count = 20_000
    for consumer_id in range(1, count + 1):
        queue.attach(consumer_id, 1, 0)
    queue.enqueue(0, 1)
    queue.dispatch()
    queue.down_all(list(range(1, count)))
    queue.dispatch()
    assert served(queue) == [1, count]


def test_the_settings_of_a_snapshot_are_all_there_are() -> None:
    """What was in force before and was taken back meanwhile does not stay."""

    def limited(value: int) -> bytes:
        out = BytesWriter()
        write_max_length(out, value)
        return out.getvalue()

    lags, leads = Driven(20), Driven(20)
    for queue in (lags, leads):
        queue.entry(lambda out: commands.config(out, limited(3)))
    leads.entry(lambda out: commands.config(out, limited(-1)))
    lags.restore(leads.encode())
    assert lags.config.max_length == -1
    assert lags.encode() == leads.encode()


def test_who_held_messages_too_long_waits_also_where_it_is_said_late() -> None:
    """A machine that was there and one from a snapshot serve the same consumer."""
    queue = Driven(20)
    timeout_ms = 1_000
    queue.write(lambda out: commands.attach_timed(out, 1, 5, 9, timeout_ms), now_ms=NOW_MS)
    queue.enqueue(0, 2)
    queue.dispatch()
    assert served(queue) == [1]
    queue.write(commands.time_out, now_ms=NOW_MS + 2 * timeout_ms)
    queue.write(lambda out: commands.config(out, fields()), now_ms=NOW_MS + 2 * timeout_ms)
    queue.attach(2, 5, 0)
    other = again(queue)
    for each in (queue, other):
        each.dispatch()
        assert set(served(each)) == {2}
        each.settle(1, 0, 1)
        each.settle(2, 0, 1)
        each.enqueue(2, 1)
        each.dispatch()
        assert served(each) == [1], "it has settled all, and has the higher priority"


def timed(queue: Driven, consumer_id: int, priority: int = 0) -> None:
    """A consumer arrives that may hold each message for a second."""
    queue.write(lambda out: commands.attach_timed(out, consumer_id, 2, priority, TIMEOUT_MS))


def timed_out(priority: int) -> Driven:
    """Consumer 1 held messages 0 and 1 for too long, so that 2, of priority 0, has them now."""
    queue = single()
    timed(queue, 1, priority)
    timed(queue, 2)
    queue.enqueue(0, 2)
    queue.dispatch()
    assert served(queue) == [1]
    queue.write(commands.time_out, now_ms=LATE_MS)
    queue.dispatch()
    assert set(served(queue)) == {2}
    return queue


LATE_SETTLES: dict[str, Callable[[Driven], Reply]] = {
    "settles": lambda queue: queue.write(lambda out: commands.settle(out, 1, 0, 1)),
    "rejects": lambda queue: queue.write(lambda out: commands.discard(out, 1, 0, 1)),
    "returns": lambda queue: queue.write(lambda out: commands.return_(out, 1, 0, 1, False)),
}


@pytest.mark.rule("QQ-18", "CT-15")
@pytest.mark.parametrize("how", LATE_SETTLES)
@pytest.mark.parametrize("restored", [False, True])
def test_who_settles_late_waits_for_its_turn(how: str, restored: bool) -> None:
    """It is not served beside the one that took over, and gives nothing up of what that has."""
    queue = timed_out(0)
    if restored:
        queue = again(queue)
    LATE_SETTLES[how](queue)
    queue.enqueue(2, 4)
    queue.dispatch()
    assert served(queue) == [], "the active one has all it may hold"
    assert int(queue.held) == 2
    queue.settle(2, 0, 1)
    queue.dispatch()
    assert set(served(queue)) == {2}
    queue.settle(2, 2, 3)
    queue.cancel(2)
    queue.dispatch()
    assert set(served(queue)) == {1}, "now it is its turn"


@pytest.mark.rule("QQ-18", "CT-15")
@pytest.mark.parametrize("how", LATE_SETTLES)
def test_who_settles_late_takes_over_behind_the_active_one(how: str) -> None:
    """With a higher priority it is next, when the active one has settled what it holds."""
    queue = timed_out(5)
    LATE_SETTLES[how](queue)
    queue.enqueue(2, 4)
    queue.dispatch()
    queue.settle(2, 0, 0)
    queue.dispatch()
    assert served(queue) == []
    queue.settle(2, 1, 1)
    queue.dispatch()
    assert set(served(queue)) == {1}


@pytest.mark.rule("QQ-18")
@pytest.mark.parametrize("priority", [0, 5])
@pytest.mark.parametrize("active_at", [0, 1, 2])
@pytest.mark.parametrize("holds", [False, True])
def test_who_is_active_stays_so_behind_a_snapshot(
    priority: int, active_at: int, holds: bool
) -> None:
    """Beside others of its priority, whether these came before or after it, with more credit."""
    queue = single()
    ids = [7, 3, 5]
    for at, consumer_id in enumerate(ids):
        queue.attach(consumer_id, 3 if at == active_at else 9, priority)
        if at < active_at:
            queue.cancel(consumer_id)
        queue.dispatch()
    for at in range(active_at):
        queue.attach(10 + at, 9, priority)
    queue.enqueue(0, 1)
    queue.dispatch()
    active = ids[active_at]
    assert served(queue) == [active]
    if not holds:
        queue.settle(active, 0, 0)
        queue.dispatch()
    for each in (again(queue), queue):
        for number in range(1, 4):
            each.enqueue(number, 1)
            each.dispatch()
            assert served(each) == ([] if holds and number == 3 else [active])
        first = next(int(each_id) for each_id in each.consumers if int(each_id) != active)
        each.settle(active, 0, 9)
        each.cancel(active)
        each.enqueue(4, 1)
        each.dispatch()
        assert set(served(each)) == {first}, "then whoever waits for longest"
