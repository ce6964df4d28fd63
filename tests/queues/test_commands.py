"""Command payloads that no node writes: a machine leaves them out, alike wherever it runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.queues.driver import Driven
from warren.queues.fifo import commands
from warren.queues.fifo.effects import MALFORMED
from warren.queues.fifo.entry import Encoded, Meta

NUMBERS = st.sampled_from([-(1 << 63), -1, 0, 1, 2, 5, 1 << 24, (1 << 60) + 1, (1 << 63) - 1])
FIELDS = st.lists(NUMBERS.map(lambda number: number.to_bytes(8, "big", signed=True)), max_size=5)
TAILS = st.sampled_from([b"", b"\0", b"\1", b"\0\0\0\1g", b"\0\0\0\1\xff", b"\xff\xff\xff\xff"])
COMMAND = st.builds(
    lambda opcode, fields, tail: bytes([opcode]) + b"".join(fields) + tail,
    st.integers(0, 20),
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
    assert one.encode() == other.encode()
    restored = Driven()
    restored.restore(one.encode())
    assert restored.encode() == one.encode()


@given(COMMAND)
def test_a_command_cut_short_is_never_taken(command: bytes) -> None:
    end = commands.command_end(command, 0, len(command))
    for cut in range(1, end):
        assert commands.command_end(command, 0, cut) == -1
        assert commands.problem(command[:cut])
