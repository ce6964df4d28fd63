"""A snapshot in the log and between nodes: the machine's state, and what the group wraps it in.

It is: the number of the next message, i64; u32 and the members at its index; u32 and pairs (session
i64, last sequence i64, its complement if it is closed); the machine's own state.
"""

from __future__ import annotations

from io import BytesIO
from typing import final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from warren.errors import CorruptRecord
from warren.limits import TURN_COPY_BYTES_MAX
from warren.ports import Work
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


@final
class Unwrapping(Work):
    """Takes a snapshot apart, the state in parts: to copy many megabytes takes long.

    Attributes:
        parts: It taken apart; the state is there when all is done.
        payload: The snapshot's own bytes, likewise, if those are wanted.
        at_once: So many bytes are copied in one go.
    """

    def __init__(
        self, data: bytes, at: i64, end: i64, keeps: bool, at_once: i64 = TURN_COPY_BYTES_MAX
    ) -> None:
        """
        Args:
            data: Bytes that the snapshot is a part of.
            at, end: Where it begins and ends.
            keeps: Whether its own bytes are wanted, too.

        Raises:
            CorruptRecord: It is cut off.
        """
        if end - at < 12:
            raise _cut_off()
        size = i64(read_i32_le(data, at + 8))
        behind = at + 12 + size
        if size < 0 or behind + 4 > end:
            raise _cut_off()
        members = wire.decode_members(data[at + 12 : behind])
        count = i64(read_i32_le(data, behind))
        behind += 4
        if not 0 <= count <= (end - behind) // 16:
            raise _cut_off()
        sessions: dict[int, int] = {}
        for _ in range(count):
            sessions[read_i64_le(data, behind)] = read_i64_le(data, behind + 8)
            behind += 16
        self.parts: Wrapped = Wrapped(read_i64_le(data, at), members, sessions, b"")
        self.payload: bytes = b""
        self.at_once: i64 = at_once
        self._data: bytes = data
        self._at: i64 = behind
        self._end: i64 = end
        self._begin: i64 = at
        """Where it begins; -1 once the state is copied."""
        self._keeps: bool = keeps
        self._out: BytesIO = BytesIO()
        """It grows in place, and gives what it has without a copy."""

    def go_on(self) -> bool:
        """Copy the next part; whether it was the last."""
        room = self.at_once
        while True:
            upto = min(self._at + room, self._end)
            self._out.write(memoryview(self._data)[self._at : upto])
            room -= upto - self._at
            self._at = upto
            if upto < self._end:
                return False
            copied = self._out.getvalue()
            self._out = BytesIO()
            if self._begin < 0:
                self.payload = copied
                break
            self.parts.state = copied
            if not self._keeps:
                break
            if self._begin == 0 and self._end == len(self._data):
                self.payload = self._data
                break
            self._at = self._begin
            self._begin = -1
        self._data = b""
        return True


def _cut_off() -> CorruptRecord:
    return CorruptRecord("a snapshot", 0, "it is cut off")


def unwrap(data: bytes) -> Wrapped:
    """A snapshot's parts. Its checksum has been verified.

    Raises:
        CorruptRecord: It is cut off.
    """
    unwrapping = Unwrapping(data, 0, len(data), False)
    while not unwrapping.go_on():
        pass
    return unwrapping.parts
