"""Tables of Parquet files that change by whole versions: readers never see half a change.

::

    <table>/_table.json                 what the table is: fixed when it is made
    <table>/_versions/0000000007.json   version 7: its files, and what they were made of
    <table>/data/<id>.parquet           files of this or that version
    <table>/_staging/                   what is being written, or what a crash left there

A version is made by one link of a whole file, which fails if another writer was first. It names all
files that there are: one that replaces small files by a large one, or drops old days, is a version
like any other, and readers that began with the one before go on with its files for as long as
`KEPT_SECONDS`. So readers take `files`, and not all `*.parquet` there are.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq

from warren.pipeline.layout import (
    VERSION,
    PipelineError,
    check_version,
    read_json,
    write_json,
)
from warren.spark.archive import STAGING, publish, sync

_IDENTITY: Final = "_table.json"
_VERSIONS: Final = "_versions"
_DATA: Final = "data"

#: The part of a table that most have alone.
ROWS: Final = "rows"

#: Versions that are kept besides those that are not old.
_KEPT_VERSIONS: Final = 20

#: So long readers may go on with a version after the next one came.
KEPT_SECONDS: Final = 3600.0


class TableFile(NamedTuple):
    """One file of a version.

    Attributes:
        name: In the folder `data`.
        part: Which of the table's parts it belongs to, such as `rows` or `poison`.
        rows, bytes: How many.
        first_ms, last_ms: Between which times its rows are, in milliseconds since 1970; by the
            column that the writer named.
    """

    name: str
    part: str
    rows: int
    bytes: int
    first_ms: int
    last_ms: int


class TableVersion(NamedTuple):
    """What a table has at a time.

    Attributes:
        number: Ascending from 1; 0 for a table that has nothing yet.
        files: All of them.
        facts: What its writer has to know of them, such as how far of its input they are.
    """

    number: int
    files: list[TableFile]
    facts: dict[str, Any]


class Table:
    """A table in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / _DATA

    def exists(self) -> bool:
        """Whether it was made."""
        return (self.folder / _IDENTITY).exists()

    def make(self, kind: str, fixed: Mapping[str, Any]) -> dict[str, Any]:
        """Make the table if it is not there; returns what is fixed about it."""
        for folder in (self.folder, self._data, self.folder / _VERSIONS):
            folder.mkdir(parents=True, exist_ok=True)
            sync(folder.parent)
        if not self.exists():
            write_json(self.folder / _IDENTITY, {"version": VERSION, "kind": kind, **fixed})
        return self.fixed()

    def fixed(self) -> dict[str, Any]:
        """What the table is for good.

        Raises:
            PipelineError: It is none, or of a later release.
        """
        found = read_json(self.folder / _IDENTITY, "no table of a pipeline")
        check_version(found, self.folder)
        return found

    def newest(self) -> TableVersion:
        """What it has now.

        Raises:
            PipelineError: The newest version cannot be read.
        """
        numbers = self._numbers()
        if not numbers:
            return TableVersion(0, [], {})
        found = read_json(self._version_file(numbers[-1]), "no table of a pipeline")
        check_version(found, self.folder)
        files = [TableFile(**entry) for entry in found["files"]]
        return TableVersion(numbers[-1], files, found["facts"])

    def files(self, part: str = ROWS) -> list[str]:
        """The files of a part in the newest version, for any reader of Parquet."""
        return self.paths(file for file in self.newest().files if file.part == part)

    def paths(self, files: Iterable[TableFile]) -> list[str]:
        """Where files are."""
        return [str(self._data / file.name) for file in files]

    def staging(self) -> Path:
        """A new folder to write Parquet files into, for `take`."""
        return self.folder / STAGING / uuid.uuid4().hex

    def take(self, written: Path, part: str, column: str) -> list[TableFile]:
        """Take over the Parquet files in a folder of `staging`; they are the table's with `commit`.

        Args:
            column: The timestamp that says when a row is of.
        """
        taken: list[TableFile] = []
        for path in sorted(written.glob("*.parquet")):
            meta = pq.read_metadata(path)
            if meta.num_rows > 0:
                name = f"{uuid.uuid4().hex}.parquet"
                publish(path, self._data / name)
                first, last = _range_ms(meta, column)
                taken.append(TableFile(name, part, meta.num_rows, path.stat().st_size, first, last))
        shutil.rmtree(written)
        return taken

    def commit(
        self,
        since: TableVersion,
        add: Iterable[TableFile],
        drop: Iterable[TableFile] = (),
        facts: Mapping[str, Any] | None = None,
    ) -> TableVersion:
        """Make the next version.

        Args:
            since: The version that the change was made from.
            facts: What takes the place of the facts of the same names.

        Raises:
            PipelineError: Another writer made a version meanwhile.
        """
        dropped = {file.name for file in drop}
        files = [file for file in since.files if file.name not in dropped] + list(add)
        known = {**since.facts, **(facts or {})}
        number = since.number + 1
        content = {
            "version": VERSION,
            "made_ms": int(time.time() * 1000),
            "files": [file._asdict() for file in files],
            "facts": known,
        }
        if not write_json(self._version_file(number), content):
            raise PipelineError(
                f"{self.folder} was changed by another process meanwhile; run it again"
            )
        return TableVersion(number, files, known)

    def sweep(self, kept_seconds: float = KEPT_SECONDS) -> int:
        """Delete versions that no reader has any more, and files of no version; returns how many.

        Only the table's writer may: files that are not committed yet are of no version.
        """
        numbers = self._numbers()
        before = time.time() - kept_seconds
        old = [number for number in numbers[:-_KEPT_VERSIONS] if self._made(number) < before]
        for number in old:
            self._version_file(number).unlink()
        kept = set(numbers) - set(old)
        # A version that was replaced long ago has no readers, though it is among the last.
        alive = {
            n for n in kept if n == numbers[-1] or self._made(min(n + 1, numbers[-1])) > before
        }
        named = {
            str(file["name"])
            for number in alive
            for file in read_json(self._version_file(number), "no table of a pipeline")["files"]
        }
        gone = 0
        for path in self._data.glob("*.parquet"):
            if path.name not in named:
                path.unlink()
                gone += 1
        shutil.rmtree(self.folder / STAGING, ignore_errors=True)
        return gone

    def _numbers(self) -> list[int]:
        stems = (path.stem for path in (self.folder / _VERSIONS).glob("*.json"))
        return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())

    def _version_file(self, number: int) -> Path:
        return self.folder / _VERSIONS / f"{number:010d}.json"

    def _made(self, number: int) -> float:
        return self._version_file(number).stat().st_mtime


def time_range(file: Path, column: str) -> tuple[int, int]:
    """The least and the greatest time of a Parquet file's column, by its statistics alone.

    Returns:
        Both in milliseconds since 1970; 0 where the file does not say.
    """
    return _range_ms(pq.read_metadata(file), column)


def _range_ms(meta: pq.FileMetaData, column: str) -> tuple[int, int]:
    names = [meta.schema.column(at).path for at in range(len(meta.schema))]
    if column not in names:
        return 0, 0
    groups = (meta.row_group(at) for at in range(meta.num_row_groups))
    found = [group.column(names.index(column)).statistics for group in groups]
    known = [one for one in found if one is not None and one.has_min_max]
    if not known:
        return 0, 0
    first = min(one.min for one in known)
    last = max(one.max for one in known)
    return int(first.timestamp() * 1000), int(last.timestamp() * 1000)
