"""Judges histories that are too large for one event after the other, on Spark.

It comes to the same verdict as `serial`. Every event of a message is counted into one row by queue,
publisher and sequence; only messages with which something is wrong come back. Names are hashed to
64 bits first, so that rows that are exchanged are a few numbers, and found again at the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.history.verdict import Verdict, behind, leader_changes, names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

BUCKET_NS: Final = 10_000_000
"""Confirms are gathered by this time, to find a longer one without any."""

LONG_MAX: Final = (1 << 63) - 1


class SparkChecker:
    """Judges one history."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        """
        Raises:
            FileNotFoundError: There is no history in the folder.
        """
        if not any(folder.glob("*.parquet")):
            raise FileNotFoundError(f"no history in {folder}")
        from pyspark.sql import functions

        self._f: Any = functions
        self._rows: DataFrame = spark.read.parquet(str(folder))

    def judge(self) -> Verdict:
        """Look at all events; the figures and lists are those of the serial checker."""
        verdict = Verdict()
        self._count_messages(verdict)
        self._find_late(verdict)
        self._find_gaps(verdict)
        self._take_others(verdict)
        verdict.find_vacuous()
        return verdict

    def _where(self, op: str, kind: str) -> DataFrame:
        return self._rows.where((self._f.col("op") == op) & (self._f.col("type") == kind))

    def _who(self) -> Column:
        """Queue and publisher as one number."""
        who: Column = self._f.xxhash64("queue", "publisher")
        return who

    def _count_messages(self, verdict: Verdict) -> None:
        f = self._f
        op, kind, again = f.col("op"), f.col("type"), f.coalesce(f.col("redelivered"), f.lit(False))
        of_message = op.isin("publish", "deliver", "settle", "gone")
        is_delivery = (op == "deliver") & (kind == "ok")

        def count(condition: Column) -> Column:
            counted: Column = f.count_if(condition)
            return counted

        messages = (
            self._rows.where(of_message & ~((op == "settle") & (kind != "ok")))
            .groupBy(self._who().alias("who"), "sequence")
            .agg(
                count((op == "publish") & (kind == "invoke")).alias("sent"),
                count((op == "publish") & (kind == "ok")).alias("confirms"),
                count((op == "publish") & (kind == "info")).alias("unknown"),
                count((op == "publish") & (kind == "fail")).alias("refused"),
                count(is_delivery & ~again).alias("first"),
                count(is_delivery & again).alias("again"),
                count(op == "gone").alias("gone"),
                f.min(f.when(op == "settle", f.col("time_ns"))).alias("settled_ns"),
                f.max(f.when(is_delivery, f.col("time_ns"))).alias("delivered_ns"),
            )
        )
        delivered = f.col("first") + f.col("again")
        lost = (f.col("confirms") > 0) & (delivered == 0) & (f.col("gone") == 0)
        invented = (delivered > 0) & (f.col("sent") == 0)
        undone = f.coalesce(f.col("delivered_ns") > f.col("settled_ns"), f.lit(False))
        doubled = ((f.col("first") > 1) & (f.col("sent") <= 1)) | undone

        def found(condition: Column) -> Column:
            """The messages with which something is wrong; null is left out of a list."""
            listed: Column = f.collect_list(f.when(condition, f.struct("who", "sequence")))
            return listed

        row = messages.agg(
            f.coalesce(f.sum("sent"), f.lit(0)).alias("sent"),
            count(f.col("confirms") > 0).alias("confirmed"),
            f.coalesce(f.sum("unknown"), f.lit(0)).alias("unknown"),
            f.coalesce(f.sum("refused"), f.lit(0)).alias("refused"),
            f.coalesce(f.sum(delivered), f.lit(0)).alias("delivered"),
            f.coalesce(f.sum("again"), f.lit(0)).alias("again"),
            found(lost).alias("lost"),
            found(invented).alias("invented"),
            found(doubled).alias("doubled"),
        ).first()
        assert row is not None, "an aggregate of all has one row"
        verdict.published, verdict.confirmed = row.sent, row.confirmed
        verdict.unknown, verdict.refused = row.unknown, row.refused
        verdict.delivered, verdict.redelivered = row.delivered, row.again
        who = self._names() if row.lost or row.invented or row.doubled else {}
        for name in ("lost", "invented", "doubled"):
            setattr(verdict, name, names((*who[each.who], each.sequence) for each in row[name]))

    def _names(self) -> dict[int, tuple[str, str]]:
        """The queue and the publisher that each number stands for."""
        rows = self._rows.where(self._f.col("op").isin("publish", "deliver", "settle", "gone"))
        rows = rows.select(self._who().alias("who"), "queue", "publisher").distinct()
        return {row.who: (row.queue, row.publisher) for row in rows.collect()}

    def _find_late(self, verdict: Verdict) -> None:
        """First deliveries behind a later one of the same publisher, queue and consumer."""
        f = self._f
        from pyspark.sql import Window

        one = Window.partitionBy("row").orderBy("number")
        first = (
            self._where("deliver", "ok")
            .where(~f.coalesce(f.col("redelivered"), f.lit(False)))
            .select(
                f.xxhash64("process", "queue", "publisher").alias("row"),
                self._who().alias("who"),
                "number",
                "sequence",
            )
            .withColumn("before", f.lag("sequence").over(one))
            .where(f.col("sequence") < f.col("before"))
            .select("who", "sequence", "before")
        )
        rows = first.collect()
        who = self._names() if rows else {}
        verdict.late = behind((who[row.who][1], row.sequence, row.before) for row in rows)

    def _find_gaps(self, verdict: Verdict) -> None:
        """The longest time that a queue went without a confirm."""
        f = self._f
        confirms = self._where("publish", "ok").select("queue", "time_ns")
        bucket = f.expr(f"time_ns div {BUCKET_NS}").alias("bucket")
        edges = confirms.groupBy("queue", bucket).agg(
            f.min("time_ns").alias("first"), f.max("time_ns").alias("last")
        )
        verdict.gap_s = self._longest(edges)
        if 0 < verdict.gap_s * 1e9 < BUCKET_NS or verdict.gap_s == 0:
            # Within a bucket there may be a longer one.
            each = confirms.select("queue", f.col("time_ns").alias("first"))
            verdict.gap_s = self._longest(each.withColumn("last", f.col("first")))

    def _longest(self, edges: DataFrame) -> float:
        """The longest time from the end of a stretch to the next one's beginning, in seconds."""
        f = self._f
        from pyspark.sql import Window

        before = f.lag("last").over(Window.partitionBy("queue").orderBy("first"))
        row = edges.select((f.col("first") - before).alias("gap")).agg(f.max("gap")).first()
        return 0.0 if row is None or row[0] is None else float(row[0]) / 1e9

    def _take_others(self, verdict: Verdict) -> None:
        """Faults, leaders and surprises, of which there are few."""
        f = self._f
        rows = self._rows.where(f.col("op").isin("fault", "leader", "surprise"))
        rows = rows.select("op", "type", "time_ns", "queue", "node", "what")
        leaders: list[tuple[int, str, str]] = []
        for row in rows.collect():
            if row.op == "surprise":
                verdict.surprises[row.what] = verdict.surprises.get(row.what, 0) + 1
            elif row.type == "ok" and row.op == "fault":
                verdict.faults += 1
            elif row.type == "ok":
                leaders.append((row.time_ns, row.queue, row.node))
        verdict.leader_changes = leader_changes(leaders)


def check(spark: SparkSession, folder: Path) -> Verdict:
    """Judge the history in a folder.

    Raises:
        FileNotFoundError: There is none.
    """
    return SparkChecker(spark, folder).judge()


def session(threads: int = 2) -> SparkSession:
    """A session for checks on this machine."""
    from pyspark.sql import SparkSession as Sessions

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(4 * threads),
        "spark.sql.adaptive.enabled": "false",
        "spark.shuffle.compress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:TieredStopAtLevel=1",
    }
    builder = Sessions.builder.master(f"local[{threads}]").appName("histories")
    for name, value in settings.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
