"""Nodes that consist of links only, for tests: in this process, or in one of their own.

    python -m tests.server.peer_nodes NAME PORT [PEER HOST PORT]...

prints `listening`, then a line for each thing its listener is told, and sends each message back to
its sender if that is dialled. Ends with its input.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable

import uvloop

from tests.support.patience import patient
from warren.config.peer_tls import PeerTls
from warren.ports import PeerHello, PeerListener
from warren.server.peer_link import PeerSettings
from warren.server.peers import PeerNetwork
from warren.server.system import SystemRandom

SECRET = b"the secret of the tests' cluster"
HOST = "127.0.0.1"
WAIT_SECONDS = patient(20.0)


def hello(name: str, cluster: bytes = b"C" * 16, boot: int = 1) -> PeerHello:
    return PeerHello(name, (name.encode() * 16)[:16], cluster, boot, "1.0", 1)


class Recorder(PeerListener):
    """Keeps what it is told. `wait` waits until something is the case."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []
        self.messages: list[tuple[str, bytes]] = []
        self.bytes = 0
        self.reasons: list[tuple[str, str]] = []
        self.boots: dict[str, int] = {}
        self._changed = asyncio.Event()

    def linked(self, peer: str, hello: PeerHello) -> None:
        self.events.append(("linked", peer))
        self.boots[peer] = hello.boot
        self._changed.set()

    def unlinked(self, peer: str) -> None:
        self.events.append(("unlinked", peer))
        self._changed.set()

    def incoming(self, peer: str, hello: PeerHello) -> None:
        self.events.append(("incoming", peer))
        self._changed.set()

    def incoming_lost(self, peer: str) -> None:
        self.events.append(("incoming_lost", peer))
        self._changed.set()

    def received(self, peer: str, message: bytes) -> None:
        self.messages.append((peer, message))
        self.bytes += len(message)
        self._changed.set()

    def gone(self, peer: str) -> None:
        self.events.append(("gone", peer))
        self._changed.set()

    def refused(self, peer_or_address: str, reason: str) -> None:
        self.reasons.append((peer_or_address, reason))
        self._changed.set()

    async def wait(self, condition: Callable[[], object]) -> None:
        """Return once the condition holds; it is looked at after each thing told."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def told(self, *events: tuple[object, ...]) -> None:
        """Wait until these events were told."""
        await self.wait(lambda: all(event in self.events for event in events))


class TestNode:
    """A node's links and their listener.

    Attributes:
        port: Where it listens, once it does.
    """

    __test__ = False

    def __init__(
        self,
        name: str,
        secret: bytes = SECRET,
        settings: PeerSettings | None = None,
        tls: PeerTls | None = None,
        own: PeerHello | None = None,
    ) -> None:
        self.name = name
        self.heard = Recorder()
        self.network = PeerNetwork(
            own or hello(name), secret, SystemRandom(), asyncio.get_running_loop(), settings, tls
        )
        self.network.listener = self.heard
        self.port = 0

    async def listen(self, port: int = 0) -> None:
        self.port = await self.network.listen(HOST, port)

    def dial(self, other: TestNode) -> None:
        self.network.dial(other.name, HOST, other.port)


class Echo(Recorder):
    """Prints what it is told and sends messages back."""

    network: PeerNetwork

    def linked(self, peer: str, hello: PeerHello) -> None:
        print("linked", peer, flush=True)

    def unlinked(self, peer: str) -> None:
        print("unlinked", peer, flush=True)

    def incoming(self, peer: str, hello: PeerHello) -> None:
        print("incoming", peer, flush=True)

    def incoming_lost(self, peer: str) -> None:
        print("incoming_lost", peer, flush=True)

    def received(self, peer: str, message: bytes) -> None:
        self.network.send(peer, [message])

    def refused(self, peer_or_address: str, reason: str) -> None:
        print("refused", peer_or_address, reason, flush=True)


async def serve(name: str, port: int, peers: list[tuple[str, str, int]]) -> None:
    loop = asyncio.get_running_loop()
    listener = Echo()
    boot = int(os.environ.get("BOOT", "1"))
    network = PeerNetwork(hello(name, boot=boot), SECRET, SystemRandom(), loop)
    network.listener = listener
    listener.network = network
    for peer in peers:
        network.dial(*peer)
    await network.listen(HOST, port)
    print("listening", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    await network.close()


if __name__ == "__main__":
    words = sys.argv[3:]
    uvloop.run(
        serve(
            sys.argv[1],
            int(sys.argv[2]),
            [(words[i], words[i + 1], int(words[i + 2])) for i in range(0, len(words), 3)],
        )
    )
