"""Triage: dead letters in groups, and the choice of those that are sent again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from warren.pipeline.layout import PipelineError, PipelineFolder
from warren.pipeline.letters import (
    GROUPED,
    PLACE,
    LettersTable,
    grouped,
    silver_schemas,
    with_fault,
)
from warren.pipeline.replay import PUBLISHED_TO, Selection, left_out_files, letter_files
from warren.pipeline.session import first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Columns that a replay may change: what a message is made of.
EDITABLE: Final = (
    *("value", "exchange", "key", "message_id", "correlation_id", "type", "app_id", "user_id"),
    *("content_type", "headers"),
)

_SAMPLES: Final = 3


class Change(NamedTuple):
    """One letter of a dry run, before and after."""

    place: str
    before: str
    after: str


class DryRun(NamedTuple):
    """What a replay would do.

    Attributes:
        letters: How many it would send.
        targets: By exchange and routing key, how many.
        changes: Some of those that it mends.
        unfit: Those that do not fit their schema after it either; None if no schema is known.
        claims: Users that they name in `user_id`, and how many do.
    """

    letters: int
    targets: list[tuple[str, str, int]]
    changes: list[Change]
    unfit: int | None
    claims: list[tuple[str, int]]


def goes_by_death(selection: Selection) -> bool:
    """Whether letters go where their deaths say, and not where who replays them does."""
    return selection.to_queue is None and selection.to_exchange is None


class Triage:
    """The dead letters of a pipeline, as Spark sees them."""

    def __init__(self, spark: SparkSession, folder: PipelineFolder) -> None:
        self._spark = spark
        self._folder = folder

    def letters(self) -> DataFrame | None:
        """All dead letters, with `replay`, the one that sent it; None if nothing is archived."""
        letters = LettersTable(self._folder)
        letters.update(self._spark)
        found = letters.read(self._spark)
        if found is None:
            return None
        files = letter_files(self._folder)
        if not files:
            return found.withColumn("replay", F.lit(None).cast("string"))
        name = F.element_at(F.split(F.col("_metadata.file_path"), "/"), -3)
        sent = self._spark.read.parquet(*files).select(*PLACE, name.alias("replay"))
        left_out = left_out_files(self._folder)
        if left_out:
            left = self._spark.read.schema(_LEFT_OUT).json(left_out)
            sent = sent.join(left, [*PLACE, "replay"], "left_anti")
        sent = sent.groupBy(*PLACE).agg(F.max("replay").alias("replay"))
        return found.join(sent, list(PLACE), "left")

    def groups(self, where: str = "true") -> list[dict[str, Any]]:
        """Letters that fit a condition by what they have in common.

        Raises:
            PipelineError: The condition is wrong.
        """
        letters = self._chosen(where)
        rows = [] if letters is None else grouped(letters, GROUPED).collect()
        return [row.asDict(recursive=True) for row in rows]

    def selected(self, replay: str, selection: Selection) -> DataFrame | None:
        """What a replay would send, as it would send it; None if nothing is archived.

        Raises:
            PipelineError: An expression is wrong.
        """
        chosen = self._chosen(selection.where)
        if chosen is None:
            return None
        if not selection.again:
            chosen = chosen.where("replay IS NULL")
        if goes_by_death(selection):
            chosen = chosen.where("proven")
        edited = dict(selection.edits)
        try:
            columns = {
                name: self._edit(name, text).alias(f"_new_{name}") for name, text in edited.items()
            }
            rows = chosen.select("*", *columns.values())
            return self._messages(rows, replay, selection, set(edited))
        except PySparkException as error:
            raise PipelineError(f"wrong expression: {first_line(error)}") from None

    def unproven(self, selection: Selection) -> int:
        """How many of the chosen letters do not go, since a client may have written where to.

        Raises:
            PipelineError: An expression is wrong.
        """
        chosen = self._chosen(selection.where) if goes_by_death(selection) else None
        if chosen is None:
            return 0
        if not selection.again:
            chosen = chosen.where("replay IS NULL")
        return chosen.where("NOT proven").count()

    def write(self, rows: DataFrame, folder: Path) -> None:
        """Write what is selected in its order."""
        rows = rows.drop("_before", "_claims", "queue")
        rows.orderBy("letter_queue", "incarnation", "offset").coalesce(1).write.option(
            "compression", "zstd"
        ).parquet(folder.as_uri())

    def dry_run(self, rows: DataFrame, selection: Selection) -> DryRun:
        """What would come of it; nothing is kept."""
        rows = rows.persist()
        try:
            targets = rows.groupBy("exchange", "key").count().orderBy(F.desc("count")).collect()
            letters = sum(row["count"] for row in targets)
            claims = rows.where("_claims IS NOT NULL").groupBy("_claims").count().collect()
            shown = []
            if "value" in selection.edits:
                changed = rows.where(~F.col("value").eqNullSafe(F.col("_before")))
                for row in changed.orderBy(*PLACE).limit(_SAMPLES).collect():
                    place = f"{row['letter_queue']}:{row['offset']}"
                    before, after = (_shown(row[name]) for name in ("_before", "value"))
                    shown.append(Change(place, before, after))
            unfit = None
            schemas = silver_schemas(self._folder)
            if schemas:
                unfit = with_fault(rows, schemas).agg(F.count("fault")).collect()[0][0]
        finally:
            rows.unpersist()
        return DryRun(
            letters,
            [(row["exchange"], row["key"], row["count"]) for row in targets],
            shown,
            unfit,
            [(row["_claims"], row["count"]) for row in claims],
        )

    def _chosen(self, where: str) -> DataFrame | None:
        letters = self.letters()
        if letters is None:
            return None
        try:
            return letters.where(where)
        except PySparkException as error:
            names = ", ".join(letters.columns)
            raise PipelineError(
                f"wrong condition: {first_line(error)}; columns are: {names}"
            ) from None

    def _edit(self, name: str, text: str) -> Column:
        if name not in EDITABLE:
            raise PipelineError(f"{name!r} cannot be set; what can: {', '.join(EDITABLE)}")
        kind = {"value": "binary", "headers": _HEADERS}.get(name, "string")
        return F.expr(text).cast(kind)

    def _messages(
        self, rows: DataFrame, replay: str, selection: Selection, edited: set[str]
    ) -> DataFrame:
        """Letters to messages: where to, without what the broker said of their deaths.

        Nor with other targets: what `CC` names had a copy when the message was published.
        """
        if selection.to_queue is not None:
            exchange, key = F.lit(""), F.lit(selection.to_queue)
        elif selection.to_exchange is not None:
            exchange, key = F.lit(selection.to_exchange), F.col("routing_key")
        elif selection.way == PUBLISHED_TO:
            exchange, key = F.col("exchange"), F.col("routing_key")
        else:
            exchange, key = F.lit(""), F.col("queue")
        made = {"exchange": exchange, "key": key, "value": F.col("value")}
        made |= {name: F.col(f"_new_{name}") for name in edited}
        headers = F.col("_new_headers") if "headers" in edited else F.col("headers")
        told = r"^x-death$|^x-(first|last)-death-(reason|queue|exchange)$|^B?CC$"
        kept = F.filter(headers, lambda entry: ~entry["key"].rlike(told))
        place = F.concat_ws(":", "letter_queue", F.col("incarnation"), F.col("offset"))
        added = F.array(_header("x-replay", F.lit(replay)), _header("x-replay-of", place))
        made["headers"] = F.concat(F.coalesce(kept, F.array().cast(_HEADERS)), added)
        made_rows = rows.select(
            "*",
            F.col("value").alias("_before"),
            *[column.alias(f"_made_{name}") for name, column in made.items()],
        )
        sent_id = made.get("message_id", F.col("message_id"))
        return made_rows.withColumn("_sent_id", sent_id).select(
            *PLACE,
            "queue",
            "_before",
            F.col("_new_user_id" if "user_id" in edited else "user_id").alias("_claims"),
            "properties_raw",
            F.col("_sent_id").alias("sent_id"),
            *[F.col(f"_made_{name}").alias(name) for name in made],
        )


#: What tells a letter that a replay leaves out.
_LEFT_OUT: Final = "letter_queue string, incarnation long, offset long, replay string"

_HEADERS: Final = "array<struct<key: string, value: binary>>"


def _header(name: str, value: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value"))


def _shown(value: bytes) -> str:
    text = bytes(value).decode("utf-8", "backslashreplace")
    return text if len(text) <= 300 else f"{text[:300]}…"
