"""A message to very many queues comes to some of them in each turn, and nothing overtakes it.

Work is counted in queues, and never in time.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.node.pair import Pair, Station
from tests.protocols.line import Line, publish_frames
from warren.limits import FAN_OUT_QUEUES, FILLED_QUEUES_MAX
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

MANY = 2 * FAN_OUT_QUEUES + 100
"""Queues, so that a message takes three turns."""
CHANNELS = 64


def exchange_declare(name: str, kind: str) -> spec.ExchangeDeclare:
    return spec.ExchangeDeclare(0, name, kind, False, False, False, False, False, {})


def wide_pair() -> tuple[Pair, Line]:
    """A node with a fanout exchange to very many queues, and a client of it."""
    pair = Pair(alone=True)
    line = Line(pair.a, CHANNELS)
    line.ask(1, exchange_declare("f", "fanout"))
    frames: list[bytes] = []
    for number in range(MANY):
        name = f"q{number}"
        channel = 1 + number % CHANNELS
        declare = spec.QueueDeclare(0, name, False, False, False, False, True, {})
        frames.append(method_frame(channel, declare.encode()))
        bind = spec.QueueBind(0, name, "f", "", True, {})
        frames.append(method_frame(channel, bind.encode()))
    line.hand(b"".join(frames))
    for channel in range(1, CHANNELS + 1):
        line.ask(channel, spec.BasicQos(0, 0, False))
    return pair, line


def publish(
    exchange: str, key: str, body: bytes, channel: int = 1, properties: bytes = b""
) -> bytes:
    return b"".join(publish_frames(channel, exchange, key, properties or b"\0\0", [body]))


def holders(station: Station, count: int = 1) -> int:
    """How many of the queues have so many messages."""
    return sum(station.queue(f"q{number}").ready_count() >= count for number in range(MANY))


def turns(pair: Pair, count: int = 1) -> list[int]:
    """Give the node turns until all queues have so many messages: how many got there in each."""
    node = pair.a.node
    steps: list[int] = []
    before = holders(pair.a, count)
    for _ in range(60):
        pair.a.executor.step()
        node.turn()
        now = holders(pair.a, count)
        steps.append(now - before)
        before = now
        if now == MANY:
            return steps
    raise AssertionError("not all queues have it")


def test_a_message_comes_to_very_many_queues_in_several_turns() -> None:
    """Its publisher is told when the last one has it; who else publishes does not wait."""
    pair, line = wide_pair()
    line.ask(1, spec.ConfirmSelect(False))
    line.hand(publish("f", "", b"x") + publish("", "q0", b"behind") + publish("", "q1", b"also", 2))
    pair.a.node.turn()
    assert pair.a.queue("q1").ready_count() == 2
    assert 0 < holders(pair.a) <= FAN_OUT_QUEUES
    assert not line.of(spec.BasicAck)
    assert max(turns(pair)) <= FAN_OUT_QUEUES
    line.wait(1, spec.BasicAck)
    pair.until(lambda: line.confirmed() == {1, 2})
    assert [told.body for told in line.drain("q0", 2)] == [b"x", b"behind"]


def test_very_many_queues_have_a_message_whose_client_has_gone() -> None:
    pair, line = wide_pair()
    line.hand(publish("f", "", b"x"))
    line.end.lost()
    assert max(turns(pair)) <= FAN_OUT_QUEUES


def test_what_comes_behind_on_its_channel_waits_and_is_bounded_alike() -> None:
    pair, line = wide_pair()
    lives = [Properties(expiration=str(600_000 + number)).encode() for number in range(3)]
    line.hand(b"".join(publish("f", "", b"%d" % at, 1, life) for at, life in enumerate(lives)))
    for count in (1, 2, 3):
        assert max(turns(pair, count)) <= FAN_OUT_QUEUES
    for name in ("q0", f"q{MANY - 1}"):
        assert [told.body for told in line.drain(name, 2)] == [b"0", b"1", b"2"]


def test_queues_that_are_deleted_meanwhile_hold_nobody_up() -> None:
    pair, line = wide_pair()
    line.ask(1, spec.ConfirmSelect(False))
    line.hand(publish("f", "", b"x"))
    line.send(2, spec.QueueDelete(0, f"q{MANY - 1}", False, False, False))
    line.wait(1, spec.BasicAck)
    assert pair.a.queue(f"q{MANY - 2}").ready_count() == 1


@pytest.mark.parametrize("stays", [True, False])
def test_a_commit_to_very_many_queues_takes_several_turns(stays: bool) -> None:
    """Also one whose client has gone meanwhile."""
    pair, line = wide_pair()
    line.ask(1, spec.TxSelect())
    line.hand(publish("f", "", b"0") + publish("", "q0", b"1"))
    line.hand(publish("f", "", b"2", properties=Properties(expiration="600000").encode()))
    line.send(1, spec.TxCommit())
    assert holders(pair.a) == 0
    if not stays:
        line.end.lost()
    for count in (1, 2):
        assert max(turns(pair, count)) <= FAN_OUT_QUEUES
    if not stays:
        return
    line.wait(1, spec.TxCommitOk)
    assert [told.body for told in line.drain("q0", 2)] == [b"0", b"1", b"2"]


def test_what_a_commit_to_very_many_queues_waits_for_is_known_in_parts() -> None:
    pair, line = wide_pair()
    line.ask(1, spec.TxSelect())
    line.hand(publish("f", "", b"0"))
    line.send(1, spec.TxCommit())
    transaction = line.end.channels[1].transaction
    assert transaction is not None
    named: list[str] = []
    for _ in range(3):
        asked = [queue.name for queue in transaction.awaited()]
        assert len(asked) <= FAN_OUT_QUEUES
        named += asked
    assert sorted(named) == sorted(f"q{number}" for number in range(MANY))
    line.wait(1, spec.TxCommitOk)
    assert transaction.awaited() == []


@pytest.mark.parametrize("kept", [False, True])
def test_a_dead_letter_comes_to_very_many_queues_in_several_turns(kept: bool) -> None:
    """Also one that stays until all have it; what died behind it does not overtake it."""
    pair, line = wide_pair()
    arguments: Table = {"x-dead-letter-exchange": "f"}
    if kept:
        arguments["x-queue-type"] = "quorum"
        arguments["x-dead-letter-strategy"] = "at-least-once"
        arguments["x-overflow"] = "reject-publish"
    line.ask(1, spec.QueueDeclare(0, "dying", False, True, False, False, False, arguments))
    line.hand(publish("", "dying", b"0") + publish("", "dying", b"1"))
    pair.until(lambda: pair.a.queue("dying").ready_count() == 2)
    line.ask(1, spec.BasicConsume(0, "dying", "", False, False, False, False, {}))
    line.wait(2, spec.BasicDeliver)
    line.send(1, spec.BasicNack(0, True, False))
    steps = turns(pair)
    assert max(steps) <= FAN_OUT_QUEUES
    assert max(turns(pair, 2)) <= FAN_OUT_QUEUES
    for name in ("q0", f"q{MANY - 1}"):
        assert [told.body for told in line.drain(name, 2)] == [b"0", b"1"]
    pair.until(lambda: pair.a.queue("dying").counts().dead == 0)


def test_what_an_exchange_kept_comes_to_very_many_queues_in_several_turns() -> None:
    pair, line = wide_pair()
    line.ask(1, exchange_declare("r", "x-recent-history"))
    for number in range(2):
        line.hand(publish("r", "", b"%d" % number))
    pair.settle()
    line.send(1, spec.ExchangeBind(0, "f", "r", "", False, {}))
    for count in (1, 2):
        # A part goes at once when the binding is in force, right before a turn.
        assert max(turns(pair, count)) <= 2 * FAN_OUT_QUEUES
    line.wait(1, spec.ExchangeBindOk)
    assert [told.body for told in line.drain(f"q{MANY - 1}", 2)] == [b"1", b"0"]


def test_who_binds_is_answered_once_what_an_exchange_kept_is_in_all_queues() -> None:
    """As by RabbitMQ: what is got behind the answer finds the message there."""
    pair, line = wide_pair()
    line.ask(1, exchange_declare("r", "x-recent-history"))
    line.hand(publish("r", "", b"x"))
    pair.settle()
    line.send(1, spec.ExchangeBind(0, "f", "r", "", False, {}))
    while not line.of(spec.ExchangeBindOk):
        pair.a.executor.step()
        pair.a.node.turn()
    assert holders(pair.a) == MANY


def test_messages_to_very_many_queues_take_several_turns() -> None:
    """Each to a queue of its own, by the default exchange, for which there is nothing to search.

    What goes where the message before went costs no further queue.
    """
    many = 3 * FILLED_QUEUES_MAX
    pair = Pair(alone=True)
    line, other = Line(pair.a, CHANNELS), Line(pair.a)
    frames: list[bytes] = []
    for number in range(many):
        declare = spec.QueueDeclare(0, f"q{number}", False, False, False, False, True, {})
        frames.append(method_frame(1 + number % CHANNELS, declare.encode()))
    line.hand(b"".join(frames))
    for channel in range(1, CHANNELS + 1):
        line.ask(channel, spec.BasicQos(0, 0, False))
    other.ask(1, spec.QueueDeclare(0, "p", False, False, False, False, False, {}))
    other.hand(publish("", "p", b"first"))
    pair.settle()

    def full() -> int:
        return sum(pair.a.queue(f"q{number}").ready_count() for number in range(many))

    line.hand(b"".join(publish("", f"q{number}", b"x") for number in range(many)))
    assert line.held
    other.hand(publish("", "p", b"second"))
    steps = [0]
    while steps[-1] < many:
        pair.a.executor.step()
        pair.a.node.turn()
        steps.append(full())
        assert pair.a.queue("p").ready_count() == 2
        assert len(steps) < 20
    # What is taken up at the beginning of a turn is served in it, too.
    assert max(after - before for before, after in pairwise(steps)) <= 2 * FILLED_QUEUES_MAX


def test_what_is_traced_comes_to_very_many_queues_in_several_turns() -> None:
    pair, line = wide_pair()
    line.ask(1, spec.ExchangeBind(0, "f", "amq.rabbitmq.trace", "publish.#", False, {}))
    line.ask(1, spec.QueueDeclare(0, "other", False, False, False, False, False, {}))
    pair.a.node.vhosts.tracer_of("/").on = True
    line.hand(publish("", "other", b"0") + publish("", "other", b"1"))
    for count in (1, 2):
        assert max(turns(pair, count)) <= FAN_OUT_QUEUES
    assert [told.body for told in line.drain(f"q{MANY - 1}", 2)] == [b"0", b"1"]
