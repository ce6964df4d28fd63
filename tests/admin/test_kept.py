"""What takes long to find is found once for all who ask within some seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.admin.host import service_of
from tests.node.pair import Pair
from warren.admin.service import kept
from warren.admin.service.caller import LOCAL
from warren.admin.service.clients import channel_page, connection_page
from warren.admin.service.kept import ENTRIES_MAX, KEPT_MIN, KEPT_SECONDS, KeptAnswers
from warren.admin.service.node_figures import own_figures, tally_of
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import method_frame


class Search:
    """Finds a number, which is another one each time, and takes its time.

    Attributes:
        now: What time it is, in seconds.
        count: How often it was begun.
    """

    def __init__(self, seconds: float = 0.1) -> None:
        self.now = 1_000.0
        self.count = 0
        self.fails = False
        self.go_on = asyncio.Event()
        self.go_on.set()
        self._seconds = seconds

    async def find(self) -> int:
        self.count += 1
        found = self.count
        await self.go_on.wait()
        self.now += self._seconds
        if self.fails:
            raise ValueError("it cannot be found")
        return found


def in_a_loop(
    test: Callable[[Search, KeptAnswers], Coroutine[Any, Any, None]],
) -> Callable[[], None]:
    def run() -> None:
        async def whole() -> None:
            search = Search()
            await test(search, KeptAnswers(lambda: search.now))

        asyncio.run(whole())

    run.__name__ = test.__name__
    return run


async def some_rounds() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@in_a_loop
async def test_what_few_things_make_up_is_found_each_time(
    search: Search, here: KeptAnswers
) -> None:
    assert [await here.get("key", KEPT_MIN - 1, search.find) for _ in range(3)] == [1, 2, 3]
    assert len(here) == 0


@in_a_loop
async def test_who_asks_at_once_gets_the_same(search: Search, here: KeptAnswers) -> None:
    search.go_on.clear()
    asking = [asyncio.create_task(here.get("key", KEPT_MIN, search.find)) for _ in range(5)]
    other = asyncio.create_task(here.get("other", KEPT_MIN, search.find))
    await some_rounds()
    # Who does not wait any more takes it from nobody.
    asking[0].cancel()
    await some_rounds()
    search.go_on.set()
    assert await asyncio.gather(*asking[1:], other) == [1, 1, 1, 1, 2]


@in_a_loop
async def test_of_very_many_things_most_are_found_for_those_who_wait(
    search: Search, here: KeptAnswers
) -> None:
    """Else a client that asks for others each time and goes would leave all to be found."""
    search.go_on.clear()
    asking = [
        asyncio.create_task(here.get(number, KEPT_MIN, search.find))
        for number in range(3 * ENTRIES_MAX)
    ]
    await some_rounds()
    assert search.count == 3 * ENTRIES_MAX and len(here) == ENTRIES_MAX
    for task in asking[ENTRIES_MAX:]:
        task.cancel()
    await some_rounds()
    assert all(task.done() for task in asking[ENTRIES_MAX:])
    search.go_on.set()
    assert len(await asyncio.gather(*asking[:ENTRIES_MAX])) == ENTRIES_MAX


@in_a_loop
async def test_it_is_found_anew_behind_the_answers(search: Search, here: KeptAnswers) -> None:
    assert await here.get("key", KEPT_MIN, search.find) == 1
    # Five times as long as it took it is not looked for at all.
    search.now += 0.35
    assert await here.get("key", KEPT_MIN, search.find) == 1
    await some_rounds()
    assert search.count == 1
    search.now += 0.1
    search.go_on.clear()
    assert await here.get("key", KEPT_MIN, search.find) == 1
    await some_rounds()
    # Still that, while it is looked for, and once only.
    assert await here.get("key", KEPT_MIN, search.find) == 1
    assert search.count == 2
    search.go_on.set()
    await some_rounds()
    assert await here.get("key", KEPT_MIN, search.find) == 2


@in_a_loop
async def test_no_answer_is_older_than_seconds(search: Search, here: KeptAnswers) -> None:
    assert await here.get("key", KEPT_MIN, search.find) == 1
    search.now += KEPT_SECONDS
    assert await here.get("key", KEPT_MIN, search.find) == 2


@in_a_loop
async def test_a_failure_is_told_and_not_kept(search: Search, here: KeptAnswers) -> None:
    search.fails = True
    for _ in range(2):
        with pytest.raises(ValueError, match="cannot be found"):
            await here.get("key", KEPT_MIN, search.find)
    search.fails = False
    assert await here.get("key", KEPT_MIN, search.find) == 3
    # One behind an answer is told to nobody, and what there is stays for a while.
    search.fails = True
    search.now += 1.0
    assert await here.get("key", KEPT_MIN, search.find) == 3
    await some_rounds()
    assert search.count == 4
    assert await here.get("key", KEPT_MIN, search.find) == 3


@in_a_loop
async def test_the_oldest_makes_room(search: Search, here: KeptAnswers) -> None:
    for number in range(2 * ENTRIES_MAX):
        await here.get(number, KEPT_MIN, search.find)
    assert len(here) <= ENTRIES_MAX + 1
    count = search.count
    await here.get(2 * ENTRIES_MAX - 1, KEPT_MIN, search.find)
    assert search.count == count


def test_what_nobody_asks_for_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "FORGET_SECONDS", 0.0)

    async def run() -> None:
        search = Search(seconds=KEPT_SECONDS)
        here = KeptAnswers(lambda: search.now)
        await here.get("key", KEPT_MIN, search.find)
        while len(here):
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(run(), 10))


def test_sums_and_orders_of_many_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node says the same of its queues and clients for a while, where these are many."""
    monkeypatch.setattr(kept, "KEPT_MIN", 1)
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("some", kind="classic")
    client.publish_confirmed("some", 1)
    service = service_of(pair)

    async def run() -> None:
        assert (await tally_of(service, ["/"])).ready == 1
        before = await own_figures(service, [])
        client.publish_confirmed("some", 1)
        other = pair.a.client()
        assert (await tally_of(service, ["/"])).ready == 1
        # Another key is another thing.
        assert (await tally_of(service, ["/"], delays=False)).ready == 2
        after = await own_figures(service, [])
        assert (after.connections, after.channels) == (before.connections, before.channels)
        other.vanish()

    asyncio.run(run())


def test_clients_are_listed_as_they_are() -> None:
    """The order by name is kept, and follows connections and channels that come and go."""
    pair = Pair(alone=True)
    service = service_of(pair)

    async def shown() -> tuple[list[str], list[tuple[str, int]]]:
        connections = await connection_page(service, LOCAL)
        channels = await channel_page(service, LOCAL)
        assert connections.total == len(connections.items)
        assert channels.total == len(channels.items)
        backwards = await channel_page(service, LOCAL, count=2, reverse=True)
        assert backwards.items == channels.items[::-1][:2]
        return (
            [row.pid for row in connections.items],
            [(row.connection, row.number) for row in channels.items],
        )

    async def run() -> None:
        assert await shown() == ([], [])
        first, second = pair.a.client(), pair.a.client()
        before = await shown()
        assert len(before[0]) == 2
        assert [number for _, number in before[1]] == [1, 1]
        assert await shown() == before
        second.outbox += method_frame(2, spec.ChannelOpen().encode())
        pair.settle()
        after = await shown()
        assert after[0] == before[0]
        assert sorted(number for _, number in after[1]) == [1, 1, 2]
        second.vanish()
        last = await shown()
        assert len(last[0]) == 1
        assert last[1] == [(last[0][0], 1)]
        first.vanish()
        assert await shown() == ([], [])

    asyncio.run(run())
