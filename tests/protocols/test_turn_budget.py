"""One turn does bounded work whatever messages cost; the rest goes on in the next turn.

Work is counted in steps, as the node does, and never in time.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product

import pytest

from tests.node.pair import Pair
from tests.protocols.line import Line, publish_frames
from warren.limits import (
    HEADER_STEP_BYTES,
    QUEUE_STEPS,
    ROUTE_STEPS_MAX,
    RUN_STEPS,
    RUNS_FREE,
    SEARCH_STEPS_MAX,
    STEP_BYTES,
    TOPOLOGY_STEPS,
    TURN_STEPS_MAX,
)
from warren.metadata.commands import DeclareQueue, SetPolicy, SetTopicPermissions
from warren.metadata.pattern_steps import STEPS_MAX
from warren.metadata.patterns import WORK
from warren.metadata.tables import NO_OWNER
from warren.node.dead_letters import TURN_BYTES
from warren.pending import PendingResult, Result
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

DEAR = [".".join(words) + ".#.z.z" for words in product("a*", repeat=7)]
"""Patterns that a key of many words has looked at again for each `z`."""
COSTS = 2 * 128 * 100
"""Steps that the key below takes, about."""


def dear_key(number: int) -> str:
    """A key that is like no other and matches none of these patterns."""
    return ".".join(["a"] * 7 + ["z"] * 100 + [f"n{number}"])


class Unheard(PendingResult):
    """Waits for nothing."""

    def succeeded(self, result: Result) -> None:
        """Nobody asked."""


def exchange(line: Line, name: str, kind: str) -> None:
    line.ask(1, spec.ExchangeDeclare(0, name, kind, False, False, False, False, False, {}))


def queue(line: Line, name: str) -> None:
    line.ask(1, spec.QueueDeclare(0, name, False, False, False, False, False, {}))


def bind(line: Line, name: str, source: str, key: str, arguments: Table | None = None) -> None:
    line.ask(1, spec.QueueBind(0, name, source, key, False, arguments or {}))


def with_headers(headers: Table) -> bytes:
    return Properties(headers=headers).encode()


def dear_pair(channels: int = 1) -> tuple[Pair, Line]:
    """A node with a topic exchange whose routes take long to find, and a queue that gets all."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels)
    exchange(line, "t", "topic")
    queue(line, "q")
    queue(line, "other")
    for pattern in DEAR:
        bind(line, "other", "t", pattern)
    bind(line, "q", "t", "#")
    return pair, line


def dear_publishes(count: int, sender: str = "") -> bytes:
    frames: list[bytes] = []
    for number in range(count):
        body = f"{sender}{number}".encode()
        frames += publish_frames(1, "t", dear_key(number), parts=[body])
    return b"".join(frames)


def turns(pair: Pair, done: Callable[[], bool]) -> list[int]:
    """Give the node turns until something is so: what each of them cost, in steps."""
    node = pair.a.node
    costs: list[int] = []
    for _ in range(200):
        if done():
            return costs
        pair.a.executor.step()
        node.turn()
        costs.append(int(node.budget.spent))
    raise AssertionError("it did not come about")


def test_dear_publishes_go_on_in_later_turns_and_in_order() -> None:
    pair, line = dear_pair()
    pair.settle()
    count = 30
    line.hand(dear_publishes(count))
    assert COSTS < pair.a.node.budget.spent < TURN_STEPS_MAX + 2 * COSTS
    assert line.held, "its socket is left alone meanwhile"
    costs = turns(pair, lambda: not line.held)
    assert max(costs) < TURN_STEPS_MAX + 2 * COSTS
    assert len(costs) > count * COSTS // (TURN_STEPS_MAX + 2 * COSTS) - 2
    assert [told.body for told in line.drain("q")] == [str(each).encode() for each in range(count)]


def test_who_sends_cheap_messages_does_not_wait_for_who_sends_dear_ones() -> None:
    """Nor do two who both send dear ones keep each other from getting on."""
    pair, line = dear_pair()
    second, cheap = Line(pair.a), Line(pair.a)
    queue(cheap, "c")
    pair.settle()
    line.hand(dear_publishes(60, "a"))
    second.hand(dear_publishes(60, "b"))
    cheap.hand(b"".join(publish_frames(1, "", "c", parts=[b"now"])))
    assert len(turns(pair, lambda: pair.a.queue("c").ready_count() == 1)) == 1
    seen = len(cheap.told)
    cheap.send(1, spec.ExchangeDeclare(0, "x", "fanout", False, False, False, False, False, {}))
    assert len(turns(pair, lambda: len(cheap.told) > seen)) <= 4
    assert line.held and second.held, "that is done long before they are"
    turns(pair, lambda: not line.held and not second.held)
    senders = [told.body[:1] for told in line.drain("q")]
    assert len(senders) == 120
    assert 20 <= senders[:60].count(b"a") <= 40


def test_what_a_channel_had_put_aside_is_as_bounded() -> None:
    pair, line = dear_pair()
    pair.settle()
    declare = spec.QueueDeclare(0, "n", False, False, False, False, False, {})
    line.hand(method_frame(1, declare.encode()) + dear_publishes(30))
    ready = pair.a.queue("q").ready_count
    assert max(turns(pair, lambda: ready() == 30)) < TURN_STEPS_MAX + 2 * COSTS
    assert [told.body for told in line.drain("q")] == [str(each).encode() for each in range(30)]


def test_a_message_whose_route_takes_too_long_closes_its_channel() -> None:
    """With a text that says what to do; the connection and its other channels go on."""
    pair, line = dear_pair(2)
    keys = [dear_key(number) for number in range(2 * ROUTE_STEPS_MAX // COSTS)]
    dear = publish_frames(1, "t", "k", with_headers({"CC": list(keys)}), [b"x"])
    line.hand(b"".join(dear))
    closed = line.wait(1, spec.ChannelClose)[0].method
    assert isinstance(closed, spec.ChannelClose)
    assert closed.reply_code == 406
    assert f"more than {ROUTE_STEPS_MAX} steps: use fewer words" in closed.reply_text
    assert pair.a.node.budget.spent < ROUTE_STEPS_MAX + 3 * COSTS
    line.ask(2, spec.QueueDeclare(0, "q", True, False, False, False, False, {}))
    assert pair.a.queue("q").ready_count() == 0


def test_a_message_to_many_queues_counts_as_many() -> None:
    pair = Pair(alone=True)
    line = Line(pair.a)
    exchange(line, "f", "fanout")
    many = 400
    for number in range(many):
        queue(line, f"q{number}")
        bind(line, f"q{number}", "f", "")
    pair.settle()
    count = 3 * TURN_STEPS_MAX // (many * QUEUE_STEPS)
    frames: list[bytes] = []
    for number in range(count):
        # The properties differ, so that each is a run of its own.
        life = Properties(expiration=str(600_000 + number)).encode()
        frames += publish_frames(1, "f", "", life, [b"x"])
    line.hand(b"".join(frames))
    share = TURN_STEPS_MAX + 2 * many * QUEUE_STEPS
    assert pair.a.node.budget.spent < share
    assert max(turns(pair, lambda: pair.a.queue("q0").ready_count() == count)) < share
    assert pair.a.queue("q399").ready_count() == count


@pytest.mark.parametrize("match", ["all", "any"])
def test_headers_ask_only_bindings_that_have_a_reason(match: str) -> None:
    """3,000 bindings that share one header with the message, and not the other."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    exchange(line, "h", "headers")
    queue(line, "q")
    for number in range(600):
        arguments: Table = {"x-match": match, "kind": "order", "customer": f"c{number}"}
        if match == "any":
            del arguments["kind"]
        bind(line, "q", "h", "", arguments)
    pair.settle()
    before = pair.a.node.budget.spent
    properties = with_headers({"kind": "order", "customer": "c5"})
    line.hand(b"".join(publish_frames(1, "h", "", properties, [b"x"])))
    assert pair.a.node.budget.spent - before < 100
    assert [told.body for told in line.drain("q")] == [b"x"]


@pytest.mark.parametrize("kept", [False, True])
def test_dead_letters_whose_routes_are_dear_take_several_turns(kept: bool) -> None:
    """Also those of a quorum queue that stay there until they are confirmed."""
    pair, line = dear_pair()
    arguments: Table = {"x-dead-letter-exchange": "t"}
    if kept:
        arguments["x-queue-type"] = "quorum"
        arguments["x-dead-letter-strategy"] = "at-least-once"
        arguments["x-overflow"] = "reject-publish"
    line.ask(1, spec.QueueDeclare(0, "dying", False, True, False, False, False, arguments))
    pair.settle()
    count = 40
    for number in range(count):
        properties = with_headers({"CC": [dear_key(number)]})
        line.hand(b"".join(publish_frames(1, "", "dying", properties, [b"%d" % number])))
    pair.until(lambda: pair.a.queue("dying").ready_count() == count)
    line.ask(1, spec.BasicConsume(0, "dying", "", False, False, False, False, {}))
    line.wait(count, spec.BasicDeliver)
    router = pair.a.node.metadata.vhosts["/"].router
    line.send(1, spec.BasicNack(0, True, False))
    most = 0
    node = pair.a.node
    for _ in range(400):
        before = router.steps
        pair.a.executor.step()
        node.turn()
        most = max(most, int(router.steps - before))
        if pair.a.queue("q").ready_count() == count:
            break
    assert pair.a.queue("q").ready_count() == count
    assert COSTS < most < TURN_STEPS_MAX + 2 * COSTS


@pytest.mark.parametrize(("kept", "route"), [(False, False), (False, True), (True, True)])
def test_dead_letters_whose_headers_are_long_take_several_turns(kept: bool, route: bool) -> None:
    """Each is decoded and written anew, also where it leads nowhere."""
    pair = Pair(alone=True)
    line = Line(pair.a)
    exchange(line, "f", "fanout")
    queue(line, "dead")
    if route:
        bind(line, "dead", "f", "")
    arguments: Table = {"x-dead-letter-exchange": "f"}
    if kept:
        arguments["x-queue-type"] = "quorum"
        arguments["x-dead-letter-strategy"] = "at-least-once"
        arguments["x-overflow"] = "reject-publish"
    line.ask(1, spec.QueueDeclare(0, "dying", False, True, False, False, False, arguments))
    pair.settle()
    # No message is like the one before it, whose letter would do for it.
    headers: Table = {f"{name}": None for name in range(5_000)}
    lives = ("600000", "700000")
    alternating = [Properties(headers=headers, expiration=life).encode() for life in lives]
    count, size = 24, len(alternating[0])
    for number in range(count):
        properties = alternating[number % 2]
        line.hand(b"".join(publish_frames(1, "", "dying", properties, [b"x"])))
    pair.until(lambda: pair.a.queue("dying").ready_count() == count)
    line.ask(1, spec.BasicConsume(0, "dying", "", False, False, False, False, {}))
    line.wait(count, spec.BasicDeliver)
    node = pair.a.node
    died = node.traffic.of_deaths(pair.a.queue("dying").type, kept).by_reason
    line.send(1, spec.BasicNack(0, True, False))
    seen = [sum(died)]
    for _ in range(400):
        pair.a.executor.step()
        node.turn()
        seen.append(sum(died))
        if seen[-1] == count:
            break
    assert seen[-1] == count
    share = TURN_STEPS_MAX * STEP_BYTES if kept else TURN_BYTES
    most = max(b - a for a, b in pairwise(seen))
    assert most <= share // (size // HEADER_STEP_BYTES * STEP_BYTES) + 1


def test_declares_with_large_arguments_take_several_turns() -> None:
    """An entry is two bytes at least, and an object: the frame is what is counted."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels=32)
    arguments: Table = {f"x-{number}": None for number in range(10_000)}
    size = 0
    frames = b""
    for channel in range(1, 33):
        declare = spec.QueueDeclare(0, f"n{channel}", True, False, False, False, False, arguments)
        frames += method_frame(channel, declare.encode())
        size = size or len(frames)
    line.hand(frames)
    assert line.held
    most = TURN_STEPS_MAX + size // 4 + TOPOLOGY_STEPS
    assert pair.a.node.budget.spent <= most
    costs = turns(pair, lambda: not line.held)
    assert max(costs) <= most
    assert len(costs) >= 32 * size // 4 // most - 1


def test_declares_that_many_policies_are_looked_at_for_take_several_turns() -> None:
    """Also with patterns that are not let in any more, which tables may have from before."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels=8)
    node = pair.a.node
    tables = node.metadata.vhosts["/"]
    heavy = "^((?=(a{1,250}){1,250}x)a|aa)+y"
    for number in range(20):
        node.store.submit(
            SetPolicy("/", f"p{number}", False, f"{heavy}{number}", "all", 0, {"max-length": 1}),
            Unheard(),
        )
    pair.until(lambda: len(tables.policies) == 20)
    frames = b""
    for channel in range(1, 9):
        name = "a" * 240 + str(channel)
        declare = spec.QueueDeclare(0, name, False, False, False, False, False, {})
        frames += method_frame(channel, declare.encode())
    before = WORK.steps
    line.hand(frames)
    assert STEPS_MAX < WORK.steps - before < 2 * TURN_STEPS_MAX
    seen = [WORK.steps]

    def declared() -> bool:
        seen.append(WORK.steps)
        return len(line.of(spec.QueueDeclareOk)) == 8

    turns(pair, declared)
    assert max(b - a for a, b in pairwise(seen)) < 2 * TURN_STEPS_MAX
    assert WORK.steps - before > 8 * 20 * STEPS_MAX - 1


def test_topic_permissions_of_many_keys_are_bounded_for_one_message() -> None:
    pair, line = dear_pair(2)
    heavy = "^(?:(?=(?:aa?){1,3})a)+y|^a"
    pair.a.node.store.submit(SetTopicPermissions("guest", "/", "t", heavy, ".*"), Unheard())
    pair.until(lambda: bool(pair.a.node.metadata.vhosts["/"].topic_permissions))
    keys = ["a" * 200 + str(number) for number in range(300)]
    before = WORK.steps
    dear = publish_frames(1, "t", "a", with_headers({"CC": list(keys)}), [b"x"])
    line.hand(b"".join(dear))
    closed = line.wait(1, spec.ChannelClose)[0].method
    assert isinstance(closed, spec.ChannelClose)
    assert (closed.reply_code, "topic permissions" in closed.reply_text) in ((406, True),)
    assert WORK.steps - before < ROUTE_STEPS_MAX + 3 * STEPS_MAX


def test_who_asks_for_exchanges_while_queues_with_many_bindings_go_takes_several_turns() -> None:
    """Each has to be told whether one of the queues takes its exchange along."""
    pair = Pair(alone=True)
    owner, other = Line(pair.a, channels=64), Line(pair.a, channels=64)
    owner.ask(1, spec.QueueDeclare(0, "mine", False, False, True, False, False, {}))
    frames = b""
    for each in range(SEARCH_STEPS_MAX):
        binding = spec.QueueBind(0, "mine", "amq.direct", f"k{each}", True, {})
        frames += method_frame(1 + each % 64, binding.encode())
    owner.hand(frames)
    for channel in range(1, 65):
        owner.ask(channel, spec.BasicQos(0, 0, False))
    exchange(other, "e", "fanout")
    queue(other, "q")
    bind(other, "q", "e", "")
    pair.a.hold_disk = True
    owner.end.lost()
    passive = spec.ExchangeDeclare(0, "e", "fanout", True, False, False, False, False, {})
    seen = len(other.told)
    other.hand(b"".join(method_frame(1 + each, passive.encode()) for each in range(64)))
    assert pair.a.node.budget.spent < TURN_STEPS_MAX + 2 * SEARCH_STEPS_MAX
    assert other.held, "there is more than one turn does"
    pair.settle(6)
    assert not other.held
    pair.a.hold_disk = False
    pair.until(lambda: len(other.told) == seen + 64)
    assert all(isinstance(told.method, spec.ExchangeDeclareOk) for told in other.told[seen:])


def test_queues_that_others_declared_begin_in_several_turns_where_policies_are_dear() -> None:
    """Nobody here has matched their names before, as where a node catches up."""
    pair = Pair(alone=True)
    node = pair.a.node
    tables = node.metadata.vhosts["/"]
    heavy = "^((?=(a{1,250}){1,250}x)a|aa)+y"
    for number in range(8):
        policy = SetPolicy(
            *("/", f"p{number}", False, f"{heavy}{number}", "all", 0, {"max-length": 1})
        )
        node.store.submit(policy, Unheard())
    pair.until(lambda: len(tables.policies) == 8)
    for number in range(60):
        arguments = ("a" * 240 + str(number), "classic", True, False, NO_OWNER, {})
        declare = DeclareQueue("/", *arguments, node.placing.new_group())
        node.placing.place(declare)
        node.store.submit(declare, Unheard())
    seen = [WORK.steps]

    def begun() -> bool:
        seen.append(WORK.steps)
        return len(node.queues.vhosts["/"].queues) == 60

    turns(pair, begun)
    # Some are put in force when the disk has them, right before a turn.
    assert max(b - a for a, b in pairwise(seen)) < 3 * TURN_STEPS_MAX
    assert seen[-1] - seen[0] > 60 * 8 * STEPS_MAX // 4


@pytest.mark.parametrize("channels", [1, 2])
def test_short_messages_that_differ_take_several_turns(channels: int) -> None:
    """Each is a run of its own; those that are alike are not counted, however many."""
    pair = Pair(alone=True)
    line = Line(pair.a, channels)
    queue(line, "q")
    pair.settle()
    lives = [Properties(expiration=life).encode() for life in ("600000", "700000")]
    most = TURN_STEPS_MAX // RUN_STEPS + RUNS_FREE + 1
    count = 3 * most
    frames: list[bytes] = []
    for number in range(count):
        frames += publish_frames(1 + number % channels, "", "q", lives[number % 2], [b"x"])
    line.hand(b"".join(frames))
    assert line.held
    steps = [0]
    ready = pair.a.queue("q").ready_count
    while steps[-1] < count:
        pair.a.executor.step()
        pair.a.node.turn()
        steps.append(ready())
        assert len(steps) < 20
    # What is taken up at the beginning of a turn is served in it, too.
    assert max(after - before for before, after in pairwise(steps)) <= 2 * most
    line.hand(b"".join(publish_frames(1, "", "q", b"\0\0", [b"x"])) * count)
    assert not line.held
