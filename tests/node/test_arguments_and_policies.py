"""Which setting counts where arguments and policies of users and operators say it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admin.host import service_of
from tests.node.pair import Client, Pair, three_with_messages
from warren.admin.service.caller import LOCAL
from warren.admin.service.queues import list_queues
from warren.admin.service.rows import QueueRow
from warren.errors import Refusal
from warren.limits import FRAME_BYTES_MAX
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.metadata.policy_checks import check_settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

KINDS = ("classic", "quorum")


def declare(client: Client, name: str, kind: str, **arguments: Any) -> spec.Method:
    table: Table = {"x-queue-type": kind}
    table |= {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    return client.call(spec.QueueDeclare(0, name, False, True, False, False, False, table))


def policy(
    pair: Pair, definition: dict[str, Any], pattern: str = "^q", operator: bool = False
) -> None:
    """Set a policy of users, or of operators, and wait until queues know it."""
    pair.a.node.store.submit(SetPolicy("/", "p", operator, pattern, "queues", 0, definition), None)
    pair.settle()


def left_of(client: Client, name: str, count: int) -> int:
    """How many messages a queue has after so many were published, and answered."""
    if not client.published:
        client.call(spec.ConfirmSelect(False))
    for _ in range(count):
        client.publish(name, b"x")
    client.pair.until(lambda: len(client.acked | client.nacked) == client.published)
    return length(client, name)


def length(client: Client, name: str) -> int:
    found = client.declare(name, passive=True)
    assert isinstance(found, spec.QueueDeclareOk)
    return found.message_count


def pass_time(pair: Pair, milliseconds: int) -> None:
    """Go on for so long."""
    pair.minds_seconds = True
    end = pair.clock.monotonic_ms() + milliseconds
    pair.until(lambda: pair.clock.monotonic_ms() >= end)


@pytest.mark.rule("ARG-01", "ARG-04")
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_arguments_is_for_one_queue_and_a_policy_for_many(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    policy(pair, {"max-length": 4})
    declare(client, "own", kind, max_length=3, any_other="is kept")
    for name in ("q1", "q2", "free"):
        declare(client, name, kind)
    found = {name: left_of(client, name, 9) for name in ("own", "q1", "q2", "free")}
    assert found == {"own": 3, "q1": 4, "q2": 4, "free": 9}
    record = pair.a.record("own")
    assert record.arguments["x-any-other"] == "is kept"


@pytest.mark.rule("ARG-03")
@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_changes_later_what_arguments_set_but_type_and_priorities(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "q", kind, max_length=8)
    assert left_of(client, "q", 9) == 8
    policy(pair, {"max-length": 5})
    pair.until(lambda: length(client, "q") == 5)
    policy(pair, {"max-length": 2})
    pair.until(lambda: length(client, "q") == 2)
    pair.a.node.store.submit(ClearPolicy("/", "p", False), None)
    pair.settle()
    assert left_of(client, "q", 9) == 8
    for key in ("queue-type", "max-priority"):
        for operator in (False, True):
            with pytest.raises(Refusal):
                check_settings(operator, {key: 3})


@pytest.mark.rule("D-20")
@pytest.mark.rule("ARG-05")
@pytest.mark.parametrize("kind", KINDS)
def test_an_argument_wins_over_a_policy_but_for_keys_that_say_otherwise(kind: str) -> None:
    """Where messages go that die, arguments say; of numbers the smaller one counts (B-06)."""
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("by-argument", "by-policy"):
        declare(client, name, "classic")
    policy(
        pair,
        {
            "dead-letter-exchange": "", "dead-letter-routing-key": "by-policy",
            "max-length": 5, "overflow": "drop-head",
        },
    )  # fmt: skip
    declare(client, "q1", kind, dead_letter_exchange="", dead_letter_routing_key="by-argument")
    declare(client, "q2", kind)
    declare(client, "q3", kind, max_length=7)
    declare(client, "q4", kind, max_length=2, overflow="reject-publish")
    assert left_of(client, "q1", 6) == 5
    pair.until(lambda: length(client, "by-argument") == 1)
    assert left_of(client, "q2", 7) == 5
    pair.until(lambda: length(client, "by-policy") == 2)
    assert left_of(client, "q3", 9) == 5
    # Of this key the policy wins: nothing is rejected.
    before = len(client.nacked)
    assert left_of(client, "q4", 9) == 2 and len(client.nacked) == before


@pytest.mark.rule("ARG-06", "ARG-07", "ARG-08")
@pytest.mark.parametrize("kind", KINDS)
def test_operators_bound_what_clients_and_users_ask_for(kind: str) -> None:
    """A client gets less than the operator allows if it asks for that, and never more."""
    pair = Pair(alone=True)
    client = pair.a.client()
    policy(pair, {"max-length": 6, "overflow": "drop-head"})
    bounds = {"max-length": 4, "overflow": "reject-publish", "max-length-bytes": 1_000_000}
    policy(pair, bounds, operator=True)
    declare(client, "q-more", kind, max_length=100, overflow="drop-head")
    declare(client, "q-less", kind, max_length=2)
    declare(client, "q-none", kind)
    assert left_of(client, "q-none", 9) in (4, 5)
    rejected = len(client.nacked)
    assert rejected >= 4  # the operator's overflow counts, whatever users say
    assert left_of(client, "q-more", 9) in (4, 5) and len(client.nacked) > rejected
    assert left_of(client, "q-less", 9) in (2, 3)
    policy(pair, {"message-ttl": 3_000}, operator=True)
    policy(pair, {"message-ttl": 60_000})
    declare(client, "q-longer", kind, message_ttl=3_600_000)
    declare(client, "q-shorter", kind, message_ttl=500)
    assert left_of(client, "q-longer", 3) == left_of(client, "q-shorter", 3) == 3
    pass_time(pair, 1_000)
    assert (length(client, "q-longer"), length(client, "q-shorter")) == (3, 0)
    pass_time(pair, 3_000)
    assert length(client, "q-longer") == 0
    policy(pair, {"expires": 1_500}, operator=True)
    declare(client, "q-goes", kind, expires=3_600_000)
    pass_time(pair, 4_000)
    assert not pair.a.knows("q-goes")


def rows_of(pair: Pair) -> dict[str, QueueRow]:
    async def listed() -> dict[str, QueueRow]:
        found: dict[str, QueueRow] = {}
        async for part in list_queues(service_of(pair), LOCAL):
            found.update({row.name: row for row in part})
        return found

    return asyncio.run(listed())


@pytest.mark.rule("ARG-15", "MET-02", "MET-06")
@pytest.mark.parametrize("kind", KINDS)
def test_a_list_of_queues_has_their_figures_and_which_policy_applies(kind: str) -> None:
    """Ready and unacknowledged messages are counted apart, by whatever way they change."""
    pair = Pair(alone=True)
    client = pair.a.client()
    policy(pair, {"max-length": 50})
    policy(pair, {"max-length": 60}, "^o", operator=True)
    for name in ("q", "o", "none"):
        declare(client, name, kind)
    client.publish_confirmed("q", 9)
    client.qos(4)
    client.consume("q")
    pair.until(lambda: len(client.messages) == 4)
    rows = rows_of(pair)
    assert {row.name: (row.policy, row.operator_policy) for row in rows.values()} == {
        "q": ("p", ""), "o": ("", "p"), "none": ("", ""),
    }  # fmt: skip
    figures = rows["q"]
    assert (figures.messages_ready, figures.messages_unacknowledged, figures.consumers) == (5, 4, 1)
    client.ack(client.messages[1].tag, True)
    pair.until(lambda: len(client.messages) == 6)
    pair.settle()
    figures = rows_of(pair)["q"]
    assert (figures.messages_ready, figures.messages_unacknowledged) == (3, 4)
    client.vanish()
    pair.settle()
    figures = rows_of(pair)["q"]
    assert (figures.messages_ready, figures.messages_unacknowledged, figures.consumers) == (7, 0, 0)


@pytest.mark.rule("DUR-08")
def test_queues_go_without_being_asked_to() -> None:
    """With their connection, some time after their last use, with their last consumer."""
    pair = Pair(alone=True)
    client, owner = pair.a.client(), pair.a.client()
    owner.declare("exclusive", durable=False, exclusive=True)
    declare(client, "expires", "classic", expires=1_000)
    client.declare("auto", auto_delete=True)
    client.declare("stays")
    for name in ("exclusive", "expires", "auto", "stays"):
        assert pair.a.knows(name)
    pass_time(pair, 2_500)
    assert not pair.a.knows("expires") and pair.a.knows("exclusive") and pair.a.knows("auto")
    owner.vanish()
    pair.until(lambda: not pair.a.knows("exclusive"))
    began = client.consume("auto")
    assert isinstance(began, spec.BasicConsumeOk) and pair.a.knows("auto")
    client.call(spec.BasicCancel(began.consumer_tag, False))
    pair.until(lambda: not pair.a.knows("auto"))
    pass_time(pair, 2_500)
    assert pair.a.knows("stays")


@pytest.mark.rule("CQ-01")
@pytest.mark.parametrize("durable", [True, False])
def test_a_classic_queue_and_its_messages_are_limited_in_number_and_time(durable: bool) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    table: Table = {"x-max-length": 6, "x-message-ttl": 900, "x-expires": 3_000}
    client.call(spec.QueueDeclare(0, "q", False, durable, False, False, False, table))
    assert left_of(client, "q", 9) == 6
    client.publish("q", b"shorter", expiration="100")
    pair.until(lambda: len(client.acked) == client.published)
    assert length(client, "q") == 6
    pass_time(pair, 1_200)
    assert length(client, "q") == 0
    pass_time(pair, 4_500)
    assert not pair.a.knows("q")


@pytest.mark.rule("ARG-02")
def test_what_arguments_set() -> None:
    """A queue's type, expiry, limits and priorities, and a consumer's priority."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "typed", "quorum", delivery_limit=1)
    assert pair.a.record("typed").kind == "quorum"
    declare(client, "ranked", "classic", max_priority=5, max_length_bytes=3_000)
    client.call(spec.ConfirmSelect(False))
    for priority in (1, 4, 2):
        method = spec.BasicPublish(0, "", "ranked", False, False)
        properties = b"\x08\x00" + bytes([priority])
        client.outbox += content_frames(1, method, properties, b"%d" % priority, FRAME_BYTES_MAX)
        client.published += 1
    pair.until(lambda: len(client.acked) == 3)
    got = [client.get("ranked"), client.get("ranked"), client.get("ranked")]
    assert [each.body for each in got if each is not None] == [b"4", b"2", b"1"]
    for each in got:
        assert each is not None
        client.ack(each.tag)
    consumers = [pair.a.client(), pair.a.client()]
    for consumer, priority in zip(consumers, (1, 7), strict=True):
        consumer.qos(2)
        arguments: Table = {"x-priority": priority}
        consumer.call(spec.BasicConsume(0, "ranked", "", False, False, False, False, arguments))
    for _ in range(3):
        client.publish("ranked", b"y")
    pair.until(lambda: len(consumers[1].messages) == 2 and len(consumers[0].messages) == 1)
    declare(client, "expires", "classic", expires=1_000)
    pass_time(pair, 2_500)
    assert not pair.a.knows("expires")


@pytest.mark.rule("CQ-02")
@pytest.mark.parametrize("bound", ["length", "time"])
def test_what_absent_consumers_cost_is_bounded(bound: str) -> None:
    """What the queue has left takes no memory, and its body stays on no disk."""
    pair = Pair(alone=True, file_bytes=1 << 18)
    client = pair.a.client()
    arguments: dict[str, int] = {"max_length": 10} if bound == "length" else {"message_ttl": 200}
    declare(client, "q", "classic", **arguments)
    client.call(spec.ConfirmSelect(False))
    for _ in range(40):
        for _ in range(25):
            client.publish("q", bytes(2_000))
        pair.until(lambda: len(client.acked) == client.published)
    pass_time(pair, 5_000)
    fifo = pair.a.queue("q").fifo
    assert fifo.sizes.count == length(client, "q") == (10 if bound == "length" else 0)
    assert len(fifo.live()) <= 1


@pytest.mark.rule("PROP-05")
def test_names_made_by_the_broker_do_not_collide_when_clients_come_back() -> None:
    pair = Pair(alone=True)
    names: list[str] = []
    for _ in range(3):
        client = pair.a.client()
        for _ in range(2):
            declared = client.declare("", durable=False, exclusive=True, auto_delete=True)
            assert isinstance(declared, spec.QueueDeclareOk)
            names.append(declared.queue)
        client.vanish()
        # The next one does not wait for these to be gone.
    assert len({*names}) == len(names) and all(name.startswith("amq.gen-") for name in names)


@pytest.mark.rule("ACK-03", "ACK-05")
@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_chooses_how_much_it_holds_unacknowledged(kind: str) -> None:
    """Nothing, with automatic acknowledgement; thousands, with a prefetch of that."""
    pair = Pair(alone=True)
    client = pair.a.client()
    declare(client, "manual", kind)
    declare(client, "automatic", kind)
    client.publish_confirmed("manual", 3_000)
    client.publish_confirmed("automatic", 3_000)
    many, free = pair.a.client(), pair.a.client()
    many.qos(2_500)
    many.consume("manual")
    free.qos(1)
    free.consume("automatic", no_ack=True)
    pair.until(lambda: len(many.messages) == 2_500 and len(free.messages) == 3_000)
    pair.settle()
    rows = rows_of(pair)
    assert rows["manual"].messages_unacknowledged == 2_500 and length(client, "manual") == 500
    assert rows["automatic"].messages_unacknowledged == 0 and length(client, "automatic") == 0
    many.vanish()
    free.vanish()
    pair.until(lambda: length(client, "manual") == 3_000)
    assert length(client, "automatic") == 0


@pytest.mark.rule("DUR-14")
def test_an_exclusive_queue_is_on_one_node_and_not_durable_whatever_is_said() -> None:
    pair = Pair()
    client = pair.a.client()
    policy(pair, {"target-group-size": 2}, ".*")
    client.declare("q", durable=True, exclusive=True)
    pair.until(lambda: pair.b.knows("q"))
    record = pair.b.record("q")
    assert (record.durable, record.members, record.node) == (False, [], "a")
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready and not pair.a.knows("q") and not pair.b.knows("q"))


@pytest.mark.rule("POL-01")
@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_that_is_gone_does_not_come_back_with_a_restart(kind: str) -> None:
    """Nodes start with older tables than they had, and nothing goes by what those say."""
    pair = three_with_messages("other", minds_seconds=True)
    client = pair.b.client()
    assert isinstance(client.declare("q", kind=kind), spec.QueueDeclareOk)
    stations = list(pair.stations.values())
    holders = stations if kind == "quorum" else [pair.b]

    def in_force(most: int) -> bool:
        queues = [station.queue("q") for station in holders if station.knows("q")]
        return len(queues) == len(holders) and all(
            queue.fifo.config.limits().max_length == most for queue in queues
        )

    for most in range(1, 9):
        policy(pair, {"max-length": most})
        pair.until(lambda most=most: in_force(most))
        client.publish_confirmed("q", 1)
        assert length(client, "q") == most
        for station in stations:
            station.kill()
        for station in stations:
            station.start()
        pair.until(lambda: all(station.node.ready for station in stations))
        pair.until(lambda most=most: in_force(most))
        pair.settle(60)
        client = pair.b.client()
        assert length(client, "q") == most
