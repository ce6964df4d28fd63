"""What clients did and were told, event by event, kept as Parquet.

An operation is an `invoke`, and then `ok`, `fail` (it certainly did not happen) or `info` (nobody
knows, as when the connection was lost). A process is one connection of one client, so that its
rows are in the order in which things happened to it.

| op | rows |
|---|---|
| publish | invoke; ok if it was confirmed, fail if it was nacked or returned, info |
| deliver | ok, with `redelivered` |
| settle | info: an acknowledgement is not answered; ok if the broker has it for good, with which |
| gone | info: a message may be missing for a reason that is allowed, such as a purge |
| fault | invoke when it begins, ok when it is over; `what` says which |
| leader | ok: `node` leads `queue` |
| surprise | info: `what` closed a channel or a connection |
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("process", WORD),
        ("number", pa.int64()),
        ("op", WORD),
        ("type", WORD),
        ("queue", WORD),
        ("publisher", WORD),
        ("sequence", pa.int64()),
        ("time_ns", pa.int64()),
        ("redelivered", pa.bool_()),
        ("node", WORD),
        ("what", pa.string()),
    ]
)
ROWS_PER_FILE = 100_000
NOBODY = "?"
"""The publisher of a body that no publisher wrote."""

Row = tuple[str, int, str, str, str, str, int, int, bool | None, str, str]


def body_of(publisher: str, sequence: int) -> bytes:
    """The body of a message: what it is, and a padding that has to be whole."""
    return b"%s:%d:%s" % (publisher.encode(), sequence, b"x" * (sequence % 97))


def read_body(body: bytes) -> tuple[str, int]:
    """Publisher and sequence; `NOBODY` if it is not what `body_of` gives."""
    parts = body.split(b":")
    if len(parts) == 3 and parts[1].isdigit():
        publisher, sequence = parts[0].decode("utf-8", "replace"), int(parts[1])
        if body_of(publisher, sequence) == body:
            return publisher, sequence
    return NOBODY, -1


class History:
    """Writes the events of all processes into a folder. Its logs may be used by one thread each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._files = 0
        self._logs: list[Log] = []
        self._named: dict[str, Log] = {}

    def log(self, process: str) -> Log:
        """The log of a process, whose name nobody else has."""
        made = Log(self, process)
        with self._lock:
            self._logs.append(made)
        return made

    def log_of(self, process: str) -> Log:
        """The log of a process, the same one each time; for one thread."""
        found = self._named.get(process)
        if found is None:
            found = self._named[process] = self.log(process)
        return found

    def write(self, rows: list[Row]) -> None:
        """Keep rows of one process, in order."""
        with self._lock:
            self._files += 1
            path = self.folder / f"{self._files:06d}.parquet"
        columns = list(zip(*rows, strict=True))
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        pq.write_table(pa.table(arrays, schema=SCHEMA), path, compression="zstd")

    def close(self) -> None:
        """Write what is left."""
        for log in self._logs:
            log.close()


class Log:
    """The events of one process."""

    def __init__(self, history: History, process: str) -> None:
        self.process = process
        self._history = history
        self._rows: list[Row] = []
        self._number = 0

    def note(
        self,
        op: str,
        kind: str,
        queue: str = "",
        publisher: str = "",
        sequence: int = -1,
        redelivered: bool | None = None,
        node: str = "",
        what: str = "",
    ) -> None:
        """Add an event that happens now."""
        self._number += 1
        now = time.monotonic_ns()
        self._rows.append(
            (
                self.process,
                self._number,
                op,
                kind,
                queue,
                publisher,
                sequence,
                now,
                redelivered,
                node,
                what,
            )
        )
        if len(self._rows) >= ROWS_PER_FILE:
            self.close()

    def close(self) -> None:
        """Write what is left."""
        rows, self._rows = self._rows, []
        if rows:
            self._history.write(rows)


def read(folder: Path) -> pa.Table:
    """All events of a history.

    Raises:
        FileNotFoundError: There is none.
    """
    tables = [pq.read_table(path, schema=SCHEMA) for path in paths_of(folder)]
    return pa.concat_tables(tables).unify_dictionaries()


def paths_of(folder: Path) -> list[Path]:
    """The files of a history.

    Raises:
        FileNotFoundError: There are none.
    """
    paths = sorted(folder.glob("*.parquet"))
    if not paths:
        raise FileNotFoundError(f"no history in {folder}")
    return paths
