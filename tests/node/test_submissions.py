"""What a node submits, and the sessions it does that in."""

from __future__ import annotations

import pytest

from warren.errors import ClusterError
from warren.node.submissions import EPOCH_BITS, EPOCHS_ENOUGH, Load, Submissions
from warren.queues.queue import Host

LIFE = 7 << EPOCH_BITS


@pytest.mark.rule("BEH-15")
def test_a_life_keeps_to_its_own_sessions() -> None:
    """What is left moves on each time the session is closed, until there is no session left."""
    submissions = Submissions(LIFE, Load(Host(), 1 << 20))
    for number in range(3):
        submissions.add(0, 0, b"", b"%d" % number, None)
    assert submissions.next_offer() is not None
    for epoch in range(1, 1 << EPOCH_BITS):
        submissions.next_epoch(7)
        assert submissions.session == LIFE + epoch
        assert [submissions.first(), len(submissions)] == [1, 3]
        offered = submissions.next_offer()
        assert offered is not None and (offered.sequence, offered.payload) == (1, b"0")
        assert submissions.runs_out() == (epoch >= EPOCHS_ENOUGH)
    with pytest.raises(ClusterError, match="gave this one up 256 times.*start it again"):
        submissions.next_epoch(7)
    assert submissions.session >> EPOCH_BITS == LIFE >> EPOCH_BITS
    submissions.next_epoch(9)
    assert (submissions.session, submissions.first()) == (9 << EPOCH_BITS, 1)
    assert not submissions.runs_out()


def test_a_log_that_is_applied_anew_answers_nobody_again() -> None:
    """A node that lost its copy of a group's log meets in it what it had submitted before."""
    submissions = Submissions(LIFE, Load(Host(), 1 << 20))
    for origin in ("one", "two"):
        submissions.add(0, 0, b"", b"", origin)
    assert submissions.applied(1) == "one"
    assert submissions.applied(1) is None
    assert submissions.applied(2) == "two"
    assert [submissions.applied(number) for number in (1, 2)] == [None, None]
    submissions.add(0, 0, b"", b"", "three")
    assert submissions.applied(3) == "three"
