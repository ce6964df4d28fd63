"""Messages as bytes.

All numbers are little-endian and signed, 64 bits wide where nothing else is said:

     0         1      2
     +---------+------+--------+------------------+--------+------------------+------+--- ...
     | version | kind | sender | its incarnation  | target | its incarnation  | term | body
     +---------+------+--------+------------------+--------+------------------+------+--- ...

A name is its length (16 bits, at most 255) and as many bytes of UTF-8. A flag is one byte, 0 or 1.
Members are their number (16 bits), and for each its name, incarnation and flag of voting.

    1 PreVote        last_index, last_term, config_index
    2 PreVoteReply   flag granted, flag removed, leader (may be empty), its incarnation
    3 Vote           last_index, last_term
    4 VoteReply      flag granted
    5 Append         flag quiet, prev_index, prev_term, last_index, commit_index,
                     number of runs (32 bits), for each run its first index and its term,
                     number of configurations (32 bits), for each its index and members
    6 AppendReply    flag accepted, prev_index, match_index, received_index, commit_index,
                     hint_index, hint_term
    7 SnapshotOffer  index, snapshot_term, members
    8 TimeoutNow     nothing
    9 ReadProbe      round
    10 ReadAck       round

Nothing may follow. The frame that carries a message names the group, guards both with a checksum,
and brings an append's batches and a snapshot's bytes after it.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import (
    BytesWriter,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i16, i32, i64

from warren.raft.members import GroupConfig, Replica
from warren.raft.messages import (
    Append,
    AppendReply,
    Message,
    PreVote,
    PreVoteReply,
    ReadAck,
    ReadProbe,
    SnapshotOffer,
    TimeoutNow,
    Vote,
    VoteReply,
)
from warren.wire.byte_reader import ByteReader

WIRE_VERSION: Final = 1
NAME_BYTES_MAX: Final = 255
NUMBER_MAX: Final = 1 << 62
"""Far above any index, term or incarnation, and far from where 64 bits wrap."""
MEMBERS_MAX: Final = 1_000
"""Members of one group; a cluster has as many nodes at most."""

PRE_VOTE: Final = 1
PRE_VOTE_REPLY: Final = 2
VOTE: Final = 3
VOTE_REPLY: Final = 4
APPEND: Final = 5
APPEND_REPLY: Final = 6
SNAPSHOT_OFFER: Final = 7
TIMEOUT_NOW: Final = 8
READ_PROBE: Final = 9
READ_ACK: Final = 10

RUN_BYTES: Final = 16
MEMBER_BYTES_MIN: Final = 12
"""A name of one byte, an incarnation, a flag."""
CONFIG_BYTES_MIN: Final = 10


def encode(message: Message) -> bytes:
    """A message as the bytes that go to its target.

    Raises:
        AssertionError: A name is longer than `NAME_BYTES_MAX` bytes.
    """
    writer = BytesWriter()
    writer.append(WIRE_VERSION)
    if isinstance(message, Append):
        _head(writer, APPEND, message)
        _append(writer, message)
    elif isinstance(message, AppendReply):
        _head(writer, APPEND_REPLY, message)
        writer.append(1 if message.accepted else 0)
        write_i64_le(writer, message.prev_index)
        write_i64_le(writer, message.match_index)
        write_i64_le(writer, message.received_index)
        write_i64_le(writer, message.commit_index)
        write_i64_le(writer, message.hint_index)
        write_i64_le(writer, message.hint_term)
    elif isinstance(message, ReadProbe):
        _head(writer, READ_PROBE, message)
        write_i64_le(writer, message.round)
    elif isinstance(message, ReadAck):
        _head(writer, READ_ACK, message)
        write_i64_le(writer, message.round)
    elif isinstance(message, PreVote):
        _head(writer, PRE_VOTE, message)
        write_i64_le(writer, message.last_index)
        write_i64_le(writer, message.last_term)
        write_i64_le(writer, message.config_index)
    elif isinstance(message, PreVoteReply):
        _head(writer, PRE_VOTE_REPLY, message)
        writer.append(1 if message.granted else 0)
        writer.append(1 if message.removed else 0)
        _name(writer, message.leader)
        write_i64_le(writer, message.leader_incarnation)
    elif isinstance(message, Vote):
        _head(writer, VOTE, message)
        write_i64_le(writer, message.last_index)
        write_i64_le(writer, message.last_term)
    elif isinstance(message, VoteReply):
        _head(writer, VOTE_REPLY, message)
        writer.append(1 if message.granted else 0)
    elif isinstance(message, SnapshotOffer):
        _head(writer, SNAPSHOT_OFFER, message)
        write_i64_le(writer, message.index)
        write_i64_le(writer, message.snapshot_term)
        _members(writer, message.members)
    else:
        assert isinstance(message, TimeoutNow)
        _head(writer, TIMEOUT_NOW, message)
    return writer.getvalue()


def _head(writer: BytesWriter, kind: int, message: Message) -> None:
    writer.append(kind)
    _name(writer, message.sender)
    write_i64_le(writer, message.sender_incarnation)
    _name(writer, message.target)
    write_i64_le(writer, message.target_incarnation)
    write_i64_le(writer, message.term)


def _append(writer: BytesWriter, message: Append) -> None:
    writer.append(1 if message.quiet else 0)
    write_i64_le(writer, message.prev_index)
    write_i64_le(writer, message.prev_term)
    write_i64_le(writer, message.last_index)
    write_i64_le(writer, message.commit_index)
    write_i32_le(writer, i32(len(message.firsts)))
    for position in range(len(message.firsts)):
        write_i64_le(writer, message.firsts[position])
        write_i64_le(writer, message.terms[position])
    write_i32_le(writer, i32(len(message.configs)))
    for config in message.configs:
        write_i64_le(writer, config.index)
        _members(writer, config.members)


def _name(writer: BytesWriter, name: str) -> None:
    data = name.encode()
    assert len(data) <= NAME_BYTES_MAX, "a node's name is short"
    write_i16_le(writer, i16(len(data)))
    writer.write(data)


def _members(writer: BytesWriter, members: list[Replica]) -> None:
    assert len(members) <= MEMBERS_MAX
    write_i16_le(writer, i16(len(members)))
    for member in members:
        _name(writer, member.node)
        write_i64_le(writer, member.incarnation)
        writer.append(1 if member.voter else 0)


def encode_members(members: list[Replica]) -> bytes:
    """The payload of an entry that changes the configuration; also for snapshots."""
    writer = BytesWriter()
    writer.append(WIRE_VERSION)
    _members(writer, members)
    return writer.getvalue()


def decode_members(data: bytes) -> list[Replica]:
    """The members that `encode_members` wrote.

    Raises:
        CorruptRecord: The bytes are none of ours.
    """
    reader = _MessageReader(data)
    if reader.octet() != WIRE_VERSION:
        reader.fail("unknown version")
    members = reader.members()
    reader.end()
    return members


def decode(data: bytes) -> Message:
    """The message of these bytes, which are checked: nothing is allocated on their word alone.

    Raises:
        CorruptRecord: The bytes are no message, or one of another version.
    """
    reader = _MessageReader(data)
    if reader.octet() != WIRE_VERSION:
        reader.fail("unknown version")
    kind = reader.octet()
    sender = reader.name()
    sender_incarnation = reader.number()
    target = reader.name()
    target_incarnation = reader.number()
    term = reader.number()
    message: Message
    if kind == APPEND:
        message = _read_append(reader, sender, sender_incarnation, target, target_incarnation, term)
    elif kind == APPEND_REPLY:
        reply = AppendReply(sender, sender_incarnation, target, target_incarnation, term)
        reply.accepted = reader.flag()
        reply.prev_index = reader.number()
        reply.match_index = reader.number()
        reply.received_index = reader.number()
        reply.commit_index = reader.number()
        reply.hint_index = reader.number()
        reply.hint_term = reader.number()
        message = reply
    elif kind == READ_PROBE:
        probe = ReadProbe(sender, sender_incarnation, target, target_incarnation, term)
        probe.round = reader.number()
        message = probe
    elif kind == READ_ACK:
        ack = ReadAck(sender, sender_incarnation, target, target_incarnation, term)
        ack.round = reader.number()
        message = ack
    elif kind == PRE_VOTE:
        question = PreVote(sender, sender_incarnation, target, target_incarnation, term)
        question.last_index = reader.number()
        question.last_term = reader.number()
        question.config_index = reader.number()
        message = question
    elif kind == PRE_VOTE_REPLY:
        answer = PreVoteReply(sender, sender_incarnation, target, target_incarnation, term)
        answer.granted = reader.flag()
        answer.removed = reader.flag()
        answer.leader = reader.name()
        answer.leader_incarnation = reader.number()
        message = answer
    elif kind == VOTE:
        request = Vote(sender, sender_incarnation, target, target_incarnation, term)
        request.last_index = reader.number()
        request.last_term = reader.number()
        message = request
    elif kind == VOTE_REPLY:
        vote = VoteReply(sender, sender_incarnation, target, target_incarnation, term)
        vote.granted = reader.flag()
        message = vote
    elif kind == SNAPSHOT_OFFER:
        index = reader.number()
        snapshot_term = reader.number()
        members = reader.members()
        message = SnapshotOffer(
            sender,
            sender_incarnation,
            target,
            target_incarnation,
            term,
            index,
            snapshot_term,
            members,
        )
    elif kind == TIMEOUT_NOW:
        message = TimeoutNow(sender, sender_incarnation, target, target_incarnation, term)
    else:
        reader.fail("unknown kind")
    reader.end()
    return message


def _read_append(
    reader: _MessageReader,
    sender: str,
    sender_incarnation: i64,
    target: str,
    target_incarnation: i64,
    term: i64,
) -> Append:
    quiet = reader.flag()
    prev_index = reader.number()
    prev_term = reader.number()
    last_index = reader.number()
    commit_index = reader.number()
    message = Append(
        sender,
        sender_incarnation,
        target,
        target_incarnation,
        term,
        prev_index,
        prev_term,
        last_index,
        commit_index,
    )
    message.quiet = quiet
    if last_index < prev_index:
        reader.fail("entries end before they begin")
    runs = reader.count(RUN_BYTES)
    if (runs == 0) != (last_index == prev_index):
        reader.fail("entries without terms, or the reverse")
    first_before = prev_index
    term_before = prev_term
    for position in range(runs):
        first = reader.number()
        run_term = reader.number()
        if first <= first_before or first > last_index or run_term < term_before:
            reader.fail("runs do not rise")
        if position == 0 and first != prev_index + 1:
            reader.fail("a gap before the entries")
        if run_term > term:
            reader.fail("an entry newer than its leader")
        message.firsts.append(first)
        message.terms.append(run_term)
        first_before = first
        term_before = run_term
    config_before = prev_index
    for _ in range(reader.count(CONFIG_BYTES_MIN)):
        index = reader.number()
        if index <= config_before or index > last_index:
            reader.fail("configurations do not rise")
        message.configs.append(GroupConfig(index, reader.members()))
        config_before = index
    return message


@final
class _MessageReader(ByteReader):
    """Reads what messages and members are made of."""

    def __init__(self, data: bytes) -> None:
        super().__init__("raft message", data)

    def flag(self) -> bool:
        value = self.octet()
        if value > 1:
            self.fail("a flag is 0 or 1")
        return value == 1

    def number(self) -> i64:
        value = self.longlong()
        if value < 0 or value > NUMBER_MAX:
            self.fail("a number out of range")
        return value

    def name(self) -> str:
        size = self.short()
        if size < 0 or size > NAME_BYTES_MAX:
            self.fail("a name that is too long")
        return self.text(size)

    def count(self, bytes_each: i64) -> i64:
        """A number of things of that many bytes at least, which have to be there."""
        count = self.long()
        if count < 0 or count > self.left() // bytes_each:
            self.fail("a count beyond the end")
        return count

    def members(self) -> list[Replica]:
        count = self.short()
        if count < 0 or count > MEMBERS_MAX:
            self.fail("too many members")
        if count > self.left() // MEMBER_BYTES_MIN:
            self.fail("a count beyond the end")
        members: list[Replica] = []
        for _ in range(count):
            node = self.name()
            incarnation = self.number()
            members.append(Replica(node, incarnation, self.flag()))
        return members
