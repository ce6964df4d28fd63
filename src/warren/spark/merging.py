"""Small files of an archive put together, while others archive and read.

The files of some checkouts become one, ``0000000003-0000000007.parquet``, and the manifest of the
last of them is replaced by one that says so. That is one step: readers of the manifests see the
small files, or the large one. What it covers goes after that: the manifests at once, which readers
do not heed any more, and the files when those who have begun with them had time to end.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from warren.spark.archive import publish, sync
from warren.spark.archiving import (
    MANIFEST,
    VERSION,
    ArchivedBatch,
    NotArchived,
    manifest_numbers,
)
from warren.spark.parquet import write_rows

_MERGING: Final = "_merging"


def merge_files(folder: Path, batches: list[ArchivedBatch]) -> Path:
    """Have a file with the rows of some batches, which no manifest names yet.

    Args:
        batches: Neighbours, of one schema.

    Raises:
        NotArchived: A file has other rows than its manifest says.
        OSError: The disk is full, or cannot link.
    """
    file = folder / f"{batches[0].first:010d}-{batches[-1].number:010d}.parquet"
    rows = sum(batch.rows for batch in batches)
    if not file.exists():
        staging = folder / _MERGING
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        attempt = staging / file.name
        for _ in write_rows(attempt, pq.read_schema(batches[0].file), _rows_of(batches)):
            pass
        if pq.read_metadata(attempt).num_rows == rows:
            publish(attempt, file)
        shutil.rmtree(staging)
    if not file.exists() or pq.read_metadata(file).num_rows != rows:
        raise NotArchived(
            f"{batches[0].file} to {batches[-1].file.name} have other rows than the {rows} that "
            f"their manifests say, or {file.name} has: the files were changed"
        )
    return file


def _rows_of(batches: list[ArchivedBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        with pq.ParquetFile(batch.file) as source:
            yield from source.iter_batches()


def put_in_place(folder: Path, batches: list[ArchivedBatch], file: Path) -> None:
    """Have readers see a file of `merge_files` in the place of its batches."""
    first, last = batches[0].first, batches[-1].number
    runs: list[list[int]] = []
    for batch in batches:
        said = json.loads((folder / MANIFEST / f"{batch.number:010d}.json").read_text())
        for begin, end in said["messages"]:
            if runs and runs[-1][1] + 1 == begin:
                runs[-1][1] = end
            else:
                runs.append([begin, end])
        os.utime(batch.file)  # From now on readers have time to end.
    content = {
        "version": VERSION,
        "checkout": last,
        "from": first,
        "file": file.name,
        "rows": sum(batch.rows for batch in batches),
        "bytes": file.stat().st_size,
        "archived_ms": batches[-1].archived_ms,
        "messages": runs,
    }
    attempt = folder / MANIFEST / f"_{uuid.uuid4().hex}.tmp"
    attempt.write_text(json.dumps(content) + "\n", encoding="utf-8")
    sync(attempt)
    os.replace(attempt, folder / MANIFEST / f"{last:010d}.json")
    sync(folder / MANIFEST)
    drop_covered(folder, batches)


def drop_covered(folder: Path, batches: list[ArchivedBatch]) -> None:
    """Delete manifests that a later one covers, as a run that was ended may have left them."""
    numbers = sorted(manifest_numbers(folder))
    for batch in batches:
        for number in numbers:
            if batch.first <= number < batch.number:
                (folder / MANIFEST / f"{number:010d}.json").unlink(missing_ok=True)
