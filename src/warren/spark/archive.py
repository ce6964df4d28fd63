"""An archive of Parquet files that any reader sees whole batches of, each once.

    archive = Archive("/data/orders")
    rows.writeStream.foreachBatch(archive).option("checkpointLocation", ...).start()

A batch is written below `_staging`, a directory that readers of Parquet pass over, in a place of
its own for each attempt. When all of it is there and on disk, it gets its final name by one link,
which fails if the name is taken::

    <folder>/<query id>-<batch id>.parquet     one file a batch, under a final name or not at all
    <folder>/_staging/<attempt>/...            what is being written, or what a crash left there

So pandas, pyarrow, Spark and whatever reads `*.parquet` agree at any moment, whatever was killed; a
batch that runs again finds its name taken; and a driver that was frozen meanwhile destroys nothing
when it wakes.

With `archiveDirectory` the tasks that read a queue have written the files already, and the frame
says which they are (`warren.spark.batch_files`).
"""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from warren.errors import BrokerError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGING = "_staging"


class Archive:
    """Writes each micro-batch of a query once; give it to `foreachBatch`.

    The folder has to be on a file system that driver and executors share, with hard links: a local
    disk or NFS, but no object store.
    """

    def __init__(self, folder: str | Path) -> None:
        """Remember where to; nothing is made yet."""
        self._folder = Path(folder).absolute()

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Store a micro-batch, unless it is there."""
        # Where Arrow is not needed, importing it takes too long.
        from warren.spark.batch_files import BatchFiles, TaskFile

        query = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if not query:
            raise BrokerError("an archive is for foreachBatch of a streaming query")
        files = BatchFiles(self._folder, query, batch)
        if files.finish():
            files.clear()
        elif "staged_file" in rows.columns:
            files.publish(
                [TaskFile(row.staged_file, row.part, row.parts) for row in rows.collect()]
            )
        else:
            self._write(rows, files.final)
            files.finish()

    def _write(self, rows: DataFrame, final: Path) -> None:
        """Have Spark write a micro-batch of messages, and publish the file."""
        attempt = self._folder / STAGING / uuid.uuid4().hex
        try:
            rows.coalesce(1).write.option("compression", "zstd").parquet(attempt.as_uri())
            written = sorted(attempt.glob("part-*.parquet"))
            if len(written) > 1:
                raise BrokerError(f"{attempt}: one file is expected, not {len(written)}")
            if written:  # else the batch has no rows
                publish(written[0], final)
        finally:
            shutil.rmtree(attempt, ignore_errors=True)


def publish(written: Path, final: Path) -> bool:
    """Have a file under its final name, durably; whether it is this one, and not one before.

    That one's name may not be on disk yet, where who gave it was frozen or killed behind its link.

    Raises:
        OSError: The disk is full, or cannot link.
    """
    sync(written)
    is_first = True
    try:
        os.link(written, final)
    except FileExistsError:
        is_first = False
    sync(final.parent)
    return is_first


def sync(path: Path) -> None:
    """Have the disk keep what a file or a directory has."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
