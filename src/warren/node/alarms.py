"""Connections hear of alarms some at a time: what a publisher had to wait with goes on then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.node.loop import Loop
from warren.node.sweep import Sweep
from warren.protocols.client import ClientConnection

TOLD_AT_ONCE: Final = 64
"""Connections that one turn tells: each may have input waiting."""


@final
class AlarmNotices(Sweep[ClientConnection]):
    """Tells all connections of a node which alarms there are now."""

    def __init__(self, loop: Loop, alarms: Callable[[], i64], reason: Callable[[], str]) -> None:
        super().__init__(loop, TOLD_AT_ONCE)
        self._alarms_now: Callable[[], i64] = alarms
        self._reason_now: Callable[[], str] = reason
        self._alarms: i64 = 0
        self._reason: str = ""

    def tell(self) -> None:
        """Alarms changed: begin with all connections anew, the first of them at once."""
        self._alarms = self._alarms_now()
        self._reason = self._reason_now() if self._alarms else ""
        self.begin_now(list(self._loop.connections.values()))

    def see_to(self, thing: ClientConnection) -> None:
        """Tell a connection."""
        thing.set_alarms(self._alarms, self._reason)
