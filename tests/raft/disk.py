"""A disk for one copy of a group: writes complete in order, later, and a crash loses some."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from warren.raft.members import GroupConfig, Replica
from warren.raft.raft import RecoveredState


@dataclass(eq=False)
class Entry:
    """One batch; `members` is not None if it changes the configuration."""

    term: int
    payload: int
    members: list[Replica] | None = None


@dataclass(eq=False)
class Snapshot:
    """A machine's state after applying up to `index`: a digest of all payloads up to there."""

    index: int = 0
    term: int = 0
    members: list[Replica] = field(default_factory=list)
    digest: int = 0


@dataclass(eq=False)
class Write:
    """One write on its way: term and vote, or entries from `first` on, or a log's replacement."""

    kind: str
    state: tuple[int, str, int] = (0, "", 0)
    sequence: int = 0
    first: int = 0
    entries: list[Entry] = field(default_factory=list)
    keep: bool = False


class Disk:
    """What is durable, and what is queued behind it."""

    def __init__(self, members: list[Replica]) -> None:
        self.state: tuple[int, str, int] = (0, "", 0)
        self.snapshot = Snapshot(members=list(members))
        self.base = 0
        """Index before the first entry of `entries`."""
        self.entries: list[Entry] = []
        self.queue: list[Write] = []
        self.floor = (0, 0)

    def term_at(self, index: int) -> int:
        """Term of a durable entry; -1 if there is none."""
        if index == self.snapshot.index:
            return self.snapshot.term
        if self.base < index <= self.base + len(self.entries):
            return self.entries[index - self.base - 1].term
        return 0 if index == 0 else -1

    def holds(self, index: int, term: int) -> bool:
        """Whether an entry is safe here: durable, in the snapshot, or vouched for."""
        if index <= self.snapshot.index or self.term_at(index) == term:
            return True
        return self.floor >= (term, index)

    def apply(self, write: Write) -> None:
        """One write reaches the medium."""
        if write.kind == "state":
            self.state = write.state
        elif write.kind == "entries":
            count = write.first - 1 - self.base
            if count < 0:
                # What lies before is covered by a snapshot that was installed meanwhile.
                skipped = -count
                self.entries = write.entries[skipped:]
            else:
                assert count <= len(self.entries), "a write leaves a gap on the disk"
                self.entries = self.entries[:count] + write.entries
        elif write.kind == "reset":
            self._settle()

    def _settle(self) -> None:
        """Make the log follow the snapshot: keep what is behind it, if it fits."""
        index = self.snapshot.index
        if index <= self.base:
            return
        at = index - self.base - 1
        if at < len(self.entries) and self.entries[at].term == self.snapshot.term:
            self.entries = self.entries[at + 1 :]
        else:
            self.entries = []
        self.base = index

    def crash(self, random: Random) -> None:
        """The machine stops: some of the queued writes, the oldest first, have made it."""
        for _ in range(random.randint(0, len(self.queue))):
            self.apply(self.queue.pop(0))
        if self.queue and self.queue[0].kind == "entries" and self.queue[0].entries:
            torn = self.queue[0]
            torn.entries = torn.entries[: random.randint(0, len(torn.entries) - 1)]
            if torn.entries:
                self.apply(torn)
        self.queue.clear()
        self._settle()

    def damage(self, keep: int) -> None:
        """Lose durable entries from the end, but remember that there were some."""
        last = self.base + len(self.entries)
        if keep < last:
            term = self.term_at(last)
            self.floor = max(self.floor, (term, last))
            self.entries = self.entries[: max(0, keep - self.base)]

    def saved(self) -> RecoveredState:
        """What a member finds here when it starts."""
        saved: Any = RecoveredState()
        saved.term, saved.voted_for, saved.voted_incarnation = self.state
        saved.snapshot_index = self.snapshot.index
        saved.snapshot_term = self.snapshot.term
        saved.members = list(self.snapshot.members)
        saved.last_index = self.base + len(self.entries)
        term = None
        for offset, entry in enumerate(self.entries):
            index = self.base + 1 + offset
            if entry.term != term:
                term = entry.term
                saved.runs.append((index, term))
            if entry.members is not None:
                saved.configs.append(GroupConfig(index, entry.members))
        saved.floor_term, saved.floor_index = self.floor
        return saved
