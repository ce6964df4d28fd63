"""Warren answers random sequences as RabbitMQ 4.3 did when they were recorded."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.oracle.sequences.draw import drawn
from tests.oracle.sequences.play import BRISK, PATIENT, Pair, Play
from tests.oracle.sequences.shrink import shrink
from tests.oracle.sequences.stored import Stored, read

STORED = read()
PARTS = 6
AT_ONCE = 4


def differences(pair: Pair, stored: Stored) -> str:
    """What is said otherwise, even where there is more time for it; else empty."""
    for pace in (BRISK, PATIENT):
        answers = Play(pair, pace).run(stored.steps)
        if answers == stored.answers:
            return ""
    lines = [f"sequence {stored.number}"]
    for step, oracle, here in zip(stored.steps, stored.answers, answers, strict=True):
        lines.append(json.dumps(step))
        if oracle != here:
            lines += [f"  oracle {json.dumps(oracle)}", f"  here   {json.dumps(here)}"]
    return "\n".join(lines)


def test_there_are_some() -> None:
    assert len(STORED) >= 300
    assert len({stored.number for stored in STORED}) == len(STORED)


@pytest.mark.parametrize("part", range(PARTS))
def test_same_answers(part: int, amqp_address: tuple[str, int], is_warren: bool) -> None:
    if not is_warren:
        pytest.skip("`make oracle-random` plays sequences to a RabbitMQ, which is set up for it")

    def some(stored: list[Stored]) -> list[str]:
        pair = Pair(amqp_address)
        try:
            return [differences(pair, each) for each in stored]
        finally:
            pair.close()

    mine = STORED[part::PARTS]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        said = pool.map(some, [mine[at::AT_ONCE] for at in range(AT_ONCE)])
        wrong = [text for texts in said for text in texts if text]
    assert not wrong, "\n\n".join(wrong)


def test_a_number_is_one_sequence() -> None:
    assert drawn(7) == drawn(7) != drawn(8)


def test_what_differs_is_made_small() -> None:
    """What is left is what it takes, and no more."""
    steps = drawn(11) + [["b/2", "queue.purge", {"queue": "@q0"}]] + drawn(12)
    small = shrink(steps, lambda some: any(step[1] == "queue.purge" for step in some))
    assert small == [["a/1", "queue.purge", {"queue": "@q0"}]]
