"""Judges a part of a history by whole columns: the messages of some publishers, or all else.

Nothing that is said of one message depends on messages of other publishers, so that parts are
judged apart, on as many cores as there are, and put together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from sim.history.events import SCHEMA, paths_of
from sim.history.verdict import Message, Verdict, behind, leader_changes, names

Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

COLUMNS: Final = (
    *("process", "number", "op", "type", "queue", "publisher", "sequence", "time_ns"),
    "redelivered",
)
OTHERS: Final = ("op", "type", "queue", "time_ns", "node", "what")
FIGURES: Final = ("confirmed", "published", "delivered", "redelivered", "unknown", "refused")


@dataclass
class Partial:
    """What is found in one part; figures and lists add up."""

    figures: Counter[str] = field(default_factory=Counter)
    lost: list[Message] = field(default_factory=list)
    invented: list[Message] = field(default_factory=list)
    doubled: list[Message] = field(default_factory=list)
    late: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass
class Others:
    """What is said of no single message."""

    gap_s: float = 0.0
    faults: int = 0
    leader_changes: int = 0
    surprises: dict[str, int] = field(default_factory=dict)


def codes(table: pa.Table, column: str) -> Numbers:
    """A column of words as numbers, the same for the same word."""
    chunks = [chunk.indices.to_numpy() for chunk in table[column].chunks]
    return np.concatenate([np.empty(0, np.int64), *chunks]).astype(np.int64)


def words(table: pa.Table, column: str) -> list[str]:
    """The words that those numbers stand for."""
    chunks = table[column].chunks
    found: list[str] = chunks[0].dictionary.to_pylist() if chunks else []
    return found


def is_word(table: pa.Table, column: str, *wanted: str) -> Mask:
    """Where a column has one of some words."""
    chosen = np.array([word in wanted for word in words(table, column)] or [False])
    mask: Mask = chosen[codes(table, column)]
    return mask


def read_part(folder: Path, part: int, parts: int) -> pa.Table:
    """The events of the messages of some publishers, each publisher in one part."""
    tables = [SCHEMA.empty_table().select(COLUMNS)]
    for path in paths_of(folder):
        file = pq.ParquetFile(path, read_dictionary=["publisher"])
        who = file.read(["publisher"])
        wanted = np.array([crc32(w.encode()) % parts == part for w in words(who, "publisher")])
        if not wanted.any():
            continue
        table = pq.read_table(path, columns=list(COLUMNS), schema=SCHEMA)
        if not wanted.all():
            table = table.filter(pa.array(wanted[codes(who, "publisher")]))
        tables.append(table)
    return pa.concat_tables(tables).unify_dictionaries()


class _Messages:
    """The events of messages as columns."""

    def __init__(self, table: pa.Table) -> None:
        self._queues = words(table, "queue")
        self._publishers = words(table, "publisher")
        self.process = codes(table, "process")
        self.number: Numbers = table["number"].to_numpy()
        self.time_ns: Numbers = table["time_ns"].to_numpy()
        self.sequence: Numbers = table["sequence"].to_numpy()
        self._room = int(self.sequence.max(initial=0)) + 2
        self.pair = codes(table, "queue") * len(self._publishers) + codes(table, "publisher")
        pairs = max(len(self._queues) * len(self._publishers), 1)
        assert self._room * pairs < 1 << 63, "more messages than a number has room for"
        self.key = self.pair * self._room + self.sequence + 1

    def named(self, keys: Iterable[int]) -> Iterator[Message]:
        """Messages by their keys."""
        for key in keys:
            pair, sequence = divmod(int(key), self._room)
            queue, publisher = divmod(pair, len(self._publishers))
            yield self._queues[queue], self._publishers[publisher], sequence - 1

    def publisher(self, row: int) -> str:
        """Who published the message of a row."""
        return self._publishers[int(self.pair[row]) % len(self._publishers)]


def judge_part(table: pa.Table) -> Partial:
    """Judge the messages of some publishers, of which these are all events."""
    found = Partial()
    events = _Messages(table)
    publish, deliver = is_word(table, "op", "publish"), is_word(table, "op", "deliver")
    ok = is_word(table, "type", "ok")
    again = table["redelivered"].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    delivery = deliver & ok
    first = delivery & ~again
    sent = events.key[publish & is_word(table, "type", "invoke")]
    confirmed = np.unique(events.key[publish & ok])
    got = np.unique(events.key[delivery])
    gone = events.key[is_word(table, "op", "gone")]
    counts = {
        "confirmed": len(confirmed),
        "published": len(sent),
        "delivered": int(delivery.sum()),
        "redelivered": int((delivery & again).sum()),
        "unknown": int((publish & is_word(table, "type", "info")).sum()),
        "refused": int((publish & is_word(table, "type", "fail")).sum()),
    }
    found.figures.update(counts)
    lost = np.setdiff1d(np.setdiff1d(confirmed, got, True), gone)
    found.lost = list(events.named(lost))
    found.invented = list(events.named(np.setdiff1d(got, sent)))
    doubled = np.setdiff1d(_repeated(events.key[first]), _repeated(sent))
    undone = _undone(events, delivery, is_word(table, "op", "settle") & ok)
    found.doubled = list(events.named(np.union1d(doubled, undone)))
    found.late = _late(events, np.flatnonzero(first))
    return found


def _repeated(keys: Numbers) -> Numbers:
    """Those that are there more than once."""
    ordered = np.sort(keys)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def _undone(events: _Messages, delivery: Mask, settled: Mask) -> Numbers:
    """Messages that were delivered after they were settled for good."""
    keys, at = np.unique(events.key[settled], return_inverse=True)
    if not len(keys):
        return keys
    earliest = np.full(len(keys), np.iinfo(np.int64).max)
    np.minimum.at(earliest, at, events.time_ns[settled])
    rows = np.flatnonzero(delivery)
    rows = rows[np.isin(events.key[rows], keys)]
    places = np.searchsorted(keys, events.key[rows])
    return np.unique(keys[places[events.time_ns[rows] > earliest[places]]])


def _late(events: _Messages, first: Numbers) -> list[tuple[str, int, int]]:
    """First deliveries behind a later one of the same publisher, queue and consumer."""
    order = first[np.lexsort((events.number[first], events.pair[first], events.process[first]))]
    before, after = order[:-1], order[1:]
    wrong = (
        (events.process[before] == events.process[after])
        & (events.pair[before] == events.pair[after])
        & (events.sequence[after] < events.sequence[before])
    )
    return [
        (events.publisher(late), int(events.sequence[late]), int(events.sequence[earlier]))
        for earlier, late in zip(before[wrong], after[wrong], strict=True)
    ]


def judge_others(folder: Path) -> Others:
    """Find out what is said of no single message."""
    found = Others()
    times: dict[str, list[Numbers]] = {}
    leaders: list[tuple[int, str, str]] = []
    for path in paths_of(folder):
        table = pq.read_table(path, columns=list(OTHERS), schema=SCHEMA)
        confirmed = is_word(table, "op", "publish") & is_word(table, "type", "ok")
        confirms = table.filter(pa.array(confirmed))
        queue = codes(confirms, "queue")
        for at, name in enumerate(words(confirms, "queue")):
            times.setdefault(name, []).append(confirms["time_ns"].to_numpy()[queue == at])
        rest = table.filter(pa.array(is_word(table, "op", "fault", "leader", "surprise")))
        for row in rest.to_pylist():
            _take(row, found, leaders)
    found.leader_changes = leader_changes(leaders)
    for parts in times.values():
        gaps = np.diff(np.sort(np.concatenate(parts)))
        found.gap_s = max(found.gap_s, float(gaps.max(initial=0)) / 1e9)
    return found


def _take(row: dict[str, Any], found: Others, leaders: list[tuple[int, str, str]]) -> None:
    """Count an event of the cluster, or of a connection."""
    if row["op"] == "surprise":
        found.surprises[row["what"]] = found.surprises.get(row["what"], 0) + 1
    elif row["type"] == "ok" and row["op"] == "fault":
        found.faults += 1
    elif row["type"] == "ok":
        leaders.append((row["time_ns"], row["queue"], row["node"]))


def put_together(partials: Iterable[Partial], others: Others) -> Verdict:
    """The verdict that the parts come to."""
    partials = list(partials)
    verdict = Verdict(
        faults=others.faults,
        leader_changes=others.leader_changes,
        gap_s=others.gap_s,
        surprises=others.surprises,
    )
    for name in FIGURES:
        setattr(verdict, name, sum(part.figures[name] for part in partials))
    for name in ("lost", "invented", "doubled"):
        setattr(verdict, name, names(found for part in partials for found in getattr(part, name)))
    verdict.late = behind(pair for part in partials for pair in part.late)
    verdict.find_vacuous()
    return verdict
