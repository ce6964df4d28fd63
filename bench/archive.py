"""`warren archive` beside a consumer with pika that writes the same Parquet, in turns.

    python -m bench.archive [--rows 1000000] [--bytes 1000] [--reps 3] [--uri amqp://...]

Each runs in a process of its own over a queue that is filled anew, and leaves the same columns in
zstd Parquet of the same level, on disk before anything is settled or acknowledged. Printed are the
rows, CPU seconds and seconds of that process, start and imports included, without the broker's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.spark import QUEUE, fill
from demo.run import broker

BATCH = 50_000
PREFETCH = 5_000
TEXTS = (
    *("content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id"),
    *("type", "user_id", "app_id"),
)


def consume(uri: str, folder: Path, rows: int) -> None:
    """Take `rows` messages with pika, as a program of some care would."""
    import pika
    import pyarrow as pa
    import pyarrow.parquet as pq

    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=BATCH + PREFETCH)
    names = ("key", "value", "exchange", "priority", "delivery_mode", "timestamp", *TEXTS)
    columns: dict[str, list[Any]] = {name: [] for name in names}
    left = rows
    for number, (method, properties, body) in enumerate(channel.consume(QUEUE)):
        columns["key"].append(method.routing_key)
        columns["value"].append(body)
        columns["exchange"].append(method.exchange)
        for name in names[3:]:
            columns[name].append(getattr(properties, name))
        left -= 1
        if len(columns["value"]) == BATCH or left == 0:
            file = folder / f"{number:010d}.parquet"
            table = pa.table({name: pa.array(values) for name, values in columns.items()})
            pq.write_table(
                table,
                file,
                compression="zstd",
                compression_level=1,
                use_dictionary=["key", "exchange", "content_type"],
            )
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            channel.basic_ack(method.delivery_tag, multiple=True)
            columns = {name: [] for name in names}
        if left == 0:
            break
    channel.cancel()
    connection.close()


def measured(name: str, words: list[str], rows: int) -> None:
    """Run a process and print what it took."""
    before, began = os.times(), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, os.times()
    cpu = (
        after.children_user + after.children_system - before.children_user - before.children_system
    )
    print(f"{name:<20}{rows:>10,}{cpu:>9.2f}{wall:>9.2f}{rows / wall:>12,.0f}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.archive", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=1_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--uri")
    parser.add_argument("--consume", metavar="DIR", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.consume:
        consume(given.uri, Path(given.consume), given.rows)
        return
    print(f"{'':<20}{'rows':>10}{'cpu s':>9}{'wall s':>9}{'rows/s':>12}")
    with tempfile.TemporaryDirectory(prefix="warren-bench-") as scratch:
        with broker(given.uri, Path(scratch)) as uri:
            for _ in range(given.reps):
                folder = Path(scratch) / "archive"
                for name, words in (
                    ("warren archive", ["-m", "warren", "archive", QUEUE, str(folder)]),
                    (
                        "pika",
                        ["-m", "bench.archive", "--consume", str(folder)]
                        + ["--rows", str(given.rows)],
                    ),
                ):
                    fill(uri, given.rows, given.bytes)
                    folder.mkdir()
                    measured(name, [*words, "--uri", uri], given.rows)
                    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
