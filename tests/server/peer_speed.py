"""How fast a link between two processes is.

    python -m tests.server.peer_speed [--megabytes 100]

One process sends to another one over the loopback, whose listener counts; prints a line for each
size of message: messages and megabytes a second, and the time there and back of a single small one.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time

import uvloop

import warren
from tests.server.peer_nodes import HOST, SECRET, Recorder, TestNode, hello
from warren.server.peers import PeerNetwork
from warren.server.system import SystemRandom

END = b"end"
BACKLOG_BYTES = 8_000_000
TURN_BYTES = 262_144
SIZES = (100, 1_000, 65_536, 4_000_000)
TRIPS = 2_000


class Counter(Recorder):
    """Counts bytes, and answers the end of a run and each ping."""

    network: PeerNetwork

    def received(self, peer: str, message: bytes) -> None:
        if len(message) <= 8:
            self.network.send(peer, [message])


async def count(port: int) -> None:
    """The receiving process."""
    loop = asyncio.get_running_loop()
    listener = Counter()
    network = PeerNetwork(hello("b@two"), SECRET, SystemRandom(), loop)
    network.listener = listener
    listener.network = network
    network.dial("a@one", HOST, port)
    print(await network.listen(HOST, 0), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    await network.close()


async def run(node: TestNode, megabytes: int) -> None:
    """Send, and print."""
    network, heard = node.network, node.heard
    for size in SIZES:
        body = bytes(size - 1)
        messages = megabytes * 1_000_000 // size
        in_turn = max(1, TURN_BYTES // size)
        heard.messages.clear()
        sent = 0
        started = time.perf_counter()
        while sent < messages:
            for _ in range(min(in_turn, messages - sent)):
                network.send("b@two", [b"k", body])
                sent += 1
            network.flush()
            await asyncio.sleep(0)
            while network.backlog_bytes("b@two") > BACKLOG_BYTES:
                await asyncio.sleep(0)
        network.send("b@two", [END])
        await heard.wait(lambda: heard.messages)
        seconds = time.perf_counter() - started
        print(
            f"{size:>9,} bytes: {messages / seconds:>11,.0f} messages/s,"
            f" {messages * size / seconds / 1e6:>7,.0f} MB/s"
        )
    trips = []
    for number in range(TRIPS):
        heard.messages.clear()
        started = time.perf_counter()
        network.send("b@two", [b"p", number.to_bytes(4, "little")])
        network.flush()
        await heard.wait(lambda: heard.messages)
        trips.append(time.perf_counter() - started)
    trips.sort()
    print(
        f"there and back: median {trips[TRIPS // 2] * 1e6:.0f} us,"
        f" 99 % within {trips[TRIPS * 99 // 100] * 1e6:.0f} us"
    )


async def measure(megabytes: int) -> None:
    """The sending process."""
    print(f"compiled: {warren.COMPILED}, {megabytes} MB each")
    node = TestNode("a@one")
    await node.listen()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.server.peer_speed", "--count", str(node.port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        node.network.dial("b@two", HOST, int(process.stdout.readline()))
        await node.heard.told(("linked", "b@two"), ("incoming", "b@two"))
        await run(node, megabytes)
    finally:
        process.kill()
        process.communicate()
        await node.network.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    uvloop.run(count(options.count) if options.count else measure(options.megabytes))
