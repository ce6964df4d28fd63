"""The events feed: what becomes of messages is told of in a queue, by runs."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pyarrow as pa
import pytest

import warren
from tests.admin.host import answered, service_of
from tests.node.pair import Client, Pair, three_with_messages
from warren.admin.service.caller import LOCAL, Caller
from warren.admin.service.catalogue import OPERATIONS
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.metadata import commands
from warren.metadata.grants import NEVER, GrantedScope, Grants
from warren.queues import feed as feeds
from warren.queues.feed import QueueFeed
from warren.queues.proxy import ProxyQueue
from warren.spark.feed import arrow_schema, decode, table
from warren.wire.amqp091 import spec

QUEUE = "warren.feed"
Row = dict[str, Any]


def asked(pair: Pair, operation: str, **arguments: Any) -> Any:
    async def ask() -> Any:
        return await OPERATIONS[operation].asked(service_of(pair), LOCAL, arguments)

    return answered(pair, ask)


def enabled(pair: Pair, **arguments: Any) -> Client:
    """A client of a vhost that has a feed."""
    asked(pair, "enable_feed", vhost="/", **arguments)
    pair.settle()
    return pair.a.client()


def blocks(client: Client) -> list[bytes]:
    """What the feed's queue has; it is taken out."""
    client.pair.settle()
    found = []
    while (got := client.get(QUEUE)) is not None:
        found.append(got.body)
        client.ack(got.tag)
    return found


def rows(client: Client, queue: str = "q") -> list[Row]:
    """What was told of a queue since the last look, without what is alike in all rows."""
    told: list[Row] = table(blocks(client)).to_pylist()
    return [row for row in told if row["queue"] == queue]


def brief(told: list[Row]) -> set[tuple[Any, ...]]:
    """Events, where they begin and of how many messages, and why."""
    return {(row["event"], row["first_offset"], row["count"], row["reason"]) for row in told}


@pytest.mark.parametrize("kind", ["quorum", "classic", "transient"])
def test_what_becomes_of_messages_is_told_by_runs(kind: str) -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    if kind == "transient":
        client.declare("q", durable=False)
    else:
        client.declare("q", kind=kind)
    client.publish_confirmed("q", 5)
    for _ in range(3):
        client.get("q")
    client.ack(2, multiple=True)
    client.send(spec.BasicReject(3, True))
    again = client.get("q")
    assert again is not None and again.redelivered
    client.send(spec.BasicReject(4, False))
    client.call(spec.QueuePurge(0, "q", False))
    told = rows(client)
    assert brief(told) == {
        ("leading", 0, 0, None),
        ("published", 0, 5, None),
        ("confirmed", 0, 5, None),
        *(("delivered", position, 1, None) for position in range(3)),
        ("acked", 0, 2, None),
        ("returned", 2, 1, "requeued"),
        ("delivered", 2, 1, "redelivered"),
        ("rejected", 2, 1, None),
        ("dropped", 2, 1, "rejected"),
        ("dropped", 3, 2, "purged"),
    }
    (published,) = (row for row in told if row["event"] == "published")
    record = pair.a.record("q")
    assert published["incarnation"] == record.group_id and published["bytes"] > 5
    assert (published["vhost"], published["node"]) == ("/", "a")
    consumers = {row["consumer"] for row in told if row["event"] in ("delivered", "acked")}
    assert len(consumers) == 1 and None not in consumers
    assert all(row["time"].timestamp() * 1_000 > 0 and row["left_out"] == 0 for row in told)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_where_messages_go_that_die_is_told(kind: str) -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    asked(
        pair, "set_policy", vhost="/", name="d", pattern="^q$",
        definition='{"dead-letter-exchange": "elsewhere", "max-length": 2}',
    )  # fmt: skip
    client.declare("q", kind=kind)
    client.publish_confirmed("q", 3)
    client.publish("q", b"brief", expiration="1")
    client.get("q")
    client.send(spec.BasicReject(1, False))
    told = rows(client)
    died = [row for row in told if row["event"] == "dead_lettered"]
    assert {row["reason"] for row in died} >= {"maxlen", "rejected"}
    assert {row["detail"] for row in died} == {'{"exchange": "elsewhere"}'}
    gone = [row["first_offset"] + at for row in died for at in range(row["count"])]
    assert len(gone) == len(set(gone)) >= 2


def test_life_cycles_are_told_with_the_ids_of_consumers() -> None:
    pair = Pair(alone=True)
    watcher = enabled(pair)
    client = pair.a.client()
    client.declare("q", kind="quorum")
    client.consume("q")
    client.publish("q", b"1")
    pair.until(lambda: len(client.messages) == 1)
    client.vanish()
    told: list[Row] = table(blocks(watcher)).to_pylist()
    life = {row["event"]: json.loads(row["detail"]) for row in told if row["queue"] is None}
    assert life["queue.created"]["name"] == "q"
    assert {"connection.created", "connection.closed", "channel.created"} <= set(life)
    begun = life["consumer.created"]
    assert begun["queue"] == "q" and begun["consumer_tag"]
    assert "consumer.deleted" in life
    handed = [row for row in told if row["event"] == "delivered"]
    assert [row["consumer"] for row in handed] == [begun["consumer_id"]]
    assert ("returned", 0, 1, "gone") in brief(told)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_groups_of_readers_are_told_of(kind: str) -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q", kind=kind)
    client.publish_confirmed("q", 4)
    queue = pair.a.queue("q")
    rows(client)
    client.call(spec.TableAcquire(0, "q", "archive", 0))
    assert queue.as_table() is not None
    client.call(spec.TableCheckout(0, "q", "archive", 1, 0, 3, 1_000, 1 << 40))
    client.call(spec.TableSettle(0, "q", "archive", 1, 1))
    told = rows(client)
    assert brief(told) == {("delivered", 0, 3, None), ("acked", 0, 3, None)}
    assert {(row["consumer"], row["detail"]) for row in told} == {(0, '{"group": "archive"}')}


def test_a_feed_is_of_the_queues_that_its_pattern_names_and_never_of_its_own() -> None:
    pair = Pair(alone=True)
    client = enabled(pair, pattern="^in[.]|warren")
    for name in ("in.a", "out.b"):
        client.declare(name, kind="quorum")
        client.publish_confirmed(name, 1)
    told = table(blocks(client)).to_pylist()
    assert {row["queue"] for row in told} == {"in.a", None}
    assert asked(pair, "list_feeds")[0].pattern == "^in[.]|warren"
    asked(pair, "enable_feed", vhost="/", pattern="^out")
    pair.settle()
    blocks(client)
    for name in ("in.a", "out.b"):
        client.publish(name, b"more")
    told = table(blocks(client)).to_pylist()
    assert {row["queue"] for row in told if row["event"] == "published"} == {"out.b"}


@pytest.mark.parametrize("kind", ["quorum", "classic", "transient"])
def test_deliveries_and_acks_are_of_the_time_at_which_they_happen(kind: str) -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    if kind == "transient":
        client.declare("q", durable=False)
    else:
        client.declare("q", kind=kind)
    client.publish_confirmed("q", 2)
    pair.settle()
    got_ms = pair.clock.wall_ns() // 1_000_000
    got = client.get("q")
    assert got is not None
    pair.settle()
    acked_ms = pair.clock.wall_ns() // 1_000_000
    client.ack(got.tag)
    pair.settle()
    consumed_ms = pair.clock.wall_ns() // 1_000_000
    client.consume("q")
    pair.until(lambda: len(client.messages) == 1)
    told = {
        (row["event"], row["first_offset"]): row["time"].timestamp() * 1_000 for row in rows(client)
    }
    assert got_ms <= told["delivered", 0] < acked_ms
    assert acked_ms <= told["acked", 0] < consumed_ms <= told["delivered", 1]


def test_what_consumers_have_in_turn_is_a_row_for_each_of_them() -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q", kind="quorum")
    workers = [pair.a.client() for _ in range(3)]
    for worker in workers:
        worker.qos(100)
        worker.consume("q")
    pair.settle()
    rows(client)
    client.publish_confirmed("q", 12)
    pair.until(lambda: all(len(worker.messages) == 4 for worker in workers))
    for worker in workers:
        worker.ack(4, multiple=True)
    pair.settle()
    found = blocks(client)
    told = [row for row in table(found).to_pylist() if row["queue"] == "q"]
    for event in ("delivered", "acked"):
        of_it = [row for row in told if row["event"] == event]
        assert {(row["first_offset"] % 3, row["step"]) for row in of_it} == {(0, 3), (1, 3), (2, 3)}
        assert len({row["consumer"] for row in of_it}) == 3
        one_each = table(found, explode=True).to_pylist()
        offsets = [row["offset"] for row in one_each if row["event"] == event]
        assert sorted(offsets) == list(range(12))


def test_numbers_go_on_however_many_feeds_ended() -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q", kind="quorum")
    client.publish_confirmed("q", 1)
    last = [decode(each).column("block")[0].as_py() for each in blocks(client)][-1]
    events = pair.a.node.feeds
    asked(pair, "disable_feed", vhost="/")
    pair.settle()
    for number in range(1_100):
        vhost = f"v{number}"
        pair.a.node.metadata.parameters[vhost, "warren-feed", "feed"] = b"{}"
        events.life_cycle(vhost, "vhost.created", {}, 1)
        del pair.a.node.metadata.parameters[vhost, "warren-feed", "feed"]
        events.life_cycle(vhost, "vhost.deleted", {}, 1)
    asked(pair, "enable_feed", vhost="/")
    pair.settle()
    client.publish("q", b"told")
    told = [decode(each).column("block")[0].as_py() for each in blocks(client)]
    assert told[0] > last and told == list(range(told[0], told[0] + len(told)))


def test_a_thousand_vhosts_have_a_feed_each() -> None:
    pair = Pair(alone=True)
    enabled(pair)
    node = pair.a.node
    for number in range(1_000):
        vhost = f"v{number}"
        node.metadata.parameters[vhost, "warren-feed", "feed"] = b"{}"
        node.feeds.life_cycle(vhost, "vhost.created", {}, 1)
    # Their queues are not there: what is told waits, and each turn looks at a few.
    node.feeds.tick()
    assert node.feeds.waiting() and not node.feeds.go_on()
    pair.settle()
    client = pair.a.client()
    client.declare("q")
    assert blocks(client), "they do not hold up the feed of a vhost that has its queue"
    for number in range(1_000):
        del node.metadata.parameters[f"v{number}", "warren-feed", "feed"]
    pair.settle(1_200)
    assert not node.feeds.waiting()


@pytest.mark.parametrize("kind", ["classic", "transient", "rejecting", "exclusive"])
def test_the_queue_of_a_feed_may_be_of_any_kind(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    arguments: dict[str, Any] = {}
    if kind == "rejecting":
        arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    client.call(
        spec.QueueDeclare(
            0, QUEUE, False, kind not in ("transient", "exclusive"), kind == "exclusive", False,
            False, arguments,
        )
    )  # fmt: skip
    asked(pair, "enable_feed", vhost="/")
    pair.settle()
    client.declare("q", kind="quorum")
    for _ in range(3):
        client.publish_confirmed("q", 1)
        pair.settle()
    found = [decode(each) for each in blocks(client)]
    numbers = [batch.column("block")[0].as_py() for batch in found]
    client.publish_confirmed("q", 1)
    found = [decode(each) for each in blocks(client)]
    numbers += [batch.column("block")[0].as_py() for batch in found]
    if kind == "rejecting":
        # What was rejected is a gap.
        assert len(numbers) == 2 and numbers[1] - numbers[0] > 1
    else:
        assert numbers == list(range(1, len(numbers) + 1))
    told = pa.Table.from_batches(found).to_pylist()
    assert {row["queue"] for row in told} <= {"q", None}
    assert [row["first_offset"] for row in told if row["event"] == "published"] == [3]


def test_what_is_told_waits_for_a_queue_that_was_deleted() -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q", kind="quorum")
    numbers = [decode(each).column("block")[0].as_py() for each in blocks(client)]
    client.call(spec.QueueDelete(0, QUEUE, False, False, False))
    client.publish_confirmed("q", 2)
    pair.settle()
    client.declare(QUEUE)
    found = [decode(each) for each in blocks(client)]
    assert found[0].column("block")[0].as_py() == numbers[-1] + 1
    assert ("published", 0, 2, None) in brief(pa.Table.from_batches(found).to_pylist())


def test_a_feed_ends_and_goes_on_with_the_next_number() -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q", kind="quorum")
    client.publish_confirmed("q", 1)
    before = [decode(each).column("block")[0].as_py() for each in blocks(client)]
    asked(pair, "disable_feed", vhost="/")
    pair.settle()
    # What was told until then comes yet.
    before += [decode(each).column("block")[0].as_py() for each in blocks(client)]
    assert before == list(range(1, len(before) + 1))
    client.publish("q", b"untold")
    assert blocks(client) == []
    assert pair.a.queue("q").feed is None and not pair.a.node.events.on()
    asked(pair, "enable_feed", vhost="/")
    pair.settle()
    client.publish("q", b"told")
    found = [decode(each) for each in blocks(client)]
    assert found[0].column("block")[0].as_py() == before[-1] + 1
    told = pa.Table.from_batches(found).to_pylist()
    assert ("leading", 2, 0, None) in brief(told)


def test_the_leader_alone_tells_and_the_next_one_says_from_where() -> None:
    pair = three_with_messages("q")
    asked(pair, "enable_feed", vhost="/")
    pair.settle()
    client = pair.a.client()
    client.publish("q", b"one")
    pair.settle()
    told = rows(client)
    assert {row["node"] for row in told if row["event"] == "published"} == {"a"}
    pair.stations["a"].kill()
    watcher = pair.b.client()
    pair.until(
        lambda: (
            pair.b.queue("q").proposer().leads() or pair.stations["c"].queue("q").proposer().leads()
        )
    )
    watcher.publish("q", b"two")
    pair.settle()
    told = rows(watcher)
    (leading,) = (row for row in told if row["event"] == "leading")
    assert leading["first_offset"] == 6 and leading["node"] in ("b", "c")
    assert {(row["node"], row["first_offset"]) for row in told if row["event"] == "published"} == {
        (leading["node"], 6)
    }


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_what_cannot_be_told_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    monkeypatch.setattr(feeds, "ROWS_MAX", 4)
    client.declare("q", kind="quorum")
    client.call(spec.QueueDelete(0, QUEUE, False, False, False))
    for _ in range(20):
        client.publish_confirmed("q", 1)
    asked(pair, "enable_feed", vhost="/")
    pair.settle()
    client.publish_confirmed("q", 1)
    told = table(blocks(client)).to_pylist()
    assert told[-1]["left_out"] > 0
    assert {row["life"] for row in told} == {told[0]["life"]}


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
def test_scattered_messages_that_are_acked_at_once_are_told_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    monkeypatch.setattr(feeds, "RUNS_AT_ONCE_MAX", 1)
    client.declare("q", kind="quorum")
    client.publish_confirmed("q", 6)
    for _ in range(6):
        client.get("q")
    for tag in (2, 4):
        client.ack(tag)
    pair.settle()
    client.ack(6, multiple=True)
    client.publish_confirmed("q", 1)
    told = rows(client)
    assert told[-1]["left_out"] >= 2


def test_an_orderly_stop_writes_what_is_left() -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q")
    pair.settle()
    node = pair.a.node
    client.publish("q", b"last")
    client.exchange()
    node.turn()
    assert node.feeds.waiting()
    assert not node.at_rest(1)
    node.prepare_close()
    assert not node.feeds.waiting()


def test_definitions_have_the_feed() -> None:
    pair = Pair(alone=True)
    enabled(pair, pattern="^in[.]")
    exported = asked(pair, "export_definitions")
    other = Pair(alone=True)
    assert asked(other, "import_definitions", definitions=exported).skipped == []
    (row,) = asked(other, "list_feeds")
    assert (row.queue, row.pattern) == (QUEUE, "^in[.]")
    assert other.a.knows(QUEUE)


def test_what_is_wrong_with_a_feed_is_refused() -> None:
    pair = Pair(alone=True)

    def refusal(operation: str, **arguments: Any) -> tuple[int, str]:
        with pytest.raises(Refusal) as caught:
            asked(pair, operation, **arguments)
        return caught.value.kind, caught.value.text

    assert refusal("enable_feed", vhost="none")[0] == NOT_FOUND
    kind, text = refusal("enable_feed", vhost="/", pattern="(")
    assert kind == PRECONDITION_FAILED and "regular expression" in text
    assert "at most 255 bytes" in refusal("enable_feed", vhost="/", queue="q" * 256)[1]
    assert "at least 1 byte" in refusal("enable_feed", vhost="/", max_bytes=0)[1]
    assert refusal("disable_feed", vhost="/") == (NOT_FOUND, "vhost '/' has no events feed")
    value = {"vhost": "/", "component": "warren-feed", "name": "feed"}
    assert "no key 'where'" in refusal("set_parameter", **value, value='{"where": "x"}')[1]
    assert (
        "must be 'feed'"
        in refusal("set_parameter", vhost="/", component="warren-feed", name="x", value="{}")[1]
    )
    asked(pair, "set_parameter", **value, value='{"queue": "mine"}')
    (row,) = asked(pair, "list_feeds", vhost="/")
    assert (row.queue, row.pattern) == ("mine", "")


@pytest.mark.parametrize("by_token", [False, True])
def test_a_policymaker_points_a_feed_where_they_may_write(by_token: bool) -> None:
    """Else they would fill any queue of the vhost, which administrators may."""
    pair = Pair(alone=True)
    for name in ("payments", "own.feed"):
        pair.a.client().declare(name)
    for command in (
        commands.SetUser("p", b"", "rabbit_password_hashing_sha256", ["policymaker"], False),
        commands.SetPermissions("p", "/", "^own", "^(own|payments)", ""),
    ):
        pair.a.node.store.submit(command, None)
    pair.settle()
    scopes = [
        GrantedScope(permission, "*", name, "*")
        for permission, name in (("configure", "own*"), ("write", "own*"), ("write", "payments"))
    ]
    grants = Grants("p", ["policymaker"], scopes, NEVER) if by_token else None
    caller = Caller("p", frozenset({"policymaker"}), grants)
    value = {"vhost": "/", "component": "warren-feed", "name": "feed"}

    def wanted(queue: str) -> Any:
        service = service_of(pair)
        given = OPERATIONS["enable_feed"].asked(service, caller, {"vhost": "/", "queue": queue})
        answered(pair, lambda: given)
        said = {**value, "value": msgspec.json.encode({"queue": queue}).decode()}
        return answered(pair, lambda: OPERATIONS["set_parameter"].asked(service, caller, said))

    with pytest.raises(Refusal, match="configure access to queue 'payments'"):
        wanted("payments")
    said = {**value, "value": '{"queue": "payments"}'}
    with pytest.raises(Refusal, match="configure access to queue 'payments'"):
        answered(pair, lambda: OPERATIONS["set_parameter"].asked(service_of(pair), caller, said))
    assert asked(pair, "list_feeds") == []
    wanted("own.feed")
    (row,) = asked(pair, "list_feeds")
    assert row.queue == "own.feed"
    # Administrators may anyway.
    asked(pair, "set_parameter", **said)


def test_the_schema_is_the_same_whatever_is_told() -> None:
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q", kind="quorum")
    client.publish_confirmed("q", 2)
    found = blocks(client)
    assert table(found).schema == arrow_schema()
    one_each = table(found, explode=True)
    assert one_each.schema == arrow_schema(explode=True)
    offsets = [row["offset"] for row in one_each.to_pylist() if row["event"] == "published"]
    assert offsets == [0, 1]


@pytest.mark.parametrize("value", [b"", b'{"pattern": "^q$"}'], ids=["ends", "changes"])
def test_what_is_told_goes_to_a_queue_that_is_used_for_the_first_time_then(value: bytes) -> None:
    """Seed 5336 of clusters: a feed that ended began to use its queue, which asked for the feed."""
    pair = three_with_messages("q")
    client = enabled(pair)
    last = pair.add("d")
    pair.until(lambda: last.knows("q"))
    blocks(client)
    node = last.node
    assert node.queues.find("/", QUEUE) is None
    node.feeds.life_cycle("/", "user.told", {}, 1)
    # As the tables say from an entry on, before any tick.
    if value:
        node.metadata.parameters["/", "warren-feed", "feed"] = value
    else:
        del node.metadata.parameters["/", "warren-feed", "feed"]
    node.feeds.look_again()
    node.feeds.life_cycle("/", "user.untold", {}, 1)
    told = table(blocks(client)).to_pylist()
    assert ("d", "user.told") in {(row["node"], row["event"]) for row in told}


def test_blocks_wait_while_the_node_of_their_queue_is_away() -> None:
    """Seed 5517 of clusters: each tick lost one, as if there was a way to the queue."""
    pair = Pair()
    other = pair.stations["b"]
    other.client().declare(QUEUE, kind="classic")
    pair.settle()
    client = enabled(pair)
    pair.a.client()
    told = [decode(each) for each in blocks(client)]
    other.kill()
    pair.until(lambda: pair.a.node.cluster.detector.suspected("b"))
    other.disk.restart()
    for number in range(5):
        pair.a.node.feeds.life_cycle("/", f"away.{number}", {}, 1)
        pair.settle(10)
    other.start()
    queue = pair.a.node.queues.find("/", QUEUE)
    assert isinstance(queue, ProxyQueue)
    pair.until(lambda: queue.line.number != 0)
    watcher = other.client()
    pair.a.node.feeds.life_cycle("/", "back", {}, 1)
    told += [decode(each) for each in blocks(watcher)]
    events = [each for block in told for each in block.column("event").to_pylist()]
    assert [each for each in events if each.startswith(("away", "back"))] == [
        *(f"away.{number}" for number in range(5)),
        "back",
    ]


def test_a_node_without_queues_tells_of_its_clients() -> None:
    """It hears of the feed with the tables, at once and when it starts again."""
    pair = three_with_messages("q")
    asked(pair, "enable_feed", vhost="/")
    pair.settle(40)
    last = pair.add("d")
    for again in (False, True):
        if again:
            last.kill()
            last.disk.restart()
            last.start()
        pair.until(lambda: last.knows("q"))
        last.client()
        watcher = pair.a.client()
        told: list[Row] = []

        def has_come(told: list[Row] = told, watcher: Client = watcher) -> bool:
            told += table(blocks(watcher)).to_pylist()
            return any((row["node"], row["event"]) == ("d", "channel.created") for row in told)

        pair.until(has_come)


def test_nothing_is_kept_of_vhosts_that_are_gone() -> None:
    pair = Pair(alone=True)
    for _ in range(2):
        asked(pair, "add_vhost", name="v")
        all_rights = dict.fromkeys(("configure", "write", "read"), ".*")
        asked(pair, "set_permissions", vhost="v", user="guest", **all_rights)
        asked(pair, "enable_feed", vhost="v")
        pair.settle()
        client = pair.a.client(vhost="v")
        client.declare("q", kind="quorum")
        client.publish_confirmed("q", 1)
        told = table(blocks(client)).to_pylist()
        asked(pair, "disable_feed", vhost="v")
        asked(pair, "delete_vhost", name="v")
        pair.settle()
    assert told[0]["block"] > 1, "what comes to a vhost of the same name has numbers of its own"
    asked(pair, "enable_feed", vhost="/")
    asked(pair, "disable_feed", vhost="/")
    pair.settle()
    assert pair.a.node.feeds._ended.keys() == {"v", "/"}, "a number each, of 1,024 at most"


def test_names_of_queues_count_for_what_waits() -> None:
    """Of very many queues whose names are as long as they may be, while the feed has no queue."""
    pair = Pair(alone=True)
    client = enabled(pair)
    client.declare("q", kind="quorum")
    client.call(spec.QueueDelete(0, QUEUE, False, False, False))
    writer = pair.a.queue("q").feed.writer
    for number in range(20_000):
        QueueFeed(writer, f"{number}".ljust(255, "."), number + 1).published(0, 1, 1, 1)
        assert writer.due or number < feeds.OPEN_RUNS_ENOUGH
    asked(pair, "enable_feed", vhost="/")
    (most, *_) = sorted(blocks(client), key=len, reverse=True)
    batch = decode(most)
    assert 16_000 < batch.num_rows < 17_000 and len(most) < 5_300_000
    assert batch.column("left_out")[0].as_py() >= 20_000 - batch.num_rows
