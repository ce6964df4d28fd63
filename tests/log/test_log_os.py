"""The log on a real directory, with real threads."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from tests.log.model import Reader, pack_lengths
from tests.log.replica import BytesReader
from warren.log.batch import KIND_MESSAGES, Batch, Header
from warren.log.config import LogConfig
from warren.log.listener import LogListener, Replayer
from warren.log.log import Log
from warren.ports import Job
from warren.server import disk as disk_module
from warren.server.disk import OsDisk
from warren.server.executor import ThreadExecutor


class Owner(LogListener):
    """Counts what is persisted."""

    def __init__(self) -> None:
        self.rounds: list[int] = []

    def persisted(self, batches: list[Batch]) -> None:
        self.rounds.append(len(batches))


class Replayed(Replayer):
    """Counts what is replayed."""

    def __init__(self) -> None:
        self.messages = 0

    def entry(self, batch: Batch) -> None:
        self.messages += batch.count


def test_write_restart_read(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    records = [b"x" * 70, b"", b"y" * 5_000]
    for _ in range(2):
        owner = Owner()
        replayed = Replayed()
        executor = ThreadExecutor(loop)
        log = Log(OsDisk(tmp_path), executor, LogConfig(cache_bytes=0), owner)
        log.recover(replayed)
        group = log.group(3)
        for _ in range(50):
            group.append(KIND_MESSAGES, 1, 5, 3, pack_lengths(records), b"".join(records), None)
        log.flush()
        executor.drain()
        assert sum(owner.rounds) == 50 and log.idle
        reader = Reader()
        group.read(100, 110, 1 << 20, reader)
        executor.drain()
        found = [batch.record(at) for batch in reader.batches for at in range(batch.count)]
        assert reader.error is None and found[:3] == records
        raw = BytesReader()
        group.read_raw(0, 149, 1 << 30, raw)
        executor.drain()
        header = Header()
        at = seen = 0
        while at < len(raw.data):
            assert header.load(raw.data, at, len(raw.data)) == ""
            assert header.checksum_holds(raw.data, at)
            seen += header.count
            at += header.size
        assert (seen, raw.next_message) == (150, 150)
        executor.stop()
        log.close()
    assert replayed.messages == 150
    loop.close()


def test_more_buffers_than_one_call_takes(tmp_path: Path) -> None:
    file = OsDisk(tmp_path).open("data", create=True)
    buffers = [bytes([at % 251]) * (at % 7) for at in range(disk_module.IOV_MAX * 2 + 5)]
    file.write_durable(buffers, 3)
    assert file.read(3, 1 << 20) == b"".join(buffers)
    file.close()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(descriptor: int, buffers: list[bytes], offset: int, flags: int) -> int:
        return real(descriptor, [memoryview(buffers[0])[:3]], offset, flags)

    monkeypatch.setattr(os, "pwritev", short)
    file = OsDisk(tmp_path).open("data", create=True)
    file.write_durable([b"abcd", b"", b"efghij"], 0)
    assert file.read(0, 100) == b"abcdefghij"
    file.close()


def test_files_and_names(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path)
    disk.make_directory("a/b")
    disk.make_directory("a/b")
    with pytest.raises(FileNotFoundError):
        disk.open("a/b/c")
    file = disk.open("a/b/c", create=True)
    file.allocate(0, 8_192)
    assert file.size_bytes() == 8_192 and file.read(8_000, 500) == bytes(192)
    file.truncate(10)
    assert file.size_bytes() == 10
    file.close()
    disk.rename("a/b/c", "a/b/d")
    disk.sync_directory("a/b")
    assert disk.list("a/b") == ["d"] and disk.exists("a/b/d") and disk.list("none") == []
    disk.remove("a/b/d")
    disk.remove("a/b/d")
    assert not disk.exists("a/b/d") and disk.free_bytes() > 0


class Probe(Job):
    """Says on which threads it ran and ended."""

    def __init__(self, log: list[tuple[str, int, int]], name: str, fails: bool) -> None:
        self._log = log
        self._name = name
        self._fails = fails
        self._ran_on = 0

    def run(self) -> None:
        self._ran_on = threading.get_ident()
        if self._fails:
            raise OSError(errno.EIO, "probe")

    def done(self, error: BaseException | None) -> None:
        assert isinstance(error, OSError) == self._fails
        self._log.append((self._name, self._ran_on, threading.get_ident()))


def test_jobs_of_a_lane_keep_their_order_and_end_on_the_loop() -> None:
    ended: list[tuple[str, int, int]] = []
    after: list[int] = []

    async def main() -> None:
        finished = asyncio.Event()

        def hook() -> None:
            after.append(len(ended))
            if len(ended) == 40:
                finished.set()

        executor = ThreadExecutor(asyncio.get_running_loop(), hook)
        for at in range(20):
            executor.submit("wal", Probe(ended, f"wal {at:02}", at % 3 == 0))
            executor.submit("read", Probe(ended, f"read {at:02}", False))
        await asyncio.wait_for(finished.wait(), 30)
        executor.stop()

    asyncio.run(main())
    for lane in ("wal", "read"):
        mine = [entry for entry in ended if entry[0].startswith(lane)]
        assert mine == sorted(mine)
        assert len({ran for _, ran, _ in mine}) == 1
    assert {end for _, _, end in ended} == {threading.get_ident()}
    assert len(after) <= 40 and after[-1] == 40
