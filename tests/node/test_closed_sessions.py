"""Sessions that are over: what a queue's group remembers of them is bounded."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from tests.node.test_leading_again import member
from warren.replication.raft_entries import CLOSED_ENOUGH
from warren.wire.amqp091 import spec

LIVES = CLOSED_ENOUGH + 12


def live_on(pair: Pair, lives: int) -> None:
    """Node b uses the queue in one life after the other."""
    for _ in range(lives):
        client = pair.b.client()
        client.call(spec.ConfirmSelect(False))
        client.publish("q", b"body")
        pair.until(lambda client=client: client.acked == {1})
        pair.b.kill()
        pair.b.start()
        pair.until(lambda: pair.b.node.ready and pair.b.knows("q"))


@pytest.mark.early
def test_a_group_remembers_few_of_the_lives_that_are_over() -> None:
    pair = Pair()
    pair.a.client().declare("q", kind="quorum", size=1)
    live_on(pair, LIVES)
    here = member(pair.a)
    pair.until(lambda: len(here.sessions) <= CLOSED_ENOUGH + 2)
    assert len(here.client_sessions._next) <= CLOSED_ENOUGH + 3
    # So it is in its snapshot, and after a start from it.
    pair.a.queue("q").snapshot()
    pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready and pair.b.node.ready)
    pair.until(lambda: pair.a.queue("q").fed())
    assert len(member(pair.a).sessions) <= CLOSED_ENOUGH + 3
    client = pair.a.client()
    client.publish_confirmed("q", 1)
    assert pair.a.queue("q").counts().ready == LIVES + 1


def test_a_node_that_is_only_cut_off_is_remembered() -> None:
    """It goes on with what it submitted, which must not be taken twice."""
    pair = Pair()
    pair.add("c")
    pair.a.client().declare("q", kind="quorum", size=1)
    pair.until(lambda: pair.stations["c"].knows("q"))
    away = pair.stations["c"].client()
    away.publish_confirmed("q", 1)
    session = int(pair.stations["c"].queue("q").proposer().session())
    for other in "ab":
        for link in ((other, "c"), ("c", other)):
            pair.blocked.add(link)
            pair.cut(*link)
    here = member(pair.a)
    pair.until(lambda: here.sessions.get(session, 0) < 0)
    live_on(pair, LIVES)
    pair.settle(20)
    assert session in here.sessions
    assert len(here.sessions) <= CLOSED_ENOUGH + 3
