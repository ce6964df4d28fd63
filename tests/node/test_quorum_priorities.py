"""Quorum queues whose messages go by their priorities: two levels, or 32 of them."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair
from tests.node.test_length_limits import NAME, drained
from tests.node.test_priorities import publish
from warren.wire.amqp091 import spec


def cluster(strict: bool, nodes: int = 2, version: int = 4) -> Pair:
    def configure(settings: object) -> None:
        settings.strict_priorities = strict
        settings.cluster_version_max = version

    pair = Pair(alone=nodes == 1, configure=configure)
    if nodes == 3:
        pair.add("c")
    return pair


def declared(pair: Pair, where: str = "a", size: int = 1) -> Client:
    client = pair.stations[where].client()
    assert isinstance(client.declare(NAME, kind="quorum", size=size), spec.QueueDeclareOk)
    return client


def settled(client: Client) -> None:
    """All that was published is there."""
    client.pair.settle(20)


@pytest.mark.rule("D-03")
@pytest.mark.rule("PRI-01", "PRI-02", "PRI-03", "PRI-04", "QQ-17")
@pytest.mark.parametrize("where", ["a", "b"])
def test_two_of_the_higher_level_go_before_one_of_the_lower(where: str) -> None:
    """Nothing has to be asked for; 4 and less, or none, is the lower level."""
    pair = cluster(False)
    declared(pair)
    client = pair.stations[where].client()
    for name, priority in (
        ("n1", None), ("n2", 0), ("n3", 4), ("h1", 5), ("h2", 255), ("h3", 9), ("n4", 1),
        ("h4", 5), ("h5", 6),
    ):  # fmt: skip
        publish(client, name.encode(), priority)
    settled(client)
    order = b" ".join(drained(client)).decode()
    # The second normal one waits until its turn, and none overtakes a high one before it.
    assert order == "h1 h2 n1 h3 h4 n2 h5 n3 n4"


def test_a_high_one_that_came_before_goes_first_in_any_case() -> None:
    pair = cluster(False, 1)
    client = declared(pair)
    for name, priority in (("h1", 5), ("h2", 5), ("h3", 5), ("n1", 0), ("h4", 5), ("h5", 5)):
        publish(client, name.encode(), priority)
    settled(client)
    assert b" ".join(drained(client)) == b"h1 h2 h3 h4 h5 n1"


@pytest.mark.rule("D-03")
@pytest.mark.parametrize("where", ["a", "b"])
def test_the_highest_of_32_goes_first(where: str) -> None:
    """As RabbitMQ 4.3 has it: none is 4, and what is beyond is the highest."""
    pair = cluster(True)
    declared(pair)
    client = pair.stations[where].client()
    for at, priority in enumerate((0, 3, None, 200, 31, 5, 4, 30)):
        publish(client, b"%d" % at, priority)
    settled(client)
    assert drained(client) == [b"3", b"4", b"7", b"5", b"2", b"6", b"1", b"0"]


@pytest.mark.parametrize("strict", [False, True])
def test_what_comes_back_goes_first_whatever_it_is(strict: bool) -> None:
    pair = cluster(strict, 1)
    client = declared(pair)
    for at, priority in enumerate((0, 0, 9)):
        publish(client, b"%d" % at, priority)
    settled(client)
    first = client.get(NAME)
    low = client.get(NAME)
    assert first is not None and low is not None and (first.body, low.body) == (b"2", b"0")
    publish(client, b"3", 9)
    client.send(spec.BasicReject(low.tag, True))
    settled(client)
    assert drained(client) == [b"0", b"3", b"1"]


@pytest.mark.parametrize("strict", [False, True])
def test_all_members_and_a_restart_agree(strict: bool) -> None:
    """Who leads next, and who starts from a snapshot, goes on where the others are."""
    pair = cluster(strict, 3)
    client = declared(pair, size=3)
    stations = list(pair.stations.values())
    pair.until(lambda: all(station.knows(NAME) for station in stations))
    for at, priority in enumerate((0, 9, 5, None, 7, 9, 2, 9)):
        publish(client, b"%d" % at, priority)
    pair.until(lambda: all(s.queue(NAME).ready_count() == 8 for s in stations))
    got = [client.get(NAME) for _ in range(2)]
    assert [each.body for each in got if each] == ([b"1", b"5"] if strict else [b"1", b"2"])
    for each in got:
        assert each is not None
        client.ack(each.tag)
    settled(client)
    pair.stations["c"].queue(NAME).snapshot()
    settled(client)
    states = {station.queue(NAME).fifo.encode() for station in stations}
    assert len(states) == 1
    pair.stations["c"].kill()
    pair.stations["c"].start()
    pair.until(lambda: pair.stations["c"].node.ready)
    leader = next(s for s in stations if s.queue(NAME).group.leads())
    leader.kill()
    others = [station for station in stations if station is not leader]
    pair.until(lambda: any(s.queue(NAME).group.leads() for s in others))
    client = pair.stations["c"].client() if leader is not pair.stations["c"] else others[0].client()
    left = b" ".join(drained(client))
    assert left == (b"7 4 2 3 6 0" if strict else b"0 4 5 3 7 6")


def test_a_setting_of_one_node_is_what_the_log_says() -> None:
    """A queue stays as its first leader had it, whatever other nodes are set up for."""
    pair = Pair()
    pair.b.node.settings.strict_priorities = True
    client = declared(pair, "a")
    for at, priority in enumerate((0, 9, 9, 9)):
        publish(client, b"%d" % at, priority)
    settled(client)
    pair.add_member(NAME, "b")
    settled(client)
    assert pair.b.queue(NAME).fifo.config.ranking == pair.a.queue(NAME).fifo.config.ranking
    assert drained(pair.b.client()) == [b"1", b"2", b"0", b"3"]


def test_a_cluster_that_moves_up_begins_to_rank() -> None:
    """Of what was there before, and of what comes then."""
    pair = cluster(False, 1, version=3)
    client = declared(pair)
    for name in (b"old", b"older"):
        publish(client, name, 4)
    settled(client)
    assert pair.a.queue(NAME).fifo.config.ranking == 0
    pair.a.node.settings.cluster_version_max = 4
    pair.configure = lambda settings: None
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready and pair.a.queue(NAME).fifo.config.ranking == 1)
    client = pair.a.client()
    publish(client, b"high", 5)
    publish(client, b"low", None)
    settled(client)
    assert sorted(drained(client)[:1]) == [b"high"]
