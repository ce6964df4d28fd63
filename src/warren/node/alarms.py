"""What a node and the others of its cluster are short of, and who hears of it.

Connections hear of alarms some at a time: what a publisher had to wait with goes on then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.node.cluster.disks import Disks
from warren.node.events import NodeEvents
from warren.node.loop import Loop
from warren.node.sweep import Sweep
from warren.node.vhosts import NodeVhosts
from warren.protocols.broker import ALARM_DISK, ALARM_MEMORY, ELSEWHERE_SHIFT
from warren.protocols.client import ClientConnection

TOLD_AT_ONCE: Final = 64
"""Connections that one turn tells: each may have input waiting."""


@final
class NodeAlarms:
    """The alarms of one node.

    Attributes:
        own: Those for what this node is short of, a sum of the `ALARM_` constants, and those that
            operators have raised.
    """

    def __init__(self, loop: Loop, vhosts: NodeVhosts, events: NodeEvents, disks: Disks) -> None:
        self.own: i64 = 0
        self._measured: i64 = 0
        self._said: i64 = 0
        self._elsewhere: i64 = 0
        self._loop: Loop = loop
        self._vhosts: NodeVhosts = vhosts
        self._events: NodeEvents = events
        self._disks: Disks = disks
        self._notices: AlarmNotices = AlarmNotices(loop, self.raised, self.reason)

    def raised(self) -> i64:
        """Those raised now, here or at another node."""
        return self.own | self._elsewhere << ELSEWHERE_SHIFT

    def reason(self) -> str:
        """What blocked publishers are told; RabbitMQ's words."""
        alarms = self.own | self._elsewhere
        low = []
        if alarms & ALARM_MEMORY:
            low.append("memory")
        if alarms & ALARM_DISK:
            low.append("disk")
        return "low on " + " & ".join(low)

    def set(self, alarm: i64, raised: bool) -> None:
        """Raise or clear one of this node's own, as measured."""
        self._measured = self._measured | alarm if raised else self._measured & ~alarm
        self._vhosts.disk_full = self._measured & ALARM_DISK != 0
        self._agree(alarm)

    def say(self, alarm: i64, raised: bool) -> None:
        """Raise one of this node's own because an operator wants it, or no longer."""
        self._said = self._said | alarm if raised else self._said & ~alarm
        self._agree(alarm)

    def _agree(self, alarm: i64) -> None:
        """Tell of one of this node's own, if that has changed."""
        before = self.own
        raised = (self._measured | self._said) & alarm != 0
        self.own = before | alarm if raised else before & ~alarm
        if self.own == before:
            return
        if self._events.on():
            self._events.alarm("disk" if alarm == ALARM_DISK else "memory", raised)
        self._announce()
        self._disks.tell()

    def changed_elsewhere(self) -> None:
        """Other nodes raised alarms or are over theirs."""
        self._elsewhere = self._disks.alarms()
        self._announce()

    def _announce(self) -> None:
        """Tell connections, and the operator."""
        reason = self.reason() if self.raised() else ""
        where = self._disks.alarmed()
        if self.own:
            where.insert(0, "this node")
        self._loop.log_warning(
            f"alarm: {reason} ({', '.join(where)}); publishers are blocked"
            if reason
            else "alarms cleared"
        )
        self._notices.tell()


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
