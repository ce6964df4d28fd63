"""A queue archived into a folder of Parquet files, without Spark: each message in one file, once.

::

    <folder>/_archive.json              which queue this is of, and the group that takes it
    <folder>/0000000007.parquet         the messages of checkout 7
    <folder>/_manifest/0000000007.json  says that they are archived, in which file, and which
    <folder>/_staging/                  what is being written, or what a crash left there

Files of several checkouts may be put together later (`warren.spark.merging`).

A batch goes through these steps, and each name comes into being by one link of a file that is whole
and on disk, which fails if the name is taken:

1. the broker hands out a checkout, and hands out the same one again until it is settled;
2. its rows are written into `_staging`, and get their final name;
3. the manifest gets its name: from now on the batch is archived;
4. the broker settles the checkout.

Whatever ends the program where, the next run goes on from the last manifest. Two programs on one
folder cannot both go on, since the second has the broker fence the first; and a first that was
frozen in between finds names taken, by files with the very rows that it has. So readers that go by
the manifests, or take all `*.parquet` there are, see each message once at any moment.

The folder has to be on a file system with hard links.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from warren.errors import BrokerError
from warren.spark.archive import STAGING, publish, sync
from warren.spark.broker import Connect, Fenced, RowsLost, connect
from warren.spark.options import UNBOUNDED, URI_DEFAULT
from warren.spark.parquet import write_rows
from warren.spark.queue_rows import Drain, DrainedBatch, Place

VERSION: Final = 1
MANIFEST: Final = "_manifest"
IDENTITY: Final = "_archive.json"

#: A file of one checkout, or of several; the number is that of the last.
_NAME: Final = re.compile(r"(?:[0-9]+-)?([0-9]+)\.parquet")

_POLL_SECONDS: Final = 0.2


class NotArchived(BrokerError):
    """A folder cannot go on being the archive of a queue."""


class ArchiveProgress(NamedTuple):
    """How far a run has come.

    Attributes:
        rows: Messages archived by it.
        waiting: Messages that were ready when it began, and 0 for one that has no end.
        files: Files with them.
    """

    rows: int
    waiting: int
    files: int


class QueueArchive:
    """Moves the messages of one queue into one folder."""

    def __init__(
        self,
        queue: str,
        folder: str | Path,
        uri: str = URI_DEFAULT,
        options: Mapping[str, str] | None = None,
        connect: Connect = connect,
    ) -> None:
        """Remember what to move; nothing is connected or made yet.

        Args:
            queue: A durable queue.
            options: Further ones of docs/spark.md for reading.
        """
        self._queue = queue
        self._folder = Path(folder).absolute()
        self._uri = uri
        self._options = {"maxOffsetsPerTrigger": "1000000", **(options or {})}
        if "columns" not in self._options:
            self._options.setdefault("includeHeaders", "true")
        self._connect = connect

    def run(
        self,
        follow: bool = False,
        tell: Callable[[ArchiveProgress], None] = lambda progress: None,
    ) -> ArchiveProgress:
        """Archive what is ready now, or, with `follow`, whatever comes, without an end.

        Args:
            tell: Called as rows come in.

        Raises:
            NotArchived: The folder is of another queue, or not up to date.
            BrokerError: The broker refused, or is away for longer than `retryTimeout`.
            ConfigError: An option is wrong.
            OSError: The disk is full, or cannot link.
        """
        try:
            return self._run(follow, tell)
        except Fenced as error:
            raise NotArchived(
                f"another program took over the archive in {self._folder}, and goes on with it"
            ) from error
        except RowsLost as error:
            why = str(error).partition("; option failOnDataLoss")[0]
            raise NotArchived(
                f"{self._folder} cannot go on: {why}. Nothing of it was changed; archive into a "
                "new folder what the queue has now"
            ) from error

    def _run(self, follow: bool, tell: Callable[[ArchiveProgress], None]) -> ArchiveProgress:
        group, incarnation = self._identity()
        place = Place(_last_manifest(self._folder), incarnation)
        options = self._options
        with Drain(self._queue, group, self._uri, place, options, self._connect) as drain:
            ready, newest = drain.waiting()
            if follow:
                ready, newest = 0, UNBOUNDED
            done = ArchiveProgress(0, ready, 0)
            tell(done)
            while True:
                batch = drain.take(newest)
                if batch is not None:
                    done = self._store(drain, batch, done, tell)
                elif follow:
                    time.sleep(_POLL_SECONDS)
                else:
                    return done

    def _identity(self) -> tuple[str, int]:
        """The group that takes messages for this folder alone, and which queue it takes them from.

        Raises:
            NotArchived: The folder is of another queue, or of a later release.
        """
        file = self._folder / IDENTITY
        if not file.exists():
            # A group that was never there: numbers of its checkouts are names of files here.
            with Drain(self._queue, "archive", self._uri, None, {}, self._connect) as drain:
                incarnation = drain.incarnation()
            for folder in (self._folder, self._folder / MANIFEST):
                folder.mkdir(parents=True, exist_ok=True)
                sync(folder.parent)
            self._publish(
                file,
                {
                    "version": VERSION,
                    "queue": self._queue,
                    "group": f"archive-{uuid.uuid4().hex}",
                    "incarnation": incarnation,
                },
            )
        found = _read_json(file)
        if found.get("queue") != self._queue:
            raise NotArchived(
                f"{self._folder} is the archive of queue {found.get('queue')!r}, not of "
                f"{self._queue!r}"
            )
        if "directory" in found:
            raise NotArchived(
                f"{self._folder} has what was rescued from {found['directory']}; archive into a "
                "folder of its own"
            )
        return str(found["group"]), int(found["incarnation"])

    def _store(
        self,
        drain: Drain,
        batch: DrainedBatch,
        done: ArchiveProgress,
        tell: Callable[[ArchiveProgress], None],
    ) -> ArchiveProgress:
        """Bring a batch through all its steps."""
        file = self._folder / f"{batch.number:010d}.parquet"
        if not file.exists():
            self._write(drain, batch, file, done, tell)
        try:
            rows = pq.read_metadata(file).num_rows
        except pa.ArrowException as error:
            raise NotArchived(f"{file} is damaged: {error}") from error
        if rows != batch.rows:
            raise NotArchived(
                f"{file} has {rows} rows, and checkout {batch.number} of queue {self._queue!r} has "
                f"{batch.rows}: the file was changed, or is of something else"
            )
        self._publish(
            self._folder / MANIFEST / f"{batch.number:010d}.json",
            {
                "version": VERSION,
                "checkout": batch.number,
                "file": file.name,
                "rows": rows,
                "bytes": file.stat().st_size,
                "archived_ms": int(time.time() * 1000),
                "messages": [list(run) for run in batch.runs],
            },
        )
        drain.settle(batch)
        done = ArchiveProgress(done.rows + rows, done.waiting, done.files + 1)
        tell(done)
        return done

    def _write(
        self,
        drain: Drain,
        batch: DrainedBatch,
        file: Path,
        done: ArchiveProgress,
        tell: Callable[[ArchiveProgress], None],
    ) -> None:
        """Write a batch's rows, and give them their final name when all are on disk."""
        staging = self._folder / STAGING
        # The group is this program's, so what lies there is of one that has ended, or is fenced.
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        attempt = staging / f"{uuid.uuid4().hex}.parquet"
        for rows in write_rows(attempt, batch.schema, batch.read()):
            tell(done._replace(rows=done.rows + rows))
        drain.check()
        publish(attempt, file)
        attempt.unlink()

    def _publish(self, file: Path, content: dict[str, Any]) -> None:
        """Have a file of JSON, unless it is there."""
        publish_json(self._folder, file, content)


def publish_json(folder: Path, file: Path, content: dict[str, Any]) -> None:
    """Have a file of JSON in an archive, unless it is there."""
    staging = folder / STAGING
    staging.mkdir(exist_ok=True)
    attempt = staging / f"{uuid.uuid4().hex}.json"
    attempt.write_text(json.dumps(content) + "\n", encoding="utf-8")
    publish(attempt, file)
    attempt.unlink(missing_ok=True)


class ArchivedBatch(NamedTuple):
    """One checkout of a queue that is archived, or several that were put together.

    Attributes:
        number: Of the archive's checkouts, ascending; of several, the last one's.
        file: Its messages.
        rows: How many.
        bytes: Of the file.
        archived_ms: When its manifest was made, in milliseconds since 1970; 0 if it does not say.
        first: Of several, the first one's number.
    """

    number: int
    file: Path
    rows: int
    bytes: int
    archived_ms: int
    first: int


def archived_files(folder: str | Path) -> list[Path]:
    """The files of an archive in the order of their messages, each message in one of them.

    `pyarrow.parquet.ParquetDataset`, `pandas.read_parquet`, `polars.read_parquet` and DuckDB's
    `read_parquet` take such a list.

    Raises:
        NotArchived: The folder is no archive of a queue, or of a later release.
    """
    return [batch.file for batch in archived_batches(folder)]


def archived_batches(folder: str | Path, after: int = 0) -> Iterator[ArchivedBatch]:
    """What an archive has at this moment, in the order of its messages, beyond a checkout.

    Args:
        after: The last one that the caller has.

    Raises:
        NotArchived: The folder is no archive of a queue, or of a later release; or what the caller
            has was put together with what it has not.
    """
    folder = Path(folder).absolute()
    _read_json(folder / IDENTITY)
    while True:
        try:
            found = _batches(folder, after)
            break
        except FileNotFoundError:
            continue  # What was listed is covered by now, or was forgotten.
    yield from reversed(found)


def _batches(folder: Path, after: int) -> list[ArchivedBatch]:
    """The batches beyond one, the last first: which says whether it covers those before it.

    Raises:
        FileNotFoundError: A manifest that was there is not any more.
    """
    found: list[ArchivedBatch] = []
    for number in sorted(manifest_numbers(folder), reverse=True):
        if number <= after:
            break
        if found and number >= found[-1].first:
            continue
        path = folder / MANIFEST / f"{number:010d}.json"
        try:
            said = _read_json(path)
        except NotArchived:
            path.stat()
            raise
        first = int(said.get("from", number))
        if first <= after:
            raise NotArchived(
                f"{folder} has checkouts {first} to {number} in one file, and what was read of it "
                f"ends at {after}: {said['file']}"
            )
        file, rows, size = folder / str(said["file"]), int(said["rows"]), int(said.get("bytes", 0))
        archived_ms = int(said.get("archived_ms", 0))
        found.append(ArchivedBatch(number, file, rows, size, archived_ms, first))
    return found


def forget_batches(folder: str | Path, batches: list[ArchivedBatch]) -> list[ArchivedBatch]:
    """Have readers of the manifests no longer see some batches; returns which these were.

    The newest batch stays: it says how far the archive is. The files stay until they are deleted,
    which is up to the caller: readers may have begun with them.
    """
    folder = Path(folder).absolute()
    last = _last_manifest(folder)
    gone = [batch for batch in batches if batch.number != last]
    numbers = sorted(manifest_numbers(folder))
    for batch in gone:
        # What it covers goes first: nobody may see that again.
        for number in numbers:
            if batch.first <= number <= batch.number:
                (folder / MANIFEST / f"{number:010d}.json").unlink()
    if gone:
        sync(folder / MANIFEST)
    return gone


def old_files(folder: str | Path) -> list[Path]:
    """Files that no manifest names any more: forgotten, or put together with others."""
    folder = Path(folder).absolute()
    named = {batch.file.name for batch in archived_batches(folder)}
    last = _last_manifest(folder)
    return [
        file
        for file in folder.glob("*.parquet")
        if (match := _NAME.fullmatch(file.name))
        and int(match[1]) <= last
        and file.name not in named
    ]


def archive_identity(folder: str | Path) -> tuple[str, int]:
    """The queue that an archive is of, and which queue of that name.

    Raises:
        NotArchived: The folder is no archive of a queue, or of a later release.
    """
    found = _read_json(Path(folder) / IDENTITY)
    return str(found["queue"]), int(found["incarnation"])


def manifest_numbers(folder: Path) -> Iterator[int]:
    """The numbers of the checkouts that are archived."""
    for path in (folder / MANIFEST).glob("*.json"):
        if path.stem.isascii() and path.stem.isdigit():
            yield int(path.stem)


def _last_manifest(folder: Path) -> int:
    return max(manifest_numbers(folder), default=0)


def _read_json(file: Path) -> dict[str, Any]:
    """What a file of an archive says.

    Raises:
        NotArchived: It is not there, damaged, or of a later release.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NotArchived(f"{file.parent} is no archive of a queue: {file.name}: {error}") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        raise NotArchived(f"{file} is of a release that writes archives in another way")
    return found
