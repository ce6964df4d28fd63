"""Which leaders a rebalance moves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.metadata.balance import Led, moves

FIVE = ["a", "b", "c", "d", "e"]


def after(queues: list[Led], moved: list[tuple[int, str]]) -> Counter[str]:
    """How many queues each node leads then; each is moved to a member of its own, once at most."""
    leaders = {queue.group_id: queue.leader for queue in queues}
    for group_id, target in moved:
        (queue,) = [one for one in queues if one.group_id == group_id]
        assert target in queue.candidates
        assert leaders[group_id] == queue.leader != target
        leaders[group_id] = target
    return Counter(leaders.values())


@pytest.mark.rule("REB-01")
def test_all_on_one_node() -> None:
    queues = [Led(number, "a", ["a", "b", "c"]) for number in range(1, 10)]
    moved = moves(queues, ["a", "b", "c"])
    assert len(moved) == 6
    assert after(queues, moved) == {"a": 3, "b": 3, "c": 3}


def test_what_is_even_stays() -> None:
    queues = [Led(number, FIVE[number % 3], ["a", "b", "c"]) for number in range(1, 11)]
    assert moves(queues, ["a", "b", "c"]) == []
    assert moves([], ["a"]) == []


def test_no_other_member_runs() -> None:
    queues = [Led(number, "a", ["a"]) for number in range(1, 5)]
    assert moves(queues, ["a", "b"]) == []


def test_a_load_is_passed_on() -> None:
    """What only `b` can take over from `a` makes room there by moving on to `c`."""
    queues = [Led(number, "a", ["a", "b"]) for number in range(1, 7)]
    queues += [Led(number, "b", ["b", "c"]) for number in range(7, 10)]
    assert after(queues, moves(queues, ["a", "b", "c"])) == {"a": 3, "b": 3, "c": 3}


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 4))), max_size=12),
)
def test_any_load(size: int, drawn: list[tuple[int, set[int]]]) -> None:
    """Nobody who had less than its share, rounded up, loses; the highest load never rises."""
    running = FIVE[:size]
    queues = []
    for number, (leader, others) in enumerate(drawn, 1):
        able = {leader % size} | {other for other in others if other < size}
        queues.append(Led(number, running[leader % size], [running[at] for at in sorted(able)]))
    before = Counter(queue.leader for queue in queues)
    then = after(queues, moves(queues, running))
    assert sum(then.values()) == len(queues)
    if queues:
        assert max(then.values()) <= max(before.values())
    if all(len(queue.candidates) == size for queue in queues):
        assert max(then.values(), default=0) <= -(-len(queues) // size)
