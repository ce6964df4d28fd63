"""What a channel published to very many queues, on its way into them (`queues.fan_out`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.queues.fan_out import FanOut
from warren.queues.publishing import PublishRun
from warren.queues.queue import Queue

if TYPE_CHECKING:
    from warren.protocols.amqp091.publishing import PublishPath


@final
class PublishFanOut(FanOut):
    """Messages of one run whose route leads to very many queues."""

    def __init__(
        self,
        path: PublishPath,
        queues: list[Queue],
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        life_ms: i64,
    ) -> None:
        super().__init__(queues)
        self._path: PublishPath = path
        self._records: bytes = records
        self._lengths: bytes = lengths
        self._count: i64 = count
        self._persistent: bool = persistent
        self._run: PublishRun | None = run
        self._life_ms: i64 = life_ms

    def put(self, queues: list[Queue]) -> None:
        """Put them into some of the queues."""
        self._path.put(
            queues,
            self._records,
            self._lengths,
            self._count,
            self._persistent,
            self._run,
            self._life_ms,
        )

    def done(self) -> None:
        """All have them: the channel goes on."""
        self._path.spread()

    def failed(self, error: Exception) -> None:
        """End the connection."""
        self._path.failed(error)
