"""The publish sequence, compared with a set of numbers that does the obvious."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warren.client.confirms import Confirms

answers = st.lists(
    st.tuples(st.integers(0, 30), st.booleans(), st.booleans(), st.integers(0, 5)), max_size=30
)


@given(answers)
def test_like_a_set_of_numbers(steps: list[tuple[int, bool, bool, int]]) -> None:
    """Whatever a broker sends, numbers never published and numbers answered before included."""
    confirms = Confirms()
    open_numbers: set[int] = set()
    refused: list[int] = []
    for sequence, multiple, accepted, published in steps:
        for _ in range(published):
            open_numbers.add(int(confirms.next_sequence))
            confirms.next_sequence += 1
        confirms.resolve(sequence, multiple, accepted)
        if multiple:
            hit = {number for number in open_numbers if number <= sequence or sequence == 0}
        else:
            hit = open_numbers & {sequence}
        open_numbers -= hit
        if not accepted:
            refused += sorted(hit)
        assert confirms.outstanding() == len(open_numbers)
        assert confirms.nacked == refused


def test_answers_in_order_leave_nothing_behind() -> None:
    confirms = Confirms()
    for number in range(1, 1001):
        confirms.next_sequence += 1
        confirms.resolve(number, False, True)
    assert confirms.outstanding() == 0
    assert not confirms._early
