"""Connections hear of alarms some at a time: what a publisher had to wait with goes on then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.node.loop import Loop
from warren.ports import Work
from warren.protocols.client import ClientConnection

TOLD_AT_ONCE: Final = 64
"""Connections that one turn tells: each may have input waiting."""


@final
class AlarmNotices(Work):
    """Tells all connections of a node which alarms there are now."""

    def __init__(self, loop: Loop, alarms: Callable[[], i64], reason: Callable[[], str]) -> None:
        self._loop: Loop = loop
        self._alarms: Callable[[], i64] = alarms
        self._reason: Callable[[], str] = reason
        self._connections: list[ClientConnection] = []
        """Those that are yet to be told, the next one last."""
        self._under_way: bool = False

    def tell(self) -> None:
        """Alarms changed: begin with all connections anew, the first of them at once."""
        self._connections = list(self._loop.connections.values())
        self._connections.reverse()
        if not self._under_way:
            self._under_way = not self.go_on()
            if self._under_way:
                self._loop.do_in_parts(self)

    def go_on(self) -> bool:
        """Tell some more; whether these were the last."""
        alarms = self._alarms()
        reason = self._reason() if alarms else ""
        connections = self._connections
        for _ in range(min(TOLD_AT_ONCE, len(connections))):
            connections.pop().set_alarms(alarms, reason)
        self._under_way = len(connections) > 0
        return not connections
