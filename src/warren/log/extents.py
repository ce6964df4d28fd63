"""Where a group's batches lie in one file, and which of them are void.

The index of one group in one file is a row of extents. An extent is a stretch of the file that
is worth reading in one go to find a batch of this group: at most `extent_bytes_max` long (or one
batch), and mostly made of the group's own bytes. So a backlog of one queue costs a few numbers per
quarter of a mebibyte, and a thousand queues written in turn do not make each other's reads dear.

Whether a batch is void is a matter of place: a tombstone, which is a TRUNCATE or a RESET in the
log, makes void what its group has before it from an index on. Terms would not do. An entry of a
lower term may replace one of a higher term, when the leader of the higher one reached few members.

A tombstone in the same file cuts the row for good. Tombstones in later files, and those that are
not durable yet, only hide what comes after an index: the row says what the file holds, so that the
sidecar made of it is true whatever a crash leaves of the tombstones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from warren.log.batch import KIND_COMMAND
from warren.term_runs import TermRuns

if TYPE_CHECKING:
    from warren.log.files import LogFile

FOREIGN_BYTES_FREE: Final = 4096
"""Bytes of other groups that an extent may hold whatever its own size: one page."""

FOREIGN_FACTOR: Final = 3
"""Beyond that, bytes of other groups per own byte."""

NUMBERS: Final = 4
"""What is kept of an extent: so many numbers, the ones of one extent side by side."""
OFFSET: Final = 0
SPAN: Final = 1
FIRST_NUMBER: Final = 2
FIRST_INDEX: Final = 3

NOWHERE: Final = 0x7FFF_FFFF_FFFF_FFFF
"""An index and a message number above all there can be."""


@final
class Tombstone:
    """A TRUNCATE or a RESET that lies in a file.

    Attributes:
        index: The lowest index it makes void; 0 for a RESET, which takes snapshots too.
        next_message: The number of the next message after it.
        offset: Where it lies.
        opens: Whether a snapshot has to follow before the group is whole again.
    """

    def __init__(self, index: i64, next_message: i64, offset: i64, opens: bool) -> None:
        self.index: i64 = index
        self.next_message: i64 = next_message
        self.offset: i64 = offset
        self.opens = opens


def is_void(tombstones: list[Tombstone] | None, hidden_from: i64, index: i64, offset: i64) -> bool:
    """Whether an entry at a place of a file is void.

    Args:
        tombstones: The group's tombstones in that file, if there ever was one.
        hidden_from: The lowest index that later tombstones make void.
        index: The entry's index.
        offset: Where it lies.
    """
    if index >= hidden_from:
        return True
    if tombstones is None:
        return False
    for tombstone in tombstones:
        if index >= tombstone.index and offset < tombstone.offset:
            return True
    return False


@final
class Extents:
    """One group's index in one file. Numbers and offsets ascend from extent to extent.

    Attributes:
        file: The file.
        tombstones: The group's tombstones in the file, in order; None if there never was one.
        terms: Terms of the entries that no tombstone in the file makes void.
        all_last_index, all_next_message: As below, of all extents in the row.
        top_index: The highest index of any entry that lies in the file, void ones included.
        hidden_from: The lowest index that tombstones after this file's content make void.
        size: How many extents, from the first on, are not hidden as a whole.
        first_message, next_message: The range that those can hold.
        last_index: Raft index of the newest entry not hidden, 0 if there is none.
        message_count, message_bytes: Messages in the file, and the bytes of their batches.
        snapshot_index, snapshot_offset, snapshot_size: The newest snapshot; offset -1 if none.
        state_number, state_offset, state_size: The newest state; offset -1 if none.
    """

    def __init__(self, group_id: i64, file: LogFile) -> None:
        self.group_id: i64 = group_id
        self.file = file
        self._row = vec[i64]()
        """Of each extent its `NUMBERS`; most groups have one in a file, or none."""
        self.tombstones: list[Tombstone] | None = None
        self.terms = TermRuns()
        self.all_last_index: i64 = 0
        self.all_next_message: i64 = 0
        self.top_index: i64 = 0
        self.hidden_from: i64 = NOWHERE
        self.size: i64 = 0
        self.first_message: i64 = 0
        self.next_message: i64 = 0
        self.last_index: i64 = 0
        self.message_count: i64 = 0
        self.message_bytes: i64 = 0
        self.snapshot_index: i64 = 0
        self.snapshot_offset: i64 = -1
        self.snapshot_size: i64 = 0
        self.state_number: i64 = 0
        self.state_offset: i64 = -1
        self.state_size: i64 = 0
        self._own_bytes: i64 = 0
        """Bytes of the last extent that belong to this group."""

    def count(self) -> i64:
        """How many extents there are, hidden ones included."""
        return len(self._row) // NUMBERS

    def offset(self, at: i64) -> i64:
        """Where an extent starts in the file, in bytes."""
        return self._row[NUMBERS * at + OFFSET]

    def span(self, at: i64) -> i64:
        """How long an extent is, in bytes."""
        return self._row[NUMBERS * at + SPAN]

    def number(self, at: i64) -> i64:
        """The first message number that an extent can hold."""
        return self._row[NUMBERS * at + FIRST_NUMBER]

    def index(self, at: i64) -> i64:
        """The Raft index of an extent's first batch."""
        return self._row[NUMBERS * at + FIRST_INDEX]

    def add(
        self,
        kind: i64,
        index: i64,
        term: i64,
        first: i64,
        count: i64,
        offset: i64,
        size: i64,
        max_span: i64,
    ) -> None:
        """Note an entry (messages or a command) that comes after all noted before."""
        last = self.count() - 1
        if last < 0:
            self.first_message = first
            self._begin(index, first, offset, size)
        else:
            span = offset + size - self.offset(last)
            own = self._own_bytes + size
            if span > max_span or span - own > FOREIGN_BYTES_FREE + FOREIGN_FACTOR * own:
                self._begin(index, first, offset, size)
            else:
                self._row[NUMBERS * last + SPAN] = span
                self._own_bytes = own
        if term != self.terms.last_term:
            self.terms.note(index, term)
        self.all_last_index = index
        self.all_next_message = first + count
        if index > self.top_index:
            self.top_index = index
        if index < self.hidden_from:
            self.size = self.count()
            self.last_index = index
            self.next_message = first + count
        if kind != KIND_COMMAND:
            self.message_count += count
            self.message_bytes += size

    def _begin(self, index: i64, first: i64, offset: i64, size: i64) -> None:
        self.add_extent(offset, size, first, index)
        self._own_bytes = size

    def add_extent(self, offset: i64, span: i64, number: i64, index: i64) -> None:
        """Add an extent to the row; by itself it is counted nowhere else."""
        row = self._row
        if len(row) == 0:
            row = vec[i64](capacity=NUMBERS)
        row = append(row, offset)
        row = append(row, span)
        row = append(row, number)
        self._row = append(row, index)

    def add_tombstone(self, tombstone: Tombstone) -> None:
        """Add a tombstone to those of the file; by itself it cuts nothing."""
        if self.tombstones is None:
            self.tombstones = []
        self.tombstones.append(tombstone)

    def add_snapshot(self, index: i64, offset: i64, size: i64) -> None:
        """Note a snapshot; an older one in the same file is forgotten."""
        if index >= self.snapshot_index:
            self.snapshot_index = index
            self.snapshot_offset = offset
            self.snapshot_size = size

    def add_state(self, number: i64, offset: i64, size: i64) -> None:
        """Note a state; an older one in the same file is forgotten."""
        if number >= self.state_number:
            self.state_number = number
            self.state_offset = offset
            self.state_size = size

    def cut(self, tombstone: Tombstone) -> None:
        """Note a tombstone after all noted before: what it makes void is in the row no more."""
        self.add_tombstone(tombstone)
        count = self.count()
        while count > 0 and self.index(count - 1) >= tombstone.index:
            count -= 1
        self._row = self._row[: NUMBERS * count]
        self.terms.cut(tombstone.index)
        self._own_bytes = 0
        if count == 0:
            self.all_last_index = 0
            self.all_next_message = self.first_message
            self.message_count = 0
            self.message_bytes = 0
        else:
            self.all_last_index = min(self.all_last_index, tombstone.index - 1)
            self.all_next_message = min(self.all_next_message, tombstone.next_message)
        if tombstone.index == 0:
            self.snapshot_index = 0
            self.snapshot_offset = -1
            self.snapshot_size = 0
        self.hide(NOWHERE, NOWHERE)

    def hide(self, index: i64, next_message: i64) -> None:
        """Have tombstones after this file's content make void what has this index or a higher one.

        Args:
            index: `NOWHERE` if there are no such tombstones.
            next_message: The number of the first message that is void.
        """
        self.hidden_from = index
        size = self.count()
        while size > 0 and self.index(size - 1) >= index:
            size -= 1
        self.size = size
        if size == 0:
            self.last_index = 0
            self.next_message = self.first_message
        else:
            self.last_index = min(self.all_last_index, index - 1)
            self.next_message = min(self.all_next_message, next_message)

    @property
    def has_snapshot(self) -> bool:
        """Whether there is a snapshot that is not void."""
        return self.snapshot_offset >= 0 and self.hidden_from > 0

    def has_entries_behind(self, index: i64) -> bool:
        """Whether there are entries above an index that are not void."""
        return self.size > 0 and self.last_index > index

    def answers_to(self, tombstone: Tombstone) -> bool:
        """Whether the file holds what a tombstone in a later one has to keep void."""
        if self.tombstones:
            return True
        if tombstone.index == 0:
            return self.top_index > 0 or self.snapshot_offset >= 0
        return self.top_index >= tombstone.index

    def find(self, number: i64) -> i64:
        """The extent in which a message lies, if it is in this file at all.

        Returns:
            The last extent that starts at or below the number; 0 if all start above it.
        """
        return self._behind(FIRST_NUMBER, number)

    def find_index(self, index: i64) -> i64:
        """Find the extent of an entry by its index, as `find` does by a message's number."""
        return self._behind(FIRST_INDEX, index)

    def _behind(self, which: i64, value: i64) -> i64:
        """The last extent of which one of the numbers is not above a value, 0 if all are."""
        row = self._row
        low: i64 = 0
        high = self.size
        while low < high:
            middle = (low + high) >> 1
            if row[NUMBERS * middle + which] <= value:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low > 0 else 0
