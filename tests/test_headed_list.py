"""A list with a head is a list whose first elements go cheaply."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.headed_list import SLACK_MIN, HeadedList

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3 * SLACK_MIN)),
        st.tuples(st.just("drop"), st.integers(1, 3 * SLACK_MIN)),
        st.tuples(st.just("cut"), st.integers(0, 4 * SLACK_MIN)),
        st.tuples(st.just("pop_first"), st.just(0)),
        st.tuples(st.just("remove"), st.integers(0, 4 * SLACK_MIN)),
        st.tuples(st.just("clear"), st.just(0)),
    ),
    max_size=20,
)


class Thing:
    """What can be seen to go."""


@given(STEPS)
def test_it_holds_what_a_list_holds(steps: list[tuple[str, int]]) -> None:
    row: HeadedList[str] = HeadedList()
    model: list[str] = []
    given_out = 0
    for step, much in steps:
        if step == "append":
            for _ in range(much):
                given_out += 1
                row.append(str(given_out))
                model.append(str(given_out))
        elif step == "drop":
            row.drop(min(much, len(model)))
            del model[:much]
        elif step == "cut":
            row.cut(much)
            del model[much:]
        elif step == "pop_first":
            if model:
                assert row.pop_first() == model.pop(0)
        elif step == "remove":
            if much < len(model):
                row.remove(much)
                del model[much]
        else:
            row.clear()
            model.clear()
        assert [row.at(place) for place in range(row.size())] == model
        assert row.size() == len(model)


@pytest.mark.parametrize("how", ["drop", "cut", "clear"])
def test_what_leaves_is_let_go_of_at_once(how: str) -> None:
    row: HeadedList[Thing] = HeadedList()
    thing = Thing()
    gone = weakref.ref(thing)
    row.append(thing)
    del thing
    if how == "drop":
        row.append(Thing())
        row.drop(1)
    elif how == "cut":
        row.cut(0)
    else:
        row.clear()
    gc.collect()
    assert gone() is None


def test_there_is_nothing_before_the_first_and_behind_the_last() -> None:
    row: HeadedList[str] = HeadedList()
    row.append("a")
    row.append("b")
    row.drop(1)
    for wrong in (-1, -2):
        with pytest.raises(AssertionError):
            row.at(wrong)
        with pytest.raises(AssertionError):
            row.cut(wrong)
    with pytest.raises(IndexError):
        row.at(1)
    assert row.at(0) == "b"
    row.drop(1)
    for wrong in (-1, 1):
        with pytest.raises(AssertionError):
            row.drop(wrong)
