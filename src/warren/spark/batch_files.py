"""Files that tasks wrote, published as one micro-batch of an archive: what one link decides.

::

    <folder>/_files/<query id>-<batch id>-<attempt>.parquet   what a task wrote, not public yet
    <folder>/<query id>-<batch id>.parquet                    decides the batch: this is it
    <folder>/<query id>-<batch id>-<number>.parquet           its files, if it has several

A task's file is whole and on disk before the driver hears of it. A batch of one file is decided by
the link that makes it public. For one of several files, a file without rows gets that name, whose
metadata name what is to be published; then each of those gets its own. So whatever would publish
the batch, with however many files, wants the same name, and only one has it: all others publish
what that one says, as does a run that goes on after a crash. Readers of `*.parquet` may see a batch
of several files file by file, but each row once.

What lies in `_files` is needed until its batch is public: by a driver that is about to decide, or
by all once it is decided. Once it is public, files of that batch are what failed or late attempts
left, and go with it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from warren.errors import BrokerError
from warren.spark.archive import publish, sync
from warren.spark.parquet import write_rows

#: Where tasks write. `_staging` is another place: what lies there may be deleted at any time.
FILES: Final = "_files"

VERSION: Final = 1

#: The key in a file's metadata under which it says of which files its batch is.
_DECISION: Final = b"warren.batch"

#: How a file system says that it cannot link.
_NO_LINKS: Final = {errno.EPERM, errno.EXDEV, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}

_NAME: Final = re.compile(r"(.+)-([0-9]{10,})-[0-9a-f]{32}\.parquet")


class TaskFile(NamedTuple):
    """What a task says of the file that it wrote.

    Attributes:
        path: Where it is.
        part, parts: Of which of how many tasks, from 0 on.
    """

    path: str
    part: int
    parts: int


class BatchFiles:
    """The files of one micro-batch of one query, in the folder of an archive.

    Attributes:
        final: The name that decides it.
    """

    def __init__(self, folder: Path, query: str, batch: int) -> None:
        """Remember which; nothing is made yet."""
        self._folder = folder
        self._files = folder / FILES
        self._query = query
        self._batch = batch
        self._stem = f"{query}-{batch:010d}"
        self.final = folder / f"{self._stem}.parquet"

    def write(self, schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> tuple[Path, int]:
        """Have a file of a task, on disk and not public; gives it and how many rows it has."""
        if not self._files.is_dir():
            self._files.mkdir(parents=True, exist_ok=True)
            sync(self._folder)
            sync(self._folder.parent)
        file = self._attempt()
        try:
            count = max(write_rows(file, schema, rows), default=0)
            sync(file)
        except BaseException:
            # A disk that is full should not be so because of what nothing will ask for.
            file.unlink(missing_ok=True)
            raise
        return file, count

    def publish(self, written: Sequence[TaskFile]) -> None:
        """Have these be the batch, unless it is decided already; then all of it is public.

        Raises:
            BrokerError: These are not the files of all its tasks, or lie somewhere else, or the
                file system cannot link.
            OSError: The disk is full.
        """
        names = self._names(written)
        try:
            self._decide(names)
        except FileNotFoundError as error:
            # What another driver published is dropped from `_files`.
            if not self.finish():
                raise BrokerError(
                    f"{error.filename} is not there, and a task wrote it: the folder of an archive "
                    "has to be one that the driver and all executors share"
                ) from error
        if not self.finish():
            raise BrokerError(f"{self.final} is gone: it was deleted as its batch was published")
        self.clear()

    def finish(self) -> bool:
        """Whether the batch is decided; all of it is public and on disk then.

        Raises:
            BrokerError: Something else has its name, or a part of it is gone.
            OSError: The disk is full, or cannot link.
        """
        try:
            names = _decided(self.final)
        except FileNotFoundError:
            return False
        # Nothing may be public that is of a decision which a crash takes back.
        sync(self._folder)
        for number, name in enumerate(names, 1):
            part = self._folder / f"{self._stem}-{number:05d}.parquet"
            if part.exists():
                continue
            try:
                with _hard_links(part):
                    os.link(self._files / name, part)
            except FileExistsError:
                continue
            except FileNotFoundError:
                # Once all parts are public, another driver may drop what they were linked from.
                if not part.exists():
                    raise BrokerError(
                        f"{part} is a part of its batch and was deleted, or {self._files / name} "
                        "was before it could be published"
                    ) from None
        if names:
            sync(self._folder)
        return True

    def clear(self) -> None:
        """Delete from `_files` what the query has no use for: files of batches that are public.

        Those of a batch that is not decided may be in use by a task or a driver. What is missing of
        one that is decided is made up first.
        """
        left: dict[int, list[Path]] = {}
        for file in self._files.glob(f"{self._query}-*.parquet"):
            match = _NAME.fullmatch(file.name)
            if match is not None and match[1] == self._query:
                left.setdefault(int(match[2]), []).append(file)
        for batch, files in left.items():
            try:
                public = BatchFiles(self._folder, self._query, batch).finish()
                for file in files if public else ():
                    file.unlink(missing_ok=True)
            except (BrokerError, OSError):
                continue  # What it takes is some space, and the batch at hand is public.

    def _names(self, written: Sequence[TaskFile]) -> list[str]:
        """The names in `_files` of what tasks wrote.

        Raises:
            BrokerError: Some are missing, lie in another folder, or are of another batch.
        """
        tasks = Counter((file.part, file.parts) for file in set(written))
        for parts in {file.parts for file in written} or {1}:
            # In a union of frames of several queries each of these has such a task.
            found = {tasks[part, parts] for part in range(parts)}
            if len(found) > 1 or 0 in found:
                raise BrokerError(
                    f"batch {self._batch} lacks files of its tasks: an archive takes the frame "
                    "with all rows that it was loaded with"
                )
        names = []
        for path in dict.fromkeys(Path(file.path) for file in written):
            if not self._is_here(path.parent):
                raise BrokerError(
                    f"a task wrote into {path.parent.parent}, and the archive is {self._folder}: "
                    "option archiveDirectory has to name the archive's folder"
                )
            if not path.name.startswith(f"{self._stem}-"):
                raise BrokerError(f"{path} is of another batch than {self._stem}")
            names.append(path.name)
        return names

    def _is_here(self, folder: Path) -> bool:
        try:
            return folder == self._files or os.path.samefile(folder, self._files)
        except OSError:
            return False

    def _decide(self, names: list[str]) -> None:
        """Have the batch be these files, unless it is decided.

        Raises:
            FileNotFoundError: One of them is not there.
        """
        sync(self._files)
        if len(names) == 1:
            with _hard_links(self.final):
                publish(self._files / names[0], self.final)
            return
        for name in names:
            (self._files / name).stat()
        schema = pq.read_schema(self._files / names[0])
        said = json.dumps({"version": VERSION, "files": names})
        schema = schema.with_metadata({**(schema.metadata or {}), _DECISION: said.encode()})
        decision = self._attempt()
        try:
            pq.write_table(schema.empty_table(), decision, compression="zstd")
            with _hard_links(self.final):
                publish(decision, self.final)
        finally:
            decision.unlink(missing_ok=True)

    def _attempt(self) -> Path:
        return self._files / f"{self._stem}-{uuid.uuid4().hex}.parquet"


def _decided(final: Path) -> list[str]:
    """The files in `_files` that a decided batch consists of; none for one that is one file.

    Raises:
        FileNotFoundError: It is not decided.
        BrokerError: This is no file of an archive, or of one of a later release.
    """
    try:
        said = (pq.read_metadata(final).metadata or {}).get(_DECISION)
    except pa.ArrowException as error:
        raise BrokerError(f"{final} is damaged: {error}") from error
    if said is None:
        return []
    found = json.loads(said)
    if found["version"] != VERSION:
        raise BrokerError(f"{final} is of a release that writes archives in another way")
    return [str(name) for name in found["files"]]


@contextmanager
def _hard_links(final: Path) -> Iterator[None]:
    """Say what is missing where a link fails that would give a file its final name."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        raise BrokerError(
            f"{final} cannot be made as a link ({error.strerror}): an archive has to be on a file "
            "system with hard links, and its files have to belong to the driver's user"
        ) from error
