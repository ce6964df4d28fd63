"""Accepts clients that speak TLS, and takes their connections up once the handshake is done.

A client that is not through with it has a socket and nothing else here. Their number is bounded, so
that silent ones neither use up the descriptors nor keep others out: when one comes too many, the
oldest goes.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable

from warren.server.listening import open_sockets
from warren.server.socket_options import SocketOptions

HANDSHAKES_MAX = 64
"""Connections that may be within their handshake: what is set aside of descriptors beside clients'
is enough for them."""
RETRY_SECONDS = 1.0
"""How long nothing is accepted after that failed, as where no descriptor is left."""


class TlsListener:
    """One listening socket, or one for each family of addresses."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        handshake_seconds: float,
        made: Callable[[], asyncio.BaseProtocol],
        warn: Callable[[str], None],
        options: SocketOptions,
    ) -> None:
        """Begin with no address.

        Args:
            made: What a client's connection is given to.
            warn: Writes into the log what clients can cause.
        """
        self._loop = loop
        self._context = context
        self._handshake_seconds = handshake_seconds
        self._made = made
        self._warn = warn
        self._options = options
        self._accepting: list[asyncio.Task[None]] = []
        self._listening: list[socket.socket] = []
        self._handshakes: dict[asyncio.Task[None], None] = {}

    async def listen(self, host: str, port: int) -> None:
        """Let clients come.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._listening = await open_sockets(self._loop, host, port, self._options)
        for listening in self._listening:
            self._accepting.append(self._loop.create_task(self._accept(listening)))

    def close(self) -> None:
        """Let no client come any more; those that are here stay."""
        for task in [*self._accepting, *self._handshakes]:
            task.cancel()
        for listening in self._listening:
            listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                client, address = await self._loop.sock_accept(listening)
            except OSError as error:
                self._warn(f"cannot accept clients: {error.strerror}")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            while len(self._handshakes) >= HANDSHAKES_MAX:
                oldest = next(iter(self._handshakes))
                del self._handshakes[oldest]
                oldest.cancel()
            task = self._loop.create_task(self._greet(client, str(address[0])))
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _greet(self, client: socket.socket, host: str) -> None:
        """Take a connection up, through the end of its handshake."""
        try:
            await self._loop.connect_accepted_socket(
                self._made,
                client,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self._warn(f"{host}: TLS failed: {reason(error)}")
            client.close()
        except asyncio.CancelledError:
            client.close()
            raise


def reason(error: BaseException) -> str:
    """Why a handshake failed, in words for a log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error)
    return str(error) or "the client closed the connection, or was silent for too long"
