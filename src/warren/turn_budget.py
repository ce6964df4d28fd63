"""What the work of one turn may cost: one number that all draw on whose work is not bytes.

Bytes of input are bounded by themselves. What a byte may cost is not: a routing key of some words
can have thousands of patterns looked at. Such work is counted in steps, by whoever does it; a
client's input is looked at no further once its share, or all of the turn, is spent, and goes on in
the next turn.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.limits import FILLED_QUEUES_MAX, RUN_STEPS, RUNS_FREE, STEP_BYTES, TURN_STEPS_MAX


@final
class TurnBudget:
    """Steps of one turn of a node.

    Attributes:
        spent: Steps that were taken in this turn.
        limit: Where who has its turn is to stop.
        queues: Queues that were given something to do in this turn.
        runs: Runs of messages that who has its turn has published.
    """

    def __init__(self) -> None:
        self.spent: i64 = 0
        self.limit: i64 = TURN_STEPS_MAX
        self.queues: i64 = 0
        self.runs: i64 = 0

    def begin_turn(self) -> None:
        """Nothing was done in this turn."""
        self.spent = 0
        self.limit = TURN_STEPS_MAX
        self.queues = 0

    def add_queue(self) -> None:
        """A queue is to be served, which was not: with so many the turn is spent."""
        self.queues += 1
        if self.queues == FILLED_QUEUES_MAX and self.spent < TURN_STEPS_MAX:
            self.spent = TURN_STEPS_MAX

    def add_run(self) -> None:
        """Who has its turn has published messages that differ from those before: many are paid."""
        self.runs += 1
        if self.runs > RUNS_FREE:
            self.spent += RUN_STEPS

    def begin(self, share_bytes: i64) -> i64:
        """Bound what follows by a share of the turn, in bytes of input that take as long.

        Returns:
            The bound before, to be set again behind it.
        """
        before = self.limit
        self.runs = 0
        share: i64 = share_bytes // STEP_BYTES if share_bytes > 0 else 0
        most: i64 = TURN_STEPS_MAX
        self.limit = self.spent + share if self.spent + share < most else most
        return before

    def over(self) -> bool:
        """Whether the share is spent, or the turn."""
        return self.spent >= self.limit
