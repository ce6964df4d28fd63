"""Judges a history: what was promised, and what came of it.

lost       confirmed and never delivered
invented   delivered, and published by nobody
doubled    delivered twice to a queue's consumers without being marked as redelivered, although
           it was published once
late       a message delivered to a consumer for the first time behind a later one of the same
           publisher and queue
vacuous    what is missing for the run to prove anything

Source: V-01 to V-04 and V-07.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.cluster.chaos.history import read

EXAMPLES = 5
SEQUENCE_BITS = 40


@dataclass
class Verdict:
    """What was found; the lists hold all of it, in words."""

    confirmed: int = 0
    published: int = 0
    delivered: int = 0
    redelivered: int = 0
    unknown: int = 0
    refused: int = 0
    faults: int = 0
    leader_changes: int = 0
    gap_s: float = 0.0
    lost: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    vacuous: list[str] = field(default_factory=list)
    surprises: dict[str, int] = field(default_factory=dict)

    @property
    def good(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.lost or self.invented or self.doubled or self.late or self.vacuous)

    def text(self) -> str:
        """The figures in a line, and what is wrong, with examples."""
        lines = [
            f"{self.faults} faults, {self.confirmed:,} confirmed of {self.published:,} published "
            f"({self.unknown:,} unknown, {self.refused:,} refused), {self.delivered:,} deliveries, "
            f"{self.redelivered:,} of them again; {len(self.lost)} lost, {len(self.invented)} "
            f"invented, {len(self.doubled)} doubled, {len(self.late)} late; "
            f"{self.leader_changes} changes of leader, longest time without a confirm "
            f"{self.gap_s:.1f} s"
        ]
        for name in ("lost", "invented", "doubled", "late", "vacuous"):
            found = getattr(self, name)
            if found:
                lines.append(f"{name}: {'; '.join(found[:EXAMPLES])}")
        for what, count in sorted(self.surprises.items()):
            lines.append(f"closed {count} times: {what}")
        return "\n".join(lines)


def codes(table: pa.Table, column: str) -> np.ndarray:
    """A column of words as numbers, the same for the same word."""
    chunks = [chunk.indices.to_numpy() for chunk in table[column].chunks]
    return np.concatenate([np.empty(0, np.int64), *chunks]).astype(np.int64)


class _Events:
    """The rows of one kind as arrays, in the order of each process."""

    def __init__(self, table: pa.Table, names: list[str]) -> None:
        self.process = codes(table, "process")
        self.queue = codes(table, "queue")
        self.publisher = codes(table, "publisher")
        self.sequence = table["sequence"].to_numpy()
        self.number = table["number"].to_numpy()
        self.time_ns = table["time_ns"].to_numpy()
        self.key = ((self.queue << 12) + self.publisher << SEQUENCE_BITS) + self.sequence
        self._names = names

    def name(self, row: int) -> str:
        """A message in words."""
        return f"{self._names[self.publisher[row]]}:{self.sequence[row]}"

    def names(self, keys: np.ndarray) -> list[str]:
        """Messages in words, by their keys."""
        if not len(keys):
            return []
        rows = np.flatnonzero(np.isin(self.key, keys))
        _, first = np.unique(self.key[rows], return_index=True)
        return [self.name(row) for row in rows[np.sort(first)]]


def check(folder: Path) -> Verdict:
    """Judge the history in a folder."""
    return judge(read(folder))


def judge(table: pa.Table) -> Verdict:
    """Judge a history."""
    table = table.combine_chunks()
    assert table.num_rows, "an empty history"
    table = table.take(np.lexsort((table["number"].to_numpy(), codes(table, "process"))))
    words = table["publisher"].chunk(0).dictionary.to_pylist()
    assert len(words) < 1 << 12, "more publishers than a key has room for"

    def rows(op: str, kind: str) -> pa.Table:
        return table.filter(pc.and_(pc.equal(table["op"], op), pc.equal(table["type"], kind)))

    deliveries = rows("deliver", "ok")
    sent, confirmed = (
        _Events(rows("publish", "invoke"), words),
        _Events(rows("publish", "ok"), words),
    )
    got = _Events(deliveries, words)
    again = deliveries["redelivered"].to_numpy(zero_copy_only=False).astype(bool)
    verdict = Verdict(
        confirmed=len(np.unique(confirmed.key)),
        published=len(sent.key),
        delivered=len(got.key),
        redelivered=int(again.sum()),
        unknown=rows("publish", "info").num_rows,
        refused=rows("publish", "fail").num_rows,
        faults=rows("fault", "ok").num_rows,
        leader_changes=_changes(rows("leader", "ok")),
        gap_s=_gap_s(confirmed),
    )
    verdict.lost = confirmed.names(np.setdiff1d(confirmed.key, got.key))
    verdict.invented = got.names(np.setdiff1d(got.key, sent.key))
    again_published = _repeated(sent.key)
    verdict.doubled = got.names(np.setdiff1d(_repeated(got.key[~again]), again_published))
    verdict.late = _late(got, again)
    surprises = rows("surprise", "info")
    for what in surprises["what"].to_pylist():
        verdict.surprises[what] = verdict.surprises.get(what, 0) + 1
    for count, what in (
        (verdict.confirmed, "nothing was confirmed"),
        (verdict.faults, "there was no fault"),
        (verdict.leader_changes, "the leader never changed"),
        (verdict.redelivered, "nothing was redelivered"),
    ):
        if not count:
            verdict.vacuous.append(what)
    return verdict


def _repeated(keys: np.ndarray) -> np.ndarray:
    """Those that are there more than once."""
    found, counts = np.unique(keys, return_counts=True)
    return found[counts > 1]


def _late(got: _Events, again: np.ndarray) -> list[str]:
    """First deliveries behind a later one of the same publisher, queue and consumer."""
    first = np.flatnonzero(~again)
    # A stable sort keeps each process's order within its groups.
    order = first[
        np.lexsort((got.number[first], got.publisher[first], got.queue[first], got.process[first]))
    ]
    if len(order) < 2:
        return []
    before, behind = order[:-1], order[1:]
    same = (
        (got.process[before] == got.process[behind])
        & (got.queue[before] == got.queue[behind])
        & (got.publisher[before] == got.publisher[behind])
    )
    wrong = np.flatnonzero(same & (got.sequence[behind] < got.sequence[before]))
    return [f"{got.name(behind[at])} behind {got.name(before[at])}" for at in wrong]


def _gap_s(confirmed: _Events) -> float:
    """The longest time that a queue went without a confirm for whichever publisher."""
    gaps = [0.0]
    for queue in np.unique(confirmed.queue):
        times_ns = np.sort(confirmed.time_ns[confirmed.queue == queue])
        gaps.extend(np.diff(times_ns) / 1e9)
    return float(max(gaps))


def _changes(table: pa.Table) -> int:
    """How often a queue was seen with another leader than before."""
    led: dict[str, str] = {}
    changes = 0
    for row in sorted(table.to_pylist(), key=lambda row: row["time_ns"]):
        changes += led.get(row["queue"], row["node"]) != row["node"]
        led[row["queue"]] = row["node"]
    return changes


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        print(folder)
        print(check(Path(folder)).text())
