"""A loop looks for the next event before it sleeps, as long as some come in time."""

from __future__ import annotations

from collections.abc import Callable

from warren.server.lingering import LOOK_NS, PASSED_OVER_MAX, PAUSE_NS, TAKEN_NS, Lingering

ROUND_NS = LOOK_NS // 10


class Rounds:
    """A loop's rounds, made by hand.

    Attributes:
        now_ns: The clock.
        working: Whether another thread works for the loop.
        looked: How many rounds did not sleep.
    """

    def __init__(self, look_ns: int = LOOK_NS) -> None:
        self.now_ns = 0
        self.working = False
        self.looked = 0
        self._calls: list[Callable[[], None]] = []
        self.lingering = Lingering(
            self._calls.append, lambda: self.working, lambda: self.now_ns, look_ns
        )

    def go_round(self, took_ns: int = ROUND_NS) -> bool:
        """One round; whether the next one will not sleep."""
        calls = list(self._calls)
        self._calls.clear()
        self.looked += len(calls)
        self.now_ns += took_ns
        for call in calls:
            call()
        return len(self._calls) > 0

    def sleeps(self) -> None:
        """Rounds until the loop sleeps."""
        for _ in range(1_000):
            if not self.go_round():
                return
        raise AssertionError("the loop never sleeps")

    def looks(self) -> bool:
        """Whether the loop looks behind a turn, after which nothing comes."""
        before = self.looked
        self.lingering.turn_ended()
        self.sleeps()
        return self.looked > before


def test_the_loop_sleeps_when_nothing_comes_in_time() -> None:
    rounds = Rounds()
    assert not rounds.go_round()
    rounds.lingering.turn_ended()
    rounds.sleeps()
    assert rounds.now_ns - ROUND_NS == LOOK_NS
    assert not rounds.go_round()


def test_as_long_as_events_come_in_time_the_loop_never_sleeps() -> None:
    rounds = Rounds()
    rounds.lingering.turn_ended()
    for _ in range(1_000):
        for _ in range(9):
            assert rounds.go_round()
        rounds.lingering.turn_ended()
    rounds.sleeps()
    assert rounds.looks() is False
    assert rounds.looks(), "many came in time, so that one that does not costs one chance"


def test_chances_are_let_go_where_looking_is_in_vain() -> None:
    rounds = Rounds()
    looks = [rounds.looks() for _ in range(10_000)]
    assert sum(looks) == 7 + (10_000 - 127) // (PASSED_OVER_MAX + 1)
    # One that comes in time takes all of that back.
    while not rounds.looks():
        pass
    for _ in range(PASSED_OVER_MAX):
        assert not rounds.looks()
    rounds.lingering.turn_ended()
    assert rounds.go_round()
    rounds.lingering.turn_ended()
    rounds.sleeps()
    assert not rounds.looks()
    assert rounds.looks()


def test_a_processor_that_others_need_is_left_to_them() -> None:
    rounds = Rounds()
    rounds.lingering.turn_ended()
    assert not rounds.go_round(LOOK_NS + TAKEN_NS + 1)
    taken_ns = rounds.now_ns
    for _ in range(PASSED_OVER_MAX):
        assert not rounds.looks()
    rounds.now_ns = taken_ns + PAUSE_NS - 1
    rounds.lingering.turn_ended()
    assert not rounds.go_round(1)
    assert rounds.looks()


def test_threads_that_work_for_the_loop_are_not_held_up() -> None:
    rounds = Rounds()
    rounds.working = True
    assert not rounds.looks()
    rounds.working = False
    rounds.lingering.turn_ended()
    assert rounds.go_round()
    rounds.working = True
    assert not rounds.go_round()
    rounds.working = False
    assert rounds.looks(), "that was not in vain"


def test_a_loop_that_shall_not_look_never_does() -> None:
    rounds = Rounds(look_ns=0)
    assert not any(rounds.looks() for _ in range(1_000))
