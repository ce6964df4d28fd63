"""A long list of queues: in parts, in slices of time, and no faster than it is read."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.node.pair import Pair
from warren.admin.service import queues, slices
from warren.admin.service.queues import UNREAD_BYTES_MAX, QueueList
from warren.errors import ClusterError

QUEUES = 45


class Reader:
    """Looks like an operator's link."""

    def __init__(self) -> None:
        self.parts: list[list[dict[str, Any]]] = []
        self.backlog_bytes = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, message: bytes) -> None:
        """A part came."""
        kind, rows = msgspec.msgpack.decode(message)
        assert kind == "more"
        self.parts.append(rows)


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> QueueList:
    """The list of a node with some queues, made of small parts and slices."""
    monkeypatch.setattr(queues, "PART_ROWS", 10)
    monkeypatch.setattr(slices, "STEPS_AT_ONCE", 1)
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    pair = Pair(1, alone=True)
    client = pair.a.client()
    for number in range(QUEUES):
        client.declare(f"q{number:02}", kind="classic" if number % 2 else "quorum")
    pair.until(lambda: len(pair.a.node.tables.vhosts["/"].queues) == QUEUES)
    return QueueList(pair.a.node)


def test_clients_are_served_between_slices(listing: QueueList) -> None:
    async def run() -> None:
        reader, turns, over = Reader(), 0, False

        async def others() -> None:
            nonlocal turns
            while not over:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(others())
        last = await listing.answer(reader, {})
        over = True
        await task
        assert [len(part) for part in [*reader.parts, last]] == [10, 10, 10, 10, 5]
        names = [row["name"] for part in [*reader.parts, last] for row in part]
        assert names == [f"q{number:02}" for number in range(QUEUES)]
        assert turns >= QUEUES

    asyncio.run(run())


def test_a_reader_that_stops_reading_is_waited_for(listing: QueueList) -> None:
    async def run() -> None:
        reader = Reader()
        reader.backlog_bytes = UNREAD_BYTES_MAX + 1
        task = asyncio.create_task(listing.answer(reader, {}))
        while not reader.parts:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(reader.parts) == 1
        reader.backlog_bytes = 0
        assert len(await task) == 5
        # One that goes away ends the list.
        reader = Reader()
        reader.closed.set_result(None)
        assert await listing.answer(reader, {}) == []
        assert len(reader.parts) == 1

    asyncio.run(run())


def test_what_can_be_asked(listing: QueueList) -> None:
    async def run() -> None:
        with pytest.raises(ClusterError, match="vhost 'none' does not exist"):
            await listing.answer(Reader(), {"vhost": "none"})
        with pytest.raises(ValueError):
            await listing.answer(Reader(), {"vhost": 5})
        assert len(await listing.answer(Reader(), {"vhost": "/", "own": True})) == 5

    asyncio.run(run())
