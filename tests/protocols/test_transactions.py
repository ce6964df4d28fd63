"""What `tx.commit` does and `tx.rollback` undoes: all of it, once."""

from __future__ import annotations

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from tests.queues.test_scattered import steps
from warren.protocols.amqp091.transactions import Transaction
from warren.wire.amqp091 import spec

PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x00\x00"


def begin(*queues: str) -> Line:
    """A client with these queues and a transactional channel, 1."""
    line = Line(Pair(alone=True).a, channels=2)
    for name in queues:
        line.ask(2, spec.QueueDeclare(0, name, False, True, False, False, False, {}))
    line.ask(1, spec.TxSelect())
    return line


def publish(line: Line, channel: int, key: str, body: bytes, properties: bytes) -> None:
    """Publish one message."""
    line.hand(b"".join(publish_frames(channel, "", key, properties, [body])))


def test_rollback_forgets_every_publish() -> None:
    """Of any shape, in runs and alone; what is published after it is committed by itself."""
    line = begin("one", "two")
    for number in range(3):
        for key in ("one", "two"):
            for properties in (PERSISTENT, TRANSIENT):
                publish(line, 1, key, b"lost %d" % number, properties)
                publish(line, 1, key, b"lost %d again" % number, properties)
    line.ask(1, spec.TxRollback())
    publish(line, 1, "one", b"kept", PERSISTENT)
    line.ask(1, spec.TxCommit())
    assert [told.body for told in line.drain("one", 2)] == [b"kept"]
    assert line.drain("two", 2) == []


def deliveries(line: Line, queue: str, bodies: list[bytes]) -> list[int]:
    """Have the transactional channel consume these messages; their tags."""
    for body in bodies:
        publish(line, 2, queue, body, PERSISTENT)
    line.ask(1, spec.BasicConsume(0, queue, "", False, False, False, False, {}))
    got = line.wait(len(bodies), spec.BasicDeliver)
    assert [told.body for told in got] == bodies
    return [told.method.delivery_tag for told in got]


def test_rollback_forgets_every_answer_to_a_delivery() -> None:
    """Acked, nacked and rejected deliveries are the client's again, and may be answered anew."""
    bodies = [b"acked", b"nacked", b"nacked, too", b"rejected", b"discarded", b"untouched"]
    line = begin("q")
    tags = deliveries(line, "q", bodies)
    line.send(1, spec.BasicAck(tags[0], False))
    line.send(1, spec.BasicNack(tags[2], True, True))
    line.send(1, spec.BasicReject(tags[3], True))
    line.send(1, spec.BasicReject(tags[4], False))
    line.ask(1, spec.TxRollback())
    line.pair.settle()
    assert len(line.of(spec.BasicDeliver)) == len(bodies)
    for tag in tags[:-1]:
        line.send(1, spec.BasicAck(tag, False))
    line.ask(1, spec.TxCommit())
    assert not line.of(spec.ChannelClose)
    line.ask(1, spec.ChannelClose())
    assert [told.body for told in line.drain("q", 2)] == [b"untouched"]


def test_deliveries_that_were_rolled_back_return_with_their_channel() -> None:
    """Nothing is lost that was neither acked nor discarded for good."""
    bodies = [b"acked", b"nacked", b"discarded", b"untouched"]
    line = begin("q")
    tags = deliveries(line, "q", bodies)
    line.send(1, spec.BasicAck(tags[0], False))
    line.send(1, spec.BasicNack(tags[1], False, True))
    line.send(1, spec.BasicNack(tags[2], False, False))
    line.ask(1, spec.TxRollback())
    line.ask(1, spec.ChannelClose())
    got = line.drain("q", 2)
    assert [told.body for told in got] == bodies
    assert all(told.method.redelivered for told in got)


def test_answers_up_to_a_tag_spare_those_given_before() -> None:
    """They are done in the order in which they were given: what was nacked before is not acked."""
    bodies = [b"%d" % number for number in range(8)]
    line = begin("q")
    tags = deliveries(line, "q", bodies)
    line.send(1, spec.BasicNack(tags[1], False, True))
    line.send(1, spec.BasicReject(tags[3], True))
    line.send(1, spec.BasicAck(tags[5], True))
    line.send(1, spec.BasicAck(tags[6], False))
    line.ask(1, spec.TxCommit())
    line.ask(1, spec.ChannelClose())
    assert [told.body for told in line.drain("q", 2)] == [b"1", b"3", b"7"]


def test_what_waits_for_a_commit_is_not_recovered() -> None:
    bodies = [b"%d" % number for number in range(5)]
    line = begin("q")
    tags = deliveries(line, "q", bodies)
    line.send(1, spec.BasicAck(tags[1], False))
    line.send(1, spec.BasicNack(tags[3], False, False))
    line.ask(1, spec.BasicRecover(True))
    line.ask(1, spec.TxCommit())
    line.ask(1, spec.ChannelClose())
    assert [told.body for told in line.drain("q", 2)] == [b"0", b"2", b"4"]


def waiting_commit(count: int) -> tuple[Line, Transaction]:
    """A commit of so many messages to two queues in turn, while the disk hangs."""
    line = begin("one", "two")
    station = line.station
    for _ in range(count):
        for key in ("one", "two"):
            publish(line, 1, key, b"m", PERSISTENT)
    line.pair.settle()
    station.hold_disk = True
    line.send(1, spec.TxCommit())
    line.pair.settle()
    transaction = line.end.channels[1].transaction
    assert transaction is not None and not transaction.going_on()
    return line, transaction


def test_what_a_commit_waits_for_is_known_however_many_messages_it_has() -> None:
    """It is asked for each second, by each channel that waits."""
    spent: list[int] = []
    for count in (30, 600):
        line, transaction = waiting_commit(count)
        assert [queue.name for queue in transaction.awaited()] == ["one", "two"]
        spent.append(steps(transaction.awaited))
        assert not line.of(spec.TxCommitOk)
        line.station.hold_disk = False
        line.wait(1, spec.TxCommitOk)
        assert transaction.awaited() == []
        assert len(line.drain("one", 2)) == count
    assert spent[0] == spent[1]


def test_of_very_many_queues_a_commit_names_some_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    line, transaction = waiting_commit(2)
    monkeypatch.setattr("warren.protocols.amqp091.transactions.AWAITED_MAX", 1)
    named = [queue.name for _ in range(4) for queue in transaction.awaited()]
    if len(named) == 4:
        # Compiled, the bound is a constant.
        assert named == ["one", "two", "one", "two"]
    line.station.hold_disk = False
    line.wait(1, spec.TxCommitOk)


def test_deliveries_are_answered_when_all_messages_are_safe_though_the_client_has_gone() -> None:
    """Who moves messages neither loses nor doubles one, at whatever moment the client ends."""
    for gone in (False, True):
        line = begin("one", "two")
        tags = deliveries(line, "one", [b"moved", b"left"])
        publish(line, 1, "two", b"moved", PERSISTENT)
        line.send(1, spec.BasicAck(tags[0], False))
        line.pair.settle()
        line.station.hold_disk = True
        line.send(1, spec.TxCommit())
        line.pair.settle()
        source = line.station.queue("one")
        assert not line.of(spec.TxCommitOk) and source.live() == [(0, 1)]
        if gone:
            line.send(1, spec.ChannelClose())
            line.pair.settle()
            assert source.live() == [(0, 1)] and source.ready_count() == 0
        line.station.hold_disk = False
        if not gone:
            line.wait(1, spec.TxCommitOk)
            line.ask(1, spec.ChannelClose())
        line.pair.settle()
        assert [told.body for told in line.drain("one", 2)] == [b"left"]
        assert [told.body for told in line.drain("two", 2)] == [b"moved"]
