"""Dead letters: why, where and of what the archived messages died that other queues sent on.

What a message died of is told by the first entry of its header `x-death`. Clients may write such a
header, too: a letter is `proven` if the broker has noted that it died. What was wrong with it is
its *signature*: what the consumer said in a header, without the parts that differ from message to
message, or else what does not fit the schema of the queue that it died in.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from warren.pipeline.layout import PipelineFolder
from warren.pipeline.session import write_files
from warren.pipeline.silver import SilverTable, bronze_rows, judged, text_of
from warren.pipeline.tables import ROWS, Table
from warren.spark.archiving import archived_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: What groups of dead letters have in common.
GROUPED: Final = ("reason", "queue", "exchange", "signature")

#: The columns that say which message a letter is.
PLACE: Final = ("letter_queue", "incarnation", "offset")

#: Headers in which consumers and frameworks say what went wrong, in lower case, the best first.
_ERROR_HEADERS: Final = (
    *("x-exception-message", "x-error-message", "x-error", "x-exception", "x-last-error"),
    *("error-message", "error", "exception", "mt-fault-message", "x-failure-reason"),
    *("nservicebus.exceptioninfo.message", "x-exception-type", "traceback"),
)

_SIGNATURE_MAX: Final = 160

#: What differs between messages with one fault, and what stands in its place.
_VARYING: Final = (
    (r"(?s)\r?\n.*$", ""),
    (r"'[^']*'|\"[^\"]*\"", "'…'"),
    (r"\b[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
    (r"\b0x[0-9a-fA-F]+\b|\b(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{12,}\b", "<id>"),
    (r"[0-9]+([.,][0-9]+)*", "<n>"),
    (r"\s+", " "),
)

_DEATHS: Final = (
    "array<struct<count: long, reason: string, queue: string, exchange: string, "
    "`routing-keys`: array<string>, time: string>>"
)

#: Of the archive's columns those that a letter keeps.
_KEPT: Final = (
    *("incarnation", "offset", "timestamp", "message_id", "correlation_id", "type", "app_id"),
    *("user_id", "producer_timestamp", "content_type", "headers", "value", "properties_raw"),
)


def header(name: str) -> Column:
    """A header as text; null if a message has none of that name."""
    found = F.filter("headers", lambda entry: F.lower(entry["key"]) == name)
    return F.try_validate_utf8(F.get(found, F.lit(0))["value"].cast("string"))


def signature_of(text: Column) -> Column:
    """An error's text without what differs from message to message."""
    plain = reduce(lambda left, pair: F.regexp_replace(left, *pair), _VARYING, text)
    return F.trim(F.substring(plain, 1, _SIGNATURE_MAX))


def died(archived: DataFrame) -> DataFrame:
    """Those of archived messages that died, with why and where.

    The columns `reason`, `queue`, `exchange`, `routing_key`, `count` and `died_at` are of the last
    death; `letter_queue` is the queue that the letter was archived from. `proven` is whether the
    broker says so; archives of earlier releases do not know.

    Args:
        archived: Of `bronze_rows`.
    """
    deaths = F.from_json(header("x-death"), _DEATHS)
    known = "dead_letter" in archived.columns
    proven = F.coalesce(F.col("dead_letter") == 1, F.lit(False)) if known else F.lit(False)
    return (
        archived.withColumnRenamed("queue", "letter_queue")
        .withColumn("proven", proven)
        .select("letter_queue", *_KEPT, "proven", F.get(deaths, F.lit(0)).alias("_death"))
        .where("_death IS NOT NULL")
        .select(
            "letter_queue",
            *_KEPT,
            "proven",
            F.col("_death.reason").alias("reason"),
            F.col("_death.queue").alias("queue"),
            F.col("_death.exchange").alias("exchange"),
            F.get(F.col("_death.routing-keys"), F.lit(0)).alias("routing_key"),
            F.col("_death.count").alias("count"),
            F.timestamp_seconds(F.expr("try_cast(_death.time AS bigint)")).alias("died_at"),
        )
    )


def signed(letters: DataFrame, schemas: dict[str, StructType]) -> DataFrame:
    """Letters with `signature`, what was wrong with them; and `text`, their body.

    Args:
        schemas: Of bodies by queue; that of the queue a message died in counts, and else that of
            the queue of letters.
    """
    known = [name for name in letters.columns if name not in ("fault", "signature", "text")]
    rows = with_fault(letters.select(*known), schemas)
    said = F.coalesce(*[header(name) for name in _ERROR_HEADERS])
    signature = F.coalesce(F.nullif(signature_of(said), F.lit("")), F.col("fault"), F.lit(""))
    return rows.withColumn("signature", signature).withColumn("text", text_of("value"))


def with_fault(rows: DataFrame, schemas: dict[str, StructType]) -> DataFrame:
    """Rows with the column `fault`: what of the body does not fit; null if it does, or may.

    Args:
        rows: With `value`, `queue` and `letter_queue`.
    """
    if not schemas:
        return rows.withColumn("fault", F.lit(None).cast("string"))
    found: dict[str, str] = {}
    for schema in schemas.values():
        text = schema.json()
        if text not in found:
            name = found[text] = f"_fault_{len(found)}"
            # `judged` has a reason of its own.
            rows = judged(rows.withColumnRenamed("reason", "_reason"), schema)
            rows = rows.withColumn(name, F.coalesce("detail", "reason"))
            rows = rows.drop("body", "reason", "detail").withColumnRenamed("_reason", "reason")
    faults = [
        F.when(F.col(place) == queue, F.coalesce(F.col(found[schema.json()]), F.lit("")))
        for place in ("queue", "letter_queue")
        for queue, schema in schemas.items()
    ]
    fault = F.nullif(F.coalesce(*faults, F.lit("")), F.lit(""))
    return rows.withColumn("fault", fault).drop(*found.values())


def silver_schemas(folder: PipelineFolder) -> dict[str, StructType]:
    """The schema of each queue that has a silver table."""
    tables = {queue: SilverTable(folder, queue) for queue in folder.queues()}
    return {queue: table.schema() for queue, table in tables.items() if table.table.exists()}


class LettersTable:
    """The table of all dead letters in a pipeline's archives."""

    def __init__(self, folder: PipelineFolder) -> None:
        self._folder = folder
        self.table = Table(folder.gold / "letters")

    def update(self, spark: SparkSession) -> int:
        """Add those that were archived since; returns how many.

        What is wrong with letters follows from schemas: where there are others than there were, it
        is found out anew.
        """
        folder, table = self._folder, self.table
        with folder.writing("letters"):
            schemas = silver_schemas(folder)
            known = {queue: schema.jsonValue() for queue, schema in schemas.items()}
            table.make("letters", {})
            since = table.newest()
            anew = since.facts.get("schemas", {}) != known
            seen = dict(since.facts.get("checkouts", {}))
            frames: list[DataFrame] = []
            for queue in folder.queues():
                new = list(archived_batches(folder.bronze(queue), int(seen.get(queue, 0))))
                if new:
                    files = [str(batch.file) for batch in new]
                    frames.append(died(bronze_rows(spark, folder, queue, files)))
                    seen[queue] = new[-1].number
            drop = since.files if anew else []
            if drop:
                had = spark.read.parquet(*table.paths(drop))
                frames.append(had.drop("fault", "signature", "text"))
            if not frames:
                return 0
            letters = signed(reduce(_joined, frames), schemas)
            staging = table.staging()
            write_files(letters, staging)
            added = table.take(staging, ROWS, "timestamp")
            table.commit(since, added, drop, {"schemas": known, "checkouts": seen})
            table.sweep()
            return sum(file.rows for file in added) - sum(file.rows for file in drop)

    def read(self, spark: SparkSession) -> DataFrame | None:
        """All letters; None if there are none."""
        files = self.table.files()
        if not files:
            return None
        rows = spark.read.parquet(*files)
        known = "proven" in rows.columns
        proven = F.coalesce(F.col("proven"), F.lit(False)) if known else F.lit(False)
        return rows.withColumn("proven", proven)


def _joined(rows: DataFrame, more: DataFrame) -> DataFrame:
    """Both; tables of earlier releases lack a column."""
    return rows.unionByName(more, allowMissingColumns=True)


def died_at() -> Column:
    """When a letter died, or else when the broker took it as a dead letter."""
    return F.coalesce("died_at", "timestamp")


def grouped(letters: DataFrame, by: tuple[str, ...] = GROUPED) -> DataFrame:
    """Letters by what they have in common, the largest group first.

    Args:
        letters: With the column `replay`, which is null for those that were not sent again.
    """
    return (
        letters.groupBy(*by)
        .agg(
            F.count("*").alias("letters"),
            F.count("replay").alias("replayed"),
            F.unix_millis(F.min(died_at())).alias("oldest_ms"),
            F.unix_millis(F.max(died_at())).alias("newest_ms"),
            F.min_by(
                F.coalesce(F.col("message_id"), F.col("offset").cast("string")), "offset"
            ).alias("example"),
            F.min_by(F.substring("text", 1, 400), "offset").alias("example_text"),
        )
        .orderBy(F.desc("letters"), *by)
    )
