"""Clusters of more nodes than vote in the tables."""

from __future__ import annotations

from tests.node.pair import Pair, Station
from warren.limits import TABLES_VOTERS_MAX
from warren.metadata.commands import RemoveNode
from warren.wire.amqp091 import spec

NODES = TABLES_VOTERS_MAX + 2


def voters(station: Station) -> set[str]:
    raft = station.node.store.member().raft
    return {copy.node for copy in raft.members if copy.voter}


def large() -> Pair:
    pair = Pair()
    for number in range(2, NODES):
        pair.add("abcdefghijk"[number])
    pair.until(lambda: all(len(voters(each)) == TABLES_VOTERS_MAX for each in alive(pair)))
    return pair


def alive(pair: Pair) -> list[Station]:
    return [station for station in pair.stations.values() if station.alive]


def test_some_nodes_learn_and_serve_clients_all_the_same() -> None:
    pair = large()
    (learner, *_) = sorted(set(pair.stations) - voters(pair.a))
    client = pair.stations[learner].client()
    assert isinstance(client.declare("q", kind="quorum"), spec.QueueDeclareOk)
    client.publish_confirmed("q", 3)
    pair.stations[learner].kill()
    pair.stations[learner].start()
    pair.until(lambda: pair.stations[learner].node.ready)
    pair.stations[learner].client().publish_confirmed("q", 1)
    pair.settle()
    assert len(voters(pair.a)) == TABLES_VOTERS_MAX and learner not in voters(pair.a)


def test_a_voter_that_goes_is_followed_by_one_that_learned() -> None:
    pair = large()
    learners = set(pair.stations) - voters(pair.a)
    gone = pair.stations[sorted(voters(pair.a) - {leader(pair)})[-1]]
    gone.kill()
    pair.stations[leader(pair)].node.store.submit(RemoveNode(gone.name, True), None)

    def followed() -> bool:
        now = [voters(each) for each in alive(pair)]
        return all(len(each) == TABLES_VOTERS_MAX and gone.name not in each for each in now)

    pair.until(followed)
    assert voters(pair.a) & learners
    # Three of the voters that are left may go; those that learn do not count.
    left = sorted(voters(pair.a) - {"a"})
    for name in left[:3]:
        pair.stations[name].kill()
    client = pair.a.client()
    assert isinstance(client.declare("q2", kind="classic"), spec.QueueDeclareOk)


def test_who_follows_a_voter_runs() -> None:
    pair = large()
    first, second = sorted(set(pair.stations) - voters(pair.a))
    gone = pair.stations[sorted(voters(pair.a) - {leader(pair)})[-1]]
    pair.stations[first].kill()
    here = pair.stations[leader(pair)]
    pair.until(lambda: first not in here.node.cluster.running())
    gone.kill()
    here.node.store.submit(RemoveNode(gone.name, True), None)
    pair.until(lambda: gone.name not in voters(here) and len(voters(here)) == TABLES_VOTERS_MAX)
    assert second in voters(here) and first not in voters(here)


def leader(pair: Pair) -> str:
    return next(each.name for each in alive(pair) if each.node.store.member().raft.is_leader)
