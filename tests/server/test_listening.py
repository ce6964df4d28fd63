"""Sockets of which what answers is loaded late: when it is, who waits, and what a failure does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from tests.support.broker import free_port
from tests.support.patience import patient
from warren.server.listening import Answering, LateListener
from warren.server.socket_options import SocketOptions


class Greeter:
    """Answers each connection with one word."""

    def __init__(self) -> None:
        self.closed = False
        self._servers: list[asyncio.Server] = []

    async def serve(self, sockets: list[socket.socket], backlog: int) -> None:
        for listening in sockets:
            self._servers.append(
                await asyncio.start_server(self._greet, sock=listening, backlog=backlog)
            )

    async def close(self, seconds: float) -> None:
        self.closed = True
        for server in self._servers:
            server.close()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()


def run(body: Callable[[asyncio.AbstractEventLoop], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(patient(20.0)):
            await body(asyncio.get_running_loop())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


async def heard(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await reader.read()
    finally:
        writer.close()


def test_the_first_connections_wait_while_it_is_loaded() -> None:
    """It is loaded once, on another thread, and the loop goes on meanwhile."""
    loads: list[int] = []
    may_load = threading.Event()
    greeter = Greeter()

    def load() -> Callable[[], Answering]:
        loads.append(threading.get_ident())
        assert may_load.wait(patient(20.0))
        return lambda: greeter

    async def body(loop: asyncio.AbstractEventLoop) -> None:
        late = LateListener(loop, load)
        port = free_port()
        await late.listen("127.0.0.1", port, SocketOptions(10))
        assert not loads
        asking = [loop.create_task(heard(port)) for _ in range(3)]
        while not loads:
            await asyncio.sleep(0.001)
        assert not any(task.done() for task in asking)
        may_load.set()
        assert await asyncio.gather(*asking) == [b"hello"] * 3
        assert await heard(port) == b"hello"
        assert len(loads) == 1 and loads[0] != threading.get_ident()
        await late.close(1.0)
        assert greeter.closed
        with pytest.raises(ConnectionRefusedError):
            await heard(port)

    run(body)


def test_what_cannot_be_loaded_closes_its_listener_only(caplog: pytest.LogCaptureFixture) -> None:
    def load() -> Callable[[], Answering]:
        raise ImportError("no such module")

    async def body(loop: asyncio.AbstractEventLoop) -> None:
        late = LateListener(loop, load)
        port = free_port()
        await late.listen("127.0.0.1", port, SocketOptions(10))
        with pytest.raises(ConnectionError):
            await heard(port)
        with pytest.raises(ConnectionRefusedError):
            await heard(port)
        await late.close(1.0)

    run(body)
    assert "cannot be loaded" in caplog.text and "no such module" in caplog.text


def test_a_listener_that_nobody_reached_is_closed() -> None:
    async def body(loop: asyncio.AbstractEventLoop) -> None:
        late = LateListener(loop, lambda: Greeter)
        port = free_port()
        await late.listen("127.0.0.1", port, SocketOptions(10))
        await late.close(1.0)
        with pytest.raises(ConnectionRefusedError):
            await heard(port)

    run(body)
