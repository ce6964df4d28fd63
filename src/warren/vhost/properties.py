"""What messages ask of queues that cannot do it."""

from __future__ import annotations

from typing import Final

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.message.facts import MessageFacts
from warren.queues.queue import Queue

HIGH_PRIORITY: Final = 4
"""Priorities above this one are a level of their own, in queues that have such (PRI-02)."""


def check_targets(facts: MessageFacts, queues: list[Queue]) -> None:
    """Refuse a message that one of its queues would not treat as its properties ask.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if facts.priority <= HIGH_PRIORITY:
        return
    for queue in queues:
        if queue.type.priority_levels:
            raise Refusal(
                PRECONDITION_FAILED,
                f"property 'priority' above {HIGH_PRIORITY} for {queue} is not supported yet by "
                "this version of Warren",
            )
