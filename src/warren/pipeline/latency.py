"""Latencies: how long messages took from step to step, by what an events feed tells.

The steps of a message are its first `published`, `confirmed` and `delivered`, and its last `acked`;
readers such as archives, which are no consumers, do not count as deliveries. A message counts in
the minute in which it was published, and minutes are computed anew for `_OPEN_MS` after it: what
happens to a message later than that is not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from warren.pipeline.gold import MINUTE_MS, not_negative, percentiles, replace_minutes
from warren.pipeline.layout import PipelineFolder
from warren.pipeline.tables import ROWS, Table, time_range
from warren.spark import feed
from warren.spark.archiving import archived_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: So long after it a minute may change.
_OPEN_MS: Final = 3_600_000

#: What tells messages apart.
_MESSAGE: Final = ("queue", "incarnation", "offset")


def journeys(events: DataFrame) -> DataFrame:
    """One row for each message: when it took its steps, null for those that it did not take.

    Args:
        events: Of `feed.events`, one row for each message of a run.
    """

    def when(event: str) -> Column:
        counts = F.col("event") == event
        if event in ("delivered", "acked"):
            counts &= F.col("consumer") != 0
        return F.when(counts, F.unix_millis("time"))

    again = (F.col("event") == "delivered") & (F.col("reason") == "redelivered")
    return (
        events.where("offset IS NOT NULL")
        .groupBy(*_MESSAGE)
        .agg(
            F.min(when("published")).alias("published_ms"),
            F.min(when("confirmed")).alias("confirmed_ms"),
            F.min(when("delivered")).alias("delivered_ms"),
            F.max(when("acked")).alias("acked_ms"),
            F.count_if(again).alias("redelivered"),
            F.count_if(F.col("event") == "dead_lettered").alias("dead_lettered"),
            F.count_if(F.col("event") == "dropped").alias("dropped"),
        )
    )


def latencies(taken: DataFrame) -> DataFrame:
    """Figures for each queue and minute.

    Args:
        taken: Of `journeys`; those whose publish was not seen are left out.
    """

    def span(name: str, begin: str, end: str) -> list[Column]:
        return percentiles(name, not_negative(F.col(end) - F.col(begin)))

    minute = F.date_trunc("minute", F.timestamp_millis("published_ms")).alias("minute")
    return (
        taken.where("published_ms IS NOT NULL")
        .groupBy("queue", minute)
        .agg(
            F.count("*").alias("messages"),
            F.count("acked_ms").alias("acked"),
            F.sum("redelivered").alias("redelivered"),
            F.sum("dead_lettered").alias("dead_lettered"),
            F.sum("dropped").alias("dropped"),
            *span("confirm_ms", "published_ms", "confirmed_ms"),
            *span("deliver_ms", "published_ms", "delivered_ms"),
            *span("ack_ms", "delivered_ms", "acked_ms"),
        )
    )


class LatencyTable:
    """The table of latencies of a pipeline that archives an events feed."""

    def __init__(self, folder: PipelineFolder) -> None:
        self._folder = folder
        self.table = Table(folder.gold / "latencies")

    def update(self, spark: SparkSession, queue: str) -> int:
        """Compute the minutes that changed since the last time; returns how many those were.

        Args:
            queue: The feed's; nothing is done if it is not archived.
        """
        if queue not in self._folder.queues():
            return 0
        with self._folder.writing("latencies"):
            self.table.make("latencies", {})
            since = self.table.newest()
            batches = list(archived_batches(self._folder.bronze(queue)))
            seen = int(since.facts.get("checkout", 0))
            if not batches or batches[-1].number <= seen:
                return 0
            first_ms = max(int(since.facts.get("upto_ms", 0)) - _OPEN_MS, 0)
            first_ms -= first_ms % MINUTE_MS
            spans = [(batch, time_range(batch.file, "timestamp")) for batch in batches]
            files = [str(batch.file) for batch, (_, last) in spans if last >= first_ms]
            # A block may come twice, when a node could not know that it had been written.
            blocks = spark.read.parquet(*files).select("value").dropDuplicates()
            # Who may publish to the feed's queue must not be able to end this for good.
            events = feed.events(blocks, explode=True, skip_foreign=True)
            figures = latencies(journeys(events))
            figures = figures.where(F.col("minute") >= F.timestamp_millis(F.lit(first_ms)))
            facts = {
                "queue": queue,
                "checkout": batches[-1].number,
                "upto_ms": max(last for _, (_, last) in spans),
            }
            added = replace_minutes(spark, self.table, since, ROWS, figures, first_ms, facts)
            self.table.sweep()
            return sum(file.rows for file in added)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """All minutes; None if there are none."""
        files = self.table.files() if self.table.exists() else []
        return spark.read.parquet(*files) if files else None
