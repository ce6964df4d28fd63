"""The shell of one copy: it carries out effects on a disk and a network that are not real."""

from __future__ import annotations

from typing import Any

from tests.raft.disk import Disk, Entry, Snapshot, Write
from warren.raft import effects as fx
from warren.raft import following
from warren.raft.messages import Append, Message, SnapshotOffer
from warren.raft.raft import Options, Raft


class Host:
    """One running copy. A crash throws the host away and keeps its disk.

    Attributes:
        world: Has `send`, `write`, `later`, `note` and the hooks a checker needs.
        log: The entries behind `base`, as in memory.
        applied: How far the machine is; `digest` is its state.
    """

    def __init__(
        self, world: Any, node: str, incarnation: int, disk: Disk, options: Options, seed: int
    ) -> None:
        self.world = world
        self.node = node
        self.incarnation = incarnation
        self.disk = disk
        self.alive = True
        self.raft = Raft(node, incarnation, disk.saved(), options, seed)
        self.base = disk.snapshot.index
        self.log: list[Entry] = list(disk.entries)
        self.applied = disk.snapshot.index
        self.digest = disk.snapshot.digest
        self.incoming: list[Entry] = []
        self.checked_commit = 0
        self.config_indexes = [
            self.base + 1 + at for at, entry in enumerate(self.log) if entry.members is not None
        ]

    # --- the log in memory ----------------------------------------------------------------------

    @property
    def last(self) -> int:
        return self.base + len(self.log)

    def entry(self, index: int) -> Entry:
        return self.log[index - self.base - 1]

    def append(self, payload: int, members: Any = None) -> int:
        """The leader's own append."""
        entry = Entry(self.raft.term, payload, members)
        index = self.last + 1
        assert index == self.raft.last_index + 1
        self.log.append(entry)
        if members is not None:
            self.config_indexes.append(index)
        self.world.appended(self, index, entry)
        self.world.write(self, Write("entries", first=index, entries=[entry]))
        return index

    def propose(self, payload: int) -> int:
        """Append a command as leader; its index."""
        index = self.append(payload)
        self.raft.appended(index, self.world.now(self))
        return index

    # --- events ---------------------------------------------------------------------------------

    def receive(self, message: Message, extra: Any) -> None:
        """A message, with the entries or the snapshot that came along."""
        self.incoming = extra
        problem = self.raft.refuses(message)
        assert not problem, f"an honest message is refused: {problem}"
        self.raft.step(message, self.world.now(self))
        self.drain()

    def written(self, write: Write) -> None:
        """A write is durable."""
        now = self.world.now(self)
        if write.kind == "state":
            self.raft.state_persisted(write.sequence, now)
        elif write.kind == "entries" and write.entries:
            last = write.first + len(write.entries) - 1
            if not self._replaced(write, last):
                self.raft.persisted(last, write.entries[-1].term, now)
        self.drain()

    def _replaced(self, write: Write, last: int) -> bool:
        """Whether the entry was truncated and one of the same index and term came back.

        That is the shell's part of R-07. All other late completions are reported, so that the
        group's own part is seen to work.
        """
        if last <= self.base or last > self.last:
            return False
        now_there = self.entry(last)
        return now_there is not write.entries[-1] and now_there.term == write.entries[-1].term

    def end_turn(self) -> None:
        """Flush, and do what comes of it."""
        self.raft.flush(self.world.now(self))
        self.drain()

    # --- effects --------------------------------------------------------------------------------

    def drain(self) -> None:
        """Carry out effects until there are none."""
        while self.raft.effects and self.alive:
            todo = list(self.raft.effects)
            self.raft.effects.clear()
            for effect in todo:
                self.world.effect(self, effect)
                self.perform(effect)

    def perform(self, effect: fx.Effect) -> None:
        world, raft = self.world, self.raft
        if isinstance(effect, fx.Send):
            world.send(self, effect.message, None)
        elif isinstance(effect, fx.Replicate):
            while (message := raft.next_append(effect.node)) is not None:
                last = world.readable(self, message)
                if last < message.last_index:
                    raft.shorten(message, last)
                entries = [
                    self.entry(at) for at in range(message.prev_index + 1, message.last_index + 1)
                ]
                world.send(self, message, entries)
        elif isinstance(effect, fx.PersistState):
            state = (effect.term, effect.voted_for, effect.voted_incarnation)
            world.write(self, Write("state", state=state, sequence=effect.sequence))
        elif isinstance(effect, fx.Truncate):
            del self.log[effect.from_index - self.base - 1 :]
            while self.config_indexes and self.config_indexes[-1] >= effect.from_index:
                self.config_indexes.pop()
        elif isinstance(effect, fx.StoreEntries):
            self._store(effect)
        elif isinstance(effect, fx.AppendNoop):
            if raft.is_leader and raft.term == effect.term:
                raft.appended(self.append(0), world.now(self))
        elif isinstance(effect, fx.AppendConfig):
            if raft.is_leader and raft.term == effect.term:
                index = self.append(-1, effect.members)
                raft.config_appended(index, world.now(self))
        elif isinstance(effect, fx.Committed):
            self._apply(effect.index)
        elif isinstance(effect, fx.SendSnapshot):
            world.send(self, effect.offer, self.snapshot(effect.offer.index))
        elif isinstance(effect, fx.AcceptSnapshot):
            snapshot = self.incoming
            world.later(self, lambda: self.install(effect.offer, snapshot))

    def _store(self, effect: fx.StoreEntries) -> None:
        message: Append = effect.message
        skip = effect.first_index - message.prev_index - 1
        entries = list(self.incoming[skip:])
        assert len(entries) == message.last_index - effect.first_index + 1
        assert effect.first_index == self.last + 1
        for offset, entry in enumerate(entries):
            # Each log has its own copies, so that completions can be told apart.
            entries[offset] = Entry(entry.term, entry.payload, entry.members)
            self.log.append(entries[offset])
            if entry.members is not None:
                self.config_indexes.append(effect.first_index + offset)
            self.world.appended(self, effect.first_index + offset, entry)
        self.world.write(self, Write("entries", first=effect.first_index, entries=entries))

    def _apply(self, index: int) -> None:
        assert index > self.applied, "commits are announced once, in order"
        while self.applied < index:
            self.applied += 1
            entry = self.entry(self.applied)
            self.digest = hash((self.digest, self.applied, entry.term, entry.payload))
            self.world.applied(self, self.applied, entry)

    # --- snapshots ------------------------------------------------------------------------------

    def compact(self, index: int) -> None:
        """Take a snapshot of what is applied; `index` has to be just that."""
        assert index == self.applied
        config = self.raft.config_at(index)
        term = self.raft.state.log.term_at(index)
        self.disk.snapshot = Snapshot(index, term, list(config.members), self.digest)
        self.world.write(self, Write("reset"))
        self.raft.compacted(index)
        del self.log[: index - self.base]
        self.base = index
        self.config_indexes = [at for at in self.config_indexes if at > index]

    def snapshot(self, index: int) -> Snapshot:
        """The newest snapshot, which covers at least `index`."""
        assert self.disk.snapshot.index == index
        return self.disk.snapshot

    def install(self, offer: SnapshotOffer, snapshot: Snapshot) -> None:
        """A received snapshot is complete."""
        result = self.raft.snapshot_installed(
            offer.index, offer.snapshot_term, offer.members, self.world.now(self)
        )
        if result == following.SNAPSHOT_REFUSED:
            return
        self.disk.snapshot = snapshot
        self.world.write(self, Write("reset"))
        if result == following.SNAPSHOT_KEEPS_TAIL:
            del self.log[: snapshot.index - self.base]
        else:
            self.log.clear()
            self.config_indexes.clear()
        self.base = snapshot.index
        self.config_indexes = [at for at in self.config_indexes if at > self.base]
        assert snapshot.index > self.applied, "a snapshot never goes back"
        self.applied = snapshot.index
        self.digest = snapshot.digest
        self.world.installed(self, snapshot)
        self.drain()
