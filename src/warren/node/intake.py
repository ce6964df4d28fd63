"""The way in from a client's socket, called by the event loop without a step in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from warren.protocols.client import ClientConnection

if TYPE_CHECKING:
    from warren.node.node import Node


@final
class Intake:
    """Hands what comes to a connection, and has a turn planned where one is needed."""

    def __init__(
        self, node: Node, connection: ClientConnection, plan: Callable[[], object]
    ) -> None:
        """
        Args:
            plan: Has the node's `turn` called after the events of this round.
        """
        self._node: Node = node
        self._connection: ClientConnection = connection
        self._plan: Callable[[], object] = plan

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._connection.receive(data)
        node = self._node
        if node.needs_turn and not node.turn_planned:
            node.turn_planned = True
            self._plan()
