"""What a failover leaves as it was: messages nobody has seen, and sessions that are over."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter, write_i64_le

from tests.node.pair import Client, Pair, Station, sealed
from warren.log.batch import KIND_COMMAND
from warren.queues.fifo import commands
from warren.replication import frames
from warren.replication.proposals import Proposal
from warren.replication.raft_entries import CLOSE
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

QUORUM: Table = {"x-queue-type": "quorum"}


def three(messages: int) -> tuple[Pair, Client]:
    """Three nodes with a quorum queue of three members, and a client of the first."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare("q", kind="quorum", size=3), spec.QueueDeclareOk)
    stations = list(pair.stations.values())
    pair.until(lambda: all(s.knows("q") for s in stations))
    for number in range(messages):
        client.publish("q", b"%d" % number)
    pair.until(lambda: all(s.queue("q").ready_count() == messages for s in stations))
    return pair, client


def leading(stations: list[Station], group_id: int) -> list[Station]:
    """Who leads the queue among some nodes; nobody while that is not known."""
    members = [(station, station.node.cluster.members.get(group_id)) for station in stations]
    return [station for station, member in members if member and member.raft.can_propose()]


def caught_up(stations: list[Station], group_id: int, index: int) -> bool:
    """Whether these nodes have applied an entry of the queue."""
    members = [station.node.cluster.members[group_id] for station in stations]
    return all(int(member.applied_index) >= index for member in members)


@pytest.mark.parametrize("dies", ["b", "c"])
def test_ready_messages_are_not_marked_when_a_node_goes(dies: str) -> None:
    """Its consumer's message comes again, marked; those that nobody was given come unmarked.

    Another consumer stays, which is full while it happens.
    """
    pair, client = three(6)
    client.qos(1)
    assert isinstance(client.consume("q"), spec.BasicConsumeOk)
    pair.until(lambda: client.bodies() == [b"0"])
    gone = pair.stations[dies].client()
    gone.qos(1)
    assert isinstance(gone.consume("q"), spec.BasicConsumeOk)
    pair.until(lambda: gone.bodies() == [b"1"])
    pair.stations[dies].kill()
    pair.until(lambda: pair.a.queue("q").ready_count() == 5)
    for number in range(6):
        pair.until(lambda at=number: len(client.messages) > at)
        client.ack(client.messages[number].tag)
    assert client.bodies() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [got.redelivered for got in client.messages] == [False, True, *[False] * 4]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_session_that_is_closed_twice_stays_closed(restarts: bool) -> None:
    """What its node had under way comes late, to a leader that knows only the log of it."""
    pair, client = three(3)
    other = pair.b.client()
    other.publish("q", b"3")
    pair.until(lambda: pair.a.queue("q").ready_count() == 4)
    session = int(pair.b.node.queues.vhosts["/"].queues["q"].group.proposals.session)
    group_id = int(pair.a.queue("q").group_id)
    left = [pair.a, pair.stations["c"]]
    members = [station.node.cluster.members[group_id] for station in left]
    last = int(members[0].sessions[session])
    pair.b.kill()
    pair.until(lambda: all(each.sessions[session] < 0 for each in members))
    leader = leading(left, group_id)[0].node.cluster.members[group_id]
    closing = BytesWriter()
    closing.append(CLOSE)
    write_i64_le(closing, session)
    batch = leader.append_own(closing.getvalue())
    leader.raft.appended(batch.index, pair.clock.monotonic_ms())
    leader.mark()
    pair.until(lambda: caught_up(left, group_id, int(batch.index)))
    assert all(~each.sessions[session] == last for each in members), (
        "and nobody forgot how far it got"
    )
    before = leading(left, group_id)[0]
    if restarts:
        for station in left:
            station.kill()
        for station in left:
            station.start()
    else:
        before.kill()
        before.start()
    pair.until(lambda: bool(leading(left, group_id)))
    now = leading(left, group_id)[0]
    pair.until(lambda: now.queue("q").ready_count() == 4)
    purge = BytesWriter()
    commands.purge(purge)
    for sequence in (1, last + 1):
        late = Proposal(sequence, KIND_COMMAND, 0, b"", purge.getvalue(), None)
        frame = frames.propose_frame(group_id, session, late)
        now.listener.received("b", sealed(b"".join(frame)))
    pair.settle(20)
    assert now.queue("q").ready_count() == 4


@pytest.mark.parametrize("survives", [True, False])
def test_a_queue_has_its_delivery_limit_whoever_leads_first(survives: bool) -> None:
    """The node that declared it is gone before it could set the queue up (POI-03)."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    client.send(spec.QueueDeclare(0, "q", False, True, False, False, False, QUORUM))
    left = [pair.b, pair.stations["c"]]
    pair.until(lambda: all(each.knows("q") for each in left))
    assert all(each.queue("q").fifo.config.delivery_limit < 0 for each in left), (
        "nobody has set it up"
    )
    if not survives:
        pair.a.kill()
    other = pair.b.client()
    other.publish("q", b"poison")
    assert isinstance(other.consume("q"), spec.BasicConsumeOk)
    for number in range(21):
        pair.until(lambda at=number: len(other.messages) > at)
        other.send(spec.BasicReject(other.messages[number].tag, True))
    pair.until(lambda: not pair.b.queue("q").fifo.live())
    pair.settle()
    assert len(other.messages) == 21, "one delivery, and 20 failures that it survives"
