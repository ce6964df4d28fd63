"""What only a queue's leader may tell is told once, by one that has all that came before."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair, Station
from tests.node.test_feed import enabled, rows
from warren.replication.member import Member
from warren.wire.amqp091 import spec


def member(station: Station, name: str = "q") -> Member:
    group_id = int(station.record(name).group_id)
    found: Member = station.node.cluster.members[group_id]
    return found


def leader(pair: Pair) -> Station | None:
    for station in pair.stations.values():
        if station.alive and member(station).raft.can_propose():
            return station
    return None


def hand_over(pair: Pair, target: str) -> None:
    """Have the lead go to a node, and wait until that node takes what is submitted."""
    group_id = int(member(pair.a).group_id)
    for station in pair.stations.values():
        station.node.queue_members.transfer(group_id, target)
    pair.until(lambda: member(pair.stations[target]).raft.can_propose())


def three(**arguments: Any) -> Pair:
    """Three nodes with a quorum queue on all; what dies in it goes to a classic queue of a's."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    client.declare("dead")
    declared: dict[str, Any] = {
        "x-queue-type": "quorum",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        **arguments,
    }
    client.call(spec.QueueDeclare(0, "q", False, True, False, False, False, declared))
    pair.until(lambda: all("q" in record for record in _copies(pair)))
    return pair


def _copies(pair: Pair) -> list[list[str]]:
    return [
        ["q"] if station.knows("q") and _holds(station) else []
        for station in pair.stations.values()
    ]


def _holds(station: Station) -> bool:
    return int(station.record("q").group_id) in station.node.cluster.members


def drained(client: Client, name: str) -> list[bytes]:
    found = []
    while (got := client.get(name)) is not None:
        found.append(got.body)
        client.ack(got.tag)
    return found


def letter_under_way(pair: Pair, name: str = "q") -> None:
    """Have b, which leads, commit a death that a has in its log and does not know as committed."""
    pair.withheld_group = int(member(pair.a).group_id)
    known = member(pair.a).raft.last_index
    pair.until(lambda: member(pair.a).raft.last_index > known)
    pair.withheld = {("b", "a"): [], ("b", "c"): []}
    pair.until(lambda: pair.b.queue(name).counts().ready == 0)
    assert pair.a.queue(name).counts().ready == 1, "a hears of it later"


def lead_again(pair: Pair) -> None:
    """The node that leads dies, and a leads as it did before."""
    pair.b.kill()
    pair.withheld = {}
    pair.until(lambda: "b" not in {source for source, _ in pair.links})
    member(pair.a).campaign()
    pair.until(lambda: leader(pair) is pair.a)
    pair.settle()


@pytest.mark.rule("DL-01")
def test_a_dead_letter_that_the_last_leader_sent_is_not_sent_by_one_that_led_before() -> None:
    pair = three()
    hand_over(pair, "a")
    publisher = pair.a.client()
    publisher.call(spec.ConfirmSelect(False))
    publisher.publish("q", b"1", expiration="2000")
    pair.until(lambda: publisher.acked == {1})
    hand_over(pair, "b")
    pair.settle()
    letter_under_way(pair)
    pair.until(lambda: pair.a.queue("dead").counts().ready == 1)
    lead_again(pair)
    assert drained(publisher, "dead") == [b"1"]


def test_what_the_last_leader_told_the_feed_is_not_told_by_one_that_led_before() -> None:
    pair = three()
    reader = enabled(pair)
    hand_over(pair, "a")
    reader.call(spec.ConfirmSelect(False))
    reader.publish("q", b"1", expiration="2000")
    pair.until(lambda: reader.acked == {1})
    hand_over(pair, "b")
    pair.settle()
    letter_under_way(pair)
    pair.until(lambda: pair.a.queue("dead").counts().ready == 1)
    pair.settle()
    lead_again(pair)
    pair.settle()
    died = [row for row in rows(reader) if row["event"] == "dead_lettered"]
    assert len(died) == 1


SHOWN = [
    spec.TableStatus(0, "q", ""),
    spec.TableCheckouts(0, "q", "g", 0, 9),
    spec.TableGroups(0, "q"),
    spec.TableHeld(0, "q", "g"),
    spec.TableBacklog(0, "q", ""),
    spec.TableMessages(0, "q", 0, 9, 9),
]


@pytest.mark.rule("R-10")
@pytest.mark.parametrize("shown", SHOWN, ids=lambda method: method.NAME)
def test_a_leader_that_is_cut_off_shows_nothing_of_a_queue(shown: spec.Method) -> None:
    """Others may have another leader, and have been told what this one does not know."""
    pair = three()
    hand_over(pair, "a")
    client = pair.a.client()
    client.publish_confirmed("q", 1)
    assert not isinstance(client.call(shown), spec.ChannelClose), "while it leads"
    for other in "bc":
        pair.deaf |= {("a", other), (other, "a")}
    seen, told = len(client.methods), len(client.rows)
    client.send(shown)
    for _ in range(5):
        pair.step()
        assert member(pair.a).raft.is_leader, "it has not noticed"
        assert (len(client.methods), len(client.rows)) == (seen, told)


@pytest.mark.rule("R-10")
def test_one_that_leads_again_shows_what_others_confirmed_meanwhile() -> None:
    pair = three()
    hand_over(pair, "a")
    client = pair.a.client()
    client.publish_confirmed("q", 1)
    hand_over(pair, "b")
    pair.settle()
    other = pair.b.client()
    other.call(spec.ConfirmSelect(False))
    pair.withheld_group = int(member(pair.a).group_id)
    other.publish("q", b"2")
    known = member(pair.a).raft.last_index
    pair.until(lambda: member(pair.a).raft.last_index > known)
    pair.withheld = {("b", "a"): [], ("b", "c"): []}
    pair.until(lambda: other.acked == {1})
    pair.b.kill()
    pair.withheld = {}
    member(pair.a).campaign()
    pair.until(lambda: member(pair.a).raft.is_leader)
    answer = client.call(spec.TableStatus(0, "q", ""))
    assert isinstance(answer, spec.TableStatusOk)
    assert answer.ready == 2
