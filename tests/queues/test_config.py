"""Settings of a machine, which an entry of the log may change at any time."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from tests.queues.driver import Driven
from warren.queues.fifo import commands
from warren.queues.fifo.config import (
    write_delivery_limit,
    write_expires,
    write_failures,
    write_keeps_place,
)
from warren.queues.fifo.effects import MALFORMED


def limit(value: int) -> bytes:
    """The fields of a CONFIG with a delivery limit only."""
    out = BytesWriter()
    write_delivery_limit(out, value)
    return out.getvalue()


def place(keeps: bool) -> bytes:
    """Those with the other setting only."""
    out = BytesWriter()
    write_keeps_place(out, keeps)
    return out.getvalue()


def alone(failures: bool) -> bytes:
    """Those with what counts only."""
    out = BytesWriter()
    write_failures(out)
    return out.getvalue()[:-1] + bytes([failures])


def configured(fields: bytes, queue: Driven | None = None) -> Driven:
    """A queue after a CONFIG."""
    queue = queue or Driven(-2)
    queue.entry(lambda out: commands.config(out, fields))
    return queue


def failed_delivery(queue: Driven) -> None:
    """Everything is handed out and comes back once."""
    queue.attach(1, 100, 0)
    queue.dispatch()
    queue.down(1)
    queue.dispatch()


def test_a_new_limit_is_for_what_returns_from_then_on() -> None:
    """Deliveries before it count; what is ready stays ready until it returns once more."""
    queue = configured(limit(20))
    queue.enqueue(0, 3)
    for _ in range(4):
        failed_delivery(queue)
    configured(limit(2), queue)
    assert queue.ready_count() == 3 and queue.dropped == 0
    failed_delivery(queue)
    assert queue.ready_count() == 0 and queue.dropped == 3


def test_what_is_on_its_way_back_has_the_limit_it_returned_under() -> None:
    queue = configured(limit(0))
    for number in range(5):
        queue.enqueue(2 * number, 1)
    queue.return_max = 2
    failed_delivery(queue)
    assert queue.returning() and queue.dropped == 2
    restored = Driven()
    restored.restore(queue.encode())
    for each in (queue, restored):
        configured(limit(-1), each)
        while each.unfinished():
            each.dispatch()
        assert each.dropped == 5 and each.ready_count() == 0


def given_back(queue: Driven) -> None:
    """Everything is handed out and comes back once, and has not failed."""
    queue.attach(1, 100, 0)
    queue.dispatch()
    queue.return_(1, 0, 99, False)
    queue.down(1)
    queue.dispatch()


def test_from_a_setting_on_failures_count_and_it_stays() -> None:
    """What returned before keeps both of its counts; what is on its way back is judged as it was
    when it returned, also by who goes on from a snapshot.
    """
    for failures in (False, True):
        queue = configured(limit(1) + (alone(True) if failures else b""))
        queue.enqueue(0, 1)
        queue.enqueue(2, 1)
        given_back(queue)
        assert queue.ready.quadruples() == [(0, 0, 1, 0), (2, 2, 1, 0)]
        queue.return_max = 1
        given_back(queue)
        assert queue.returning() and queue.dropped == (0 if failures else 1)
        restored = Driven()
        restored.restore(queue.encode())
        for each in (queue, restored):
            each.return_max = 1
            configured(alone(True), each)
            configured(alone(False), each)
            while each.unfinished():
                each.dispatch()
            assert each.config.failures and each.dropped == (0 if failures else 2)
            assert each.encode() == queue.encode()
    for dropped in (0, 2):
        failed_delivery(queue)
        while queue.unfinished():
            queue.dispatch()
        assert queue.dropped == dropped


def test_without_a_limit_returns_go_to_the_back_and_with_one_to_the_head() -> None:
    queue = configured(limit(-1))
    queue.enqueue(0, 4)
    for value, order in ((-1, [2, 3, 0, 1]), (20, [2, 3, 0, 1]), (-1, [0, 1, 2, 3])):
        configured(limit(value), queue)
        queue.attach(9, 2, 0)
        queue.dispatch()
        queue.down(9)
        queue.dispatch()
        ready = queue.ready.quadruples()
        assert [n for first, last, _, _ in ready for n in range(first, last + 1)] == order


def test_a_config_sets_what_it_names_and_may_come_twice() -> None:
    queue = configured(place(True) + limit(7))
    state = configured(limit(7), queue).encode()
    assert queue.config.keeps_place and queue.config.delivery_limit == 7
    assert configured(place(True) + limit(7), queue).encode() == state


def test_a_queue_does_not_begin_to_keep_places_when_it_has_had_messages() -> None:
    """They may lie in any order by then."""
    queue = configured(limit(-1))
    queue.enqueue(0, 1)
    configured(place(True), queue)
    assert not queue.config.keeps_place


WRONG = {
    "unknown": b"\x63\0\x01\0",
    "zero": b"\0\0\0",
    "cut off": limit(1)[:-1],
    "a field begins": limit(1) + b"\x02",
    "no such value": b"\x01\0\x01\x02",
    "wrong size": b"\x02\0\x01\0",
}


@pytest.mark.parametrize("fields", WRONG.values(), ids=WRONG)
def test_fields_that_no_node_of_this_release_writes(fields: bytes) -> None:
    """They end the entry, and none of them is applied."""
    queue = configured(limit(5))
    reply = queue.entry(lambda out: commands.config(out, limit(9) + fields))
    assert reply.code == MALFORMED and queue.config.delivery_limit == 5
    out = BytesWriter()
    commands.config(out, fields)
    assert "unknown setting" in commands.problem(out.getvalue())


def test_a_group_is_not_told_to_keep_places() -> None:
    out = BytesWriter()
    commands.config(out, limit(20) + place(True))
    assert "one node" in commands.problem(out.getvalue())
    out = BytesWriter()
    commands.config(out, limit(20) + place(False))
    assert commands.problem(out.getvalue()) == ""


@pytest.mark.parametrize("version", [1, 2])
def test_a_state_of_an_earlier_version_is_refused(version: int) -> None:
    state = Driven(20).encode()
    with pytest.raises(
        ValueError, match=f"version {version}; this build reads versions 3 to 6 only"
    ):
        Driven().restore(bytes([version]) + state[1:])


def expires(value: int) -> bytes:
    """The fields of a CONFIG with the time that a queue may be unused only."""
    out = BytesWriter()
    write_expires(out, value)
    return out.getvalue()


def test_when_a_queue_was_used_counts_from_when_it_may_expire_and_is_in_its_state() -> None:
    queue = configured(limit(20))
    assert queue.encode()[0] == 3
    queue.write(lambda out: commands.config(out, expires(500)), now_ms=2_000)
    assert queue.unused_since() == 2_000
    queue.write(lambda out: commands.config(out, expires(600)), now_ms=3_000)
    assert queue.unused_since() == 2_000
    for write, unused in (
        (lambda out: commands.get(out, 7), True),
        (lambda out: commands.attach(out, 7, 10, 0), False),
        (lambda out: commands.down(out, 7), True),
        (lambda out: commands.acquire(out, "g", 0), True),
    ):
        at = queue.used_ms + 1_000
        queue.write(write, now_ms=at)
        queue.dispatch()
        assert queue.unused_since() == (at if unused else -1)
    assert queue.encode()[0] == 5
    restored = Driven(-2)
    restored.restore(queue.encode())
    assert restored.unused_since() == queue.unused_since()
    assert restored.config.expires_ms == 600 and restored.encode() == queue.encode()


def test_what_is_held_is_used_until_it_is_settled() -> None:
    queue = configured(limit(20) + expires(500))
    queue.enqueue(0, 2)
    assert queue.get(7) is not None
    queue.write(lambda out: commands.checkout(out, "g", 1, 0, 1, -1))
    assert queue.unused_since() == -1
    queue.write(lambda out: commands.settle(out, 7, 0, 0), now_ms=9_000)
    assert queue.unused_since() == 9_000
    queue.write(lambda out: commands.acquire(out, "g", 0), now_ms=9_000)
    queue.write(lambda out: commands.checkout(out, "g", 1, 0, 1, -1), now_ms=9_000)
    assert queue.unused_since() == -1
    queue.write(lambda out: commands.group_release(out, "g", 1), now_ms=9_500)
    assert queue.unused_since() == 9_500
    queue.write(lambda out: commands.attach(out, 8, 1, 0), now_ms=9_600)
    queue.dispatch()
    queue.fifo.down_all([8], 9_700)
    assert queue.unused_since() == 9_700
