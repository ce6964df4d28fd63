"""The bodies kept in memory: the newest batches of each group, and those read back.

Each of the two has a bound. Batches leave in the order in which they came, over all groups, when it
is passed. Within a group they come in ascending order of message number, so a group's share is a
ring that grows at one end and shrinks at the other, and finding a number is a look at the place
found last.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from warren.headed_list import HeadedList
from warren.log.batch import Batch

STALE_MAX: Final = 64
"""So many batches may be in the order of eviction that were forgotten, or as many as were not."""

BATCH_OVERHEAD_BYTES: Final = 320
"""What a batch costs in memory beside its bytes: the object, its numbers, its places in lists."""


@final
class Ring:
    """Message batches of one group in ascending order of their numbers.

    Attributes:
        reads: Whether they were read back.
        counted: Whether its pool counts this ring as one with something in it.
    """

    def __init__(self, reads: bool) -> None:
        self.reads = reads
        self.counted = False
        self._batches: HeadedList[Batch] = HeadedList()
        self._hint: i64 = 0

    def __len__(self) -> int:
        return self._batches.size()

    def push(self, batch: Batch) -> None:
        """Append a batch whose numbers lie above all others."""
        self._batches.append(batch)

    def newest(self) -> Batch | None:
        """The batch with the highest numbers."""
        size = self._batches.size()
        return self._batches.at(size - 1) if size > 0 else None

    def pop_front(self, batch: Batch) -> None:
        """Let go of the batch with the lowest numbers, which has to be this one."""
        assert self._batches.at(0) is batch, "batches leave a ring in order"
        self._batches.drop(1)
        if self._hint > 0:
            self._hint -= 1

    def clear(self) -> list[Batch]:
        """Empty the ring and return what it held."""
        held: list[Batch] = []
        for at in range(self._batches.size()):
            held.append(self._batches.at(at))
        self._batches.clear()
        self._hint = 0
        return held

    def cut(self, number: i64) -> None:
        """Let go of the batches from a message on; they count no more."""
        size = self._batches.size()
        while size > 0:
            batch = self._batches.at(size - 1)
            if batch.first < number:
                break
            batch.resident = False
            size -= 1
        self._batches.cut(size)

    def find(self, number: i64) -> Batch | None:
        """The batch that holds a message, or None."""
        batches = self._batches
        size = batches.size()
        at = self._hint
        if at >= size:
            at = 0
        for _ in range(2):
            if at >= size:
                return None
            batch = batches.at(at)
            if number < batch.first:
                break
            if number < batch.first + batch.count:
                self._hint = at
                return batch
            at += 1
        low: i64 = 0
        high = size
        while low < high:
            middle = (low + high) >> 1
            if batches.at(middle).first <= number:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        batch = batches.at(low - 1)
        if number >= batch.first + batch.count:
            return None
        self._hint = low - 1
        return batch

    def from_number(self, number: i64) -> list[Batch]:
        """All batches with messages at or above a number."""
        found: list[Batch] = []
        at = self._batches.size()
        while at > 0:
            batch = self._batches.at(at - 1)
            if batch.first + batch.count <= number:
                break
            found.append(batch)
            at -= 1
        found.reverse()
        return found


@final
class Share:
    """What the cache holds of one group: most groups are idle, and it holds nothing of them."""

    def __init__(self) -> None:
        self._recent: Ring | None = None
        self._read_back: Ring | None = None

    @property
    def recent(self) -> Ring:
        """Batches appended, from the oldest not evicted to the newest."""
        if self._recent is None:
            self._recent = Ring(False)
        return self._recent

    @property
    def read_back(self) -> Ring:
        """Batches read from disk, one ascending stretch."""
        if self._read_back is None:
            self._read_back = Ring(True)
        return self._read_back

    def find(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory."""
        batch: Batch | None = None
        if self._read_back is not None:
            batch = self._read_back.find(number)
        if batch is None and self._recent is not None:
            batch = self._recent.find(number)
        return batch


@final
class _Slot:
    """A place in the order of eviction."""

    def __init__(self, batch: Batch, ring: Ring, cost: i64) -> None:
        self.batch = batch
        self.ring = ring
        self.cost: i64 = cost


@final
class _Pool:
    """Rings of one kind, over all groups, and the bound over them.

    Attributes:
        size_bytes: What is counted, of batches forgotten too until they are let go of.
        rings: How many rings have something in it.
    """

    def __init__(self, limit_bytes: i64) -> None:
        self.limit: i64 = limit_bytes
        self.size_bytes: i64 = 0
        self.rings: i64 = 0
        self._order: deque[_Slot] = deque()
        self._stale: i64 = 0
        """How many of them were forgotten since."""

    def admit(self, batch: Batch, ring: Ring) -> None:
        """Count a batch that is at the end of its ring and may be evicted from now on."""
        cost = batch.size() + BATCH_OVERHEAD_BYTES
        batch.resident = True
        if not ring.counted:
            ring.counted = True
            self.rings += 1
        self._order.append(_Slot(batch, ring, cost))
        self.size_bytes += cost
        # The newest stays whatever its size: whoever waited for it gets to see it.
        while self.size_bytes > self.limit and len(self._order) > 1:
            slot = self._order.popleft()
            self.size_bytes -= slot.cost
            if slot.batch.resident:
                slot.batch.resident = False
                slot.ring.pop_front(slot.batch)
                if len(slot.ring) == 0:
                    self.left(slot.ring)
            elif self._stale > 0:
                self._stale -= 1

    def forgot(self, count: i64) -> None:
        """Let go of batches that were forgotten, where they are most of all.

        Each has hold of its group: queues that came and went would take memory until their turn.
        """
        self._stale += count
        if self._stale <= STALE_MAX or 2 * self._stale <= len(self._order):
            return
        order: deque[_Slot] = deque()
        for slot in self._order:
            if slot.batch.resident:
                order.append(slot)
            else:
                self.size_bytes -= slot.cost
        self._order = order
        self._stale = 0

    def clear(self) -> None:
        """Let go of all batches."""
        for slot in self._order:
            if slot.batch.resident:
                for batch in slot.ring.clear():
                    batch.resident = False
                slot.ring.counted = False
        self._order.clear()
        self._stale = 0
        self.size_bytes = 0
        self.rings = 0

    def left(self, ring: Ring) -> None:
        """Count one ring less for the pool, since this one is empty."""
        if ring.counted:
            ring.counted = False
            self.rings -= 1


@final
class Cache:
    """The bounds over all groups' shares: one for what is new, one for what was read back."""

    def __init__(self, limit_bytes: i64, read_limit_bytes: i64) -> None:
        self._recent = _Pool(limit_bytes)
        self._read = _Pool(read_limit_bytes)

    @property
    def size_bytes(self) -> i64:
        """What is kept, as far as it counts."""
        return self._recent.size_bytes + self._read.size_bytes

    def read_share_bytes(self) -> i64:
        """What one more reader may keep without taking it from the others."""
        return self._read.limit // (self._read.rings + 1)

    def admit(self, batch: Batch, ring: Ring) -> None:
        """Count a new batch that is at the end of its ring and may be evicted from now on."""
        self._recent.admit(batch, ring)

    def admit_read(self, batches: list[Batch], share: Share) -> None:
        """Keep batches read back, in ascending order; an unconnected older stretch goes.

        Of more than fits, the first ones are kept, one at least: the reader waits for those.
        """
        if not batches:
            return
        newest = share.read_back.newest()
        if newest is not None and batches[0].first < newest.first + newest.count:
            self.forget(share.read_back)
        total: i64 = 0
        for batch in batches:
            total += batch.size() + BATCH_OVERHEAD_BYTES
            if total > self._read.limit and batch is not batches[0]:
                return
            share.read_back.push(batch)
            self._read.admit(batch, share.read_back)

    def forget_reads(self) -> None:
        """Let go of all that was read back, of all groups; it can be read again."""
        self._read.clear()

    def forget(self, ring: Ring) -> None:
        """Empty a ring; its places in the order are passed over, or let go of soon."""
        held = ring.clear()
        for batch in held:
            batch.resident = False
        pool = self._read if ring.reads else self._recent
        pool.left(ring)
        pool.forgot(len(held))
