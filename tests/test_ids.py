"""The bits of identities: each field from nothing to the largest, and nothing of its neighbours."""

from __future__ import annotations

from itertools import product

import pytest

from warren import ids

LIVES = (0, 1, 7, ids.LIFE_MAX)
COUNTERS = (0, 1, 1 << 24, ids.COUNTER_MAX)
EPOCHS = (0, 1, ids.EPOCH_MAX)
NUMBERS = (0, 1, ids.NUMBER_MAX)
LARGEST = (1 << 63) - 1


def sessions(life: int) -> list[int]:
    """Some sessions of a life, the first and the last one among them."""
    return [int(ids.first_session(life)) + epoch for epoch in EPOCHS]


@pytest.mark.parametrize(("life", "counter"), [*product(LIVES, COUNTERS)])
def test_what_a_life_gives_out_names_that_life(life: int, counter: int) -> None:
    identity = ids.of_life(life, counter)
    assert identity == life * 2**32 + counter
    assert 0 <= identity <= LARGEST
    assert ids.life_of(identity) == life


@pytest.mark.parametrize("life", LIVES)
def test_a_session_is_a_life_and_an_epoch(life: int) -> None:
    assert ids.first_session(life) == life * 256
    for session, epoch in zip(sessions(life), EPOCHS, strict=True):
        assert ids.life_of_session(session) == life
        assert ids.epoch_of(session) == epoch
    assert ids.life_of_session(sessions(life)[-1] + 1) == life + 1


@pytest.mark.parametrize(("life", "number"), [*product(LIVES, NUMBERS)])
def test_a_consumer_is_a_session_and_a_number(life: int, number: int) -> None:
    for session in sessions(life):
        consumer = ids.consumer_of(session, number)
        assert consumer == session * 2**24 + number
        assert 0 <= consumer <= LARGEST
        assert ids.session_of_consumer(consumer) == session
        assert ids.number_of_consumer(consumer) == number
        assert ids.life_of(consumer) == life


def test_the_largest_ones_fill_what_there_is() -> None:
    assert ids.of_life(ids.LIFE_MAX, ids.COUNTER_MAX) == LARGEST
    assert ids.consumer_of(sessions(ids.LIFE_MAX)[-1], ids.NUMBER_MAX) == LARGEST
    assert ids.EPOCH_BITS + ids.NUMBER_BITS == ids.COUNTER_BITS


def test_what_other_nodes_say_is_taken_apart_whatever_it_is() -> None:
    """The lowest number is of no life that was, nor of any session."""
    for hostile in (-1, -(1 << 63)):
        assert ids.life_of(hostile) < 0
        assert ids.life_of_session(hostile) < 0
        assert ids.session_of_consumer(hostile) < 0
        assert 0 <= ids.epoch_of(hostile) <= ids.EPOCH_MAX
        assert 0 <= ids.number_of_consumer(hostile) <= ids.NUMBER_MAX


def test_none_is_made_of_what_no_node_counts() -> None:
    with pytest.raises(AssertionError, match="ascend"):
        ids.of_life(-1, 0)
    with pytest.raises(AssertionError, match="ascend"):
        ids.of_life(1, -1)
    for life, counter in ((ids.LIFE_MAX + 1, 1), (1, ids.COUNTER_MAX + 1)):
        with pytest.raises(AssertionError, match="bounded"):
            ids.of_life(life, counter)
    assert ids.may_begin(ids.LIFE_MAX) and not ids.may_begin(ids.LIFE_MAX + 1)
    with pytest.raises(AssertionError, match="ascend"):
        ids.first_session(-1)
    for session, number in ((-1, 0), (1, -1), (1, ids.NUMBER_MAX + 1)):
        with pytest.raises(AssertionError, match="bounded"):
            ids.consumer_of(session, number)
