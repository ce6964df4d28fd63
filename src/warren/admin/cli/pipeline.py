"""The command `warren pipeline`: queues to tables to a report, and dead letters sent again.

Spark and Arrow are loaded by the actions that compute. What these do is told in `warren.pipeline`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from warren.admin.cli.archive import Teller
from warren.admin.cli.client import URI, complain, parse_count
from warren.admin.cli.words import INTERRUPTED, Parser, checked, examples
from warren.admin.printable import escaped, harmless

if TYPE_CHECKING:
    from warren.pipeline.layout import PipelineFolder
    from warren.pipeline.replay import Plan
    from warren.pipeline.triage import DryRun
    from warren.spark.archiving import ArchiveProgress

_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0}
_SIGNATURE_SHOWN: Final = 60
_TARGETS_SHOWN: Final = 20

#: Small files of a table, from which on `run` puts them together.
_SMALL_FILES_MAX: Final = 64

Action = Callable[[argparse.Namespace, "PipelineFolder"], int]


def parse_every(text: str) -> float:
    """A pause such as `10s`; `ValueError` with what is allowed."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not digits.isascii() or not digits.isdigit() or int(digits) == 0:
        raise ValueError("a time such as 10s, 5m or 1h")
    return int(digits) * _UNITS[unit]


def parse_rate(text: str) -> float:
    """Letters a second; `ValueError` with what is allowed."""
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0.01 <= rate <= 1e6:
        raise ValueError("a number from 0.01 to 1000000")
    return rate


def parse_edit(text: str) -> tuple[str, str]:
    """`COLUMN=EXPRESSION`; `ValueError` with what is allowed."""
    name, sign, expression = text.partition("=")
    if not sign or not name.strip() or not expression.strip():
        raise ValueError("COLUMN=EXPRESSION, such as value=replace(text, ',', '.')")
    return name.strip(), expression.strip()


def add_command(commands: Any) -> None:
    """Define its words."""
    command: Parser = commands.add_parser(
        "pipeline",
        help="archive queues, type them, look into dead letters, send them again, report",
        description="Moves queues into tables below one folder, types and deduplicates them, "
        "groups dead letters, sends chosen ones again, and draws a report of it all. Each action "
        "goes on where it was, whatever ended it.",
        epilog=examples(
            "warren pipeline run /data/shop orders orders.dead --every 10s",
            "warren pipeline triage /data/shop",
            "warren pipeline replay /data/shop --where \"reason = 'rejected'\" --dry-run",
            "warren pipeline report /data/shop --out report.html",
        ),
    )
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    _archiving(actions, "bronze", _bronze, "archive queues as they are (without Spark)")
    run = _archiving(actions, "run", _run, "bronze, silver, and the report, again and again")
    _schema(run)
    _feed(run)
    silver = _action(actions, "silver", _silver, "type what is archived, drop doubles")
    silver.add_argument("queue", metavar="QUEUE", nargs="*", help="default: all archived ones")
    _schema(silver)
    triage = _action(
        actions,
        "triage",
        _triage,
        "group dead letters by what they died of",
        examples(
            "warren pipeline triage /data/shop",
            'warren pipeline triage /data/shop --where "died_at > now() - INTERVAL 1 DAY"',
        ),
    )
    _where(triage)
    triage.add_argument("--json", action="store_true", help="answer in JSON, for programs")
    _replay_words(actions)
    _feed(_action(actions, "gold", _gold, "figures for each queue and minute"))
    _audit_words(actions)
    _upkeep_words(actions)
    files = _action(
        actions,
        "files",
        _files,
        "name the files of a table, for any reader of Parquet",
        examples(
            "warren pipeline files /data/shop bronze orders",
            "warren pipeline files /data/shop silver orders --part poison",
            "warren pipeline files /data/shop gold minutes",
        ),
    )
    files.add_argument("level", choices=("bronze", "silver", "gold"), metavar="LEVEL")
    files.add_argument(
        "name", metavar="NAME", help="a queue; of gold: minutes, latencies or letters"
    )
    files.add_argument("--part", default="rows", help="of silver: rows or poison (default: rows)")
    report = _action(actions, "report", _report, "draw all of it as one HTML file")
    _feed(report)
    report.add_argument("--out", metavar="FILE", help="default: report.html in the folder")


def _action(actions: Any, name: str, does: Action, text: str, ending: str | None = None) -> Parser:
    parser: Parser = actions.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=ending
    )
    parser.set_defaults(run=run, does=does)
    parser.add_argument("folder", metavar="DIR", help="of the pipeline, for queues of one vhost")
    return parser


def _archiving(actions: Any, name: str, does: Action, text: str) -> Parser:
    parser = _action(
        actions,
        name,
        does,
        text,
        examples(
            f"warren pipeline {name} /data/shop orders orders.dead",
            f"warren pipeline {name} /data/shop orders --every 10s --uri amqp://u:p@host/%2F",
        ),
    )
    parser.add_argument("queue", metavar="QUEUE", nargs="+", help="durable queues")
    _uri(parser)
    often = parser.add_mutually_exclusive_group()
    often.add_argument("--once", action="store_true", help="what is there now (the default)")
    often.add_argument(
        "--every", metavar="TIME", type=checked(parse_every), help="again after 10s, 5m, 1h"
    )
    parser.add_argument(
        "--rows",
        metavar="N",
        type=checked(parse_count),
        default=1_000_000,
        help="messages of one file at most (default: 1000000)",
    )
    return parser


def _uri(parser: Parser) -> None:
    shown = URI.replace("%", "%%")
    parser.add_argument("--uri", default=URI, help=f"broker, user and vhost (default: {shown})")


def _schema(parser: Parser) -> None:
    parser.add_argument(
        "--schema",
        metavar="DDL",
        help="fields of the JSON bodies in Spark's SQL, or @FILE with them, such as "
        "'invoice string NOT NULL, amount decimal(12,2)' (default: the table's; at first, what "
        "the messages look like)",
    )
    parser.add_argument(
        "--key",
        metavar="COLUMN",
        help="what two copies of a message have in common: message_id (the default), a field "
        "such as body.invoice, or none",
    )


def _feed(parser: Parser) -> None:
    parser.add_argument(
        "--feed",
        metavar="QUEUE",
        default="warren.feed",
        help="archived queue of an events feed (default: warren.feed)",
    )


def _where(parser: Parser, default: str | None = "true") -> None:
    parser.add_argument(
        "--where",
        metavar="SQL",
        default=default,
        help="a condition over reason, queue, exchange, routing_key, signature, text, "
        "message_id, died_at, count, letter_queue, offset ...",
    )


def _replay_words(actions: Any) -> None:
    replay = _action(
        actions,
        "replay",
        _replay,
        "send dead letters again, each once, and keep a trail of it",
        examples(
            "warren pipeline replay /data/shop --where \"signature LIKE 'field %'\" \\",
            "    --set \"value=replace(text, ',', '.')\" --dry-run",
            "warren pipeline replay /data/shop --where \"queue = 'orders'\" --rate 50",
            "warren pipeline replay /data/shop --resume 20260131-120000-a1b2c3",
        ),
    )
    # What excludes each other would be one long line.
    replay.usage = "warren pipeline replay DIR (--where SQL | --resume ID) [options]"
    _uri(replay)
    _where(replay, default=None)
    replay.add_argument("--dry-run", action="store_true", help="only say what would be sent")
    replay.add_argument(
        "--rate", metavar="N", type=checked(parse_rate), default=0.0, help="letters a second"
    )
    replay.add_argument(
        "--set",
        metavar="COLUMN=SQL",
        action="append",
        default=[],
        type=checked(parse_edit),
        help="mend them: what value (the body), key, headers ... are to be; 'text' is the body "
        "as text; may be given more than once",
    )
    where = replay.add_mutually_exclusive_group()
    where.add_argument("--to-queue", metavar="QUEUE", help="default: the queue each died in")
    where.add_argument("--to-exchange", metavar="EXCHANGE", help="with the key it first had")
    where.add_argument(
        "--published-to",
        action="store_true",
        help="to the exchange and the key that each was published with",
    )
    replay.add_argument("--again", action="store_true", help="also those that were sent before")
    replay.add_argument("--resume", metavar="ID", help="go on with a replay that was ended")


def _audit_words(actions: Any) -> None:
    audit = _action(
        actions,
        "audit",
        _audit,
        "tell what became of a message, or prove that none is missing",
        examples(
            "warren pipeline audit /data/shop --message-id 536365",
            "warren pipeline audit /data/shop orders --sequence x-number --publisher app_id",
        ),
    )
    _feed(audit)
    audit.add_argument("queue", metavar="QUEUE", nargs="*", help="default: all archived ones")
    what = audit.add_mutually_exclusive_group(required=True)
    what.add_argument("--message-id", metavar="ID", help="tell its story")
    what.add_argument(
        "--sequence",
        metavar="NAME",
        help="header (or property) with the number that each publisher gives its messages",
    )
    audit.add_argument(
        "--publisher",
        metavar="NAME",
        default="app_id",
        help="property or header with the publisher's name (default: app_id)",
    )
    audit.add_argument(
        "--together",
        action="store_true",
        help="messages of a publisher may be spread over the queues",
    )


def _upkeep_words(actions: Any) -> None:
    compact = _action(
        actions, "compact", _compact, "put small files of tables together (without Spark)"
    )
    compact.add_argument(
        "--bronze",
        action="store_true",
        help="those of archives, too; take the files that 'files' names then, not all there are",
    )
    keep = _action(
        actions,
        "keep",
        _keep,
        "take old days away (without Spark)",
        examples(
            "warren pipeline keep /data/shop --days 90",
            "warren pipeline keep /data/shop --days 90 --bronze-days 30",
        ),
    )
    keep.add_argument(
        "--days",
        metavar="N",
        required=True,
        type=checked(parse_count),
        help="that tables of silver and gold keep",
    )
    keep.add_argument(
        "--bronze-days",
        metavar="N",
        type=checked(parse_count),
        help="that archives keep, of what all tables have read (default: everything)",
    )


def run(words: argparse.Namespace) -> int:
    """Do one action; returns the exit status: 0 done, 1 refused, 2 wrong words, 130 Ctrl-C."""
    from warren.errors import BrokerError, ConfigError

    does: Action = words.does
    try:
        from warren.pipeline.layout import PipelineFolder

        return does(words, PipelineFolder(words.folder))
    except ModuleNotFoundError as missing:
        if missing.name not in ("numpy", "pandas", "pyarrow", "pyspark"):
            raise
        return complain(
            f"'warren pipeline {words.action}' needs {missing.name}: "
            "pip install 'warren-broker[spark]'",
            1,
        )
    except ConfigError as error:
        return complain(str(error), 2)
    except (BrokerError, OSError) as error:
        return complain(str(error), 1)
    except KeyboardInterrupt:
        return complain(f"{words.action}: ended; the same command goes on from here", INTERRUPTED)
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j", "pyarrow"):
            raise
        from warren.pipeline.session import first_line

        return complain(first_line(error), 1)


# --- tables -------------------------------------------------------------------------------------


def _bronze(words: argparse.Namespace, folder: PipelineFolder) -> int:
    return _again(words, lambda: _archive(words, folder)[0])


def _archive(words: argparse.Namespace, folder: PipelineFolder) -> tuple[int, int]:
    """Archive what is there.

    Returns:
        1 if a queue could not be archived, else 0; and how many messages were.
    """
    from warren.pipeline.bronze import archive_queues

    tellers: dict[str, Teller] = {}

    def tell(queue: str, progress: ArchiveProgress) -> None:
        tellers.setdefault(queue, Teller(queue)).tell(progress)

    options = {"maxOffsetsPerTrigger": str(words.rows), "retryTimeout": "30s"}
    if words.every:
        options["retryTimeout"] = "24h"
    try:
        done = archive_queues(folder, words.queue, words.uri, options, tell)
    finally:
        for teller in tellers.values():
            teller.end()
    for queue, progress, problem in done:
        if problem:
            complain(f"{queue}: {problem}", 1)
        elif progress.rows or not words.every:
            print(f"bronze  {queue}: {progress.rows:,} messages", flush=True)
    status = 1 if any(each.problem for each in done) else 0
    return status, sum(each.progress.rows for each in done)


def _again(words: argparse.Namespace, once: Callable[[], int]) -> int:
    """Do something once, or again and again until Ctrl-C."""
    if not words.every:
        return once()
    from warren.errors import BrokerError

    while True:
        begun = time.monotonic()
        try:
            once()
        except BrokerError as error:
            complain(str(error), 1)  # The next round may go well.
        time.sleep(max(0.0, begun + words.every - time.monotonic()))


def _silver(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.session import open_session

    queues = folder.chosen(words.queue)
    return _type(words, folder, queues, open_session(folder.spark_log))


def _type(
    words: argparse.Namespace, folder: PipelineFolder, queues: Sequence[str], spark: Any
) -> int:
    from warren.pipeline.layout import PipelineError
    from warren.pipeline.silver import SilverTable, schema_of

    schema = schema_of(_text_or_file(words.schema)) if words.schema else None
    status = 0
    for queue in queues:
        try:
            done = SilverTable(folder, queue).run(spark, schema, words.key)
        except PipelineError as error:
            status = complain(f"{queue}: {error}", 1)
            continue
        if done.read or not getattr(words, "every", None):
            print(
                f"silver  {queue}: {done.read:,} read, {done.kept:,} kept, "
                f"{done.doubles:,} doubles, {done.poison:,} poison",
                flush=True,
            )
    return status


def _run(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.session import open_session
    from warren.pipeline.upkeep import compact

    drawn = False

    def once() -> int:
        nonlocal drawn
        failed, rows = _archive(words, folder)
        if drawn and not rows:
            return failed
        spark = open_session(folder.spark_log)
        there = folder.queues()
        typed = [queue for queue in words.queue if queue in there and queue != words.feed]
        failed |= _type(words, folder, typed, spark)
        compact(folder, _SMALL_FILES_MAX)
        _draw(words, folder, spark, None)
        drawn = True
        return failed

    return _again(words, once)


def _report(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.session import open_session

    folder.check()
    print(_draw(words, folder, open_session(folder.spark_log), words.out))
    return 0


def _draw(words: argparse.Namespace, folder: PipelineFolder, spark: Any, out: str | None) -> Path:
    from warren.pipeline.report import write_report

    file = Path(out).absolute() if out else folder.path / "report.html"
    write_report(spark, folder, file, words.feed)
    return file


def _text_or_file(text: str) -> str:
    return Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text


def _gold(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.session import open_session

    folder.check()
    from warren.pipeline.gold import GoldTable

    gold = GoldTable(folder)
    spark = open_session(folder.spark_log)
    changed = gold.update(spark)
    rows = sum(file.rows for file in gold.table.newest().files)
    print(f"gold    {rows:,} minutes; {changed:,} queues had new messages")
    from warren.pipeline.latency import LatencyTable

    told = LatencyTable(folder).update(spark, words.feed)
    if told:
        print(f"gold    {told:,} minutes of latencies by {words.feed}")
    return 0


def _files(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.tables import Table
    from warren.spark.archiving import archived_files

    folder.check()
    if words.level == "bronze":
        files = [str(file) for file in archived_files(folder.bronze(words.name))]
    elif words.level == "silver":
        table = Table(folder.silver(words.name))
        table.fixed()
        files = table.files(words.part)
    else:
        table = Table(folder.gold / words.name)
        table.fixed()
        files = table.paths(table.newest().files)
    for file in files:
        print(file)
    return 0


def _compact(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.upkeep import compact, compact_bronze

    for name, before, after in compact(folder) + (compact_bronze(folder) if words.bronze else []):
        print(f"{name}: {before:,} files, now {after:,}")
    return 0


def _keep(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.upkeep import keep

    for name, files, rows in keep(folder, words.days, words.bronze_days):
        print(f"{name}: {rows:,} rows in {files:,} files taken away")
    return 0


def _audit(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.session import open_session

    queues = folder.chosen(words.queue)
    from warren.pipeline import audit
    from warren.pipeline.words import moment_ms

    spark = open_session(folder.spark_log)
    if words.message_id is not None:
        events = audit.story(spark, folder, words.message_id, words.feed)
        for event in events:
            print(f"{moment_ms(event.ms)}  {escaped(event.what)}")
        return 0 if events else complain(f"no message {words.message_id!r} is archived", 1)
    proofs = audit.prove(spark, folder, queues, words.sequence, words.publisher, words.together)
    for proof in proofs:
        place = f"{proof.queue}: " if proof.queue else ""
        numbers = f"{proof.first} to {proof.last}" if proof.messages else "no numbers"
        publisher = escaped(proof.publisher) or "(unnamed)"
        print(
            f"{place}publisher {publisher}: {proof.messages:,} messages, "
            f"{numbers}, {proof.missing:,} missing, {proof.doubles:,} doubles"
            + (f", {proof.unnumbered:,} without a number" if proof.unnumbered else "")
        )
        for first, last in proof.gaps:
            print(f"  missing: {first}" + (f" to {last}" if last != first else ""))
    return 0 if proofs and all(proof.whole for proof in proofs) else 1


# --- dead letters -------------------------------------------------------------------------------


def _triage(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline.session import open_session

    folder.check()
    from warren.pipeline.triage import Triage
    from warren.pipeline.words import moment_ms

    groups = Triage(open_session(folder.spark_log), folder).groups(words.where)
    if words.json:
        print(json.dumps(groups, default=str, ensure_ascii=False))
        return 0
    if not groups:
        print("no dead letters")
        return 0
    rows: list[Sequence[str]] = [
        ("letters", "sent again", "reason", "queue", "exchange", "newest", "signature")
    ]
    for group in groups:
        rows.append(
            (
                f"{group['letters']:,}",
                f"{group['replayed']:,}",
                *(str(group[name] or "-") for name in ("reason", "queue", "exchange")),
                moment_ms(group["newest_ms"]),
                (group["signature"] or "-")[:_SIGNATURE_SHOWN],
            )
        )
    for line in table(rows):
        print(line)
    return 0


def table(rows: Iterable[Sequence[str]]) -> list[str]:
    """Rows as lines whose cells are below each other."""
    rows = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _replay(words: argparse.Namespace, folder: PipelineFolder) -> int:
    from warren.pipeline import replay

    folder.check()
    if words.resume:
        return _send(words, folder, replay.plan_named(folder, words.resume))
    if words.where is None and not words.dry_run:
        return complain("which letters? --where says it ('true': all); --dry-run only looks", 2)
    selection = replay.Selection(
        where=words.where or "true",
        way=replay.PUBLISHED_TO if words.published_to else replay.DIED_IN,
        to_queue=words.to_queue,
        to_exchange=words.to_exchange,
        edits=dict(words.set),
        again=words.again,
    )
    from warren.pipeline.session import open_session
    from warren.pipeline.triage import Triage

    triage = Triage(open_session(folder.spark_log), folder)
    name = replay.new_id()
    if words.dry_run:
        rows = triage.selected(name, selection)
        if rows is None:
            print("no dead letters")
            return 0
        _show_unproven(triage.unproven(selection))
        return _show(triage.dry_run(rows, selection), words)
    with folder.writing("replays"):
        rows = triage.selected(name, selection)
        batch_rows = min(max(int(words.rate), 1), replay.BATCH_ROWS)
        if not words.rate:
            batch_rows = replay.BATCH_ROWS
        plan = None
        if rows is not None:
            _show_unproven(triage.unproven(selection))
            write = partial(triage.write, rows)
            plan = replay.decide(folder, name, selection, write, batch_rows)
    if plan is None:
        print("no letters to send: none fits the condition, or all were sent before (--again)")
        return 0
    return _send(words, folder, plan)


def _show_unproven(letters: int) -> None:
    """Say how many letters stay, since only their headers say that they died."""
    if letters:
        print(
            f"{letters:,} letters are left out: the broker has not noted that they died, so that "
            "a client may have written where they go; --to-queue or --to-exchange sends them"
        )


def _show(found: DryRun, words: argparse.Namespace) -> int:
    from warren.client.uri import parse_uri
    from warren.pipeline.left_out import expectation

    time_taken = f", in {found.letters / words.rate:,.0f} s" if words.rate else ""
    print(f"{found.letters:,} letters would be sent{time_taken}; nothing was")
    for exchange, key, count in found.targets[:_TARGETS_SHOWN]:
        place = f"queue {key!r}" if not exchange else f"exchange {exchange!r} with key {key!r}"
        print(f"  {count:,} to {place}")
    if len(found.targets) > _TARGETS_SHOWN:
        print(f"  and {len(found.targets) - _TARGETS_SHOWN:,} more targets")
    for place, before, after in found.changes:
        print(f"  {place}\n    - {harmless(before)}\n    + {harmless(after)}")
    if found.unfit:
        print(f"  {found.unfit:,} of them do not fit their schema even so")
    user = parse_uri(words.uri).user
    expected = expectation(found.claims, user)
    if expected:
        print(f"  {escaped(expected)}")
    return 0


def _send(words: argparse.Namespace, folder: PipelineFolder, plan: Plan) -> int:
    from warren.pipeline.replay import send

    teller = _SendTeller(plan.id)
    left_out = ""

    def warn(text: str) -> None:
        nonlocal left_out
        left_out = text
        complain(escaped(text), 1)

    try:
        sent = send(folder, plan, words.uri, words.rate, teller.tell, warn=warn)
    except (Exception, KeyboardInterrupt) as error:
        teller.end()
        text = f"replay {plan.id} is not done; --resume {plan.id} goes on with it"
        if isinstance(error, KeyboardInterrupt):
            return complain(text, INTERRUPTED)
        print(text, file=sys.stderr)
        raise
    teller.end()
    trail = os.path.relpath(plan.folder)
    print(f"replay {plan.id}: {sent:,} of {plan.letters:,} letters sent now; trail in {trail}")
    return 1 if left_out else 0


class _SendTeller(Teller):
    """Shows how far a replay is."""

    def tell(self, sent: int, letters: int) -> None:  # type: ignore[override]
        from warren.spark.archiving import ArchiveProgress

        super().tell(ArchiveProgress(sent, letters, 0))
