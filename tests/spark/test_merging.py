"""Small files of archives put together: readers see each message once, whatever is ended where."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.test_archiving import all_rows, archive, bodies, filled, rows
from warren.pipeline import upkeep
from warren.pipeline.layout import PipelineError, PipelineFolder
from warren.pipeline.tables import Table
from warren.pipeline.upkeep import compact_bronze
from warren.spark import archiving, merging
from warren.spark.archiving import NotArchived, archived_batches, old_files

COUNT = 38
"""Messages, in ten files of four."""


class Ended(BaseException):
    """What a kill is here."""


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    """A pipeline with one archive."""
    made = PipelineFolder(tmp_path / "p")
    made.begin("/")
    archive(filled(COUNT), made.bronze("q")).run()
    return made


def parts(folder: PipelineFolder) -> list[tuple[int, int]]:
    return [(batch.first, batch.number) for batch in archived_batches(folder.bronze("q"))]


def stepped(patch: pytest.MonkeyPatch, passed: Callable[[], None]) -> None:
    """Have something called before each step that changes what is on disk."""

    def around(owner: object, name: str) -> None:
        call = getattr(owner, name)

        def step(*given: object, **named: object) -> object:
            passed()
            return call(*given, **named)

        patch.setattr(owner, name, step)

    for name in ("link", "fsync", "replace", "utime"):
        around(os, name)
    around(Path, "unlink")
    around(shutil, "rmtree")
    around(pq.ParquetWriter, "write_table")


def test_it_may_be_ended_at_each_step(
    folder: PipelineFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 0

    def passed() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Ended

    for step in range(1, 200):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        copy = PipelineFolder(shutil.copytree(folder.path, tmp_path / "copy"))
        left = step
        with monkeypatch.context() as patch:
            stepped(patch, passed)
            try:
                compact_bronze(copy)
            except Ended:
                pass
        ended = left <= 0
        assert rows(copy.bronze("q")) == bodies(0, COUNT), step
        compact_bronze(copy)
        assert rows(copy.bronze("q")) == bodies(0, COUNT), step
        assert parts(copy) == [(1, 9), (10, 10)]
        if step % 5 == 0 or not ended:  # As an hour later.
            with monkeypatch.context() as patch:
                patch.setattr(upkeep, "KEPT_SECONDS", -10)
                compact_bronze(copy)
            assert sorted(all_rows(copy.bronze("q"))) == sorted(bodies(0, COUNT)), step
        if not ended:
            break
    assert 12 < step < 199


def test_readers_see_all_at_each_step_with_files_that_stay(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = folder.bronze("q")
    begun = [batch.file for batch in archived_batches(place)]
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1
        assert rows(place) == bodies(0, COUNT)

    with monkeypatch.context() as patch:
        stepped(patch, look)
        compact_bronze(folder)
    assert looks > 12 and all(file.exists() for file in begun)
    assert set(old_files(place)) == set(begun[:-1])


def test_a_reader_between_two_looks_sees_one_state(
    folder: PipelineFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = archiving._read_json
    place = folder.bronze("q")

    def late(file: Path) -> dict[str, object]:
        if file.stem == "0000000005":
            monkeypatch.setattr(archiving, "_read_json", read)
            compact_bronze(folder)
        return read(file)

    monkeypatch.setattr(archiving, "_read_json", late)
    assert rows(place) == bodies(0, COUNT)
    assert parts(folder) == [(1, 9), (10, 10)]


def test_what_a_table_has_read_is_not_mixed_with_what_it_has_not(folder: PipelineFolder) -> None:
    silver = Table(folder.silver("q"))
    silver.make("silver", {})
    silver.commit(silver.newest(), [], facts={"checkout": 5})
    compact_bronze(folder)
    assert parts(folder) == [(1, 5), (6, 9), (10, 10)]
    assert [batch.first for batch in archived_batches(folder.bronze("q"), 5)] == [6, 10]
    with pytest.raises(NotArchived, match="checkouts 6 to 9 in one file, and .* ends at 7"):
        list(archived_batches(folder.bronze("q"), 7))
    with folder.writing("gold"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(PipelineFolder.writing.__wrapped__, "__defaults__", (0.0,))
        compact_bronze(folder)  # There is nothing to do.
        silver.commit(silver.newest(), [], facts={"checkout": 9})
        with pytest.raises(PipelineError, match="another process is at work on gold"):
            compact_bronze(folder)
    compact_bronze(folder)
    assert parts(folder) == [(1, 9), (10, 10)] and rows(folder.bronze("q")) == bodies(0, COUNT)


def test_a_file_that_was_changed_is_left_alone(folder: PipelineFolder) -> None:
    place = folder.bronze("q")
    table = pq.read_table(place / "0000000003.parquet")
    pq.write_table(table.slice(1), place / "0000000003.parquet")
    with pytest.raises(NotArchived, match="have other rows than the 36 that their manifests say"):
        compact_bronze(folder)
    assert len(parts(folder)) == 10 and not (place / merging._MERGING).exists()
