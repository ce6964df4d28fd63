"""Sockets that are listened on, and why an address cannot be; what answers may be loaded late."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Protocol

from warren.server.socket_options import SocketOptions

log = logging.getLogger("warren")


async def open_sockets(
    loop: asyncio.AbstractEventLoop, host: str, port: int, options: SocketOptions
) -> list[socket.socket]:
    """Listen on one address, or on one for each family of addresses.

    Args:
        host: Its name or number; empty for every interface.

    Raises:
        OSError: The address cannot be listened on.
    """
    found = await loop.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    opened: list[socket.socket] = []
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            try:
                listening = socket.socket(family, socket.SOCK_STREAM)
            except OSError:
                # A machine without IPv6 may well have names for it.
                continue
            opened.append(listening)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            options.apply(listening)
            listening.setblocking(False)
            listening.bind(address)
            listening.listen(options.backlog)
    except OSError:
        for listening in opened:
            listening.close()
        raise
    if not opened:
        raise OSError(errno.EADDRNOTAVAIL, "it has no address")
    return opened


class Answering(Protocol):
    """What answers the connections that come to sockets."""

    @property
    def answering(self) -> bool:
        """Whether a request is being answered."""

    async def serve(self, sockets: list[socket.socket], backlog: int) -> None:
        """Take connections from now on; `backlog` is the number that the kernel may keep."""

    async def close(self, seconds: float) -> None:
        """Take no more, and give what is under way so long to end."""


class LateListener:
    """Listens from the start on, and has what answers loaded when the first connection comes.

    A node that is never asked has none of it in memory. The connections that come meanwhile wait
    with the kernel. It is loaded on a thread, so that the loop goes on.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        load: Callable[[], Callable[[], Answering]],
    ) -> None:
        """Begin with no address.

        Args:
            load: Imports what answers; called on a thread. What it returns is called on the loop.
        """
        self._loop = loop
        self._load = load
        self._backlog = 0
        self._waiting: list[socket.socket] = []
        self._loading: asyncio.Task[None] | None = None
        self._answering: Answering | None = None

    @property
    def answering(self) -> bool:
        """Whether a request is being answered."""
        return self._answering is not None and self._answering.answering

    async def listen(self, host: str, port: int, options: SocketOptions) -> None:
        """Let clients come; arguments and errors are those of `open_sockets`."""
        self._backlog = options.backlog
        self._waiting = await open_sockets(self._loop, host, port, options)
        for listening in self._waiting:
            self._loop.add_reader(listening, self._came)

    async def close(self, seconds: float) -> None:
        """Let no client come any more, and give requests under way so long to end."""
        if self._loading is not None:
            self._loading.cancel()
        if self._answering is not None:
            await self._answering.close(seconds)
        self._stop_waiting()

    def _came(self) -> None:
        """The first connection waits."""
        for listening in self._waiting:
            self._loop.remove_reader(listening)
        if self._loading is None:
            self._loading = self._loop.create_task(self._begin())

    async def _begin(self) -> None:
        try:
            make = await asyncio.to_thread(self._load)
            answering = make()
            self._answering = answering
            await answering.serve(self._waiting, self._backlog)
            # They are the other's now.
            self._waiting = []
        except Exception:
            # Such as a package that was replaced under the node: its clients are served all the
            # same, and those who asked here see that it is closed.
            log.exception("what answers cannot be loaded: nothing is answered there any more")
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        for listening in self._waiting:
            self._loop.remove_reader(listening)
            listening.close()
        self._waiting = []


def why_not_listening(error: OSError) -> str:
    """Why an address cannot be listened on, and what to do about it."""
    if isinstance(error, socket.gaierror):
        return "no such host is known; name an address of this machine with --bind"
    if error.errno == errno.EADDRINUSE:
        return (
            "another process listens there; is another broker running? stop it, or choose another "
            "port with --port"
        )
    if error.errno == errno.EACCES:
        return "this user may not listen there; choose a port from 1024 on with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; name one that it has with --bind"
    return os.strerror(error.errno) if error.errno else str(error)
