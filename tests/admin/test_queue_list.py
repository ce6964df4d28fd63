"""A long list of queues: in parts, in slices of time, and no faster than it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.admin.host import service_of, service_with_queues
from tests.node.pair import Pair
from warren.admin.control import FAILED, UNKNOWN_REQUEST, UNREAD_BYTES_MAX, ControlSocket
from warren.admin.service import queues, slices
from warren.admin.service.caller import LOCAL
from warren.admin.service.host import OperatorLink
from warren.admin.service.node_figures import tally_of
from warren.admin.service.queue_sorting import QueuesInUse, in_order, queues_in_use
from warren.admin.service.queues import list_queues
from warren.admin.service.service import AdminService

QUEUES = 45


class Reader(OperatorLink):
    """Looks like an operator's link."""

    backlog_bytes = 0

    def __init__(self) -> None:
        self.parts: list[list[dict[str, Any]]] = []
        self.over: list[Any] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, message: bytes) -> None:
        kind, content, *_ = msgspec.msgpack.decode(message)
        if kind == "more":
            self.parts.append(content)
        else:
            self.over.append([kind, content])


def put(service: AdminService, reader: Reader, arguments: Any) -> None:
    """Ask as the command does."""
    ControlSocket(service).asked(reader, msgspec.msgpack.encode(["list_queues", arguments]))


async def until(done: Callable[[], object]) -> None:
    """Let others go on until something is so."""
    for _ in range(100_000):
        if done():
            return
        await asyncio.sleep(0)
    raise AssertionError("it has not come about")


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> AdminService:
    """The service of a node with some queues, whose list is made of small parts and slices."""
    monkeypatch.setattr(queues, "PART_ROWS", 10)
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    return service_with_queues(QUEUES)


def test_clients_are_served_between_slices(service: AdminService) -> None:
    async def run() -> None:
        turns, over = 0, False

        async def others() -> None:
            nonlocal turns
            while not over:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        parts = [part async for part in list_queues(service, LOCAL)]
        over = True
        await task
        assert [len(part) for part in parts] == [10, 10, 10, 10, 5]
        assert [row.name for part in parts for row in part] == [
            f"q{number:02}" for number in range(QUEUES)
        ]
        assert turns >= QUEUES

    asyncio.run(run())


def test_a_reader_that_stops_reading_is_waited_for(service: AdminService) -> None:
    async def run() -> None:
        reader = Reader()
        reader.backlog_bytes = UNREAD_BYTES_MAX + 1
        put(service, reader, {})
        await until(lambda: reader.parts)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(reader.parts) == 1
        reader.backlog_bytes = 0
        await until(lambda: reader.over)
        assert [len(part) for part in reader.parts] == [10, 10, 10, 10, 5]
        assert reader.over == [["ok", []]]
        # One that goes away ends the list.
        reader = Reader()
        reader.closed.set_result(None)
        control = ControlSocket(service)
        control.asked(reader, msgspec.msgpack.encode(["list_queues", {}]))
        await until(lambda: not control.busy)
        assert (len(reader.parts), reader.over) == (1, [])

    asyncio.run(run())


def test_a_failure_is_told_and_logged(
    service: AdminService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asks does not wait for an answer that never comes."""

    def broken(*_: object) -> None:
        raise KeyError("a queue of no vhost")

    monkeypatch.setattr(queues, "queue_row", broken)

    async def run() -> None:
        reader = Reader()
        put(service, reader, {})
        await until(lambda: reader.over)
        assert (reader.parts, reader.over) == ([], [["error", FAILED]])

    asyncio.run(run())
    assert "operation list_queues failed" in caplog.text and "of no vhost" in caplog.text


def test_what_can_be_asked(service: AdminService) -> None:
    async def run() -> None:
        for words, refusal in (
            ({"vhost": "none"}, "vhost 'none' does not exist"),
            ({"vhost": 5}, UNKNOWN_REQUEST),
            ([], UNKNOWN_REQUEST),
        ):
            reader = Reader()
            put(service, reader, words)
            await until(lambda reader=reader: reader.over)
            assert (reader.parts, reader.over) == ([], [["error", refusal]])
        reader = Reader()
        ControlSocket(service).asked(reader, msgspec.msgpack.encode(["queues", {}]))
        await until(lambda: reader.over)
        assert reader.over == [["error", UNKNOWN_REQUEST]]
        parts = [part async for part in list_queues(service, LOCAL, vhost="/", own=True)]
        assert len(parts[-1]) == 5

    asyncio.run(run())


def test_members_and_those_online() -> None:
    """As RabbitMQ lists them: all that have a member, and which of them run."""
    pair = Pair()
    pair.a.client().declare("orders", kind="quorum")
    service = service_of(pair)

    async def row() -> queues.QueueRow:
        return [part async for part in list_queues(service, LOCAL)][0][0]

    pair.until(lambda: len(pair.a.record("orders").members) == 2)
    found = asyncio.run(row())
    assert (found.members, found.online) == (["a", "b"], ["a", "b"])
    pair.b.kill()
    pair.until(lambda: pair.a.node.cluster.running() == ["a"])
    found = asyncio.run(row())
    assert (found.members, found.online) == (["a", "b"], ["a"])


@given(
    ranks=st.lists(st.integers(0, 4), max_size=40),
    idle=st.integers(0, 4),
    reverse=st.booleans(),
)
def test_queues_in_use_and_idle_ones_are_one_order(
    ranks: list[int], idle: int, reverse: bool
) -> None:
    """As if all had been sorted: equal ones stay in the order of their names."""
    ranked = [(rank, place) for place, rank in enumerate(ranks) if rank != idle or place % 2]
    rest = [place for place, rank in enumerate(ranks) if rank == idle and not place % 2]

    async def found() -> list[int]:
        return list(await in_order(ranked, rest, idle, reverse))

    everything = sorted(range(len(ranks)), key=ranks.__getitem__, reverse=reverse)
    assert asyncio.run(found()) == everything


def test_those_in_use_hold_have_had_or_wait_for_messages() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("full", "emptied", "consumed", "idle"):
        client.declare(name, kind="quorum" if name == "full" else "classic")
    client.publish_confirmed("full", 1)
    client.publish_confirmed("emptied", 1)
    got = client.get("emptied")
    assert got is not None
    client.ack(got.tag)
    client.consume("consumed")
    pair.settle()
    service = service_of(pair)
    found = asyncio.run(call_in_use(service))
    assert [found.names[place][1] for place in found.used] == ["consumed", "emptied", "full"]
    tally = asyncio.run(tally_of(service, ["/", "nowhere"]))
    assert (tally.count, tally.ready, tally.held, tally.consumers) == (4, 1, 0, 1)


async def call_in_use(service: AdminService) -> QueuesInUse:
    return await queues_in_use(service, LOCAL)
