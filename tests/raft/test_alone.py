"""A copy that goes on alone, since the others never vote again."""

from __future__ import annotations

import pytest

from tests.raft.script import Script
from tests.raft.test_majorities import any_is_elected, commits, group, lose


def entries(script: Script, node: str) -> int:
    return int(script.hosts[node].raft.state.commit_index)


@pytest.mark.parametrize("lost", ["a", "b"], ids=["leader", "follower"])
def test_one_of_two_voters_goes_on_with_all_that_was_committed(lost: str) -> None:
    script = group(2)
    assert commits(script, "a")
    committed = entries(script, "a")
    left = "b" if lost == "a" else "a"
    lose(script, lost)
    if lost == "b":
        script.play("wait 3000")
        script.play("timeout a")
    assert not any_is_elected(script)
    script.play(f"alone {left}")
    script.play("run")
    assert commits(script, left)
    assert entries(script, left) > committed
    members = script.hosts[left].raft.members
    assert [(member.node, member.voter) for member in members] == [(left, True)]


def test_its_own_vote_is_durable_before_it_leads() -> None:
    script = group(2)
    lose(script, "a")
    script.play("alone b")
    assert not script.hosts["b"].raft.is_leader
    script.play("sync b")
    assert script.hosts["b"].raft.is_leader


def test_a_leader_that_lives_all_the_same_commits_nothing_without_it() -> None:
    """It was taken for gone: what it logs meanwhile gives way."""
    script = group(2)
    script.play("split a-b")
    script.play("propose a")
    before = entries(script, "a")
    script.play("alone b")
    script.play("run")
    assert commits(script, "b")
    assert entries(script, "a") == before
    script.play("join a-b")
    script.play("run")
    assert script.hosts["b"].raft.is_leader
    assert entries(script, "b") > before


def test_a_restart_before_it_leads_changes_nothing() -> None:
    script = group(2)
    lose(script, "a")
    script.play("alone b")
    script.play("crash b")
    script.play("restart b")
    script.play("run")
    assert not script.hosts["b"].raft.is_leader
    script.play("alone b")
    script.play("run")
    assert commits(script, "b")


def test_it_leads_again_after_a_restart() -> None:
    script = group(2)
    lose(script, "a")
    script.play("alone b")
    script.play("run")
    script.play("crash b")
    script.play("restart b")
    script.play("run")
    assert commits(script, "b")


def test_who_leads_or_has_no_vote_is_not_asked_to() -> None:
    script = group(2)
    assert "not alone: it leads" in "\n".join(script.play("alone a"))
