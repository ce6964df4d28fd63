"""Warren answers random sequences as RabbitMQ 4.3 did when they were recorded."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.oracle.sequences.draw import drawn
from tests.oracle.sequences.play import BRISK, PATIENT, Answers, Pair, Play
from tests.oracle.sequences.shrink import shrink
from tests.oracle.sequences.steps import Sequence
from tests.oracle.sequences.stored import Stored, read
from tests.oracle.sequences.verdict import is_late

STORED = read()
PARTS = 6
AT_ONCE = 4


def differences(pair: Pair, stored: Stored) -> str:
    """What is said otherwise; else empty.

    What agrees when there is more time has to differ before by nothing but time.
    """
    answers = Play(pair, BRISK).run(stored.steps)
    if answers == stored.answers:
        return ""
    again = Play(pair, PATIENT).run(stored.steps)
    if again == stored.answers:
        if is_late(answers, stored.answers):
            return ""
    else:
        answers = again
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


def _delivered(*bodies: str, tag: str = "c0") -> dict[str, Any]:
    """What a channel says of messages that come, and what it counts."""
    events = [{"method": "basic.deliver", "consumer_tag": tag, "body": body} for body in bodies]
    tags = {"tags": list(range(1, len(bodies) + 1))}
    return {"a/1": [*events, tags] if bodies else [], "counts": {"@q0": [len(bodies), 1]}}


def _confirmed(*outcomes: str) -> dict[str, Any]:
    """What a channel says of messages that are confirmed, or not."""
    return {"a/1": [{"confirmed": {str(at): each for at, each in enumerate(outcomes, 1)}}]}


@pytest.mark.parametrize(
    ("first", "second", "late"),
    [
        ([_delivered("m1"), _delivered("x")], [_delivered("m1", "m2"), _delivered("y")], True),
        ([_delivered()], [_delivered("m1")], True),
        ([_delivered("m2")], [_delivered("m1", "m2")], True),
        ([{"counts": {"@q0": [1, 0]}}], [{}], True),
        ([_confirmed("ack")], [_confirmed()], True),
        ([_delivered("m1")], [_delivered("m2")], False),
        ([_delivered("m2", "m1")], [_delivered("m1", "m2")], False),
        ([_delivered("m1", "m2")], [_delivered("m1", tag="c1")], False),
        ([_delivered("m1"), _delivered("x")], [_delivered("m1"), _delivered("y")], False),
        ([_confirmed("ack")], [_confirmed("nack")], False),
        ([{"a/1": [{"method": "basic.get-ok"}]}], [{"a/1": [{"method": "get-empty"}]}], False),
        ([{"skipped": True}], [_delivered("m1")], False),
        ([{"failed": "TimeoutError"}], [_delivered("m1")], False),
        ([{}], [{}], False),
    ],
)  # fmt: skip
def test_time_explains_what_is_missing_and_nothing_else(
    first: Answers, second: Answers, late: bool
) -> None:
    assert is_late(first, second) == is_late(second, first) == late


def test_a_number_is_one_sequence() -> None:
    assert drawn(7) == drawn(7) != drawn(8)


def pairs(steps: Sequence) -> set[str]:
    """What stands beside what in a sequence, of that which is easily kept apart."""
    declared = [step[2] for step in steps if step[1:2] == ["queue.declare"]]
    arguments = [each["arguments"] for each in declared if "arguments" in each]
    published = [step[3] for step in steps if step[1:2] == ["publish"]]
    consumed = [step[2] for step in steps if step[1:2] == ["basic.consume"]]
    quorum = [each for each in arguments if "x-queue-type" in each]
    limited = any("x-max-length" in each or "x-max-length-bytes" in each for each in quorum)
    brief = any(each.get("expiration") == "0" for each in published)
    found = {
        "priorities in transactions": quorum
        and any(step[1] == "tx.select" for step in steps)
        and any("priority" in each for each in published),
        "no_ack with limits": limited and any(each.get("no_ack") for each in consumed),
        "TTL 0 with priorities": any("x-max-priority" in each for each in arguments)
        and (brief or any(each.get("x-message-ttl") == 0 for each in arguments)),
        "small limits with dead letters": any(
            each.get("x-max-length-bytes") in (4, 10, 100) for each in quorum
        )
        and any("x-dead-letter-exchange" in each for each in arguments),
    }
    return {name for name, there in found.items() if there}


def test_pairs_are_drawn_and_stored() -> None:
    seen = Counter(pair for number in range(3_000) for pair in pairs(drawn(number)))
    assert len(seen) == 4 and min(seen.values()) >= 5
    stored = Counter(pair for each in STORED for pair in pairs(each.steps))
    assert len(stored) == 4 and min(stored.values()) >= 20


def test_what_differs_is_made_small() -> None:
    """What is left is what it takes, and no more."""
    steps = drawn(11) + [["b/2", "queue.purge", {"queue": "@q0"}]] + drawn(12)
    small = shrink(steps, lambda some: any(step[1] == "queue.purge" for step in some))
    assert small == [["a/1", "queue.purge", {"queue": "@q0"}]]
