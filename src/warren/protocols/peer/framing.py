"""Messages between two nodes on a byte stream.

    u32 size, little-endian, at least 1      the message, of which the first byte is its kind
    u32 size + 2^31                          u8 slot, + 128 for the last part; a part of a message

A message above `WHOLE_BYTES_MAX` travels in parts, so that small ones come between and a large one
holds up neither pings nor other groups. At most `SLOTS` messages are under way in parts, of
`PARTED_BYTES_MAX` together. Messages of one *lane* keep their order: a lane is a group, which
messages name behind their kind from `FIRST_OF_GROUP` on; all others are one more lane.

The reader hands out the whole messages of each read, and keeps the pieces of one that has not come
whole: they are joined once, when its last piece is there. One in parts is put together as they
come, since to join, copy or check hundreds of megabytes takes a tenth of a second each. A part of
a proposal, or of a snapshot, ends before the first large buffer, so that what that has is a piece
of memory by itself.

The writer gathers the messages of a
turn: small buffers are put together, large ones are passed on as they are.
"""

from __future__ import annotations

from collections import deque
from io import BytesIO
from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, write_i32_le
from mypy_extensions import i32, i64, u8

from warren.checksum import crc32
from warren.protocols.peer import refusal as codes
from warren.replication.frames import SEAL_BYTES
from warren.replication.kinds import FIRST_OF_GROUP, PROPOSE, SNAPSHOT

SIZE_BYTES: Final = 4
WHOLE_BYTES_MAX: Final = 2_097_152
"""A message above this is cut; an ordinary append is not. Some 20 ms on a link of 1 Gbit/s."""
PART_BYTES: Final = 262_144
"""A part's share of its message, at most."""
PARTED_BYTES_MAX: Final = 1_073_741_824
"""All messages that are under way in parts, and so the largest one: twice what a body may have."""
SLOTS: Final = 4
"""Messages under way in parts at a time: more would come no sooner, and be in memory together."""
PART_FLAG: Final = 0x8000_0000
LAST_FLAG: Final = 0x80
LANE_BYTES: Final = 9
"""A kind and the group behind it."""
COPY_BYTES_MAX: Final = 16_384
"""A buffer up to this is copied into its neighbours: that is cheaper than one more to write."""
CHUNK_BYTES: Final = 262_144
"""Copied buffers are passed on in chunks of about this size, so that none is moved as it grows."""
NO_LIMIT: Final = 1 << 40
SPLIT: Final = (bytes([PROPOSE]), bytes([SNAPSHOT]))
"""How messages begin of which what follows the first part is given by itself."""


@final
class PartialMessage:
    """A message of which parts came.

    Attributes:
        size: How much came of it.
        checksum: CRC-32 of that.
    """

    def __init__(self, splits: bool) -> None:
        self.size: i64 = 0
        self.checksum: int = 0
        self._splits: bool = splits
        self._head: bytes = b""
        self._rest: BytesIO = BytesIO()
        """It grows in place, and gives what it has without a copy."""

    def add(self, part: bytes, last: bool) -> None:
        """Take a part, behind its slot."""
        content = memoryview(part)[1:]
        begins = self.size == 0
        self.size += len(part) - 1
        self.checksum = crc32(content, self.checksum)
        ends_early = begins and not last and len(part) <= PART_BYTES
        if ends_early and self._splits and part[1:2] in SPLIT:
            self._head = part[1:]
        else:
            self._rest.write(content)

    def whole(self) -> LongMessage:
        """All of it is here."""
        rest = self._rest
        size = rest.tell()
        if not self._head or size <= SEAL_BYTES:
            return LongMessage(self._head + rest.getvalue(), b"", self.checksum)
        rest.seek(size - SEAL_BYTES)
        message = self._head + rest.read()
        rest.truncate(size - SEAL_BYTES)
        return LongMessage(message, rest.getvalue(), self.checksum)


@final
class LongMessage:
    """A message that came in parts: see `PeerListener.received_in_parts`."""

    def __init__(self, message: bytes, body: bytes, checksum: int) -> None:
        self.message: bytes = message
        self.body: bytes = body
        self.checksum: int = checksum


@final
class MessageReader:
    """The messages in a stream of bytes.

    Attributes:
        failure: Code of the refusal that the stream ended in; 0 while it has not.
        splits: Whether the messages of a long proposal, and what a snapshot has, are given alone.
        long: Of the messages that `receive` gave last those that came in parts, by their place.
    """

    def __init__(self, whole_bytes_max: int = WHOLE_BYTES_MAX) -> None:
        assert 0 < whole_bytes_max < PART_FLAG
        self.failure: int = 0
        self.splits: bool = False
        self.long: dict[int, LongMessage] = {}
        self._limit: i64 = whole_bytes_max
        self._head: bytes = b""
        self._pieces: list[bytes] = []
        self._missing: i64 = 0
        self._in_part: bool = False
        """Whether `_pieces` are those of a part."""
        self._slots: list[PartialMessage | None] = [None] * SLOTS
        self._parted_bytes: i64 = 0
        """In all slots."""

    def receive(self, data: bytes) -> list[bytes]:
        """Take what a read brought; gives the messages that are whole now, in order.

        After a failure nothing more comes. Messages before it are given out.
        """
        messages: list[bytes] = []
        if self.long:
            self.long = {}
        if self.failure != 0:
            return messages
        if self._head:
            data = self._head + data
            self._head = b""
        at: i64 = 0
        end: i64 = len(data)
        missing = self._missing
        if missing > 0:
            if end < missing:
                self._pieces.append(data)
                self._missing = missing - end
                return messages
            self._pieces.append(data[:missing])
            joined = b"".join(self._pieces)
            self._pieces = []
            self._missing = 0
            at = missing
            if not self._in_part:
                messages.append(joined)
            elif not self._take_part(joined, messages):
                return messages
        limit = self._limit
        while end - at >= SIZE_BYTES:
            size: i64 = i64(read_i32_le(data, at)) & 0xFFFFFFFF
            part = size >= PART_FLAG
            if part:
                size -= PART_FLAG
                if size < 2 or size > PART_BYTES + 1:
                    return self._fail(codes.DAMAGED, messages)
            elif size > limit or size == 0:
                return self._fail(codes.TOO_LARGE if size else codes.EMPTY, messages)
            at += SIZE_BYTES
            if end - at < size:
                self._missing = size - (end - at)
                self._in_part = part
                if end > at:
                    self._pieces.append(data[at:])
                return messages
            whole = data[at : at + size]
            at += size
            if not part:
                messages.append(whole)
            elif not self._take_part(whole, messages):
                return messages
        if at < end:
            self._head = data[at:]
        return messages

    def _take_part(self, part: bytes, messages: list[bytes]) -> bool:
        """Keep a part, or join what it is the last one of; False if it has no place."""
        slot: i64 = part[0]
        last = slot >= LAST_FLAG
        if last:
            slot -= LAST_FLAG
        self._parted_bytes += len(part) - 1
        if slot >= SLOTS or self._parted_bytes > PARTED_BYTES_MAX:
            self._fail(codes.DAMAGED if slot >= SLOTS else codes.TOO_LARGE, messages)
            return False
        arriving = self._slots[slot]
        if arriving is None:
            arriving = PartialMessage(self.splits)
            self._slots[slot] = arriving
        arriving.add(part, last)
        if last:
            self._slots[slot] = None
            self._parted_bytes -= arriving.size
            found = arriving.whole()
            self.long[len(messages)] = found
            messages.append(found.message)
        return True

    def _fail(self, code: int, messages: list[bytes]) -> list[bytes]:
        """The stream has ended: nothing of it is kept."""
        self.failure = code
        self._pieces = []
        self._slots = [None] * SLOTS
        self._parted_bytes = 0
        return messages

    @property
    def held_bytes(self) -> int:
        """Bytes kept of messages that have not come whole."""
        pieces = sum(len(piece) for piece in self._pieces)
        return len(self._head) + pieces + int(self._parted_bytes)


@final
class Parted:
    """A message that leaves in parts."""

    def __init__(self, buffers: list[bytes], size: i64) -> None:
        self.size: i64 = size
        self.left: i64 = size
        self._buffers: list[bytes] = buffers
        self._number: i64 = 0
        """Of the buffer that the next part begins in."""
        self._at: i64 = 0

    def next_part(self) -> list[bytes]:
        """Buffers of the next part."""
        part: list[bytes] = []
        room: i64 = PART_BYTES
        begins = self.left == self.size and self._buffers[0][:1] in SPLIT
        while room > 0 and self.left > 0:
            buffer = self._buffers[self._number]
            size: i64 = len(buffer) - self._at
            if begins and part and size > COPY_BYTES_MAX:
                break
            if size <= room:
                part.append(buffer[self._at :])
                self._number += 1
                self._at = 0
            else:
                size = room
                part.append(buffer[self._at : self._at + size])
                self._at += size
            room -= size
            self.left -= size
        return part


@final
class LaneBacklog:
    """Messages of one lane, from a large one on that has not left whole.

    Attributes:
        name: What its messages have in common.
        current: The large message at its head.
        slot: Where that travels; -1 while it waits for one.
    """

    def __init__(self, name: bytes, current: Parted) -> None:
        self.name: bytes = name
        self.current: Parted = current
        self.slot: i64 = -1
        self.waiting: deque[list[bytes]] = deque()


@final
class MessageWriter:
    """Gathers messages until they are written.

    Attributes:
        size_bytes: What was added and not taken, in bytes.
    """

    def __init__(self, whole_bytes_max: int = WHOLE_BYTES_MAX) -> None:
        self.size_bytes: i64 = 0
        self._whole_bytes_max: i64 = whole_bytes_max
        self._small: BytesWriter = BytesWriter()
        self._buffers: list[bytes] = []
        self._lanes: dict[bytes, LaneBacklog] = {}
        """Those that hold something back."""
        self._starting: deque[LaneBacklog] = deque()
        self._moving: deque[LaneBacklog] = deque()
        """Those with a slot, in the order of their next parts."""
        self._slots: list[int] = list(range(SLOTS))
        """Those that are free."""
        self._moving_bytes: i64 = 0

    def add(self, message: list[bytes]) -> bool:
        """Add a message made of these buffers; False if no node would take it."""
        size: i64 = 0
        for buffer in message:
            size += len(buffer)
        if size == 0 or size > PARTED_BYTES_MAX:
            return False
        large = size > self._whole_bytes_max
        self.size_bytes += size + SIZE_BYTES
        if large or self._lanes:
            name = lane_of(message)
            lane = self._lanes.get(name)
            if lane is not None:
                lane.waiting.append(message)
                return True
            if large:
                lane = LaneBacklog(name, Parted(message, size))
                self._lanes[name] = lane
                self._starting.append(lane)
                return True
        self._write(message, size)
        return True

    def take(self, room: i64 = NO_LIMIT) -> list[bytes]:
        """What was added since the last call, to be written in one go.

        Args:
            room: Of messages in parts, about so many bytes.
        """
        while self._lanes and room > 0:
            room -= self._next_part()
        self._cut()
        buffers = self._buffers
        self._buffers = []
        if not self._lanes:
            self.size_bytes = 0
        else:
            for buffer in buffers:
                self.size_bytes -= len(buffer)
        return buffers

    @property
    def waits(self) -> bool:
        """Whether `take` has left something."""
        return len(self._lanes) > 0

    def largest_left(self) -> i64:
        """How much is left of the large message of which most is."""
        largest: i64 = 0
        for lane in self._lanes.values():
            largest = max(largest, lane.current.left)
        return largest

    def _write(self, message: list[bytes], size: i64) -> None:
        write_i32_le(self._small, i32(size))
        self._put(message)

    def _put(self, buffers: list[bytes]) -> None:
        small = self._small
        for buffer in buffers:
            if len(buffer) <= COPY_BYTES_MAX:
                small.write(buffer)
            else:
                self._cut()
                self._buffers.append(buffer)
        if len(small) >= CHUNK_BYTES:
            self._cut()

    def _next_part(self) -> i64:
        """Have one part of the lane whose turn it is leave; its size."""
        while self._starting and self._slots:
            lane = self._starting[0]
            if self._moving and self._moving_bytes + lane.current.size > PARTED_BYTES_MAX:
                break
            self._starting.popleft()
            lane.slot = self._slots.pop()
            self._moving_bytes += lane.current.size
            self._moving.append(lane)
        lane = self._moving.popleft()
        current = lane.current
        before = current.left
        part = current.next_part()
        size = before - current.left
        write_i32_le(self._small, i32(size + 1 - PART_FLAG))
        self._small.append(u8(lane.slot if current.left > 0 else lane.slot + LAST_FLAG))
        # Its size and slot; that of the message was counted when it was added.
        self.size_bytes += SIZE_BYTES + 1
        self._put(part)
        if current.left > 0:
            self._moving.append(lane)
            return size
        self.size_bytes -= SIZE_BYTES
        self._slots.append(int(lane.slot))
        self._moving_bytes -= current.size
        self._go_on(lane)
        return size

    def _go_on(self, lane: LaneBacklog) -> None:
        """Let leave what waited behind a large message, as far as the next large one."""
        lane.slot = -1
        while lane.waiting:
            message = lane.waiting.popleft()
            size: i64 = 0
            for buffer in message:
                size += len(buffer)
            if size > self._whole_bytes_max:
                lane.current = Parted(message, size)
                self._starting.append(lane)
                return
            self._write(message, size)
        del self._lanes[lane.name]

    def _cut(self) -> None:
        small = self._small
        if len(small) > 0:
            self._buffers.append(small.getvalue())
            small.truncate(0)


def lane_of(message: list[bytes]) -> bytes:
    """What the messages that have to keep their order have in common."""
    head = message[0]
    number = 0
    while len(head) < LANE_BYTES and number + 1 < len(message):
        number += 1
        head += message[number][:LANE_BYTES]
    if head[0] < FIRST_OF_GROUP:
        return b""
    return head[1:LANE_BYTES]
