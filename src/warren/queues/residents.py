"""The batches of messages that a transient queue has, in their order, some of them left empty.

Batches lie in blocks. What of a block is empty goes when that is its larger half, so that however
they empty, one of them costs no more than to look through its block.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.ports import Work
from warren.queues.paging import Pages, ResidentBatch

BLOCK_BATCHES: Final = 256
"""Batches of a block that is full."""

SPENT_BLOCKS: Final = 4
"""Blocks of a deleted queue that are let go of at a time: a millisecond."""


@final
class ResidentBlock:
    """Some batches that follow each other.

    Attributes:
        batches: There is one at least, but for the only block.
        empty: How many of them have no message in the queue any more.
    """

    def __init__(self) -> None:
        self.batches: list[ResidentBatch] = []
        self.empty: i64 = 0

    def ends_behind(self, number: i64) -> bool:
        """Whether it has a message behind a number, or that one."""
        batch = self.batches[-1].batch
        return batch.first + batch.count > number

    def find(self, number: i64) -> i64:
        """The place of the first batch that ends at or behind a message."""
        batches = self.batches
        low: i64 = 0
        high: i64 = len(batches)
        while low < high:
            middle = (low + high) // 2
            batch = batches[middle].batch
            if batch.first + batch.count <= number:
                low = middle + 1
            else:
                high = middle
        return low


@final
class Residents:
    """Batches by the numbers of their messages, which ascend."""

    def __init__(self) -> None:
        self._blocks: list[ResidentBlock] = []

    def append(self, resident: ResidentBatch) -> None:
        """Put a batch behind all others."""
        blocks = self._blocks
        if not blocks or len(blocks[-1].batches) >= BLOCK_BATCHES:
            blocks.append(ResidentBlock())
        blocks[-1].batches.append(resident)

    def find(self, number: i64) -> ResidentBatch | None:
        """The batch with a message, if it is not gone."""
        at = self._find(number)
        if at == len(self._blocks):
            return None
        block = self._blocks[at]
        resident = block.batches[block.find(number)]
        return resident if resident.batch.first <= number else None

    def some(self, number: i64, most: i64) -> list[ResidentBatch]:
        """The first batches that end at or behind a message, so many at most."""
        found: list[ResidentBatch] = []
        blocks = self._blocks
        at = self._find(number)
        while at < len(blocks) and len(found) < most:
            block = blocks[at]
            place = block.find(number)
            found.extend(block.batches[place : place + most - len(found)])
            at += 1
        return found

    def emptied(self, resident: ResidentBatch) -> i64:
        """A batch that is here has no message in the queue any more.

        Returns:
            How many batches were looked at or let go of for that.
        """
        blocks = self._blocks
        at = self._find(resident.batch.first)
        block = blocks[at]
        block.empty += 1
        size = len(block.batches)
        if 2 * block.empty <= size:
            return 0
        if block.empty < len(block.batches):
            block.batches = [each for each in block.batches if each.live > 0]
        elif len(blocks) > 1:
            del blocks[at]
        else:
            block.batches.clear()
        block.empty = 0
        return size

    def has_more_than(self, blocks: i64) -> bool:
        """Whether there are more blocks than so many, empty or not."""
        return len(self._blocks) > blocks

    def take_last(self, blocks: i64) -> list[ResidentBatch]:
        """Take out the batches of some blocks at the end."""
        found: list[ResidentBatch] = []
        for _ in range(min(blocks, len(self._blocks))):
            found.extend(self._blocks.pop().batches)
        return found

    def all(self) -> list[ResidentBatch]:
        """All batches."""
        found: list[ResidentBatch] = []
        for block in self._blocks:
            found.extend(block.batches)
        return found

    def _find(self, number: i64) -> i64:
        """The first block that ends at or behind a message; how many there are if none does."""
        blocks = self._blocks
        if not blocks or not blocks[0].batches:
            # The only block may be empty.
            return len(blocks)
        low: i64 = 0
        high: i64 = len(blocks)
        if blocks[0].ends_behind(number):
            return 0
        while low < high:
            middle = (low + high) // 2
            if blocks[middle].ends_behind(number):
                high = middle
            else:
                low = middle + 1
        return low


@final
class Forgetting(Work):
    """Lets go of all batches of a deleted queue, in memory and on disk, in parts."""

    def __init__(self, residents: Residents, pages: Pages | None) -> None:
        self._residents: Residents = residents
        self._pages: Pages | None = pages

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        some = self._residents.take_last(SPENT_BLOCKS)
        pages = self._pages
        if pages is not None:
            for resident in some:
                place = resident.place
                if place is not None:
                    resident.place = None
                    pages.let_go(place)
        return not self._residents.has_more_than(0)
