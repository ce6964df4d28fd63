"""Replay: dead letters that were chosen are published again, each once, and it is written down.

::

    <folder>/replays/<id>/letters/*.parquet        what is sent, as it is sent, in this order
    <folder>/replays/<id>/plan.json                made last: the replay is decided
    <folder>/replays/<id>/left_out.jsonl           letters that its user may not send (`left_out`)
    <folder>/replays/<id>/sent/0000000003.jsonl    batch 3 was sent: a line for each letter
    <folder>/replays/<id>/done.json                all were

The choice is made once, so that a replay that is begun again sends the same letters in the same
batches. A batch is published by the sink of `delivery=exactly-once` under its number, and the
broker drops one that it has seen: whatever is killed where, each letter is sent once. A letter that
a replay has is not chosen by later ones, unless they ask for it.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from warren.client.uri import parse_uri
from warren.errors import ConfigError
from warren.pipeline.layout import (
    VERSION,
    PipelineError,
    PipelineFolder,
    check_version,
    read_json,
    write_json,
    write_text,
)
from warren.pipeline.left_out import (
    LEFT_OUT,
    LeftOut,
    check_sender,
    decide_left_out,
    read_left_out,
)
from warren.spark.archive import sync
from warren.spark.broker import Connect, connect
from warren.spark.calling import PatientCaller
from warren.spark.claims import Claims, claimed_user
from warren.spark.finalising import finalise, forget
from warren.spark.options import EXACTLY_ONCE, WriteOptions, write_options
from warren.spark.outgoing import messages
from warren.spark.staging import stage_rows

PLAN: Final = "plan.json"
LETTERS: Final = "letters"
_SENT: Final = "sent"
_DONE: Final = "done.json"

#: Letters of a batch, where no rate asks for smaller ones.
BATCH_ROWS: Final = 1_000

#: Where letters go.
DIED_IN: Final = "died_in"
PUBLISHED_TO: Final = "published_to"

#: Columns of a plan that say which letter it is; all others become the message.
PLACE: Final = ("letter_queue", "incarnation", "offset", "sent_id")

Tell = Callable[[int, int], None]
"""Called with how many letters were sent, and of how many."""


@dataclass(frozen=True)
class Selection:
    """Which letters are sent, where to, and how they are mended.

    Attributes:
        where: A condition in Spark's SQL over the columns of letters.
        way: `died_in`, the queue it died in; or `published_to`, the exchange it had been
            published to; both empty if `to_queue` or `to_exchange` says it.
        to_queue, to_exchange: For all of them.
        edits: Expressions in Spark's SQL by the column whose value they give.
        again: Whether letters count that were sent before.
    """

    where: str = "true"
    way: str = DIED_IN
    to_queue: str | None = None
    to_exchange: str | None = None
    edits: dict[str, str] = field(default_factory=dict)
    again: bool = False


class Plan(NamedTuple):
    """A replay that was decided.

    Attributes:
        id: Its name.
        folder: Where it lies.
        letters: How many.
        batch_rows: Of each batch; the last one may have fewer.
        made_ms: When, in milliseconds since 1970.
        by: Who decided it.
        selection: As it was asked for.
        sent: Letters that the audit trail has.
        left_out: Letters that are not sent, since their user may not send them.
    """

    id: str
    folder: Path
    letters: int
    batch_rows: int
    made_ms: int
    by: str
    selection: dict[str, Any]
    sent: int
    left_out: int

    @property
    def done(self) -> bool:
        """Whether all were sent."""
        return (self.folder / _DONE).exists()

    @property
    def batches(self) -> int:
        """How many there are."""
        return -(-self.letters // self.batch_rows)


def plans(folder: PipelineFolder) -> list[Plan]:
    """All replays, the oldest first.

    Raises:
        PipelineError: One cannot be read, or is of a later release.
    """
    found = [plan_in(file.parent) for file in folder.replays.glob(f"*/{PLAN}")]
    return sorted(found, key=lambda plan: (plan.made_ms, plan.id))


def plan_named(folder: PipelineFolder, replay: str) -> Plan:
    """One replay.

    Raises:
        PipelineError: There is none of that name.
    """
    known = {plan.id: plan for plan in plans(folder)}
    if replay not in known:
        open_ones = ", ".join(name for name, plan in known.items() if not plan.done) or "none"
        raise PipelineError(f"no replay {replay!r} in {folder.path}; not done are: {open_ones}")
    return known[replay]


def plan_in(folder: Path) -> Plan:
    """The replay in a folder."""
    found = read_json(folder / PLAN, "no replay")
    check_version(found, folder)
    batches = sum(1 for _ in (folder / _SENT).glob("*.jsonl"))
    letters, rows = int(found["letters"]), int(found["batch_rows"])
    left = read_left_out(folder) or LeftOut()
    return Plan(
        id=folder.name,
        folder=folder,
        letters=letters,
        batch_rows=rows,
        made_ms=int(found["made_ms"]),
        by=str(found["by"]),
        selection=dict(found["selection"]),
        sent=min(batches * rows, letters) - left.within(batches),
        left_out=left.letters,
    )


def who() -> str:
    """The user and the machine that run this, for the audit trail."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def new_id() -> str:
    """A name for a replay, that says when it was made."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"


def decide(
    folder: PipelineFolder,
    replay: str,
    selection: Selection,
    write: Callable[[Path], None],
    batch_rows: int = BATCH_ROWS,
) -> Plan | None:
    """Make a choice one that stays; None if there is nothing to send.

    Args:
        replay: Its name, from `new_id`.
        write: Writes the letters into a new folder of Parquet files; nothing may choose letters
            for another replay meanwhile (`PipelineFolder.writing`).

    Raises:
        PipelineError: A letter, as it was mended, is no message: nothing is decided.
    """
    folder.replays.mkdir(exist_ok=True)
    for left in folder.replays.glob("_*"):
        shutil.rmtree(left, ignore_errors=True)
    attempt = folder.replays / f"_{replay}"
    (attempt / _SENT).mkdir(parents=True)
    write(attempt / LETTERS)
    letters = 0
    for file in _letter_files(attempt):
        sync(file)
        letters += pq.read_metadata(file).num_rows
    sync(attempt / LETTERS)
    if not letters:
        shutil.rmtree(attempt)
        return None
    _check_letters(attempt)
    content = {
        "version": VERSION,
        "letters": letters,
        "batch_rows": batch_rows,
        "made_ms": int(time.time() * 1000),
        "by": who(),
        "selection": {**selection.__dict__},
    }
    write_json(attempt / PLAN, content)
    final = folder.replays / replay
    attempt.rename(final)
    sync(folder.replays)
    return plan_in(final)


def _check_letters(folder: Path) -> None:
    """Refuse a choice that could never be sent, and that no other replay would choose again."""
    options = write_options({"delivery": EXACTLY_ONCE})
    for file in _letter_files(folder):
        for rows in pq.ParquetFile(file).iter_batches(batch_size=BATCH_ROWS):
            good = 0
            try:
                for _ in messages(_as_messages(rows), options, "", 0):
                    good += 1
            except ConfigError as error:
                queue, offset = (rows[name][good] for name in ("letter_queue", "offset"))
                why = str(error).partition(": ")[2]
                raise PipelineError(f"letter {queue}:{offset} cannot be sent: {why}") from None


def _as_messages(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of letters that become messages."""
    return rows.select([name for name in rows.schema.names if name not in PLACE])


def send(
    folder: PipelineFolder,
    plan: Plan,
    uri: str,
    rate: float = 0.0,
    tell: Tell = lambda sent, letters: None,
    options: dict[str, str] | None = None,
    connect: Connect = connect,
    warn: Callable[[str], None] = lambda text: None,
) -> int:
    """Send what a replay has not sent yet; returns how many letters that were.

    Letters that name a user in `user_id` whom the one of the URI may not name are left out.

    Args:
        rate: Letters a second at most; 0 for as fast as it goes.
        warn: Called before anything is sent with what is left out, if something is.
        options: Further ones of docs/spark.md for writing.

    Raises:
        PipelineError: Another process sends it, its files were changed, or it needs the user who
            began it.
        Unconfirmed: A letter reached no queue; the replay goes on with it once there is one.
        BrokerError: The broker refused, or is away for longer than `retryTimeout`.
    """
    given = {"amqp.uri": uri, "delivery": EXACTLY_ONCE, **(options or {})}
    sink = f"replay-{plan.id}"
    begun = time.monotonic()
    sent = 0
    with folder.writing(f"replay {plan.id}"):
        left = _left_out(plan, write_options(given), connect)
        if left.letters:
            warn(left.why())
        total = plan_in(plan.folder).sent
        wanted_letters = plan.letters - left.letters
        tell(total, wanted_letters)
        for number, rows in enumerate(_batches(plan)):
            if _sent_file(plan, number).exists():
                continue
            if rate:
                time.sleep(max(0.0, begun + sent / rate - time.monotonic()))
            rows = left.kept(number, rows)
            wanted = write_options({**given, "sinkId": sink, "batchId": str(number)})
            _send_batch(plan, number, rows, wanted, connect)
            sent += rows.num_rows
            total += rows.num_rows
            tell(total, wanted_letters)
        if total != wanted_letters:
            raise PipelineError(
                f"replay {plan.id} has {total + left.letters} letters in its files, and "
                f"{plan.letters} were decided on: the files were changed"
            )
        write_json(plan.folder / _DONE, {"version": VERSION, "at": _now(), "by": who()})
        forget(sink, write_options(given), connect)
    return sent


def _send_batch(
    plan: Plan, number: int, rows: pa.RecordBatch, options: WriteOptions, connect: Connect
) -> None:
    """Publish a batch, unless the broker has it, and write down that it was."""
    if rows.num_rows:
        prefix = f"{options.sink}:{number}"
        message_rows = iter([_as_messages(rows)])
        staged = stage_rows(message_rows, options, prefix, options.sink, number, True, connect)
        finalise([staged], options.sink, number, True, options, connect)
    at, by, user = _now(), who(), parse_uri(options.uris[0]).user
    lines: list[str] = []
    columns = ["letter_queue", "incarnation", "offset", "sent_id", "exchange", "key"]
    for row in rows.select(columns).to_pylist():
        told = {"replay": plan.id, "batch": number, "at": at, "by": by, "user": user, **row}
        told["message_id"] = told.pop("sent_id")
        lines.append(json.dumps(told, ensure_ascii=False))
    write_text(_sent_file(plan, number), "".join(f"{line}\n" for line in lines))


def _left_out(plan: Plan, options: WriteOptions, connect: Connect) -> LeftOut:
    """Which letters are not sent, as was decided when the first was."""
    batches = enumerate(_batches(plan))
    caller = PatientCaller(options.uris, options.retry_seconds, connect)

    def claimed(rows: pa.RecordBatch) -> Iterator[str | None]:
        for message in messages(_as_messages(rows), options, "", 0):
            yield claimed_user(message.properties)

    try:
        claims = Claims(options, caller.connected().open)
        known = read_left_out(plan.folder)
        if known is None:
            facts = {"replay": plan.id, "at": _now(), "by": who()}
            return decide_left_out(plan.folder, batches, claimed, claims, facts)
        open_ = (each for each in batches if not _sent_file(plan, each[0]).exists())
        check_sender(known, open_, claimed, claims)
        return known
    finally:
        caller.close()


def _batches(plan: Plan) -> Iterator[pa.RecordBatch]:
    """The batches of a plan, the same in each run."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for file in _letter_files(plan.folder):
        for batch in pq.ParquetFile(file).iter_batches(batch_size=plan.batch_rows):
            while batch.num_rows:
                part = batch.slice(0, plan.batch_rows - rows)
                batch = batch.slice(part.num_rows)
                held.append(part)
                rows += part.num_rows
                if rows == plan.batch_rows:
                    yield _joined(held)
                    held, rows = [], 0
    if held:
        yield _joined(held)


def _joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def _letter_files(folder: Path) -> list[Path]:
    return sorted((folder / LETTERS).glob("*.parquet"))


def letter_files(folder: PipelineFolder) -> list[str]:
    """Files with the letters of all replays: which were chosen, and by which replay."""
    return [str(file) for plan in plans(folder) for file in _letter_files(plan.folder)]


def trail_files(folder: PipelineFolder) -> list[str]:
    """The audit trail: files of JSON lines."""
    return [str(file) for plan in plans(folder) for file in (plan.folder / _SENT).glob("*.jsonl")]


def left_out_files(folder: PipelineFolder) -> list[str]:
    """Files of JSON lines with the letters that replays leave out."""
    return [str(plan.folder / LEFT_OUT) for plan in plans(folder) if plan.left_out]


def _sent_file(plan: Plan, number: int) -> Path:
    return plan.folder / _SENT / f"{number:010d}.jsonl"


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"
