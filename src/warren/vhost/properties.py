"""What messages ask of queues that cannot do it."""

from __future__ import annotations

from typing import Final

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.message.facts import MessageFacts
from warren.metadata.machine import MetadataMachine
from warren.queues.queue import Queue
from warren.versions import PRIORITIES

HIGH_PRIORITY: Final = 4
"""Priorities above this one are a level of their own, in queues that have such (PRI-02)."""


def check_targets(facts: MessageFacts, queues: list[Queue], tables: MetadataMachine) -> None:
    """Refuse a message that one of its queues would not treat as its properties ask.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if facts.priority <= HIGH_PRIORITY or tables.version >= PRIORITIES:
        return
    for queue in queues:
        if queue.type.priority_levels:
            raise Refusal(
                PRECONDITION_FAILED,
                f"property 'priority' above {HIGH_PRIORITY} for {queue} needs cluster version "
                f"{PRIORITIES}, and the cluster is at {tables.version}",
            )
