"""A node's service in this process, without a socket, as any way in has it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from tests.node.pair import Pair
from warren.admin.service.caller import LOCAL
from warren.admin.service.catalogue import OPERATIONS
from warren.admin.service.host import OperatorHost
from warren.admin.service.rows import CertificateFiles, ProcessState
from warren.admin.service.service import AdminService
from warren.errors import TIMED_OUT, Refusal

Answer = TypeVar("Answer")


class Host(OperatorHost):
    """Stands in for the server's process.

    Attributes:
        over: Whether the node has left its cluster.
        handed_over: How often the lead of groups was given away.
        stopped: The statuses with which it was to end.
        drained: Whether it is in maintenance.
        resets: Where it was to join each time it was to begin with nothing.
    """

    def __init__(self, pair: Pair | None = None) -> None:
        self.over = False
        self.handed_over = 0
        self.stopped: list[int] = []
        self.drained = False
        self.files: list[CertificateFiles] = []
        self.resets: list[tuple[str, int] | None] = []
        self._pair = pair

    def guarded(self, step: Callable[[], None]) -> None:
        step()

    def after_event(self) -> None:
        """The pair takes turns anyhow."""

    async def hand_over(self) -> None:
        self.handed_over += 1

    def left(self) -> None:
        self.over = True

    def certificates(self) -> list[CertificateFiles]:
        return self.files

    def reset(self, joins: tuple[str, int] | None) -> None:
        self.resets.append(joins)

    async def ask_at(
        self,
        node: str,
        host: str,
        port: int,
        operation: str,
        arguments: dict[str, Any],
        seconds: float,
    ) -> Any:
        raise Refusal(TIMED_OUT, f"node '{node}' cannot be asked")

    def state(self) -> ProcessState:
        return ProcessState(
            version="0",
            process=1,
            uptime_seconds=2,
            listeners=["127.0.0.1:5672"],
            data_dir="/",
            memory_bytes=3,
            drained=self.drained,
        )

    async def ask(
        self, node: str, operation: str, arguments: dict[str, Any], seconds: float
    ) -> Any:
        """Another node of the pair answers, as over a socket."""
        assert self._pair is not None
        station = self._pair.stations[node]
        if not station.alive:
            raise Refusal(TIMED_OUT, f"node '{node}' cannot be asked")
        service = AdminService(station.node, Host(self._pair))
        done = OPERATIONS[operation].asked(service, LOCAL, arguments)
        found: Any = []
        if isinstance(done, AsyncGenerator):
            async for part in done:
                found += part
        else:
            found = await done
        return msgspec.msgpack.decode(msgspec.msgpack.encode(found))

    def stop(self, status: int) -> None:
        self.stopped.append(status)

    async def set_maintenance(self, drained: bool) -> None:
        self.drained = drained

    def configuration(self) -> dict[str, Any]:
        return {"heartbeat": 60}


def service_of(pair: Pair, name: str = "a") -> AdminService:
    """The service of one node."""
    return AdminService(pair.stations[name].node, Host(pair))


def service_with_queues(count: int) -> AdminService:
    """The service of a node that is alone and has so many queues, of two types in turn."""
    pair = Pair(1, alone=True)
    client = pair.a.client()
    for number in range(count):
        client.declare(f"q{number:02}", kind="classic" if number % 2 else "quorum")
    pair.until(lambda: len(pair.a.node.queues.vhosts["/"].queues) == count)
    return service_of(pair)


def answered(pair: Pair, asked: Callable[[], Awaitable[Answer]]) -> Answer:
    """The answer of an operation, with the cluster at work meanwhile."""

    async def run() -> Answer:
        task = asyncio.ensure_future(asked())
        while not task.done():
            await asyncio.sleep(0)
            pair.step()
        return await task

    return asyncio.run(run())
