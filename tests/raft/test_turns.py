"""Who stands for election when, behind the loss of a leader: voters take turns."""

from __future__ import annotations

import pytest

from warren.raft import effects as fx
from warren.raft import messages as ms
from warren.raft.members import Replica
from warren.raft.raft import Options, Raft, RecoveredState

STAGGER_MS = Options().stagger_ms
MOMENT_MS = STAGGER_MS // 3
TIMEOUT_MS = Options().election_timeout_ms


def group(names: str, incarnation: int = 1) -> dict[str, Raft]:
    """New members of one group, led by nobody."""
    rafts: dict[str, Raft] = {}
    for seed, name in enumerate(names):
        saved = RecoveredState()
        saved.members = [Replica(other, incarnation, True) for other in names]
        rafts[name] = Raft(name, incarnation, saved, Options(), seed)
        rafts[name].start(0)
    return rafts


def led(names: str, leader: str, incarnation: int = 1, term: int = 3) -> dict[str, Raft]:
    """The followers of a leader that was just heard."""
    rafts = group(names, incarnation)
    del rafts[leader]
    for name, raft in rafts.items():
        raft.step(ms.Append(leader, incarnation, name, incarnation, term, 0, 0, 0, 0), 10)
        assert raft.leader == leader and raft.deadline_ms == -1
    return rafts


def waits(rafts: dict[str, Raft], lost: str, now: int) -> list[int]:
    """For how long each one waits before it stands, with this node gone."""
    for raft in rafts.values():
        raft.peer_down(lost, now)
    return [raft.deadline_ms - now for raft in rafts.values()]


@pytest.mark.parametrize("names", ["abc", "abcde"])
def test_voters_take_turns_and_the_first_stands_in_a_moment(names: str) -> None:
    for leader in names:
        found = sorted(waits(led(names, leader), leader, 1_000))
        assert found == [MOMENT_MS + turn * STAGGER_MS for turn in range(len(names) - 1)]


def test_what_a_node_led_goes_to_all_others() -> None:
    """Groups that were declared one after another have numbers in a row."""
    first: dict[str, int] = {}
    for incarnation in range(100, 180):
        rafts = led("abcde", "b", incarnation)
        waits(rafts, "b", 1_000)
        soonest = min(rafts, key=lambda name: rafts[name].deadline_ms)
        first[soonest] = first.get(soonest, 0) + 1
    assert first == {"a": 20, "c": 20, "d": 20, "e": 20}


def test_nodes_that_are_down_have_no_turn() -> None:
    rafts = led("abcde", "b")
    del rafts["c"]
    for raft in rafts.values():
        raft.peer_down("c", 900)
    found = sorted(waits(rafts, "b", 1_000))
    assert found == [MOMENT_MS, MOMENT_MS + STAGGER_MS, MOMENT_MS + 2 * STAGGER_MS]


def test_a_leader_that_is_back_is_waited_for() -> None:
    """It may lead still, and is given time to say so; only its word ends the wait."""
    for raft in led("abc", "a").values():
        raft.peer_down("a", 1_000)
        raft.tick(1_000 + 2 * STAGGER_MS)
        raft.peer_up("a", False, 2_000)
        assert raft.leader == "a" and raft.deadline_ms >= 2_000 + STAGGER_MS
        raft.step(ms.Append("a", 1, raft.state.node, 1, 3, 0, 0, 0, 0), 2_010)
        assert raft.deadline_ms == -1


def test_a_new_group_is_led_without_asking() -> None:
    """There is no leader that could be disturbed; behind that, whoever stands asks first."""
    raft = group("abc")["b"]
    raft.campaign(5)
    states = [effect for effect in raft.effects if isinstance(effect, fx.PersistState)]
    assert [(state.term, state.voted_for) for state in states] == [(1, "b")]
    raft.state_persisted(states[0].sequence, 6)
    asked = [effect.message for effect in raft.effects if isinstance(effect, fx.Send)]
    assert [type(message) for message in asked] == [ms.Vote, ms.Vote]
    for raft in led("abc", "a").values():
        raft.peer_down("a", 1_000)
        raft.effects.clear()
        raft.campaign(1_000)
        assert not raft.effects


def test_a_start_leaves_time_to_a_leader_and_to_links() -> None:
    rafts = group("abc")
    assert all(0 < raft.deadline_ms <= TIMEOUT_MS for raft in rafts.values())
    # Without links nobody answers; when the links come, it does not take another timeout.
    for name, raft in rafts.items():
        for other in "abc":
            raft.peer_down(other, 0)
        raft.tick(TIMEOUT_MS)
        assert raft.deadline_ms >= 2 * TIMEOUT_MS
        for other in "abc":
            raft.peer_up(other, False, TIMEOUT_MS + 5)
        assert raft.deadline_ms <= TIMEOUT_MS + 5 + 3 * STAGGER_MS, name
