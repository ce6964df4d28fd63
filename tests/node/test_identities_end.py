"""What a node does when it has given out all identities of a kind, or the tables all lives."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair, three_with_messages
from warren.errors import EXHAUSTED, Refusal
from warren.ids import COUNTER_MAX, LIFE_MAX, LIVES_FEW, life_of
from warren.metadata import commands
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.metadata.tables import NodeRecord
from warren.node.identities import Counter
from warren.wire.amqp091 import spec

AGAIN = "it has to be started again"


def nearly_spent(kind: str) -> Counter:
    """Has one identity left."""
    return Counter(kind, COUNTER_MAX - 1)


def test_the_last_of_a_life_is_no_other_life_s() -> None:
    counter = nearly_spent("things")
    assert life_of(counter.take(7)) == 7 and counter.spent()
    with pytest.raises(Refusal, match=AGAIN) as refused:
        counter.take(7)
    assert refused.value.kind == EXHAUSTED
    # What is soon over is numbered from the beginning again.
    assert counter.take_round(7) == 7 * 2**32 + 1


def test_declares_are_refused_until_the_node_is_started_again() -> None:
    """Only those of queues that are new; the node goes on, and each queue is one."""
    pair = Pair()
    client = pair.a.client()
    pair.a.node.placing._groups = nearly_spent("declarations of queues")
    assert isinstance(client.declare("last", kind="quorum"), spec.QueueDeclareOk)
    assert isinstance(client.declare("last", kind="quorum"), spec.QueueDeclareOk)
    closed = client.call(spec.QueueDeclare(0, "more", False, True, False, False, False, {}))
    assert isinstance(closed, spec.ConnectionClose)
    assert closed.reply_code == 506 and AGAIN in closed.reply_text
    assert pair.a.node.metadata.queue("/", "more") is None
    # Members and copies need some, too.
    assert pair.a.node.placing.spent() and pair.a.node.placing.spent()
    assert sum("incarnations" in text for text in pair.a.warnings) == 1
    assert isinstance(pair.b.client().declare("more"), spec.QueueDeclareOk)
    pair.a.kill()
    pair.a.start()
    pair.until(pair.usable)
    assert isinstance(pair.a.client().declare("other"), spec.QueueDeclareOk)


def test_consumers_of_another_node_s_queues_are_refused() -> None:
    pair = Pair()
    assert isinstance(pair.b.client().declare("far"), spec.QueueDeclareOk)
    pair.until(lambda: pair.a.knows("far"))
    first, second, third = (pair.a.client() for _ in range(3))
    first.publish("far", b"m")
    pair.a.node.remotes._consumers = nearly_spent("consumers")
    assert isinstance(first.consume("far"), spec.BasicConsumeOk)
    pair.until(lambda: first.bodies() == [b"m"])
    closed = second.call(spec.BasicConsume(0, "far", "", False, False, False, False, {}))
    assert isinstance(closed, spec.ConnectionClose) and closed.reply_code == 506
    seen = len(third.methods)
    third.send(spec.BasicGet(0, "far", False))
    pair.until(lambda: len(third.methods) > seen)
    closed = third.methods[seen]
    assert isinstance(closed, spec.ConnectionClose) and closed.reply_code == 506
    # The first one is what it was.
    first.ack(1)
    first.publish("far", b"n")
    pair.until(lambda: first.bodies() == [b"m", b"n"])


def test_connections_are_refused() -> None:
    pair = Pair(alone=True)
    pair.a.node._identities = nearly_spent("connections")
    client = pair.a.client()
    with pytest.raises(AssertionError, match="it did not come about"):
        pair.a.client()
    closed = pair.a.clients[-1].methods[-1]
    assert isinstance(closed, spec.ConnectionClose)
    assert closed.reply_code == 506 and AGAIN in closed.reply_text
    assert isinstance(client.declare("q"), spec.QueueDeclareOk)


def tables(newest: int) -> MetadataMachine:
    """Those of a cluster of one node, `a`, whose life began with an entry."""
    machine = MetadataMachine()
    machine.begin(1, commands.BeginCluster(b"c" * 16, 1))
    machine.begin(2, commands.AddNode("a", b"u" * 16, "h", 1, 5))
    machine.begin(newest, commands.NodeUp("a", b"u" * 16, b"n" * 16, 1, 1, 1))
    return machine


def test_no_life_begins_behind_the_last_entry_that_can_name_one() -> None:
    """All members refuse alike; what was there before is as it was."""
    machine = tables(LIFE_MAX)
    assert machine.nodes["a"].session == LIFE_MAX
    further = [
        commands.NodeUp("a", b"u" * 16, b"m" * 16, 2, 1, 1),
        commands.MoreSessions("a", b"n" * 16, LIFE_MAX),
        commands.ReplaceNode("a", b"u" * 16, b"v" * 16, "h", 1, 6),
    ]
    for place, command in enumerate(further, LIFE_MAX + 1):
        outcome = machine.begin(place, command)
        assert not outcome.changed
        assert machine.nodes["a"].session == machine.nodes["a"].newest == LIFE_MAX
        assert machine.nodes["a"].uid == b"u" * 16


def test_an_operator_is_told_when_no_life_can_begin() -> None:
    pair = Pair()
    pair.b.kill()
    pair.b.start()
    node = pair.b.node
    assert not node.cluster.session
    applied = node.metadata.applied_index
    node.metadata.applied_index = LIFE_MAX
    for _ in range(2):
        node.announcer.announce()
    said = [text for text in pair.b.warnings if "begin a new cluster" in text]
    assert len(said) == 1 and str(LIFE_MAX) in said[0]
    node.metadata.applied_index = applied
    pair.until(pair.usable)


def test_an_operator_is_told_when_no_node_can_take_its_place_again() -> None:
    """It waited for ever, or heard that another node had its name."""
    pair = three_with_messages("q", minds_seconds=True)
    c = pair.stations["c"]
    c.begin_anew()
    for station in (pair.a, pair.b):
        station.node.metadata.applied_index = LIFE_MAX
    pair.until(lambda: any("own place again" in text for text in c.warnings))
    assert not c.node.ready
    assert any(str(LIFE_MAX) in text for text in c.warnings)


def test_an_operator_is_told_before() -> None:
    pair = Pair(alone=True)
    pair.a.kill()
    pair.a.start()
    node = pair.a.node
    assert not node.cluster.session
    own = node.metadata.nodes["a"]
    outcome = Outcome()
    outcome.node_up = NodeRecord("a", own.uid, own.host, own.port, own.incarnation)
    outcome.node_up.nonce = node.settings.life
    node.store._reactions().act(outcome, LIVES_FEW + 1)
    assert any("plan to begin a new cluster" in text for text in pair.a.warnings)


def test_no_queue_is_declared_before_the_cluster_knows_this_start_of_the_node() -> None:
    """Its first incarnation would be the number of the tables' own group."""
    pair = Pair(alone=True)
    assert isinstance(pair.a.client().declare("before"), spec.QueueDeclareOk)
    pair.a.kill()
    pair.a.start()
    pair.a.hold_disk = True
    early = pair.a.caller()
    pair.until(lambda: early.opened)
    assert not pair.a.node.ready
    closed = early.call(spec.QueueDeclare(0, "early", False, True, False, False, False, {}))
    assert isinstance(closed, spec.ConnectionClose) and closed.reply_code == 541
    assert "does not know of this start" in closed.reply_text
    assert pair.a.node.placing.spent(), "nor has it any for members or copies"
    pair.a.hold_disk = False
    pair.until(lambda: pair.a.node.ready)
    assert not pair.a.knows("early")
    assert isinstance(pair.a.client().declare("early"), spec.QueueDeclareOk)
    assert life_of(pair.a.record("early").group_id) > 0
