"""What messages may claim, and what is asked of queues that cannot do it."""

from __future__ import annotations

import re
from typing import Final

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.message.facts import MessageFacts
from warren.queues.queue import Queue

EXPIRATION_MS_MAX: Final = 0xFFFFFFFF
HIGH_PRIORITY: Final = 4
"""Priorities above this one are a level of their own in quorum queues (PRI-02)."""


def check_targets(facts: MessageFacts, queues: list[Queue]) -> None:
    """Refuse a message that one of its queues would not treat as its properties ask.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if facts.priority <= HIGH_PRIORITY:
        return
    for queue in queues:
        if queue.kind == "quorum":
            raise Refusal(
                PRECONDITION_FAILED,
                f"property 'priority' above {HIGH_PRIORITY} for {queue} is not supported yet by "
                "this version of Warren",
            )


def check_expiration(text: str) -> None:
    """Refuse an `expiration` that is no number of milliseconds.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    match = re.match(r"[+-]?[0-9]+", text)
    if match is None:
        reason = "no_integer"
    elif match.end() < len(text):
        reason = f'{{leftover_string,"{text[match.end() :]}"}}'
    elif int(text) < 0:
        reason = f"{{value_negative,{int(text)}}}"
    elif int(text) > EXPIRATION_MS_MAX:
        reason = f"{{value_too_large,{int(text)}}}"
    else:
        return
    raise Refusal(PRECONDITION_FAILED, f"invalid expiration '{text}': {reason}")
