"""The node, as its parts use it: its loop, its clocks and its journal for operators."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64

from warren.protocols.broker import Broker
from warren.protocols.client import ClientConnection


class Loop(Broker):
    """What every part of a node may ask of the node; other parts it is given one by one.

    Attributes:
        needs_turn: Whether something waits for the next turn.
        connections: Those of clients, each under its identity in this process.
    """

    needs_turn: bool
    connections: dict[int, ClientConnection]

    @abstractmethod
    def wall_ms(self) -> int:
        """Wall time, in milliseconds since the epoch; `now_ms` is that of the turn."""

    @abstractmethod
    def own_alarms(self) -> i64:
        """Alarms raised now for what this node is short of."""

    @abstractmethod
    def alarms_changed(self) -> None:
        """Other nodes raised alarms or are over theirs."""
