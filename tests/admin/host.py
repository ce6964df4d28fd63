"""A node's service in this process, without a socket, as any way in has it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.node.pair import Pair
from warren.admin.service.host import OperatorHost
from warren.admin.service.rows import ListenerRow, ProcessState
from warren.admin.service.service import AdminService

Answer = TypeVar("Answer")


class Host(OperatorHost):
    """Stands in for the server's process.

    Attributes:
        over: Whether the node has left its cluster.
        handed_over: How often the lead of groups was given away.
    """

    def __init__(self) -> None:
        self.over = False
        self.handed_over = 0

    def guarded(self, step: Callable[[], None]) -> None:
        step()

    def after_event(self) -> None:
        """The pair takes turns anyhow."""

    async def hand_over(self) -> None:
        self.handed_over += 1

    def left(self) -> None:
        self.over = True

    def state(self) -> ProcessState:
        return ProcessState(
            version="0",
            process=1,
            uptime_seconds=2,
            listeners=["127.0.0.1:5672"],
            data_dir="/",
            memory_bytes=3,
        )

    def listening(self) -> list[ListenerRow]:
        return [
            ListenerRow(node="a", protocol="amqp", ip_address="127.0.0.1", port=5672, tls=False)
        ]


def service_of(pair: Pair, name: str = "a") -> AdminService:
    """The service of one node."""
    return AdminService(pair.stations[name].node, Host())


def answered(pair: Pair, asked: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of an operation, with the cluster at work meanwhile."""

    async def run() -> Answer:
        task = asyncio.ensure_future(asked())
        while not task.done():
            await asyncio.sleep(0)
            pair.step()
        return await task

    return asyncio.run(run())
