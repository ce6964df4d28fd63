"""`stop_app` ends what does not outlive a stop, and no client is taken for another one."""

from __future__ import annotations

import gc

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.service.caller import LOCAL
from warren.admin.service.clients import anybody, close_connections, own_connections
from warren.admin.service.maintenance import drain, revive, stop_app

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


def test_stop_app_ends_without_a_majority() -> None:
    pair = Pair()
    pair.a.client().declare("lasts.not", durable=False)
    pair.b.kill()
    answered(pair, lambda: stop_app(service_of(pair), LOCAL))
    assert pair.a.node.connections == {}


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
