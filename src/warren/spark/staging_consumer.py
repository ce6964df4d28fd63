"""Consumes a queue of a foreign broker into a staging directory (`warren.spark.staged_files`)."""

from __future__ import annotations

import time
from typing import Final

from warren.client import Channel
from warren.client.messages import ConsumerCancelled, Delivery
from warren.errors import BrokerError
from warren.spark.broker import Connect, refusal_code
from warren.spark.calling import PatientCaller
from warren.spark.options import StagedOptions
from warren.spark.staged_files import StagingDirectory

#: Messages of one file at most, which is what the broker has out to this consumer and may be in
#: memory. RabbitMQ's quorum queues have no more out.
_FILE_ROWS: Final = 2_000

#: Bytes of one file, by the mean of the one before. A broker counts messages, so that few are out
#: until it is known how large they are.
_FILE_BYTES: Final = 32 * 1024 * 1024
_ROWS_AT_FIRST: Final = 16

#: How long the first message of a trigger is waited for: where some are known to be left, which
#: others may take, and where nobody knows of any; and each one after another.
_LEFT_SECONDS: Final = 5.0
_FIRST_SECONDS: Final = 0.2
_NEXT_SECONDS: Final = 0.02

#: A trigger takes no longer, however steadily messages come.
_TRIGGER_SECONDS: Final = 2.0


class StagingConsumer:
    """One consumer at a time, of one queue.

    What goes wrong with a connection is tried again for as long as `retryTimeout` says; a message
    that was staged and not acknowledged then comes again, and the directory knows it.

    Attributes:
        waiting: How many messages the queue had ready when it was last asked.
    """

    def __init__(
        self, options: StagedOptions, directory: StagingDirectory, connect: Connect
    ) -> None:
        self.waiting = 0
        self._options = options
        self._directory = directory
        self._caller = PatientCaller(options.uris, options.retry_seconds, connect)
        self._channel: Channel | None = None
        self._tag = ""
        self._out_max = _ROWS_AT_FIRST  # how many messages may be out to the consumer

    def ready(self) -> int:
        """Ask how many messages are ready, while nothing is out to this consumer.

        Raises:
            BrokerAway: No broker answers.
            BrokerError: There is no such queue, or this user may not read it.
        """
        self._leave()
        self._caller.call(lambda _: self._count(self._caller.connected().open()))
        return self.waiting

    def stage(self, rows_max: int, bytes_max: int, some_left: bool) -> None:
        """Stage up to so many messages, as long as they come one after the other.

        Args:
            some_left: Whether the queue had messages that were not staged yet.

        Raises:
            BrokerAway: No broker answers for as long as there is leave to try.
            BrokerError: There is no such queue, or this user may not consume it.
            StagingFailed: The disk does not take them.
        """
        end = time.monotonic() + _TRIGGER_SECONDS
        wait = _LEFT_SECONDS if some_left else _FIRST_SECONDS
        while rows_max > 0 and bytes_max > 0:
            rows, size = self._patiently(rows_max, bytes_max, wait)
            if rows == 0 or time.monotonic() > end:
                return
            rows_max -= rows
            bytes_max -= size
            wait = _NEXT_SECONDS

    def close(self) -> None:
        """Disconnect for good."""
        self._leave()
        self._caller.close()

    def _patiently(self, rows_max: int, bytes_max: int, wait: float) -> tuple[int, int]:
        return self._caller.call(lambda _: self._stage_file(rows_max, bytes_max, wait))

    def _stage_file(self, rows_max: int, bytes_max: int, wait: float) -> tuple[int, int]:
        """Stage what makes one file at most; gives how many messages and bytes came."""
        consumed_before = self._channel is not None
        try:
            channel = self._consuming()
            got = _receive(channel, min(rows_max, _FILE_ROWS), min(bytes_max, _FILE_BYTES), wait)
            size = sum(len(delivery.body) for delivery in got)
            if got:
                self._directory.add(got)
                channel.ack(got[-1].delivery_tag, multiple=True)
                # The answer comes behind the acknowledgement: the broker has heard of it.
                self._count(channel)
                self._mind_sizes(channel, size // len(got))
            return len(got), size
        except BaseException as error:
            self._leave()
            if consumed_before and _is_over(error):
                return self._stage_file(rows_max, bytes_max, wait)
            raise

    def _consuming(self) -> Channel:
        if self._channel is None:
            channel = self._caller.connected().open()
            self._consume(channel)
            self._channel = channel
        return self._channel

    def _consume(self, channel: Channel) -> None:
        channel.qos(self._out_max)
        self._tag = channel.consume(self._options.queue)

    def _mind_sizes(self, channel: Channel, mean_bytes: int) -> None:
        """Have as many messages out as make a file, if that is far from what is out."""
        options = self._options
        fitting = min(_FILE_BYTES, options.bytes_max) // max(mean_bytes, 1)
        wanted = max(1, min(fitting, _FILE_ROWS, options.rows_max))
        if not wanted <= 2 * self._out_max <= 4 * wanted:
            self._out_max = wanted
            before = self._tag
            self._consume(channel)
            # Last, for a queue may go with its last consumer. What it has out stays, and is staged.
            channel.cancel(before)

    def _count(self, channel: Channel) -> None:
        self.waiting = channel.queue_declare(self._options.queue, passive=True).messages

    def _leave(self) -> None:
        """Disconnect: the broker gives to others, or once more, what was not acknowledged."""
        self._channel = None
        self._caller.disconnect()


def _receive(channel: Channel, rows_max: int, bytes_max: int, wait: float) -> list[Delivery]:
    """Messages, until there are enough or none has come for a moment."""
    got: list[Delivery] = []
    while len(got) < rows_max and bytes_max > 0:
        # One by one: of those that came already, there may be more than one file has room for.
        some = channel.receive(1, wait)
        if not some:
            break
        wait = _NEXT_SECONDS
        got += some
        bytes_max -= len(some[0].body)
    return got


def _is_over(error: BaseException) -> bool:
    """Whether a consumer ended that a new one may take the place of.

    A broker cancels the consumers of a queue that moves to another node, and closes channels whose
    messages were out for too long while a micro-batch ran (406).
    """
    over = isinstance(error, BrokerError) and refusal_code(error) == 406
    return over or isinstance(error, ConsumerCancelled)
