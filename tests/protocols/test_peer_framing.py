"""Messages between nodes: whole and in order, however the bytes are cut; bounded, never slow."""

from __future__ import annotations

import random
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocols.peer_pair import ends, shake
from tests.support.examples import examples
from warren.errors import CorruptRecord
from warren.log.batch import KIND_MESSAGES
from warren.node.cluster import transfer
from warren.protocols.peer import refusal as codes
from warren.protocols.peer.complaints import Complaints
from warren.protocols.peer.framing import (
    COPY_BYTES_MAX,
    PART_BYTES,
    PART_FLAG,
    PARTED_BYTES_MAX,
    SLOTS,
    WHOLE_BYTES_MAX,
    LongMessage,
    MessageReader,
    MessageWriter,
)
from warren.protocols.peer.handshake import DONE, REFUSED
from warren.replication.frames import (
    HEAD_BYTES,
    check_seal,
    propose_frame,
    read_proposal,
    seal,
)
from warren.replication.kinds import FIRST_OF_GROUP
from warren.replication.proposals import Proposal
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.spec import BasicPublish

MESSAGES = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), max_size=12)
FUZZ_INPUTS = 100_000


def written(messages: list[list[bytes]]) -> bytes:
    writer = MessageWriter()
    for message in messages:
        assert writer.add(message)
    size = writer.size_bytes
    data = b"".join(writer.take())
    assert len(data) == size and writer.size_bytes == 0 and writer.take() == []
    return data


@given(MESSAGES, st.lists(st.integers(0, 2_000), max_size=12))
def test_split_anywhere(messages: list[list[bytes]], cuts: list[int]) -> None:
    messages = [message for message in messages if any(message)]
    data = written(messages)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    reader = MessageReader()
    got: list[bytes] = []
    for start, end in zip(edges, edges[1:], strict=False):
        got += reader.receive(data[start:end])
    assert got == [b"".join(message) for message in messages]
    assert reader.failure == 0 and reader.held_bytes == 0


@given(st.binary(max_size=300), st.integers(1, 40))
def test_arbitrary_bytes(data: bytes, step: int) -> None:
    """Anything is a sequence of messages, the beginning of one, or a declared error."""
    whole = MessageReader(64)
    expected = whole.receive(data)
    pieces = MessageReader(64)
    got = [m for at in range(0, len(data), step) for m in pieces.receive(data[at : at + step])]
    assert got == expected and pieces.failure == whole.failure
    assert whole.failure in (0, codes.TOO_LARGE, codes.EMPTY, codes.DAMAGED)
    assert all(1 <= len(message) <= 64 for message in got)
    if whole.failure == 0:
        assert whole.held_bytes <= 64 + 3


@pytest.mark.parametrize(
    ("size", "failure"),
    [(0, codes.EMPTY), (64, 0), (65, codes.TOO_LARGE), (2**31 - 1, codes.TOO_LARGE),
     (2**31, codes.DAMAGED), (2**32 - 1, codes.DAMAGED)],
)  # fmt: skip
def test_limits(size: int, failure: int) -> None:
    reader = MessageReader(64)
    head = size.to_bytes(4, "little")
    assert reader.receive(b"\x01\x00\x00\x00k" + head) == [b"k"], "what was before it counts"
    assert reader.failure == failure
    if failure:
        assert reader.receive(b"\x01\x00\x00\x00k") == []


def test_a_large_message_in_pieces_is_joined_once() -> None:
    """Joined at each piece, 32 MiB in 8,192 pieces would be 137 GB to copy."""
    piece = bytes(4_096)
    reader = MessageReader(1 << 25)
    reader.receive((1 << 25).to_bytes(4, "little"))
    started = time.perf_counter()
    for _ in range(8_191):
        assert reader.receive(piece) == []
    (message,) = reader.receive(piece)
    assert time.perf_counter() - started < 3.0
    assert len(message) == 1 << 25


def test_large_buffers_are_not_copied() -> None:
    writer = MessageWriter()
    body = bytes(COPY_BYTES_MAX + 1)
    writer.add([b"k", b"head", body, b"tail"])
    writer.add([b"k"])
    buffers = writer.take()
    assert len(buffers) == 3 and buffers[1] is body
    reader = MessageReader()
    assert reader.receive(b"".join(buffers)) == [b"khead" + body + b"tail", b"k"]


def test_small_messages_leave_in_one_buffer() -> None:
    writer = MessageWriter()
    for number in range(1_000):
        writer.add([b"k", number.to_bytes(4, "little")])
    (buffer,) = writer.take()
    assert len(buffer) == 9_000


def test_many_small_messages_leave_in_chunks() -> None:
    writer = MessageWriter()
    for _ in range(200):
        writer.add([bytes(8_192)])
    buffers = writer.take()
    assert 4 < len(buffers) < 10 and sum(map(len, buffers)) == 200 * 8_196


def test_what_no_node_takes_is_refused() -> None:
    mebibyte = bytes(1 << 20)
    writer = MessageWriter()
    for message in ([], [b""], [mebibyte] * 1_024 + [b"x"]):
        assert not writer.add(message)
    assert writer.size_bytes == 0 and writer.take() == []
    assert writer.add([mebibyte] * 1_024)


# --- parts --------------------------------------------------------------------------------------

SMALL = 40
"""Messages above this are cut in tests that make many."""


def about(lane: int, number: int, size: int) -> bytes:
    """A message of a lane, with a number; a large one if it is long enough."""
    return (
        bytes([FIRST_OF_GROUP]) + lane.to_bytes(8, "little") + number.to_bytes(4, "little") * size
    )


@settings(max_examples=examples(60))
@given(
    st.lists(st.tuples(st.integers(0, 6), st.sampled_from([1, 2, 100, 70_000])), max_size=16),
    st.lists(st.integers(0, 600_000), max_size=16),
    st.lists(st.integers(0, 1 << 22), max_size=30),
)
def test_parts(sizes: list[tuple[int, int]], rooms: list[int], cuts: list[int]) -> None:
    """However parts mix, all messages come once and whole, those of a lane in their order."""
    writer = MessageWriter(SMALL)
    reader = MessageReader(SMALL)
    sent: dict[int, list[bytes]] = {}
    data = bytearray()
    for number, (lane, size) in enumerate(sizes):
        message = about(lane, number, size)
        sent.setdefault(lane, []).append(message)
        assert writer.add([message[:5], message[5:]])
        if number < len(rooms):
            data += b"".join(writer.take(rooms[number]))
    data += b"".join(writer.take())
    assert writer.size_bytes == 0 and not writer.waits and writer.take() == []
    got: dict[int, list[bytes]] = {}
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in zip(edges, edges[1:], strict=False):
        for message in reader.receive(bytes(data[start:end])):
            got.setdefault(message[1], []).append(message)
    assert reader.failure == 0 and reader.held_bytes == 0
    assert got == sent


def test_small_messages_overtake_a_large_one_of_another_lane() -> None:
    writer = MessageWriter()
    reader = MessageReader()
    large = about(1, 7, WHOLE_BYTES_MAX)
    for message in (large, about(1, 8, 1), about(2, 9, 1)):
        assert writer.add([message])
    assert reader.receive(b"".join(writer.take(1))) == [about(2, 9, 1)]
    before = writer.size_bytes
    assert writer.add([b"\x01ping"]) and writer.size_bytes == before + 4 + 5
    assert reader.receive(b"".join(writer.take(1))) == [b"\x01ping"]
    assert writer.waits and reader.held_bytes == 2 * PART_BYTES
    assert reader.receive(b"".join(writer.take())) == [large, about(1, 8, 1)]


@pytest.mark.parametrize(("size_mebibytes", "together"), [(3, SLOTS), (600, 1)])
def test_no_more_is_under_way_in_parts_than_the_reader_keeps(
    size_mebibytes: int, together: int
) -> None:
    """What waits is in the memory of its sender only, and all come about."""
    mebibyte = bytes(1 << 20)
    writer = MessageWriter()
    for lane in range(2 * SLOTS):
        assert writer.add([about(lane, 0, 1), *[mebibyte] * size_mebibytes])
    data = b"".join(writer.take(2 * SLOTS * PART_BYTES))
    slots: list[int] = []
    at = 0
    while at < len(data):
        slots.append(data[at + 4])
        at += 4 + int.from_bytes(data[at : at + 4], "little") - PART_FLAG
    assert len(slots) == 2 * SLOTS and len(set(slots)) == together


@pytest.mark.parametrize(
    ("size", "slot", "failure"),
    [(1, 0, codes.DAMAGED), (PART_BYTES + 2, 0, codes.DAMAGED), (9, SLOTS, codes.DAMAGED),
     (9, 0x80 + SLOTS, codes.DAMAGED), (9, 0, 0), (9, 0x80, 0)],
)  # fmt: skip
def test_parts_that_have_no_place(size: int, slot: int, failure: int) -> None:
    reader = MessageReader()
    part = (PART_FLAG + size).to_bytes(4, "little") + bytes([slot]) + bytes(size - 1)
    reader.receive(b"\x01\x00\x00\x00k" + part)
    assert reader.failure == failure
    assert failure == 0 or reader.held_bytes == 0


def test_parts_without_an_end_are_bounded() -> None:
    reader = MessageReader()
    part = (PART_FLAG + PART_BYTES + 1).to_bytes(4, "little") + bytes(PART_BYTES + 1)
    fits = PARTED_BYTES_MAX // PART_BYTES
    reader._parted_bytes = (fits - 1) * PART_BYTES  # A gibibyte takes a while.
    assert reader.receive(part) == [] and reader.failure == 0
    assert reader.receive(part) == [] and reader.failure == codes.TOO_LARGE
    assert reader.held_bytes == 0


def test_fuzz() -> None:
    """Valid handshakes and streams with changes, and noise: a declared end, nothing else."""
    source = random.Random(1)
    one, other = ends()
    sides: dict[str, list[bytes]] = {">": [], "<": []}
    for side, data in shake(one, other):
        sides[side].append(data)
    stream = written([[b"k", source.randbytes(source.randint(0, 60))] for _ in range(8)])
    ended: dict[object, int] = {}
    for _ in range(FUZZ_INPUTS):
        which = source.randrange(3)
        if which == 2:
            reader = MessageReader(100)
            data = mutate(source, stream)
            reader.receive(data[: len(data) // 2])
            reader.receive(data[len(data) // 2 :])
            assert reader.failure in (0, codes.TOO_LARGE, codes.EMPTY, codes.DAMAGED)
            ended[reader.failure] = ended.get(reader.failure, 0) + 1
            continue
        valid = sides[">" if which else "<"]
        at = source.randrange(len(valid))
        end = ends()[which]
        for number, data in enumerate(valid):
            end.receive(mutate(source, data) if number == at else data)
        assert len(end.take_output()) < 4096
        if end.state == REFUSED:
            assert end.refusal is not None and end.refusal.text
            ended[end.refusal.code] = ended.get(end.refusal.code, 0) + 1
        else:
            ended[end.state] = ended.get(end.state, 0) + 1
    wanted = {codes.GARBAGE, codes.MALFORMED, codes.VERSION, codes.SECRET, codes.TOO_LARGE}
    assert wanted | {codes.EMPTY, DONE} <= set(ended), ended


def mutate(source: random.Random, data: bytes) -> bytes:
    """`data` with a change, or noise."""
    out = bytearray(data)
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(out) + 1)
        change = source.randrange(5)
        if change == 0 and out:
            out[at % len(out)] ^= 1 << source.randrange(8)
        elif change == 1 and out:
            # Sizes and kinds are here.
            out[source.randrange(min(16, len(out)))] = source.choice(b"\x00\x01\x02\x04\x7f\xff")
        elif change == 2:
            del out[at : at + source.randint(1, 8)]
        elif change == 3:
            out[at:at] = source.randbytes(source.randint(1, 8))
        elif source.random() < 0.1:
            out[:] = source.randbytes(source.randint(0, 60))
    return bytes(out)


def test_complaints() -> None:
    complaints = Complaints(1_000, 3)
    assert complaints.due("a", 0) and not complaints.due("a", 999)
    assert complaints.due("a", 1_000) and complaints.take_left_out("a") == 1
    assert complaints.due("b", 1_000) and complaints.due("c", 1_500)
    assert not complaints.due("d", 1_500), "a stranger with many addresses gets no more lines"
    assert complaints.due("d", 2_100), "room again"
    complaints.forget("d")
    assert complaints.due("d", 2_100)


def proposal_of(size: int) -> tuple[list[bytes], bytes]:
    """A proposal of one message, as buffers with their checksum, and its record."""
    method = BasicPublish(0, "", "q", False, False)
    record = content_frames(1, method, b"\0\0", bytes(size), 131_072)
    lengths = len(record).to_bytes(4, "little")
    message = propose_frame(7, 5, Proposal(1, KIND_MESSAGES, 1, lengths, record, None))
    seal(message)
    return message, record


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("size", [20_000, PART_BYTES, 1_000_000])
def test_the_messages_of_a_long_proposal_are_by_themselves(splits: bool, size: int) -> None:
    """If that is wanted; else it is whole. Its checksum is known either way."""
    message, record = proposal_of(size)
    writer = MessageWriter(SMALL)
    assert writer.add([b"\x01ping"]) and writer.add(message)
    reader = MessageReader(SMALL)
    reader.splits = splits
    got: list[bytes] = []
    found: list[LongMessage] = []
    data = b"".join(writer.take())
    for at in range(0, len(data), 70_000):
        got += reader.receive(data[at : at + 70_000])
        found += reader.long.values()
    assert len(got) == 2 and len(found) == 1 and reader.held_bytes == 0
    assert got[1] == found[0].message
    check_seal(b"", found[0].checksum)
    session, proposal = read_proposal(found[0].message, found[0].body)
    assert (session, proposal.payload) == (5, record)
    if splits:
        assert proposal.payload is found[0].body
    else:
        assert got[1] == b"".join(message) and found[0].body == b""


def test_a_long_message_is_made_as_it_comes() -> None:
    """Nothing that is as long as it is made when its last part comes, or when it is read."""
    message, record = proposal_of(32 << 20)
    writer = MessageWriter()
    assert writer.add(message)
    reader = MessageReader()
    reader.splits = True
    parts: list[bytes] = []
    while writer.waits:
        parts += writer.take(PART_BYTES)
    tracemalloc.start()
    for part in parts[:-2]:
        assert reader.receive(part) == []
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    assert len(reader.receive(b"".join(parts[-2:]))) == 1
    found = reader.long[0]
    _, proposal = read_proposal(found.message, found.body)
    check_seal(found.message, found.checksum)
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert proposal.payload == record and most < 4 << 20


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("size", [20_000, PART_BYTES, 1_000_000])
def test_what_a_snapshot_has_is_by_itself(splits: bool, size: int) -> None:
    """What is before it, and its checksum, is the message."""
    writer = MessageWriter(SMALL)
    head, payload = transfer.snapshot_frame(7, transfer.DONE, 5).getvalue() + bytes(20), bytes(size)
    message = [head, payload]
    seal(message)
    assert writer.add(message)
    reader = MessageReader(SMALL)
    reader.splits = splits
    got = reader.receive(b"".join(writer.take()))
    found = reader.long[0]
    check_seal(b"", found.checksum)
    if splits:
        assert (got, found.body) == ([head + message[-1]], payload)
    else:
        assert (got, found.body) == ([b"".join(message)], b"")


def test_a_proposal_that_is_cut_elsewhere_is_read_all_the_same() -> None:
    message, record = proposal_of(100)
    frame = b"".join(message)
    for at in range(HEAD_BYTES + 21, len(frame) - 4):
        body = frame[at:-4]
        _, proposal = read_proposal(frame[:at] + frame[-4:], body)
        assert proposal.payload == record
        with pytest.raises(CorruptRecord):
            read_proposal(frame[:at] + frame[-4:], body + b"x")
    # Or where its messages begin, which are none then.
    with pytest.raises(CorruptRecord):
        read_proposal(frame[: -4 - len(record)] + frame[-4:], record + b"x")
