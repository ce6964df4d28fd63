"""A command that is applied in parts, because it is about very many queues or bindings."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64

from warren.metadata.outcome import Outcome


class CommandParts:
    """What the last command has yet to do.

    Attributes:
        over: Whether nothing is left of it.
    """

    def __init__(self) -> None:
        self.over: bool = False

    @abstractmethod
    def go_on(self, outcome: Outcome, room: i64) -> None:
        """Do the part of it that is about so many more bindings; a queue is a few of them."""
