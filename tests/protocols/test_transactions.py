"""What `tx.commit` does and `tx.rollback` undoes: all of it, once."""

from __future__ import annotations

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
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
