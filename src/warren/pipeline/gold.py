"""Gold: figures for each queue and minute, by the broker's clock.

A message counts in the minute in which the broker took it. *Age* is how long it was in the queue
until it was archived; *lag* how long it was under way before, where producers set a timestamp,
which has whole seconds. Percentiles are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from warren.pipeline.layout import PipelineFolder
from warren.pipeline.session import write_files
from warren.pipeline.tables import Table, TableFile, TableVersion, time_range
from warren.spark.archiving import ArchivedBatch, archived_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MINUTE_MS: Final = 60_000

#: Rows of a file that is not rewritten any more when minutes come.
_FILE_ROWS: Final = 20_000

_READ: Final = ("timestamp", "producer_timestamp", "value")


def percentiles(name: str, value: Column) -> list[Column]:
    """Columns with the median, the 95th and 99th percentile and the maximum of a value."""
    found = [F.percentile(value, at).alias(f"{name}_p{int(at * 100)}") for at in (0.5, 0.95, 0.99)]
    return [*found, F.max(value).cast("double").alias(f"{name}_max")]


def minutes(rows: DataFrame) -> DataFrame:
    """Figures for each minute of a queue's messages.

    Args:
        rows: With `timestamp`, `producer_timestamp`, `value` and `archived_ms`, which is null where
            the archive does not say.
    """
    taken_ms = F.unix_millis("timestamp")
    age = not_negative(F.col("archived_ms") - taken_ms)
    lag = not_negative(taken_ms - F.unix_millis("producer_timestamp"))
    return rows.groupBy(F.date_trunc("minute", "timestamp").alias("minute")).agg(
        F.count("*").alias("messages"),
        F.sum(F.length("value")).alias("bytes"),
        *percentiles("size", F.length("value")),
        *percentiles("age_ms", age),
        *percentiles("lag_ms", lag),
    )


def not_negative(value: Column) -> Column:
    """A span between two clocks that may differ; null where one of them is not known."""
    return F.when(value < 0, 0).otherwise(value)


class GoldTable:
    """The table of minutes; each queue is a part of it."""

    def __init__(self, folder: PipelineFolder) -> None:
        self._folder = folder
        self.table = Table(folder.gold / "minutes")

    def update(self, spark: SparkSession) -> int:
        """Add what was archived since the last time; returns how many queues had something."""
        with self._folder.writing("gold"):
            self.table.make("minutes", {})
            changed = sum(self._update_queue(spark, queue) for queue in self._folder.queues())
            self.table.sweep()
            return changed

    def read(self, spark: SparkSession) -> DataFrame | None:
        """All minutes with their queue; None if there are none."""
        files = self.table.paths(self.table.newest().files)
        return spark.read.parquet(*files) if files else None

    def _update_queue(self, spark: SparkSession, queue: str) -> bool:
        """Compute the minutes that have new messages, anew if they had some before."""
        since = self.table.newest()
        seen = dict(since.facts.get("checkouts", {}))
        batches = list(archived_batches(self._folder.bronze(queue)))
        new = [batch for batch in batches if batch.number > int(seen.get(queue, 0))]
        if not new:
            return False
        first_ms = min(time_range(batch.file, "timestamp")[0] for batch in new)
        first_ms -= first_ms % MINUTE_MS
        again = list(new)
        for batch in reversed(batches[: -len(new)]):
            if time_range(batch.file, "timestamp")[1] < first_ms:
                break
            again.append(batch)
        rows = archived_rows(spark, again)
        rows = rows.where(F.col("timestamp") >= F.timestamp_millis(F.lit(first_ms)))
        figures = minutes(rows).withColumn("queue", F.lit(queue))
        seen[queue] = new[-1].number
        facts = {"checkouts": seen}
        replace_minutes(spark, self.table, since, queue, figures, first_ms, facts)
        return True


def replace_minutes(
    spark: SparkSession,
    table: Table,
    since: TableVersion,
    part: str,
    figures: DataFrame,
    first_ms: int,
    facts: Mapping[str, Any],
) -> list[TableFile]:
    """Make a version of a table of minutes in which a part has other figures from a minute on.

    Args:
        figures: With the column `minute`, of the minute at `first_ms` and later ones.

    Returns:
        The files that are new.
    """
    replaced = _replaced([file for file in since.files if file.part == part], first_ms)
    if replaced:
        begin = F.timestamp_millis(F.lit(first_ms))
        had = spark.read.parquet(*table.paths(replaced)).where(F.col("minute") < begin)
        figures = figures.unionByName(had)
    staging = table.staging()
    write_files(figures.orderBy("minute"), staging)
    added = table.take(staging, part, "minute")
    table.commit(since, added, replaced, facts)
    return added


def archived_rows(spark: SparkSession, batches: Sequence[ArchivedBatch]) -> DataFrame:
    """Messages with `archived_ms`, when they were archived."""
    when = [(batch.file.name, batch.archived_ms or None) for batch in batches]
    times = spark.createDataFrame(when, "_file string, archived_ms bigint")
    files = [str(batch.file) for batch in batches]
    rows = spark.read.parquet(*files).select(*_READ, F.col("_metadata.file_name").alias("_file"))
    return rows.join(F.broadcast(times), "_file")


def _replaced(files: Sequence[TableFile], first_ms: int) -> list[TableFile]:
    """Files that have minutes to be computed anew, and the last one while it is small."""
    last = max(files, key=lambda file: file.last_ms, default=None)
    small = last if last is not None and last.rows < _FILE_ROWS else None
    return [file for file in files if file.last_ms >= first_ms or file is small]
