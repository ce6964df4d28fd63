"""Dead letters of quorum queues that stay until they are confirmed elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from librt.strings import BytesWriter

from tests.node.pair import Client, Pair, Station
from tests.node.test_dead_letters import DLX, KEY, KINDS, declare, drained, policy, ready, reject
from tests.node.test_message_expiry import pass_time
from warren.errors import CorruptRecord
from warren.metadata.commands import SetPolicy
from warren.protocols.broker import Settings
from warren.queues.fifo import commands
from warren.queues.fifo.config import write_dead_letters
from warren.queues.fifo.dead_letters import AT_LEAST_ONCE
from warren.queues.fifo.entry import Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.forwarding import (
    BEHIND_LETTERS,
    PREFETCH,
    RETRY_MS_MAX,
    UNDERWAY_BYTES,
)
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

BATCH = 256
"""So many messages a publisher has in the way without a confirm."""
STRATEGY = "x-dead-letter-strategy"
KEPT: Table = {STRATEGY: "at-least-once", "x-overflow": "reject-publish"}


def keeping(client: Client, name: str, to: str = "dead", exchange: str = "", **more: Any) -> None:
    """Declare a quorum queue that keeps its dead letters until another queue has them."""
    arguments: Table = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}
    arguments = {**arguments, DLX: exchange, KEY: to, **KEPT, **more}
    ok = client.call(spec.QueueDeclare(0, name, False, True, False, False, False, arguments))
    assert isinstance(ok, spec.QueueDeclareOk), ok


def kept(station: Station, name: str) -> int:
    """Dead letters that a queue holds, as this node counts them."""
    return int(station.queue(name).counts().dead)


def jump(pair: Pair, milliseconds: int) -> None:
    """Have time pass at once, where there is one node."""
    pair.clock.advance(milliseconds)
    pair.settle(20)


def bodies(count: int, first: int = 1) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


@pytest.mark.rule("DL-02", "DL-04", "R-30")
@pytest.mark.parametrize("to", KINDS)
@pytest.mark.parametrize("where", ["aa", "ab", "ba", "bb"])
def test_rejected_messages_go_on_and_leave_when_they_are_confirmed(to: str, where: str) -> None:
    pair = Pair()
    source, target = (pair.stations[name].client() for name in where)
    declare(target, "dead", to)
    keeping(source, "q")
    source.publish_confirmed("q", 100)
    reject(target, "q", 3)
    pair.until(lambda: ready(pair.stations[where[1]], "dead") == 3)
    pair.until(lambda: kept(pair.stations[where[0]], "q") == 0)
    got = [source.get("q") for _ in range(97)]
    assert got[-1] is not None
    source.send(spec.BasicNack(got[-1].tag, True, False))
    pair.until(lambda: ready(pair.stations[where[1]], "dead") == 100)
    pair.until(lambda: kept(pair.stations[where[0]], "q") == 0)
    assert sorted(drained(target), key=int) == bodies(100)
    assert source.get("q") is None


@pytest.mark.rule("DL-03", "DL-11", "DL-12")
def test_what_a_target_rejects_is_tried_again() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "dead", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    keeping(client, "q")
    client.publish_confirmed("q", 3)
    reject(client, "q", 3)
    pair.until(lambda: ready(pair.a, "dead") == 1)
    pair.settle()
    assert kept(pair.a, "q") == 2
    found = []
    for left in (1, 0, 0):
        pair.until(lambda: ready(pair.a, "dead") == 1)
        found += drained(client)
        jump(pair, RETRY_MS_MAX)
        assert kept(pair.a, "q") == left
    assert sorted(found) == bodies(3)


def wait(pair: Pair, seconds: int) -> None:
    for _ in range(seconds):
        pass_time(pair, 1_000)


def full(client: Client, kind: str) -> Table:
    """Declare a queue that has no room for a fourth message, whose limits are so; and fill it."""
    more: Table = {"x-max-length": 3, "x-overflow": "reject-publish"}
    declare(client, "dead", kind, **more)
    for _ in range(4):
        client.publish("dead", b"filler")
    client.pair.until(lambda: ready(client.station, "dead") >= 3)
    return more


@pytest.mark.rule("DL-03", "DL-11", "DL-12")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["aa", "ab"])
def test_what_a_full_target_rejected_gets_on_when_it_has_room(kind: str, where: str) -> None:
    """Within about a second, however often it was tried in vain before."""
    pair = Pair()
    pair.minds_seconds = True
    source, target = (pair.stations[name].client() for name in where)
    full(target, kind)
    keeping(source, "q")
    source.publish_confirmed("q", 3)
    reject(source, "q", 3)
    wait(pair, 40)
    assert kept(pair.a, "q") == 3
    target.call(spec.QueuePurge(0, "dead", False))
    pass_time(pair, 2_500)
    assert kept(pair.a, "q") == 0
    assert sorted(drained(target)) == bodies(3)


@pytest.mark.parametrize("where", ["aa", "ab"])
def test_a_full_target_is_not_asked_for_all_of_them_each_second(where: str) -> None:
    """Where this node knows that it is full, not at all; else for one of them."""
    pair = Pair()
    pair.minds_seconds = True
    source, target = (pair.stations[name].client() for name in where)
    full(target, "classic")
    keeping(source, "q")
    count = PREFETCH
    source.publish_confirmed("q", count)
    reject(source, "q", count)
    forwarding = pair.a.queue("q").forwarding
    wait(pair, 65)
    tries = [int(outgoing._tries) for outgoing in forwarding._failed.values()]
    assert len(tries) == count
    pass_time(pair, 10_000)
    after = [int(outgoing._tries) for outgoing in forwarding._failed.values()]
    assert sum(after) - sum(tries) <= (0 if where == "aa" else 12) + count


@pytest.mark.rule("DL-11")
@pytest.mark.parametrize("exchange", ["", "none", "amq.direct"])
def test_without_a_route_they_stay_until_there_is_one(exchange: str) -> None:
    """No queue, no exchange, no binding; what cannot get on is told of once."""
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q", exchange=exchange)
    client.publish_confirmed("q", PREFETCH + 5)
    reject(client, "q", PREFETCH + 5)
    pass_time(pair, 10_000)
    assert kept(pair.a, "q") == PREFETCH + 5
    told = [warning for warning in pair.a.warnings if "stay in queue 'q'" in warning]
    assert len(told) == 1
    declare(client, "dead")
    if exchange:
        make = spec.ExchangeDeclare(0, exchange, "direct", exchange[:4] == "amq.", True)
        client.call(make)
        client.call(spec.QueueBind(0, "dead", exchange, "dead", False, {}))
    jump(pair, RETRY_MS_MAX)
    pair.until(lambda: kept(pair.a, "q") == 0)
    assert sorted(drained(client), key=int) == bodies(PREFETCH + 5)


@pytest.mark.rule("DL-02", "DL-11")
def test_all_targets_have_to_confirm_and_none_gets_more_than_one() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("dead", "full"):
        more: Table = {"x-max-length": 0, "x-overflow": "reject-publish"}
        declare(client, name, **(more if name == "full" else {}))
        client.call(spec.QueueBind(0, name, "amq.fanout", "", False, {}))
    keeping(client, "q", exchange="amq.fanout")
    client.publish_confirmed("q", 2)
    reject(client, "q", 2)
    pass_time(pair, 10_000)
    assert kept(pair.a, "q") == 2
    assert ready(pair.a, "dead") == 2
    client.call(spec.QueueDelete(0, "full", False, False, False))
    jump(pair, RETRY_MS_MAX)
    assert kept(pair.a, "q") == 0
    assert drained(client) == bodies(2)


@pytest.mark.rule("DL-11")
def test_what_would_go_round_stays_and_is_told_of() -> None:
    """It expires, and its way leads back: it is not lost, as at most once, and does not go on."""
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "there", to="back", **{"x-message-ttl": 100})
    keeping(client, "back", to="there", **{"x-message-ttl": 100})
    client.publish_confirmed("there", 1)
    for _ in range(5):
        jump(pair, RETRY_MS_MAX)
    assert (kept(pair.a, "there"), kept(pair.a, "back")) == (0, 1)
    assert (ready(pair.a, "there"), ready(pair.a, "back")) == (0, 0)
    told = [warning for warning in pair.a.warnings if "go round without being rejected" in warning]
    assert len(told) == 1 and "do not get to queue 'there'" in told[0]


@pytest.mark.rule("DL-09", "DL-10")
def test_dead_letters_count_for_the_limits() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q", **{"x-max-length": 3})
    client.publish_confirmed("q", 4)
    reject(client, "q", 4)
    pair.settle()
    assert (ready(pair.a, "q"), kept(pair.a, "q")) == (0, 4)
    client.publish("q", b"5")
    pair.until(lambda: len(client.nacked) == 1)
    # A purge has them go, and says how many there were.
    ok = client.call(spec.QueuePurge(0, "q", False))
    assert isinstance(ok, spec.QueuePurgeOk)
    assert ok.message_count == 4
    client.publish("q", b"6")
    pair.until(lambda: len(client.acked) == 5)
    declare(client, "dead")
    jump(pair, RETRY_MS_MAX)
    assert drained(client) == []


def test_bytes_of_dead_letters_count_for_the_limits() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q", **{"x-max-length-bytes": 40})
    client.publish_confirmed("q", 2)
    reject(client, "q", 1)
    pair.settle()
    before = int(pair.a.queue("q").fifo.limited_bytes())
    assert before == int(pair.a.queue("q").fifo.sizes.bytes)
    declare(client, "dead")
    jump(pair, RETRY_MS_MAX)
    assert int(pair.a.queue("q").fifo.limited_bytes()) < before


def test_messages_that_expire_or_fail_too_often_stay_too() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q", **{"x-message-ttl": 500})
    policy(pair, {"delivery-limit": 1}, "^r$")
    keeping(client, "r")
    client.publish_confirmed("q", 2)
    client.publish_confirmed("r", 1)
    for _ in range(2):
        got = client.get("r")
        assert got is not None
        client.send(spec.BasicReject(got.tag, True))
        pair.settle()
    pass_time(pair, 700)
    pair.settle()
    assert (kept(pair.a, "q"), kept(pair.a, "r")) == (2, 1)
    declare(client, "dead")
    jump(pair, RETRY_MS_MAX)
    assert sorted(drained(client)) == bodies(3)


@pytest.mark.rule("DL-15")
def test_the_strategy_may_change() -> None:
    """What is kept goes nowhere when it is to arrive once at most, or nowhere (as in RabbitMQ)."""
    pair = Pair(alone=True)
    client = pair.a.client()
    at_least = {
        "dead-letter-exchange": "",
        "dead-letter-routing-key": "dead",
        "dead-letter-strategy": "at-least-once",
        "overflow": "reject-publish",
    }
    declare(client, "q", "quorum")
    client.publish_confirmed("q", 9)
    reject(client, "q")
    for other in (
        {**at_least, "dead-letter-strategy": "at-most-once"},
        {**at_least, "overflow": "drop-head"},
        {key: at_least[key] for key in at_least if key != "dead-letter-exchange"},
        None,
    ):
        policy(pair, dict(at_least))
        reject(client, "q")
        assert kept(pair.a, "q") == 1
        policy(pair, other)
        assert kept(pair.a, "q") == 0
    told = [warning for warning in pair.a.warnings if "are dropped" in warning]
    assert len(told) == 4 and told[0].startswith("1 dead letters of queue 'q'")
    policy(pair, dict(at_least))
    reject(client, "q")
    declare(client, "dead")
    policy(pair, {**at_least, "dead-letter-routing-key": "none"})
    policy(pair, dict(at_least))
    pair.until(lambda: kept(pair.a, "q") == 0)
    assert drained(client) == [b"6"]
    assert drained(client, "q") == [b"7", b"8", b"9"]


@pytest.mark.rule("DL-07")
def test_without_rejecting_publishes_they_arrive_at_most_once() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "q", "quorum", **{DLX: "", KEY: "dead", STRATEGY: "at-least-once"})
    client.publish_confirmed("q", 2)
    reject(client, "q")
    pair.settle()
    assert kept(pair.a, "q") == 0
    told = [warning for warning in pair.a.warnings if "at most once" in warning]
    assert len(told) == 1
    declare(client, "dead")
    reject(client, "q")
    pair.until(lambda: ready(pair.a, "dead") == 1)


@pytest.mark.parametrize("orderly", [True, False])
def test_they_outlive_their_node(orderly: bool) -> None:
    """A crash and a restart, with and without a snapshot of what is kept."""
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q")
    client.publish_confirmed("q", 50)
    reject(client, "q", 40)
    pair.settle()
    if orderly:
        pair.a.queue("q").snapshot()
        pair.settle()
        pair.a.node.prepare_close()
        pair.settle()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    pair.until(lambda: kept(pair.a, "q") == 40)
    declare(client, "dead")
    jump(pair, RETRY_MS_MAX)
    pair.until(lambda: kept(pair.a, "q") == 0)
    assert sorted(drained(client), key=int) == bodies(40)


@pytest.mark.rule("DL-12", "DL-13")
@pytest.mark.parametrize("to", ["classic", "quorum"])
def test_the_next_leader_goes_on(to: str) -> None:
    """Leader after leader dies with dead letters that no target has confirmed."""
    pair = Pair()
    pair.add("c")
    clients = {name: pair.stations[name].client() for name in "abc"}
    keeping(clients["a"], "q", **{"x-quorum-initial-group-size": 3})
    stations = list(pair.stations.values())
    pair.until(lambda: all(each.knows("q") for each in stations))
    clients["a"].publish_confirmed("q", 60)
    leader = pair.stations["a"]
    assert leader.queue("q").group.leads()
    reject(clients["b"], "q", 60)
    pair.until(lambda: kept(pair.b, "q") == 60)
    leader.kill()
    others = stations[1:]
    pair.until(lambda: any(each.queue("q").group.leads() for each in others))
    declare(clients["b"], "dead", to)
    pair.until(lambda: kept(pair.b, "q") == 0)
    assert sorted(set(drained(clients["b"])), key=int) == bodies(60)
    leader.start()
    pair.until(lambda: kept(leader, "q") == 0)


@pytest.mark.rule("DL-14")
@pytest.mark.parametrize("prefetch", [1, 5])
def test_so_many_are_on_their_way_at_a_time(prefetch: int) -> None:
    def configure(settings: Settings) -> None:
        settings.dead_letter_prefetch = prefetch

    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    keeping(client, "q")
    client.publish_confirmed("q", 9)
    reject(client, "q", 9)
    pair.settle()
    assert pair.a.queue("q").forwarding.underway() == prefetch
    declare(client, "dead")
    jump(pair, RETRY_MS_MAX)
    pair.until(lambda: kept(pair.a, "q") == 0)
    assert sorted(drained(client)) == bodies(9)


@pytest.mark.rule("DL-11", "DL-12")
@pytest.mark.parametrize("to", ["classic", "transient", "quorum"])
def test_a_target_that_is_down_gets_them_later(to: str) -> None:
    """Those under way, which nobody knows to have arrived, and those that die meanwhile."""
    pair = Pair()
    client = pair.a.client()
    declare(pair.b.client(), "dead", to)
    keeping(client, "q")
    client.publish_confirmed("q", 6)
    reject(client, "q", 2)
    pair.until(lambda: kept(pair.a, "q") == 0)
    got = [client.get("q") for _ in range(2)]
    assert got[1] is not None
    client.send(spec.BasicNack(got[1].tag, True, False))
    client.exchange()
    pair.a.node.turn()
    pair.b.kill()
    pair.settle(100)
    assert kept(pair.a, "q") == 2
    pair.b.start()
    pair.until(lambda: pair.b.node.ready)
    there = pair.b.client()
    if to == "transient":
        pair.until(lambda: not pair.b.knows("dead"))
        declare(there, "dead", to)
    reject(client, "q", 2)
    pair.until(lambda: kept(pair.a, "q") == 0)
    found = set(drained(there))
    assert found == set(bodies(6, 1) if to != "transient" else bodies(4, 3))


@pytest.mark.parametrize("disturb", ["purge", "delete"])
def test_queues_that_are_purged_or_deleted_meanwhile(disturb: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q")
    client.publish_confirmed("q", 2 * PREFETCH)
    reject(client, "q", 2 * PREFETCH - 1)
    pair.settle()
    if disturb == "purge":
        client.call(spec.QueuePurge(0, "q", False))
        client.publish_confirmed("q", 3)
        reject(client, "q", 2)
    else:
        client.call(spec.QueueDelete(0, "q", False, False, False))
    declare(client, "dead")
    jump(pair, RETRY_MS_MAX)
    if disturb == "purge":
        assert drained(client) == bodies(2, 2 * PREFETCH + 1)
        assert pair.a.queue("q").forwarding.underway() == 0
    else:
        assert drained(client) == []


def test_large_ones_go_a_few_at_a_time() -> None:
    """What is on its way takes so much memory, whatever the prefetch is."""
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q")
    client.call(spec.ConfirmSelect(False))
    large = bytes(1_000_000)
    for _ in range(24):
        client.publish("q", large)
    pair.until(lambda: len(client.acked) == 24)
    declare(client, "dead")
    got = [client.get("q") for _ in range(24)]
    assert got[-1] is not None
    most = 0

    def all_there() -> bool:
        nonlocal most
        most = max(most, int(pair.a.queue("q").forwarding.underway()))
        return ready(pair.a, "dead") == 24

    client.send(spec.BasicNack(got[-1].tag, True, False))
    pair.until(all_there)
    assert most <= UNDERWAY_BYTES // 1_000_000 + 1
    pair.until(lambda: kept(pair.a, "q") == 0)


def test_a_message_that_is_lost_is_passed_over() -> None:
    """The disk of the only copy does not have it any more, while others wait or go on."""
    pair = Pair(alone=True)
    client = pair.a.client()
    keeping(client, "q")
    client.publish_confirmed("q", 5)
    reject(client, "q", 5)
    pair.settle()
    queue = pair.a.queue("q")
    error = CorruptRecord("a file", 0, "it is damaged")
    queue.go_without([(int(queue.fifo.next_message) - 4, int(queue.fifo.next_message) - 3)], error)
    declare(client, "dead")
    jump(pair, RETRY_MS_MAX)
    pair.until(lambda: kept(pair.a, "q") == 0)
    assert sorted(drained(client)) == [b"1", b"4", b"5"]


def test_what_holds_them_up_is_told_of_once() -> None:
    """Also while others get on, and again when it comes about again."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "there")
    client.call(spec.QueueBind(0, "there", "amq.direct", "r", False, {}))
    arguments: Table = {"x-queue-type": "quorum", DLX: "amq.direct", **KEPT}
    for name in ("q", "r"):
        client.call(spec.QueueDeclare(0, name, False, True, False, False, False, arguments))
    client.publish_confirmed("r", 2)
    reject(client, "r", 2)
    client.publish_confirmed("q", 3)
    reject(client, "q", 2)
    for _ in range(5):
        jump(pair, RETRY_MS_MAX)
    told = [warning for warning in pair.a.warnings if "stay in queue" in warning]
    assert len(told) == 1 and "'q'" in told[0]
    bind = spec.QueueBind(0, "there", "amq.direct", "q", False, {})
    client.call(bind)
    jump(pair, RETRY_MS_MAX)
    pair.until(lambda: kept(pair.a, "q") == 0)
    client.call(spec.QueueUnbind(0, "there", "amq.direct", "q", {}))
    reject(client, "q")
    jump(pair, RETRY_MS_MAX)
    told = [warning for warning in pair.a.warnings if "stay in queue" in warning]
    assert len(told) == 2


def test_a_cluster_of_two_releases_has_none() -> None:
    pair = Pair(configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    for arguments in ({STRATEGY: "at-least-once"}, {STRATEGY: "at-most-once"}):
        refused = declare(pair.a.client(), "q", "quorum", **arguments)
        assert isinstance(refused, spec.ChannelClose)
        assert "this needs cluster version 4" in refused.reply_text
    assert SetPolicy(
        "/", "p", False, "q", "queues", 0, {"dead-letter-strategy": "at-least-once"}
    ).cluster_version() == 4  # fmt: skip


def test_a_million_are_runs_and_few_are_on_their_way() -> None:
    """What died together is one run, in the machine and in its snapshot."""
    fifo = Fifo(-1, False)
    fields = BytesWriter()
    write_dead_letters(fields, AT_LEAST_ONCE)
    out = BytesWriter()
    commands.config(out, fields.getvalue())
    commands.attach(out, 1, 1_000_000, 0)
    fifo.apply(Meta(1), Encoded(out.getvalue(), 0, len(out)))
    fifo.apply(Meta(1), Enqueue(1, 1_000_000, 10_000_000))
    fifo.dispatch()
    out = BytesWriter()
    commands.discard(out, 1, 0, 999_999)
    fifo.apply(Meta(1), Encoded(out.getvalue(), 0, len(out)))
    fifo.dispatch()
    assert (int(fifo.discards.count), int(fifo.discards.bytes)) == (1_000_000, 10_000_000)
    assert len(fifo.encode()) < 1_000
    for death in range(0, 900_000, 30_000):
        out = BytesWriter()
        commands.delivered(out, death, death + 29_999)
        fifo.apply(Meta(1), Encoded(out.getvalue(), 0, len(out)))
        fifo.dispatch()
    assert fifo.live() == [(900_001, 1_000_000)]
    other = Fifo(-1, False)
    other.restore(fifo.encode())
    assert other.encode() == fifo.encode()


def in_vain(exchange: str) -> tuple[Pair, Client]:
    """A queue with two dead letters that have no way out, and are tried once a minute by now."""
    pair = Pair(alone=True)
    pair.minds_seconds = True
    client = pair.a.client()
    client.call(spec.ExchangeDeclare(0, "more", "direct", False, True))
    client.call(spec.ExchangeBind(0, "more", "amq.fanout", "", False, {}))
    keeping(client, "q", exchange=exchange)
    client.publish_confirmed("q", 2)
    reject(client, "q", 2)
    for _ in range(8):
        jump(pair, RETRY_MS_MAX)
    assert kept(pair.a, "q") == 2
    return pair, client


WAYS: dict[str, list[spec.Method]] = {
    "": [],
    "amq.direct": [spec.QueueBind(0, "dead", "amq.direct", "dead", False, {})],
    "amq.fanout": [spec.QueueBind(0, "dead", "more", "dead", False, {})],
    "none": [
        spec.ExchangeDeclare(0, "none", "fanout", False, True),
        spec.QueueBind(0, "dead", "none", "", False, {}),
    ],
}


@pytest.mark.rule("DL-11")
@pytest.mark.parametrize("exchange", WAYS)
def test_a_new_way_is_taken_at_once(exchange: str) -> None:
    """A queue, a binding, one of an exchange that the first one leads to, or an exchange."""
    pair, client = in_vain(exchange)
    declare(client, "dead")
    for method in WAYS[exchange]:
        client.call(method)
    pass_time(pair, 2_000)
    assert kept(pair.a, "q") == 0
    assert sorted(drained(client)) == bodies(2)


def test_other_ways_hurry_nothing() -> None:
    """Bindings come and go by the thousand elsewhere; a look at each letter is for its time."""
    pair, client = in_vain("amq.direct")
    forwarding = pair.a.queue("q").forwarding

    def tries() -> int:
        return sum(int(outgoing._tries) for outgoing in forwarding._underway.values())

    before = tries()
    declare(client, "other")
    for number in range(20):
        client.call(spec.QueueBind(0, "other", "amq.topic", f"k{number}", False, {}))
        pass_time(pair, 1_000)
    assert tries() == before
    client.call(spec.QueueBind(0, "other", "amq.direct", "k", False, {}))
    pass_time(pair, 2_000)
    assert tries() == before + 2


@pytest.mark.rule("DL-11")
def test_a_target_that_is_back_gets_them_at_once() -> None:
    pair = Pair()
    pair.minds_seconds = True
    client = pair.a.client()
    declare(pair.b.client(), "dead", "classic")
    pair.until(lambda: pair.a.knows("dead"))
    keeping(client, "q")
    client.publish_confirmed("q", 2)
    pair.b.kill()
    reject(client, "q", 2)
    pass_time(pair, 3_000)
    for _ in range(8):
        pair.clock.advance(RETRY_MS_MAX)
        pair.settle(20)
    assert kept(pair.a, "q") == 2
    pair.b.start()
    pair.until(pair.usable)
    pass_time(pair, 3_000)
    assert kept(pair.a, "q") == 0
    assert ready(pair.b, "dead") == 2


def test_what_waits_for_room_goes_on_behind_a_state_without_entries() -> None:
    """A node was cut off while letters waited, and is told later that it has all there is."""
    pair = Pair()
    a, b = pair.a, pair.b
    declare(a.client(), "dead", "quorum", **{"x-max-length": 1, "x-overflow": "reject-publish"})
    pair.until(lambda: b.knows("dead"))
    client = b.client()
    keeping(client, "q")
    a.node.cluster.feed_reads_max = 0
    consumer = a.client()
    consumer.consume("dead", no_ack=True)
    client.publish_confirmed("q", 7)
    reject(client, "q", 1)
    pair.until(lambda: kept(b, "q") == 0)
    pair.settle()
    leading = a.node.cluster.members[int(a.queue("dead").group_id)]
    pair.blocked.add(("a", "b"))
    pair.cut("a", "b")
    # So that whoever is back is not fed from memory.
    leading.log.keep_recent(0)
    index = int(leading.applied_index)
    got = [client.get("q") for _ in range(6)]
    assert got[-1] is not None
    client.send(spec.BasicNack(got[-1].tag, True, False))
    pair.until(lambda: int(leading.applied_index) > index)
    pair.settle(20)
    pair.blocked.clear()
    pair.until(lambda: kept(b, "q") == 0)
    pair.until(lambda: len(consumer.bodies()) == 7)


def rejecting(pair: Pair, sent: int, to: str) -> tuple[int, int]:
    """Publish as fast as the broker reads while a consumer rejects all.

    Returns:
        How many dead letters were kept at most, and how often the publisher was held.
    """
    publisher, consumer = pair.a.client(), pair.a.client()
    keeping(publisher, "q", to)
    publisher.call(spec.ConfirmSelect(False))
    consumer.qos(2_000)
    consumer.consume("q")
    most = held = seen = 0
    for _ in range(sent):
        for _ in range(BATCH):
            if not publisher.held and publisher.published < sent:
                publisher.publish("q", b"%d" % publisher.published)
        pair.step()
        if len(consumer.messages) > seen:
            seen = len(consumer.messages)
            consumer.send(spec.BasicNack(consumer.messages[-1].tag, True, False))
        most = max(most, kept(pair.a, "q"))
        held += publisher.held
        if seen == sent == len(publisher.acked):
            break
    assert seen == sent == len(publisher.acked)
    return most, held


def test_publishers_wait_while_many_are_on_their_way() -> None:
    """Else each would be read back from the disk, for they go on slower than messages can come."""

    def configure(settings: Settings) -> None:
        settings.dead_letter_prefetch = BATCH

    sent = 12 * BEHIND_LETTERS
    pair = Pair(alone=True, configure=configure)
    declare(pair.a.client(), "dead")
    most, held = rejecting(pair, sent, "dead")
    # What comes before the first of them has arrived is not held up.
    assert BEHIND_LETTERS < most < sent // 2 and held > 10
    pair.until(lambda: ready(pair.a, "dead") == sent)
    pair.until(lambda: kept(pair.a, "q") == 0)


def test_publishers_do_not_wait_for_those_that_get_nowhere() -> None:
    sent = 4 * BEHIND_LETTERS
    pair = Pair(alone=True)
    _, held = rejecting(pair, sent, "nowhere")
    assert held < 5, "but for consumers that are to catch up"
    pair.until(lambda: kept(pair.a, "q") == sent)
