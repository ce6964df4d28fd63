"""What a node promises, each promise in a module of its own.

A checker is told what clients see, as it happens, and raises `Violation` when a promise is broken.
Hooks that a checker has no use for stay empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.model import Copy, Holder, Message

if TYPE_CHECKING:
    from sim.stage import Stage


class Checker:
    """The hooks."""

    def __init__(self, world: Stage) -> None:
        self.world = world

    def handed(self, messages: list[Message]) -> None:
        """The last bytes of these publishes were handed to the node."""

    def confirmed(self, message: Message) -> None:
        """A publisher was told that a message is safe."""

    def delivered(self, copy: Copy, redelivered: bool, holder: Holder) -> None:
        """A client was given a message. The copy is as it was before."""

    def settled(self, copy: Copy) -> None:
        """The node was told that a copy is done with."""

    def ended(self, orderly: bool) -> None:
        """The node's life ended."""

    def recovered(self) -> None:
        """A node came up and has replayed its log."""

    def finished(self) -> None:
        """The run is over: every queue was drained."""
