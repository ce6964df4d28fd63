"""Who waits for a vhost, and the results that requests have."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr, trait

from warren.errors import Refusal
from warren.metadata.outcome import Outcome
from warren.queues.links import Waiter


class Result:
    """A request was carried out; of most there is no more to say."""


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


@final
class TablesChanged(Result):
    """A change of the tables is in force on this node.

    Attributes:
        outcome: What it did.
    """

    def __init__(self, outcome: Outcome) -> None:
        self.outcome: Outcome = outcome


DONE: Final = Result()


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingRequest(Waiter):
    """A client's request that waits for its result.

    A vhost calls one of the methods here, once, and perhaps before the call that handed the request
    over returns; it may be too late where `VhostHandle.timed_out` gave the request up. Who also
    hands it to a queue defines what a `Waiter` is told.
    """

    @abstractmethod
    def succeeded(self, result: Result) -> None:
        """What was asked for is in force, on disk where it has to be."""

    @abstractmethod
    def refused(self, refusal: Refusal) -> None:
        """It turned out that it cannot be done."""


@trait
class Resumable:
    """A client's channel, or what other protocols have in its place, that was set aside."""

    @abstractmethod
    def go_on(self) -> None:
        """Take up what was put aside."""
