"""Publishes on their way into queues, and the confirms they are owed."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Publisher:
    """Whoever published and wants to know when all queues have it."""

    @abstractmethod
    def settled(self, run: PublishRun) -> None:
        """The last queue that a run went to has it safe, or refused it (`run.refused`)."""
        raise AssertionError("a publisher defines settled")


@final
class PublishRun:
    """Publish sequences `first..first+count-1` of one publisher, all with the same destinations.

    Attributes:
        waiting: Queues that have not answered yet.
        refused: Whether one of them could not take it; the run is nacked.
    """

    def __init__(self, publisher: Publisher, first: i64, count: i64, waiting: i64) -> None:
        self.publisher: Publisher = publisher
        self.first: i64 = first
        self.count: i64 = count
        self.waiting: i64 = waiting
        self.refused: bool = False

    def safe(self) -> None:
        """One more queue has these messages where they belong."""
        self.waiting -= 1
        if self.waiting == 0:
            self.publisher.settled(self)
