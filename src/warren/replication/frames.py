"""The messages between nodes about groups: a kind, the group, and what the kind says.

    RAFT      u32 size, u32 CRC-32 of the message, begun with the lower 32 bits of the group, a
              message of `raft.wire`, then whole batches if it is an append; these have checksums of
              their own
    PROPOSE   session i64, sequence i64, kind u8, count u32, lengths count x u32, payload
              the upper four bits of the count are the flavour of the records; with 64 added to
              the kind a u32 stands before the count, after what time they expire (`life_code`);
              with 32 added to it facts (`warren.log.facts`) stand behind the lengths
    EXPECT    session i64, sequence i64
    SNAPSHOT  see `node/cluster/transfer.py`

Those between a member and an observer are in `observing_frames.py`.

All numbers are little-endian. Every frame begins with its kind (u8) and the group (i64).

All messages between nodes but RAFT, also those without a group, end in the CRC-32 (u32) of what is
before it. Those of `node.remote.frames` and these are read with it at their end.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from warren.checksum import crc32
from warren.errors import CorruptRecord, UnknownFlavour
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, life_code, life_of, write_checksum
from warren.log.facts import facts_end
from warren.message.flavours import FLAVOUR_MAX, check_of
from warren.replication.kinds import EXPECT, PROPOSE, RAFT
from warren.replication.proposals import Proposal

HEAD_BYTES: Final = 9
RAFT_BYTES: Final = HEAD_BYTES + 8
PROPOSE_BYTES: Final = HEAD_BYTES + 21
EXPIRING: Final = 64
"""Added to a proposal's kind where its messages expire."""
WITH_FACTS: Final = 32
"""Added to it where facts of each message lie behind the lengths."""
COUNT_BITS: Final = 28
"""Of a count of records; above them is their flavour."""
SEAL_BYTES: Final = 4
SEALED: Final = 0x2144_DF1C
"""The CRC-32 of anything with its own CRC-32 behind it."""
UNKNOWN: Final = -1
"""In the place of a checksum."""


def seal(message: list[bytes]) -> None:
    """Append the checksum of a message that is about to be sent."""
    checksum: i64 = 0
    for buffer in message:
        checksum = crc32(buffer, checksum)
    writer = BytesWriter()
    write_checksum(writer, checksum)
    message.append(writer.getvalue())


def check_seal(message: bytes, known: int = UNKNOWN) -> None:
    """Check that a message is what was sent.

    Args:
        known: The CRC-32 of the message, if it was computed as it came.

    Raises:
        CorruptRecord: It is not.
    """
    if (crc32(message) if known == UNKNOWN else known) != SEALED:
        raise CorruptRecord("a frame of a node", 0, "it has another checksum")


def end_of(frame: bytes) -> i64:
    """Where what a frame says ends: its checksum follows."""
    return len(frame) - SEAL_BYTES


def head(kind: i64, group_id: i64) -> BytesWriter:
    """A frame's beginning."""
    writer = BytesWriter()
    writer.append(u8(kind))
    write_i64_le(writer, group_id)
    return writer


def group_of(frame: bytes) -> i64:
    """The group a frame is about, -1 if it is too short to say."""
    return -1 if len(frame) < HEAD_BYTES else read_i64_le(frame, 1)


def raft_frame(group_id: i64, message: bytes) -> bytes:
    """A message of Raft; the batches of an append follow as buffers of their own."""
    writer = head(RAFT, group_id)
    write_i32_le(writer, i32(len(message)))
    write_checksum(writer, crc32(message, group_id & 0xFFFF_FFFF))
    writer.write(message)
    return writer.getvalue()


def raft_message(frame: bytes) -> bytes:
    """The message of Raft in a frame; behind it, `RAFT_BYTES` and its size, the batches begin.

    Raises:
        CorruptRecord: The frame is cut off, or not what was sent.
    """
    size = i64(read_i32_le(frame, HEAD_BYTES)) if len(frame) >= RAFT_BYTES else -1
    if size < 0 or RAFT_BYTES + size > len(frame):
        raise CorruptRecord("a frame of a node", 0, "a message of Raft is cut off")
    message = frame[RAFT_BYTES : RAFT_BYTES + size]
    stored = i64(read_i32_le(frame, HEAD_BYTES + 4)) & 0xFFFF_FFFF
    if crc32(message, group_of(frame) & 0xFFFF_FFFF) != stored:
        raise CorruptRecord("a frame of a node", 0, "a message of Raft has another checksum")
    return message


def propose_frame(group_id: i64, session: i64, proposal: Proposal) -> list[bytes]:
    """A proposal, as buffers."""
    writer = head(PROPOSE, group_id)
    write_i64_le(writer, session)
    write_i64_le(writer, proposal.sequence)
    kind = proposal.kind
    if proposal.life_ms >= 0:
        kind |= EXPIRING
    if proposal.facts:
        kind |= WITH_FACTS
    writer.append(u8(kind))
    if proposal.life_ms >= 0:
        write_checksum(writer, life_code(proposal.life_ms))
    write_count(writer, proposal.count, proposal.flavour)
    if proposal.facts:
        return [writer.getvalue(), proposal.lengths, proposal.facts, proposal.payload]
    return [writer.getvalue(), proposal.lengths, proposal.payload]


def read_proposal(frame: bytes, body: bytes = b"") -> tuple[int, Proposal]:
    """Session and proposal.

    Args:
        body: Records that would be in the frame, between what it says of them and its checksum.

    Raises:
        CorruptRecord: The frame is cut off, or no node would submit this.
    """
    need(frame, PROPOSE_BYTES)
    if body and _records_in(frame) != end_of(frame):
        # It was cut somewhere else.
        frame = frame[:-SEAL_BYTES] + body + bytes(SEAL_BYTES)
        body = b""
    session = read_i64_le(frame, HEAD_BYTES)
    kind: i64 = frame[HEAD_BYTES + 16]
    counted_at: i64 = PROPOSE_BYTES - 4
    life_ms: i64 = -1
    with_facts = kind & WITH_FACTS != 0
    if with_facts:
        kind -= WITH_FACTS
    if kind & EXPIRING:
        kind -= EXPIRING
        life_ms = life_at(frame, counted_at)
        counted_at += 4
    at = records_at(frame, counted_at)
    lengths = frame[counted_at + 4 : at]
    count = count_at(frame, counted_at)
    facts = b""
    if with_facts:
        behind = facts_end(frame, at, count, end_of(frame))
        if behind < 0 or count == 0:
            raise CorruptRecord("a frame of a node", int(at), "facts of messages that are none")
        facts = frame[at:behind]
        at = behind
    flavour = flavour_at(frame, counted_at)
    if session < 1 or not KIND_MESSAGES <= kind <= KIND_COMMAND:
        raise CorruptRecord("a frame of a node", 0, "a proposal that no session makes")
    if (count == 0) != (kind == KIND_COMMAND) or (count == 0 and (flavour != 0 or life_ms >= 0)):
        raise CorruptRecord("a frame of a node", 0, "kind and count contradict each other")
    if count > 0 and body:
        check_each(frame, counted_at, body, 0, len(body))
    elif count > 0:
        check_records(frame, counted_at, at)
    sequence = read_i64_le(frame, HEAD_BYTES + 8)
    payload = body or frame[at : end_of(frame)]
    return session, Proposal(sequence, kind, count, lengths, payload, None, flavour, life_ms, facts)


def _records_in(frame: bytes) -> i64:
    """Where in a proposal its records begin; -1 if it is cut off before that."""
    kind: i64 = frame[HEAD_BYTES + 16]
    end = end_of(frame)
    at: i64 = PROPOSE_BYTES if kind & EXPIRING == 0 else PROPOSE_BYTES + 4
    if at > end:
        return -1
    count = count_at(frame, at - 4)
    at += 4 * count
    if at > end:
        return -1
    return at if kind & WITH_FACTS == 0 else facts_end(frame, at, count, end)


def life_at(frame: bytes, at: i64) -> i64:
    """After what time the messages of a frame expire, in milliseconds.

    Raises:
        CorruptRecord: The frame is cut off, or says that they do not.
    """
    need(frame, at + 4)
    life_ms = life_of(i64(read_i32_le(frame, at)) & 0xFFFF_FFFF)
    if life_ms < 0:
        raise CorruptRecord("a frame of a node", int(at), "messages expire that do not")
    return life_ms


def write_count(writer: BytesWriter, count: i64, flavour: i64) -> None:
    """Append how many records follow behind their lengths, and their flavour."""
    assert 0 <= count < 1 << COUNT_BITS and 0 <= flavour <= FLAVOUR_MAX
    write_checksum(writer, flavour << COUNT_BITS | count)


def count_at(frame: bytes, at: i64) -> i64:
    """The number of records that such a count says."""
    return i64(read_i32_le(frame, at)) & ((1 << COUNT_BITS) - 1)


def flavour_at(frame: bytes, at: i64) -> i64:
    """The flavour that such a count says."""
    return i64(read_i32_le(frame, at)) >> COUNT_BITS & FLAVOUR_MAX


def check_records(frame: bytes, counted_at: i64, at: i64) -> None:
    """Check that a frame ends in records of its flavour, as many as it says; clients get them.

    Args:
        counted_at: Where their count stands, and their lengths behind it.
        at: Where the records begin.

    Raises:
        CorruptRecord: It does not, or this release does not know the flavour.
    """
    check_each(frame, counted_at, frame, at, end_of(frame))


def check_each(frame: bytes, counted_at: i64, records: bytes, at: i64, end: i64) -> None:
    """Check likewise that what lies between two places is such records.

    Raises:
        CorruptRecord: It is not, or this release does not know the flavour.
    """
    flavour = flavour_at(frame, counted_at)
    check = check_of(flavour)
    if check is None:
        raise CorruptRecord("a frame of a node", int(at), str(UnknownFlavour(int(flavour))))
    for position in range(count_at(frame, counted_at)):
        length = i64(read_i32_le(frame, counted_at + 4 + 4 * position))
        if length < 0 or length > end - at or not check.passes(records, at, at + length):
            raise CorruptRecord("a frame of a node", int(at), "this is no message")
        at += length
    if at != end:
        raise CorruptRecord("a frame of a node", int(at), "bytes behind the messages")


def expect_frame(group_id: i64, session: i64, sequence: i64) -> bytes:
    """The number that the leader waits for."""
    writer = head(EXPECT, group_id)
    write_i64_le(writer, session)
    write_i64_le(writer, sequence)
    return writer.getvalue()


def need(frame: bytes, size: i64) -> None:
    """Check that a frame is so long, less its checksum.

    Raises:
        CorruptRecord: It is cut off.
    """
    if end_of(frame) < size:
        raise CorruptRecord("a frame of a node", 0, "it is cut off")


def records_at(frame: bytes, at: i64) -> i64:
    """Where the payload begins, behind the count at `at` and the lengths.

    Raises:
        CorruptRecord: The frame is cut off.
    """
    need(frame, at + 4)
    count = count_at(frame, at)
    need(frame, at + 4 + 4 * count)
    return at + 4 + 4 * count
