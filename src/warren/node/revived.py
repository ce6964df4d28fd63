"""What the log remembers of a group's member, and what a start finds.

Entries of session -1 are Raft's own: an empty one is a leader's no-op, others begin with an octet:

    MEMBERS   the members from here on, as `raft.wire` writes them
    CLOSE     sessions that are over, i64 each

A snapshot in the log is: the number of the next message, i64; u32 and the members at its index; u32
and pairs (session i64, last sequence i64, its complement if it is closed); the machine's own state.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from warren.log.batch import Batch
from warren.log.group import GroupLog
from warren.raft import wire
from warren.raft.members import Config
from warren.raft.members import Member as Copy
from warren.raft.raft import Saved

RAFT_SESSION: Final = -1
MEMBERS: Final = 1
CLOSE: Final = 2
STATE_VERSION: Final = 2
NAME_AT: Final = (33, 49)
"""Where the length of the name voted for stands, in version 1, which had no floor, and 2."""
CLOSED_MAX: Final = 1_024
"""Closed sessions that are remembered; by then nothing of older ones can still be under way."""


@final
class Memory:
    """What a member's STATE record remembers; see `Saved` for the fields."""

    def __init__(self, incarnation: i64, members: list[Copy]) -> None:
        self.incarnation: i64 = incarnation
        self.members = members
        """Those of the newest snapshot, or the first ones."""
        self.term: i64 = 0
        self.voted_for = ""
        self.voted_incarnation: i64 = 0
        self.commit: i64 = 0
        self.floor_term: i64 = 0
        self.floor_index: i64 = 0

    def encode(self) -> bytes:
        """The record's payload."""
        writer = BytesWriter()
        writer.append(u8(STATE_VERSION))
        for number in (
            self.incarnation,
            self.term,
            self.voted_incarnation,
            self.commit,
            self.floor_term,
            self.floor_index,
        ):
            write_i64_le(writer, i64(number))
        name = self.voted_for.encode()
        write_i32_le(writer, i32(len(name)))
        writer.write(name)
        writer.write(wire.encode_members(self.members))
        return writer.getvalue()


def decode_memory(data: bytes) -> Memory:
    """A STATE record's payload. Its checksum has been verified."""
    name_at = NAME_AT[data[0] - 1]
    name_end = name_at + 4 + read_i32_le(data, name_at)
    memory = Memory(read_i64_le(data, 1), wire.decode_members(data[name_end:]))
    memory.term = read_i64_le(data, 9)
    memory.voted_incarnation = read_i64_le(data, 17)
    memory.commit = read_i64_le(data, 25)
    if data[0] > 1:
        memory.floor_term = read_i64_le(data, 33)
        memory.floor_index = read_i64_le(data, 41)
    memory.voted_for = data[name_at + 4 : name_end].decode()
    return memory


@final
class Wrapped:
    """A snapshot taken apart."""

    def __init__(
        self, next_message: i64, members: list[Copy], sessions: dict[int, int], state: bytes
    ) -> None:
        self.next_message: i64 = next_message
        self.members = members
        self.sessions = sessions
        self.state = state


def wrap_head(next_message: i64, members: list[Copy], sessions: dict[int, int]) -> BytesWriter:
    """A snapshot's payload, to which the machine's state is to be appended."""
    writer = BytesWriter()
    write_i64_le(writer, next_message)
    head = wire.encode_members(members)
    write_i32_le(writer, i32(len(head)))
    writer.write(head)
    write_i32_le(writer, i32(len(sessions)))
    for session, sequence in sessions.items():
        write_i64_le(writer, i64(session))
        write_i64_le(writer, i64(sequence))
    return writer


def unwrap(data: bytes) -> Wrapped:
    """A snapshot's parts. Its checksum has been verified."""
    size = i64(read_i32_le(data, 8))
    members = wire.decode_members(data[12 : 12 + size])
    at = 12 + size
    count = i64(read_i32_le(data, at))
    at += 4
    sessions: dict[int, int] = {}
    for _ in range(count):
        sessions[read_i64_le(data, at)] = read_i64_le(data, at + 8)
        at += 16
    return Wrapped(read_i64_le(data, 0), members, sessions, data[at:])


@final
class Revived:
    """What a start found of a group: how far its machine was brought, and what is behind.

    Attributes:
        memory: The newest STATE record.
        node: This node's name.
        snapshot: Members, sessions and state of the newest snapshot; None if there is none.
        snapshot_index: Its index, 0 if there is none.
        applied: Index of the last entry that the machine has.
        pending: Entries behind it: not known to be committed.
        runs, configs: Terms and configurations of all entries behind the snapshot.
    """

    def __init__(self, memory: Memory, node: str) -> None:
        self.memory = memory
        self.node = node
        self.snapshot: Wrapped | None = None
        self.snapshot_payload = b""
        self.snapshot_index: i64 = 0
        self.applied: i64 = 0
        self.sessions: dict[int, int] = {}
        self.pending: list[Batch] = []
        self.runs: list[tuple[int, int]] = []
        self.configs: list[tuple[int, list[Copy]]] = []
        self._alone = is_alone(memory.members, node, memory.incarnation)

    def alone(self) -> bool:
        """Whether this copy is its own majority, by all that was found so far."""
        return self._alone

    def take_snapshot(self, index: i64, payload: bytes) -> None:
        """The newest snapshot."""
        self.snapshot = unwrap(payload)
        self.snapshot_payload = payload
        self.snapshot_index = index
        self.applied = index
        self.sessions = dict(self.snapshot.sessions)
        self._alone = is_alone(self.snapshot.members, self.node, self.memory.incarnation)

    def take(self, batch: Batch) -> bool:
        """The next entry; True if the machine has to apply it."""
        if not self.runs or self.runs[-1][1] != batch.term:
            self.runs.append((batch.index, batch.term))
        own = batch.session == RAFT_SESSION
        if own and is_members(batch):
            members = wire.decode_members(batch.body()[1:])
            self.configs.append((int(batch.index), members))
            self._alone = False
        # What a sole voter has on disk is committed, until others have a say.
        if self.pending or not (self._alone or batch.index <= self.memory.commit):
            self.pending.append(batch)
            return False
        self.applied = batch.index
        note_session(self.sessions, batch)
        return True


def saved_state(revived: Revived, log: GroupLog) -> Saved:
    """What Raft has to know of it."""
    memory = revived.memory
    saved = Saved()
    saved.term = memory.term
    saved.voted_for = memory.voted_for
    saved.voted_incarnation = memory.voted_incarnation
    saved.floor_term = memory.floor_term
    saved.floor_index = memory.floor_index
    saved.snapshot_index = revived.snapshot_index
    if revived.snapshot_index > 0:
        saved.snapshot_term = log.term_at(revived.snapshot_index)
    saved.members = memory.members
    if revived.snapshot is not None:
        saved.members = revived.snapshot.members
    saved.runs = revived.runs
    saved.last_index = log.last_index
    for index, members in revived.configs:
        saved.configs.append(Config(index, members))
    return saved


def is_alone(members: list[Copy], node: str, incarnation: i64) -> bool:
    """Whether this copy is the only member, and so its own majority."""
    return len(members) == 1 and members[0].voter and members[0].is_copy(node, incarnation)


def is_members(batch: Batch) -> bool:
    """Whether an entry of Raft's own changes the members."""
    return batch.payload_size > 0 and batch.payload[batch.payload_at] == MEMBERS


def closed_sessions(batch: Batch) -> list[int]:
    """The sessions that an entry of Raft's own closes."""
    if batch.payload_size == 0 or batch.payload[batch.payload_at] != CLOSE:
        return []
    body = batch.body()
    return [int(read_i64_le(body, at)) for at in range(1, len(body), 8)]


def note_session(sessions: dict[int, int], batch: Batch) -> None:
    """Keep the last number of each session; of those closed last its complement."""
    if batch.session > 0:
        sessions[batch.session] = batch.sequence
    elif batch.session == RAFT_SESSION:
        closed = closed_sessions(batch)
        for session in closed:
            # Behind those closed before.
            last = sessions.pop(session, 0)
            sessions[session] = ~last if last >= 0 else last
        if closed and len(sessions) > CLOSED_MAX:
            over = [session for session in sessions if sessions[session] < 0]
            for session in over[:-CLOSED_MAX]:
                del sessions[session]
