"""The results that requests of a vhost have, and who is set aside until it has them."""

from __future__ import annotations

from abc import abstractmethod
from typing import final

from mypy_extensions import i64, trait

from warren.pending import Result


@final
class QueueDeclared(Result):
    """The queue is there.

    Attributes:
        name: Its name, which may have been left to the vhost.
        messages: How many are ready in it.
        consumers: How many it has.
    """

    def __init__(self, name: str, messages: i64, consumers: i64) -> None:
        self.name: str = name
        self.messages: i64 = messages
        self.consumers: i64 = consumers


@final
class QueueDeleted(Result):
    """The queue is gone.

    Attributes:
        messages: How many were ready in it and went with it.
    """

    def __init__(self, messages: i64) -> None:
        self.messages: i64 = messages


@trait
class Resumable:
    """A client's channel, or what other protocols have in its place, that was set aside."""

    @abstractmethod
    def go_on(self) -> None:
        """Take up what was put aside."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """End what this belongs to for an error that was met while it went on.

        Raises:
            Exception: The error itself, if the node cannot go on either.
        """
