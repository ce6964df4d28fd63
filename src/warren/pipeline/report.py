"""The report: all that a pipeline knows, as one HTML file that needs nothing else.

Spark gathers figures, some thousands at most; a template draws them. The file has no script and
asks for nothing: it can be mailed, archived, and opened without a network.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pyspark.sql import functions as F

import warren
from warren.pipeline import plots, words
from warren.pipeline.gold import GoldTable
from warren.pipeline.latency import LatencyTable
from warren.pipeline.layout import PipelineFolder, replace_text
from warren.pipeline.letters import died_at, grouped
from warren.pipeline.plots import SERIES_MAX, Axis, Plot, PlotSeries, Unit
from warren.pipeline.replay import Plan, plans
from warren.pipeline.silver import POISON, SilverTable
from warren.pipeline.triage import Triage
from warren.spark.archiving import archived_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEMPLATE: Final = "report.html"

#: Rows of a table that a reader still looks at; the commands show all.
_ROWS_MAX: Final = 50

#: The queue of an events feed, unless it was given another name.
FEED_DEFAULT: Final = "warren.feed"

_REST: Final = "others"

_COUNT: Final = Unit(words.count)
_SIZE: Final = Unit(words.size, 1024.0)
_SPAN: Final = Unit(words.span)


class QueueFacts(NamedTuple):
    """One archived queue.

    Attributes:
        messages, bytes: Archived; `bytes` are those of files.
        last_ms: When something was archived last; 0 if that is not known.
        silver: What became of them in silver, by `read`, `kept`, `doubles`, `poison`; empty where
            there is no such table.
    """

    name: str
    messages: int
    bytes: int
    last_ms: int
    silver: dict[str, int]


class PoisonFacts(NamedTuple):
    """Messages of a queue that do not fit for one reason."""

    queue: str
    reason: str
    detail: str
    messages: int
    example: str


class ReportFacts(NamedTuple):
    """All that is drawn.

    Attributes:
        minutes: Rows of gold, with `minute_ms`.
        latencies: Rows of the same from an events feed, with `minute_ms`.
        deaths: By minute and reason: `minute_ms`, `reason`, `letters`.
        groups: Of dead letters, as `letters.grouped` has them; the largest ones.
        letters, sent: How many dead letters there are in all, and how many of them were sent again.
    """

    queues: list[QueueFacts]
    minutes: list[dict[str, Any]]
    latencies: list[dict[str, Any]]
    poison: list[PoisonFacts]
    deaths: list[dict[str, Any]]
    groups: list[dict[str, Any]]
    letters: int
    sent: int
    replays: list[Plan]


def write_report(
    spark: SparkSession, folder: PipelineFolder, file: Path, feed_queue: str = FEED_DEFAULT
) -> None:
    """Draw the report of a pipeline into a file, which is whole at any moment.

    Args:
        feed_queue: That of an events feed, if it is archived.

    Raises:
        PipelineError: The folder is no pipeline.
        OSError: The file cannot be written.
    """
    replace_text(file, draw(gather(spark, folder, feed_queue), str(folder.path)))


def gather(
    spark: SparkSession, folder: PipelineFolder, feed_queue: str = FEED_DEFAULT
) -> ReportFacts:
    """Bring gold and the dead letters up to date, and read all figures."""
    gold = GoldTable(folder)
    gold.update(spark)
    minutes = [row for row in _by_minute(gold.read(spark)) if row["queue"] != feed_queue]
    latency = LatencyTable(folder)
    latency.update(spark, feed_queue)
    latencies = _by_minute(latency.read(spark))
    letters = Triage(spark, folder).letters()
    deaths: list[dict[str, Any]] = []
    groups: list[dict[str, Any]] = []
    letter_queues: set[str] = set()
    total = sent = 0
    if letters is not None:
        letters = letters.persist()
        minute = F.unix_millis(F.date_trunc("minute", died_at())).alias("minute_ms")
        deaths = _dicts(letters.groupBy(minute, "reason").agg(F.count("*").alias("letters")))
        groups = _dicts(grouped(letters).limit(_ROWS_MAX))
        total, sent = letters.agg(F.count("*"), F.count("replay")).collect()[0]
        letter_queues = {row[0] for row in letters.select("letter_queue").distinct().collect()}
        letters.unpersist()
    queues: list[QueueFacts] = []
    poison: list[PoisonFacts] = []
    for queue in folder.queues():
        queues.append(_queue_facts(folder, queue))
        if queue not in letter_queues:  # Those are looked at as dead letters.
            poison += _poison_facts(spark, folder, queue)
    return ReportFacts(
        queues, minutes, latencies, poison, deaths, groups, total, sent, plans(folder)
    )


def _by_minute(rows: DataFrame | None) -> list[dict[str, Any]]:
    if rows is None:
        return []
    return _dicts(
        rows.withColumn("minute_ms", F.unix_millis("minute")).drop("minute").orderBy("minute_ms")
    )


def _dicts(rows: Any) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in rows.collect()]


def _queue_facts(folder: PipelineFolder, queue: str) -> QueueFacts:
    batches = list(archived_batches(folder.bronze(queue)))
    table = SilverTable(folder, queue).table
    facts = table.newest().facts if table.exists() else {}
    return QueueFacts(
        queue,
        sum(batch.rows for batch in batches),
        sum(batch.bytes for batch in batches),
        batches[-1].archived_ms if batches else 0,
        {name: int(facts.get(name, 0)) for name in ("read", "kept", "doubles", "poison")}
        if facts
        else {},
    )


def _poison_facts(spark: SparkSession, folder: PipelineFolder, queue: str) -> list[PoisonFacts]:
    rows = SilverTable(folder, queue).read(spark, POISON)
    if rows is None:
        return []
    example = F.min_by(F.coalesce("message_id", F.col("offset").cast("string")), "offset")
    counted = (
        rows.groupBy("reason", F.coalesce("detail", F.lit("")).alias("detail"))
        .agg(F.count("*").alias("messages"), example.alias("example"))
        .orderBy(F.desc("messages"))
        .limit(_ROWS_MAX)
    )
    return [PoisonFacts(queue, *row) for row in counted.collect()]


# --- drawing ------------------------------------------------------------------------------------


def draw(facts: ReportFacts, where: str) -> str:
    """The report as HTML.

    Args:
        where: The pipeline's folder, as readers know it.
    """
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).resolve().parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=words.count,
        size=words.size,
        moment_ms=words.moment_ms,
    )
    environment.globals.update(share=words.share)
    text = environment.get_template(TEMPLATE).render(
        where=where,
        made=words.moment_ms(int(time.time() * 1000)),
        version=warren.__version__,
        facts=facts,
        messages=sum(queue.messages for queue in facts.queues),
        bytes=sum(queue.bytes for queue in facts.queues),
        doubles=sum(queue.silver.get("doubles", 0) for queue in facts.queues),
        poison=sum(row.messages for row in facts.poison),
        letters=facts.letters,
        open_letters=facts.letters - facts.sent,
        sentences=sentences(facts),
        plots=_plots(facts),
    )
    return text.encode("utf-8", "replace").decode("utf-8")


def sentences(facts: ReportFacts) -> list[tuple[str, str]]:
    """What a reader should know first: whether it is good (`good`, `warn`), and a sentence."""
    said: list[tuple[str, str]] = []
    waiting = [group for group in facts.groups if group["letters"] > group["replayed"]]
    if waiting:
        most = max(waiting, key=lambda group: group["letters"] - group["replayed"])
        left = facts.letters - facts.sent
        about = f": {most['signature']}" if most["signature"] else ""
        said.append(
            (
                "warn",
                f"{_many(left, 'dead letter')} not sent again. The largest group, "
                f"{words.count(most['letters'] - most['replayed'])}, was {_reason(most['reason'])} "
                f"in {most['queue']}{about}.",
            )
        )
    elif facts.groups:
        said.append(("good", "All dead letters were sent again."))
    elif facts.queues:
        said.append(("good", "No dead letters."))
    undone = [plan for plan in facts.replays if not plan.done]
    for plan in undone:
        said.append(
            (
                "warn",
                f"Replay {plan.id} is not done: {words.count(plan.sent)} of "
                f"{words.count(plan.letters)} letters are sent. --resume {plan.id} goes on.",
            )
        )
    poison = sum(row.messages for row in facts.poison)
    if poison:
        where = sorted({row.queue for row in facts.poison})
        said.append(
            ("warn", f"{_many(poison, 'message')} not of the schema, in {', '.join(where)}.")
        )
    return said


def _reason(reason: str) -> str:
    return {"maxlen": "dropped for length", "delivery_limit": "delivered too often"}.get(
        reason, reason
    )


def _many(number: int, what: str) -> str:
    return (
        f"{words.count(number)} {what} is" if number == 1 else f"{words.count(number)} {what}s are"
    )


def _axis(facts: ReportFacts) -> Axis:
    times = [row["minute_ms"] for row in (*facts.minutes, *facts.latencies, *facts.deaths)]
    return plots.axis_of(min(times), max(times))


def _plots(facts: ReportFacts) -> list[Plot]:
    if not facts.minutes:
        return []
    axis = _axis(facts)
    each = "" if axis.minutes == 1 else f" in each {axis.step}"
    worst = "" if axis.minutes == 1 else f"; of the worst minute{each}"
    drawn = [
        plots.bars(
            f"Messages a {axis.step}",
            "When the broker took them.",
            axis,
            _by_name(axis, facts.minutes, "queue", "messages"),
            _COUNT,
        ),
        plots.bars(
            f"Bytes of bodies a {axis.step}",
            "Before compression.",
            axis,
            _by_name(axis, facts.minutes, "queue", "bytes"),
            _SIZE,
        ),
        plots.lines(
            "Age when archived",
            f"How long messages were in their queues{worst}.",
            axis,
            _percentiles(axis, facts.minutes, "age_ms"),
            _SPAN,
        ),
    ]
    if any(row["lag_ms_max"] is not None for row in facts.minutes):
        drawn.append(
            plots.lines(
                "From producer to broker",
                f"By the property timestamp, which has whole seconds{worst}.",
                axis,
                _percentiles(axis, facts.minutes, "lag_ms"),
                _SPAN,
            )
        )
    drawn.append(
        plots.lines(
            "Size of bodies",
            f"Percentiles{worst or ' of each minute'}.",
            axis,
            _percentiles(axis, facts.minutes, "size"),
            _SIZE,
        )
    )
    for name, title, note in (
        ("confirm_ms", "Publish to confirm", "Until the broker had messages safe"),
        ("deliver_ms", "Publish to deliver", "Until a consumer was sent messages"),
        ("ack_ms", "Deliver to acknowledge", "How long consumers took"),
    ):
        if any(row[f"{name}_max"] is not None for row in facts.latencies):
            series = _percentiles(axis, facts.latencies, name)
            drawn.append(
                plots.lines(title, f"{note}, by the events feed{worst}.", axis, series, _SPAN)
            )
    if any(row["redelivered"] for row in facts.latencies):
        again = _by_name(axis, facts.latencies, "queue", "redelivered")
        note = "Deliveries of messages that had been delivered before, by the events feed."
        drawn.append(plots.bars(f"Redeliveries a {axis.step}", note, axis, again, _COUNT))
    if facts.deaths:
        drawn.append(
            plots.bars(
                f"Dead letters a {axis.step}",
                "By what they died of, when they did.",
                axis,
                _by_name(axis, facts.deaths, "reason", "letters"),
                _COUNT,
            )
        )
    return drawn


def _by_name(axis: Axis, rows: Iterable[dict[str, Any]], name: str, value: str) -> list[PlotSeries]:
    """Sums by slot, of the largest names and of all others together."""
    found: defaultdict[str, list[float | None]] = defaultdict(lambda: [0.0] * axis.slots)
    for row in rows:
        slots = found[str(row[name])]
        slot = axis.slot(row["minute_ms"])
        slots[slot] = (slots[slot] or 0.0) + row[value]
    order = sorted(found, key=lambda one: -sum(v or 0.0 for v in found[one]))
    shown = order if len(order) <= SERIES_MAX else order[: SERIES_MAX - 1]
    series = [PlotSeries(one, found[one]) for one in shown]
    rest = order[len(shown) :]
    if rest:
        sums = [sum(found[one][slot] or 0.0 for one in rest) for slot in range(axis.slots)]
        series.append(PlotSeries(f"{len(rest)} {_REST}", list(sums)))
    return series


def _percentiles(axis: Axis, rows: Iterable[dict[str, Any]], name: str) -> list[PlotSeries]:
    """The highest of each percentile by slot, over all queues."""
    series = {
        at: PlotSeries(at if at == "max" else f"p{at}", [None] * axis.slots)
        for at in ("50", "95", "99")
    }
    for row in rows:
        slot = axis.slot(row["minute_ms"])
        for at, one in series.items():
            value = row[f"{name}_p{at}"]
            if value is not None:
                one.values[slot] = max(one.values[slot] or 0.0, value)
    return list(series.values())
