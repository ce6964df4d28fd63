"""Upkeep: small files into large ones, and old days away, while others read and write goes on.

Tables change by versions, so that readers see the one or the other. Of an archive the manifests of
old checkouts go first; its files stay for as long as a reader may have begun with them. Nothing is
taken away that silver, gold or the letters have not read yet. No Spark is needed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from warren.pipeline.layout import PipelineFolder
from warren.pipeline.tables import KEPT_SECONDS, Table, TableFile, time_range
from warren.spark.archiving import ArchivedBatch, archived_batches, forget_batches, old_files
from warren.spark.merging import drop_covered, merge_files, put_in_place

#: Rows and bytes of a file that is not put together with others any more.
_LARGE_ROWS: Final = 500_000
_LARGE_BYTES: Final = 128 * 1024 * 1024

_DAY_MS: Final = 86_400_000


class TakenAway(NamedTuple):
    """What was taken away.

    Attributes:
        name: Of the archive or table, below the folder.
        files, rows: That it has not any more.
    """

    name: str
    files: int
    rows: int


class CompactedTable(NamedTuple):
    """What a table was made of, and is."""

    name: str
    before: int
    after: int


def tables(folder: PipelineFolder) -> Iterator[tuple[str, str, Table]]:
    """All tables: the lock of each, the column with its times, and itself."""
    folder.check()
    for queue in folder.queues():
        table = Table(folder.silver(queue))
        if table.exists():
            yield f"silver {queue}", "timestamp", table
    for name, lock, column in (
        ("minutes", "gold", "minute"),
        ("latencies", "latencies", "minute"),
        ("letters", "letters", "timestamp"),
    ):
        table = Table(folder.gold / name)
        if table.exists():
            yield lock, column, table


def compact(folder: PipelineFolder, files_min: int = 2) -> list[CompactedTable]:
    """Put small files of tables together, in the order of their times.

    Args:
        files_min: Leave alone what has fewer small files.

    Raises:
        PipelineError: Another process writes one of them.
    """
    done: list[CompactedTable] = []
    for lock, column, table in tables(folder):
        with folder.writing(lock):
            since = table.newest()
            small = [
                file
                for file in since.files
                if file.rows < _LARGE_ROWS // 2 and file.bytes < _LARGE_BYTES // 2
            ]
            if len(small) < files_min:
                continue
            before = len(since.files)
            for group in _groups(small):
                added = _merged(table, group, column)
                since = table.commit(since, added, drop=group)
            table.sweep()
            name = str(table.folder.relative_to(folder.path))
            done.append(CompactedTable(name, before, len(since.files)))
    return done


def compact_bronze(folder: PipelineFolder) -> list[CompactedTable]:
    """Put small files of archives together, in the order of their messages.

    What tables have read is not mixed with what they have not, and the newest file stays as it is.

    Raises:
        PipelineError: Another process writes one of them, or reads it for a table.
    """
    done: list[CompactedTable] = []
    with folder.writing("bronze"):
        for queue in folder.queues():
            archive = folder.bronze(queue)
            _sweep_archive(archive)
            batches = list(archived_batches(archive))
            drop_covered(archive, batches)
            before = after = len(batches)
            for group in _archive_groups(batches[:-1], set(_read(folder, queue))):
                file = merge_files(archive, group)
                with ExitStack() as locks:
                    for lock in (f"silver {queue}", "gold", "latencies", "letters"):
                        locks.enter_context(folder.writing(lock))
                    if any(group[0].first <= at < group[-1].number for at in _read(folder, queue)):
                        continue  # A table has read a part of it meanwhile: next time.
                    put_in_place(archive, group, file)
                after -= len(group) - 1
            if after < before:
                name = str(archive.relative_to(folder.path))
                done.append(CompactedTable(name, before, after))
    return done


def _archive_groups(batches: list[ArchivedBatch], read: set[int]) -> list[list[ArchivedBatch]]:
    """Neighbours that make a large file each, of one schema.

    Args:
        read: Checkouts up to which tables have read the archive.
    """
    groups: list[list[ArchivedBatch]] = [[]]
    rows = size = 0
    schema: pa.Schema | None = None
    for batch in batches:
        large = batch.rows >= _LARGE_ROWS // 2 or batch.bytes >= _LARGE_BYTES // 2
        full = rows + batch.rows > _LARGE_ROWS or size + batch.bytes > _LARGE_BYTES
        group = groups[-1]
        told = any(group[-1].number <= at < batch.first for at in read) if group else False
        own = None if large else pq.read_schema(batch.file)
        if large or full or told or own != schema:
            groups.append([])
            rows = size = 0
        if not large:
            groups[-1].append(batch)
            rows, size = rows + batch.rows, size + batch.bytes
        schema = own
    return [group for group in groups if len(group) > 1]


def _groups(files: list[TableFile]) -> list[list[TableFile]]:
    """Files that make a large one each, of one part, in the order of their times."""
    groups: list[list[TableFile]] = []
    rows = size = 0
    last: TableFile | None = None
    for file in sorted(files, key=lambda file: (file.part, file.first_ms, file.name)):
        full = rows + file.rows > _LARGE_ROWS or size + file.bytes > _LARGE_BYTES
        if last is None or last.part != file.part or full:
            groups.append([])
            rows = size = 0
        groups[-1].append(file)
        rows, size, last = rows + file.rows, size + file.bytes, file
    return [group for group in groups if len(group) > 1]


def _merged(table: Table, files: list[TableFile], column: str) -> list[TableFile]:
    """One file with the rows of some, a row group at a time."""
    staging = table.staging()
    staging.mkdir(parents=True)
    paths = table.paths(files)
    schema = pq.read_schema(paths[0])
    with pq.ParquetWriter(staging / "merged.parquet", schema, compression="zstd") as writer:
        for path in paths:
            source = pq.ParquetFile(path)
            for group in range(source.num_row_groups):
                rows = source.read_row_group(group)
                writer.write_table(rows.select(schema.names).cast(schema))
    return table.take(staging, files[0].part, column)


def keep(folder: PipelineFolder, days: float, bronze_days: float | None = None) -> list[TakenAway]:
    """Take away what is older than some days; files that are in part younger stay, and those that
    do not say of when they are.

    Args:
        days: For tables.
        bronze_days: For archives; None keeps them all.

    Raises:
        PipelineError: Another process writes one of them.
    """
    now_ms = int(time.time() * 1000)
    done: list[TakenAway] = []
    if bronze_days is not None:
        with folder.writing("bronze"):
            before_ms = now_ms - int(bronze_days * _DAY_MS)
            done += [_keep_archive(folder, queue, before_ms) for queue in folder.queues()]
    before_ms = now_ms - int(days * _DAY_MS)
    for lock, _, table in tables(folder):
        with folder.writing(lock):
            since = table.newest()
            old = [file for file in since.files if 0 < file.last_ms < before_ms]
            if old:
                table.commit(since, [], drop=old)
            table.sweep()
            name = str(table.folder.relative_to(folder.path))
            done.append(TakenAway(name, len(old), sum(file.rows for file in old)))
    return [each for each in done if each.files]


def _keep_archive(folder: PipelineFolder, queue: str, before_ms: int) -> TakenAway:
    archive = folder.bronze(queue)
    _sweep_archive(archive)
    read_by_all = min(_read(folder, queue), default=0)
    old: list[ArchivedBatch] = []
    for batch in archived_batches(archive):
        if batch.number > read_by_all or not 0 < _last_ms(batch.file) < before_ms:
            break
        old.append(batch)
    gone = forget_batches(archive, old)
    for batch in gone:
        os.utime(batch.file)  # From now on readers have time to end.
    name = str(archive.relative_to(folder.path))
    return TakenAway(name, len(gone), sum(batch.rows for batch in gone))


def _sweep_archive(archive: Path) -> None:
    """Delete files that readers have had time to end with."""
    for file in old_files(archive):
        if file.stat().st_mtime < time.time() - KEPT_SECONDS:
            file.unlink()


def _last_ms(file: Path) -> int:
    return time_range(file, "timestamp")[1]


def _read(folder: PipelineFolder, queue: str) -> Iterator[int]:
    """How far each table has read an archive; none where it was never read."""
    silver = Table(folder.silver(queue))
    if silver.exists():
        yield int(silver.newest().facts.get("checkout", 0))
    for name in ("minutes", "letters"):
        table = Table(folder.gold / name)
        if table.exists():
            yield int(table.newest().facts.get("checkouts", {}).get(queue, 0))
    latencies = Table(folder.gold / "latencies")
    if latencies.exists():
        facts = latencies.newest().facts
        if facts.get("queue") == queue:
            yield int(facts["checkout"])
