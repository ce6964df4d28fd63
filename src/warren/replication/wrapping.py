"""A snapshot in the log and between nodes: the machine's state, and what the group wraps it in.

It is: the number of the next message, i64; u32 and the members at its index; u32 and pairs (session
i64, last sequence i64, its complement if it is closed); the machine's own state.
"""

from __future__ import annotations

from typing import final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from warren.raft import wire
from warren.raft.members import Replica


@final
class Wrapped:
    """A snapshot taken apart."""

    def __init__(
        self, next_message: i64, members: list[Replica], sessions: dict[int, int], state: bytes
    ) -> None:
        self.next_message: i64 = next_message
        self.members = members
        self.sessions = sessions
        self.state = state


def wrap_head(next_message: i64, members: list[Replica], sessions: dict[int, int]) -> BytesWriter:
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
