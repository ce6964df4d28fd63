"""Damage and foreign content: told apart from torn writes, named, and left as they are."""

from __future__ import annotations

import errno
from random import Random
from typing import Any, cast

import pytest

from sim.disk import SimDisk, SimFile
from tests.log.model import Entry, Reader, World
from warren.errors import CorruptRecord, StorageError
from warren.log import sidecar
from warren.log.batch import HEADER_BYTES, SECTOR_BYTES, Batch
from warren.log.files import LogFile
from warren.log.manifest import FORMER_VERSION_LINE as VERSION_LINE
from warren.ports import File

NEWEST = "log/00000001.log"


def written(**settings: int) -> tuple[World, int]:
    """A log with a few rounds in its newest file, and where the last of them starts."""
    world = World(7, **settings)
    group_id = world.new_group()
    last_start = 0
    for _ in range(6):
        last_start = world.log._store.files[-1].end
        world.publish(group_id, [100, 300, 50])
        world.log.flush()
        world.executor.drain()
    world.disk.restart()
    return world, last_start


def refused(disk: SimDisk, world: World) -> StorageError:
    """The error of a start, which must not have changed anything."""
    before = disk.image()
    with pytest.raises(StorageError) as caught:
        world.start()
    assert disk.image() == before
    disk.restart()
    return caught.value


def test_every_damage_before_the_last_round_is_told() -> None:
    world, last_start = written(wal_max_size_bytes=1 << 22)
    disk = world.disk
    for offset in range(last_start):
        disk.flip(NEWEST, offset, 1 << offset % 8)
        error = refused(disk, world)
        assert isinstance(error, CorruptRecord) and error.path == NEWEST
        assert error.offset_bytes <= offset < error.offset_bytes + 1_024
        disk.flip(NEWEST, offset, 1 << offset % 8)
    world.start()
    world.check()


def test_damage_in_the_last_round_is_cut_off_as_a_torn_write() -> None:
    world, last_start = written(wal_max_size_bytes=1 << 22)
    history = world.histories[1]
    history.persisted -= 1
    world.disk.flip(NEWEST, last_start + 100, 0x10)
    world.start()
    assert world.machines[1].applied == 5
    assert world.log._store.files[-1].end == last_start
    world.check()


@pytest.mark.parametrize("missing", [1, 40])
def test_padding_that_is_missing_is_put_there(missing: int) -> None:
    """A write may end within it; the file's size is noted when it is closed, and has to be true."""
    world, _ = written(wal_max_size_bytes=1 << 22)
    end = world.log._store.files[-1].end
    world.disk.open(NEWEST).truncate(end - missing)
    world.start()
    assert world.log._store.files[-1].end == end
    assert world.disk.open(NEWEST).size_bytes() == end
    world.check()


def test_an_idle_log_vouches_for_its_last_round() -> None:
    world, last_start = written(wal_max_size_bytes=1 << 22)
    world.start()
    world.publish(1, [10])
    world.settle_down()
    world.disk.restart()
    world.disk.flip(NEWEST, last_start + SECTOR_BYTES, 0x10)
    assert isinstance(refused(world.disk, world), CorruptRecord)


def with_closed_files() -> World:
    world = World(3)
    group_id = world.new_group()
    for _ in range(60):
        world.publish(group_id, [700, 700])
        world.log.flush()
        world.executor.drain()
    world.settle_down()
    world.disk.restart()
    assert len(world.log._store.files) > 3
    return world


def test_damage_in_a_closed_file_without_sidecar_is_told() -> None:
    world = with_closed_files()
    world.disk.remove("log/00000002.idx")
    size = world.log._store.files[1].end
    for offset in Random(1).sample(range(size), 60):
        world.disk.flip("log/00000002.log", offset, 0x40)
        error = refused(world.disk, world)
        assert isinstance(error, CorruptRecord) and error.path == "log/00000002.log"
        world.disk.flip("log/00000002.log", offset, 0x40)


def test_damage_in_a_closed_file_is_told_when_it_is_read() -> None:
    world = with_closed_files()
    extents = world.log._store.files[1].groups[1]
    world.disk.flip("log/00000002.log", extents.offset(0) + 200, 0x40)
    world.start()
    with pytest.raises(CorruptRecord):
        world.fetch(1, extents.first_message, extents.first_message, 1)


HEADER_FLIPS = {"kind": (12, 0x02), "group": (16, 0x02), "index": (24, 0x40), "first": (40, 0x40)}
"""A bit each that makes a batch look like one that nobody has to read or to keep."""


@pytest.mark.parametrize("field", HEADER_FLIPS)
def test_a_batch_whose_header_is_damaged_is_not_passed_over(field: str) -> None:
    """Neither by who reads it, nor by a rewrite of its file, which would lose it for good."""
    at, bit = HEADER_FLIPS[field]
    world = with_closed_files()
    extents = world.log._store.files[1].groups[1]
    first = extents.first_message
    world.disk.flip("log/00000002.log", extents.offset(0) + at, bit)
    world.start()
    with pytest.raises(CorruptRecord, match="checksum"):
        world.fetch(1, first, first, 1)
    world.settle(1, [number for number in world.machines[1].live if number != first])
    world.settle_down()
    assert "00000002.log" in str(world.damages[0])
    assert world.disk.exists("log/00000002.log")


def read_all(world: World) -> Reader:
    """One read of all that lies in the second file."""
    extents = world.log._store.files[1].groups[1]
    world.log._store.cache.forget(world.log.group(1).share.recent)
    world.log._store.cache.forget(world.log.group(1).share.read_back)
    reader = Reader()
    first, behind = extents.first_message, extents.next_message
    world.log.group(1).read(first, behind - 1, 1 << 20, reader)
    world.executor.drain()
    assert reader.answers == 1
    return reader


def test_around_damage_everything_else_is_read() -> None:
    world = with_closed_files()
    world.start()
    extents = world.log._store.files[1].groups[1]
    numbers = set(range(extents.first_message, extents.next_message))
    for offset in Random(2).sample(range(extents.offset(0), world.log._store.files[1].end), 60):
        world.disk.flip("log/00000002.log", offset, 1 << offset % 8)
        reader = read_all(world)
        found: set[int] = set()
        for batch in reader.batches:
            for at in range(batch.count):
                number = batch.first + at
                assert batch.record(at) == world.histories[1].bodies[number]
                found.add(number)
        lost: set[int] = set()
        if reader.error is not None:
            assert isinstance(reader.error, CorruptRecord) and reader.error.group_id == 1
            for first, last in reader.error.lost:
                lost.update(range(first, last + 1))
        assert found | lost == numbers and not found & lost
        # A round here has two messages: no more than that goes with one bit.
        assert len(lost) <= 2
        world.disk.flip("log/00000002.log", offset, 1 << offset % 8)


@pytest.mark.parametrize("number", [errno.EIO, errno.EBADMSG])
def test_a_stretch_that_the_disk_refuses_to_read_is_damage(number: int) -> None:
    world = with_closed_files()
    world.start()
    file = world.log._store.files[1]
    bad = file.groups[1].offset(1) + 300

    class Refusing:
        def __init__(self, handle: File) -> None:
            self._handle = handle

        def read(self, offset: int, size: int) -> bytes:
            if offset <= bad < offset + size:
                raise OSError(number, "not readable")
            return self._handle.read(offset, size)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._handle, name)

    file.handle = cast(File, Refusing(file.handle))
    reader = read_all(world)
    assert isinstance(reader.error, CorruptRecord)
    assert sum(last - first + 1 for first, last in reader.error.lost) == 2
    assert world.failure is None


def test_a_read_that_the_disk_refuses_once_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at a start, with whatever it reads first, nor later."""
    read = SimFile.read
    for refused in range(8):
        world = with_closed_files()
        left = refused

        def refusing(file: SimFile, offset: int, size: int) -> bytes:
            nonlocal left
            left -= 1
            if left == -1:
                raise OSError(errno.EIO, "not readable")
            return read(file, offset, size)

        with monkeypatch.context() as patch:
            patch.setattr(SimFile, "read", refusing)
            world.start()
            assert left < 0, "it is met"
            left = 0
            reader = read_all(world)
            assert left < 0 and reader.error is None and reader.batches
        world.check()


def refuse_to_read(monkeypatch: pytest.MonkeyPatch, path: str, *places: int) -> None:
    """From now on a disk cannot give some bytes of a file back."""
    read = SimFile.read

    def refusing(file: SimFile, offset: int, size: int) -> bytes:
        if file.path == path and any(offset <= at < offset + size for at in places):
            raise OSError(errno.EIO, "not readable")
        return read(file, offset, size)

    monkeypatch.setattr(SimFile, "read", refusing)


@pytest.mark.parametrize("place", [0.0, 0.01, 0.99])
def test_one_block_of_a_manifest_may_not_be_readable(
    place: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there twice, and not in one block."""
    world = with_closed_files()
    size = len(world.disk.image()["log/MANIFEST"])
    refuse_to_read(monkeypatch, "log/MANIFEST", int(size * place))
    world.start()
    world.check()


def test_a_manifest_that_cannot_be_read_fails_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for a damaged one, over which a node would begin anew: that may pass."""
    world = with_closed_files()
    before = world.disk.image()
    size = len(before["log/MANIFEST"])
    refuse_to_read(monkeypatch, "log/MANIFEST", 20, size - 20)
    with pytest.raises(OSError, match="not readable"):
        world.start()
    assert world.disk.image() == before
    monkeypatch.undo()
    world.start()
    world.check()


def test_a_sidecar_that_cannot_be_read_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_closed_files()
    refuse_to_read(monkeypatch, "log/00000002.idx", 30)
    world.start()
    world.check()


def test_bytes_of_a_publisher_do_not_pass_for_a_batch_behind_a_damaged_size() -> None:
    """Whatever size a damaged header says, what lies there is the publisher's."""
    world = World(3, wal_max_size_bytes=1 << 15, extent_bytes_max=1 << 14)
    world.new_group()
    forged = Batch(None, 1, 1, 1, 0, 1, 0, (4).to_bytes(4, "little"), 0, b"evil", 0, 4, None)
    forged.group_id = 1
    body = forged.encoded() * 40
    group = world.log.group(1)
    for _ in range(12):
        group.append(1, 1, world.now_ms, 1, len(body).to_bytes(4, "little"), body, None)
        world.order.append((1, 1, group.last_index))
        world.histories[1].entries.append(Entry(world.now_ms, group.next_message - 1, [body], []))
        world.histories[1].bodies[group.next_message - 1] = body
        world.log.flush()
        world.executor.drain()
    extents = world.log._store.files[0].groups[1]
    path = world.log._store.files[0].path
    at = extents.offset(0)
    batch = HEADER_BYTES + 4 + len(body)
    handle = world.disk.open(path)
    # The size now leads to the beginning of a forged batch within the body.
    handle.write_durable([(HEADER_BYTES + 4 + 88 * 3).to_bytes(4, "little")], at + 4)
    assert handle.read(at + batch, 1) == b"\0", "a round is one batch here"
    reader = Reader()
    world.log._store.cache.forget(group.share.recent)
    group.read(0, 2, 1 << 20, reader)
    world.executor.drain()
    assert isinstance(reader.error, CorruptRecord) and reader.error.lost[0] == (0, 0)
    assert all(found.record(0) == body for found in reader.batches)


def test_a_truncated_closed_file_is_told() -> None:
    world = with_closed_files()
    world.disk.remove("log/00000002.idx")
    world.disk.open("log/00000002.log").truncate(9 * SECTOR_BYTES)
    assert isinstance(refused(world.disk, world), CorruptRecord)


@pytest.mark.parametrize("offset", [0, 4, 9, 17, 30, 45, 200])
def test_a_damaged_sidecar_is_done_without(offset: int) -> None:
    world = with_closed_files()
    world.disk.flip("log/00000002.idx", offset, 0x08)
    world.start()
    world.check()


@pytest.mark.parametrize("wrong", ["salt", "number", "size"])
def test_a_sidecar_that_is_not_of_this_file_is_done_without(wrong: str) -> None:
    """One of another directory, say, that was copied over: it is whole, and says other things."""
    world = with_closed_files()
    file = world.log._store.files[1]
    other = LogFile(file.number + (wrong == "number"), file.path, file.handle)
    other.end = file.end - SECTOR_BYTES * (wrong == "size")
    salt = world.log._store.salt ^ (wrong == "salt")
    elsewhere = SimDisk(1)
    sidecar.store(elsewhere, other, salt)
    handle = world.disk.open("log/00000002.idx")
    handle.truncate(0)
    handle.write_durable(list(elsewhere.image().values()), 0)
    world.start()
    assert world.log._store.files[1].groups
    world.check()


@pytest.mark.parametrize("place", [0.0, 0.01, 0.3, 0.5, 0.7, 0.999])
def test_a_manifest_is_there_twice(place: float) -> None:
    world = with_closed_files()
    size = len(world.disk.image()["log/MANIFEST"])
    world.disk.flip("log/MANIFEST", int(size * place), 0x08)
    world.start()
    world.check()


def test_a_manifest_that_is_damaged_in_both_places_is_refused() -> None:
    world = with_closed_files()
    size = len(world.disk.image()["log/MANIFEST"])
    world.disk.flip("log/MANIFEST", 20, 0x08)
    world.disk.flip("log/MANIFEST", size - 20, 0x08)
    assert "the checksum does not match" in str(refused(world.disk, world))


@pytest.mark.parametrize("places", [(0,), (-1,), (0, -1)])
def test_a_damaged_format_of_the_manifest_is_damage(places: tuple[int, ...]) -> None:
    """It is no other version's, which nobody could do anything about but its writer."""
    world, _ = written()
    data = world.disk.image()["log/MANIFEST"]
    for place in (0, -1):
        start = (data.index, data.rindex)[place](VERSION_LINE.encode())
        at = start + len(VERSION_LINE) - 1 if place in places else start + 20
        world.disk.flip("log/MANIFEST", at, 0x80)
    assert isinstance(refused(world.disk, world), CorruptRecord)


def test_a_manifest_of_one_text_is_read() -> None:
    """As earlier versions wrote it."""
    world = with_closed_files()
    data = world.disk.image()["log/MANIFEST"]
    world.disk.open("log/MANIFEST").truncate((len(data) - 4096) // 2)
    world.start()
    world.check()


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("log/notes.txt", b"mine", "not a file of the log"),
        ("log/MANIFEST", b"", "checksum"),
        ("log/MANIFEST", VERSION_LINE[:-1].encode() + b"9\n", "start the version that wrote it"),
    ],
)
def test_what_is_not_a_log_is_refused(path: str, content: bytes, says: str) -> None:
    world, _ = written()
    handle = world.disk.open(path, create=True)
    handle.truncate(0)
    handle.write([content], 0)
    assert says in str(refused(world.disk, world))


def test_a_missing_file_is_told() -> None:
    world = with_closed_files()
    world.disk.remove("log/00000002.log")
    assert "log/00000002.log is missing" in str(refused(world.disk, world))


def test_a_log_without_manifest_is_not_overwritten() -> None:
    world, _ = written()
    world.disk.remove("log/MANIFEST")
    assert "restore it from a copy" in str(refused(world.disk, world))


def test_a_body_that_looks_like_a_round_does_not_pass_for_one() -> None:
    world, last_start = written(wal_max_size_bytes=1 << 22)
    image = world.disk.image()[NEWEST]
    forged = image[:SECTOR_BYTES] * 8
    world.start()
    group = world.log.group(1)
    size = len(forged).to_bytes(4, "little")
    group.append(1, 1, world.now_ms, 1, size, forged, None)
    world.order.append((1, 1, group.last_index))
    world.histories[1].entries.append(world.histories[1].entries[0])
    start = world.log._store.files[-1].end
    world.log.flush()
    world.executor.drain()
    world.disk.restart()
    # The write of that body was torn at its head; the copies of a round behind it stay.
    world.disk.flip(NEWEST, start + 70, 0x01)
    world.histories[1].persisted = 6
    world.histories[1].forget_after(6)
    world.start()
    assert world.log._store.files[-1].end == start


def test_a_stale_batch_in_a_torn_round_does_not_pass_for_part_of_it() -> None:
    world = World(7, wal_max_size_bytes=1 << 22)
    group_id = world.new_group()
    starts = []
    for _ in range(2):
        starts.append(world.log._store.files[-1].end)
        world.publish(group_id, [700])
        world.publish(group_id, [700])
        world.log.flush()
        world.executor.drain()
    world.disk.restart()
    # As if the blocks had held a round of the same layout before, and the crash kept its tail.
    handle = world.disk.open(NEWEST)
    second = HEADER_BYTES + HEADER_BYTES + 4 + 700
    stale = handle.read(starts[0] + second, second - HEADER_BYTES)
    handle.write_durable([stale], starts[1] + second)
    world.disk.restart()
    history = world.histories[group_id]
    history.persisted -= 2
    history.forget_after(history.persisted)
    world.start()
    assert world.log._store.files[-1].end == starts[1]
    world.check()
