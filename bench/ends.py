"""What the end of a long backlog costs a node: the longest turn of its event loop.

    python -m bench.ends [--count 1000000] [--nodes 1] [--kinds quorum,classic,transient]
                         [--own] [--priorities 10] [--dlx] [--dir DIR] [ROW]...

    snapshot    the queue's state is written into the log, on every node
    purge       a client purges the queue
    expire      all messages expire within the time of one turn
    drop        a policy has the queue keep one message only
    delete      a client deletes the queue

All rows without ROW. A queue is filled for each of them. With `--own` each message has a size, a
priority, of `--priorities`, and a time to live of its own; else they share all of that. With
`--dlx` what expires or is dropped goes on through a dead-letter exchange, to a queue of the same
kind.

Nodes, steps and costs are as in `bench.queues`: the longest steps in milliseconds of the processor,
from the request until the queue is empty and nothing is left to do. Told first is what a message
costs in memory while it waits (the process, all nodes together).
"""

from __future__ import annotations

import argparse
import gc
import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.queues import Bench, Client, resident_bytes
from warren import COMPILED
from warren.metadata.commands import SetPolicy
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames, method_frame

ROWS = ("snapshot", "purge", "expire", "drop", "delete")
KINDS = ("quorum", "classic", "transient")
CLUSTER_KIND = "quorum"
PERSISTENT = b"\x02"
LIFE_MS = 900_000
SPREAD_MS = 40
"""Less than a tick of the clock."""
SIZES = 50
PRIORITIES = 10
SETTLE_SECONDS = 3


class Backlog:
    """Nodes of which the first has a queue with so many messages."""

    def __init__(self, root: Path, words: argparse.Namespace, kind: str, row: str) -> None:
        self.bench = Bench(root, words.nodes)
        self.kind = kind
        self.count: int = words.count
        self._own: bool = words.own
        self._priorities: int = words.priorities
        self._expires = row == "expire"
        self._end_ms = 0
        self.kept = 0
        self.home = self.bench.stations["a"]
        self.client = Client(self.home)
        self.client.call(spec.BasicQos(0, 1, False))
        arguments: dict[str, Any] = {"x-queue-type": kind.replace("transient", "classic")}
        if words.dlx:
            self._declare("dead", dict(arguments))
            arguments["x-dead-letter-exchange"] = ""
            arguments["x-dead-letter-routing-key"] = "dead"
        if words.own and kind != "quorum":
            arguments["x-max-priority"] = self._priorities
        self._declare("q", arguments)
        self.bench.settle(SETTLE_SECONDS)
        memory = resident_bytes()
        self._fill()
        self.bench.until(lambda: self.length() == self.count)
        self.bench.settle(SETTLE_SECONDS)
        gc.collect()
        self.bytes_each = (resident_bytes() - memory) / self.count

    def _declare(self, name: str, arguments: dict[str, Any]) -> None:
        durable = self.kind != "transient"
        self.client.call(spec.QueueDeclare(0, name, False, durable, False, False, False, arguments))

    def _fill(self) -> None:
        """Publish: each message is to expire at the same time, or in the moment behind it."""
        publish = spec.BasicPublish(0, "", "q", False, False)
        clock = self.bench.clock
        end_ms = clock.monotonic_ms() + LIFE_MS
        for at in range(self.count):
            # Content flags: delivery mode, priority, expiration; then what they name, in order.
            flags = 0x1000
            fields = PERSISTENT
            if self._own:
                flags |= 0x0800
                fields += bytes([at * 7 % self._priorities])
            if self._own or self._expires:
                flags |= 0x0100
                life_ms = end_ms - clock.monotonic_ms() + (at % SPREAD_MS if self._own else 0)
                life = str(life_ms).encode()
                fields += bytes([len(life)]) + life
            body = bytes(10 + at % SIZES if self._own else 10)
            header = flags.to_bytes(2, "big") + fields
            self.client.send(content_frames(1, publish, header, body, 131_072))
        self._end_ms = end_ms

    def queue(self, name: str) -> Any:
        """A node's queue; None if it has none."""
        node = self.bench.stations[name].node
        return node.queues.find("/", "q")

    def length(self) -> int:
        queue = self.queue("a")
        return 0 if queue is None else int(queue.ready_count())

    def over(self) -> bool:
        """Whether all nodes are through with it."""
        for station in self.bench.stations.values():
            queue = self.queue(station.name)
            if queue is not None and (queue.ready_count() > self.kept or queue.fifo.unfinished()):
                return False
        return True

    def end(self, row: str) -> str:
        """Do what a row says; the longest steps, in words."""
        for station in self.bench.stations.values():
            station.meter.begin()
        getattr(self, row)()
        if row != "snapshot":
            self.bench.until(self.over)
        self.bench.settle(SETTLE_SECONDS)
        stations = self.bench.stations.values()
        return "\n".join(f"    {one.name}: {one.meter.worst()}" for one in stations)

    def snapshot(self) -> None:
        """See the module's head."""
        for station in self.bench.stations.values():
            queue = self.queue(station.name)
            if queue is not None and self.kind != "transient":
                station.node.want_snapshot(int(queue.group_id))
        self.bench.settle(SETTLE_SECONDS)

    def purge(self) -> None:
        """See the module's head."""
        self.client.send(method_frame(1, spec.QueuePurge(0, "q", True).encode()))

    def expire(self) -> None:
        """See the module's head."""
        self.bench.until(lambda: self.bench.clock.monotonic_ms() >= self._end_ms - SPREAD_MS)
        for station in self.bench.stations.values():
            station.meter.begin()

    def drop(self) -> None:
        """See the module's head."""
        self.kept = 1
        policy = SetPolicy("/", "p", False, "^q$", "queues", 0, {"max-length": 1})
        self.home.node.store.submit(policy, None)

    def delete(self) -> None:
        """See the module's head."""
        self.client.send(method_frame(1, spec.QueueDelete(0, "q", False, False, True).encode()))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="bench.ends", description="see the module's head")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--kinds", default="quorum,classic,transient")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--priorities", type=int, default=PRIORITIES, help="at most 255")
    parser.add_argument("--dlx", action="store_true")
    parser.add_argument("--dir", type=Path, help="where files are put (a directory of its own)")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=" ".join(ROWS))
    words = parser.parse_args()
    shapes = ("own" if words.own else "shared") + (", dead letters" if words.dlx else "")
    compiled = "compiled" if COMPILED else "pure"
    print(f"warren {compiled}, {words.nodes} nodes, {words.count:,} messages, {shapes}")
    for kind in words.kinds.split(","):
        for row in words.rows or ROWS:
            if row == "snapshot" and kind == "transient":
                continue
            root = Path(tempfile.mkdtemp(prefix="warren-ends-", dir=words.dir))
            try:
                backlog = Backlog(root, words, kind, row)
                told = backlog.end(row)
                print(f"{kind} {row}: {backlog.bytes_each:.1f} bytes a message\n{told}", flush=True)
                del backlog
            finally:
                shutil.rmtree(root)


if __name__ == "__main__":
    main()
