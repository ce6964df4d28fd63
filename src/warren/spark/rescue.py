"""A queue of a data directory, written into a folder of Parquet files: no broker is needed.

The folder looks like an archive of the queue (`warren.spark.archiving`), so that `archived_files`
reads it; what cannot be read is listed beside it::

    <folder>/_archive.json              which queue this is of, and where it was
    <folder>/0000000001.parquet         messages
    <folder>/_manifest/0000000001.json  says that the file is whole
    <folder>/_damage.json               what could not be read; written last
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa

from warren.errors import BrokerError
from warren.offline.directory import open_directory
from warren.offline.states import DAMAGED
from warren.spark.archive import STAGING, publish, sync
from warren.spark.archiving import (
    IDENTITY,
    MANIFEST,
    VERSION,
    ArchiveProgress,
    publish_json,
)
from warren.spark.offline_rows import plan_parts, read_parts
from warren.spark.options import offline_options
from warren.spark.parquet import write_rows
from warren.spark.schema import OFFLINE_COLUMNS, arrow_schema

DAMAGE: Final = "_damage.json"


class NotRescued(BrokerError):
    """A queue cannot be written into this folder."""


class Rescued(NamedTuple):
    """What came of a rescue.

    Attributes:
        rows, files: Messages that were written, and the files with them.
        damage: What could not be read: number of the first message and of the last, None where it
            is not about messages of known numbers, and why.
    """

    rows: int
    files: int
    damage: list[tuple[int | None, int | None, str]]


def rescue(
    directory: str,
    queue: str,
    folder: str | Path,
    vhost: str | None = None,
    rows_max: int = 1_000_000,
    gone: bool = False,
    tell: Callable[[ArchiveProgress], None] = lambda progress: None,
) -> Rescued:
    """Write all messages of a queue that can be read; nothing in the data directory changes.

    Args:
        directory: The data directory of a node that does not run, or a copy of one.
        folder: Where to; made where it is missing, and empty.
        vhost: The queue's; where it is None, queues of that name in all vhosts are meant.
        rows_max: Messages of one file at most.
        gone: Whether messages that left the queue are wanted, too.
        tell: Called as rows are written.

    Raises:
        NotRescued: The folder is not empty.
        ConfigError: There is no such queue.
        StorageError: A node uses the directory, or nothing of it can be read.
        OSError: The disk is full, or cannot link.
    """
    given = {
        "dataDirectory": directory,
        "subscribe": queue,
        "columns": ",".join(OFFLINE_COLUMNS),
        "maxRecordsPerPartition": str(rows_max),
        "includeGone": str(gone).lower(),
    }
    options = offline_options(given if vhost is None else {**given, "vhost": vhost})
    folder = Path(folder).absolute()
    if folder.exists() and any(folder.iterdir()):
        raise NotRescued(f"{folder} is not empty: rescue into a new folder")
    damage: list[tuple[int | None, int | None, str]] = []
    done = ArchiveProgress(0, 0, 0)
    with open_directory(directory) as opened:
        tasks = plan_parts(opened, options)
        messages = sum(
            run.last - run.first + 1 for parts in tasks for part in parts for run in part.runs
        )
        done = done._replace(waiting=messages)
        tell(done)
        for made in (folder, folder / MANIFEST, folder / STAGING):
            made.mkdir(parents=True, exist_ok=True)
            sync(made.parent)
        publish_json(
            folder,
            folder / IDENTITY,
            {"version": VERSION, "queue": queue, "directory": str(opened.path)},
        )
        for number, parts in enumerate(tasks, 1):
            batches = _whole(read_parts(opened, parts, options), damage)
            attempt = folder / STAGING / f"{uuid.uuid4().hex}.parquet"
            rows = 0
            for rows in write_rows(attempt, arrow_schema(options.columns), batches):
                tell(done._replace(rows=done.rows + rows))
            if rows:
                _publish(folder, number, attempt, rows)
                done = done._replace(rows=done.rows + rows, files=done.files + 1)
            attempt.unlink()
    told = [{"first": first, "last": last, "why": why} for first, last, why in damage]
    publish_json(folder, folder / DAMAGE, {"version": VERSION, "damage": told})
    return Rescued(done.rows, done.files, damage)


def _publish(folder: Path, number: int, attempt: Path, rows: int) -> None:
    """Give a file that is whole its name, and say so."""
    file = folder / f"{number:010d}.parquet"
    publish(attempt, file)
    manifest: dict[str, Any] = {"version": VERSION, "file": file.name, "rows": rows}
    publish_json(folder, folder / MANIFEST / f"{number:010d}.json", manifest)


def _whole(
    batches: Iterator[pa.RecordBatch], damage: list[tuple[int | None, int | None, str]]
) -> Iterator[pa.RecordBatch]:
    """The batches with messages; the others say what is damaged."""
    for batch in batches:
        if batch.num_rows and batch["state"][0].as_py() != DAMAGED:
            yield batch
            continue
        columns = (batch[name].to_pylist() for name in ("offset", "last_offset", "reason"))
        damage += zip(*columns, strict=True)
