"""Publishes on their way into queues, and the confirms they are owed."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr

from warren.queues.traffic import ExchangeUse


@mypyc_attr(allow_interpreted_subclasses=True)
class Publisher:
    """Whoever published and wants to know when all queues have it."""

    @abstractmethod
    def settled(self, run: PublishRun) -> None:
        """The last queue that a run went to has it safe, or refused it (`run.refused`)."""
        raise AssertionError("a publisher defines settled")

    def gone(self) -> bool:
        """Whether its client has gone, so that nobody hears what becomes of its messages."""
        return False


@final
class Unowed(Publisher):
    """Stands for a publisher that waits for no confirms, where it counts whether it is gone."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher: Publisher = publisher

    def settled(self, run: PublishRun) -> None:
        """Nobody waits."""

    def gone(self) -> bool:
        """Whether its client has gone."""
        return self._publisher.gone()


@final
class PublishRun:
    """Publish sequences `first..first+count-1` of one publisher, all with the same destinations.

    Attributes:
        waiting: Queues that have not answered yet.
        refused: Whether one of them could not take it; the run is nacked.
        rejected: Which of its messages one of them had no room for: where they begin among the
            run's, and how many there are, in any order. These are nacked, and lost to a publisher
            who waits for no confirm. None if there are none.
        use: Where confirms are counted; None where they are not.
    """

    def __init__(self, publisher: Publisher, first: i64, count: i64, waiting: i64) -> None:
        self.publisher: Publisher = publisher
        self.first: i64 = first
        self.count: i64 = count
        self.waiting: i64 = waiting
        self.refused: bool = False
        self.rejected: list[tuple[int, int]] | None = None
        self.use: ExchangeUse | None = None

    def reject(self, at: i64, count: i64) -> None:
        """A queue has no room for some of the messages, and drops them."""
        rejected = self.rejected
        if rejected is None:
            self.rejected = [(int(at), int(count))]
        elif rejected[-1][0] + rejected[-1][1] == at:
            rejected[-1] = (rejected[-1][0], rejected[-1][1] + int(count))
        else:
            rejected.append((int(at), int(count)))

    def rejected_count(self) -> i64:
        """How many of its messages there was no room for somewhere, each counted once."""
        if self.rejected is None:
            return 0
        count: i64 = 0
        begin: i64 = 0
        for end, nacked in self.parts():
            if nacked:
                count += end - begin
            begin = end
        return count

    def parts(self) -> list[tuple[int, bool]]:
        """The run cut where the answer changes: where each part ends, and whether it is nacked."""
        rejected = self.rejected
        if rejected is None or self.refused:
            return [(int(self.count), self.refused)]
        found: list[tuple[int, bool]] = []
        behind = 0
        for at, count in sorted(rejected):
            if at > behind:
                found.append((at, False))
            if at + count > behind:
                behind = at + count
                if found and found[-1][1]:
                    found.pop()
                found.append((behind, True))
        if behind < self.count:
            found.append((int(self.count), False))
        return found

    def safe(self) -> None:
        """One more queue has these messages where they belong."""
        self.waiting -= 1
        if self.waiting == 0:
            self.publisher.settled(self)
