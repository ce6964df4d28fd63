"""What frames between nodes say of the messages that they carry."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.node.pair import sealed
from warren.errors import CorruptRecord
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, Batch
from warren.log.facts import SIZES
from warren.message.flavours import FLAVOUR_MAX
from warren.message.properties import EXACT_MS_MAX
from warren.replication.frames import (
    COUNT_BITS,
    PROPOSE_BYTES,
    count_at,
    flavour_at,
    propose_frame,
    read_proposal,
    write_count,
)
from warren.replication.observing_frames import Feed, feed_head, write_entry
from warren.replication.proposals import Proposal
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.spec import BasicPublish


@given(st.integers(0, (1 << COUNT_BITS) - 1), st.integers(0, FLAVOUR_MAX), st.binary(max_size=9))
def test_a_count_says_the_flavour_too(count: int, flavour: int, before: bytes) -> None:
    writer = BytesWriter()
    writer.write(before)
    write_count(writer, count, flavour)
    data = writer.getvalue()
    assert len(data) == len(before) + 4
    assert (count_at(data, len(before)), flavour_at(data, len(before))) == (count, flavour)
    if flavour == 0:
        assert data[len(before) :] == count.to_bytes(4, "little")


def test_a_command_has_no_flavour() -> None:
    proposal = Proposal(1, KIND_COMMAND, 0, b"", b"x", None, 1)
    with pytest.raises(CorruptRecord):
        read_proposal(sealed(b"".join(propose_frame(7, 1, proposal))))


@pytest.mark.parametrize("life_ms", [-1, 0, 500, EXACT_MS_MAX, 315_360_000_000])
def test_a_proposal_says_after_what_time_its_messages_expire(life_ms: int) -> None:
    record = content_frames(1, BasicPublish(0, "", "q", False, False), b"\0\0", b"x", 99)
    lengths = len(record).to_bytes(4, "little")
    proposal = Proposal(1, KIND_MESSAGES, 1, lengths, record, None, 0, life_ms)
    frame = b"".join(propose_frame(7, 5, proposal))
    session, back = read_proposal(sealed(frame))
    assert (session, back.kind, back.count, back.life_ms) == (5, KIND_MESSAGES, 1, life_ms)
    assert (back.lengths, back.payload) == (lengths, record)
    # Nothing more of those that do not expire.
    assert len(frame) == PROPOSE_BYTES + 4 + len(record) + (0 if life_ms < 0 else 4)


def test_a_proposal_carries_facts_of_its_messages() -> None:
    record = content_frames(1, BasicPublish(0, "", "q", False, False), b"\0\0", b"x", 99)
    lengths = 2 * len(record).to_bytes(4, "little")
    facts = struct.pack("<3I", SIZES, 7, 9)
    for life_ms in (-1, 5):
        proposal = Proposal(1, KIND_MESSAGES, 2, lengths, 2 * record, None, 0, life_ms, facts)
        frame = b"".join(propose_frame(7, 5, proposal))
        _, back = read_proposal(sealed(frame))
        assert (back.lengths, back.facts, back.payload) == (lengths, facts, 2 * record)
        assert (back.count, back.life_ms) == (2, life_ms)
    cut = frame[: -2 * len(record) - 1]
    with pytest.raises(CorruptRecord, match="facts of messages"):
        read_proposal(sealed(cut))


def test_a_feed_carries_them_without_the_messages() -> None:
    facts = struct.pack("<3I", SIZES, 7, 9)
    writer = feed_head(7, 1, 6, 2, "a")
    for index, known in ((5, facts), (6, b"")):
        batch = Batch(
            None, KIND_MESSAGES, index, 2, 2 * index, 2, 0, bytes([3, 0, 0, 0]) * 2, 0, b"foobar",
            0, 6, None, 4, 1, 0, -1, known,
        )  # fmt: skip
        batch.group_id = 7
        write_entry(writer, batch)
    entries = Feed(sealed(writer.getvalue())).entries
    assert [(each.index, each.facts, each.payload_size) for each in entries] == [
        (5, facts, 6),
        (6, b"", 6),
    ]


def test_a_command_does_not_expire_nor_does_a_time_say_never() -> None:
    command = Proposal(1, KIND_COMMAND, 0, b"", b"x", None, 0, 5)
    with pytest.raises(CorruptRecord):
        read_proposal(sealed(b"".join(propose_frame(7, 1, command))))
    frame = bytearray(b"".join(propose_frame(7, 1, command)))
    frame[PROPOSE_BYTES - 4 : PROPOSE_BYTES] = bytes(4)
    with pytest.raises(CorruptRecord, match="expire that do not"):
        read_proposal(sealed(bytes(frame)))
    for size in range(PROPOSE_BYTES - 4, PROPOSE_BYTES + 3):
        with pytest.raises(CorruptRecord):
            read_proposal(sealed(bytes(frame[:size])))
