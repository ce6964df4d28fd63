"""Who is active in a machine that serves one consumer at a time."""

from __future__ import annotations

from librt.strings import BytesWriter

from tests.queues.driver import NOW_MS, Driven
from warren.queues.fifo import commands
from warren.queues.fifo.config import write_max_length, write_single_active


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
