"""What is still whole in a damaged stretch of a log file.

Nothing here takes a batch's own word for where the next one begins, since that may be what is
damaged, and a publisher may have put anything into the bytes after it. Rounds are found by their
headers, which are bound to their place and file. Within a round the sizes have to lead exactly to
its end, over checksums that add up to the round's digest; then each batch counts by itself. Where
they do not, those before the first bad one count, and the rest of the round is given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.checksum import crc32
from warren.log.batch import (
    CHECKSUM_AT,
    HEADER_BYTES,
    KIND_MESSAGES,
    KIND_ROUND,
    KIND_TRANSIENT,
    SECTOR_BYTES,
    Batch,
    Header,
    aligned,
    identity,
)
from warren.log.extents import is_void
from warren.log.files import UNREADABLE, LogFile, lacks_space
from warren.log.manifest import DIRECTORY, SALVAGE_PATH
from warren.log.scan import Visitor
from warren.ports import Disk, Job

if TYPE_CHECKING:
    from warren.log.group import GroupLog
    from warren.log.reading import Span
    from warren.log.store import Store

NOTHING: Final = -1
"""In the place of a group, where none was looked through."""
LOOKED: Final = "looked through up to group "
NOTE_BYTES_MAX: Final = 65_536
STEP_BYTES: Final = 65_536
"""How much is read at a time to find a round's header."""


@final
class Salvage:
    """One pass over a stretch of a file that is known to be damaged. Blocks.

    Attributes:
        end: Offset after the last round whose header is whole, a multiple of the sector size.
        last_round: Where that round begins, -1 if there is none.
        round_number: Its number, 0 if there is none.
    """

    def __init__(self, file: LogFile, salt: i64, visitor: Visitor) -> None:
        self._handle = file.handle
        self._identity: i64 = identity(salt, file.number)
        self._visitor = visitor
        self._header = Header()
        self.end: i64 = 0
        self.last_round: i64 = -1
        self.round_number: i64 = 0

    def run(self, start: i64, end: i64) -> None:
        """Visit every batch between two offsets that is whole.

        Raises:
            OSError: The disk failed; what it merely cannot read counts as damaged.
        """
        offset = self._round_before(start)
        while offset < end:
            size = self._open_round(offset)
            if size < 0:
                offset += SECTOR_BYTES
                continue
            self.last_round = offset
            self.round_number = self._header.index
            self._visit(offset, size, self._header.digest, start, end)
            offset = aligned(offset + size)
            self.end = offset

    def _read(self, offset: i64, size: i64) -> bytes:
        try:
            return self._handle.read(offset, size)
        except OSError as error:
            if error.errno not in UNREADABLE:
                raise
            return b""

    def _round_before(self, start: i64) -> i64:
        """Where the last round begins, at or before an offset, whose header is whole."""
        behind = start & ~(SECTOR_BYTES - 1)
        behind += SECTOR_BYTES
        while behind > 0:
            base = max(0, behind - STEP_BYTES)
            data = self._read(base, behind - base)
            at = (len(data) - 1) & ~(SECTOR_BYTES - 1)
            while at >= 0:
                if self._is_round(data, at, base + at):
                    return base + at
                at -= SECTOR_BYTES
            behind = base
        return 0

    def _open_round(self, offset: i64) -> i64:
        """The size of the round that begins at an offset, -1 if none does."""
        if not self._is_round(self._read(offset, HEADER_BYTES), 0, offset):
            return -1
        return self._header.stamp_ms

    def _is_round(self, data: bytes, at: i64, offset: i64) -> bool:
        header = self._header
        return (
            not header.load(data, at, len(data))
            and header.kind == KIND_ROUND
            and header.size == HEADER_BYTES
            and header.group == offset
            and header.term == self._identity
            and header.stamp_ms >= HEADER_BYTES
            and header.checksum_holds(data, at)
        )

    def _visit(self, offset: i64, size: i64, digest: i64, start: i64, end: i64) -> None:
        data = self._read(offset, size)
        header = self._header
        whole = self._adds_up(data, size, digest)
        at: i64 = HEADER_BYTES
        while at < size and not header.load(data, at, len(data)) and header.kind != KIND_ROUND:
            holds = header.checksum_holds(data, at)
            if not holds and not whole:
                return
            if holds and start <= offset + at < end:
                self._visitor.batch(header, data, at, offset + at)
            at += header.size

    def _adds_up(self, data: bytes, size: i64, digest: i64) -> bool:
        """Whether the sizes of a round's batches are what they were."""
        header = self._header
        at: i64 = HEADER_BYTES
        found = 0
        while at < size:
            if header.load(data, at, min(size, len(data))) or header.kind == KIND_ROUND:
                return False
            found = crc32(data[at + CHECKSUM_AT : at + CHECKSUM_AT + 4], found)
            at += header.size
        return at == size and found == digest


@final
class Gatherer(Visitor):
    """Keeps the message batches of one group that are whole and not void."""

    def __init__(self, span: Span, group: GroupLog, first: i64, last: i64) -> None:
        self._span = span
        self._group = group
        self._first: i64 = first
        self._last: i64 = last
        self.found: list[Batch] = []

    def batch(self, header: Header, data: bytes, at: i64, offset: i64) -> None:
        if (
            header.group == self._group.id
            and KIND_MESSAGES <= header.kind <= KIND_TRANSIENT
            and header.first + header.count > self._first
            and header.first <= self._last
            and not is_void(self._span.tombstones, self._span.hidden_from, header.index, offset)
        ):
            batch = header.batch(self._group, data, at)
            batch.detach()
            self.found.append(batch)


def messages_in(span: Span, group: GroupLog, first: i64, last: i64) -> list[Batch]:
    """The batches with some messages of a group that are whole in a damaged stretch. Blocks.

    Raises:
        OSError: The disk failed.
    """
    gatherer = Gatherer(span, group, first, last)
    salvage = Salvage(span.file, group.store.salt, gatherer)
    salvage.run(span.offset, span.offset + span.size)
    return gatherer.found


def gaps(batches: list[Batch], first: i64, last: i64) -> list[tuple[int, int]]:
    """The numbers from `first` to `last` that no batch of an ascending list holds."""
    missing: list[tuple[int, int]] = []
    if first > last:
        return missing
    next_number = first
    for batch in batches:
        if batch.first > next_number:
            missing.append((int(next_number), int(min(batch.first - 1, last))))
        next_number = max(next_number, batch.first + batch.count)
        if next_number > last:
            return missing
    missing.append((int(next_number), int(last)))
    return missing


def note(disk: Disk, problem: str, looked_upto: int = NOTHING) -> None:
    """Write down that a damaged log is about to be taken for whole. Blocks; raises `OSError`.

    That the file is there says so. What it says is for people, but for the last line: which groups
    were looked through since, and what came of it is durable.
    """
    text = f"{problem}\n"
    if looked_upto != NOTHING:
        text += f"{LOOKED}{looked_upto}\n"
    handle = disk.open(SALVAGE_PATH, create=True)
    try:
        handle.truncate(0)
        handle.write([text.encode()], 0)
        handle.sync()
    finally:
        handle.close()
    disk.sync_directory(DIRECTORY)


def noted(disk: Disk) -> int:
    """Up to which group all were looked through, as `note` wrote it; `NOTHING` if none was.

    Blocks; raises `OSError`.
    """
    handle = disk.open(SALVAGE_PATH)
    try:
        data = handle.read(0, min(handle.size_bytes(), NOTE_BYTES_MAX))
    finally:
        handle.close()
    _, mark, number = data.rpartition(b"\n" + LOOKED.encode())
    # A crash may have left some of it.
    whole = number.endswith(b"\n") and number[:-1].isdigit()
    return int(number[:-1]) if mark and whole else NOTHING


@final
class NoteJob(Job):
    """Writes down up to which group all were looked through."""

    def __init__(self, store: Store, looked_upto: int) -> None:
        self._store = store
        self._looked_upto = looked_upto

    def run(self) -> None:
        note(self._store.disk, "a start went on over damage", self._looked_upto)

    def done(self, error: BaseException | None) -> None:
        # Where there is no room for it, the next start looks at more than it would have to.
        if error is not None and not lacks_space(error):
            self._store.fail(error)


@final
class ForgetJob(Job):
    """Removes the note of damage that `note` wrote."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def run(self) -> None:
        disk = self._store.disk
        disk.remove(SALVAGE_PATH)
        disk.sync_directory(DIRECTORY)

    def done(self, error: BaseException | None) -> None:
        if error is None:
            self._store.salvaged = False
        elif not lacks_space(error):
            # The next start looks through everything again.
            self._store.fail(error)
