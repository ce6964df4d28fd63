"""How many of some messages a queue has room for that rejects what is too much.

Source: QL-02 to QL-04; `x-overflow` = `reject-publish`.
"""

from __future__ import annotations

from typing import final

from librt.strings import read_i32_le
from mypy_extensions import i64

from warren.log.facts import SIZES, size_at
from warren.message.flavours import AMQP091
from warren.queues.fifo.config import Config
from warren.queues.measuring import measured
from warren.queues.publishing import PublishRun


@final
class Publish:
    """Messages of one publish, of which the first `at` are done with; see `Queue.publish`.

    Attributes:
        at: Messages that were taken or rejected.
    """

    def __init__(
        self,
        records: bytes,
        lengths: bytes,
        count: i64,
        persistent: bool,
        run: PublishRun | None,
        flavour: i64 = AMQP091,
        life_ms: i64 = -1,
        noted: bool = False,
    ) -> None:
        self.records: bytes = records
        self.lengths: bytes = lengths
        self.count: i64 = count
        self.persistent: bool = persistent
        self.run: PublishRun | None = run
        self.flavour: i64 = flavour
        self.life_ms: i64 = life_ms
        self.noted: bool = noted
        self.at: i64 = 0
        self._offset: i64 = 0
        """Where in the records those begin that are left."""
        self._sizes: bytes = b""

    def left(self) -> i64:
        """How many are left."""
        return self.count - self.at

    def fitting(
        self, config: Config, ready: i64, ready_bytes: i64, beyond: bool, replicated: bool
    ) -> i64:
        """How many of those that are left there is room for.

        Args:
            ready, ready_bytes: What there is.
            beyond: Whether the last of them may be too much, as in a quorum queue (QL-03).
        """
        fits = self.left()
        if config.max_length >= 0:
            fits = min(fits, max(0, config.max_length - ready + (1 if beyond else 0)))
        if config.max_bytes >= 0 and fits > 0:
            if not self._sizes:
                self._sizes = measured(
                    self.records, self.lengths, self.count, self.flavour, SIZES, replicated
                )
            taken = ready_bytes
            for number in range(fits):
                size = size_at(self._sizes, self.at + number)
                if taken + (0 if beyond else size) > config.max_bytes:
                    return number
                taken += size
        return fits

    def take(self, count: i64) -> tuple[bytes, bytes]:
        """The records of the next so many messages, and their lengths; these are taken.

        They answer for themselves, beside `answered`.
        """
        if self.run is not None:
            self.run.waiting += 1
        lengths = self.lengths[4 * self.at : 4 * (self.at + count)]
        begin = self._offset
        for number in range(count):
            self._offset += i64(read_i32_le(lengths, 4 * number))
        self.at += count
        if begin == 0 and self.at == self.count:
            return self.records, self.lengths
        return self.records[begin : self._offset], lengths

    def records_of(self, count: i64) -> tuple[bytes, bytes]:
        """The records of the next so many messages, and their lengths; these are not done with."""
        lengths = self.lengths[4 * self.at : 4 * (self.at + count)]
        end = self._offset
        for number in range(count):
            end += i64(read_i32_le(lengths, 4 * number))
        return self.records[self._offset : end], lengths

    def reject(self, count: i64) -> None:
        """There is no room for the next so many; they are done with."""
        run = self.run
        if run is not None:
            run.reject(self.at, count)
        for number in range(count):
            self._offset += i64(read_i32_le(self.lengths, 4 * (self.at + number)))
        self.at += count

    def answered(self) -> None:
        """All are done with."""
        if self.run is not None:
            self.run.safe()
