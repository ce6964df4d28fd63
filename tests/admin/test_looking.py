"""Looks into queues and searches: every kind of queue, from any node, and nothing is changed."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from sim.disk import SimFile
from tests.admin.host import answered, service_of
from tests.node.pair import Client, Pair
from tests.node.test_paging import COUNT as PAGED
from tests.node.test_paging import SIZE, configure, fill, short
from warren.admin.service.caller import LOCAL
from warren.admin.service.looking import (
    FoundMessages,
    LookedMessages,
    ReadyReader,
    SoughtMessages,
    look,
    queue_here,
    search_messages,
)
from warren.admin.service.messages import get_messages
from warren.admin.service.slices import Slices
from warren.errors import EXHAUSTED, NOT_FOUND, Refusal
from warren.vhost.peeking import Peek
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

COUNT = 30


def publish(client: Client, queue: str, count: int = COUNT) -> None:
    """Messages that are their numbers, each third with a header and a message id."""
    assert isinstance(client.call(spec.ConfirmSelect(False)), spec.ConfirmSelectOk)
    client.published, client.acked = 0, type(client.acked)()
    method = spec.BasicPublish(0, "", queue, False, False)
    for number in range(count):
        properties = b"\x10\x00\x02"
        if number % 3 == 0:
            kind = b"S\x00\x00\x00\x03odd"
            table = b"\x04kind" + kind
            properties = b"\x30\x80" + len(table).to_bytes(4, "big") + table + b"\x02\x02id"
        client.outbox += content_frames(1, method, properties, b"m%d" % number, 131_072)
        client.published += 1
    client.pair.until(lambda: len(client.acked) == count)


def looked(pair: Pair, node: str = "a", queue: str = "q", **words: Any) -> LookedMessages:
    return answered(
        pair, lambda: look(service_of(pair, node), LOCAL, vhost="/", queue=queue, **words)
    )


def searched(pair: Pair, node: str = "a", queue: str = "q", **words: Any) -> FoundMessages:
    wanted = SoughtMessages(
        **{name: words.pop(name) for name in ("where", "name", "text") if name in words}
    )
    return answered(
        pair,
        lambda: search_messages(
            service_of(pair, node), LOCAL, vhost="/", queue=queue, wanted=wanted, **words
        ),
    )


@pytest.mark.parametrize("kind", ["quorum", "classic", "transient"])
@pytest.mark.parametrize("node", ["a", "b"])
def test_nothing_is_taken_or_marked_from_any_node(kind: str, node: str) -> None:
    pair = Pair()
    client = pair.a.client()
    durable = kind != "transient"
    declared = client.declare("q", durable=durable, kind=kind if durable else "classic")
    assert isinstance(declared, spec.QueueDeclareOk)
    publish(client, "q")
    found = looked(pair, node, position=11, count=5, body_bytes=2)
    assert found.ready == COUNT
    assert [each.body for each in found.messages] == [b"m1"] * 5
    assert [each.position for each in found.messages] == [11, 12, 13, 14, 15]
    third = found.messages[2]
    assert third.properties.headers == {"kind": "odd"} and third.properties.message_id == "id"
    assert (third.body_bytes, third.redelivered, third.acquired_count) == (3, False, 0)
    assert looked(pair, node, position=COUNT + 1).messages == []
    assert looked(pair, node, count=0).messages == []
    found_ones = searched(pair, node, where="header", name="kind", text="odd")
    assert [each.body for each in found_ones.messages] == [b"m%d" % n for n in range(0, COUNT, 3)]
    assert (found_ones.looked, found_ones.behind) == (COUNT, None)
    reader = pair.a.client()
    reader.consume("q")
    pair.until(lambda: len(reader.messages) == COUNT)
    assert reader.bodies() == [b"m%d" % number for number in range(COUNT)]
    assert not any(got.redelivered for got in reader.messages)


def test_what_came_back_says_so() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind="quorum")
    publish(client, "q", 3)
    assert client.get("q") is not None
    client.send(spec.BasicReject(1, True))
    pair.until(lambda: pair.a.queue("q").ready_count() == 3)
    before = looked(pair)
    assert [each.redelivered for each in before.messages] == [True, False, False]
    assert before.messages[0].acquired_count == before.messages[0].delivery_count == 1
    assert looked(pair) == before


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_failures_before_a_death_count_once(kind: str) -> None:
    """A quorum queue counts those of elsewhere among its own, a classic one does not."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)
    arguments: Table = {"x-queue-type": "quorum", "x-dead-letter-exchange": ""}
    arguments["x-dead-letter-routing-key"] = "q"
    client.call(spec.QueueDeclare(0, "dying", False, True, False, False, False, arguments))
    publish(client, "dying", 1)
    for tag, requeue in ((1, True), (2, True), (3, False)):
        pair.until(lambda: pair.a.queue("dying").ready_count() == 1)
        assert client.get("dying") is not None
        client.send(spec.BasicReject(tag, requeue))
    pair.until(lambda: pair.a.queue("q").ready_count() == 1)
    assert [each.delivery_count for each in looked(pair).messages] == [3]
    service = service_of(pair)
    (taken,) = answered(pair, lambda: get_messages(service, LOCAL, vhost="/", queue="q"))
    counted = (taken.properties.headers or {}).get("x-delivery-count")
    assert counted == (3 if kind == "quorum" else None)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ({"where": "body", "text": "m2"}, [2, *range(20, COUNT)]),
        ({"where": "body", "text": "none"}, []),
        ({"where": "header", "name": "kind"}, list(range(0, COUNT, 3))),
        ({"where": "header", "name": "kind", "text": "even"}, []),
        ({"where": "property", "name": "message_id", "text": "id"}, list(range(0, COUNT, 3))),
        ({"where": "property", "name": "routing_key", "text": "q"}, list(range(COUNT))),
        ({"where": "property", "name": "exchange", "text": "q"}, []),
        ({"where": "property", "name": "persistent", "text": "true"}, list(range(COUNT))),
    ],
)
def test_a_search_goes_on_where_its_last_part_ended(
    words: dict[str, Any], found: list[int]
) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q")
    publish(client, "q")
    bodies: list[bytes] = []
    behind: int | None = None
    looked_at = parts = 0
    while parts == 0 or behind is not None:
        part = searched(pair, behind=behind, look_at_most=7, most=4, **words)
        bodies += [each.body for each in part.messages]
        behind, looked_at, parts = part.behind, looked_at + part.looked, parts + 1
        assert part.looked <= 7 and len(part.messages) <= 4
    assert bodies == [b"m%d" % number for number in found]
    assert looked_at == COUNT and parts >= COUNT // 7


def test_a_search_goes_on_behind_what_has_left() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q")
    publish(client, "q")
    part = searched(pair, where="body", text="m", look_at_most=5)
    assert part.looked == 5
    reader = pair.a.client()
    for _ in range(8):
        assert reader.get("q") is not None
    rest = searched(pair, where="body", text="m", behind=part.behind)
    assert [each.body for each in rest.messages] == [b"m%d" % n for n in range(8, COUNT)]


def test_long_bodies_are_searched_across_their_parts() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q")
    for at in (262_140, 262_144, 399_994):
        client.publish("q", b"." * at + b"needle" + b"." * (399_994 - at))
    client.publish("q", b"." * 400_000)
    pair.until(lambda: pair.a.queue("q").ready_count() == 4)
    part = searched(pair, where="body", text="needle", body_bytes=3)
    assert [each.position for each in part.messages] == [1, 2, 3]
    assert {each.body for each in part.messages} == {b"..."}


@pytest.mark.rule("CQ-04")
def test_bodies_on_disk_are_read_and_leave_memory_again() -> None:
    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    client.declare("q", durable=False)
    fill(client)
    short(pair, pair.a)
    queue = pair.a.queue("q")
    before = queue.resident_bytes
    found = looked(pair, position=PAGED - 2, count=3, body_bytes=6)
    assert [each.body for each in found.messages] == [b"%06d" % n for n in range(197, 200)]
    part = searched(pair, where="body", text="000190", seconds=5.0, body_bytes=6)
    assert [each.body for each in part.messages] == [b"000190"]
    assert part.looked == PAGED
    assert queue.resident_bytes == before < PAGED * SIZE


@pytest.mark.rule("CQ-04")
def test_what_has_left_meanwhile_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its body was on disk, and the disk failed for a while, in which it was purged."""
    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    client.declare("q", durable=False)
    fill(client)
    short(pair, pair.a)
    queue = pair.a.queue("q")
    assert queue.has(PAGED - 1) and not queue.has(PAGED)

    def fail(file: SimFile, offset: int, size: int) -> bytes:
        raise OSError(errno.ENOMEM, "not now")

    told: list[bool] = []
    peek = Peek(queue, PAGED - 1, lambda: told.append(True))
    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "read", fail)
        peek.resume()
        pair.until(lambda: pair.a.executor.idle)
        client.call(spec.QueuePurge(0, "q", False))
        pair.until(lambda: not queue.has(PAGED - 1))
    queue.retry()
    pair.until(lambda: pair.a.executor.idle)
    assert told == [True] and peek.found is None
    assert looked(pair).messages == []


def test_what_cannot_be_is_refused() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q")
    with pytest.raises(Refusal) as refused:
        looked(pair, queue="none")
    assert refused.value.kind == NOT_FOUND
    for words in (
        {"where": "body"},
        {"where": "header", "text": "x"},
        {"where": "property", "name": "headers"},
        {"where": "property", "name": "none"},
    ):
        with pytest.raises(Refusal):
            searched(pair, **words)
    service = service_of(pair)
    service.searching = 4
    with pytest.raises(Refusal) as refused:
        answered(
            pair,
            lambda: search_messages(
                service, LOCAL, vhost="/", queue="q", wanted=SoughtMessages(where="body", text="x")
            ),
        )
    assert refused.value.kind == EXHAUSTED


def test_a_search_that_consumers_overtake_asks_the_disk_for_nothing_that_left() -> None:
    """It ends its part, and the next one begins with what is ready then."""
    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    client.declare("q", durable=False)
    fill(client)
    short(pair, pair.a)
    service = service_of(pair)
    queue = queue_here(service, service.machine.queue("/", "q"))

    async def overtaken() -> list[Any]:
        reader = ReadyReader(service, queue, Slices())
        first = await reader.read(PAGED - 1)
        client.send(spec.QueuePurge(0, "q", False))
        while queue.ready_count() > 0:
            await asyncio.sleep(0)
        return [first, await reader.read(PAGED - 2), reader.overtaken]

    first, second, told = answered(pair, overtaken)
    assert first is not None and second is None and told
