"""What waits for a result, whatever was asked: a queue's machine, the tables, or a vhost.

A result says what came about. Who asks hands over something that is told of it once: by the member
of a group that applies the entry, or by the vhost, which may have to ask both before.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import mypyc_attr

from warren.errors import Refusal


class Result:
    """What was asked for was done; where there is more to say of it, a subclass does."""


DONE: Final = Result()


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingResult:
    """Waits for a result, as what asks the tables does.

    One of the methods is called, once, and perhaps before the call that handed this over returns.
    Who asks somebody that may answer otherwise derives from one of the classes below.
    """

    @abstractmethod
    def succeeded(self, result: Result) -> None:
        """What was asked for is in force, on disk where it has to be."""
        raise AssertionError("what waits for a result defines succeeded")


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingAnswer(PendingResult):
    """Waits for a result that only one member of a group can give."""

    @abstractmethod
    def abandoned(self) -> None:
        """Whoever was asked went away before, as a queue that is deleted does."""
        raise AssertionError("what asks a member defines abandoned")


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingReply(PendingAnswer):
    """Waits for the reply of a queue."""

    @abstractmethod
    def missed(self) -> None:
        """It was done, and nobody here has seen what came of it.

        A quorum queue says so: this node got its state behind the command from the leader.
        """
        raise AssertionError("what asks a queue defines missed")


@mypyc_attr(allow_interpreted_subclasses=True)
class PendingRequest(PendingReply):
    """Waits for what a client asked of a vhost, or of a queue that may be on another node."""

    @abstractmethod
    def refused(self, refusal: Refusal) -> None:
        """It turned out that it cannot be done."""
        raise AssertionError("what asks a vhost defines refused")
