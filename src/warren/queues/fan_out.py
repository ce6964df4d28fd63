"""Messages on their way into more queues than one turn serves.

Who publishes them waits until all queues have them: what comes behind, or answers them, must not
overtake them. They are on their way whatever becomes of their publisher, so that a message is in
all of its queues unless the node dies.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from mypy_extensions import i64

from warren.limits import FAN_OUT_QUEUES
from warren.ports import Work
from warren.queues.publishing import PublishRun
from warren.queues.queue import Queue


class FanOut(Work):
    """Puts what one publish brings into some of its queues in each turn."""

    def __init__(self, queues: list[Queue]) -> None:
        """Begin with the first queue.

        Args:
            queues: All that it goes to; the list does not change.
        """
        self._queues: list[Queue] = queues
        self._at: i64 = 0

    def go_on(self) -> bool:
        """Put it into the next queues; whether these were the last."""
        queues = self._queues
        first = self._at
        behind = min(len(queues), first + FAN_OUT_QUEUES)
        self._at = behind
        self.put(queues[first:behind])
        if behind < len(queues):
            return False
        self.done()
        return True

    @abstractmethod
    def put(self, queues: list[Queue]) -> None:
        """Put it into some queues, which may be deleted by now."""
        raise AssertionError("a fan-out defines put")

    def done(self) -> None:
        """All have it."""


@final
class RunFanOut(FanOut):
    """Messages with the same queues, of a publisher that needs not be told when all have them.

    Its arguments are those of `Queue.publish`.
    """

    def __init__(
        self,
        queues: list[Queue],
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        flavour: i64,
        life_ms: i64,
        noted: bool = False,
    ) -> None:
        super().__init__(queues)
        self._records: bytes = records
        self._lengths: bytes = lengths
        self._count: i64 = count
        self._persistent: bool = persistent
        self._run: PublishRun | None = run
        self._flavour: i64 = flavour
        self._life_ms: i64 = life_ms
        self._noted: bool = noted

    def put(self, queues: list[Queue]) -> None:
        """Put them into some of the queues."""
        for queue in queues:
            queue.publish(
                self._records,
                self._lengths,
                self._count,
                self._persistent,
                self._run,
                self._flavour,
                self._life_ms,
                self._noted,
            )


def is_wide(queues: list[Queue]) -> bool:
    """Whether what goes to these queues is put into them in several turns."""
    return len(queues) > FAN_OUT_QUEUES
