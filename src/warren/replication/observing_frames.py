"""The messages between members of a group and nodes that observe it.

    OBSERVE    observation i64, index i64, term i64: send me what is committed behind this entry;
               index 0: I have nothing
    UNOBSERVE  observation i64: to a member, I need no more; to an observer, you get no more
    FEED       observation i64, applied i64, term i64, size u8 and name of the leader; entries, or
               none where what is behind is being prepared, or only the leader is news
    STATE      observation i64, index i64, term i64; a snapshot as `wrapping.py` draws it
    FETCH      number i64, first i64, last i64, bytes i64: send me these messages
    BODIES     number i64, answer u8, next i64; whole batches

Each begins and ends as `frames.py` says. An entry of a FEED is a batch as `log.batch` draws it, of
which only the header follows where it has messages: what hands those to a client fetches them.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from warren.errors import CorruptRecord
from warren.log.batch import HEADER_BYTES, KIND_COMMAND, KIND_MESSAGES, Batch, Header
from warren.log.facts import facts_end
from warren.message.flavours import check_of
from warren.replication import frames
from warren.replication.kinds import BODIES, FEED, FETCH, OBSERVE, STATE, UNOBSERVE

FOUND: Final = 0
"""The answer: what is left of the messages follows, up to `next`."""
NOT_HERE: Final = 1
"""This node does not have them, or not yet, or cannot read them: another member may."""
GONE: Final = 2
"""No member has them any more, up to `next`, and the queue goes on without them."""

AT: Final = frames.HEAD_BYTES
"""Where the observation, or the number of a FETCH, stands."""
FEED_BYTES: Final = AT + 25
STATE_BYTES: Final = AT + 24
BODIES_BYTES: Final = AT + 17
COUNT_MAX: Final = (1 << 30) - 1
"""Messages in one batch, at most: each has a length of four bytes, and a batch less than 2 GiB."""


def observe_frame(group_id: i64, observation: i64, index: i64, term: i64) -> bytes:
    """Ask for what is committed behind an entry."""
    writer = frames.head(OBSERVE, group_id)
    write_i64_le(writer, observation)
    write_i64_le(writer, index)
    write_i64_le(writer, term)
    return writer.getvalue()


def unobserve_frame(group_id: i64, observation: i64) -> bytes:
    """End an observation."""
    writer = frames.head(UNOBSERVE, group_id)
    write_i64_le(writer, observation)
    return writer.getvalue()


def feed_head(group_id: i64, observation: i64, applied: i64, term: i64, leader: str) -> BytesWriter:
    """The beginning of a FEED; entries follow, by `write_entry`."""
    writer = frames.head(FEED, group_id)
    write_i64_le(writer, observation)
    write_i64_le(writer, applied)
    write_i64_le(writer, term)
    name = leader.encode()
    writer.append(u8(len(name)))
    writer.write(name)
    return writer


def write_entry(writer: BytesWriter, batch: Batch) -> None:
    """Append an entry, without its messages if it has any, but with the facts of them."""
    if batch.count > 0:
        writer.write(batch.encode_head()[:HEADER_BYTES])
        writer.write(batch.facts)
    else:
        writer.write(batch.encoded())


def state_head(group_id: i64, observation: i64, index: i64, term: i64) -> bytes:
    """The beginning of a STATE; the snapshot follows."""
    writer = frames.head(STATE, group_id)
    write_i64_le(writer, observation)
    write_i64_le(writer, index)
    write_i64_le(writer, term)
    return writer.getvalue()


def fetch_frame(group_id: i64, number: i64, first: i64, last: i64, max_bytes: i64) -> bytes:
    """Ask for messages."""
    writer = frames.head(FETCH, group_id)
    write_i64_le(writer, number)
    write_i64_le(writer, first)
    write_i64_le(writer, last)
    write_i64_le(writer, max_bytes)
    return writer.getvalue()


def bodies_head(group_id: i64, number: i64, answer: i64, next_message: i64) -> bytes:
    """The beginning of an answer; the batches follow."""
    writer = frames.head(BODIES, group_id)
    write_i64_le(writer, number)
    writer.append(u8(answer))
    write_i64_le(writer, next_message)
    return writer.getvalue()


@final
class Feed:
    """What a member says of its group.

    Attributes:
        applied: The newest entry that the member's machine has.
        term, leader: Who leads in which term, as far as the member knows; empty if it does not.
        entries: Committed ones, in order and without a hole; those with messages lack them.
    """

    def __init__(self, frame: bytes) -> None:
        """
        Raises:
            CorruptRecord: No member sends such a thing.
        """
        frames.need(frame, FEED_BYTES)
        self.applied: i64 = read_i64_le(frame, AT + 8)
        self.term: i64 = read_i64_le(frame, AT + 16)
        at = FEED_BYTES + i64(frame[FEED_BYTES - 1])
        frames.need(frame, at)
        try:
            self.leader = frame[FEED_BYTES:at].decode()
        except UnicodeDecodeError as error:
            raise CorruptRecord("a feed", 0, "the leader's name is none") from error
        self.entries: list[Batch] = []
        group_id = frames.group_of(frame)
        end = frames.end_of(frame)
        header = Header()
        index: i64 = -1
        while at < end:
            batch = _entry(header, frame, at, end, group_id)
            if index >= 0 and batch.index != index:
                raise CorruptRecord("a feed", int(at), f"entry {batch.index} comes as {index}")
            if batch.index > self.applied:
                raise CorruptRecord("a feed", int(at), f"entry {batch.index} is not applied")
            index = batch.index + 1
            at += HEADER_BYTES + len(batch.facts) if batch.count > 0 else batch.size()
            self.entries.append(batch)


def _entry(header: Header, frame: bytes, at: i64, end: i64, group_id: i64) -> Batch:
    """One entry of a feed; of one with messages the header alone is there."""
    if at + HEADER_BYTES > end:
        raise CorruptRecord("a feed", int(at), "an entry is cut off")
    size = read_i64_le(frame, at) >> 32
    with_messages = i64(frame[at + 12]) < KIND_COMMAND
    problem = header.load(frame, at, at + size if with_messages else end, with_messages)
    if not problem:
        if header.group != group_id:
            problem = f"the entry is of group {header.group}"
        elif not KIND_MESSAGES <= header.kind <= KIND_COMMAND:
            problem = f"an entry of kind {header.kind}"
        elif (header.count == 0) != (header.kind == KIND_COMMAND) or header.count > COUNT_MAX:
            problem = "kind and count contradict each other"
        elif not with_messages and not header.checksum_holds(frame, at):
            problem = "the checksum does not match"
    if problem:
        raise CorruptRecord("a feed", int(at), problem)
    if with_messages:
        facts = b""
        if header.with_facts:
            facts_at = at + HEADER_BYTES
            behind = facts_end(frame, facts_at, header.count, end)
            if behind < 0:
                raise CorruptRecord("a feed", int(at), "the facts of an entry are none")
            facts = frame[facts_at:behind]
        payload_size = header.size - HEADER_BYTES - 4 * header.count - len(facts)
        if payload_size < 0:
            raise CorruptRecord("a feed", int(at), "the count is impossible")
        batch = Batch(
            None,
            header.kind,
            header.index,
            header.term,
            header.first,
            header.count,
            header.stamp_ms,
            b"",
            0,
            b"",
            0,
            payload_size,
            None,
            header.session,
            header.sequence,
            header.flavour,
            header.life_ms(),
            facts,
        )
        batch.group_id = group_id
        return batch
    # A command is short, and the frame may be long: it gets bytes of its own.
    return header.batch(None, frame[at : at + header.size], 0)


def batches_of(frame: bytes) -> list[Batch]:
    """The batches of a BODIES, whole ones with messages, in ascending order.

    Raises:
        CorruptRecord: Something else is there.
    """
    found: list[Batch] = []
    header = Header()
    group_id = frames.group_of(frame)
    at: i64 = BODIES_BYTES
    end = frames.end_of(frame)
    number: i64 = 0
    while at < end:
        problem = header.load(frame, at, end)
        if not problem:
            if header.group != group_id:
                problem = f"the batch is of group {header.group}"
            elif not header.checksum_holds(frame, at):
                problem = "the checksum does not match"
            elif header.kind < KIND_MESSAGES or header.kind >= KIND_COMMAND or header.count == 0:
                problem = "a batch without messages"
            elif header.first < number:
                problem = f"message {header.first} comes behind message {number - 1}"
        if problem:
            raise CorruptRecord("messages of a member", int(at), problem)
        batch = header.batch(None, frame, at)
        _check_records(batch, at)
        found.append(batch)
        number = header.first + header.count
        at += header.size
    return found


def _check_records(batch: Batch, at: i64) -> None:
    """Check that a batch is made of records; one of an unknown flavour is whole at least."""
    check = check_of(batch.flavour)
    if check is None:
        return
    start = batch.payload_at
    end = start + batch.payload_size
    for position in range(batch.count):
        length = batch.length(position)
        if length < 0 or length > end - start:
            raise CorruptRecord("messages of a member", int(at), "a length is impossible")
        if not check.passes(batch.payload, start, start + length):
            raise CorruptRecord("messages of a member", int(at), "this is no message")
        start += length
    if start != end:
        raise CorruptRecord("messages of a member", int(at), "bytes behind the messages")
