"""`warren archive`: a queue in Parquet files, each message once, whatever is killed where."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.spark.conftest import environment
from tests.spark.fake import FakeBroker, record
from tests.spark.test_checkpoint import log
from tests.support.broker import Broker
from tests.support.patience import patient
from warren.__main__ import main
from warren.admin.cli.groups import age_text
from warren.client import PERSISTENT, Connection
from warren.client.table import Tables
from warren.spark import archiving
from warren.spark.archiving import ArchiveProgress, NotArchived, QueueArchive, archived_files
from warren.spark.broker import Fenced
from warren.spark.options import UNBOUNDED
from warren.spark.queue_rows import Drain, read_queue

#: Runs `warren archive` in files of four rows and has it die at one of its steps, by its number:
#: before each call that asks the broker, writes, or has the disk keep something.
DYING = """
import os, signal, sys
from warren.__main__ import main
from warren.spark import archive, archiving, group, queue_rows

left = int(sys.argv[1])

def passed():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

def dying(owner, name):
    call = getattr(owner, name)
    def around(*given, **named):
        passed()
        return call(*given, **named)
    setattr(owner, name, around)

for owner, name in (
    (os, "link"), (os, "fsync"), (group.GroupReader, "take"), (group.GroupReader, "held"),
    (group.GroupReader, "settle"), (group.GroupReader, "check"), (archiving.pq, "read_metadata"),
    (archiving.pq.ParquetWriter, "write_table"),
):
    dying(owner, name)
sys.exit(main(["archive", *sys.argv[2:], "--rows", "4"]))
"""


def bodies(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


def rows(folder: Path) -> list[bytes]:
    """What readers of the manifests see."""
    return [
        value.as_py()
        for file in archived_files(folder)
        for value in pyarrow.parquet.read_table(file, columns=["value"])["value"]
    ]


def all_rows(folder: Path) -> list[bytes]:
    """What readers see that take all Parquet files there are."""
    return [
        value.as_py()
        for file in sorted(folder.glob("*.parquet"))
        for value in pyarrow.parquet.read_table(file, columns=["value"])["value"]
    ]


def filled(count: int) -> FakeBroker:
    broker = FakeBroker()
    broker.queue("q").put(*[record(body) for body in bodies(0, count)])
    return broker


def archive(broker: FakeBroker, folder: Path, queue: str = "q") -> QueueArchive:
    return QueueArchive(
        queue, folder, options={"maxOffsetsPerTrigger": "4"}, connect=broker.connect
    )


def test_a_run_archives_what_there_is_and_the_next_goes_on(tmp_path: Path) -> None:
    broker = filled(10)
    told: list[ArchiveProgress] = []
    assert archive(broker, tmp_path).run(tell=told.append) == ArchiveProgress(10, 10, 3)
    assert told[0] == ArchiveProgress(0, 10, 0)
    assert [progress.rows for progress in told] == sorted(progress.rows for progress in told)
    queue = broker.queue("q")
    assert not queue.messages, "what is archived is settled"
    queue.put(record(b"10"))
    assert archive(broker, tmp_path).run() == ArchiveProgress(1, 1, 1)
    assert archive(broker, tmp_path).run() == ArchiveProgress(0, 0, 0)
    assert rows(tmp_path) == all_rows(tmp_path) == bodies(0, 11)
    manifest = json.loads((tmp_path / "_manifest" / "0000000002.json").read_text())
    assert manifest["rows"] == 4 and manifest["messages"] == [[4, 7]]
    assert not list((tmp_path / "_staging").iterdir())
    meta = pyarrow.parquet.ParquetFile(archived_files(tmp_path)[0]).metadata
    assert meta.row_group(0).column(1).compression == "ZSTD"


def test_an_empty_queue_leaves_no_files(tmp_path: Path) -> None:
    assert archive(filled(0), tmp_path).run() == ArchiveProgress(0, 0, 0)
    assert rows(tmp_path) == all_rows(tmp_path) == []


@pytest.mark.parametrize(
    ("owner", "step", "of"),
    [
        (Drain, "check", ""),
        (archiving, "publish", ".parquet"),
        (QueueArchive, "_publish", "_manifest"),
        (Drain, "settle", ""),
    ],
)
def test_a_run_that_wakes_after_its_successor_adds_nothing(
    owner: object, step: str, of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = filled(6)
    call = getattr(owner, step)
    before: list[bytes] = []

    def frozen(*given: object) -> object:
        if of in str(given[-1] if step == "publish" else given[1:]):
            monkeypatch.setattr(owner, step, call)
            archive(broker, tmp_path).run()
            before.extend(all_rows(tmp_path))
        return call(*given)

    monkeypatch.setattr(owner, step, frozen)
    with pytest.raises((NotArchived, FileNotFoundError)):
        archive(broker, tmp_path).run()
    assert before == rows(tmp_path) == all_rows(tmp_path) == bodies(0, 6)
    assert not broker.queue("q").messages


def test_a_folder_is_of_one_queue(tmp_path: Path) -> None:
    broker = filled(3)
    broker.queue("other").put(record(b"x"))
    archive(broker, tmp_path).run()
    with pytest.raises(NotArchived, match="is the archive of queue 'q', not of 'other'"):
        archive(broker, tmp_path, "other").run()
    assert len(broker.queue("other").messages) == 1


def test_an_old_copy_of_a_folder_is_refused(tmp_path: Path) -> None:
    broker = filled(3)
    archive(broker, tmp_path / "a").run()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    broker.queue("q").put(record(b"3"))
    archive(broker, tmp_path / "a").run()
    broker.queue("q").put(record(b"4"))
    with pytest.raises(NotArchived, match="an old copy"):
        archive(broker, tmp_path / "b").run()
    assert rows(tmp_path / "b") == bodies(0, 3) and broker.queue("q").ready == [4]


def test_a_queue_made_anew_is_refused(tmp_path: Path) -> None:
    broker = filled(3)
    broker.queue("q").incarnation = 5
    archive(broker, tmp_path).run()
    del broker.queues["q"]
    broker.queue("q").put(record(b"new"))
    broker.queue("q").incarnation = 6
    with pytest.raises(NotArchived, match="deleted and made anew"):
        archive(broker, tmp_path).run()
    assert rows(tmp_path) == bodies(0, 3) and broker.queue("q").ready == [0]


def test_a_file_that_is_something_else_settles_nothing(tmp_path: Path) -> None:
    broker = filled(3)
    archive(filled(0), tmp_path).run()
    file = tmp_path / "0000000001.parquet"
    table = pyarrow.table({"value": [b"foreign"]})
    pyarrow.parquet.write_table(table, file)
    with pytest.raises(NotArchived, match="has 1 rows, and checkout 1 of queue 'q' has 3"):
        archive(broker, tmp_path).run()
    file.write_bytes(b"")
    with pytest.raises(NotArchived, match="is damaged"):
        archive(broker, tmp_path).run()
    assert len(broker.queue("q").messages) == 3


def test_an_archive_of_a_later_release_is_refused(tmp_path: Path) -> None:
    archive(filled(1), tmp_path).run()
    (tmp_path / "_archive.json").write_text('{"version": 2}')
    for wrong in (lambda: archive(filled(1), tmp_path).run(), lambda: archived_files(tmp_path)):
        with pytest.raises(NotArchived, match="release that writes archives in another way"):
            wrong()
    with pytest.raises(NotArchived, match="is no archive of a queue"):
        archived_files(tmp_path / "_staging")


def test_without_pyarrow_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "warren.spark.archiving")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["archive", "q", "d"]) == 1
    assert "needs pyarrow: pip install 'warren-broker[arrow]'" in capsys.readouterr().err


def test_neither_archives_nor_groups_need_spark() -> None:
    code = (
        "import sys\nimport warren.spark.settling\n"
        "assert 'pyarrow' not in sys.modules and 'numpy' not in sys.modules\n"
        "import warren.spark.archiving, warren.spark.queue_rows\n"
        "assert 'pyspark' not in sys.modules and 'pandas' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=patient(60),
    )
    assert done.returncode == 0, done.stderr


# --- with a broker ------------------------------------------------------------------------------


@pytest.fixture(params=["quorum", "classic"])
def queue_kind(request: pytest.FixtureRequest) -> str:
    """Archives and groups are of both types."""
    return str(request.param)


def fill(connection: Connection, queue: str, first: int, last: int) -> None:
    found = connection.channel().publish_many("", queue, bodies(first, last), PERSISTENT)
    assert found == []


@pytest.mark.process
@pytest.mark.early
@pytest.mark.timeout(patient(600))
def test_a_run_that_is_killed_at_any_step_loses_and_doubles_nothing(
    broker: Broker, connection: Connection, queue: str, tmp_path: Path
) -> None:
    folder = tmp_path / "archive"
    published = 0
    for step in range(1, 200):
        fill(connection, queue, published, published + 6)
        published += 6
        words = [str(step), queue, str(folder), "--uri", broker.url]
        done = subprocess.run(
            [sys.executable, "-c", DYING, *words],
            capture_output=True,
            text=True,
            env=environment(),
            timeout=patient(60),
        )
        if (folder / "_archive.json").exists():
            seen = rows(folder)
            assert seen == bodies(0, len(seen)), f"killed at step {step}"
            assert all_rows(folder)[: len(seen)] == seen
            assert len(set(all_rows(folder))) == len(all_rows(folder))
        if done.returncode != -signal.SIGKILL:
            assert done.returncode == 0, done.stderr
            break
    assert step > 25, "it was killed at each step"
    assert rows(folder) == all_rows(folder) == bodies(0, published)
    assert connection.channel().queue_declare(queue, passive=True).messages == 0


@pytest.mark.process
def test_the_command_says_what_it_did_or_why_not(
    broker: Broker,
    connection: Connection,
    queue: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(connection, queue, 0, 5)
    words = ["archive", queue, str(tmp_path / "a"), "--uri", broker.url]
    assert main(words) == 0
    assert f"{queue}: 5 messages in 1 file in" in capsys.readouterr().out
    assert main(["archive", "nowhere", str(tmp_path / "b"), "--uri", broker.url]) == 1
    assert "no queue 'nowhere' in vhost '/'" in capsys.readouterr().err
    assert not (tmp_path / "b").exists()
    assert main(["archive", queue, str(tmp_path / "a"), "--uri", "http://x"]) == 2


@pytest.mark.process
def test_queues_are_arrow_in_python(broker: Broker, connection: Connection, queue: str) -> None:
    fill(connection, queue, 0, 5)
    reader = read_queue(queue, broker.url, columns=("offset", "value"))
    assert reader.read_all().to_pydict() == {"value": bodies(0, 5), "offset": [0, 1, 2, 3, 4]}
    with Drain(queue, "python", broker.url, options={"maxOffsetsPerTrigger": "3"}) as drain:
        first = drain.take()
        assert first is not None and (first.number, first.rows) == (1, 3)
    with Drain(queue, "python", broker.url, options={"maxOffsetsPerTrigger": "3"}) as drain:
        again = drain.take()
        assert again is not None and again.runs == first.runs
        assert [v for b in again.read() for v in b["value"].to_pylist()] == bodies(0, 3)
        drain.settle(again)
        rest = drain.take()
        assert rest is not None and rest.rows == 2
        drain.settle(rest)
        assert drain.take() is None
    assert connection.channel().queue_declare(queue, passive=True).messages == 0


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [(-1, "-"), (0, "0s"), (59_999, "59s"), (60_000, "1min0s"), (7_384_000, "2h3min"),
     (86_400_000 * 12 + 3_600_000, "12d1h")],
)  # fmt: skip
def test_ages_in_two_units(age_ms: int, text: str) -> None:
    assert age_text(age_ms) == text


@pytest.mark.process
def test_groups_are_shown_and_settled_by_a_checkpoint(
    broker: Broker,
    connection: Connection,
    queue: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(connection, queue, 0, 5)
    with Drain(queue, "g", broker.url, options={"maxOffsetsPerTrigger": "3"}) as drain:
        taken = drain.take()
        assert taken is not None
        offset = {queue: taken.number, f"{queue}#incarnation": drain.incarnation()}
    where = ["--uri", broker.url]
    assert main(["groups", "show", queue, "g", *where]) == 0
    said = capsys.readouterr().out
    assert re.search(
        r"settled up to checkout 0, 1 open with 3 messages, the oldest for \d+s\n"
        r"  checkout 1: 3 messages, open for \d+s\n",
        said,
    )
    assert main(["groups", "list", queue, *where]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["group", "settled", "open", "messages", "oldest", "lease", "called"]
    assert re.fullmatch(r"g 0 1 3 \d+s 0 2\S+Z", " ".join(line.split()))
    settle = ["groups", "settle", queue, "g", "--checkpoint", str(tmp_path), *where]
    assert main(settle) == 2
    assert "no folder 'offsets'" in capsys.readouterr().err
    log(tmp_path, 0, offset)
    assert main(settle) == 0
    assert "settled up to checkout 1, 0 open with 0 messages" in capsys.readouterr().out
    assert connection.channel().queue_declare(queue, passive=True).messages == 2
    log(tmp_path, 1, {**offset, queue: 9})
    assert main(settle) == 1
    assert "the queue does not know it" in capsys.readouterr().err
    with Drain(queue, "g", broker.url) as drain:
        assert drain.take() is not None
        assert main(["groups", "release", queue, "g", *where]) == 0
        said = capsys.readouterr().out
        assert "2 messages are back in the queue" in said and "0 open with 0 messages" in said
        with pytest.raises(Fenced, match="another query took over"):
            drain.take()
    with Drain(queue, "g", broker.url) as drain:
        taken = drain.take()
        assert taken is not None
        assert main(["groups", "delete", queue, "g", *where]) == 0
        assert "2 messages are back in the queue" in capsys.readouterr().out
        with pytest.raises(Fenced, match="is gone: it was deleted"):
            drain.settle(taken)
    assert connection.channel().queue_declare(queue, passive=True).messages == 2
    assert main(["groups", "list", queue, *where]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1
    assert main(["groups", "delete", queue, "g", *where]) == 2
    assert f"queue '{queue}' has no group 'g'" in capsys.readouterr().err
    assert main(["groups", "list", "nowhere", *where]) == 1
    assert "no queue 'nowhere'" in capsys.readouterr().err


@pytest.mark.process
def test_a_group_is_set_back_within_what_it_holds(
    broker: Broker,
    connection: Connection,
    queue: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fill(connection, queue, 0, 9)
    reset = ["groups", "reset", queue, "g", "--uri", broker.url, "--to"]
    tables = Tables(connection.channel())
    epoch = tables.acquire(queue, "g", 0).epoch
    for after in range(4):
        assert tables.checkout(queue, "g", epoch, after, 2, 0, UNBOUNDED).number == after + 1
    tables.settle(queue, "g", epoch, 1)

    def depth() -> int:
        return connection.channel().queue_declare(queue, passive=True).messages

    def said(*words: str, status: int = 0) -> str:
        assert main([*reset, *words]) == status
        shown = capsys.readouterr()
        return shown.err if status else shown.out

    said_first = "checkouts up to 1 were settled before: their messages do not come back\n"
    said_last = (
        "a query whose checkpoint names one of those is refused: begin with a new checkpoint"
    )
    out = said("3", "--dry-run")
    assert out.startswith(
        f"{said_first}"
        "4 messages of checkouts 2 to 3 would be settled: what no query has written of them is lost"
        "\n2 messages of checkout 4 would be given back: what a query has written of them comes "
        f"twice\n{said_last}"
    )
    assert depth() == 1
    assert "6 messages of checkouts 2 to 4 would be given back" in said("start", "--dry-run")
    assert "would be given back" in said("2020-01-01T00:00:00Z", "--dry-run")
    assert "6 messages of checkouts 2 to 4 would be settled" in said("2999-01-01T00Z", "--dry-run")
    assert "checkout 1 is settled: what was in it" in said("0", status=2)
    assert "it has no checkout 5; the newest is 4" in said("5", status=2)
    assert "s ago, so a query of it may run" in said("3", status=1)
    assert depth() == 1, "nothing was done"
    assert "4 messages of checkouts 2 to 3 are settled" in said("3", "--force")
    assert depth() == 3
    assert "the group holds nothing" in said("start", "--force")
    with Drain(queue, "g", broker.url) as drain:
        left = drain.take()
        assert left is not None
        assert [v for b in left.read() for v in b["value"].to_pylist()] == bodies(6, 9)
    for place in ("2020-01-01T00:00:00", "yesterday"):
        with pytest.raises(SystemExit):
            main([*reset, place])
        assert "--to" in capsys.readouterr().err
