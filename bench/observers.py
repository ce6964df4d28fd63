"""What a queue costs nodes that only use it, and what the loss of its members costs them.

    python -m bench.observers [--messages 200000] [--size 1024] [--rate 1000] [--rounds 2] [ROW]...

    disk     five nodes: messages are published and consumed through a node without the queue; how
             much that node's data grows and all nodes write, by what was published
    gaps     five nodes: each of the three members is killed (-9) and started again, the leader
             first, under a publisher and a consumer on a node without the queue; the longest time
             without a confirm, and that a message took at most
    nine     six nodes join a cluster of three: what the first three have in memory and on disk

All rows without ROW. Nodes run through `bench/ctl` with ports from BASE (6160) on, load comes from
the load generator of `bench/peer`. What nodes write is what the kernel counts for their processes:
whole pages that they made dirty, so that many small writes count for more than their bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.recovery import QUEUE, Cluster, row, until

SETTLE_SECONDS = 5.0
WARM_UP_SECONDS = 3
KILL_AFTER_SECONDS = 3.0
"""Of measured time."""
GAP_SECONDS = 8
FILL_SECONDS = 300
LOG_BYTES = 67_108_864
NODES = 5
JOINED = 9
MIB = 1 << 20


class Queue:
    """A queue with three members, and a node without one.

    Attributes:
        members: The nodes that hold it, by number, the leader first.
        outside: One that does not.
    """

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        leader = cluster.declare()
        (found,) = json.loads(cluster.warren("queues", "list", "--json"))
        held = [int(name.removeprefix("node").partition("@")[0]) for name in found["members"]]
        self.members = sorted(held, key=lambda node: node != leader)
        self.outside = next((node for node in range(1, nodes + 1) if node not in held), 0)


class Costs:
    """What the nodes of a cluster have on disk, in memory, and have written, in bytes."""

    def __init__(self, cluster: Cluster, nodes: int) -> None:
        data = Path(cluster.ctl("datadir"))
        self.disk = {node: on_disk(data / f"node{node}") for node in range(1, nodes + 1)}
        self.written: dict[int, int] = {}
        self.memory: dict[int, int] = {}
        pids = cluster.ctl("pids").split()
        for node, pid in enumerate(pids, 1):
            counts = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").open())
            self.written[node] = int(counts["write_bytes"])
            pages = Path(f"/proc/{pid}/statm").read_text().split()
            self.memory[node] = int(pages[1]) * os.sysconf("SC_PAGE_SIZE")


def on_disk(folder: Path) -> int:
    """The bytes that a folder's files take."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def load(cluster: Cluster, node: int, words: str) -> subprocess.Popen[str]:
    """Begin to publish or consume through a node."""
    tool = subprocess.check_output(
        [str(Path(__file__).parent / "peer"), "tools"], text=True
    ).strip()
    where = cluster.ctl("addrs").split(",")[node - 1]
    command = f"--addr {where} --type quorum --queue {QUEUE} --keep {words}"
    return subprocess.Popen(
        [f"{tool}/loadgen/loadgen", *command.split()], stdout=subprocess.PIPE, text=True
    )


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What the load generator says in the end."""
    out, _ = process.communicate(timeout=FILL_SECONDS)
    found: dict[str, Any] = json.loads(out)
    return found


def disk(options: argparse.Namespace) -> None:
    """Messages go through a node without the queue, and then so many again.

    Files that the log uses for the first time were filled with zeros before; from the second time
    on they are written once. They are small here, so that the first messages use them all.
    """
    os.environ["OPTIONS"] = f"--set raft.wal_max_size_bytes={LOG_BYTES}"
    cluster = Cluster(NODES)
    queue = Queue(cluster, NODES)
    count = f"--pub-count {options.messages} --con-count {options.messages}"
    words = f"--producers 4 --consumers 4 --window 256 --prefetch 256 --size {options.size}"
    published = options.messages * options.size
    for name in ("disk, first", "disk"):
        time.sleep(SETTLE_SECONDS)
        before = Costs(cluster, NODES)
        told(load(cluster, queue.outside, f"{words} {count} --secs {FILL_SECONDS}"))
        time.sleep(SETTLE_SECONDS)
        after = Costs(cluster, NODES)
        grown = {node: after.disk[node] - before.disk[node] for node in after.disk}
        written = {node: after.written[node] - before.written[node] for node in after.written}
        row(
            name,
            published_mib=published / MIB,
            outside_grows_percent=100 * grown[queue.outside] / published,
            **{
                f"node{node}_{'member' if node in queue.members else 'outside'}_writes_times": (
                    written[node] / published
                )
                for node in sorted(written, key=lambda node: (node not in queue.members, node))
            },
        )
    cluster.ctl("stop")
    del os.environ["OPTIONS"]


def gaps(options: argparse.Namespace) -> None:
    """Members are killed under clients of a node without the queue."""
    cluster = Cluster(NODES)
    queue = Queue(cluster, NODES)
    for number in range(options.rounds):
        for place, victim in enumerate(queue.members):
            leader = int(cluster.ctl("leader", QUEUE))
            words = "--producers 1 --consumers 1 --window 1000 --size 100 --prefetch 1000"
            times = f"--rate {options.rate} --warmup {WARM_UP_SECONDS} --secs {GAP_SECONDS}"
            process = load(cluster, queue.outside, f"{words} {times}")
            time.sleep(WARM_UP_SECONDS + KILL_AFTER_SECONDS)
            cluster.ctl("kill", victim)
            found = told(process)
            cluster.ctl("node", victim)
            row(
                f"gaps {number + 1}.{place + 1}, {'leader' if victim == leader else 'follower'}",
                confirms_ms=found["max_confirm_gap_ms"],
                deliveries_ms=found["lat_us"]["max"] / 1e3,
                usually_ms=found["lat_us"]["p50"] / 1e3,
            )
            until(lambda: cluster.messages(queue.outside) >= 0)
            time.sleep(SETTLE_SECONDS)
    cluster.ctl("stop")


def nine(options: argparse.Namespace) -> None:
    """Six nodes join three that hold a queue with a backlog."""
    cluster = Cluster(3)
    Queue(cluster, 3)
    cluster.fill([1, 2, 3], options.messages, options.size)
    time.sleep(SETTLE_SECONDS)
    before = Costs(cluster, 3)
    for node in range(4, JOINED + 1):
        cluster.ctl("node", node)
    time.sleep(SETTLE_SECONDS)
    after = Costs(cluster, JOINED)
    cluster.ctl("stop")
    for node in range(1, JOINED + 1):
        row(
            f"nine, node {node}",
            memory_before_mib=before.memory.get(node, 0) / MIB,
            memory_mib=after.memory[node] / MIB,
            disk_before_mib=before.disk.get(node, 0) / MIB,
            disk_mib=after.disk[node] / MIB,
        )


ROWS: dict[str, Callable[[argparse.Namespace], None]] = {"disk": disk, "gaps": gaps, "nine": nine}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.observers")
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1_024)
    parser.add_argument("--rate", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    options = parser.parse_args()
    for name in options.rows or ROWS:
        ROWS[name](options)


if __name__ == "__main__":
    main()
