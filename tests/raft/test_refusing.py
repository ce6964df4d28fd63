"""Messages that cannot be meant, and peers that are slow for a reason."""

from __future__ import annotations

import pytest

from tests.raft.test_rules import append, leader, member
from warren.raft import messages as ms
from warren.raft.members import GroupConfig, Replica
from warren.raft.refusing import TERMS_MAX

FOREIGN = ("c", 1, "b", 1)


def probed(term: int, sender: str = "c") -> ms.ReadProbe:
    return ms.ReadProbe(sender, 1, "b", 1, term)


def configured(members: list[Replica]) -> ms.Append:
    message = append((6, 2), [(7, 2)], 7, 2)
    message.configs.append(GroupConfig(7, members))
    return message


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (probed(2), "two leaders"),
        (ms.Append(*FOREIGN, 2, 6, 2, 6, 2), "two leaders"),
        (append((4, 1), [(5, 1)], 6, 2), "contradicts itself at entry 5"),
        (append((1, 1), [(2, 1)], 6, 2), "contradicts itself at entry 5"),
        (configured([]), "without a voter"),
        (
            configured([Replica("a", 1, True), Replica("a", 2, False)]),
            "two members on one node",
        ),
        (probed(3 + TERMS_MAX), "comes behind term"),
        (ms.SnapshotOffer(*FOREIGN, 3, 0, 1, [Replica("a", 1, True)]), "snapshot of entry 0"),
        (
            ms.SnapshotOffer(*FOREIGN, 3, 1 << 61, 1, [Replica("a", 1, True)]),
            "snapshot of entry",
        ),
        (ms.SnapshotOffer(*FOREIGN, 3, 9, 4, [Replica("a", 1, True)]), "later term"),
        (ms.SnapshotOffer(*FOREIGN, 3, 9, 3, []), "without a voter"),
    ],
)
def test_what_no_leader_says_is_refused(message: ms.Message, says: str) -> None:
    """Each of these was an assertion, so that a peer's broken memory ended this process."""
    raft = member("b", [(1, 1)], last=4, term=1)
    raft.step(append((4, 1), [(5, 2)], 6, 2), 0)
    assert says in raft.refuses(message)


@pytest.mark.parametrize(
    "message",
    [
        probed(2, "a"),
        probed(1),
        append((6, 2), [(7, 2)], 8, 2),
        append((4, 1), [(5, 2)], 6, 2),
        append((9, 2), [], 9, 2),
        ms.Append("a", 1, "b", 7, 2, 6, 2, 6, 2),
        ms.SnapshotOffer(*FOREIGN, 3, 9, 3, [Replica("a", 1, True)]),
    ],
)
def test_what_is_old_new_or_for_another_copy_is_not_refused(message: ms.Message) -> None:
    raft = member("b", [(1, 1)], last=4, term=1)
    raft.step(append((4, 1), [(5, 2)], 6, 2), 0)
    assert raft.refuses(message) == ""


def test_a_peer_that_is_ahead_of_its_leader_is_refused() -> None:
    raft = leader("a", "b", "c").hosts["a"].raft
    reply = ms.AppendReply("b", 1, "a", 1, raft.term)
    reply.accepted = True
    for match, received, refused in ((1, 1, False), (1, 9, True), (9, 9, True), (1, 0, True)):
        reply.match_index, reply.received_index = match, received
        assert (raft.refuses(reply) != "") == refused


def test_a_leader_does_not_resign_over_a_large_append_under_way() -> None:
    """Its peers have nothing to answer yet. The time that they are granted ends."""
    script = leader("a", "b", "c")
    host = script.hosts["a"]
    raft = host.raft
    now = int(raft.state.now_ms)
    host.propose(1)
    for node in "bc":
        assert raft.next_append(node) is not None
        raft.takes_long(node, 5_000, now)
    for later in range(now, now + 5_900, 50):
        raft.tick(later)
    assert raft.is_leader
    for later in range(now + 5_900, now + 9_000, 50):
        raft.tick(later)
    assert not raft.is_leader
