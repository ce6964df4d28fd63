"""What takes long of a state that came from another node: many runs of messages, read in parts."""

from __future__ import annotations

from typing import final

from warren.errors import CorruptRecord
from warren.log.runlist import LiveRuns
from warren.ports import Work
from warren.queues.fifo.live import Gathering
from warren.queues.fifo.machine import Fifo
from warren.queues.fifo.pieces import LettingGo
from warren.queues.fifo.restoring import StateReader


@final
class Restoring(Work):
    """Fills a machine with a state, while the one that it is to take the place of goes on.

    Attributes:
        state: What it is filled with.
    """

    def __init__(self, fifo: Fifo, state: bytes) -> None:
        """
        Args:
            fifo: An empty machine.
            state: What it is filled with.
        """
        self.state: bytes = state
        self._fifo: Fifo = fifo
        self._reader: StateReader | None = StateReader(fifo, state)
        self._error: CorruptRecord | None = None

    def go_on(self) -> bool:
        """Read the next part; whether it was the last, or what came is no state."""
        reader = self._reader
        if reader is None:
            return True
        try:
            if not reader.go_on():
                return False
        except (AssertionError, LookupError, OverflowError, ValueError) as error:
            self._error = CorruptRecord("the state of a queue", 0, f"it is none: {error}")
            self._error.__cause__ = error
        self._reader = None
        return True

    def all(self) -> Fifo:
        """The machine, with all that was not read yet.

        Raises:
            CorruptRecord: What came is no state.
        """
        while not self.go_on():
            pass
        if self._error is not None:
            raise self._error
        return self._fifo


@final
class StateRuns(LiveRuns):
    """Finds out the messages that live in a state of this node's own."""

    def __init__(self, fifo: Fifo, state: bytes) -> None:
        """
        Args:
            fifo: An empty machine.
            state: It was written or taken over here, so it is one.
        """
        super().__init__()
        self._restoring: Restoring | None = Restoring(fifo, state)
        self._gathering: Gathering | None = None
        self._spent: LettingGo | None = None

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        restoring = self._restoring
        if restoring is not None:
            if not restoring.go_on():
                return False
            fifo = restoring.all()
            self._restoring = None
            # The runs go as they are looked at.
            self._gathering = fifo.gather_live([], [])
            self._spent = LettingGo(fifo.sizes.freeze())
        gathering = self._gathering
        if gathering is not None:
            if not gathering.go_on():
                return False
            self.runs = gathering.runs
            self._gathering = None
        spent = self._spent
        return spent is None or spent.go_on()
