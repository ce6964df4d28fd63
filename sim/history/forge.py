"""Makes histories: large ones with faults in known places, and small ones that make no sense.

What is found in them is known beforehand, or is what the serial checker finds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sim.history.events import ROWS_PER_FILE, SCHEMA, History
from sim.history.verdict import behind, names

EVENTS_EACH: Final = 4
"""A message is published, confirmed, delivered and settled."""
PUBLISHERS: Final = 40
QUEUES: Final = 4
STEP_NS: Final = 10_000

Numbers = npt.NDArray[np.int64]


@dataclass
class Planted:
    """What is wrong with a history that was forged, in the words of a verdict."""

    lost: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


def forge(folder: Path, events: int, faults: int, seed: int) -> Planted:
    """Write a history with about so many events, and so many faults of each kind.

    Messages of each publisher are delivered in order to one consumer of its queue.
    """
    folder.mkdir(parents=True)
    each = max(events // EVENTS_EACH // PUBLISHERS, 8 * faults + 8)
    dice = np.random.default_rng(seed)
    planted = Planted()
    with_others(folder)
    files = _Files(folder)
    for publisher in range(PUBLISHERS):
        share = faults // PUBLISHERS + (publisher < faults % PUBLISHERS)
        _publisher(files, publisher, each, share, dice, planted)
    for name in ("lost", "invented", "doubled"):
        messages = [("", *word.split(":")) for word in getattr(planted, name)]
        setattr(planted, name, names((queue, who, int(at)) for queue, who, at in messages))
    pairs = [word.replace(" behind ", ":").split(":") for word in planted.late]
    planted.late = behind((pair[0], int(pair[1]), int(pair[3])) for pair in pairs)
    return planted


def with_others(folder: Path) -> None:
    """Begin with what keeps a history from proving nothing: a fault, leaders, a redelivery."""
    history = History(folder)
    log = history.log("nemesis")
    for node in ("n1", "n2"):
        log.note("leader", "ok", "q0", node=node)
    log.note("fault", "invoke", what="kill n1")
    log.note("fault", "ok", what="kill n1")
    log.note("publish", "invoke", "q0", "nemesis", 1)
    log.note("deliver", "ok", "q0", "nemesis", 1, True)
    history.close()


class _Files:
    """Writes files of events of one process each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = len(list(folder.iterdir()))

    def write(self, process: str, columns: dict[str, object], rows: int) -> None:
        """Write the events of a process, in order; columns of one value are the same in all."""
        columns = {"process": process, "number": np.arange(1, rows + 1), **columns}
        arrays = []
        for part in SCHEMA:
            value = columns.get(part.name)
            if isinstance(value, np.ndarray):
                arrays.append(pa.array(value))
            elif isinstance(value, (pa.Array, pa.DictionaryArray)):
                arrays.append(value)
            elif value is None and part.name == "redelivered":
                arrays.append(pa.nulls(rows, pa.bool_()))
            else:
                indices = pa.array(np.zeros(rows, np.int32))
                words = pa.DictionaryArray.from_arrays(indices, pa.array([value or ""]))
                arrays.append(words if pa.types.is_dictionary(part.type) else words.cast("string"))
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        for first in range(0, rows, ROWS_PER_FILE):
            self._count += 1
            path = self._folder / f"{self._count:06d}.parquet"
            pq.write_table(table.slice(first, ROWS_PER_FILE), path, compression="zstd")


def _publisher(
    files: _Files,
    publisher: int,
    count: int,
    faults: int,
    dice: np.random.Generator,
    planted: Planted,
) -> None:
    """The events of one publisher's messages, and of the consumer that gets them."""
    who, queue = f"p{publisher}", f"q{publisher % QUEUES}"
    sequences: Numbers = np.arange(1, count + 1)
    # Places far enough from each other that no fault is part of another one.
    places = np.sort(dice.choice(count // 8, 4 * faults, replace=False)) * 8 + 2
    chosen = dice.permutation(places).reshape(4, faults)
    times = sequences * STEP_NS
    words = pa.array(["invoke", "ok"])
    twice = np.repeat(sequences, 2)
    files.write(
        f"{who}.1",
        {
            "op": "publish",
            "type": pa.DictionaryArray.from_arrays(
                pa.array(np.tile(np.array([0, 1], np.int32), count)), words
            ),
            "queue": queue,
            "publisher": who,
            "sequence": twice,
            "time_ns": np.repeat(times, 2) + np.tile([0, STEP_NS // 2], count),
        },
        2 * count,
    )
    lost, late, twice_at, undone = (set(part.tolist()) for part in chosen)
    order: list[tuple[int, bool]] = []
    for at in range(count):
        sequence = at + 1
        if at in lost:
            planted.lost.append(f"{who}:{sequence}")
            continue
        if at in late:
            continue
        order.append((sequence, False))
        if at - 1 in late:
            # The message before comes behind this one.
            order.append((sequence - 1, False))
            planted.late.append(f"{who}:{sequence - 1} behind {who}:{sequence}")
        if at in twice_at:
            order.append((sequence, False))
            planted.doubled.append(f"{who}:{sequence}")
    # What was settled for good comes again, marked, behind all else; and what was never published.
    for at in sorted(undone):
        order.append((at + 1, True))
        planted.doubled.append(f"{who}:{at + 1}")
    for extra in range(faults):
        order.append((count + 1 + extra, False))
        planted.invented.append(f"{who}:{count + 1 + extra}")
    came = np.array([sequence for sequence, _ in order], np.int64)
    again = np.array([marked for _, marked in order], bool)
    rows = len(order)
    begin = count * STEP_NS
    time_ns = begin + np.arange(rows) * STEP_NS
    settles = np.full(2 * rows, False)
    settles[1::2] = True
    # A message is settled behind its first delivery; for good, as far as these are told apart.
    kinds = pa.DictionaryArray.from_arrays(
        pa.array(settles.astype(np.int32)), pa.array(["ok", "info"])
    )
    ops = pa.DictionaryArray.from_arrays(
        pa.array(settles.astype(np.int32)), pa.array(["deliver", "settle"])
    )
    marks = pa.array(np.repeat(again, 2), mask=settles)
    files.write(
        f"c{publisher}.1",
        {
            "op": ops,
            "type": kinds,
            "queue": queue,
            "publisher": who,
            "sequence": np.repeat(came, 2),
            "time_ns": np.repeat(time_ns, 2) + np.tile([0, 1], rows),
            "redelivered": marks,
        },
        2 * rows,
    )
    if faults:
        settled = np.array(sorted(undone), np.int64)
        files.write(
            f"s{publisher}.1",
            {
                "op": "settle",
                "type": "ok",
                "queue": queue,
                "publisher": who,
                "sequence": settled + 1,
                "time_ns": np.full(len(settled), begin + len(order) * STEP_NS // 2),
            },
            len(settled),
        )


def scribble(folder: Path, runs: int, seed: int) -> None:
    """Write a history that is many small ones, of events that nobody would see together.

    Each has queues, publishers and processes of its own, so that it is judged by itself.
    """
    dice = Random(seed)
    history = History(folder)
    for run in range(runs):
        logs = [history.log(f"{run}.{number}") for number in range(3)]
        for _ in range(dice.randrange(40)):
            log = dice.choice(logs)
            op, kind = dice.choice(
                [
                    *([("deliver", "ok")] * 6),
                    *([("publish", "invoke")] * 5),
                    *([("publish", "ok")] * 3),
                    *(("publish", "info"), ("publish", "fail"), ("deliver", "info")),
                    *(("settle", "info"), ("settle", "ok"), ("gone", "info")),
                    *(("fault", "invoke"), ("fault", "ok"), ("leader", "ok"), ("surprise", "info")),
                ]
            )
            log.note(
                op,
                kind,
                f"q{run}.{dice.randrange(2)}",
                f"p{run}.{dice.randrange(2)}",
                dice.randrange(1, 7),
                dice.choice([None, False, False, True]) if op == "deliver" else None,
                f"n{dice.randrange(3)}" if op == "leader" else "",
                f"what {dice.randrange(3)}" if op == "surprise" else "",
            )
    history.close()
