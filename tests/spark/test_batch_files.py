"""Files of tasks published as a batch: whatever is killed or frozen where, each row is there once.

No Spark is needed: what a driver does with a batch is called as `Archive` calls it, and stops at
any of the calls that change or sync something on the disk.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.fake import FakeBroker, record
from warren.errors import BrokerError
from warren.spark import archive, batch_files, task_files
from warren.spark.batch_files import BatchFiles, TaskFile
from warren.spark.broker import Fenced
from warren.spark.options import read_options
from warren.spark.stream import QueueStreamReader

QUERY = str(uuid.uuid4())
SCHEMA = pa.schema([pa.field("key", pa.string()), pa.field("value", pa.int64())])
ROWS = 12


class Killed(BaseException):
    """The driver is gone; nothing that it would do in its last moment happens."""


class Steps:
    """Counts a driver's steps, and has something happen before one of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._at = 0
        self._before: Callable[[], None] | None = None
        self._dead = False
        self.passed = 0
        for owner, name in (
            (os, "link"), (os, "unlink"), (os, "fsync"), (pq, "write_table"),
            (pq, "read_metadata"),
        ):  # fmt: skip
            patch.setattr(owner, name, self._around(getattr(owner, name)))
        patch.setattr(os, "fsync", self._around(lambda descriptor: None))

    def run(self, at: int, before: Callable[[], None], driver: Callable[[], None]) -> bool:
        """Run a driver; whether it came as far as to step `at`, before which something happens."""
        self._at, self._before, self._dead, self.passed = at, before, False, 0
        try:
            driver()
        except Killed:
            pass
        finally:
            reached, self._before, self._dead = self._before is None, None, False
        return reached

    def kill(self) -> None:
        """What may happen: the driver is killed."""
        self._dead = True

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def around(*given: Any, **named: Any) -> Any:
            if self._dead:
                raise Killed
            if self._before is not None:
                self.passed += 1
                if self.passed == self._at:
                    before, self._before = self._before, None
                    before()
                    if self._dead:
                        raise Killed
            return call(*given, **named)

        return around


@pytest.fixture
def steps() -> Iterator[Steps]:
    with pytest.MonkeyPatch.context() as patch:
        yield Steps(patch)


def written(folder: Path, files: int, batch: int = 0) -> list[TaskFile]:
    """What the tasks of a batch leave: its rows in some files."""
    of_batch = BatchFiles(folder, QUERY, batch)
    found = []
    for part in range(files):
        values = [batch * ROWS + row for row in range(ROWS)][part * ROWS // files :][
            : ROWS // files
        ]
        table = pa.table({"key": ["k"] * len(values), "value": values}, SCHEMA)
        file, count = of_batch.write(SCHEMA, iter(table.to_batches()))
        assert count == len(values)
        found.append(TaskFile(str(file), part, files))
    return found


def archived(folder: Path, files: int, batch: int = 0) -> None:
    """What `Archive` does with a batch."""
    of_batch = BatchFiles(folder, QUERY, batch)
    if of_batch.finish():
        of_batch.clear()
    else:
        of_batch.publish(written(folder, files, batch))


def seen(folder: Path) -> list[int]:
    """What readers of all Parquet files see."""
    values = [
        value
        for file in folder.glob("*.parquet")
        for value in pq.read_table(file, columns=["value"])["value"].to_pylist()
    ]
    return sorted(values)


def whole(*batches: int) -> list[int]:
    return [batch * ROWS + row for batch in batches for row in range(ROWS)]


def left(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / batch_files.FILES).iterdir())


def test_a_batch_of_one_file_is_one_file_and_of_several_each_and_one_that_decides(
    tmp_path: Path,
) -> None:
    archived(tmp_path, 1)
    assert [file.name for file in tmp_path.glob("*.parquet")] == [f"{QUERY}-0000000000.parquet"]
    archived(tmp_path, 3, batch=1)
    names = sorted(file.name for file in tmp_path.glob(f"{QUERY}-0000000001*"))
    stem = f"{QUERY}-0000000001"
    parts = [f"{stem}-{number:05d}.parquet" for number in (1, 2, 3)]
    assert names == [*parts, f"{stem}.parquet"]
    assert pq.read_metadata(tmp_path / f"{stem}.parquet").num_rows == 0
    assert [pq.read_table(tmp_path / part)["value"][0].as_py() for part in parts] == [12, 16, 20]
    assert pq.read_metadata(tmp_path / parts[0]).row_group(0).column(1).compression == "ZSTD"
    assert seen(tmp_path) == whole(0, 1) and left(tmp_path) == []
    for table in (pq.read_table(tmp_path), pa.Table.from_pandas(pandas.read_parquet(tmp_path))):
        assert sorted(table["value"].to_pylist()) == whole(0, 1)


def test_a_batch_without_rows_is_decided_too(tmp_path: Path) -> None:
    """What a frozen driver had for it would be doubled by a later batch."""
    of_batch = BatchFiles(tmp_path, QUERY, 0)
    frozen = written(tmp_path, 2)
    file, count = of_batch.write(SCHEMA, iter(()))
    assert count == 0
    of_batch.publish([TaskFile(str(file), 0, 1)])
    of_batch.publish(frozen)
    assert seen(tmp_path) == [] and left(tmp_path) == []


@pytest.mark.parametrize(("first", "then"), [(1, 1), (1, 3), (3, 1), (3, 3), (3, 2)])
def test_a_driver_that_is_killed_at_any_step_loses_and_doubles_nothing(
    first: int, then: int, steps: Steps, tmp_path: Path
) -> None:
    for step in range(1, 100):
        folder = tmp_path / str(step)
        died = steps.run(step, steps.kill, lambda folder=folder: archived(folder, first))
        rows = seen(folder)
        assert len(set(rows)) == len(rows)
        archived(folder, then)
        assert seen(folder) == whole(0), f"killed at step {step}"
        archived(folder, then, batch=1)
        assert seen(folder) == whole(0, 1) and left(folder) == [], f"killed at step {step}"
        if not died:
            break
    assert step > 8 + 2 * first, "it was killed at each step"


@pytest.mark.parametrize(("first", "then"), [(1, 1), (1, 3), (3, 1), (3, 3), (3, 2)])
@pytest.mark.parametrize("later", [False, True])
def test_a_driver_that_wakes_after_its_successor_adds_nothing(
    first: int, then: int, later: bool, steps: Steps, tmp_path: Path
) -> None:
    for step in range(1, 100):
        folder = tmp_path / str(step)

        def successor(folder: Path = folder) -> None:
            archived(folder, then)
            if later:
                archived(folder, then, batch=1)
            assert seen(folder) == whole(0, 1) if later else whole(0)

        froze = steps.run(step, successor, lambda folder=folder: archived(folder, first))
        if not froze:
            break
        assert seen(folder) == (whole(0, 1) if later else whole(0)), f"frozen at step {step}"
        archived(folder, then, batch=2)
        assert left(folder) == []
    assert step > 8 + 2 * first, "it was frozen at each step"


@pytest.mark.parametrize(("first", "then"), [(1, 3), (3, 1), (3, 2)])
def test_a_driver_wakes_after_its_successor_was_killed_anywhere(
    first: int, then: int, steps: Steps, tmp_path: Path
) -> None:
    step, inner_step = 1, 1
    while step < 100:
        folder = tmp_path / f"{step}-{inner_step}"
        died: list[bool] = []

        def successor(
            folder: Path = folder, inner_step: int = inner_step, died: list[bool] = died
        ) -> None:
            with pytest.MonkeyPatch.context() as patch:
                inner = Steps(patch)
                died.append(inner.run(inner_step, inner.kill, lambda: archived(folder, then)))

        froze = steps.run(step, successor, lambda folder=folder: archived(folder, first))
        if not froze:
            break
        where = f"frozen at {step}, killed at {inner_step}"
        assert seen(folder) == whole(0), where
        archived(folder, 1, batch=1)
        assert seen(folder) == whole(0, 1) and left(folder) == [], where
        step, inner_step = (step, inner_step + 1) if died[0] else (step + 1, 1)
    assert step > 8 + 2 * first


def test_what_is_left_goes_with_a_later_batch_if_no_batch_needs_it(
    steps: Steps, tmp_path: Path
) -> None:
    """A decided batch, which a release without these files took for done, is made whole."""
    died = True
    step = 0
    while died and not (tmp_path / f"{QUERY}-0000000000.parquet").exists():
        step += 1
        died = steps.run(step, steps.kill, lambda: archived(tmp_path, 3))
    assert died and seen(tmp_path) == []
    other = BatchFiles(tmp_path, str(uuid.uuid4()), 0)
    kept = [other.write(SCHEMA, iter(()))[0].name]
    for batch in (1, 3):  # Of 1 it is not known what became, and 3 is yet to come.
        kept += [Path(file.path).name for file in written(tmp_path, 1, batch)]
    archived(tmp_path, 1, batch=2)
    assert seen(tmp_path) == whole(0, 2)
    assert left(tmp_path) == sorted(kept)


# --- what is refused ----------------------------------------------------------------------------


def test_files_of_another_folder_are_refused(tmp_path: Path) -> None:
    files = written(tmp_path / "a", 1)
    for folder in (tmp_path / "b", tmp_path / "a" / "c"):
        with pytest.raises(BrokerError, match="option archiveDirectory has to name the archive's"):
            BatchFiles(folder, QUERY, 0).publish(files)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    BatchFiles(tmp_path / "link", QUERY, 0).publish(files)
    assert seen(tmp_path / "a") == whole(0)


@pytest.mark.parametrize("files", [1, 3])
def test_a_folder_that_is_not_shared_is_told_of(files: int, tmp_path: Path) -> None:
    found = written(tmp_path, files)
    Path(found[-1].path).unlink()
    with pytest.raises(BrokerError, match="one that the driver and all executors share"):
        BatchFiles(tmp_path, QUERY, 0).publish(found)
    assert seen(tmp_path) == [] and not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize("files", [1, 3])
def test_a_file_system_without_links_is_told_of(
    files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refuse)
        with pytest.raises(BrokerError, match="a file system with hard links"):
            archived(tmp_path, files)
    assert not list(tmp_path.glob("*.parquet"))
    archived(tmp_path, files)
    assert seen(tmp_path) == whole(0)


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("call", ["link", "fsync"])
def test_a_disk_that_is_full_leaves_a_batch_to_the_next_run(
    files: int, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    found = written(tmp_path, files)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refuse)
        with pytest.raises(OSError, match="No space left"):
            BatchFiles(tmp_path, QUERY, 0).publish(found)
        if call == "fsync":
            with pytest.raises(OSError, match="No space left"):
                written(tmp_path, 1)
    assert len(left(tmp_path)) == files, "a task that failed leaves nothing"
    assert not list(tmp_path.glob("*.parquet"))
    archived(tmp_path, 2)
    assert seen(tmp_path) == whole(0) and left(tmp_path) == []


def test_frames_without_some_of_their_rows_are_refused(tmp_path: Path) -> None:
    files = written(tmp_path, 3)
    for some in (files[:2], files[1:], []):
        with pytest.raises(BrokerError, match="batch 0 lacks files of its tasks"):
            BatchFiles(tmp_path, QUERY, 0).publish(some)
    # A union of two frames, of which one was filtered.
    with pytest.raises(BrokerError, match="batch 0 lacks files of its tasks"):
        BatchFiles(tmp_path, QUERY, 0).publish([*files, *written(tmp_path, 3)[1:]])
    for query, batch in ((QUERY, 1), (str(uuid.uuid4()), 0)):
        with pytest.raises(BrokerError, match=f"is of another batch than {query}-000000000{batch}"):
            BatchFiles(tmp_path, query, batch).publish(files)
    assert seen(tmp_path) == []


def test_what_is_no_batch_or_misses_a_part_is_told_of(tmp_path: Path) -> None:
    archived(tmp_path, 3)
    (tmp_path / f"{QUERY}-0000000000-00002.parquet").unlink()
    with pytest.raises(BrokerError, match="-00002.parquet is a part of its batch and was deleted"):
        archived(tmp_path, 3)
    archived(tmp_path, 1, batch=1)
    assert seen(tmp_path) == [row for row in whole(0, 1) if not 4 <= row < 8]
    (tmp_path / f"{QUERY}-0000000002.parquet").write_bytes(b"PAR1")
    with pytest.raises(BrokerError, match="is damaged"):
        archived(tmp_path, 1, batch=2)
    said = {b"warren.batch": b'{"version": 2, "files": []}'}
    later = SCHEMA.with_metadata(said).empty_table()
    pq.write_table(later, tmp_path / f"{QUERY}-0000000003.parquet")
    with pytest.raises(BrokerError, match="release that writes archives in another way"):
        archived(tmp_path, 1, batch=3)


# --- a task -------------------------------------------------------------------------------------


def filled(count: int) -> FakeBroker:
    broker = FakeBroker()
    broker.queue("q").put(*[record(b"%d" % number) for number in range(count)])
    return broker


def reader(broker: FakeBroker, folder: Path, **more: str) -> QueueStreamReader:
    given = {"subscribe": "q", "groupId": "g", "archiveDirectory": str(folder), **more}
    return QueueStreamReader(read_options(given, streaming=True), broker.connect)


@pytest.fixture
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a task of batch 7 of a query."""
    said = {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": "7"}
    task = SimpleNamespace(getLocalProperty=said.get)
    monkeypatch.setattr(task_files, "TaskContext", SimpleNamespace(get=lambda: task))


@pytest.mark.usefixtures("in_a_task")
def test_a_task_has_its_rows_in_a_file_and_says_which(tmp_path: Path) -> None:
    source = reader(filled(10), tmp_path, minPartitions="2", columns="offset,value")
    start = source.initialOffset()
    end = source.latestOffset(start, source.getDefaultReadLimit())
    said = [row for part in source.partitions(start, end) for batch in source.read(part)
            for row in batch.to_pylist()]  # fmt: skip
    assert [(row["part"], row["parts"], row["rows"]) for row in said] == [(0, 2, 5), (1, 2, 5)]
    assert [row["bytes"] for row in said] == [
        Path(row["staged_file"]).stat().st_size for row in said
    ]
    tables = [pq.read_table(row["staged_file"]) for row in said]
    assert tables[0].column_names == ["value", "offset"]
    assert pa.concat_tables(tables)["value"].to_pylist() == [b"%d" % n for n in range(10)]
    of_batch = BatchFiles(tmp_path, QUERY, 7)
    of_batch.publish([TaskFile(row["staged_file"], row["part"], row["parts"]) for row in said])
    assert sum(pq.read_metadata(file).num_rows for file in tmp_path.glob("*.parquet")) == 10


@pytest.mark.usefixtures("in_a_task")
def test_a_task_whose_query_has_lost_the_group_leaves_no_file(tmp_path: Path) -> None:
    broker = filled(10)
    source = reader(broker, tmp_path)
    start = source.initialOffset()
    end = source.latestOffset(start, source.getDefaultReadLimit())
    (part,) = source.partitions(start, end)
    successor = reader(broker, tmp_path)
    successor.latestOffset(start, successor.getDefaultReadLimit())
    with pytest.raises(Fenced):
        list(source.read(part))
    assert left(tmp_path) == []


def test_a_name_that_another_driver_gave_is_on_disk_before_anybody_goes_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That one may be frozen between its link and its sync."""
    synced: list[Path] = []
    monkeypatch.setattr(archive, "sync", synced.append)
    for name in ("theirs", "ours"):
        (tmp_path / name).write_text(name)
    (tmp_path / "public").mkdir()
    final = tmp_path / "public" / "1.parquet"
    os.link(tmp_path / "theirs", final)
    assert not archive.publish(tmp_path / "ours", final)
    assert final.read_text() == "theirs"
    assert synced[-1] == final.parent
