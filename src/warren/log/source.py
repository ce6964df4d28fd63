"""Where a queue reads its messages from: the log of this node, or another node."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64, trait

from warren.log.batch import Batch
from warren.log.listener import BatchReader, RawReader


@trait
class MessageSource:
    """Gives a queue the messages that its machine knows by their numbers only.

    This node's log of the queue is one; a node that does not hold the queue asks one that does.
    """

    @abstractmethod
    def cached(self, number: i64) -> Batch | None:
        """The batch that holds a message, if it is in memory."""

    @abstractmethod
    def read_share_bytes(self) -> i64:
        """How much `read` may bring into memory now without driving out what others read."""

    @abstractmethod
    def read(self, first: i64, last: i64, max_bytes: i64, reader: BatchReader) -> None:
        """Fetch the batches that hold the messages `first` to `last`; see `GroupLog.read`."""

    @abstractmethod
    def read_raw(self, first: i64, last: i64, max_bytes: i64, reader: RawReader) -> None:
        """As `read`, for the bytes of the batches; see `GroupLog.read_raw`."""

    @abstractmethod
    def messages_end(self) -> i64:
        """The number behind the newest message that `read` could find."""

    @abstractmethod
    def given_up(self) -> bool:
        """Whether what was here is void, and something else is about to take its place."""
