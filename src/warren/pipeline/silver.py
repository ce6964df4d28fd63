"""Silver: bodies as typed columns, each message once, and what does not fit apart with the reason.

A row is poison if its body is not JSON of the queue's schema. Which schema that is, is fixed when
the table is made: the one that was given, or the one that Spark infers from the first messages. A
field that is `NOT NULL` in it has to be there. Doubles are messages whose key was there before: a
producer sent them twice.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType
from pyspark.sql.window import Window

from warren.pipeline.layout import PipelineError, PipelineFolder
from warren.pipeline.session import first_line, write_files
from warren.pipeline.tables import ROWS, Table
from warren.spark.archive import STAGING
from warren.spark.archiving import ArchivedBatch, archive_identity, archived_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

POISON: Final = "poison"

#: The key of a table whose messages are all different: their place in the queue.
NO_KEY: Final = "none"
KEY_DEFAULT: Final = "message_id"

#: Messages of a version at most, unless one file of the archive has more.
_CHUNK_ROWS: Final = 2_000_000

#: Messages of a file.
_FILE_ROWS: Final = 500_000

#: Messages whose bodies say what the schema is, where none is given.
_INFERRED_ROWS: Final = 10_000

#: Where `from_json` puts the text that did not fit.
_CORRUPT: Final = "_warren_corrupt"

#: What is known of a message beside its body, first of all which one it is.
_KNOWN: Final = (
    *("queue", "incarnation", "offset", "timestamp", "exchange", "key", "message_id"),
    *("correlation_id", "type", "app_id", "user_id", "producer_timestamp", "headers"),
    *("content_type", "value", "properties_raw"),
)


class SilverRun(NamedTuple):
    """What a run did: messages that it read, and what became of them."""

    queue: str
    read: int
    kept: int
    doubles: int
    poison: int

    def plus(self, other: SilverRun) -> SilverRun:
        """What two runs did together."""
        return SilverRun(self.queue, *(a + b for a, b in zip(self[1:], other[1:], strict=True)))


def text_of(value: str) -> Column:
    """A column of bytes as text; null where it is not UTF-8."""
    return F.try_validate_utf8(F.col(value).cast("string"))


def judged(rows: DataFrame, schema: StructType) -> DataFrame:
    """Rows with the columns `body`, `reason` and `detail`; both of these are null where it fits.

    Args:
        rows: With the column `value`.
    """
    permissive = StructType([*schema.fields, StructField(_CORRUPT, StringType())])
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = text_of("value")
    parsed = rows.withColumn("_text", text).withColumn(
        "_parsed", F.from_json(F.col("_text"), permissive, options)
    )
    fields = F.from_json(F.col("_text"), "map<string,string>")
    found = parsed.withColumn("_fields", fields)
    faults = [
        fault
        for field in schema.fields
        for fault in _faults(field, F.col("_parsed"), F.col("_fields"), "")
    ]
    corrupt = F.col("_parsed").getField(_CORRUPT).isNotNull()
    first = F.coalesce(*faults, F.when(corrupt, F.lit("a nested field does not fit")))
    told = found.withColumn("_fault", first)  # once: there are many expressions in it
    reason = (
        F.when(F.length("value") == 0, F.lit("empty body"))
        .when(F.col("_text").isNull(), F.lit("not UTF-8"))
        .when(F.col("_fields").isNull(), F.lit("not a JSON object"))
        .when(F.col("_fault").isNotNull(), F.lit("not of the schema"))
    )
    detail = F.when(F.col("_fields").isNotNull(), F.col("_fault"))
    body = F.struct(*[F.col("_parsed").getField(f.name).alias(f.name) for f in schema.fields])
    return (
        told.withColumn("reason", reason)
        .withColumn("detail", detail)
        .withColumn("body", body)
        .drop("_text", "_parsed", "_fields", "_fault")
    )


def _faults(field: StructField, parsed: Column, raw: Column, path: str) -> list[Column]:
    """What may be wrong with a field: texts that are null where it is right.

    Spark's JSON reads what does not fit as null, and goes on: it is null where its text is not.

    Args:
        parsed: What the field is in, as it was read.
        raw: The same as a map from names to texts of JSON.
        path: Of that; empty for the body itself.
    """
    name = f"{path}{field.name}"
    typed = parsed.getField(field.name)
    text = F.element_at(raw, F.lit(field.name))
    found = [F.when(typed.isNull() & text.isNotNull(), F.lit(f"field {name}: {_not(field)}"))]
    if not field.nullable:
        found.append(F.when(text.isNull(), F.lit(f"field {name}: missing")))
    kind = field.dataType
    if isinstance(kind, StructType):
        inner = F.from_json(text, "map<string,string>")
        for part in kind.fields:
            found += _faults(part, typed, inner, f"{name}.")
    elif isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType):
        elements = F.arrays_zip(
            typed.alias("typed"), F.from_json(text, "array<map<string,string>>").alias("raw")
        )
        for part in kind.elementType.fields:
            for fault in _element_faults(part, elements, f"{name}[]."):
                found.append(fault)
    return found


def _element_faults(field: StructField, elements: Column, path: str) -> list[Column]:
    """The same for a field of an array's elements; none if only fields below it can be wrong."""
    name = f"{path}{field.name}"

    def lacks(entry: Column) -> Column:
        return F.element_at(entry["raw"], F.lit(field.name)).isNull()

    def misfits(entry: Column) -> Column:
        return entry["typed"].getField(field.name).isNull() & ~lacks(entry)

    found = [F.when(F.exists(elements, misfits), F.lit(f"field {name}: {_not(field)}"))]
    if not field.nullable:
        found.append(F.when(F.exists(elements, lacks), F.lit(f"field {name}: missing")))
    return found


def _not(field: StructField) -> str:
    kind = field.dataType.simpleString().partition("<")[0]
    return f"not {'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def keyed(rows: DataFrame, key: str) -> DataFrame:
    """Rows with the column `dedup_key`: two with the same one are the same message.

    Args:
        key: A column, or a field such as `body.invoice`, or `NO_KEY`. Where it is null, the place
            in the queue tells messages apart, which no two have, whatever keys publishers choose.
    """
    place = F.concat_ws(":", F.lit("#"), F.col("incarnation"), F.col("offset"))
    if key == NO_KEY:
        return rows.withColumn("dedup_key", place)
    given = F.col(key).cast("string")
    told = F.when(given.startswith("#"), F.concat(F.lit("#"), given)).otherwise(given)
    return rows.withColumn("dedup_key", F.coalesce(told, place))


def firsts(rows: DataFrame) -> DataFrame:
    """Of messages with one key the first."""
    order = Window.partitionBy("dedup_key").orderBy("incarnation", "offset")
    numbered = rows.withColumn("_nth", F.row_number().over(order))
    return numbered.where("_nth = 1").drop("_nth")


def bronze_rows(spark: SparkSession, folder: PipelineFolder, queue: str, files: list[str]) -> Any:
    """Archived messages of a queue, with the columns `queue` and `incarnation`."""
    _, incarnation = archive_identity(folder.bronze(queue))
    return (
        spark.read.parquet(*files)
        .withColumn("queue", F.lit(queue))
        .withColumn("incarnation", F.lit(incarnation).cast("long"))
    )


def schema_of(text: str) -> StructType:
    """A schema as its user wrote it: `invoice string NOT NULL, lines array<struct<...>>`.

    Raises:
        PipelineError: It is none.
    """
    try:
        found = StructType.fromDDL(text)
        if isinstance(found, StructType) and found.fields:
            return found
        raise PipelineError(f"no schema: {text!r} has no fields")
    except (PySparkException, ValueError) as error:
        raise PipelineError(f"no schema: {first_line(error)}") from None


class SilverTable:
    """The silver table of one queue."""

    def __init__(self, folder: PipelineFolder, queue: str) -> None:
        self._folder = folder
        self._queue = queue
        self.table = Table(folder.silver(queue))

    def run(
        self, spark: SparkSession, schema: StructType | None = None, key: str | None = None
    ) -> SilverRun:
        """Add what was archived since the last run.

        Args:
            schema: Of the bodies; None for the table's own, or one that is inferred.
            key: What tells messages apart; None for the table's own, or `KEY_DEFAULT`.

        Raises:
            PipelineError: The table has another schema or key, or another process writes it.
        """
        with self._folder.writing(f"silver {self._queue}"):
            total = SilverRun(self._queue, 0, 0, 0, 0)
            after = int(self.table.newest().facts.get("checkout", 0))
            for batches in self._chunks(after):
                if not self.table.exists():
                    self._make(spark, batches, schema, key)
                self._check(schema, key)
                total = total.plus(self._add(spark, batches))
            if self.table.exists():
                self._check(schema, key)
                self.table.sweep()
            return total

    def schema(self) -> StructType:
        """Of the bodies."""
        return StructType.fromJson(self.table.fixed()["schema"])

    def read(self, spark: SparkSession, part: str = ROWS) -> DataFrame | None:
        """The rows, or those that are poison; None if there are none."""
        files = self.table.files(part) if self.table.exists() else []
        return spark.read.parquet(*files) if files else None

    def _chunks(self, after: int) -> Iterator[list[ArchivedBatch]]:
        """Archived batches that are new, in parts that make one version each."""
        held: list[ArchivedBatch] = []
        rows = 0
        for batch in archived_batches(self._folder.bronze(self._queue), after):
            if held and rows + batch.rows > _CHUNK_ROWS:
                yield held
                held, rows = [], 0
            held.append(batch)
            rows += batch.rows
        if held:
            yield held

    def _make(
        self,
        spark: SparkSession,
        batches: list[ArchivedBatch],
        schema: StructType | None,
        key: str | None,
    ) -> None:
        inferred = schema is None
        if schema is None:
            schema = self._inferred(spark, [str(batch.file) for batch in batches])
            if not schema.fields:
                raise PipelineError(
                    "none of the first messages is a JSON object with fields: say by --schema "
                    "what they are, or leave the queue out of silver"
                )
        fixed = {"queue": self._queue, "schema": schema.jsonValue(), "key": key or KEY_DEFAULT}
        self.table.make("silver", {**fixed, "inferred": inferred})

    def _inferred(self, spark: SparkSession, files: list[str]) -> StructType:
        """The schema that fits the first messages, as Spark's JSON source finds it."""
        text = text_of("value")
        objects = spark.read.parquet(*files).limit(_INFERRED_ROWS).select(text.alias("text"))
        objects = objects.where(F.from_json("text", "map<string,string>").isNotNull())
        # Line ends are blanks in JSON: within strings they are escaped.
        lines = objects.select(F.regexp_replace("text", "[\\r\\n]", " "))
        scratch = self._folder.path / STAGING / uuid.uuid4().hex
        try:
            lines.write.text(scratch.as_uri())
            return spark.read.json(scratch.as_uri()).schema
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _check(self, schema: StructType | None, key: str | None) -> None:
        fixed = self.table.fixed()
        anew = f"; to build it anew from the archive, delete {self.table.folder}"
        if schema is not None and schema.jsonValue() != fixed["schema"]:
            has = self.schema().simpleString()
            raise PipelineError(f"the silver table of {self._queue!r} has the schema {has}{anew}")
        if key is not None and key != fixed["key"]:
            raise PipelineError(
                f"the silver table of {self._queue!r} has the key {fixed['key']!r}{anew}"
            )

    def _add(self, spark: SparkSession, batches: list[ArchivedBatch]) -> SilverRun:
        """Make a version that has these, too."""
        table = self.table
        since = table.newest()
        key = str(table.fixed()["key"])
        bronze = bronze_rows(
            spark, self._folder, self._queue, [str(batch.file) for batch in batches]
        )
        rows = judged(bronze.select(*_KNOWN), self.schema()).persist()
        try:
            poison = rows.where("reason IS NOT NULL").drop("body")
            fitting = rows.where("reason IS NULL").drop("reason", "detail")
            try:
                good = firsts(keyed(fitting, key))
            except PySparkException as error:
                raise PipelineError(f"the key {key!r} is no column: {first_line(error)}") from None
            known = table.paths(file for file in since.files if file.part == ROWS)
            if known and key != NO_KEY:
                seen = spark.read.parquet(*known).select("dedup_key")
                columns = good.columns  # The join has its key first.
                good = good.join(seen, "dedup_key", "left_anti").select(*columns)
            read = sum(batch.rows for batch in batches)
            files = 1 + read // _FILE_ROWS
            added = []
            for part, frame in ((ROWS, good), (POISON, poison)):
                staging = table.staging()
                write_files(frame, staging, files)
                added += table.take(staging, part, "timestamp")
        finally:
            rows.unpersist()
        kept = sum(file.rows for file in added if file.part == ROWS)
        bad = sum(file.rows for file in added if file.part == POISON)
        run = SilverRun(self._queue, read, kept, read - kept - bad, bad)
        totals = {
            name: int(since.facts.get(name, 0)) + count
            for name, count in run._asdict().items()
            if name != "queue"
        }
        table.commit(since, added, facts={"checkout": batches[-1].number, **totals})
        return run
