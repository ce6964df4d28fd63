"""Many queues are changed in slices of time, and with a bounded number of changes under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.node.pair import Pair
from warren.admin.service import members, slices
from warren.admin.service.members import CROWDED, QueueOperators

QUEUES = 40
AT_ONCE = 6


class Host:
    """What changes of members need of a server."""

    def guarded(self, step: Callable[[], None]) -> None:
        step()

    def after_event(self) -> None:
        """The pair takes turns anyhow."""


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.setattr(members, "CHANGES_AT_ONCE_MAX", AT_ONCE)
    monkeypatch.setattr(slices, "STEPS_AT_ONCE", 1)
    monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
    pair = Pair()
    client = pair.a.client()
    for number in range(QUEUES):
        client.declare(f"q{number}", kind="quorum", size=1)
    pair.settle()
    return pair


def votes_on(pair: Pair, name: str) -> int:
    queues = pair.a.node.tables.machine.vhosts["/"].queues.values()
    return sum(any(row.node == name and row.voter for row in queue.members) for queue in queues)


async def ask(pair: Pair, steps: bool, action: str, **words: Any) -> tuple[Any, int, int]:
    """The answer, the most changes that were under way, and how often others had their turn."""
    operators = QueueOperators(pair.a.node, Host())  # type: ignore[arg-type]
    proposals = pair.a.node.tables.member().proposals
    task = asyncio.create_task(operators.answer(action, words))
    most = turns = 0
    while not task.done():
        most = max(most, len(proposals))
        turns += 1
        await asyncio.sleep(0)
        if steps:
            pair.step()
    return await task, most, turns


def test_changes_of_many_queues_are_made_in_parts(pair: Pair) -> None:
    for action, node, voting in (("grow", "b", QUEUES), ("shrink", "b", 0)):
        rows, most, turns = asyncio.run(ask(pair, True, action, node=node))
        assert [row["result"] for row in rows] == ["ok"] * QUEUES
        assert votes_on(pair, node) == voting
        assert 1 < most <= AT_ONCE
        assert turns > 3 * QUEUES


def test_changes_that_do_not_come_into_force_are_waited_for_once(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster stands still meanwhile."""
    monkeypatch.setattr(QueueOperators._until, "__defaults__", (0.2,))
    monkeypatch.setattr(members, "WAIT_SECONDS", 0.2)
    rows, most, _ = asyncio.run(ask(pair, False, "grow", node="b"))
    assert most == AT_ONCE
    assert sum(row["result"].endswith(CROWDED) for row in rows) == QUEUES - AT_ONCE
