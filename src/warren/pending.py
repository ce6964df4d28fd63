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
    """Waits for a result.

    One of the methods is called, once, and perhaps before the call that handed this over returns.
    What cannot happen to it, it need not define.
    """

    @abstractmethod
    def succeeded(self, result: Result) -> None:
        """What was asked for is in force, on disk where it has to be."""
        raise AssertionError("what waits for a result defines succeeded")

    def refused(self, refusal: Refusal) -> None:
        """It turned out that it cannot be done. A vhost says so."""
        raise AssertionError("what asks a vhost defines refused")

    def abandoned(self) -> None:
        """The queue that was asked went away before."""
        raise AssertionError("what asks a queue defines abandoned")

    def missed(self) -> None:
        """It was done, and nobody here has seen what came of it.

        A quorum queue says so: this node got its state behind the command from the leader.
        """
        raise AssertionError("what asks a quorum queue defines missed")
