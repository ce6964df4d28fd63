"""What a node submits, and the sessions it does that in."""

from __future__ import annotations

import pytest

from warren.errors import ClusterError
from warren.ids import EPOCH_MAX, first_session, life_of_session
from warren.queues.queue import Host
from warren.replication.proposals import EPOCHS_ENOUGH, Load, Proposals

LIFE = first_session(7)


@pytest.mark.rule("BEH-15")
def test_a_life_keeps_to_its_own_sessions() -> None:
    """What is left moves on each time the session is closed, until there is no session left."""
    proposals = Proposals(LIFE, Load(Host(), 1 << 20))
    for number in range(3):
        proposals.add(0, 0, b"", b"%d" % number, None)
    assert proposals.next_offer() is not None
    for epoch in range(1, EPOCH_MAX + 1):
        proposals.next_epoch(7)
        assert proposals.session == LIFE + epoch
        assert [proposals.first(), len(proposals)] == [1, 3]
        offered = proposals.next_offer()
        assert offered is not None and (offered.sequence, offered.payload) == (1, b"0")
        assert proposals.runs_out() == (epoch >= EPOCHS_ENOUGH)
    with pytest.raises(ClusterError, match="gave this one up 256 times.*start it again"):
        proposals.next_epoch(7)
    assert life_of_session(proposals.session) == 7
    proposals.next_epoch(9)
    assert (proposals.session, proposals.first()) == (first_session(9), 1)
    assert not proposals.runs_out()


def test_a_log_that_is_applied_anew_answers_nobody_again() -> None:
    """A node that lost its copy of a group's log meets in it what it had submitted before."""
    proposals = Proposals(LIFE, Load(Host(), 1 << 20))
    for origin in ("one", "two"):
        proposals.add(0, 0, b"", b"", origin)
    assert proposals.applied(1) == "one"
    assert proposals.applied(1) is None
    assert proposals.applied(2) == "two"
    assert [proposals.applied(number) for number in (1, 2)] == [None, None]
    proposals.add(0, 0, b"", b"", "three")
    assert proposals.applied(3) == "three"
