"""How a cluster of real processes recovers with a big backlog, measured through its clients.

    python -m bench.recovery [--messages 1000000] [--size 100] [--rate 5000] [ROW]...

    behind    a node was away while the backlog was published: what its catching up costs the others
    voter     a node that is new to the cluster gets the backlog, and then a vote
    restart   all nodes are killed and started at once: until they answer, and deliver

All rows without ROW. Nodes run through `bench/ctl` with ports from BASE (6160) on, load comes from
the load generator of `bench/peer`. The queue is only published to while confirms are counted, so
that the messages in it are those that were confirmed, give or take a window. Where all nodes share
one machine, a third node costs confirms something even when it is not behind: see `after`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from warren.client import Channel, connect
from warren.errors import BrokerError

HERE = Path(__file__).resolve().parent
BASE = int(os.environ.get("BASE", "6160"))
QUEUE = "recovery"
PUBLISH = "--producers 4 --consumers 0 --keep"
SETTLE_SECONDS = 3.0
STEADY_SECONDS = 8.0
WAIT_SECONDS = 300.0
POLL_SECONDS = 0.05
EVEN = 2_048
"""Messages that a node may be behind and yet keep up."""


class Cluster:
    """The nodes, by number from 1 on."""

    def __init__(self, nodes: int) -> None:
        self._tools = subprocess.check_output([HERE / "peer", "tools"], text=True).strip()
        self._channels: dict[int, Channel] = {}
        self.ctl("start", nodes)

    def begin(self, *words: object) -> subprocess.Popen[str]:
        """Begin a command of `bench/ctl`."""
        return subprocess.Popen(
            [str(HERE / "ctl"), *map(str, words)],
            env={**os.environ, "BASE": str(BASE)},
            stdout=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> str:
        """Wait for a command; gives what it printed."""
        out, _ = process.communicate(timeout=WAIT_SECONDS)
        if process.returncode:
            raise RuntimeError(f"{process.args!r} failed")
        return out.strip()

    def ctl(self, *words: object) -> str:
        """Have a command of `bench/ctl` done."""
        return self.end(self.begin(*words))

    def warren(self, command: str, *words: str) -> str:
        """Have a command for operators done by node 1."""
        where = ["--data-dir", f"{self.ctl('datadir')}/node1"]
        program = os.environ.get("WARREN", str(HERE.parent / ".venv/bin/warren"))
        return subprocess.check_output([program, command, *where, *words], text=True)

    def channel(self, node: int) -> Channel:
        """A channel with a node."""
        found = self._channels.get(node)
        if found is None or found.error is not None:
            found = connect(f"amqp://127.0.0.1:{BASE + node}").channel()
            self._channels[node] = found
        return found

    def messages(self, node: int) -> int:
        """How many messages the queue has, as a node knows it; -1 if the node does not answer."""
        try:
            return self.channel(node).queue_declare(QUEUE, passive=True).messages
        except (OSError, BrokerError):
            return -1

    def declare(self) -> int:
        """Declare the queue; gives the node that leads it."""
        arguments = {"x-queue-type": "quorum"}
        self.channel(1).queue_declare(QUEUE, durable=True, arguments=dict(arguments))
        until(lambda: self.messages(1) == 0)
        return int(self.ctl("leader", QUEUE))

    def publish(self, nodes: list[int], options: str) -> subprocess.Popen[str]:
        """Begin to publish through some nodes."""
        addresses = ",".join(f"127.0.0.1:{BASE + node}" for node in nodes)
        words = f"--addr {addresses} --type quorum --queue {QUEUE} {PUBLISH} {options}".split()
        return subprocess.Popen(
            [f"{self._tools}/loadgen/loadgen", *words], stdout=subprocess.PIPE, text=True
        )

    def fill(self, nodes: list[int], messages: int, size: int) -> None:
        """Publish a backlog."""
        limits = f"--pub-count {messages} --size {size} --window 1000 --secs {WAIT_SECONDS}"
        self.end(self.publish(nodes, limits))

    @contextlib.contextmanager
    def load(self, nodes: list[int], size: int, rate: int) -> Iterator[None]:
        """Publish in the background."""
        options = f"--size {size} --rate {rate} --window 256 --secs {WAIT_SECONDS}"
        process = self.publish(nodes, options)
        try:
            time.sleep(SETTLE_SECONDS)
            yield
        finally:
            process.kill()
            process.wait()


def until(check: Callable[[], bool]) -> float:
    """Wait until something is the case; gives the seconds it took."""
    started = time.monotonic()
    while not check():
        if time.monotonic() > started + WAIT_SECONDS:
            raise TimeoutError("it takes too long")
        time.sleep(POLL_SECONDS)
    return time.monotonic() - started


class Pace:
    """Confirms per second, from one look at a node to the next."""

    def __init__(self, cluster: Cluster, node: int) -> None:
        self._cluster = cluster
        self._node = node
        self._look()

    def _look(self) -> None:
        self._messages = self._cluster.messages(self._node)
        self._at = time.monotonic()

    def since(self) -> float:
        """The pace since the last look."""
        messages, at = self._messages, self._at
        self._look()
        return (self._messages - messages) / (self._at - at)


def row(name: str, **values: float) -> None:
    """Print what was measured."""
    print(f"{name:<28}", *(f"{key} {value:,.2f}" for key, value in values.items()), sep="  ")


def behind(options: argparse.Namespace) -> None:
    """A node was away while the backlog was published."""
    catch_up(options, "moderate", options.rate)
    catch_up(options, "full", 0)


def catch_up(options: argparse.Namespace, load: str, rate: int) -> None:
    """Have a node catch up under a load."""
    cluster = Cluster(3)
    leader = cluster.declare()
    away = leader % 3 + 1
    others = [node for node in (1, 2, 3) if node != away]
    cluster.ctl("kill", away)
    cluster.fill(others, options.messages, options.size)
    with cluster.load(others, options.size, rate):
        pace = Pace(cluster, leader)
        time.sleep(STEADY_SECONDS)
        before = pace.since()
        comes = cluster.begin("node", away)
        seconds = until(lambda: cluster.messages(away) >= options.messages)
        # Then with what came meanwhile, up to two windows.
        seconds += until(lambda: cluster.messages(leader) - cluster.messages(away) <= EVEN)
        during = pace.since()
        time.sleep(STEADY_SECONDS)
        after = pace.since()
    cluster.end(comes)
    cluster.ctl("stop")
    row(
        f"behind, {load} load",
        before=before,
        during=during,
        after=after,
        percent_of_before=100 * during / before,
        percent_of_after=100 * during / after,
        seconds=seconds,
    )


def voter(options: argparse.Namespace) -> None:
    """A node that is new to the cluster gets the backlog, and then a vote."""
    cluster = Cluster(3)
    leader = cluster.declare()
    cluster.fill([1, 2, 3], options.messages, options.size)
    with cluster.load([1, 2, 3], options.size, options.rate):
        pace = Pace(cluster, leader)
        time.sleep(STEADY_SECONDS)
        before = pace.since()
        started = time.monotonic()
        comes = cluster.begin("node", 4)
        until(lambda: cluster.messages(4) >= 0)
        cluster.warren("queues", "add_member", QUEUE, "node4@localhost")

        def votes() -> bool:
            said = json.loads(cluster.warren("queues", "quorum_status", QUEUE, "--json"))
            return "voter" in [copy["Membership"] for copy in said if "node4" in copy["Node Name"]]

        until(votes)
        seconds = time.monotonic() - started
        during = pace.since()
        has = cluster.messages(4)
    cluster.end(comes)
    cluster.ctl("stop")
    assert has >= options.messages, "it votes and has not what it votes for"
    row(
        "voter, moderate load",
        before=before,
        during=during,
        percent_of_before=100 * during / before,
        seconds=seconds,
    )


def restart(options: argparse.Namespace) -> None:
    """All nodes are killed and started at once."""
    cluster = Cluster(3)
    cluster.declare()
    cluster.fill([1, 2, 3], options.messages, options.size)
    for node in (1, 2, 3):
        cluster.ctl("kill", node)
    started = time.monotonic()
    coming = [cluster.begin("node", node) for node in (1, 2, 3)]

    def delivers(node: int) -> bool:
        try:
            return cluster.channel(node).get(QUEUE) is not None
        except (OSError, BrokerError):
            return False

    until(lambda: any(cluster.messages(node) >= 0 for node in (1, 2, 3)))
    first = time.monotonic() - started
    until(lambda: any(delivers(node) for node in (1, 2, 3)))
    delivered = time.monotonic() - started
    until(lambda: all(cluster.messages(node) >= 0 for node in (1, 2, 3)))
    answer = time.monotonic() - started
    for process in coming:
        cluster.end(process)
    left = cluster.messages(1) + 1
    cluster.ctl("stop")
    assert left == options.messages, f"{left} messages are left"
    row("restart", first_answers=first, delivers=delivered, all_answer=answer)


ROWS: dict[str, Callable[[argparse.Namespace], None]] = {
    "behind": behind,
    "voter": voter,
    "restart": restart,
}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.recovery")
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    options = parser.parse_args()
    for name in options.rows or ROWS:
        ROWS[name](options)


if __name__ == "__main__":
    main()
