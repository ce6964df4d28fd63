"""Lines that break with many queues on them: those are told in parts, before there is another."""

from __future__ import annotations

from tests.node.pair import Pair
from warren.limits import TURN_LINE_QUEUES_MAX
from warren.wire.amqp091 import spec

MANY = TURN_LINE_QUEUES_MAX + 40


class Used:
    """Many queues of `a`, each with a consumer at `b` that holds a message."""

    def __init__(self) -> None:
        self.pair = Pair()
        owner = self.pair.a.client()
        for number in range(MANY):
            owner.send(spec.QueueDeclare(0, f"q{number}", False, True, False, False, False, {}))
            owner.publish(f"q{number}", b"%d" % number)
        self.pair.until(lambda: len(owner.methods) == MANY)
        self.pair.until(lambda: self.pair.b.knows(f"q{MANY - 1}"))
        self.client = self.pair.b.client()
        self.client.call(spec.ConfirmSelect(False))
        for number in range(MANY):
            self.client.send(spec.BasicConsume(0, f"q{number}", "", False, False, False, False, {}))
        self.pair.until(lambda: len(self.client.messages) == MANY)
        self.pair.settle()

    def consumers(self) -> int:
        """How many consumers the queues have on their node."""
        queues = self.pair.a.node.queues.logged.values()
        return sum(int(queue.consumer_count()) for queue in queues)

    def linked(self) -> int:
        """How many consumers at `b` are to get messages, as far as their queues have heard."""
        queues = self.pair.b.node.remotes.line("a").queues.values()
        return sum(len(queue.links) for queue in queues)

    def cancels(self) -> int:
        """How many consumers have been told that they are none any more."""
        self.client.exchange()
        return sum(isinstance(method, spec.BasicCancel) for method in self.client.methods)

    def line(self) -> int:
        """Number of the line in use at `b`."""
        return int(self.pair.b.node.remotes.line("a").number)


def all_are_used_again(used: Used) -> None:
    """Every queue has what its consumer held, and takes another."""
    pair = used.pair
    pair.until(pair.usable)
    other = pair.b.client()
    for number in range(MANY):
        other.send(spec.BasicConsume(0, f"q{number}", "", False, True, False, False, {}))
    pair.until(lambda: len(other.messages) == MANY)
    assert sorted(int(body) for body in other.bodies()) == list(range(MANY))
    assert all(got.redelivered for got in other.messages)
    other.vanish()


def test_no_turn_tells_all_queues_of_a_line_that_is_gone() -> None:
    """On either side; each hears it, and there is no other line before all have."""
    used = Used()
    pair = used.pair
    number = used.line()
    assert used.consumers() == MANY and used.cancels() == 0
    pair.cut("b", "a")
    assert used.line() == 0
    turns = 0
    consumers, linked = MANY, MANY
    while turns == 0 or consumers > 0 or linked > 0:
        assert consumers - TURN_LINE_QUEUES_MAX <= used.consumers() <= consumers
        assert linked - TURN_LINE_QUEUES_MAX <= used.linked() <= linked
        consumers, linked = used.consumers(), used.linked()
        assert pair.a.node.needs_turn or consumers == 0
        assert pair.b.node.needs_turn or linked == 0
        pair.a.node.turn()
        pair.b.node.turn()
        turns += 1
        assert turns < 10
    assert used.cancels() == MANY
    assert turns > 1
    all_are_used_again(used)
    assert used.line() > number


def test_what_is_published_before_its_queue_has_heard_waits_for_the_next_line() -> None:
    """It was not under way when the line broke."""
    used = Used()
    pair, client = used.pair, used.client
    pair.cut("b", "a")
    assert used.cancels() < MANY
    for number in range(MANY):
        client.publish(f"q{number}", b"new")
    pair.until(lambda: len(client.acked) == MANY)
    assert not client.nacked


def test_consumers_that_have_not_vanished_yet_are_handed_nothing() -> None:
    """What a queue hands to one meanwhile goes back; nothing of the next line is theirs."""
    used = Used()
    pair = used.pair
    pair.cut("b", "a")
    left = used.consumers()
    assert left > 0
    here = pair.a.client()
    for number in range(MANY):
        here.publish(f"q{number}", b"%d" % (MANY + number))
    here.exchange()
    pair.until(pair.usable)
    other = pair.b.client()
    for number in range(MANY):
        other.send(spec.BasicConsume(0, f"q{number}", "", False, True, False, False, {}))
    pair.until(lambda: len(other.messages) == 2 * MANY)
    assert sorted(int(body) for body in other.bodies()) == list(range(2 * MANY))


def test_a_node_that_stops_meanwhile_writes_down_what_returned() -> None:
    used = Used()
    pair = used.pair
    pair.cut("b", "a")
    assert used.consumers() > 0
    pair.a.node.prepare_close()
    assert used.consumers() == 0


def test_queues_that_waited_for_a_line_in_vain_are_told_in_parts() -> None:
    """All of them, some in each turn."""
    used = Used()
    pair, client = used.pair, used.client
    pair.a.node.remotes.stopping = True
    pair.cut("b", "a")
    for number in range(MANY):
        client.publish(f"q{number}", b"new")
    client.exchange()
    pair.until(lambda: len(pair.b.node.remotes.line("a")._waiting) == MANY)
    waiting = pair.b.node.remotes.line("a")._waiting
    parts = 0
    for number in range(400):
        before = len(waiting)
        if number % 2:
            pair.b.node.turn()
        else:
            pair.clock.advance(50_000_000)
            pair.b.node.tick_log()
        assert before - TURN_LINE_QUEUES_MAX <= len(waiting) <= before
        parts += len(waiting) < before
    client.exchange()
    assert len(client.nacked) == MANY and parts > 1
