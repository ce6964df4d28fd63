"""Messages that die in a queue and go through its dead-letter exchange, at most once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.pair import Client, Pair, Station
from tests.node.test_message_expiry import pass_time
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.node.dead_letters import TURN_MESSAGES
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

KINDS = ["classic", "transient", "quorum"]
DLX = "x-dead-letter-exchange"
KEY = "x-dead-letter-routing-key"
OVERFLOW = "x-overflow"


def declare(client: Client, name: str, kind: str = "classic", **more: Any) -> spec.Method:
    arguments: Table = {"x-queue-type": "quorum" if kind == "quorum" else "classic", **more}
    if kind == "quorum":
        arguments["x-quorum-initial-group-size"] = 1
    durable = kind != "transient"
    return client.call(spec.QueueDeclare(0, name, False, durable, False, False, False, arguments))


def dead_lettering(client: Client, name: str, kind: str, to: str = "dead", **more: Any) -> None:
    """Declare a queue whose dead letters go to another one."""
    ok = declare(client, name, kind, **{DLX: "", KEY: to}, **more)
    assert isinstance(ok, spec.QueueDeclareOk), ok


def drained(client: Client, name: str = "dead") -> list[bytes]:
    found = []
    while (got := client.get(name)) is not None:
        found.append(got.body)
        client.ack(got.tag)
    return found


def ready(station: Station, name: str) -> int:
    return int(station.queue(name).counts().ready)


def reject(client: Client, name: str, count: int = 1) -> None:
    for _ in range(count):
        got = client.get(name)
        assert got is not None
        client.send(spec.BasicReject(got.tag, False))
        client.pair.settle()


def policy(pair: Pair, definition: dict[str, Any] | None, pattern: str = "^q") -> None:
    command: Any = ClearPolicy("/", "p", False)
    if definition is not None:
        command = SetPolicy("/", "p", False, pattern, "queues", 0, definition)
    pair.a.node.store.submit(command, None)
    pair.settle(20)


@pytest.mark.rule("DL-01", "DL-06", "DL-16", "QQ-21")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("where", ["aa", "ab", "ba"])
def test_rejected_messages_go_on(kind: str, to: str, where: str) -> None:
    """From whatever queue to whatever other one, on either node, whichever node rejects."""
    pair = Pair()
    source, target = (pair.stations[name].client() for name in where)
    declare(target, "dead", to)
    dead_lettering(source, "q", kind)
    target.publish_confirmed("q", 6)
    reject(target, "q", 2)
    got = [target.get("q") for _ in range(4)]
    assert got[3] is not None
    target.send(spec.BasicNack(got[3].tag, True, False))
    pair.settle()
    pair.until(lambda: ready(pair.stations[where[1]], "dead") == 6)
    if to == "classic":
        # Some of them survive their target's node: those that were persistent.
        there = pair.stations[where[1]]
        assert there.queue("dead").fifo.transient.count == 0
    assert drained(target) == [b"1", b"2", b"3", b"4", b"5", b"6"]
    assert ready(pair.stations[where[0]], "q") == 0


@pytest.mark.parametrize("kind", KINDS)
def test_expired_messages_go_on(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    dead_lettering(client, "q", kind, **{"x-message-ttl": 500})
    client.publish_confirmed("q", 3)
    pass_time(pair, 700)
    pair.settle()
    assert drained(client) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("kind", KINDS)
def test_messages_without_room_go_on(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    dead_lettering(client, "q", kind, **{"x-max-length": 2})
    client.publish_confirmed("q", 5)
    pair.settle()
    assert drained(client) == [b"1", b"2", b"3"]
    assert drained(client, "q") == [b"4", b"5"]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("where", ["a", "b"])
def test_what_a_full_classic_queue_rejects_goes_on(durable: bool, where: str) -> None:
    """Whichever node publishes; and it stays rejected, so that publishers know."""
    pair = Pair()
    client = pair.a.client()
    declare(client, "dead")
    arguments: Table = {
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dead",
        "x-max-length": 2,
        "x-overflow": "reject-publish-dlx",
    }
    declared = spec.QueueDeclare(0, "q", False, durable, False, False, False, arguments)
    assert isinstance(client.call(declared), spec.QueueDeclareOk)
    publisher = pair.stations[where].client()
    assert isinstance(publisher.call(spec.ConfirmSelect(False)), spec.ConfirmSelectOk)
    for number in range(5):
        publisher.publish("q", b"%d" % number)
    pair.until(lambda: len(publisher.acked | publisher.nacked) == 5)
    assert (publisher.acked, publisher.nacked) == ({1, 2}, {3, 4, 5})
    pair.until(lambda: ready(pair.a, "dead") == 3)
    assert drained(client) == [b"2", b"3", b"4"]
    assert drained(client, "q") == [b"0", b"1"]


def test_a_policy_says_where_rejected_publishes_go_and_takes_it_back() -> None:
    """What quorum queues make of it is to drop their first messages."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    for name, kind in (("q", "classic"), ("r", "quorum")):
        declare(client, name, kind)
    definition = {
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "dead",
        "max-length": 1,
        "overflow": "reject-publish-dlx",
    }
    policy(pair, definition, "^[qr]$")
    for name in ("q", "r"):
        client.publish(name, b"first of " + name.encode())
        client.publish(name, b"second of " + name.encode())
    pair.settle()
    assert drained(client) == [b"second of q", b"first of r"]
    policy(pair, {**definition, "overflow": "reject-publish"}, "^[qr]$")
    client.publish("q", b"third of q")
    pair.settle()
    assert drained(client) == []
    assert drained(client, "q") == [b"first of q"]


def test_publishers_wait_for_what_was_rejected_where_its_target_is_behind() -> None:
    """So that a publisher that is rejected at once does not fill the memory."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    arguments: Table = {DLX: "", KEY: "dead", "x-max-length": 0, OVERFLOW: "reject-publish-dlx"}
    # A transient queue does not mind the disk itself.
    client.call(spec.QueueDeclare(0, "q", False, False, False, False, False, arguments))
    queue, target = pair.a.queue("q"), pair.a.queue("dead")
    pair.a.hold_disk = True
    sent = 0
    while not queue.congested() and sent < 1_000:
        client.publish("q", bytes(100_000))
        sent += 1
        pair.step()
    assert queue.congested() and target.congested() and queue.dead_lettering.held_by is target
    kept = int(queue.dead_lettering.rejected_bytes)
    assert kept > 1_048_576
    for _ in range(50):
        client.publish("q", bytes(100_000))
        sent += 1
        pair.step()
    assert queue.dead_lettering.rejected_bytes <= kept + 1_000_000, "its socket is not read"
    pair.a.hold_disk = False
    pair.until(lambda: ready(pair.a, "dead") == sent)
    assert not queue.congested() and queue.dead_lettering.rejected_bytes == 0


@pytest.mark.rule("POI-02", "POI-08")
def test_messages_that_failed_too_often_go_on() -> None:
    """With a limit and an exchange that both come from a policy."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    policy(
        pair,
        {
            "delivery-limit": 1,
            "dead-letter-exchange": "",
            "dead-letter-routing-key": "dead",
        },
    )
    declare(client, "q", "quorum")
    client.publish_confirmed("q", 1)
    for _ in range(2):
        got = client.get("q")
        assert got is not None
        client.send(spec.BasicReject(got.tag, True))
        pair.settle()
    assert drained(client) == [b"1"]
    assert drained(client, "q") == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_policies_say_counts_at_once_behind_arguments(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("dead", "other"):
        declare(client, name)
    declare(client, "q.plain", kind)
    dead_lettering(client, "q.own", kind)
    client.publish_confirmed("q.plain", 3)
    client.publish_confirmed("q.own", 1)
    reject(client, "q.plain")
    policy(pair, {"dead-letter-exchange": "", "dead-letter-routing-key": "other"})
    reject(client, "q.plain")
    reject(client, "q.own")
    policy(pair, None)
    reject(client, "q.plain")
    assert drained(client, "other") == [b"2"]
    assert drained(client, "dead") == [b"4"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_policy_has_go_at_once_goes_where_that_policy_says(kind: str) -> None:
    """A lower limit comes into force with what becomes of the dead, not before."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    declare(client, "q", kind)
    client.publish_confirmed("q", 3)
    aimed = {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}
    policy(pair, aimed | {"max-length": 1})
    pair.settle(20)
    assert drained(client) == [b"1", b"2"]
    policy(pair, aimed)
    client.publish_confirmed("q", 2)
    policy(pair, {"max-length": 1})
    pair.settle(20)
    assert drained(client) == []
    assert ready(pair.a, "q") == 1


def test_all_ways_through_exchanges() -> None:
    """Bindings of each kind, from exchange to exchange, alternates; internal ones, too."""
    pair = Pair(alone=True)
    client = pair.a.client()
    names = ["direct", "fanout", "topic", "headers", "alternate", "x-consistent-hash"]
    for name in names:
        arguments: Table = {"alternate-exchange": "fanout"} if name == "alternate" else {}
        kind = "direct" if name == "alternate" else name
        made = client.call(
            spec.ExchangeDeclare(0, name, kind, False, True, False, True, False, arguments)
        )
        assert isinstance(made, spec.ExchangeDeclareOk)
        declare(client, f"dead.{name}")
        matched: Table = {"x-match": "all", "h": 1} if name == "headers" else {}
        key = "7" if name == "x-consistent-hash" else "q.#" if name == "topic" else f"q.{name}"
        if name != "alternate":
            bind = spec.QueueBind(0, f"dead.{name}", name, key, False, matched)
            assert isinstance(client.call(bind), spec.QueueBindOk)
        declare(client, f"q.{name}", **{DLX: name})
    for name in names:
        properties = Properties(headers={"h": 1}).encode()
        method = spec.BasicPublish(0, "", f"q.{name}", False, False)
        client.outbox += content_frames(1, method, properties, name.encode(), 131_072)
        pair.settle()
        reject(client, f"q.{name}")
    assert drained(client, "dead.direct") == [b"direct"]
    assert drained(client, "dead.fanout") == [b"fanout", b"alternate"]
    assert drained(client, "dead.topic") == [b"topic"]
    assert drained(client, "dead.headers") == [b"headers"]
    assert drained(client, "dead.x-consistent-hash") == [b"x-consistent-hash"]


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_route_they_are_dropped(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    for name, arguments in {
        "q.1": {DLX: "none"},
        "q.2": {DLX: "", KEY: "none"},
        "q.3": {DLX: "amq.direct"},
        "q.4": {DLX: "amq.fanout", KEY: "k" * 300},
    }.items():
        declare(client, name, kind, **arguments)
        client.publish_confirmed(name, 2)
        reject(client, name, 2)
        queue = pair.a.queue(name)
        assert queue.dead_lettering.empty() and not queue.not_dead_lettered()


def test_circles_end_and_are_told_of_once() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    dead_lettering(client, "q.1", "classic", "q.2", **{"x-message-ttl": 100})
    dead_lettering(client, "q.2", "quorum", "q.1", **{"x-message-ttl": 100})
    dead_lettering(client, "q.self", "classic", "q.self", **{"x-message-ttl": 100})
    client.publish_confirmed("q.1", 3)
    client.publish_confirmed("q.self", 1)
    pass_time(pair, 1_000)
    for name in ("q.1", "q.2", "q.self"):
        assert ready(pair.a, name) == 0
    told = [line for line in pair.a.warnings if "go round" in line]
    assert len(told) == 2 and "q.1 -> q.2 -> q.1" in told[0] + told[1]


def test_a_client_that_rejects_ends_no_circle() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    dead_lettering(client, "q", "quorum", "q")
    client.publish_confirmed("q", 1)
    reject(client, "q", 5)
    got = client.get("q")
    assert got is not None and got.redelivered


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_expires_while_its_node_is_down_goes_on(kind: str) -> None:
    """A replay of the log drops nothing, and what was out comes back, expired."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead", "quorum")
    dead_lettering(client, "q", kind, **{"x-message-ttl": 500})
    client.publish_confirmed("q", 2)
    got = client.get("q")
    assert got is not None and got.body == b"1"
    pass_time(pair, 700)
    client.publish_confirmed("q", 1)
    assert ready(pair.a, "dead") == 1
    pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    pass_time(pair, 800)
    pair.settle(20)
    assert sorted(drained(pair.a.client())) == [b"1", b"2", b"3"]


def test_bodies_stay_until_they_are_routed() -> None:
    """A queue's log keeps what died and has not gone on yet, whatever else has left."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead", "transient")
    for kind in ("classic", "quorum"):
        name = f"q.{kind}"
        dead_lettering(client, name, kind, **{"x-max-length": 5_000})
        client.publish_confirmed(name, 3)
        queue = pair.a.queue(name)
        pair.a.node.vhosts.disk_full = True
        reject(client, name, 2)
        assert queue.gather_live().all().pairs() == [(0, 2)]
        pair.a.node.vhosts.disk_full = False
        pair.a.node.dead_letters.tick()
        pair.settle(20)
        assert queue.gather_live().all().pairs() == [(2, 2)]
        assert len(drained(client)) == 2


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_many_at_once_take_many_turns(kind: str) -> None:
    """No turn routes more than so many, and another queue's have their turns between."""
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("dead", "other"):
        declare(client, name, "transient")
    count = 4 * TURN_MESSAGES
    dead_lettering(client, "q", kind, "dead")
    dead_lettering(client, "p", kind, "other")
    client.publish_confirmed("q", count)
    client.publish_confirmed("p", 1)
    pair.a.node.vhosts.disk_full = True
    policy(pair, {"max-length": 0}, "^[pq]$")
    dead, other = pair.a.queue("dead"), pair.a.queue("other")
    pair.a.node.vhosts.disk_full = False
    pair.a.node.dead_letters.tick()
    seen = [0]
    while dead.published < count or other.published < 1:
        assert pair.a.node.needs_turn
        pair.a.node.turn()
        seen.append(int(dead.published))
        assert other.published == 1 or seen[-1] <= TURN_MESSAGES
    assert max(b - a for a, b in zip(seen, seen[1:], strict=False)) == TURN_MESSAGES
    assert drained(client, "dead") == [b"%d" % number for number in range(1, count + 1)]


def test_a_target_that_is_behind_is_waited_for() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead", "transient")
    dead_lettering(client, "q", "classic")
    client.publish_confirmed("q", 3 * TURN_MESSAGES)
    dead = pair.a.queue("dead")
    policy(pair, {"max-length": 0}, "^q$")
    pair.settle(4)
    assert ready(pair.a, "dead") == 3 * TURN_MESSAGES
    client.publish_confirmed("q", 0)
    policy(pair, None)
    client.publish_confirmed("q", 3 * TURN_MESSAGES)
    dead.body_bytes += 1 << 30
    dead.draining = True
    policy(pair, {"max-length": 0}, "^q$")
    pair.settle(40)
    held = ready(pair.a, "dead")
    assert 3 * TURN_MESSAGES < held < 6 * TURN_MESSAGES
    dead.body_bytes -= 1 << 30
    pair.until(lambda: ready(pair.a, "dead") == 6 * TURN_MESSAGES)


def test_priorities_are_kept() -> None:
    """Also where only some of those that go together have one."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead", **{"x-max-priority": 5})
    dead_lettering(client, "q", "quorum")
    for body, priority in ((b"1", None), (b"2", 3), (b"3", None), (b"4", 5)):
        properties = Properties(priority=priority, delivery_mode=2).encode()
        method = spec.BasicPublish(0, "", "q", False, False)
        client.outbox += content_frames(1, method, properties, body, 131_072)
    pair.settle()
    policy(pair, {"max-length": 0}, "^q$")
    assert drained(client) == [b"4", b"2", b"1", b"3"]


def test_a_queue_that_goes_takes_them_along() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead")
    dead_lettering(client, "q", "classic")
    client.publish_confirmed("q", 3)
    client.call(spec.QueuePurge(0, "q", False))
    client.publish_confirmed("q", 3)
    pair.a.node.vhosts.disk_full = True
    reject(client, "q", 2)
    client.call(spec.QueueDelete(0, "q", False, False, False))
    pair.a.node.vhosts.disk_full = False
    pair.a.node.dead_letters.tick()
    pair.settle(20)
    assert drained(client) == []


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    refused = declare(pair.a.client(), "q", **{DLX: ""})
    assert isinstance(refused, spec.ChannelClose)
    assert "this needs cluster version 4" in refused.reply_text
