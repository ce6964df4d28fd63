"""A test for each of R-01 to R-17, R-20, R-23 and R-24, and one for each bug.

`test_rule_15_...` proves R-15; docs/rules.md says what that demands.
The bugs are those that other implementations shipped; each names its source. Where a rule has a
transcript as well, the transcript shows the whole course of it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.raft.script import Script
from warren.raft import effects as fx
from warren.raft import following
from warren.raft import messages as ms
from warren.raft.members import Replica
from warren.raft.raft import Options, Raft, RecoveredState

ABC = [Replica("a", 1, True), Replica("b", 1, True), Replica("c", 1, True)]


def member(
    node: str = "b",
    runs: list[tuple[int, int]] | None = None,
    last: int = 0,
    term: int = 0,
    members: list[Replica] | None = None,
    floor: tuple[int, int] = (0, 0),
) -> Raft:
    """A member that starts with this log."""
    saved = RecoveredState()
    saved.members = ABC if members is None else members
    saved.runs = runs or []
    saved.last_index = last
    saved.term = term
    saved.floor_term, saved.floor_index = floor
    raft = Raft(node, 1, saved, Options(), 7)
    raft.start(0)
    return raft


def append(
    prev: tuple[int, int], runs: list[tuple[int, int]], last: int, commit: int, term: int = 2
) -> ms.Append:
    """An append of a to b."""
    message = ms.Append("a", 1, "b", 1, term, prev[0], prev[1], last, commit)
    message.firsts = [first for first, _ in runs]
    message.terms = [run_term for _, run_term in runs]
    return message


def drained(raft: Raft) -> list[object]:
    """The effects so far."""
    found = list(raft.effects)
    raft.effects.clear()
    return found


def sent(raft: Raft, kind: type) -> list[object]:
    """Messages of a kind among the effects so far."""
    return [
        effect.message
        for effect in drained(raft)
        if isinstance(effect, fx.Send) and isinstance(effect.message, kind)
    ]


def leader(*names: str, learners: str = "") -> Script:
    """A group led by its first member, with its no-op committed."""
    script = Script()
    script.play("group " + " ".join([*names, *[f"[{name}]" for name in learners]]))
    if len(names) > 1:
        script.play(f"timeout {names[0]}")
    script.play("run")
    script.play("wait 300")
    script.play("run")
    assert script.hosts[names[0]].raft.is_leader
    return script


# --- what is durable ----------------------------------------------------------------


def test_rule_01_a_vote_is_durable_before_it_is_given() -> None:
    raft = member()
    vote = ms.Vote("a", 1, "b", 1, 5)
    raft.step(vote, 1)
    states = [effect for effect in drained(raft) if isinstance(effect, fx.PersistState)]
    assert [(state.term, state.voted_for) for state in states] == [(5, "a")]
    raft.state_persisted(states[0].sequence, 2)
    (answer,) = sent(raft, ms.VoteReply)
    assert answer.granted and answer.term == 5


def test_rule_01_entries_are_durable_before_they_are_acknowledged() -> None:
    raft = member(term=2)
    raft.step(append((0, 0), [(1, 2)], 3, 0), 1)
    assert not sent(raft, ms.AppendReply)
    raft.persisted(2, 2, 2)
    assert [answer.match_index for answer in sent(raft, ms.AppendReply)] == [2]
    raft.persisted(3, 2, 3)
    assert [answer.match_index for answer in sent(raft, ms.AppendReply)] == [3]


def test_rule_01_an_acknowledgement_waits_for_its_term() -> None:
    raft = member()
    raft.step(append((0, 0), [(1, 2)], 1, 0), 1)
    sequence = [e for e in drained(raft) if isinstance(e, fx.PersistState)][0].sequence
    raft.persisted(1, 2, 2)
    assert not sent(raft, ms.AppendReply)
    raft.state_persisted(sequence, 3)
    assert sent(raft, ms.AppendReply)


def test_rule_01_a_term_that_only_the_log_tells_is_written_down_at_the_start() -> None:
    raft = member(runs=[(1, 1), (3, 2)], last=4, term=1)
    states = [effect for effect in drained(raft) if isinstance(effect, fx.PersistState)]
    assert [(state.term, state.voted_for) for state in states] == [(2, "")]
    raft.step(append((4, 2), [], 4, 0), 1)
    assert not sent(raft, ms.AppendReply)
    raft.state_persisted(states[0].sequence, 2)
    assert [answer.match_index for answer in sent(raft, ms.AppendReply)] == [4]


def test_rule_01_a_term_that_may_not_be_durable_yet_is_written_down_at_the_start() -> None:
    raft = Raft("b", 1, RecoveredState(), Options(), 7)
    raft.write_down()
    raft.start(0)
    states = [effect for effect in drained(raft) if isinstance(effect, fx.PersistState)]
    assert len(states) == 1
    raft.step(append((4, 2), [], 4, 0, term=0), 1)
    assert not sent(raft, ms.AppendReply)
    raft.state_persisted(states[0].sequence, 2)
    assert len(sent(raft, ms.AppendReply)) == 1


def test_rule_01_what_was_held_for_an_older_term_is_not_said() -> None:
    raft = member()
    raft.step(append((0, 0), [(1, 2)], 1, 0), 1)
    raft.persisted(1, 2, 2)
    raft.step(append((0, 0), [(1, 3)], 1, 0, term=3), 3)
    raft.state_persisted(2, 4)
    assert not sent(raft, ms.AppendReply), "entry 1 of term 2 is gone"


def test_rule_01_a_candidate_asks_after_its_own_vote_is_durable() -> None:
    script = Script()
    script.play("group a b c")
    script.play("timeout a")
    script.play("deliver")
    assert not any("Vote t1" in line for line in script.play("deliver"))
    assert any("Vote t1" in line for line in script.play("sync a"))


def test_rule_02_a_leader_counts_itself_when_its_disk_is_done() -> None:
    script = leader("a", "b", "c")
    script.play("propose a")
    script.play("deliver")
    script.play("sync b")
    script.play("deliver")
    raft = script.hosts["a"].raft
    assert raft.commit_index == 1
    script.play("sync a")
    assert raft.commit_index == 2


def test_bug_etcd_14370_a_single_member_acknowledged_before_its_disk() -> None:
    script = Script()
    script.play("group a")
    assert script.hosts["a"].raft.role_name == "candidate"
    script.play("sync")
    script.play("propose a")
    assert script.hosts["a"].raft.commit_index == 0
    script.play("sync")
    assert script.hosts["a"].raft.commit_index == 2


def test_rule_03_old_terms_are_not_committed_by_counting() -> None:
    """Figure 8 of the Raft paper: an old entry on a majority may still be overwritten."""
    raft = member("b", runs=[(1, 1)], last=3, term=1)
    raft.tick(raft.deadline_ms)
    granted = ms.PreVoteReply("a", 1, "b", 1, 1)
    granted.granted = True
    raft.step(granted, 2_000)
    raft.state_persisted(1, 2_000)
    vote = ms.VoteReply("a", 1, "b", 1, 2)
    vote.granted = True
    raft.step(vote, 2_000)
    assert raft.is_leader
    assert any(isinstance(effect, fx.AppendNoop) for effect in drained(raft))
    raft.appended(4, 2_000)
    answer = ms.AppendReply("a", 1, "b", 1, 2)
    answer.accepted, answer.match_index, answer.received_index = True, 3, 3
    raft.step(answer, 2_001)
    assert raft.commit_index == 0
    answer.match_index = answer.received_index = 4
    raft.persisted(4, 2, 2_001)
    raft.step(answer, 2_002)
    assert raft.commit_index == 4


def test_rule_04_bug_ra_3aa50f29_commit_only_what_is_validated() -> None:
    raft = member(runs=[(1, 1)], last=9, term=1)
    raft.step(append((2, 1), [], 2, 8), 1)
    assert raft.commit_index == 2, "entries 3 to 9 may be another leader's"


def test_rule_05_bug_ra_39490978_truncation_lowers_what_is_durable() -> None:
    raft = member(runs=[(1, 1)], last=5, term=1)
    raft.step(append((2, 1), [(3, 2)], 3, 0), 1)
    assert raft.state.persisted_index == 2
    found = drained(raft)
    cut = [effect.from_index for effect in found if isinstance(effect, fx.Truncate)]
    assert cut == [3]


def test_rule_06_a_matching_append_truncates_nothing() -> None:
    raft = member(term=2)
    raft.step(append((0, 0), [(1, 2)], 5, 0), 1)
    raft.step(append((0, 0), [(1, 2)], 2, 0), 2)
    raft.step(append((1, 2), [], 1, 0), 3)
    assert raft.last_index == 5
    assert not [effect for effect in drained(raft) if isinstance(effect, fx.Truncate)]


def test_rule_07_bug_ra_324d9bc5_a_late_completion_of_other_entries() -> None:
    raft = member(term=1)
    raft.step(append((0, 0), [(1, 1)], 3, 0, term=1), 1)
    raft.step(append((1, 1), [(2, 2)], 3, 0), 2)
    drained(raft)
    raft.persisted(3, 1, 3)
    assert raft.state.persisted_index == 0
    raft.persisted(3, 2, 4)
    assert raft.state.persisted_index == 3


# --- who leads ----------------------------------------------------------------------


def test_rule_08_bug_ra_bbd00102_a_pre_vote_changes_nothing() -> None:
    raft = member(term=4)
    before = (raft.term, raft.state.voted_for, raft.deadline_ms, raft.state.state_sequence)
    question = ms.PreVote("a", 1, "b", 1, 9)
    raft.step(question, 1)
    assert before == (raft.term, raft.state.voted_for, raft.deadline_ms, raft.state.state_sequence)
    (effect,) = drained(raft)
    assert effect.message.granted


def test_rule_09_a_leader_without_a_majority_resigns() -> None:
    script = leader("a", "b", "c")
    script.play("down a b")
    assert script.hosts["a"].raft.deadline_ms == -1, "one of three may be missing"
    script.play("down a c")
    script.play("timeout a")
    assert not script.hosts["a"].raft.is_leader


def test_rule_09_a_leader_that_is_not_answered_resigns() -> None:
    """Links that lose everything one way are not always noticed by a failure detector."""
    script = leader("a", "b", "c")
    script.play("cut b>a c>a")
    script.play("propose a")
    for _ in range(20):
        if script.hosts["a"].raft.is_leader:
            script.play("timeout a")
            script.play("run")
    assert not script.hosts["a"].raft.is_leader


def test_rule_10_bug_etcd_7331_no_read_before_an_own_entry() -> None:
    script = Script()
    script.play("group a b c")
    script.play("timeout a")
    for command in ("deliver", "deliver", "sync a", "deliver", "sync", "deliver"):
        script.play(command)
    assert script.hosts["a"].raft.is_leader
    assert not any("ReadProbe" in line for line in script.play("read a 1"))


def test_rule_10_bug_etcd_20418_each_read_has_a_round_of_its_own() -> None:
    script = leader("a", "b", "c")
    script.play("read a 5")
    old = script.take("a>b") + script.take("a>c")
    script.play("down a c")
    script.play("read a 5")
    script.flying = old
    assert not any("is good" in line for line in script.play("deliver") if ": read" in line)
    lines = script.play("deliver")
    assert sum("is good" in line for line in lines) == 1, "the second came after these answers"


def test_rule_10_a_leader_that_was_replaced_refuses() -> None:
    script = leader("a", "b", "c")
    script.play("read a 1")
    script.play("drop")
    script.play("transfer a b")
    assert "a: read 1 is refused" in script.play("run")


def test_rule_11_no_time_makes_a_read_good() -> None:
    """However much time passes or does not: only answers do."""
    script = leader("a", "b", "c")
    script.play("cut a>b a>c")
    script.play("read a 1")
    assert not any("is good" in line for line in script.play("wait 1"))
    for _ in range(10):
        assert not any("is good" in line for line in script.play("wait 10000"))


# --- members ------------------------------------------------------------------------


def test_rule_12_bug_ra_no_change_before_an_own_entry_is_committed() -> None:
    script = Script()
    script.play("group a b c")
    script.play("timeout a")
    for command in ("deliver", "deliver", "sync a", "deliver", "sync", "deliver"):
        script.play(command)
    assert "a: refuses: no entry of this term is committed yet" in script.play("members a a b")


@pytest.mark.parametrize(
    "names, reason",
    [
        ("a b", ""),
        ("a b c d", ""),
        ("a b [c]", ""),
        ("a b c", "nothing changes"),
        ("a", "more than one member changes"),
        ("a b d", "more than one member changes"),
        ("a b c c", "a node may hold one member only"),
        ("[a] [b] [c]", "no voter would remain"),
    ],
)
def test_rule_12_one_member_at_a_time(names: str, reason: str) -> None:
    script = leader("a", "b", "c")
    refusals = [line for line in script.play(f"members a {names}") if "refuses" in line]
    assert refusals == ([f"a: refuses: {reason}"] if reason else [])
    if not reason:
        again = script.play("members a a b c d e")
        assert "a: refuses: another change is not committed yet" in again


def test_rule_13_bug_ra_82e5ca2f_a_truncated_change_is_reverted() -> None:
    script = leader("a", "b", "c")
    script.play("cut a>b a>c b>a c>a")
    script.play("members a a b")
    assert len(script.hosts["a"].raft.members) == 2
    script.play("down b a")
    script.play("down c a")
    script.play("timeout b")
    script.play("run")
    script.play("heal")
    script.play("up b a")
    script.play("run")
    assert [m.node for m in script.hosts["a"].raft.members] == ["a", "b", "c"]


def test_rule_14_bug_ra_114d1d37_a_learner_never_stands_nor_counts() -> None:
    script = leader("a", "b", learners="cd")
    script.play("crash b")
    script.play("propose a")
    script.play("run")
    assert script.hosts["a"].raft.commit_index == 1
    for node in "cd":
        script.play(f"down {node} a")
        assert script.hosts[node].raft.deadline_ms == -1
        urge = ms.TimeoutNow("a", 1, node, 1, script.hosts[node].raft.term)
        script.hosts[node].raft.step(urge, script.now_ms)
        assert script.hosts[node].raft.role_name == "follower"


def test_rule_14_a_voter_that_does_not_know_it_yet_gives_its_vote() -> None:
    """The candidate may have the entry that promotes the voter, and need that vote to send it."""
    raft = member("b", members=[Replica("a", 1, True), Replica("b", 1, False)])
    raft.step(ms.Vote("a", 1, "b", 1, 3), 1)
    raft.state_persisted(1, 2)
    (answer,) = sent(raft, ms.VoteReply)
    assert answer.granted


def test_rule_14_one_on_its_way_out_may_have_to_lead() -> None:
    """Only the leader has the entry that removes it, and everybody else a shorter log."""
    script = leader("a", "b")
    script.play("cut a>b")
    script.play("members a b")
    script.play("sync")
    script.play("crash a")
    script.play("heal")
    script.play("restart a")
    script.play("restarted b a")
    script.play("timeout a")
    script.play("run")
    assert script.hosts["b"].raft.is_leader
    assert [m.node for m in script.hosts["b"].raft.members] == ["b"]
    assert script.hosts["b"].raft.commit_index >= 2


def test_rule_15_bug_rabbitmq_15725_messages_for_another_copy_are_dropped() -> None:
    raft = member()
    before = raft.term
    for message in (ms.Vote("a", 1, "b", 2, 9), append((0, 0), [(1, 2)], 1, 1)):
        message.target_incarnation = 2
        raft.step(message, 1)
    assert raft.term == before and raft.last_index == 0 and not raft.effects


def test_rule_15_answers_of_another_copy_do_not_count() -> None:
    script = leader("a", "b", "c")
    script.play("propose a")
    script.play("sync a")
    raft = script.hosts["a"].raft
    answer = ms.AppendReply("b", 2, "a", 1, raft.term)
    answer.accepted, answer.match_index, answer.received_index = True, 2, 2
    raft.step(answer, script.now_ms)
    assert raft.commit_index == 1


def test_rule_16_a_transfer_that_fails_ends() -> None:
    script = leader("a", "b", "c")
    script.play("cut a>b")
    script.play("transfer a b")
    assert script.play("propose a") == ["a: takes no commands"]
    script.play("wait 1000")
    assert script.hosts["a"].raft.can_propose()


def test_rule_16_a_leader_that_cannot_bring_its_successor_up_has_it_campaign_as_it_is() -> None:
    """What only the old leader has is not committed; what is, another voter lets nobody lack."""
    script = leader("a", "b", "c")
    script.play("cut a>b a>c")
    script.play("propose a")
    script.play("heal")
    host = script.hosts["a"]
    assert host.raft.transfer("b", script.now_ms, as_is=True) == ""
    script.settle(host)
    script.flying = [sent for sent in script.flying if isinstance(sent[0], ms.TimeoutNow)]
    script.play("run")
    assert script.hosts["b"].raft.is_leader and not host.raft.is_leader


def test_rule_17_snapshots_only_go_forward() -> None:
    raft = member(runs=[(1, 2)], last=5, term=2)
    raft.step(append((5, 2), [], 5, 4), 1)
    assert raft.snapshot_installed(4, 2, ABC, 2) == following.SNAPSHOT_REFUSED
    assert raft.snapshot_installed(5, 2, ABC, 2) == following.SNAPSHOT_KEEPS_TAIL
    assert raft.snapshot_installed(9, 2, ABC, 2) == following.SNAPSHOT_REPLACES_LOG
    assert (raft.last_index, raft.commit_index, raft.state.persisted_index) == (9, 9, 9)


def test_rule_17_a_log_that_contradicts_the_snapshot_is_dropped() -> None:
    raft = member(runs=[(1, 1)], last=8, term=2)
    assert raft.snapshot_installed(5, 2, ABC, 1) == following.SNAPSHOT_REPLACES_LOG
    assert raft.last_index == 5


def test_rule_17_a_snapshot_of_what_is_here_is_not_taken() -> None:
    """Nor does the log count as compacted: the member has no such snapshot to offer to others."""
    raft = member(runs=[(1, 2)], last=5, term=2)
    drained(raft)
    raft.step(ms.SnapshotOffer("a", 1, "b", 1, 2, 4, 2, ABC), 1)
    effects = list(raft.effects)
    assert not any(isinstance(effect, fx.AcceptSnapshot) for effect in effects)
    assert [effect.index for effect in effects if isinstance(effect, fx.Committed)] == [4]
    (answer,) = sent(raft, ms.AppendReply)
    assert isinstance(answer, ms.AppendReply)
    assert (answer.accepted, answer.match_index) == (True, 4)
    assert (raft.commit_index, raft.state.log.snapshot_index) == (4, 0)


# --- R-24 -----------------------------------------------------------------------------


def test_rule_20_who_lost_entries_does_not_stand() -> None:
    raft = member(runs=[(1, 1)], last=2, term=1, floor=(1, 5))
    for _ in range(5):
        raft.tick(raft.deadline_ms)
    assert not raft.effects and raft.role_name == "follower"
    raft.step(ms.TimeoutNow("a", 1, "b", 1, 1), raft.state.now_ms)
    assert raft.role_name == "follower"


def test_rule_20_nor_does_one_that_would_be_its_own_majority() -> None:
    """An old snapshot may say so to a member that gave up a newer log."""
    raft = member(members=[Replica("b", 1, True)], runs=[(1, 1)], last=4, term=3, floor=(2, 40))
    for now_ms in range(0, 20_000, 500):
        raft.tick(now_ms)
    assert raft.role_name == "follower" and raft.term == 3 and not sent(raft, ms.Vote)


def test_rule_20_a_log_that_is_given_up_again_leaves_the_floor_where_it_was() -> None:
    raft = member(term=9)
    raft.give_up_log(8, 40)
    raft.give_up_log(1, 4)
    vote = ms.Vote("a", 1, "b", 1, 10)
    vote.last_term, vote.last_index = 8, 39
    raft.step(vote, 1)
    for effect in drained(raft):
        if isinstance(effect, fx.PersistState):
            raft.state_persisted(effect.sequence, 2)
    (answer,) = sent(raft, ms.VoteReply)
    assert not answer.granted


@pytest.mark.parametrize(
    "last, term, granted", [(4, 1, False), (5, 1, True), (9, 1, True), (3, 2, True)]
)
def test_rule_20_who_lost_entries_votes_for_those_who_have_them(
    last: int, term: int, granted: bool
) -> None:
    raft = member(runs=[(1, 1)], last=2, term=1, floor=(1, 5))
    vote = ms.Vote("a", 1, "b", 1, 5)
    vote.last_index, vote.last_term = last, term
    raft.step(vote, 1)
    raft.state_persisted(1, 2)
    assert [answer.granted for answer in sent(raft, ms.VoteReply)] == [granted]


def test_rule_20_it_heals_once_the_entries_are_back() -> None:
    raft = member(runs=[(1, 1)], last=2, term=1, floor=(1, 5))
    raft.step(append((2, 1), [(3, 1)], 5, 0, term=1), 1)
    assert raft.state.is_vote_eligible()


def test_rule_23_bug_ra_ffe3016a_nothing_is_applied_before_it_is_durable() -> None:
    raft = member(term=2)
    raft.step(append((0, 0), [(1, 2)], 3, 3), 1)
    assert raft.commit_index == 3
    assert not [effect for effect in drained(raft) if isinstance(effect, fx.Committed)]
    raft.persisted(2, 2, 2)
    raft.persisted(3, 2, 2)
    found = [effect.index for effect in drained(raft) if isinstance(effect, fx.Committed)]
    assert found == [2, 3]


def test_rule_24_bug_rabbitmq_14136_order_does_not_depend_on_hashes() -> None:
    """The same seed takes the same course in interpreters that hash names differently."""
    code = (
        "from tests.raft.simulate import run_seed\n"
        "import zlib\n"
        "world, complaint = run_seed(31, trace=True)\n"
        "assert not complaint and world.counts['committed']\n"
        "print(zlib.crc32('\\n'.join(world.lines).encode()))"
    )
    seen = set()
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt}
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout)
    assert len(seen) == 1


# --- liveness ------------------------------------------------------------------------------------


def test_an_idle_group_wants_nothing() -> None:
    script = leader("a", "b", "c", learners="d")
    script.play("propose a 5")
    script.play("run")
    # What was committed last is asked for once, as nothing follows that would say it is known.
    script.play("wait 300")
    script.play("run")
    assert all(host.raft.deadline_ms == -1 for host in script.hosts.values())
    assert script.play("wait 1000000") == []


def test_bug_omission_a_member_without_a_link_to_the_leader_does_not_disturb() -> None:
    """decentralizedthoughts 2020-12-12: a partial cut made a cluster elect for six hours."""
    script = leader("a", "b", "c")
    script.play("split a-b")
    term = script.hosts["a"].raft.term
    for _ in range(20):
        script.play("timeout b")
        script.play("propose a")
        script.play("run")
    assert script.hosts["a"].raft.is_leader and script.hosts["a"].raft.term == term
    assert script.hosts["a"].raft.commit_index == 21


def test_a_promotion_waits_for_a_learner_that_has_caught_up() -> None:
    script = leader("a", "b")
    script.play("new c")
    script.play("members a a b [c]")
    raft = script.hosts["a"].raft
    assert raft.behind("c") == -1 and not raft.ready_to_promote("c")
    script.play("run")
    assert raft.behind("c") == 0 and raft.ready_to_promote("c")
