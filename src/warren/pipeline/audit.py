"""Audit: what became of a message, and whether any of a publisher's are missing.

A proof needs publishers that number their messages without gaps, in a header or a property. Then
what is not archived is a gap, and what was published twice, or copied, is a double.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from warren.pipeline.layout import PipelineFolder
from warren.pipeline.letters import header
from warren.pipeline.replay import left_out_files, trail_files
from warren.pipeline.silver import POISON, SilverTable, bronze_rows
from warren.pipeline.tables import ROWS
from warren.pipeline.triage import Triage
from warren.spark import feed
from warren.spark.archiving import archive_identity, archived_batches, archived_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Properties that may hold a number, or name a publisher; any other name is a header's.
_PROPERTIES: Final = (
    *("message_id", "correlation_id", "app_id", "user_id", "type", "reply_to", "exchange", "key"),
)

#: Gaps of a publisher that are shown.
GAPS_SHOWN: Final = 20


class AuditEvent(NamedTuple):
    """Something that happened to a message.

    Attributes:
        ms: When, in milliseconds since 1970.
        what: In words.
    """

    ms: int
    what: str


class PublisherProof(NamedTuple):
    """The numbers of one publisher's messages.

    Attributes:
        queue: Where they are archived; empty for all queues together.
        publisher: Its name.
        messages: With a number.
        first, last: The least and the greatest number.
        missing: Numbers between these that no message has.
        doubles: Messages whose number another one has, too, the first one left out.
        gaps: Some of what is missing: first and last number.
        unnumbered: Messages without a number of 0 or more, of which nothing is proved.
    """

    queue: str
    publisher: str
    messages: int
    first: int
    last: int
    missing: int
    doubles: int
    gaps: list[tuple[int, int]]
    unnumbered: int

    @property
    def whole(self) -> bool:
        """Whether nothing is missing, doubled or unknown."""
        return not (self.missing or self.doubles or self.unnumbered)


def story(
    spark: SparkSession, folder: PipelineFolder, message_id: str, feed_queue: str
) -> list[AuditEvent]:
    """What became of the messages with an id, in the order in which it happened.

    Args:
        feed_queue: That of an events feed, if it is archived.
    """
    events: list[AuditEvent] = []
    places: list[tuple[str, int, int]] = []
    for queue in folder.queues():
        found = _archived(spark, folder, queue, message_id)
        events += [event for _, event in found]
        _, incarnation = archive_identity(folder.bronze(queue))
        places += {(queue, incarnation, offset) for offset, _ in found}
    events += _told(spark, folder, feed_queue, places)
    letters = Triage(spark, folder).letters()
    if letters is not None:
        died = letters.where(F.col("message_id") == message_id).select(
            # The time of a death has whole seconds; the broker's of the letter is its moment.
            F.unix_millis("timestamp").alias("ms"),
            *("reason", "queue", "exchange", "routing_key", "signature", "letter_queue", "offset"),
        )
        for row in died.collect():
            about = f": {row.signature}" if row.signature else ""
            events.append(
                AuditEvent(
                    row.ms,
                    f"died in queue {row.queue!r} ({row.reason}){about}; published to exchange "
                    f"{row.exchange!r} with key {row.routing_key!r}; the letter is offset "
                    f"{row.offset} of queue {row.letter_queue!r}",
                )
            )
    files = trail_files(folder)
    if files:
        sent = spark.read.schema(_TRAIL).json(files).where(F.col("message_id") == message_id)
        for row in sent.select(F.unix_millis("at").alias("ms"), "*").collect():
            to = f"exchange {row.exchange!r} with key {row.key!r}"
            if not row.exchange:
                to = f"queue {row.key!r}"
            events.append(
                AuditEvent(row.ms, f"sent again to {to} by {row.by}, in replay {row.replay}")
            )
    files = left_out_files(folder)
    if files:
        left = spark.read.schema(f"{_TRAIL}, why string").json(files)
        left = left.where(F.col("message_id") == message_id)
        for row in left.select(F.unix_millis("at").alias("ms"), "*").collect():
            text = f"left out of replay {row.replay} by {row.by}: {row.why}"
            events.append(AuditEvent(row.ms, text))
    return sorted(events)


_TRAIL: Final = (
    "replay string, batch long, at timestamp, by string, letter_queue string, incarnation long, "
    "offset long, exchange string, key string, message_id string"
)


def _told(
    spark: SparkSession,
    folder: PipelineFolder,
    feed_queue: str,
    places: list[tuple[str, int, int]],
) -> list[AuditEvent]:
    """What an events feed says of messages in archived queues.

    Args:
        places: Queue, incarnation and offset of each; a queue that was declared again counts anew.
    """
    if not places or feed_queue not in folder.queues():
        return []
    files = [str(file) for file in archived_files(folder.bronze(feed_queue))]
    if not files:
        return []
    blocks = spark.read.parquet(*files).select("value").dropDuplicates()
    runs = feed.events(blocks, skip_foreign=True)
    runs = runs.where(~F.col("event").isin("published", "leading"))
    wanted = spark.createDataFrame(places, "queue string, incarnation bigint, offset bigint")
    ahead = F.col("offset") - F.col("first_offset")
    step = F.col("step")
    mine = (ahead >= 0) & (ahead < F.col("count") * step) & (ahead % step == 0)
    rows = runs.join(F.broadcast(wanted), ["queue", "incarnation"]).where(mine)
    told = rows.select(
        *("queue", "offset", "event", "reason", "consumer"), F.unix_millis("time").alias("ms")
    )
    return [
        AuditEvent(
            row.ms,
            f"{row.event.replace('_', ' ')}{f' ({row.reason})' if row.reason else ''} in queue "
            f"{row.queue!r}, offset {row.offset}"
            + (", for a group of readers such as an archive" if row.consumer == 0 else ""),
        )
        for row in told.collect()
    ]


def _archived(
    spark: SparkSession, folder: PipelineFolder, queue: str, message_id: str
) -> list[tuple[int, AuditEvent]]:
    """When a queue took messages with an id, when these were archived, and what silver says.

    Returns:
        Events, each with the message's offset.
    """
    batches = {batch.file.name: batch for batch in archived_batches(folder.bronze(queue))}
    if not batches:
        return []
    files = [str(batch.file) for batch in batches.values()]
    mine = F.col("message_id") == message_id
    found = (
        bronze_rows(spark, folder, queue, files)
        .where(mine)
        .select(
            *("offset", "exchange", "key"),
            F.unix_millis("timestamp").alias("ms"),
            header("x-replay").alias("replay"),
            F.col("_metadata.file_name").alias("file"),
        )
        .orderBy("offset")
        .collect()
    )
    if not found:
        return []
    verdicts = _verdicts(spark, SilverTable(folder, queue), mine)
    events: list[tuple[int, AuditEvent]] = []
    for row in found:
        again = f", sent by replay {row.replay}" if row.replay else ""
        taken = (
            f"taken by queue {queue!r} as offset {row.offset}, exchange {row.exchange!r}, "
            f"key {row.key!r}{again}"
        )
        events.append((row.offset, AuditEvent(row.ms, taken)))
        batch = batches[row.file]
        if batch.archived_ms:
            typed = f"; {verdicts.get(row.offset, 'a double')} in silver" if verdicts else ""
            where = f"archived from queue {queue!r}, offset {row.offset}, in {row.file}{typed}"
            events.append((row.offset, AuditEvent(batch.archived_ms, where)))
    return events


def _verdicts(spark: SparkSession, table: SilverTable, mine: Column) -> dict[int, str]:
    """What silver has of some messages, by offset."""
    found: dict[int, str] = {}
    kept = table.read(spark, ROWS)
    if kept is not None:
        found |= {row.offset: "kept" for row in kept.where(mine).select("offset").collect()}
    poison = table.read(spark, POISON)
    if poison is not None:
        why = F.coalesce("detail", "reason").alias("why")
        rows = poison.where(mine).select("offset", why).collect()
        found |= {row.offset: f"poison ({row.why})" for row in rows}
    return found


def column_named(name: str) -> Column:
    """A property, or a header of that name, as text."""
    return F.col(name) if name in _PROPERTIES else header(name.lower())


def _counting(text: Column) -> Column:
    """The number that a text is, from 0 to that of 63 bits; null if it is none."""
    number = text.try_cast("bigint")
    return F.when(number >= 0, number)


def prove(
    spark: SparkSession,
    folder: PipelineFolder,
    queues: Sequence[str],
    sequence: str,
    publisher: str = "app_id",
    together: bool = False,
) -> list[PublisherProof]:
    """Look for numbers that are missing or there twice, for each publisher.

    Args:
        sequence, publisher: The properties or headers with the number and the publisher's name.
        together: Whether a publisher's messages may be spread over these queues; else each queue
            is to have all of them.
    """
    proofs: list[PublisherProof] = []
    frames: list[DataFrame] = []
    for queue in queues:
        files = [str(file) for file in archived_files(folder.bronze(queue))]
        if files:
            frames.append(
                bronze_rows(spark, folder, queue, files).select(
                    F.lit("" if together else queue).alias("queue"),
                    F.coalesce(column_named(publisher), F.lit("")).alias("publisher"),
                    _counting(column_named(sequence)).alias("number"),
                )
            )
    if not frames:
        return proofs
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.unionByName(frame)
    whose = ("queue", "publisher")
    order = Window.partitionBy(*whose).orderBy("number")
    counted = (
        rows.where("number IS NOT NULL").groupBy(*whose, "number").agg(F.count("*").alias("copies"))
    )
    stepped = counted.withColumn("before", F.lag("number").over(order))
    jumps = F.col("number") - F.col("before") > 1
    # There may be millions of gaps, as of a publisher whose every other message is elsewhere.
    stepped = stepped.withColumn("nth", F.sum(F.when(jumps, 1)).over(order))
    gap = F.when(
        jumps & (F.col("nth") <= GAPS_SHOWN),
        F.struct((F.col("before") + 1).alias("first"), (F.col("number") - 1).alias("last")),
    )
    numbered = stepped.groupBy(*whose).agg(
        F.sum("copies").alias("messages"),
        F.min("number").alias("first"),
        F.max("number").alias("last"),
        F.sum(F.coalesce(F.col("number") - F.col("before") - 1, F.lit(0))).alias("missing"),
        F.sum(F.col("copies") - 1).alias("doubles"),
        F.sort_array(F.collect_list(gap)).alias("gaps"),
    )
    without = rows.groupBy(*whose).agg(F.count_if(F.col("number").isNull()).alias("unnumbered"))
    for row in without.join(numbered, list(whose), "left").orderBy(*whose).collect():
        proofs.append(_proof(row))
    return proofs


def _proof(row: Any) -> PublisherProof:
    return PublisherProof(
        queue=row.queue,
        publisher=row.publisher,
        messages=row.messages or 0,
        first=row["first"] or 0,
        last=row["last"] or 0,
        missing=row.missing or 0,
        doubles=row.doubles or 0,
        gaps=[(gap["first"], gap["last"]) for gap in row.gaps or []],
        unnumbered=row.unnumbered,
    )
