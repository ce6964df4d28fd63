"""All that operators ask for at once has one slice of each round of the loop, behind messages.

No time decides here: the clock goes on by so much with each look, and each step of the work looks
at it once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.admin.host import service_of, service_with_queues
from tests.node.pair import Pair
from warren.admin.service import clients, definitions, details, queue_sorting
from warren.admin.service.caller import LOCAL
from warren.admin.service.rows import ChannelRow
from warren.admin.service.service import AdminService
from warren.admin.service.slices import (
    SLICE_SECONDS,
    WAIT_SECONDS_MAX,
    Pace,
    Slices,
    give_way,
    pace_of,
)
from warren.metadata.tables import PermissionRecord, TopicPermissionRecord, UserRecord
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame

QUEUES = 60
STEPS = 4
"""Looks at the clock within one slice."""
LOOKS_MAX = STEPS + 3
"""In one round: those of a slice, and of what begins it and ends it."""


class Looks:
    """A clock that goes on with each look; how many there are in each round of the loop.

    Attributes:
        count: Looks so far.
        rounds: Of each round that is over, the looks within it.
    """

    def __init__(self) -> None:
        self.count = 0
        self.rounds: list[int] = []

    def tell(self) -> float:
        """Seconds that pass with looks."""
        self.count += 1
        return self.count * SLICE_SECONDS / STEPS

    async def count_rounds(self) -> None:
        """See each round of the loop."""
        while True:
            before = self.count
            await asyncio.sleep(0)
            self.rounds.append(self.count - before)


@contextlib.asynccontextmanager
async def looking() -> AsyncIterator[tuple[Pace, Looks]]:
    """The pace of the loop with a clock of looks."""
    looks = Looks()
    pace = pace_of(asyncio.get_running_loop())
    pace.clock = looks.tell
    counting = asyncio.create_task(looks.count_rounds())
    yield pace, looks
    counting.cancel()


async def work(parts: int, steps: int) -> int:
    """Something of many parts, of which each is cut into slices by itself; a request begins so."""
    done = 0
    await give_way()
    for _ in range(parts):
        slices = Slices()
        for _ in range(steps):
            done += 1
            await slices.breathe()
    return done


def test_what_is_done_at_once_shares_the_slices_of_the_loop() -> None:
    async def run() -> None:
        async with looking() as (_, looks):
            assert await asyncio.gather(*(work(20, 2) for _ in range(8))) == [40] * 8
            assert looks.count >= 320
            assert max(looks.rounds) <= LOOKS_MAX

    asyncio.run(run())


def test_all_have_their_slice_in_turn() -> None:
    async def run() -> None:
        order: list[int] = []

        async def one(number: int) -> None:
            for _ in range(5):
                await give_way()
                order.append(number)

        await asyncio.gather(*(one(number) for number in range(3)))
        assert order == [0, 1, 2] * 5

    asyncio.run(run())


def test_who_goes_away_in_line_holds_up_nobody() -> None:
    async def run() -> None:
        tasks = [asyncio.create_task(work(5, 5)) for _ in range(6)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert found[1::2] == [25] * 3
        assert all(isinstance(each, asyncio.CancelledError) for each in found[::2])

    asyncio.run(run())


def test_messages_that_wait_come_first() -> None:
    async def run() -> None:
        async with looking() as (pace, _):
            waiting = True
            pace.messages_wait = lambda: waiting
            pace.clock = lambda: 1.0
            task = asyncio.create_task(work(1, 1))
            for _ in range(50):
                await asyncio.sleep(0)
            assert not task.done()
            waiting = False
            assert await task == 1

    asyncio.run(run())


def test_a_node_that_never_runs_out_of_messages_still_answers() -> None:
    async def run() -> None:
        async with looking() as (pace, looks):
            pace.messages_wait = lambda: True
            assert await work(4, 2 * STEPS) == 8 * STEPS
            waits = WAIT_SECONDS_MAX / SLICE_SECONDS * STEPS
            assert looks.count > waits

    asyncio.run(run())


@pytest.fixture
def service() -> AdminService:
    """The service of a node with some queues."""
    return service_with_queues(QUEUES)


def test_lists_that_are_asked_for_at_once_share_the_slices_of_the_loop(
    service: AdminService,
) -> None:
    async def run() -> None:
        async with looking() as (_, looks):

            async def page() -> details.QueuePage:
                await give_way()
                return await details.queue_page(service, LOCAL, count=QUEUES)

            async def lengths() -> queue_sorting.QueueLengths:
                await give_way()
                return await queue_sorting.queue_lengths(service, LOCAL, column="messages")

            *found, told = await asyncio.gather(*(page() for _ in range(4)), lengths())
            assert [len(page.items) for page in found] == [QUEUES] * 4
            assert len(told.names) == QUEUES
            # Each row of a page is a step of three parts of the work at least.
            assert looks.count >= 4 * 3 * QUEUES
            assert max(looks.rounds) <= LOOKS_MAX

    asyncio.run(run())


CHANNELS = 300


def test_channels_of_one_connection_are_looked_at_in_slices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many a client has, and however many of them fit in an answer."""
    pair = Pair(1, alone=True)
    client = pair.a.client()
    opening = spec.ChannelOpen().encode()
    for number in range(2, CHANNELS + 1):
        client.outbox += method_frame(number, opening)
    pair.until(lambda: len(client.end.channel_numbers()) == CHANNELS)
    service = service_of(pair)

    async def run() -> None:
        async with looking() as (pace, looks):
            row_of = clients.channel_row

            def slow_row(*of: Any) -> ChannelRow:
                """A row that takes a step."""
                pace.clock()
                return row_of(*of)

            monkeypatch.setattr(clients, "channel_row", slow_row)
            await give_way()
            page = await clients.channel_page(service, LOCAL, count=CHANNELS)
            assert {row.number for row in page.items} == set(range(1, CHANNELS + 1))
            rows = [row async for part in clients.list_channels(service, LOCAL) for row in part]
            assert len(rows) == CHANNELS and looks.count >= 4 * CHANNELS
            assert max(looks.rounds) <= LOOKS_MAX

    asyncio.run(run())


def test_an_export_of_definitions_looks_at_the_clock_at_each_thing() -> None:
    """Also at users and permissions, of which there may be as many as of queues."""
    pair = Pair(alone=True)
    service = service_of(pair)

    async def looks_of_an_export() -> int:
        async with looking() as (_, looks):
            await definitions.export_definitions(service, LOCAL)
        assert max(looks.rounds) <= LOOKS_MAX
        return looks.count

    few = asyncio.run(looks_of_an_export())
    users = service.machine.users
    vhost = service.machine.vhosts["/"]
    for number in range(QUEUES):
        name = f"u{number}"
        users[name] = UserRecord(name, b"", "", [], False)
        vhost.permissions[name] = PermissionRecord(name, "/", "", "", "")
        vhost.topic_permissions[name] = {"": TopicPermissionRecord(name, "", "", "")}
    many = asyncio.run(looks_of_an_export())
    assert many - few >= 3 * QUEUES
    client = pair.a.client()
    for number in range(QUEUES):
        client.declare(f"q{number}")
    assert asyncio.run(looks_of_an_export()) - many >= 2 * QUEUES
