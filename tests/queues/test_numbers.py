"""Numbers that are given out and come back."""

from __future__ import annotations

import pytest

from warren.errors import EXHAUSTED, Refusal
from warren.queues.numbers import Numbers


def test_none_is_given_twice_at_a_time() -> None:
    numbers = Numbers(4)
    assert [numbers.take() for _ in range(4)] == [1, 2, 3, 4]
    with pytest.raises(Refusal, match="4 consumers at a time are the most") as caught:
        numbers.take()
    assert caught.value.kind == EXHAUSTED
    numbers.give_back(3)
    numbers.give_back(2)
    assert [numbers.take(), numbers.take()] == [2, 3]


def test_what_came_back_is_given_as_late_as_can_be() -> None:
    """What is under way about whoever had a number before is long over by then."""
    numbers = Numbers(4)
    held = numbers.take()
    given = []
    for _ in range(8):
        number = numbers.take()
        numbers.give_back(number)
        given.append(number)
    assert held == 1 and given == [2, 3, 4, 2, 3, 4, 2, 3]
    numbers.give_back(9)
    numbers.clear()
    assert [numbers.take() for _ in range(4)] == [4, 1, 2, 3]
