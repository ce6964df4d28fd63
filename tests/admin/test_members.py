"""Many queues are changed in slices of time, and with a bounded number of changes under way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admin.host import service_of
from tests.node.pair import Pair
from warren.admin.service import changes, members, slices
from warren.admin.service.caller import LOCAL
from warren.admin.service.changes import CROWDED
from warren.admin.service.operation import Operation
from warren.admin.service.service import AdminService

QUEUES = 40
AT_ONCE = 6
STEP_TURNS = 4
"""In so many turns of the loop two changes are asked for, before the nodes take a step."""


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(changes, "CHANGES_AT_ONCE_MAX", AT_ONCE)
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    pair = Pair()
    client = pair.a.client()
    for number in range(QUEUES):
        client.declare(f"q{number}", kind="quorum", size=1)
    pair.settle()
    return pair


def votes_on(pair: Pair, name: str) -> int:
    queues = pair.a.node.metadata.vhosts["/"].queues.values()
    return sum(any(row.node == name and row.voter for row in queue.members) for queue in queues)


async def ask(
    pair: Pair, steps: bool, operation: Operation[Any, Any], **words: Any
) -> tuple[Any, int, int]:
    """The answer, the most changes that were under way, and how often others had their turn."""
    service = service_of(pair)
    proposals = pair.a.node.store.member().proposals
    task = asyncio.create_task(operation(service, LOCAL, **words))
    most = turns = 0
    while not task.done():
        most = max(most, len(proposals))
        turns += 1
        await asyncio.sleep(0)
        if steps and turns % STEP_TURNS == 0:
            pair.step()
    return await task, most, turns


def test_changes_of_many_queues_are_made_in_parts(pair: Pair) -> None:
    for operation, voting in ((members.grow, QUEUES), (members.shrink, 0)):
        rows, most, turns = asyncio.run(ask(pair, True, operation, node="b"))
        assert [row.result for row in rows] == ["ok"] * QUEUES
        assert votes_on(pair, "b") == voting
        assert 1 < most <= AT_ONCE
        assert turns > 3 * QUEUES


def test_changes_that_do_not_come_into_force_are_waited_for_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster stands still from when the tables here say all there is."""

    async def caught_up(service: AdminService) -> None:
        pass

    monkeypatch.setattr(AdminService, "catch_up", caught_up)
    monkeypatch.setattr(changes, "WAIT_SECONDS", 0.2)
    rows, most, _ = asyncio.run(ask(pair, False, members.grow, node="b"))
    assert most == AT_ONCE
    assert sum(row.problem == CROWDED for row in rows) == QUEUES - AT_ONCE
