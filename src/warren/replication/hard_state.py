"""What a member must not forget, as its STATE records in the log hold it: term, vote, members."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

from warren.raft import wire
from warren.raft.members import Replica

STATE_VERSION: Final = 2
NAME_AT: Final = (33, 49)
"""Where the length of the name voted for stands, in version 1, which had no floor, and 2."""


@final
class HardState:
    """What a member's STATE record remembers; see `RecoveredState` for the fields."""

    def __init__(self, incarnation: i64, members: list[Replica]) -> None:
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


def decode_hard_state(data: bytes) -> HardState:
    """A STATE record's payload. Its checksum has been verified."""
    name_at = NAME_AT[data[0] - 1]
    name_end = name_at + 4 + read_i32_le(data, name_at)
    hard_state = HardState(read_i64_le(data, 1), wire.decode_members(data[name_end:]))
    hard_state.term = read_i64_le(data, 9)
    hard_state.voted_incarnation = read_i64_le(data, 17)
    hard_state.commit = read_i64_le(data, 25)
    if data[0] > 1:
        hard_state.floor_term = read_i64_le(data, 33)
        hard_state.floor_index = read_i64_le(data, 41)
    hard_state.voted_for = data[name_at + 4 : name_end].decode()
    return hard_state
