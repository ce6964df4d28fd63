"""Where a pipeline keeps what: one folder for the queues of one vhost.

::

    <folder>/_pipeline.json        version, and the vhost
    <folder>/_locks/<name>         held by the process that writes a part
    <folder>/bronze/<queue>/       an archive (`warren.spark.archiving`)
    <folder>/silver/<queue>/       a table (`warren.pipeline.tables`)
    <folder>/gold/<name>/          a table
    <folder>/replays/<id>/         a replay (`warren.pipeline.replay`)
    <folder>/spark.log             what the last local Spark had to say

A process that is killed gives up its locks, and one that is frozen keeps them: a part has one
writer. The folder has to be on a file system with hard links and locks that all its writers see.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote

from warren.errors import BrokerError
from warren.spark.archive import publish
from warren.spark.archiving import archive_identity

VERSION: Final = 1
_IDENTITY: Final = "_pipeline.json"

#: Bytes of a folder's name that is made of a queue's; file systems take 255.
_NAME_BYTES_MAX: Final = 180

#: So long the writer of a part is waited for: most are done by then.
_WAIT_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


class PipelineError(BrokerError):
    """A pipeline cannot do what it was asked for."""


class PipelineFolder:
    """The folder of a pipeline; nothing is made before it is written to."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder).absolute()
        self.gold = self.path / "gold"
        self.replays = self.path / "replays"
        self.spark_log = self.path / "spark.log"

    def bronze(self, queue: str) -> Path:
        """The archive of a queue."""
        return self.path / "bronze" / file_name(queue)

    def silver(self, queue: str) -> Path:
        """The typed table of a queue."""
        return self.path / "silver" / file_name(queue)

    def begin(self, vhost: str) -> None:
        """Make the folder if it is not there.

        Raises:
            PipelineError: It is of another vhost, or of a later release.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.path / _IDENTITY
        if not file.exists():
            write_json(file, {"version": VERSION, "vhost": vhost})
        known = self._known()
        if known["vhost"] != vhost:
            raise PipelineError(
                f"{self.path} is a pipeline of vhost {known['vhost']!r}, not of {vhost!r}: "
                "give each vhost a folder of its own"
            )

    def check(self) -> None:
        """Refuse a folder that is no pipeline's.

        Raises:
            PipelineError: It is none, or of a later release.
        """
        self._known()

    def queues(self) -> list[str]:
        """The queues that are archived, by name."""
        self.check()
        found = (self.path / "bronze").glob("*/_archive.json")
        return sorted(archive_identity(file.parent)[0] for file in found)

    def chosen(self, names: list[str]) -> list[str]:
        """These queues, or all that are archived if none is named.

        Raises:
            PipelineError: One is not archived.
        """
        known = self.queues()
        for name in names:
            if name not in known:
                there = ", ".join(known) or "none yet"
                raise PipelineError(
                    f"{self.path} has no archive of queue {name!r} (it has: {there}); "
                    f"'warren pipeline bronze {self.path} {name}' makes one"
                )
        return names or known

    @contextmanager
    def writing(self, part: str, wait_seconds: float = _WAIT_SECONDS) -> Iterator[None]:
        """Be the one writer of a part while the block runs.

        Args:
            wait_seconds: How long another one is waited for.

        Raises:
            PipelineError: Another process still is.
        """
        locks = self.path / "_locks"
        locks.mkdir(exist_ok=True)
        with (locks / file_name(part)).open("w") as lock:
            end = time.monotonic() + wait_seconds
            while not _locked(lock):
                if time.monotonic() >= end:
                    raise PipelineError(
                        f"another process is at work on {part} of {self.path}; wait for it, or "
                        "end it"
                    )
                time.sleep(_POLL_SECONDS)
            yield

    def _known(self) -> dict[str, Any]:
        known = read_json(self.path / _IDENTITY, "no pipeline: it is made by 'pipeline bronze'")
        check_version(known, self.path)
        return known


def _locked(lock: IO[str]) -> bool:
    """Whether a file's lock is this process's now."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def file_name(name: str) -> str:
    """A name for a file or folder that is made of any text, and no other text's.

    Those that begin with a dot or an underscore are escaped: readers of Parquet pass them over.
    """
    text = quote(name, safe=" +=@,", errors="surrogateescape")
    if text[:1] in (".", "_"):
        text = f"%{ord(text[0]):02X}{text[1:]}"
    if not text or len(text) > _NAME_BYTES_MAX:
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        text = f"{text[: _NAME_BYTES_MAX - 40]}%~{digest}"
    return text


def write_json(file: Path, content: object) -> bool:
    """Have a whole file of JSON, durably; whether it was not there before.

    Raises:
        OSError: The disk is full, or cannot link.
    """
    return write_text(file, json.dumps(content, ensure_ascii=False) + "\n")


def write_text(file: Path, text: str) -> bool:
    """Have a whole file of text, durably; whether it was not there before."""
    attempt = file.parent / f"_{uuid.uuid4().hex}.tmp"
    attempt.write_text(text, encoding="utf-8", errors="surrogateescape")
    try:
        return publish(attempt, file)
    finally:
        attempt.unlink()


def replace_text(file: Path, text: str) -> None:
    """Have a file of text in the place of the one that may be there; readers see the one or the
    other."""
    attempt = file.parent / f"_{uuid.uuid4().hex}.tmp"
    try:
        attempt.write_text(text, encoding="utf-8", errors="surrogateescape")
        os.replace(attempt, file)
    finally:
        attempt.unlink(missing_ok=True)


def read_json(file: Path, otherwise: str) -> dict[str, Any]:
    """What a file of JSON says.

    Args:
        otherwise: What its folder is if it is not there, as the end of a sentence.

    Raises:
        PipelineError: It is not there, or damaged.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"{file.parent} is {otherwise}") from None
    except (OSError, ValueError) as error:
        raise PipelineError(f"{file} cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise PipelineError(f"{file} cannot be read: it is no object")
    return found


def check_version(found: dict[str, Any], path: Path) -> None:
    """Refuse what a later release has written.

    Raises:
        PipelineError: It is of another version.
    """
    if found.get("version") != VERSION:
        raise PipelineError(
            f"{path} is of a release of Warren that keeps pipelines in another way (version "
            f"{found.get('version')}, and this one reads {VERSION})"
        )
