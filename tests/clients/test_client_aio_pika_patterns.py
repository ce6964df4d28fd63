"""aio-pika's RPC and its work queues against the broker, with expiration and dead letters."""

from __future__ import annotations

import asyncio
from typing import Any

import aio_pika
import pytest
from aio_pika.abc import AbstractConnection
from aio_pika.patterns import RPC, Master, NackMessage, RejectMessage

from tests.clients.fixtures import Names
from tests.clients.support import WAIT_S
from tests.clients.test_client_aio_pika import run

__all__ = ["run"]


class Failure(Exception):
    """What a procedure raises."""


def test_rpc(run: Any, names: Names) -> None:
    """Calls at once, one that fails, one whose queue is gone, one that nobody takes in time."""
    name, late = names.queue(), names.queue()

    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        rpc = await RPC.create(channel)

        async def multiply(*, x: int, y: int) -> int:
            if x == 7:
                raise Failure("seven")
            return x * y

        await rpc.register(name, multiply, auto_delete=True)
        calls = [rpc.call(name, {"x": n, "y": n}) for n in range(5)]
        assert await asyncio.wait_for(asyncio.gather(*calls), WAIT_S) == [0, 1, 4, 9, 16]
        with pytest.raises(Failure):
            await asyncio.wait_for(rpc.call(name, {"x": 7, "y": 1}), WAIT_S)
        await rpc.unregister(multiply)
        # Mandatory: it comes back as there is no such queue any more.
        with pytest.raises(aio_pika.exceptions.MessageProcessError):
            await asyncio.wait_for(rpc.call(name, {"x": 1, "y": 1}), WAIT_S)
        # It expires in a queue that nobody reads, and comes back by the headers of dead letters.
        await channel.declare_queue(
            late, arguments={"x-dead-letter-exchange": rpc.dlx_exchange.name}
        )
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(rpc.call(late, {"x": 1, "y": 1}, expiration=1), WAIT_S)
        await rpc.close()

    run(work)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_master_and_workers(run: Any, names: Names, kind: str) -> None:
    """Tasks to two workers; one is given back, one is refused and dies."""
    name, dead = names.queue(), names.queue()

    async def work(connection: AbstractConnection) -> None:
        channel = await connection.channel()
        await channel.set_qos(prefetch_count=2)
        refused = await channel.declare_queue(dead, durable=True, arguments={"x-queue-type": kind})
        master = Master(channel)
        seen: list[int] = []
        done = asyncio.Event()

        async def task(*, number: int) -> None:
            seen.append(number)
            if len(seen) == 11:
                done.set()
            if number == 3 and seen.count(3) == 1:
                raise NackMessage(requeue=True)
            if number == 5:
                raise RejectMessage(requeue=False)

        more = {
            "x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead,
        }  # fmt: skip
        workers = [
            await master.create_worker(name, task, durable=True, arguments=more) for _ in range(2)
        ]
        for number in range(10):
            await master.create_task(name, {"number": number})
        await asyncio.wait_for(done.wait(), WAIT_S)
        assert sorted(seen) == sorted([*range(10), 3])
        got = await refused.get(timeout=WAIT_S)
        deaths: Any = got.headers["x-death"]
        assert (deaths[0]["queue"], deaths[0]["reason"]) == (name, "rejected")
        for each in workers:
            await each.close()

    run(work)
