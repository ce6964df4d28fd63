"""The node, as its parts use it: its loop, its clocks and its journal for operators."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64

from warren.protocols.broker import Broker


class Loop(Broker):
    """What every part of a node may ask of the node; other parts it is given one by one.

    Attributes:
        needs_turn: Whether something waits for the next turn.
    """

    needs_turn: bool

    @abstractmethod
    def own_alarms(self) -> i64:
        """Alarms raised now for what this node is short of."""

    @abstractmethod
    def alarms_changed(self) -> None:
        """Other nodes raised alarms or are over theirs."""
