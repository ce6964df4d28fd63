"""Command payloads that no node writes: a machine leaves them out, alike wherever it runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.queues.driver import Driven
from warren.queues.fifo import commands
from warren.queues.fifo.effects import MALFORMED, LeaseReply
from warren.queues.fifo.entry import Encoded, Meta
from warren.queues.fifo.runs import RunQueue

NUMBERS_TOP = (1 << 63) - 1
NUMBERS = st.sampled_from([-(1 << 63), -1, 0, 1, 2, 5, 1 << 24, (1 << 60) + 1, NUMBERS_TOP])
FIELDS = st.lists(NUMBERS.map(lambda number: number.to_bytes(8, "big", signed=True)), max_size=5)
TAILS = st.sampled_from([b"", b"\0", b"\1", b"\0\0\0\1g", b"\0\0\0\1\xff", b"\xff\xff\xff\xff"])
COMMAND = st.builds(
    lambda opcode, fields, tail: bytes([opcode]) + b"".join(fields) + tail,
    st.integers(0, commands.PICK + 1),
    FIELDS,
    TAILS,
)
PAYLOADS = st.lists(COMMAND, max_size=4).map(b"".join)


@given(st.lists(PAYLOADS, max_size=6), st.binary(max_size=40))
def test_any_payload_comes_to_the_same_state_wherever_it_lies(
    payloads: list[bytes], behind: bytes
) -> None:
    one, other = Driven(), Driven()
    for fifo in (one, other):
        fifo.enqueue(0, 10, 105)
    for payload in payloads:
        first, _ = one.apply(Meta(5), Encoded(payload, 0, len(payload)))
        one.dispatch()
        whole = b"xyz" + payload + behind
        second, _ = other.apply(Meta(5), Encoded(whole, 3, 3 + len(payload)))
        other.dispatch()
        assert first.code == second.code
        if not payload or commands.problem(payload) == "":
            assert first.code != MALFORMED
        if commands.problem(payload) == "":
            one.check()
    assert one.encode() == other.encode()
    restored = Driven()
    restored.restore(one.encode())
    assert restored.encode() == one.encode()


@pytest.mark.parametrize("up_to", [0, 3, 4, NUMBERS_TOP - 1, NUMBERS_TOP])
@pytest.mark.parametrize("rows", [1, 5, NUMBERS_TOP])
def test_a_checkout_counts_up_to_the_highest_bound(up_to: int, rows: int) -> None:
    """Of messages from number 0 on, one more than the highest number is no number any more."""
    fifo = Driven()
    fifo.enqueue(0, 10, 105)
    fifo.acquire("g")
    reply = fifo.write(lambda out: commands.checkout(out, "g", 1, 0, rows, up_to))
    assert isinstance(reply, LeaseReply)
    assert reply.count == min(rows, up_to + 1, 10)
    fifo.check()


@pytest.mark.parametrize(("first", "gone"), [(0, 10), (3, 7), (-NUMBERS_TOP - 1, 10)])
def test_what_left_counts_up_to_the_highest_bound(first: int, gone: int) -> None:
    fifo = Driven()
    fifo.enqueue(0, 10, 105)
    fifo.entry(lambda out: commands.free(out, first, NUMBERS_TOP))
    fifo.entry(lambda out: commands.free(out, first, -NUMBERS_TOP - 1))
    assert fifo.ready.count == 10 - gone
    fifo.check()


@given(COMMAND)
def test_a_command_cut_short_is_never_taken(command: bytes) -> None:
    end = commands.command_end(command, 0, len(command))
    for cut in range(1, end):
        assert commands.command_end(command, 0, cut) == -1
        assert commands.problem(command[:cut])


@given(st.lists(st.integers(0, 1 << 40), max_size=9, unique=True), st.text(max_size=9))
def test_runs_of_a_checkout_are_whole_or_none(numbers: list[int], group: str) -> None:
    messages = RunQueue()
    for number in numbers:
        messages.push(number, number, number % 3, number % 2)
    out = BytesWriter()
    commands.taken(out, group, 7, 9, messages.freeze())
    command = out.getvalue()
    end = len(command)
    assert commands.command_end(command + b"\0", 0, end + 1) == end
    for cut in range(1, end):
        assert commands.command_end(command, 0, cut) == -1
    assert "for a queue of one node" in commands.problem(command)


def test_a_group_has_what_a_log_says_as_far_as_it_is_here() -> None:
    """The bodies of some may be gone, since an entry behind it says that they left."""
    fifo = Driven(keeps_place=True)
    fifo.enqueue(0, 3, 30)
    fifo.enqueue(6, 4, 40)
    fifo.transient.push(0, 9)
    fifo.acquire("g")
    messages = RunQueue()
    messages.push(1, 4, 2, 1)
    messages.push(7, 7)
    out = BytesWriter()
    commands.taken(out, "g", 3, 9, messages.freeze())
    commands.taken(out, "unknown", 1, 9, messages.freeze())
    fifo.apply(Meta(5), Encoded(out.getvalue(), 0, len(out)))
    (checkout,) = fifo.groups["g"].open
    assert (checkout.number, checkout.opened_ms, fifo.groups["g"].last) == (3, 9, 3)
    assert checkout.messages.quadruples() == [(1, 2, 2, 1), (7, 7, 0, 0)]
    assert [pair[:2] for pair in fifo.ready.quadruples()] == [(0, 0), (6, 6), (8, 9)]
    assert fifo.transient.pairs() == [(0, 0), (3, 6), (8, 9)]
    fifo.check()
