"""What operators may do to the members of a quorum queue."""

from __future__ import annotations

import pytest

from tests.metadata.cluster import Cluster, shown
from warren.errors import Refusal
from warren.metadata import member_checks
from warren.metadata.commands import Command

ALL = ["a", "b", "c", "d"]


def cluster(members: str) -> Cluster:
    made = Cluster(*ALL)
    made.declare("q", "a", members)
    return made


def applied(made: Cluster, command: Command | None) -> str:
    assert command is not None
    assert made.apply(command).members_changed == [made.queue("q")]
    return shown(made.queue("q"))


@pytest.mark.rule("MEM-02")
def test_a_learner_becomes_a_member() -> None:
    made = cluster("ABCd")
    assert applied(made, member_checks.add_member(made.queue("q"), "d", 9)) == "ABCD"
    assert made.queue("q").members[3].incarnation == 1
    assert member_checks.add_member(made.queue("q"), "d", 9) is None


def test_a_node_without_a_copy_gets_one() -> None:
    made = cluster("AB")
    assert applied(made, member_checks.add_member(made.queue("q"), "c", 9)) == "ABC"
    assert made.queue("q").members[2].incarnation == 9


@pytest.mark.rule("MEM-03")
def test_a_member_goes() -> None:
    made = cluster("ABCd")
    assert applied(made, member_checks.delete_member(made.queue("q"), "b", ALL, False)) == "ACd"
    assert member_checks.delete_member(made.queue("q"), "b", ALL, False) is None
    # One that does not vote goes whoever runs.
    assert applied(made, member_checks.delete_member(made.queue("q"), "d", [], False)) == "AC"


def test_the_last_member_stays_even_by_force() -> None:
    made = cluster("Abc")
    with pytest.raises(Refusal, match="the last node cannot be removed"):
        member_checks.delete_member(made.queue("q"), "a", ALL, True)


@pytest.mark.rule("MEM-06")
def test_a_quorum_is_lost_by_force_only() -> None:
    made = cluster("ABC")
    refused = "of a, c, a would be running; start the nodes that are down, or say --force"
    with pytest.raises(Refusal, match=refused):
        member_checks.delete_member(made.queue("q"), "b", ["a", "b"], False)
    assert applied(made, member_checks.delete_member(made.queue("q"), "b", ["a"], True)) == "AC"
    # The one that is down may go.
    made = cluster("ABC")
    assert applied(made, member_checks.delete_member(made.queue("q"), "c", ["a", "b"], False))


def test_only_quorum_queues_have_members() -> None:
    made = cluster("ABC")
    made.declare("classic", "a")
    machine = made.machine
    assert member_checks.quorum_queue(machine, "/", "q") is made.queue("q")
    with pytest.raises(Refusal, match="queue 'x' in vhost '/' does not exist"):
        member_checks.quorum_queue(machine, "/", "x")
    with pytest.raises(Refusal, match="vhost 'v' does not exist"):
        member_checks.quorum_queue(machine, "v", "q")
    with pytest.raises(Refusal, match="'classic' in vhost '/' is of type classic"):
        member_checks.quorum_queue(machine, "/", "classic")
    with pytest.raises(Refusal, match="'z' is not in the cluster, whose nodes are a, b, c, d"):
        member_checks.check_node(machine, "z")
