"""What an entry costs the machine of a queue that names messages which no disk has any more.

    python -m bench.stretches [--count 1000000]

A queue of each kind has so many messages in several priorities by turns. One entry names as many
stretches as it may (`warren.queues.lost`): single messages far apart, single ones near each other,
and, fewer, longer ones that have messages of each priority. Told are milliseconds of the processor
for the first such entry, in whose way packed runs are opened, and for one more.
"""

from __future__ import annotations

import argparse
import struct
import time

from warren.log.facts import PRIORITIES, SIZES
from warren.queues.fifo.config import FAIR, STRICT
from warren.queues.fifo.entry import Enqueue
from warren.queues.fifo.machine import Fifo
from warren.queues.lost import DROPPED_MAX, OPENED_MAX, PACKED_MIN

BATCH = 500
BODY_BYTES = 100
QUEUES = [("quorum", 2), ("quorum", 10), ("quorum", 32), ("classic", 10), ("classic", 255)]
APART = 32

Stretches = list[tuple[int, int]]


def filled(kind: str, priorities: int, count: int) -> Fifo:
    """A queue whose messages have one priority after the other."""
    classic = kind == "classic"
    fifo = Fifo(-1, classic, classic)
    if classic:
        fifo.config.max_priority = priorities - 1
    else:
        fifo.config.ranking = STRICT if priorities > 2 else FAIR
    fifo.rank()
    head = struct.pack("<I", SIZES | PRIORITIES) + struct.pack(f"<{BATCH}I", *[BODY_BYTES] * BATCH)
    for first in range(0, count, BATCH):
        # Of a quorum queue with two levels the higher one begins at 5.
        numbers = range(first, first + BATCH)
        ranks = bytes(4 + at % 2 if priorities == 2 else at * 7 % priorities for at in numbers)
        fifo.pass_time(fifo.now_ms + 1)
        fifo.enqueue(Enqueue(first, BATCH, BODY_BYTES * BATCH, -1, head + ranks))
        fifo.dispatch()
    return fifo


def milliseconds(fifo: Fifo, gone: Stretches) -> float:
    """What it takes to drop these."""
    began = time.thread_time()
    fifo.free(gone)
    return (time.thread_time() - began) * 1_000


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="see the module's head")
    parser.add_argument("--count", type=int, default=1_000_000)
    count = parser.parse_args().count
    for kind, priorities in QUEUES:
        long = OPENED_MAX // (priorities + 1)
        shapes = [
            ("far apart", DROPPED_MAX, count // DROPPED_MAX, 1),
            ("near", DROPPED_MAX, APART, 1),
            ("long", long, count // long, PACKED_MIN),
        ]
        for name, stretches, apart, size in shapes:
            fifo = filled(kind, priorities, count)
            firsts = [at * apart for at in range(stretches)]
            one = milliseconds(fifo, [(first, first + size - 1) for first in firsts])
            more = milliseconds(fifo, [(first + size, first + 2 * size - 1) for first in firsts])
            print(f"{kind}, {priorities} priorities, {name}: {one:.1f} ms, then {more:.1f} ms")


if __name__ == "__main__":
    main()
