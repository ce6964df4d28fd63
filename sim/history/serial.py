"""Judges a history event by event, in the plainest way: what other checkers are held against."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sim.history.events import read
from sim.history.verdict import Message, Verdict, behind, leader_changes, names

COLUMNS = (
    *("process", "number", "op", "type", "queue", "publisher", "sequence", "time_ns"),
    *("redelivered", "node", "what"),
)


class SerialChecker:
    """Takes the events of a history, those of each process in their order."""

    def __init__(self) -> None:
        self.verdict = Verdict()
        self._sent: Counter[Message] = Counter()
        self._confirmed: set[Message] = set()
        self._confirms: dict[str, list[int]] = {}
        """When there were confirms, by queue."""
        self._first: Counter[Message] = Counter()
        """Deliveries that were not marked."""
        self._delivered: dict[Message, int] = {}
        """When each message was delivered last."""
        self._settled: dict[Message, int] = {}
        """When each message was known to be settled for good."""
        self._gone: set[Message] = set()
        self._newest: dict[tuple[str, str, str], int] = {}
        """The sequence of the last first delivery, by process, queue and publisher."""
        self._late: list[tuple[str, int, int]] = []
        self._leaders: list[tuple[int, str, str]] = []

    def take(
        self,
        process: str,
        op: str,
        kind: str,
        message: Message,
        time_ns: int,
        redelivered: bool,
        node: str,
        what: str,
    ) -> None:
        """The next event of a process."""
        verdict = self.verdict
        if op == "publish":
            if kind == "invoke":
                verdict.published += 1
                self._sent[message] += 1
            elif kind == "ok":
                self._confirmed.add(message)
                self._confirms.setdefault(message[0], []).append(time_ns)
            elif kind == "info":
                verdict.unknown += 1
            elif kind == "fail":
                verdict.refused += 1
        elif op == "deliver" and kind == "ok":
            self._take_delivery(process, message, time_ns, redelivered)
        elif op == "settle" and kind == "ok":
            self._settled[message] = min(time_ns, self._settled.get(message, time_ns))
        elif op == "gone":
            self._gone.add(message)
        elif op == "fault" and kind == "ok":
            verdict.faults += 1
        elif op == "leader" and kind == "ok":
            self._leaders.append((time_ns, message[0], node))
        elif op == "surprise":
            verdict.surprises[what] = verdict.surprises.get(what, 0) + 1

    def _take_delivery(
        self, process: str, message: Message, time_ns: int, redelivered: bool
    ) -> None:
        self.verdict.delivered += 1
        self._delivered[message] = max(time_ns, self._delivered.get(message, time_ns))
        if redelivered:
            self.verdict.redelivered += 1
            return
        self._first[message] += 1
        queue, publisher, sequence = message
        key = (process, queue, publisher)
        before = self._newest.get(key, sequence)
        if sequence < before:
            self._late.append((publisher, sequence, before))
        self._newest[key] = sequence

    def judge(self) -> Verdict:
        """All events were taken."""
        verdict = self.verdict
        delivered = set(self._delivered)
        verdict.confirmed = len(self._confirmed)
        verdict.leader_changes = leader_changes(self._leaders)
        for times in self._confirms.values():
            times.sort()
            gaps = (later - earlier for earlier, later in zip(times, times[1:], strict=False))
            verdict.gap_s = max(verdict.gap_s, max(gaps, default=0) / 1e9)
        verdict.lost = names(self._confirmed - delivered - self._gone)
        verdict.invented = names(delivered - set(self._sent))
        doubled = {
            message
            for message, count in self._first.items()
            if count > 1 and self._sent[message] <= 1
        }
        doubled |= {
            message
            for message, settled in self._settled.items()
            if self._delivered.get(message, settled) > settled
        }
        verdict.doubled = names(doubled)
        verdict.late = behind(self._late)
        verdict.find_vacuous()
        return verdict


def check(folder: Path) -> Verdict:
    """Judge the history in a folder.

    Raises:
        FileNotFoundError: There is none.
    """
    return judge(read(folder))


def judge(table: pa.Table) -> Verdict:
    """Judge a history."""
    assert table.num_rows, "an empty history"
    checker = SerialChecker()
    # Rows of a process are in order within a file, and files are in any order.
    order = [("process", "ascending"), ("number", "ascending")]
    plain = pa.table([pc.cast(table["process"], pa.string()), table["number"]], names=COLUMNS[:2])
    table = table.select(COLUMNS).take(pc.sort_indices(plain, order))
    for batch in table.to_batches(max_chunksize=65_536):
        columns = (batch[name].to_pylist() for name in COLUMNS)
        for process, _, op, kind, queue, publisher, sequence, time_ns, again, node, what in zip(
            *columns, strict=True
        ):
            message = (queue, publisher, sequence)
            checker.take(process, op, kind, message, time_ns, bool(again), node, what)
    return checker.judge()
