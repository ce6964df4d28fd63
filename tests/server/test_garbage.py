"""The collector looks through little at a time, whatever comes and goes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any, cast

import pytest

from warren.server.garbage import LOTS_MAX, PASSED_OVER_MAX, YOUNG_MAX, Garbage

REQUESTS: list[str] = []


class Quiet:
    """A node without alarms."""

    def own_alarms(self) -> int:
        return 0


@pytest.fixture
def garbage() -> Iterator[Garbage]:
    """That of this process, which is as before then."""
    thresholds = gc.get_threshold()
    gc.collect()
    yield Garbage(cast(Any, Quiet()), lambda: bool(REQUESTS))
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.collect()
    # As the tests that were collected are all the time.
    gc.freeze()


def test_what_comes_while_as_much_goes_is_looked_through_at_the_next_look(garbage: Garbage) -> None:
    """Python counts what comes less what goes, and would let it grow without a bound."""
    kept: list[list[int]] = [[] for _ in range(2 * YOUNG_MAX)]
    garbage.look()
    for _ in range(3):
        for at in range(len(kept)):
            kept[at] = []
        garbage.look()
        assert len(gc.get_objects(generation=0)) < YOUNG_MAX


def test_what_suddenly_comes_is_looked_through_within_a_second(garbage: Garbage) -> None:
    """What is new is not counted at each look where it grows slowly."""
    kept: list[list[int]] = [[] for _ in range(2 * YOUNG_MAX)]
    garbage.look()
    # Little is new when that is counted, so that it is not counted at the next looks.
    garbage.look()
    for at in range(len(kept)):
        kept[at] = []
    looks = 0
    while len(gc.get_objects(generation=0)) >= YOUNG_MAX:
        garbage.look()
        looks += 1
        assert looks <= PASSED_OVER_MAX + 1
    assert looks > 1


class Page:
    """Refers to itself, as a page that is drawn."""

    def __init__(self) -> None:
        self.drawn = self


def test_what_a_request_leaves_in_circles_goes_after_it(garbage: Garbage) -> None:
    """It lives while it is looked for what may be frozen, and is not frozen."""
    pages = [Page() for _ in range(2 * YOUNG_MAX)]
    gone = [weakref.ref(page) for page in pages]
    REQUESTS.append("a page")
    garbage.look()
    pages.clear()
    REQUESTS.clear()
    for _ in range(PASSED_OVER_MAX + 2):
        garbage.look()
    assert not any(each() for each in gone)


def test_requests_without_an_end_do_not_keep_all_from_being_frozen(garbage: Garbage) -> None:
    frozen = gc.get_freeze_count()
    REQUESTS.append("a page")
    kept = []
    for _ in range(LOTS_MAX + 1):
        kept.append([Page() for _ in range(2 * YOUNG_MAX)])
        garbage.look()
    REQUESTS.clear()
    assert gc.get_freeze_count() - frozen >= LOTS_MAX * YOUNG_MAX
    assert len(gc.get_objects(generation=0)) + len(gc.get_objects(generation=1)) < 3 * YOUNG_MAX
