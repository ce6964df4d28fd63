"""Pipelines: real orders with poison among them, through archives, tables, triage and replay."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from demo.orders import read_orders
from demo.shop import KINDS, close, declare
from demo.shop import main as shop_main
from tests.spark.conftest import environment
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.__main__ import main
from warren.client import PERSISTENT, Connection, connect
from warren.pipeline import plots, words
from warren.pipeline.layout import PipelineError, PipelineFolder, file_name
from warren.pipeline.left_out import decide_left_out
from warren.pipeline.replay import (
    Plan,
    Selection,
    decide,
    left_out_files,
    plan_named,
    send,
    trail_files,
)
from warren.pipeline.silver import SilverTable
from warren.pipeline.tables import Table
from warren.pipeline.upkeep import compact, keep
from warren.spark.archiving import archive_identity, archived_files, old_files
from warren.spark.broker import Unconfirmed
from warren.spark.schema import arrow_schema
from warren.wire.amqp091.properties import Properties

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent.parent
ORDERS = ROOT / "demo" / "orders.csv"
DOCS = ROOT / "docs"
QUORUM = {"x-queue-type": "quorum"}


# --- the folder, without Spark and without a broker ---------------------------------------------


@pytest.mark.parametrize("name", ["orders", ".", "..", "_x", "a/b", "ü", "", "x" * 255, "a%2Fb"])
def test_any_name_of_a_queue_makes_a_file_that_readers_see(name: str, tmp_path: Path) -> None:
    made = file_name(name)
    (tmp_path / made).mkdir()
    assert (tmp_path / made).parent == tmp_path and made[0] not in "._"
    assert made != file_name(name + "/"), "no two names make the same"


def test_a_folder_is_of_one_vhost_and_known_by_its_version(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path / "p")
    with pytest.raises(PipelineError, match="is no pipeline: it is made by 'pipeline bronze'"):
        folder.queues()
    folder.begin("/")
    folder.begin("/")
    assert folder.queues() == []
    with pytest.raises(PipelineError, match="is a pipeline of vhost '/', not of 'shop'"):
        folder.begin("shop")
    with pytest.raises(PipelineError, match=r"no archive of queue 'x' \(it has: none yet\)"):
        folder.chosen(["x"])
    (tmp_path / "p" / "_pipeline.json").write_text('{"version": 2, "vhost": "/"}')
    with pytest.raises(PipelineError, match="keeps pipelines in another way"):
        folder.check()


def test_a_part_has_one_writer(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path)
    folder.begin("/")
    with folder.writing("gold"), folder.writing("bronze"):
        with pytest.raises(PipelineError, match="another process is at work on gold"):
            with PipelineFolder(tmp_path).writing("gold", wait_seconds=0.0):
                pass
    with folder.writing("gold"):
        pass


def written(table: Table, *values: int) -> Path:
    folder = table.staging()
    folder.mkdir(parents=True)
    times = pa.array([value * 1000 for value in values], pa.timestamp("us", tz="UTC"))
    rows = pa.table({"number": pa.array(values), "when": times})
    pq.write_table(rows, folder / "part-0.parquet")
    return folder


def numbers(table: Table) -> list[int]:
    return [n for file in table.files() for n in pq.read_table(file)["number"].to_pylist()]


def test_what_does_not_say_of_when_it_is_stays(tmp_path: Path) -> None:
    folder = PipelineFolder(tmp_path / "p")
    folder.begin("/")
    (tmp_path / "p" / "bronze").mkdir()
    table = Table(folder.gold / "minutes")
    table.make("minutes", {})
    table.commit(table.newest(), table.take(written(table, 1), "rows", "minute"))
    assert keep(folder, days=-1) == [] and len(table.files()) == 1


def test_a_table_changes_by_whole_versions(tmp_path: Path) -> None:
    table = Table(tmp_path / "t")
    table.make("rows", {"key": "x"})
    assert table.fixed()["key"] == "x" and numbers(table) == []
    first = table.newest()
    added = table.take(written(table, 1, 2), "rows", "when")
    assert (added[0].rows, added[0].first_ms, added[0].last_ms) == (2, 1, 2)
    assert numbers(table) == [], "what is not committed is not there"
    second = table.commit(first, added, facts={"upto": 2})
    assert table.take(written(table), "rows", "when") == [], "a file without rows is none"
    with pytest.raises(PipelineError, match="changed by another process meanwhile"):
        table.commit(first, [])
    third = table.commit(second, table.take(written(table, 3), "rows", "when"), facts={"more": 1})
    assert numbers(table) == [1, 2, 3] and third.facts == {"upto": 2, "more": 1}
    before = table.files()
    merged = table.take(written(table, 1, 2, 3), "rows", "when")
    table.commit(third, merged, drop=third.files)
    assert numbers(table) == [1, 2, 3] and len(table.files()) == 1
    assert table.sweep() == 0 and all(Path(file).exists() for file in before), "it has readers"
    table.take(written(table, 9), "rows", "when")
    assert table.sweep(kept_seconds=0) == 3, "two that were replaced, and one of no version"
    assert numbers(table) == [1, 2, 3]


def test_axes_have_round_steps_and_hold_all_times() -> None:
    for minutes in (0, 1, 59, 60, 89, 90, 1_000, 10_000, 500_000):
        axis = plots.axis_of(60_000, 60_000 * (minutes + 1))
        assert 1 <= axis.slots <= 91 and axis.slot(60_000 * (minutes + 1)) == axis.slots - 1
    assert plots.axis_of(0, 120 * 60_000).step == "2 minutes"
    assert [plots.ceiling(value) for value in (0, 1, 7, 11, 350)] == [1, 1, 8, 20, 400]
    assert plots.ceiling(700 * 1024, 1024) == 800 * 1024


def test_plots_break_lines_where_nothing_is_known() -> None:
    axis = plots.axis_of(0, 5 * 60_000)
    series = [plots.PlotSeries("p50", [1.0, None, 2.0, 3.0, None, None])]
    plot = plots.lines("Age", "", axis, series, plots.Unit(words.span))
    assert plot.marks[0].path.count("M") == 2 and len(plot.rows) == 3
    stacked = [plots.PlotSeries("a", [1.0] * 6), plots.PlotSeries("b", [0.0] * 6)]
    plot = plots.bars("Messages", "", axis, stacked, plots.Unit(words.count))
    assert plot.names == [("a", "6"), ("b", "0")] and plot.marks[1].path == ""


def test_figures_are_short_and_say_no_more_than_is_known() -> None:
    assert [words.size(n) for n in (0, 1023, 1536, 1 << 40)] == [
        "0 B",
        "1,023 B",
        "1.5 KiB",
        "1.0 TiB",
    ]
    assert [words.span(n) for n in (7, 1500, 150_000)] == ["7 ms", "1.5 s", "2.5 min"]
    assert [words.share(n, 1000) for n in (0, 1, 500, 999, 1000)] == [
        "0 %",
        "< 1 %",
        "50 %",
        "> 99 %",
        "100 %",
    ]
    assert words.moment_ms(0) == "–" and words.moment_ms(1000) == "1970-01-01 00:00:01"


# --- replay, without Spark ----------------------------------------------------------------------

#: Sends a replay and dies at one of its steps, by its name and how often it was passed.
DYING = """
import os, signal, sys
from warren.client import Channel
from warren.pipeline import replay
from warren.pipeline.layout import PipelineFolder
from warren.spark import finalising

owner, name, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
place = {"replay": replay, "mover": finalising._Mover}[owner]
call = getattr(place, name)

def dying(*given, **named):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return call(*given, **named)

setattr(place, name, dying)
folder = PipelineFolder(sys.argv[4])
replay.send(folder, replay.plan_named(folder, "r"), sys.argv[5])
"""


def planned(
    folder: PipelineFolder,
    queue: str,
    count: int,
    batch_rows: int,
    users: dict[int, str] | None = None,
) -> Plan:
    """A replay of letters with numbers as bodies, in two files; some name a user in `user_id`."""
    named = {
        number: Properties(delivery_mode=2, user_id=user).encode()
        for number, user in (users or {}).items()
    }

    def write(path: Path) -> None:
        path.mkdir()
        for part, (begin, end) in enumerate(((0, count // 2), (count // 2, count))):
            rows = [
                {
                    **{"letter_queue": "dead", "incarnation": 1, "offset": number},
                    **{"sent_id": f"id{number}", "exchange": "", "key": queue},
                    **{"value": b"%d" % number},
                    **{"properties_raw": named.get(number, PERSISTENT)},
                    "headers": [{"key": "x-replay", "value": b"r"}],
                }
                for number in range(begin, end)
            ]
            kind = arrow_schema(("headers",)).field("headers").type
            table = pa.Table.from_pylist(rows)
            at = table.schema.get_field_index("headers")
            table = table.set_column(at, "headers", table["headers"].cast(kind))
            pq.write_table(table, path / f"part-{part}.parquet")

    folder.begin("/")
    plan = decide(folder, "r", Selection(), write, batch_rows)
    assert plan is not None
    return plan


def die(connection: Connection, queue: str, bodies: list[bytes], properties: bytes) -> None:
    """Have messages be rejected whose dead letters go to a queue."""
    channel = connection.channel()
    arguments: Any = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}
    origin = f"{queue}.origin"
    channel.queue_declare(origin, arguments=arguments)
    channel.publish_many("", origin, bodies, properties)
    for _ in bodies:
        delivery = channel.get(origin)
        assert delivery is not None
        channel.nack(delivery.delivery_tag, requeue=False)
    channel.close()


def taken(connection: Connection, queue: str) -> list[bytes]:
    channel = connection.channel()
    bodies: list[bytes] = []
    while (delivery := channel.get(queue, no_ack=True)) is not None:
        bodies.append(bytes(delivery.body))
    channel.close()
    return bodies


@pytest.mark.process
def test_a_replay_that_is_killed_at_any_step_sends_each_letter_once(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    folder = PipelineFolder(tmp_path / "p")
    plan = planned(folder, queue, count=10, batch_rows=4)
    steps = [("replay", "finalise", 1), ("mover", "move", 1), ("replay", "write_text", 2)]
    steps += [("replay", "write_json", 1), ("replay", "forget", 1)]
    for owner, name, often in steps:
        done = subprocess.run(
            [sys.executable, "-c", DYING, owner, name, str(often), str(folder.path), broker.url],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=patient(60),
        )
        assert done.returncode == -signal.SIGKILL, f"{name}: {done.stderr}"
    assert send(folder, plan_named(folder, "r"), broker.url) == 0
    assert sorted(taken(connection, queue)) == sorted(b"%d" % number for number in range(10))
    trail = [json.loads(line) for file in trail_files(folder) for line in open(file)]
    assert sorted(row["offset"] for row in trail) == list(range(10))
    assert {(row["key"], row["user"]) for row in trail} == {(queue, "guest")}
    assert all(row["by"] for row in trail)
    assert plan_named(folder, "r").done and plan.letters == 10
    for left in ("warren.sink.replay-r", "warren.sink.replay-r.batches"):
        with pytest.raises(Exception, match="no queue"):
            connection.channel().queue_declare(left, passive=True)


@pytest.mark.process
def test_letters_for_a_queue_that_is_not_there_wait_for_it(
    broker: Broker, connection: Connection, tmp_path: Path
) -> None:
    folder = PipelineFolder(tmp_path / "p")
    plan = planned(folder, "pipeline-late", count=3, batch_rows=2)
    with pytest.raises(Unconfirmed, match="there is no queue 'pipeline-late'"):
        send(folder, plan, broker.url)
    assert not plan_named(folder, "r").done
    connection.channel().queue_declare("pipeline-late", durable=True, arguments=QUORUM)
    assert send(folder, plan, broker.url, rate=1000) == 3
    assert taken(connection, "pipeline-late") == [b"0", b"1", b"2"]
    connection.channel().queue_delete("pipeline-late")


@pytest.mark.process
def test_letters_that_name_another_user_are_left_out_and_told(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Of a user who may not speak for others; the rest is sent, whatever ends it."""
    folder = PipelineFolder(tmp_path / "p")
    users = {1: "alice", 2: "guest", 4: "alice", 5: "bob", 6: "alice", 7: "alice"}
    plan = planned(folder, queue, 8, 2, users)
    done = subprocess.run(
        [sys.executable, "-c", DYING, "replay", "write_text", "2", str(folder.path), broker.url],
        capture_output=True,
        env=environment(),
        timeout=patient(60),
    )
    assert done.returncode == -signal.SIGKILL
    said: list[str] = []
    sent = send(folder, plan_named(folder, "r"), broker.url, warn=said.append)
    (text,) = said
    assert "5 letters are left out: they name 'alice' (4), 'bob' (1) in 'user_id'" in text
    assert "user 'guest' may not" in text and "--set user_id=NULL" in text
    assert sorted(taken(connection, queue)) == [b"0", b"2", b"3"]
    assert sent == 2, "the first batch was sent before"
    plan = plan_named(folder, "r")
    assert (plan.done, plan.sent, plan.left_out) == (True, 3, 5)
    (left,) = [[json.loads(line) for line in open(file)] for file in left_out_files(folder)]
    told = [(row["offset"], row["user_id"], row["batch"], row["message_id"]) for row in left[1:]]
    assert told[0] == (1, "alice", 0, "id1") and [row[0] for row in told] == [1, 4, 5, 6, 7]
    assert {row["why"] for row in left[1:]} == {
        f"it names user '{user}', and user 'guest' may not" for user in ("alice", "bob")
    }
    words = ["pipeline", "replay", str(folder.path), "--resume", "r", "--uri", broker.url]
    assert main(words) == 1, "not all was done"
    assert "5 letters are left out" in capsys.readouterr().err


@pytest.mark.process
def test_who_may_speak_for_others_sends_all_and_nobody_else_goes_on_with_it(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    folder = PipelineFolder(tmp_path / "p")
    planned(folder, queue, 4, 2, {0: "alice", 3: "alice"})
    node = ["--data-dir", str(broker.data_dir)]
    assert main(["users", "add_user", "speaker", "secret", *node]) == 0
    try:
        assert main(["users", "set_user_tags", "speaker", "impersonator", *node]) == 0
        assert main(["permissions", "set_permissions", "speaker", ".*", ".*", ".*", *node]) == 0
        speaker = broker.url.replace("guest:guest@", "speaker:secret@")
        dying = [sys.executable, "-c", DYING, "mover", "move", "2", str(folder.path), speaker]
        done = subprocess.run(
            dying, capture_output=True, env=environment(), timeout=patient(60), text=True
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
        with pytest.raises(
            PipelineError, match="'speaker' began .* 'alice' .1. .* user 'guest' may not: go on as"
        ):
            send(folder, plan_named(folder, "r"), broker.url)
        assert send(folder, plan_named(folder, "r"), speaker) == 2
    finally:
        assert main(["users", "delete_user", "speaker", *node]) == 0
    assert sorted(taken(connection, queue)) == [b"0", b"1", b"2", b"3"]
    assert left_out_files(folder) == []


# --- the whole chain ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shop(_shared_broker: Broker, spark: SparkSession) -> Iterator[str]:
    """The URI of a broker that has the shop's queues, empty."""
    with connect(_shared_broker.url) as connection:
        declare(connection)
        yield _shared_broker.url
        close(connection)


def commands(page: str) -> list[list[str]]:
    """The commands of the first example of a page, each as its words."""
    block = re.search(r"```sh\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    assert block is not None
    return [shlex.split(line) for line in block[1].splitlines()]


class Outline(HTMLParser):
    """What of a page is text, and what it would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: Counter[str] = Counter()
        self.fetched: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.fetched += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.early
@pytest.mark.timeout(patient(600))
def test_poison_is_found_mended_and_sent_again_and_the_report_says_so(
    shop: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    orders = read_orders(ORDERS)
    wrong = Counter(how for how in (KINDS * len(orders))[: len(orders)] if how)
    folder = tmp_path / "p"

    def said(words: list[str], status: int = 0) -> str:
        """Run a command of the page, on this broker and in a folder of the test's."""
        words = [str(folder) if word == "build/shop" else word for word in words]
        if words[1:3] == ["-m", "demo.shop"]:
            assert shop_main([*words[3:], "--uri", shop]) == status
        else:
            asks = words[2] in ("bronze", "run", "replay")
            assert main([*words[1:], *(("--uri", shop) if asks else ())]) == status
        return capsys.readouterr().out

    prepare, opened, run, triage, dry_run, replay, worked, report = commands("pipeline.md")
    assert prepare == ["tools/prepare", "spark"]
    rejected = sum(wrong.values())
    assert f"{len(orders)} orders published, {rejected} of them wrong" in said(opened)
    out = said(run)
    kept = len(orders) - rejected
    assert f"bronze  shop.copy: {len(orders) + 1} messages" in out
    assert f"shop.copy: {len(orders) + 1} read, {kept} kept, 1 doubles, {rejected} poison" in out
    silver = [*run[:2], "silver", "build/shop"]
    assert "shop.copy: 0 read" in said(silver), "nothing comes twice"

    page = (DOCS / "pipeline.md").read_text()
    said_groups = [
        line.split()[1:] for line in page.splitlines() if "rejected  shop.orders" in line
    ]
    groups = {row["signature"]: row for row in json.loads(said([*triage, "--json"]))}
    assert {name: row["letters"] for name, row in groups.items()} == {
        "field lines[].quantity: not an int": wrong["words"],
        "not a JSON object": wrong["cut"],
        "field customer: missing": wrong["nobody"],
    }
    row = groups["not a JSON object"]
    assert (row["reason"], row["queue"], row["exchange"]) == ("rejected", "shop.orders", "shop")
    assert len(said_groups) == len(groups), "the page shows them"

    out = said(dry_run)
    assert f"{wrong['words']} letters would be sent" in out and '"quantity": 6' in out
    assert "do not fit" not in out
    with connect(shop) as connection:
        assert connection.channel().queue_declare("shop.orders", passive=True).messages == 0
    out = said(replay)
    replayed = re.search(r"replay (\S+):", out)
    assert replayed and f"{wrong['words']} of {wrong['words']} letters sent" in out
    assert "no letters to send" in said(replay)
    with connect(shop) as connection:
        channel = connection.channel()
        delivery = channel.get("shop.orders")
        assert delivery is not None
        assert b"x-replay-of" in delivery.properties and b"x-death" not in delivery.properties
        channel.reject(delivery.delivery_tag, requeue=True)
        channel.close()
    assert f"{wrong['words']} orders processed, 0 rejected" in said(worked)

    story = said([*silver[:2], "audit", "build/shop", "--message-id", row["example"]])
    assert "taken by queue 'shop.copy'" in story and "poison (not a JSON object)" in story
    assert "died in queue 'shop.orders' (rejected)" in story

    said(report)
    page = Outline((folder / "report.html").read_text())
    left = wrong["cut"] + wrong["nobody"]
    assert f"{left} dead letters are not sent again" in page.text
    assert replayed[1] in page.text and "replace(text" in page.text
    assert page.fetched == [] and not page.open and page.tags["script"] == 0
    assert page.tags["figure"] >= 4 and page.tags["title"] > 1


@pytest.mark.spark
@pytest.mark.process
def test_wrong_words_of_spark_are_one_clear_line(
    shop: str, connection: Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(tmp_path / "p")
    told: dict = {"x-death": [{"reason": "rejected", "queue": "shop.orders"}]}
    told["x-exception-message"] = "order 'A17' timed out after 2.5 s\n  at line 3"
    channel = connection.channel()
    channel.publish_many("", "shop.letters", [b"{}"], Properties(headers=told).encode())
    assert main(["pipeline", "bronze", folder, "shop.letters", "--uri", shop]) == 0
    capsys.readouterr()
    for (action, *rest), expected in (
        (("triage", "--where", "colour = 1"), "wrong condition: [UNRESOLVED_COLUMN"),
        (("triage", "--where", "reason ="), "wrong condition: "),
        (
            ("replay", "--where", "true", "--set", "value=nosuch(text)"),
            "wrong expression: [UNRESOLVED_ROUTINE",
        ),
        (("replay", "--dry-run", "--set", "offset=1"), "'offset' cannot be set; what can: value"),
        (("replay", "--resume", "x"), "no replay 'x'"),
        (("silver", "--schema", "invoice strin"), "no schema: "),
        (("silver", "nowhere"), "no archive of queue 'nowhere'"),
        (("files", "silver", "shop.letters"), "is no table of a pipeline"),
    ):
        assert main(["pipeline", action, folder, *rest]) == 1, rest
        error = capsys.readouterr().err
        assert expected in error and error.count("\n") == 1, error
    assert main(["pipeline", "replay", folder, "--uri", shop]) == 2, "not all by mistake"
    assert "which letters? --where says it" in capsys.readouterr().err
    assert main(["pipeline", "triage", folder]) == 0
    assert "order '…' timed out after <n> s\n" in capsys.readouterr().out
    assert main(["pipeline", "triage", str(tmp_path / "none")]) == 1
    assert "is no pipeline" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.process
def test_a_sequence_proves_that_nothing_is_missing(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    channel = connection.channel()
    channel.confirm_select()
    told = [("a", 1), ("b", 1), ("a", 2), ("a", 6), ("b", 2), ("a", 6), ("b", None)]
    told += [("c", number) for number in (*range(0, 62, 2), (1 << 63) - 1, -(1 << 63), -1)]
    for app, number in told:
        headers = {} if number is None else {"X-Number": number}
        channel.publish("", queue, b"", Properties(app_id=app, headers=headers).encode(), True)
    assert channel.wait_for_confirms() == []
    folder = PipelineFolder(tmp_path / "p")
    assert main(["pipeline", "bronze", str(folder.path), queue, "--uri", broker.url]) == 0
    from warren.pipeline.audit import GAPS_SHOWN, prove

    a, b, c = prove(spark, folder, [queue], "x-number")
    assert a == (queue, "a", 4, 1, 6, 3, 1, [(3, 5)], 0) and not a.whole
    assert b == (queue, "b", 2, 1, 2, 0, 0, [], 1) and not b.whole
    assert b._replace(unnumbered=0).whole
    most = (1 << 63) - 1
    gaps = [(number, number) for number in range(1, 2 * GAPS_SHOWN, 2)]
    assert c == (queue, "c", 32, 0, most, most - 31, 0, gaps, 2), "what a publisher may say"


@pytest.mark.spark
@pytest.mark.process
def test_a_choice_that_could_not_be_sent_is_not_made(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """It would be chosen for good: no other replay takes a letter that one has."""
    from warren.pipeline.triage import Triage

    told: dict = {"x-death": [{"reason": "rejected", "queue": "q"}], "kept": "yes", "CC": ["other"]}
    letters = [b'{"n": 1}', b'{"n": null}']
    properties = Properties(headers=told, user_id="guest", message_id="m").encode()
    die(connection, queue, letters, properties)
    # What says itself that it died is shown, and goes where a replay says and not where it says.
    connection.channel().publish_many("", queue, [b"forged"], properties)
    folder = PipelineFolder(tmp_path / "p")
    assert main(["pipeline", "bronze", str(folder.path), queue, "--uri", broker.url]) == 0
    triage = Triage(spark, folder)
    seen = triage.letters()
    assert seen is not None
    assert [row.proven for row in seen.orderBy("offset").collect()] == [True, True, False]
    for way, to_queue, count in (("died_in", None, 2), ("published_to", None, 2), ("", "x", 3)):
        chosen = Selection(way=way, to_queue=to_queue)
        rows_there = triage.selected("r", chosen)
        assert rows_there is not None and rows_there.count() == count
        assert triage.unproven(chosen) == 3 - count

    def decided(**edits: str) -> Plan | None:
        selection = Selection(edits=edits)
        rows = triage.selected("r", selection)
        assert rows is not None
        return decide(folder, "r", selection, lambda to: triage.write(rows, to))

    with pytest.raises(PipelineError, match=f"letter {queue}:1 cannot be sent: 'value' is null"):
        decided(value="get_json_object(text, '$.n')")
    with pytest.raises(PipelineError, match="longer than 255 bytes"):
        decided(key="repeat('k', 256)")
    with pytest.raises(PipelineError, match="longer than 255"):
        decided(correlation_id="repeat('k', 256)")
    plan = decided(key="'elsewhere'")
    assert plan is not None and plan.letters == 2
    (file,) = (plan.folder / "letters").glob("*.parquet")
    names = [
        [header["key"] for header in row] for row in pq.read_table(file)["headers"].to_pylist()
    ]
    assert names == [["kept", "x-replay", "x-replay-of"]] * 2, "nothing else gets a copy"

    # What a replay leaves out may be chosen by the next one, and the audit tells.
    rows = pq.ParquetFile(file).read_row_group(0).to_batches()
    claims: Any = SimpleNamespace(user="other", allows=lambda user: False)
    facts = {"replay": "r", "at": "2026-01-31T12:00:00.000Z", "by": "me@here"}
    decide_left_out(plan.folder, enumerate(rows), lambda rows: iter(("guest", None)), claims, facts)
    found = triage.letters()
    assert found is not None
    assert {row.offset: row.replay for row in found.collect()} == {0: None, 1: "r", 2: None}
    for edits, claimed in (({}, [("guest", 1)]), ({"user_id": "NULL"}, [])):
        selection = Selection(edits=edits)
        rows = triage.selected("s", selection)
        assert rows is not None and triage.dry_run(rows, selection).claims == claimed
    from warren.pipeline.audit import story

    told_of = [event.what for event in story(spark, folder, "m", "warren.feed")]
    assert any("names user 'guest', and user 'other' may not" in what for what in told_of)


@pytest.mark.spark
@pytest.mark.process
def test_the_story_of_a_message_is_that_of_its_own_queue(
    spark: SparkSession, broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    """Not of an earlier one of its name; and what is no block in a feed's queue ends nothing."""
    from warren.pipeline.audit import story
    from warren.queues.feed_block import ACKED, DROPPED, NO_REASON, NONE, FeedBlock

    channel = connection.channel()
    feed_queue = f"{queue}-feed"
    channel.queue_declare(feed_queue, durable=True, arguments=QUORUM)
    channel.publish_many("", queue, [b"x"], Properties(message_id="m", delivery_mode=2).encode())
    folder = PipelineFolder(tmp_path / "p")
    bronze = ["pipeline", "bronze", str(folder.path), queue, "--uri", broker.url]
    assert main(bronze) == 0
    _, incarnation = archive_identity(folder.bronze(queue))
    block = FeedBlock("/", "n@h")
    for which, event in ((incarnation, ACKED), (incarnation - 1, DROPPED)):
        place = block.queue(queue, which)
        who = block.consumer(1)
        block.row(event, NO_REASON, 1_000, place, 0, 5, 1, NONE, who, NONE)
    bodies = [b"no block", block.encode(1, 1, 0)]
    channel.publish_many("", feed_queue, bodies, PERSISTENT)
    assert main([*bronze[:3], feed_queue, *bronze[4:]]) == 0
    channel.queue_delete(feed_queue)
    told = [event.what for event in story(spark, folder, "m", feed_queue)]
    assert told[0] == f"acked in queue {queue!r}, offset 0" and len(told) == 3, told


@pytest.mark.spark
def test_no_key_that_a_publisher_chooses_makes_another_message_a_double(
    spark: SparkSession,
) -> None:
    from warren.pipeline.silver import firsts, keyed

    columns = "incarnation long, offset long, message_id string"
    rows = [(9, 1, "#:9:2"), (9, 2, None), (9, 3, "##:9:2"), (9, 4, "a"), (9, 5, "a")]
    kept = firsts(keyed(spark.createDataFrame(rows, columns), "message_id"))
    assert sorted(row.offset for row in kept.collect()) == [1, 2, 3, 4]


@pytest.mark.spark
@pytest.mark.process
def test_upkeep_changes_no_figure(
    spark: SparkSession,
    broker: Broker,
    connection: Connection,
    queue: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = PipelineFolder(tmp_path / "p")
    words = ["pipeline", "bronze", str(folder.path), queue, "--uri", broker.url]
    for first in (0, 3):
        bodies = [b'{"n": %d}' % number for number in range(first, first + 3)]
        connection.channel().publish_many("", queue, bodies, PERSISTENT)
        assert main(words) == 0
        if first == 0:
            with monkeypatch.context() as patch:
                patch.setattr(Table, "commit", lambda *given, **named: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    main(["pipeline", "silver", str(folder.path), "--schema", "n int"])
        assert main(["pipeline", "silver", str(folder.path), "--schema", "n int"]) == 0
    table = SilverTable(folder, queue)
    assert len(table.table.files()) == 2, "what was not committed comes again, and once"
    assert len(list((table.table.folder / "data").glob("*.parquet"))) == 2
    assert [each.after for each in compact(folder)] == [1] and len(table.table.files()) == 1
    rows = table.read(spark)
    assert rows is not None and sorted(r.n for r in rows.select("body.n").collect()) == [*range(6)]

    assert keep(folder, days=1, bronze_days=1) == [], "nothing is old"
    files = archived_files(folder.bronze(queue))
    latencies = Table(folder.gold / "latencies")
    latencies.make("latencies", {})
    unread = latencies.commit(latencies.newest(), [], facts={"queue": queue, "checkout": 0})
    assert keep(folder, days=1, bronze_days=-1) == [], "a table has not read it yet"
    latencies.commit(unread, [], facts={"queue": queue, "checkout": 2})
    gone = keep(folder, days=-1, bronze_days=-1)
    assert [(each.files, each.rows) for each in gone] == [(1, 3), (1, 6)], "the newest batch stays"
    assert archived_files(folder.bronze(queue)) == files[1:] and files[0].exists()
    assert old_files(folder.bronze(queue)) == files[:1]
    assert table.read(spark) is None
    connection.channel().publish_many("", queue, [b'{"n": 6}'], PERSISTENT)
    assert main(words) == 0 and len(archived_files(folder.bronze(queue))) == 2


@pytest.mark.spark
def test_latencies_are_between_steps_that_consumers_took(spark: SparkSession) -> None:
    from warren.pipeline.latency import journeys, latencies
    from warren.spark.feed import EXPLODED, spark_schema

    def row(event: str, at: int, offset: int | None, consumer: int = 1, **more: object) -> list:
        known = {"event": event, EXPLODED: offset, "queue": "q", "incarnation": 1}
        known |= {"time": datetime.fromtimestamp(60 + at / 1000, UTC), "consumer": consumer, **more}
        return [known.get(name) for name in spark_schema(explode=True).names]

    rows = [row("published", 0, n) for n in (1, 2, 3)] + [row("confirmed", n, n) for n in (1, 2)]
    rows += [row("delivered", 10, 1), row("returned", 20, 1), row("acked", 45, 1)]
    rows += [row("delivered", 30, 1, reason="redelivered"), row("delivered", 5, 2, consumer=0)]
    rows += [row("acked", 6, 2, consumer=0), row("dead_lettered", 50, 3), row("acked", 9, 9)]
    rows += [row("queue.created", 0, None)]
    events = spark.createDataFrame(rows, spark_schema(explode=True))
    (found,) = latencies(journeys(events)).collect()
    assert (found.messages, found.acked, found.redelivered, found.dead_lettered) == (3, 1, 1, 1)
    assert (found.confirm_ms_p50, found.confirm_ms_max) == (1.5, 2.0)
    assert (found.deliver_ms_max, found.ack_ms_max) == (10.0, 35.0), "an archive is no consumer"
