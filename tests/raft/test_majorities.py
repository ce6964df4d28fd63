"""How many members a group can lose and go on, and what becomes of it where a network is cut."""

from __future__ import annotations

from itertools import product

import pytest

from tests.raft.script import Script

TOLERATED = {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2, 7: 3, 8: 3, 9: 4}
"""The guide's table: by the number of members, how many may be lost (BEH-06)."""


def group(size: int) -> Script:
    """A group of so many members that its first one leads."""
    script = Script()
    script.play("group " + " ".join(names(size)))
    if size > 1:
        script.play("timeout a")
    script.play("run")
    assert commits(script, "a")
    return script


def names(size: int) -> str:
    return "abcdefghi"[:size]


def commits(script: Script, node: str) -> bool:
    """Whether this member, as leader, gets one more entry committed."""
    host = script.hosts[node]
    if not host.raft.is_leader:
        return False
    before = int(host.raft.state.commit_index)
    script.play(f"propose {node}")
    script.play("run")
    return int(host.raft.state.commit_index) > before


def lose(script: Script, lost: str) -> None:
    """Members crash, and the others notice."""
    for name in lost:
        script.play(f"crash {name}")
    for host in script.hosts.values():
        for name in lost:
            if host.alive:
                script.play(f"down {host.node} {name}")


def any_is_elected(script: Script) -> bool:
    """Whether those that are left find a leader among them that gets something committed."""
    left = [host.node for host in script.hosts.values() if host.alive]
    for name in left:
        if script.hosts[name].raft.deadline_ms >= 0:
            script.play(f"timeout {name}")
            script.play("run")
        if commits(script, name):
            return True
    return False


@pytest.mark.rule("BEH-06")
@pytest.mark.parametrize("size", TOLERATED)
def test_so_many_followers_may_be_lost_and_not_one_more(size: int) -> None:
    followers = names(size)[1:]
    for lost in range(len(followers) + 1):
        script = group(size)
        lose(script, followers[:lost])
        assert commits(script, "a") == (lost <= TOLERATED[size]), f"{lost} of {size} are lost"


@pytest.mark.rule("BEH-06")
@pytest.mark.parametrize("size", TOLERATED)
def test_the_leader_may_be_among_them(size: int) -> None:
    for lost in range(1, size):
        script = group(size)
        lose(script, names(size)[:lost])
        assert any_is_elected(script) == (lost <= TOLERATED[size]), f"{lost} of {size} are lost"


@pytest.mark.rule("BEH-06")
@pytest.mark.parametrize("size", [3, 4, 5, 6])
def test_of_a_group_that_is_cut_in_two_a_majority_goes_on(size: int) -> None:
    """Of an even group neither half does, so that it survives no more than with one less."""
    for here in range(1, size):
        script = group(size)
        ours, theirs = names(size)[:here], names(size)[here:]
        script.play("split " + " ".join(f"{one}-{other}" for one, other in product(ours, theirs)))
        # The leader is on one side; the others have to elect one.
        assert commits(script, "a") == (len(ours) > size // 2)
        elected = False
        for name in theirs:
            if not elected and script.hosts[name].raft.deadline_ms >= 0:
                script.play(f"timeout {name}")
                script.play("run")
            elected = elected or commits(script, name)
        assert elected == (len(theirs) > size // 2)
