"""Methods that wait: for what, and what becomes of the input behind them."""

from __future__ import annotations

import time

import pytest

from tests.node.pair import Client, Pair
from warren.protocols.amqp091.channel import TURN_BYTES
from warren.protocols.broker import ALARM_MEMORY
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames, method_frame


def test_only_who_asks_for_a_queue_that_goes_waits_for_that() -> None:
    """An exclusive queue is about to go, and the disk that has to hear of it stands still."""
    pair = Pair(alone=True)
    owner, same, other = pair.a.client(), pair.a.client(), pair.a.client()
    assert isinstance(owner.declare("mine", exclusive=True), spec.QueueDeclareOk)
    assert isinstance(owner.declare("classic"), spec.QueueDeclareOk)
    pair.a.hold_disk = True
    owner.vanish()
    assert isinstance(other.declare("classic"), spec.QueueDeclareOk)
    assert isinstance(other.consume("classic"), spec.BasicConsumeOk)
    assert other.get("classic") is None
    passive = spec.ExchangeDeclare(0, "amq.topic", "topic", True, True, False, False, False, {})
    assert isinstance(other.call(passive), spec.ExchangeDeclareOk)
    seen = len(same.methods)
    same.send(spec.BasicGet(0, "mine", False))
    pair.settle(3)
    assert len(same.methods) == seen, "it has to find it gone"
    pair.a.hold_disk = False
    pair.until(lambda: len(same.methods) > seen)
    answer = same.methods[seen]
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 404


def test_an_exchange_that_goes_with_a_queue_is_waited_for() -> None:
    """An auto-delete exchange goes with its last binding, and that with the exclusive queue."""
    pair = Pair(alone=True)
    owner, other = pair.a.client(), pair.a.client()
    for name in ("near", "far"):
        exchange = spec.ExchangeDeclare(0, name, "fanout", False, True, True, False, False, {})
        assert isinstance(owner.call(exchange), spec.ExchangeDeclareOk)
    assert isinstance(owner.declare("mine", exclusive=True), spec.QueueDeclareOk)
    assert isinstance(
        owner.call(spec.QueueBind(0, "mine", "near", "", False, {})), spec.QueueBindOk
    )
    bind = spec.ExchangeBind(0, "near", "far", "", False, {})
    assert isinstance(owner.call(bind), spec.ExchangeBindOk)
    pair.a.hold_disk = True
    owner.vanish()
    seen = len(other.methods)
    other.send(spec.ExchangeDeclare(0, "far", "fanout", True, True, True, False, False, {}))
    pair.settle(3)
    assert len(other.methods) == seen
    pair.a.hold_disk = False
    pair.until(lambda: len(other.methods) > seen)
    answer = other.methods[seen]
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 404


@pytest.mark.rule("PROP-04")
@pytest.mark.parametrize("nowait", [False, True])
def test_who_cancels_the_last_consumer_finds_the_queue_gone(nowait: bool) -> None:
    """A mandatory publish right behind the cancel comes back, however long the disk takes."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("brief", auto_delete=True), spec.QueueDeclareOk)
    tag = client.consume("brief").consumer_tag
    pair.a.hold_disk = True
    seen = len(client.methods)
    client.send(spec.BasicCancel(tag, nowait))
    publish = spec.BasicPublish(0, "", "brief", True, False)
    client.outbox += content_frames(1, publish, b"\0\0", b"body", 131_072)
    client.send(spec.QueueDeclare(0, "", False, False, True, False, False, {}))
    pair.settle(5)
    assert len(client.methods) == seen
    pair.a.hold_disk = False
    pair.until(lambda: isinstance(client.methods[-1], spec.QueueDeclareOk))
    told = [type(method) for method in client.methods[seen:-1]]
    assert told == ([] if nowait else [spec.BasicCancelOk])
    (returned,) = client.messages
    assert isinstance(returned.method, spec.BasicReturn) and returned.body == b"body"


@pytest.mark.rule("PROP-04")
def test_who_closes_the_channel_of_last_consumers_finds_their_queues_gone() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    names = ("first", "second", "third")
    for name in names:
        assert isinstance(client.declare(name, auto_delete=True), spec.QueueDeclareOk)
        assert isinstance(client.consume(name), spec.BasicConsumeOk)
    assert isinstance(pair.a.client().consume("second"), spec.BasicConsumeOk)
    pair.a.hold_disk = True
    seen = len(client.methods)
    client.send(spec.ChannelClose(200, "", 0, 0))
    # What comes behind it is dropped.
    client.send(spec.QueueDeclare(0, "", False, False, True, False, False, {}))
    pair.settle(5)
    assert len(client.methods) == seen
    pair.a.hold_disk = False
    pair.until(lambda: len(client.methods) > seen)
    assert isinstance(client.methods[seen], spec.ChannelCloseOk)
    assert [name for name in names if pair.a.knows(name)] == ["second"]
    client.send(spec.ChannelOpen())
    assert isinstance(client.declare("again"), spec.QueueDeclareOk)


@pytest.mark.parametrize("cancels", [False, True])
def test_who_left_before_the_queue_was_gone_is_not_answered(cancels: bool) -> None:
    pair = Pair(alone=True)
    client, other = pair.a.client(), pair.a.client()
    client.declare("brief", auto_delete=True)
    tag = client.consume("brief").consumer_tag
    pair.a.hold_disk = True
    client.send(spec.BasicCancel(tag, False) if cancels else spec.ChannelClose(200, "", 0, 0))
    pair.settle(3)
    client.vanish()
    pair.settle(3)
    pair.a.hold_disk = False
    pair.until(lambda: not pair.a.knows("brief"))
    assert isinstance(other.declare("brief"), spec.QueueDeclareOk)


def waiting() -> tuple[Pair, Client]:
    """A client whose channel waits for the disk."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q"), spec.QueueDeclareOk)
    pair.a.hold_disk = True
    client.send(spec.QueueDeclare(0, "slow", False, True, False, False, False, {}))
    return pair, client


def test_content_that_comes_behind_its_method_is_waited_for() -> None:
    """A publish whose method was put aside, and whose content comes after that was taken up."""
    pair, client = waiting()
    publish = spec.BasicPublish(0, "", "q", False, False)
    frames = content_frames(1, publish, b"\0\0", b"body", 131_072)
    method = method_frame(1, publish.encode())
    client.outbox += method
    pair.settle(2)
    pair.a.hold_disk = False
    pair.until(lambda: len(client.methods) == 2)
    client.outbox += frames[len(method) :]
    got = client.get("q")
    assert got is not None and got.body == b"body"


def test_what_was_put_aside_waits_for_an_alarm_to_clear() -> None:
    """A publish behind a declare, and the alarm is raised before the declare is answered."""
    pair, client = waiting()
    client.publish("q", b"body")
    client.send(spec.BasicGet(0, "q", False))
    pair.settle(2)
    pair.a.node._alarms.set(ALARM_MEMORY, True)
    pair.a.hold_disk = False
    pair.until(lambda: len(client.methods) == 2)
    pair.settle(3)
    assert not client.messages
    pair.a.node._alarms.set(ALARM_MEMORY, False)
    pair.until(lambda: bool(client.messages))
    assert client.bodies() == [b"body"]


def test_what_was_put_aside_is_taken_up_over_many_turns() -> None:
    """More than one turn takes up, with methods that wait in between, is answered in order."""
    pair, client = waiting()
    names = ["slow"]
    size = 0
    while size < 3 * TURN_BYTES:
        names.append(f"{len(names):05}")
        passive = len(names) % 500 != 0
        name = "q" if passive else names[-1]
        frame = method_frame(
            1, spec.QueueDeclare(0, name, passive, True, False, False, False, {}).encode()
        )
        names[-1] = name
        client.outbox += frame
        size += len(frame)
    pair.settle(2)
    pair.a.hold_disk = False
    pair.until(lambda: len(client.methods) == 1 + len(names))
    told = client.methods[1:]
    assert [answer.queue for answer in told if isinstance(answer, spec.QueueDeclareOk)] == names


def test_a_method_costs_the_same_however_many_wait_behind_it() -> None:
    """Many methods of one channel in one read, each of which waits for its queue's machine."""

    def cost_s(count: int) -> float:
        pair = Pair(alone=True)
        client = pair.a.client()
        assert isinstance(client.declare("q", kind="quorum"), spec.QueueDeclareOk)
        seen = len(client.methods)
        get = method_frame(1, spec.BasicGet(0, "q", False).encode())
        client.outbox += get * count
        node = pair.a.node
        spent = 0.0
        while len(client.methods) < seen + count:
            client.exchange()
            began = time.process_time()
            pair.a.executor.step()
            pair.turn(pair.a)
            spent += time.process_time() - began
            node.tick_log()
        return spent / count

    few, many = cost_s(200), cost_s(4_000)
    assert many < 3 * few
