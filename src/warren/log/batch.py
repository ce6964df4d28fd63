"""The record batch: the one unit that is written, replicated, stored and read.

All numbers are little-endian. A batch is a header of 80 bytes, the lengths of its records, and the
records back to back:

     0        4        8        12   13    14      16               24
     +--------+--------+--------+----+-----+-------+----------------+----------------+
     | magic  | size   | crc    |kind|flav.|version| group          | index          |
     +--------+--------+--------+----+-----+-------+----------------+----------------+
     32               40               48       52        56               64
     +----------------+----------------+--------+---------+----------------+
     | term           | first          | count  | life    | stamp_ms       |
     +----------------+----------------+--------+---------+----------------+
     64               72
     +----------------+----------------+
     | session        | sequence       |
     +----------------+----------------+
     80                            80 + 4 * count
     +-----------------------------+----------+-----------------------------+
     | lengths: count x u32        | facts    | payload: the records        |
     +-----------------------------+----------+-----------------------------+

`size` counts the whole batch in bytes; `crc` is CRC-32 (zlib) over everything after it, so it
binds the content to its group and index. Lengths stand in front so that a reader can find every
record without touching one. `index` counts batches of a group, `first` is the number of the
batch's first message in its group; control batches have `count` 0 and carry one opaque payload.
`session` and `sequence` say which life of which node proposed an entry, and as the how manieth.
`flav.` is the flavour of all records of the batch, as what protocol's bytes they lie there
(`message.flavours`): the log keeps it, and asks no more. It is 0 where there are no records. `life`
says after what time all of its messages expire, from `stamp_ms` on, see `life_code`. The upper
byte of `version` is 1 where facts of each message lie behind the lengths (`facts`), else 0.

A TRUNCATE makes every entry of its group from its `index` on void that lies before it in the log,
and a RESET every entry and snapshot; `first` is the number the next message gets after it.

A round, the result of one gathered write, starts with a batch of kind ROUND at a multiple of 512
bytes. It has no payload; its fields mean: `group` the offset at which it lies, `index` the round's
number, `term` the identity of the file, which is the salt of the directory combined with the file's
number, `first` the offset up to which the file was durable when the round was issued, `stamp_ms`
the size of the whole round in bytes, and `life` a CRC-32 over the checksums of its
batches. Zeros follow up to the next multiple of 512. Offset and identity keep bytes of an earlier
use of the same blocks, and bytes a publisher chose, from passing for a round; the CRC keeps stale
batches from passing for part of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from librt.strings import (
    BytesWriter,
    read_i32_le,
    read_i64_le,
    write_i32_le,
    write_i64_le,
)
from librt.vecs import append, vec
from mypy_extensions import i32, i64

from warren.checksum import crc32
from warren.log.facts import facts_end

if TYPE_CHECKING:
    from warren.log.group import GroupLog

MAGIC: Final = 0x31425257
"""`WRB1` as bytes."""

FORMAT_VERSION: Final = 2
WITH_FACTS: Final = 1
HEADER_BYTES: Final = 80
CHECKSUM_AT: Final = 8
SECTOR_BYTES: Final = 512
"""Rounds start at multiples of this, the unit in which disks tear writes."""

BATCH_BYTES_MAX: Final = 0x7FFF_FFFF
"""`size` stays within a signed 32-bit number for readers in languages without unsigned ones."""

KIND_ROUND: Final = 0
KIND_MESSAGES: Final = 1
KIND_TRANSIENT: Final = 2
KIND_COMMAND: Final = 3
KIND_SNAPSHOT: Final = 4
KIND_DROP: Final = 5
KIND_STATE: Final = 6
KIND_TRUNCATE: Final = 7
KIND_RESET: Final = 8


@final
class Batch:
    """One record batch in memory.

    Of a message batch, `payload` may be a large buffer shared with others: this batch's records
    begin at `payload_at`, their lengths at `lengths_at` in `lengths`. Replayed message batches
    have no payload, only its size. Do not keep a batch beyond the turn it was handed out in; ask
    the group's log again by message number, so that bodies can leave memory.

    Attributes:
        kind: One of the `KIND_` constants.
        index: Raft index in its group.
        first: Number of the first message, and for control batches that of the next one.
        stamp_ms: The leader's wall time.
        session: Which life of which node proposed the entry, 0 for none.
        sequence: Its number within that session and group.
        flavour: What its records are, for `message`; 0 where there are none.
        life_ms: After what time its messages expire; negative for never.
        facts: What is known of each of them (`facts`), its own bytes; empty if nothing is.
        void: Whether it was truncated before it was written; it then counts for nothing.
        as_stored: Whether the whole encoded batch lies in `payload`, around the records.
        origin: What the appender gave along, handed back when the batch is persisted.
        group: The log it belongs to; None for batches that are only being moved.
        group_id: That log's id.
    """

    def __init__(
        self,
        group: GroupLog | None,
        kind: i64,
        index: i64,
        term: i64,
        first: i64,
        count: i64,
        stamp_ms: i64,
        lengths: bytes,
        lengths_at: i64,
        payload: bytes,
        payload_at: i64,
        payload_size: i64,
        origin: object | None,
        session: i64 = 0,
        sequence: i64 = 0,
        flavour: i64 = 0,
        life_ms: i64 = -1,
        facts: bytes = b"",
    ) -> None:
        self.group = group
        self.group_id: i64 = 0 if group is None else group.id
        self.kind: i64 = kind
        self.index: i64 = index
        self.term: i64 = term
        self.first: i64 = first
        self.count: i64 = count
        self.stamp_ms: i64 = stamp_ms
        self.lengths = lengths
        self.lengths_at: i64 = lengths_at
        self.payload = payload
        self.payload_at: i64 = payload_at
        self.payload_size: i64 = payload_size
        self.session: i64 = session
        self.sequence: i64 = sequence
        self.flavour: i64 = flavour
        self.life_ms: i64 = life_ms
        self.facts = facts
        self.origin = origin
        self.void = False
        self.as_stored = False
        self.resident = False
        """Whether the cache counts this batch; the cache's own mark."""
        self._ends = vec[i32]()
        self._head = b""
        """What `encode_head` gives, if `parts` has made it already."""

    def size(self) -> i64:
        """Bytes of the whole batch on disk."""
        return HEADER_BYTES + 4 * self.count + len(self.facts) + self.payload_size

    def length(self, position: i64) -> i64:
        """Bytes of the record at a position, 0 being the batch's first."""
        return i64(read_i32_le(self.lengths, self.lengths_at + 4 * position))

    def offset(self, position: i64) -> i64:
        """Where in `payload` the record at a position starts."""
        if position == 0:
            return self.payload_at
        if len(self._ends) == 0:
            self._index_records()
        return self.payload_at + i64(self._ends[position - 1])

    def record(self, position: i64) -> bytes:
        """A copy of one record."""
        start = self.offset(position)
        return self.payload[start : start + self.length(position)]

    def _index_records(self) -> None:
        ends = vec[i32](capacity=self.count)
        at: i64 = 0
        for position in range(self.count):
            at += self.length(position)
            ends = append(ends, i32(at))
        self._ends = ends

    def encode_head(self) -> bytes:
        """Header and lengths as they lie on disk, with the checksum over the whole batch."""
        if self.as_stored:
            return self.payload[self.lengths_at - HEADER_BYTES : self.payload_at]
        if self._head:
            return self._head
        writer = BytesWriter()
        version: i64 = FORMAT_VERSION | WITH_FACTS << 8 if self.facts else FORMAT_VERSION
        write_i32_le(writer, i32(self.kind | self.flavour << 8 | version << 16))
        write_i64_le(writer, self.group_id)
        write_i64_le(writer, self.index)
        write_i64_le(writer, self.term)
        write_i64_le(writer, self.first)
        if self.life_ms < 0:
            write_i64_le(writer, self.count)
        else:
            write_i32_le(writer, i32(self.count))
            write_checksum(writer, life_code(self.life_ms))
        write_i64_le(writer, self.stamp_ms)
        write_i64_le(writer, self.session)
        write_i64_le(writer, self.sequence)
        if self.count > 0:
            end = self.lengths_at + 4 * self.count
            if self.lengths_at == 0 and end == len(self.lengths):
                writer.write(self.lengths)
            else:
                writer.write(self.lengths[self.lengths_at : end])
            if self.facts:
                writer.write(self.facts)
        tail = writer.getvalue()
        checksum = crc32(tail)
        if self.payload_size > 0:
            checksum = crc32(self.view(), checksum)
        head = BytesWriter()
        write_i64_le(head, MAGIC | self.size() << 32)
        write_checksum(head, checksum)
        head.write(tail)
        return head.getvalue()

    def body(self) -> bytes:
        """The records alone; `payload` itself where it is not shared."""
        if self.payload_at == 0 and self.payload_size == len(self.payload):
            return self.payload
        return self.payload[self.payload_at : self.payload_at + self.payload_size]

    def view(self) -> Any:
        """The same without a copy, for what takes any buffer."""
        if self.payload_at == 0 and self.payload_size == len(self.payload):
            return self.payload
        return memoryview(self.payload)[self.payload_at : self.payload_at + self.payload_size]

    def encoded(self) -> bytes:
        """The whole batch as it lies on disk."""
        if self.as_stored:
            start = self.lengths_at - HEADER_BYTES
            return self.payload[start : self.payload_at + self.payload_size]
        return self.encode_head() + self.body()

    def stored_view(self) -> bytes | memoryview:
        """What `encoded` gives, not copied where the batch has it as it lies on disk."""
        if self.as_stored:
            start = self.lengths_at - HEADER_BYTES
            return memoryview(self.payload)[start : self.payload_at + self.payload_size]
        return self.encoded()

    def parts(self) -> list[bytes]:
        """What `encoded` gives, as buffers back to back; for batches that are sent and written."""
        if self.as_stored:
            return [self.encoded()]
        if not self._head:
            self._head = self.encode_head()
        return [self._head, self.body()]

    def detach(self) -> None:
        """Give the batch its own copy of its bytes."""
        lengths_end = self.lengths_at + 4 * self.count
        self.lengths = self.lengths[self.lengths_at : lengths_end]
        self.lengths_at = 0
        self.payload = self.body()
        self.payload_at = 0
        self.as_stored = False

    def strip(self) -> None:
        """Keep the lengths only, for those who need to know no more."""
        self.lengths = self.lengths[self.lengths_at : self.lengths_at + 4 * self.count]
        self.lengths_at = 0
        self.payload = b""
        self.payload_at = 0
        self.as_stored = False


LIFE_SECONDS: Final = 1 << 31
"""Behind this bit a time to live is in seconds, rounded up."""


def life_code(life_ms: i64) -> i64:
    """A time to live in 32 bits: 0 for none, else milliseconds and one, or seconds."""
    if life_ms < 0:
        return 0
    return life_ms + 1 if life_ms + 1 < LIFE_SECONDS else LIFE_SECONDS | (life_ms + 999) // 1_000


def life_of(code: i64) -> i64:
    """The time to live that 32 bits say, in milliseconds; -1 for none."""
    return (code & ~LIFE_SECONDS) * 1_000 if code & LIFE_SECONDS else code - 1


def write_checksum(writer: BytesWriter, checksum: i64) -> None:
    """Append an unsigned 32-bit number."""
    if checksum >= 0x8000_0000:
        checksum -= 0x1_0000_0000
    write_i32_le(writer, i32(checksum))


def identity(salt: i64, number: i64) -> i64:
    """What the rounds of one file carry, and those of no other: numbers are never used twice."""
    return salt ^ number


def encode_round(
    offset: i64, number: i64, file_identity: i64, durable_offset: i64, size: i64, digest: i64
) -> bytes:
    """The batch that opens a round; the module's head says what its fields mean."""
    writer = BytesWriter()
    write_i32_le(writer, i32(KIND_ROUND | FORMAT_VERSION << 16))
    write_i64_le(writer, offset)
    write_i64_le(writer, number)
    write_i64_le(writer, file_identity)
    write_i64_le(writer, durable_offset)
    write_i32_le(writer, 0)
    write_checksum(writer, digest)
    write_i64_le(writer, size)
    write_i64_le(writer, 0)
    write_i64_le(writer, 0)
    tail = writer.getvalue()
    head = BytesWriter()
    write_i64_le(head, MAGIC | HEADER_BYTES << 32)
    write_checksum(head, crc32(tail))
    head.write(tail)
    return head.getvalue()


def digest_of(heads: list[bytes]) -> i64:
    """The digest of a round whose batches begin with these headers."""
    checksums = BytesWriter()
    for head in heads:
        write_i32_le(checksums, read_i32_le(head, CHECKSUM_AT))
    return crc32(checksums.getvalue())


def aligned(offset: i64) -> i64:
    """The first multiple of `SECTOR_BYTES` that is not below an offset."""
    return (offset + SECTOR_BYTES - 1) & ~(SECTOR_BYTES - 1)


@final
class Header:
    """A decoded batch header, reused from batch to batch while bytes are scanned."""

    def __init__(self) -> None:
        self.size: i64 = 0
        self.kind: i64 = 0
        self.flavour: i64 = 0
        self.group: i64 = 0
        self.index: i64 = 0
        self.term: i64 = 0
        self.first: i64 = 0
        self.count: i64 = 0
        self.stamp_ms: i64 = 0
        self.session: i64 = 0
        self.sequence: i64 = 0
        self.digest: i64 = 0
        self.with_facts: bool = False

    def load(self, data: bytes, at: i64, end: i64, alone: bool = False) -> str:
        """Decode the header at a place in a buffer.

        Args:
            data: Bytes from a log file.
            at: Where the batch starts.
            end: Where the bytes it may occupy end.
            alone: Whether what follows in the buffer are not its lengths.

        Returns:
            Empty if the header makes sense and the whole batch lies before `end`, else what is
            wrong. The checksum is not looked at.
        """
        if at + HEADER_BYTES > end:
            return "the header is cut off"
        word = read_i64_le(data, at)
        if word & 0xFFFF_FFFF != MAGIC:
            return "no batch begins here"
        self.size = word >> 32
        if self.size < HEADER_BYTES or at + self.size > end:
            return "the size is impossible"
        word = i64(read_i32_le(data, at + 12))
        self.kind = word & 0xFF
        self.flavour = word >> 8 & 0xFF
        version = word >> 16 & 0xFFFF
        self.with_facts = version >> 8 == WITH_FACTS
        if version & 0xFF != FORMAT_VERSION or version >> 8 > WITH_FACTS or self.kind > KIND_RESET:
            return "the kind or version is unknown"
        self.group = read_i64_le(data, at + 16)
        self.index = read_i64_le(data, at + 24)
        self.term = read_i64_le(data, at + 32)
        self.first = read_i64_le(data, at + 40)
        word = read_i64_le(data, at + 48)
        self.count = word & 0xFFFF_FFFF
        self.digest = word >> 32 & 0xFFFF_FFFF
        self.stamp_ms = read_i64_le(data, at + 56)
        self.session = read_i64_le(data, at + 64)
        self.sequence = read_i64_le(data, at + 72)
        if HEADER_BYTES + 4 * self.count > self.size:
            return "the count is impossible"
        if self.with_facts:
            if not KIND_MESSAGES <= self.kind <= KIND_TRANSIENT or self.count == 0:
                return "there are facts of no messages"
            facts_at = at + HEADER_BYTES + 4 * self.count
            if not alone and facts_end(data, facts_at, self.count, at + self.size) < 0:
                return "the facts are unknown"
        return ""

    def checksum_holds(self, data: bytes, at: i64) -> bool:
        """Whether the loaded batch, at the same place, matches its checksum."""
        stored = i64(read_i32_le(data, at + 8)) & 0xFFFF_FFFF
        return crc32(memoryview(data)[at + 12 : at + self.size]) == stored

    def life_ms(self) -> i64:
        """After what time the messages of the loaded batch expire; -1 for never."""
        return life_of(self.digest) if KIND_MESSAGES <= self.kind <= KIND_TRANSIENT else -1

    def batch(self, group: GroupLog | None, data: bytes, at: i64) -> Batch:
        """The loaded batch, at the same place, as an object that shares the buffer."""
        payload_at = at + HEADER_BYTES + 4 * self.count
        facts = b""
        if self.with_facts:
            facts_at = payload_at
            payload_at = facts_end(data, facts_at, self.count, at + self.size)
            facts = data[facts_at:payload_at]
        batch = Batch(
            group,
            self.kind,
            self.index,
            self.term,
            self.first,
            self.count,
            self.stamp_ms,
            data,
            at + HEADER_BYTES,
            data,
            payload_at,
            at + self.size - payload_at,
            None,
            self.session,
            self.sequence,
            self.flavour,
            self.life_ms(),
            facts,
        )
        batch.group_id = self.group
        batch.as_stored = True
        return batch
