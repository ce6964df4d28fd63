"""`stop_app` ends what does not outlive a stop, and no client is taken for another one."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service import maintenance
from warren.admin.service.caller import LOCAL
from warren.admin.service.clients import anybody, close_connections, own_connections
from warren.admin.service.maintenance import DELETED_AT_ONCE, drain, revive, stop_app

OPENED = 60


def test_queues_that_are_not_durable_end_with_stop_app() -> None:
    """Those of the node that stops; `drain` leaves them, as in RabbitMQ."""
    pair = Pair()
    client, other = pair.a.client(), pair.b.client()
    for number in range(120):
        client.declare(f"lasts.not.{number}", durable=False)
    client.declare("lasts")
    client.declare("replicated", kind="quorum")
    other.declare("elsewhere", durable=False)
    names = lambda: set(service_of(pair).machine.vhosts["/"].queues)  # noqa: E731
    before = names()
    answered(pair, lambda: drain(service_of(pair), LOCAL))
    assert names() == before
    answered(pair, lambda: stop_app(service_of(pair), LOCAL))
    answered(pair, lambda: revive(service_of(pair), LOCAL))
    assert names() == {"lasts", "replicated", "elsewhere"}


def test_stop_app_waits_once_for_a_majority(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many queues are left: they are there when the node comes back."""
    for module in ("service", "topology"):
        monkeypatch.setattr(f"warren.admin.service.{module}.CHANGE_SECONDS", 0.2)
    pair = Pair()
    client = pair.a.client()
    for number in range(DELETED_AT_ONCE + 1):
        client.declare(f"lasts.not.{number}", durable=False)
    asked: list[str] = []
    delete = maintenance.delete_queue

    async def counted(*given: Any, **named: Any) -> None:
        asked.append(named["name"])
        await delete(*given, **named)

    monkeypatch.setattr(maintenance, "delete_queue", counted)
    pair.b.kill()
    answered(pair, lambda: stop_app(service_of(pair), LOCAL))
    assert pair.a.node.connections == {}
    assert len(asked) == DELETED_AT_ONCE


def test_a_pid_names_one_connection_of_a_life() -> None:
    """Memory is used again at once: a list and a close of what it names met another client."""
    pair = Pair(1, alone=True)
    pids: list[str] = []
    for _ in range(OPENED):
        client = pair.a.client()
        client.declare("q")

        async def listed() -> list[str]:
            rows = [
                row async for part in own_connections(service_of(pair), anybody) for row in part
            ]
            return [row.pid for row in rows]

        (pid,) = answered(pair, listed)
        pids.append(pid)
        client.vanish()
        pair.until(lambda: not pair.a.node.connections)
        del client
        gc.collect()
    assert len(set(pids)) == OPENED
    pair.a.client().declare("q")

    async def closed() -> int:
        return await close_connections(service_of(pair), LOCAL, pids=pids, reason="over")

    assert answered(pair, closed) == 0
