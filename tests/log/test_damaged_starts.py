"""Starts over damage in closed files: a group at a time goes without, and the log goes on."""

from __future__ import annotations

import copy
from random import Random

import pytest

from sim.disk import Crash, SimDisk, SimExecutor
from tests.log.model import SMALL
from tests.log.replica import known_runs, pack_lengths
from warren.errors import CorruptRecord, StorageError
from warren.log.batch import HEADER_BYTES, KIND_COMMAND, KIND_MESSAGES, Batch
from warren.log.config import LogConfig
from warren.log.group import newest_snapshot, newest_state
from warren.log.listener import LogListener, RawReader, Replayer
from warren.log.log import Log
from warren.log.runlist import LiveRuns

ALONE = 1
REPLICATED = 2
ANOTHER = 3
COUNT = 60
SIZE = 700
MORE = 4
"""Commands of ALONE in the newest file, where that is damaged."""


class Owner(LogListener):
    """Takes no snapshots, so that all entries are replayed; what is there lives."""

    def __init__(self) -> None:
        self.errors: list[CorruptRecord] = []

    def persisted(self, batches: list[Batch]) -> None:
        pass

    def snapshot_wanted(self, group_id: int) -> None:
        pass

    def live_runs(self, group_id: int) -> LiveRuns:
        return known_runs([(0, 1 << 40)])

    def disk_full(self, full: bool) -> None:
        pass

    def damaged(self, error: CorruptRecord) -> None:
        self.errors.append(error)

    def failed(self, error: BaseException) -> None:
        raise error


class Patient(Replayer):
    """Goes on without what is damaged."""

    def __init__(self) -> None:
        self.entries: dict[int, list[int]] = {ALONE: [], REPLICATED: [], ANOTHER: []}
        self.gone: dict[int, CorruptRecord] = {}
        self.losses: list[tuple[int, int, int]] = []

    def snapshot(self, group_id: int, index: int, state: bytes) -> None:
        assert group_id not in self.gone

    def entry(self, batch: Batch) -> None:
        assert batch.group_id not in self.gone, "nothing comes of a group that is unfit"
        self.entries[batch.group_id].append(int(batch.index))

    def unfit(self, group_id: int, error: CorruptRecord) -> None:
        assert group_id not in self.gone
        self.gone[group_id] = error

    def lost(self, group_id: int, first: int, last: int, error: CorruptRecord) -> None:
        self.losses.append((group_id, first, last))


class Bytes(RawReader):
    """Keeps an answer."""

    def __init__(self) -> None:
        self.data = b""

    def raw_read(self, data: bytes, next_message: int, error: BaseException | None) -> None:
        assert error is None
        self.data = data


def begun(disk: SimDisk, replayer: Replayer) -> tuple[Log, SimExecutor]:
    executor = SimExecutor(Random(1))
    log = Log(disk, executor, LogConfig(**SMALL), Owner())
    log.recover(replayer)
    return log, executor


def filled() -> tuple[SimDisk, Log]:
    """A stopped log: three groups that wrote in turn, over closed files with their sidecars."""
    disk = SimDisk(4)
    log, executor = begun(disk, Patient())
    log.group(REPLICATED).save_state(b"me", None)
    for number in range(COUNT):
        for group_id in (ALONE, REPLICATED, ANOTHER):
            body = bytes([number]) * SIZE
            log.group(group_id).append(KIND_MESSAGES, 1, 0, 1, pack_lengths([body]), body, None)
        log.flush()
        executor.drain()
    for now_ms in range(0, 1_000, 10):
        log.tick(now_ms)
        executor.drain()
    log.close()
    files = log._store.files
    assert len(files) > 4 and all(file.has_sidecar for file in files[:-1])
    disk.restart()
    return disk, log


def place(log: Log, group_id: int, file: int) -> tuple[str, int, int]:
    """A file, and where the first entry of a group in it is: offset and index."""
    extents = log._store.files[file].groups[group_id]
    return extents.file.path, int(extents.offset(0)), int(extents.index(0))


@pytest.mark.parametrize("at", [4, 9, 13, 17, 30, 45, HEADER_BYTES + 100], ids=str)
def test_only_the_group_whose_entry_is_damaged_goes_without(at: int) -> None:
    disk, before = filled()
    everything = list(range(1, COUNT + 1))
    path, offset, index = place(before, ALONE, 1)
    disk.flip(path, offset + at, 0x40)
    replayer = Patient()
    log, executor = begun(disk, replayer)
    assert replayer.losses[0][0] == ALONE
    missing = [i for i in everything if i not in replayer.entries[ALONE]]
    assert missing == [index]
    assert replayer.losses[0] == (ALONE, index - 1, index - 1)
    if at not in (4, 9):
        # A damaged size or checksum takes the rest of its round along.
        assert len(replayer.losses) == 1 and not replayer.gone
        assert replayer.entries[REPLICATED] == replayer.entries[ANOTHER] == everything
    # It goes on as if nothing had been.
    batch = log.group(ALONE).append(KIND_COMMAND, 1, 0, 0, b"", b"new", None)
    assert batch.index == COUNT + 1 and batch.first == COUNT
    log.flush()
    executor.drain()


def test_a_replicated_group_is_unfit_and_keeps_what_it_has() -> None:
    disk, before = filled()
    path, offset, index = place(before, REPLICATED, 1)
    disk.flip(path, offset + 200, 0x40)
    replayer = Patient()
    log, executor = begun(disk, replayer)
    assert list(replayer.gone) == [REPLICATED] and not replayer.losses
    assert replayer.gone[REPLICATED].path == path
    assert replayer.entries[REPLICATED] == list(range(1, index))
    assert replayer.entries[ALONE] == replayer.entries[ANOTHER] == list(range(1, COUNT + 1))
    names = disk.list("log")
    for group_id in (ALONE, ANOTHER):
        log.group(group_id).snapshot(COUNT, b"all", 0)
    log.flush()
    for now_ms in range(0, 30_000, 100):
        log.tick(now_ms)
        executor.drain()
    assert [name for name in names if name.endswith(".log")][:-1] == [
        name for name in disk.list("log") if name in names and name.endswith(".log")
    ][: len([name for name in names if name.endswith(".log")]) - 1]
    # Begun anew it is a group like any other.
    group = log.group(REPLICATED)
    group.reset_for_install()
    group.begin_empty()
    assert group.append(KIND_COMMAND, 2, 0, 0, b"", b"new", None).index == 1
    log.flush()
    executor.drain()
    disk.restart()
    replayer = Patient()
    begun(disk, replayer)
    assert not replayer.gone and replayer.entries[REPLICATED] == [1]


@pytest.mark.parametrize("what", ["state", "snapshot"])
def test_a_group_is_unfit_without_its_newest_state_or_snapshot(what: str) -> None:
    disk, before = filled()
    log, executor = begun(disk, Patient())
    group = log.group(REPLICATED)
    group.save_state(b"me again", None)
    group.snapshot(COUNT, b"all of it", 0)
    for number in range(COUNT):
        body = bytes([number]) * SIZE
        log.group(ALONE).append(KIND_MESSAGES, 1, 0, 1, pack_lengths([body]), body, None)
        log.flush()
        executor.drain()
    for now_ms in range(0, 1_000, 10):
        log.tick(now_ms)
        executor.drain()
    found = newest_state(group) if what == "state" else newest_snapshot(group)
    assert found is not None and found.file.closed
    offset = found.state_offset if what == "state" else found.snapshot_offset
    disk.restart()
    disk.flip(found.file.path, int(offset) + HEADER_BYTES + 1, 1)
    replayer = Patient()
    begun(disk, replayer)
    assert list(replayer.gone) == [REPLICATED]
    assert len(replayer.entries[ALONE]) == 2 * COUNT


def test_the_end_of_a_closed_file_may_be_missing() -> None:
    disk, before = filled()
    path, offset, index = place(before, ALONE, 2)
    disk.open(path).truncate(offset - offset % 512)
    replayer = Patient()
    begun(disk, replayer)
    assert [group_id for group_id, _, _ in replayer.losses] == [ALONE, ANOTHER]
    assert list(replayer.gone) == [REPLICATED]
    after = place(before, ALONE, 3)[2]
    assert replayer.entries[ALONE] == [*range(1, index), *range(after, COUNT + 1)]


def test_without_anybody_to_answer_for_it_damage_refuses_the_start() -> None:
    class Strict(Patient):
        def lost(self, group_id: int, first: int, last: int, error: CorruptRecord) -> None:
            raise error

    disk, before = filled()
    path, offset, _ = place(before, ALONE, 1)
    disk.flip(path, offset + 200, 0x40)
    image = disk.image()
    with pytest.raises(CorruptRecord):
        begun(disk, Strict())
    assert disk.image() == image


class Doubting(Patient):
    """Goes on also over damage of which nobody knows what was there."""

    def __init__(self) -> None:
        super().__init__()
        self.doubts: list[CorruptRecord] = []

    def doubtful(self, error: CorruptRecord) -> None:
        self.doubts.append(error)


def doubted(where: str) -> tuple[SimDisk, str, int]:
    """A disk with damage that hides what was there: its file, and the entry of ALONE it took."""
    disk, before = filled()
    if where == "newest":
        log, executor = begun(disk, Patient())
        for number in range(MORE):
            log.group(ALONE).append(KIND_COMMAND, 1, 0, 0, b"", b"%d" % number * 50, None)
            log.flush()
            executor.drain()
        log.close()
        disk.restart()
        path, lost = log._store.files[-1].path, COUNT + 2
        offset = disk.image()[path].index(b"1" * 50)
    else:
        path, offset, lost = place(before, ALONE, 1)
        offset += HEADER_BYTES + 100
        disk.remove(path.replace(".log", ".idx"))
        disk.sync_directory("log")
    disk.flip(path, offset, 0x40)
    return disk, path, lost


@pytest.mark.parametrize("where", ["newest", "without a sidecar"])
def test_damage_of_unknown_extent_costs_only_what_is_damaged(where: str) -> None:
    """If whoever owns the log goes on; else the start is refused, and nothing was changed."""
    disk, path, lost = doubted(where)
    image = disk.image()
    with pytest.raises(CorruptRecord) as refusal:
        begun(disk, Patient())
    assert refusal.value.path == path and disk.image() == image
    replayer = Doubting()
    log, executor = begun(disk, replayer)
    assert [error.path for error in replayer.doubts] == [path]
    last = COUNT + MORE if where == "newest" else COUNT
    assert replayer.entries[ALONE] == [n for n in range(1, last + 1) if n != lost]
    assert [loss[0] for loss in replayer.losses] == [ALONE] and not replayer.gone
    assert replayer.entries[REPLICATED] == replayer.entries[ANOTHER] == list(range(1, COUNT + 1))
    # It goes on, and the next start knows what there is.
    batch = log.group(ALONE).append(KIND_COMMAND, 1, 0, 0, b"", b"new", None)
    assert batch.index == last + 1
    log.flush()
    executor.drain()
    disk.crash()
    disk.restart()
    replayer = Doubting()
    begun(disk, replayer)
    assert not replayer.doubts
    assert replayer.entries[ALONE] == [n for n in range(1, last + 2) if n != lost]


@pytest.mark.parametrize("what", ["the only one", "the only one, snapshot", "newest, snapshot"])
def test_a_group_is_unfit_whose_state_is_gone_without_a_trace(what: str) -> None:
    """No index names it: entries and snapshots tell that there was one."""
    disk = SimDisk(4)
    log, executor = begun(disk, Patient())
    group = log.group(REPLICATED)
    for text in (b"older state", b"newest state"):
        if text.startswith(b"newest") or "only" not in what:
            group.save_state(text, None)
        log.flush()
        executor.drain()
    group.append(KIND_COMMAND, 1, 0, 0, b"", b"a command", None, 7, 1)
    log.flush()
    executor.drain()
    if "snapshot" in what:
        group.snapshot(1, b"all of it", 0)
    # The rounds before it are known to have been whole.
    for _ in range(2):
        log.group(ALONE).append(KIND_COMMAND, 1, 0, 0, b"", b"another", None)
        log.flush()
        executor.drain()
    log.close()
    disk.restart()
    path = next(path for path, data in disk.image().items() if b"newest state" in data)
    disk.flip(path, disk.image()[path].index(b"newest state"), 0x40)
    index = path.replace(".log", ".idx")
    if index in disk.image():
        disk.remove(index)
        disk.sync_directory("log")
    replayer = Doubting()
    begun(disk, replayer)
    assert replayer.doubts and list(replayer.gone) == [REPLICATED]
    assert replayer.entries == {ALONE: [1, 2], REPLICATED: [], ANOTHER: []}


@pytest.mark.parametrize("where", ["newest", "without a sidecar"])
def test_a_start_over_damage_is_known_until_all_was_looked_through(where: str) -> None:
    """Wherever the machine stops: damage that is taken for whole is never forgotten before."""
    disk, _, _ = doubted(where)
    refused = taken = runs = 0
    while True:
        damaged = copy.deepcopy(disk)
        # Each step is the last one some times, with other parts of what was not synced.
        damaged.crash_after, chances = divmod(runs, 4)
        damaged.random = Random(chances)
        runs += 1
        try:
            log, executor = begun(damaged, Doubting())
            break
        except Crash:
            damaged.crash()
        try:
            log, _ = begun(damaged, Patient())
        except CorruptRecord:
            refused += 1
        else:
            taken += 1
            assert log.salvaged
    assert refused > 0 and taken > 0
    # Later lives know, too, until what came of the look is durable, and wherever the end stops.
    for _ in range(2):
        assert log.salvaged
        damaged.crash()
        log, executor = begun(damaged, Patient())
    damaged.crash()
    for steps in range(4):
        ended = copy.deepcopy(damaged)
        log, executor = begun(ended, Patient())
        ended.crash_after = steps
        log.looked_through()
        try:
            executor.drain()
            known = False
        except Crash:
            known = True
        ended.crash()
        log, executor = begun(ended, Patient())
        assert known or not log.salvaged
    assert not known


@pytest.mark.parametrize("where", ["newest", "without a sidecar"])
def test_a_start_over_damage_waits_for_room_to_note_it(where: str) -> None:
    """It changes nothing before; with room it goes on as any other."""
    disk, path, _ = doubted(where)
    image = disk.image()
    disk.capacity_bytes = 0
    with pytest.raises(OSError, match="no space left"):
        begun(disk, Doubting())
    assert {name: data for name, data in disk.image().items() if name in image} == image
    disk.restart()
    disk.capacity_bytes = 1 << 40
    replayer = Doubting()
    log, _ = begun(disk, replayer)
    assert log.salvaged and [error.path for error in replayer.doubts] == [path]


def test_what_went_with_a_whole_file_is_missed_by_the_next_start_too() -> None:
    """As long as no snapshot covers it: nothing in the file tells of it any more."""
    disk, before = filled()
    path, _, first = place(before, ALONE, 1)
    behind = place(before, ALONE, 2)[2]
    disk.open(path).write_durable([bytes(len(disk.image()[path]))], 0)
    disk.remove(path.replace(".log", ".idx"))
    disk.sync_directory("log")
    begun(disk, Doubting())
    for _ in range(2):
        disk.crash()
        replayer = Patient()
        log, _ = begun(disk, replayer)
        assert log.salvaged
        assert list(replayer.gone) == [REPLICATED]
        assert (ALONE, first - 1, behind - 2) in replayer.losses
        assert replayer.entries[ALONE] == [*range(1, first), *range(behind, COUNT + 1)]


@pytest.mark.parametrize("seed", range(10))
def test_any_place_may_be_damaged(seed: int) -> None:
    """A start goes on or is refused, both without an assertion; then the log works on."""
    random = Random(seed)
    disk, before = filled()
    for _ in range(6):
        image = disk.image()
        path = random.choice(list(image))
        size = len(image[path])
        at = random.randrange(max(1, size))
        way = random.choice(["flip", "cut", "zero"])
        file = disk.open(path)
        if way == "flip":
            disk.flip(path, at, 1 << random.randrange(8))
        elif way == "cut":
            file.truncate(at)
            file.sync()
        else:
            file.write_durable([bytes(min(4_096, size - at))], at)
        file.close()
        image = disk.image()
        try:
            log, executor = begun(disk, Doubting())
        except StorageError as refusal:
            assert path in str(refusal), (way, path, at)
            assert disk.image() == image
            return
        for group_id in (ALONE, ANOTHER):
            log.group(group_id).append(KIND_COMMAND, 1, 0, 0, b"", b"new", None)
        log.flush()
        executor.drain()
        for now_ms in range(0, 1_000, 100):
            log.tick(now_ms)
            executor.drain()
        disk.crash()
        disk.restart()
