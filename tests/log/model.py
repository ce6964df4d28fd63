"""A node in miniature over the real log, and the history that tells what the log has to hold."""

from __future__ import annotations

from random import Random

from sim.disk import Crash, SimDisk, SimExecutor
from tests.log.replica import Replica, known_runs, pack_lengths, runs_of
from warren.errors import StorageError
from warren.log.batch import (
    KIND_COMMAND,
    KIND_DROP,
    KIND_MESSAGES,
    KIND_SNAPSHOT,
    Batch,
    Header,
)
from warren.log.config import LogConfig
from warren.log.listener import BatchReader, LogListener, Replayer
from warren.log.log import Log
from warren.log.manifest import MANIFEST_BYTES_MAX, MANIFEST_PATH, decode
from warren.log.runlist import LiveRuns
from warren.versions import NEWEST

SMALL = {
    "wal_max_size_bytes": 16 * 1024,
    "cache_bytes": 4 * 1024,
    "reserve_bytes": 4 * 1024,
    "disk_free_limit_bytes": 4 * 1024,
    "compact_interval_ms": 50,
    "space_interval_ms": 100,
    "extent_bytes_max": 2 * 1024,
    "round_bytes_max": 8 * 1024,
    "salt": 0x1234_5678_9ABC_DEF0 >> 1,
}


class Entry:
    """One entry as it was appended: messages, or the numbers it settles."""

    def __init__(self, stamp_ms: int, first: int, records: list[bytes], settled: list[int]) -> None:
        self.stamp_ms = stamp_ms
        self.first = first
        self.records = records
        self.settled = settled

    @property
    def command(self) -> bytes:
        """The payload of a settling entry."""
        return " ".join(map(str, self.settled)).encode()


class Machine:
    """A group's state: which messages are live, after some index."""

    def __init__(self) -> None:
        self.applied = 0
        self.live: set[int] = set()

    def apply_messages(self, first: int, count: int) -> None:
        self.applied += 1
        self.live.update(range(first, first + count))

    def apply_settled(self, command: bytes) -> None:
        self.applied += 1
        self.live.difference_update(map(int, command.split()))

    def encode(self) -> bytes:
        return " ".join(map(str, [self.applied, *sorted(self.live)])).encode()

    @classmethod
    def decode(cls, state: bytes) -> Machine:
        machine = cls()
        machine.applied, *live = map(int, state.split())
        machine.live = set(live)
        return machine


class History:
    """Everything that was ever appended to a group and not lost in a crash."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.persisted = 0
        self.dropping = False
        self.bodies: dict[int, bytes] = {}

    @property
    def next_message(self) -> int:
        return max((e.first + len(e.records) for e in self.entries), default=0)

    def machine(self, index: int) -> Machine:
        """The state after an index, by replaying all that was appended."""
        machine = Machine()
        for entry in self.entries[:index]:
            if entry.records:
                machine.apply_messages(entry.first, len(entry.records))
            else:
                machine.apply_settled(entry.command)
        return machine

    def forget_after(self, index: int) -> None:
        """A crash has lost the entries behind an index."""
        del self.entries[index:]
        self.persisted = index
        self.bodies = {
            e.first + at: body for e in self.entries for at, body in enumerate(e.records)
        }


def flavour_of(stamp_ms: int) -> int:
    """What the batches of a time are said to be: the log keeps it, and asks no more."""
    return stamp_ms * 7 % 256


class Reader(BatchReader):
    """Keeps the answer to one read of batches."""

    def __init__(self) -> None:
        self.answers = 0
        self.batches: list[Batch] = []
        self.error: BaseException | None = None

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        self.answers += 1
        self.batches = batches
        self.error = error


class Replay(Replayer):
    """Hands a replay to the world; a compiled class has one base only."""

    def __init__(self, world: World) -> None:
        self._world = world

    def state(self, group_id: int, payload: bytes) -> int:
        return self._world.replicas[group_id].replay_state(payload)

    def snapshot(self, group_id: int, index: int, state: bytes) -> None:
        self._world.replay_snapshot(group_id, index, state)

    def entry(self, batch: Batch) -> None:
        self._world.replay_entry(batch)


class World(LogListener):
    """One node: a log on a faulty disk, machines over it, and the history to check against."""

    def __init__(self, seed: int, **settings: int) -> None:
        self.random = Random(seed)
        self.disk = SimDisk(seed + 1)
        # In one look, or with something between any two groups.
        at_once = {"groups_at_once": 2 if seed % 2 else 512}
        self.settings = SMALL | at_once | settings
        self.histories: dict[int, History] = {}
        self.machines: dict[int, Machine] = {}
        self.replicas: dict[int, Replica] = {}
        self.stamp = 0
        self.order: list[tuple[int, int, int]] = []
        """(group, kind, index) of what was appended and not reported persisted, in order."""
        self.wanted: set[int] = set()
        self.full_edges: list[bool] = []
        self.damages: list[StorageError] = []
        self.failure: BaseException | None = None
        self.now_ms = 0
        self.next_group = 1
        self.confirmed = 0
        self.restarts = 0
        self.newer = False
        self.former = 0
        """How many of `order` came before that."""
        self.start()

    # --- the listener ---------------------------------------------------------------------------

    def persisted(self, batches: list[Batch]) -> None:
        assert self.failure is None, "persisted after a failure"
        if self.newer:
            if len(batches) > self.former:
                assert self.said_version() == NEWEST, "something newer came before the manifest"
            self.former = max(0, self.former - len(batches))
        for batch in batches:
            place = self.order.pop(0)
            assert (batch.group_id, batch.kind, batch.index) == place, "order of persisted batches"
            replica = self.replicas.get(batch.group_id)
            if replica is not None:
                if batch.kind == KIND_DROP:
                    replica.gone = True
                    del self.replicas[batch.group_id]
                else:
                    replica.persisted(batch)
                continue
            if batch.kind == KIND_DROP:
                del self.histories[batch.group_id]
                continue
            history = self.histories[batch.group_id]
            if batch.kind == KIND_SNAPSHOT or history.dropping:
                continue
            history.persisted = batch.index
            machine = self.machines[batch.group_id]
            if batch.count:
                machine.apply_messages(batch.first, batch.count)
                self.confirmed += batch.count
            else:
                machine.apply_settled(batch.body())
            assert machine.applied == batch.index

    def snapshot_wanted(self, group_id: int) -> None:
        self.wanted.add(group_id)

    def live_runs(self, group_id: int) -> LiveRuns:
        replica = self.replicas.get(group_id)
        if replica is not None:
            return known_runs(runs_of(replica.view.live(replica.commit)))
        return known_runs(runs_of(self.machines[group_id].live))

    def disk_full(self, full: bool) -> None:
        assert not self.full_edges or self.full_edges[-1] != full, "told at edges only"
        self.full_edges.append(full)

    def damaged(self, error: StorageError) -> None:
        self.damages.append(error)

    def failed(self, error: BaseException) -> None:
        assert self.failure is None, "told once"
        self.failure = error

    # --- the replayer ---------------------------------------------------------------------------

    def replay_snapshot(self, group_id: int, index: int, state: bytes) -> None:
        if group_id in self.replicas:
            self.replicas[group_id].replay_snapshot(index, state)
            return
        assert group_id not in self.machines, "the snapshot comes first"
        machine = Machine.decode(state)
        assert machine.applied == index
        self.machines[group_id] = machine

    def replay_entry(self, batch: Batch) -> None:
        if batch.group_id in self.replicas:
            self.replicas[batch.group_id].replay_entry(batch)
            return
        machine = self.machines.setdefault(batch.group_id, Machine())
        assert batch.index == machine.applied + 1, "entries come in order"
        history = self.histories.get(batch.group_id)
        assert history is not None and batch.index <= len(history.entries), "an invented entry"
        said = history.entries[batch.index - 1]
        assert (batch.stamp_ms, batch.first) == (said.stamp_ms, said.first)
        if batch.count:
            assert batch.kind == KIND_MESSAGES and batch.payload == b""
            assert batch.flavour == flavour_of(batch.stamp_ms)
            assert batch.lengths == pack_lengths(said.records)
            assert batch.payload_size == sum(map(len, said.records))
            machine.apply_messages(batch.first, batch.count)
        else:
            assert batch.kind == KIND_COMMAND and batch.body() == said.command
            machine.apply_settled(batch.body())

    # --- what a node does -----------------------------------------------------------------------

    def start(self) -> None:
        """Recover, and compare with the history."""
        self.executor = SimExecutor(self.random)
        self.log = Log(self.disk, self.executor, LogConfig(**self.settings), self)
        self.machines = {}
        self.wanted = set()
        self.order = []
        self.full_edges = []
        self.failure = None
        for replica in self.replicas.values():
            replica.forget()
        self.log.recover(Replay(self))
        self.former = 0
        if self.newer:
            self.log.use_version(NEWEST)
        self.restarts += 1
        for replica in list(self.replicas.values()):
            replica.recovered()
            if replica.gone:
                del self.replicas[replica.group_id]
        for group_id in sorted(self.machines):
            assert group_id in self.histories, f"group {group_id} came back from the dead"
        for group_id, history in sorted(self.histories.items()):
            machine = self.machines.get(group_id)
            if machine is None:
                assert history.persisted == 0 or history.dropping, f"group {group_id} is lost"
                del self.histories[group_id]
                continue
            assert machine.applied >= history.persisted, "confirmed and lost"
            said = history.machine(machine.applied)
            assert machine.live == said.live
            history.dropping = False
            history.forget_after(machine.applied)
            group = self.log.group(group_id, create=False)
            assert (group.last_index, group.next_message) == (
                machine.applied,
                history.next_message,
            )

    def rise(self) -> None:
        """From now on, what is appended is of a version that older releases do not know."""
        self.newer = True
        self.former = len(self.order)
        self.log.use_version(NEWEST)

    def said_version(self) -> int:
        """What the manifest says of that."""
        handle = self.disk.open(MANIFEST_PATH)
        return decode(handle.read(0, MANIFEST_BYTES_MAX)).version

    def restart(self, crash: bool) -> None:
        """Stop the process, or the machine, and start again."""
        if crash:
            self.disk.crash()
        else:
            self.disk.restart()
        self.start()

    def new_group(self) -> int:
        group_id = self.next_group
        self.next_group += 1
        self.histories[group_id] = History()
        self.machines[group_id] = Machine()
        self.log.group(group_id)
        return group_id

    def new_replica(self) -> int:
        group_id = self.next_group
        self.next_group += 1
        self.replicas[group_id] = Replica(self, group_id)
        return group_id

    def usable(self) -> list[Replica]:
        """Replicas that take entries."""
        return [replica for _, replica in sorted(self.replicas.items()) if replica.usable]

    def decoded(self, data: bytes) -> list[Batch]:
        """Whole batches that lie back to back."""
        header = Header()
        at = 0
        found: list[Batch] = []
        while at < len(data):
            assert header.load(data, at, len(data)) == "" and header.checksum_holds(data, at)
            found.append(header.batch(None, data, at))
            at += header.size
        return found

    def groups(self) -> list[int]:
        return sorted(g for g, history in self.histories.items() if not history.dropping)

    def publish(self, group_id: int, sizes: list[int]) -> None:
        history = self.histories[group_id]
        group = self.log.group(group_id, create=False)
        first = group.next_message
        assert first == history.next_message, "numbers are dense"
        # Every body is unlike any other, and unlike itself at another place.
        records = [
            (f"{group_id}:{first + at}:{self.restarts}:" * (1 + size // 8)).encode()[: size + 8]
            for at, size in enumerate(sizes)
        ]
        self.now_ms += 1
        batch = group.append(
            KIND_MESSAGES, 1, self.now_ms, len(records), pack_lengths(records), b"".join(records),
            0, flavour=flavour_of(self.now_ms),
        )  # fmt: skip
        self._appended(group_id, batch, Entry(self.now_ms, first, records, []))
        for at, body in enumerate(records):
            history.bodies[first + at] = body

    def settle(self, group_id: int, numbers: list[int]) -> None:
        history = self.histories[group_id]
        entry = Entry(self.now_ms, history.next_message, [], numbers)
        group = self.log.group(group_id, create=False)
        batch = group.append(KIND_COMMAND, 1, self.now_ms, 0, b"", entry.command, None)
        self._appended(group_id, batch, entry)

    def _appended(self, group_id: int, batch: Batch, entry: Entry) -> None:
        history = self.histories[group_id]
        history.entries.append(entry)
        assert batch.index == len(history.entries)
        self.order.append((group_id, batch.kind, batch.index))

    def take_snapshot(self, group_id: int) -> None:
        machine = self.machines[group_id]
        self.log.group(group_id, create=False).snapshot(
            machine.applied, machine.encode(), self.now_ms
        )
        self.order.append((group_id, KIND_SNAPSHOT, machine.applied))

    def answer_wanted(self) -> None:
        for group_id in sorted(self.wanted):
            if group_id in self.groups():
                self.take_snapshot(group_id)
            replica = self.replicas.get(group_id)
            if replica is not None and replica.usable:
                replica.advance()
                replica.take_snapshot()
        self.wanted = set()

    def drop(self, group_id: int) -> None:
        self.order.append((group_id, KIND_DROP, self.log.group(group_id).last_index))
        self.log.drop(group_id)
        if group_id in self.replicas:
            self.replicas[group_id].dropping = True
            return
        self.histories[group_id].dropping = True

    def tick(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.log.tick(self.now_ms)

    def settle_down(self) -> None:
        """Go on until nothing moves any more."""
        for _ in range(40):
            self.log.flush()
            self.executor.drain()
            self.answer_wanted()
            self.tick(200)
            self.executor.drain()

    def step_into_crash(self, calls: int) -> bool:
        """Work until the machine stops within a call to the disk; False if it never does."""
        self.disk.crash_after = calls
        try:
            self.log.flush()
            self.executor.drain()
            self.answer_wanted()
            self.tick(200)
            self.log.flush()
            self.executor.drain()
            self.tick(200)
            self.executor.drain()
        except Crash:
            return True
        finally:
            self.disk.crash_after = -1
        return False

    # --- checks ---------------------------------------------------------------------------------

    def fetch(self, group_id: int, first: int, last: int, max_bytes: int) -> list[Batch]:
        """Read from the log, driving the executor until the answer is there."""
        reader = Reader()
        self.log.group(group_id, create=False).read(first, last, max_bytes, reader)
        while not reader.answers:
            assert self.executor.step(), "a read is never answered"
        assert reader.answers == 1
        if reader.error is not None:
            raise reader.error
        return reader.batches

    def check_bodies(self, group_id: int) -> None:
        """Every live message can be had, from memory or disk, and is what was published."""
        history = self.histories[group_id]
        missing = set(self.machines[group_id].live)
        while missing:
            first = min(missing)
            batch = self.log.group(group_id, create=False).cached(first)
            if batch is not None:
                batches = [batch]
            else:
                batches = self.fetch(group_id, first, max(missing), self.random.choice([1, 9_000]))
            found: set[int] = set()
            for batch in batches:
                assert batch.flavour == flavour_of(batch.stamp_ms)
                for at in range(batch.count):
                    number = batch.first + at
                    assert batch.record(at) == history.bodies[number], f"message {number} differs"
                    found.add(number)
            assert found & missing, f"messages {sorted(missing)[:3]} of group {group_id} are gone"
            missing -= found

    def check(self) -> None:
        for group_id in self.groups():
            self.check_bodies(group_id)
        for replica in list(self.replicas.values()):
            replica.check()
