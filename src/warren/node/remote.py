"""Classic queues between nodes: the lines over which they are used from every node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.queues.remote import Line

if TYPE_CHECKING:
    from warren.node.node import Node

WARN_MS: Final = 60_000
"""Lost messages that nobody waits for are told of at most so often for each node."""


@final
class Front(Line):
    """This node's line to a node with queues."""

    def __init__(self, node: Node, owner: str) -> None:
        super().__init__(owner)
        self._node: Node = node
        self._dropped: i64 = 0
        self._warned_ms: i64 = -WARN_MS

    def dropped(self, count: i64) -> None:
        """Messages without confirms are lost; told of now and then."""
        self._dropped += count
        self.warn()

    def warn(self) -> None:
        """Tell of lost messages, unless that was done a moment ago."""
        now = self._node.monotonic_ms()
        if self._dropped and now - self._warned_ms >= WARN_MS:
            self._warned_ms = now
            self._node.log_warning(
                f"{self._dropped} messages without confirms for queues of node {self.owner} "
                "are dropped: it is down or inaccessible"
            )
            self._dropped = 0


@final
class Remotes:
    """All lines of a node."""

    def __init__(self, node: Node) -> None:
        self._node: Node = node
        self._fronts: dict[str, Front] = {}

    def line(self, owner: str) -> Front:
        """The line to a node."""
        front = self._fronts.get(owner)
        if front is None:
            front = Front(self._node, owner)
            self._fronts[owner] = front
        return front
