"""A disk that loses, tears and reorders what was not synced, fails, and fills up; from a seed.

What a file was synced to is its `durable` content; what is read is its `current` one. A crash of
the machine keeps, of everything written since, any part: each 512-byte sector of each write on its
own, each truncation or not, and of the names created, renamed or removed without a directory sync
any part too. That is the least a POSIX system promises; real ones are kinder.

`SimExecutor` runs the jobs one step at a time, so that other things, crashes too, fall between the
submission of a job, its run and its report.
"""

from __future__ import annotations

import errno
from collections import deque
from random import Random
from typing import final

from warren.ports import Job

SECTOR_BYTES = 512


class Crash(BaseException):
    """The machine stops in the middle of a disk call. Not an `Exception`: nobody may handle it."""


@final
class Inode:
    """One file's content, whatever names it has."""

    def __init__(self) -> None:
        self.durable = bytearray()
        self.current = bytearray()
        self.unsynced: list[tuple[int, bytes | None]] = []
        """Writes as (offset, bytes) and truncations as (size, None), in order."""

    def write(self, offset: int, data: bytes) -> None:
        """Change the current content."""
        _apply_write(self.current, offset, data)
        self.unsynced.append((offset, data))

    def truncate(self, size: int) -> None:
        """Cut or extend the current content."""
        _apply_size(self.current, size)
        self.unsynced.append((size, None))

    def sync(self) -> None:
        """Make what is not synced durable."""
        for offset, data in self.unsynced:
            if data is None:
                _apply_size(self.durable, offset)
            else:
                _apply_write(self.durable, offset, data)
        self.unsynced = []

    def lose_track(self) -> None:
        """A sync has failed: pages count as clean, so no later sync writes them."""
        self.unsynced = []

    def crash(self, random: Random) -> None:
        """Keep any part of what is not synced."""
        share = random.choice((0.0, 0.3, 0.7, 0.95, 1.0))
        for offset, data in self.unsynced:
            if data is None:
                if random.random() < share:
                    _apply_size(self.durable, offset)
                continue
            at = 0
            while at < len(data):
                size = min(SECTOR_BYTES - (offset + at) % SECTOR_BYTES, len(data) - at)
                if random.random() < share:
                    _apply_write(self.durable, offset + at, data[at : at + size])
                at += size
        self.unsynced = []
        self.current = bytearray(self.durable)


def _apply_write(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _apply_size(content: bytearray, size: int) -> None:
    if len(content) > size:
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


@final
class SimFile:
    """An open file; see `warren.ports.File`."""

    def __init__(self, disk: SimDisk, inode: Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._boot = disk.boot
        self._open = True

    def _check(self) -> None:
        assert self._open, "a closed file is not used"
        assert self._boot == self._disk.boot, "a handle does not survive a crash"

    def write(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write; a crash may come before, between the buffers, or after."""
        self._check()
        data = b"".join(buffers)
        self._disk.need(self._inode, offset_bytes + len(data))
        if self._disk.stops():
            part = self._disk.random.randrange(len(data) + 1)
            self._inode.write(offset_bytes, data[:part])
            raise Crash
        self._inode.write(offset_bytes, data)
        if data.count(0) < len(data):
            self._disk.written_bytes += len(data)

    def write_durable(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write, then sync."""
        self.write(buffers, offset_bytes)
        self.sync()

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Read the current content."""
        self._check()
        return bytes(self._inode.current[offset_bytes : offset_bytes + size_bytes])

    def sync(self) -> None:
        """Make what was written durable; may fail, may be where the machine stops."""
        self._check()
        self._disk.syncs += 1
        if self._disk.stops():
            raise Crash
        if self._disk.sync_fails_at == self._disk.syncs:
            self._inode.lose_track()
            raise OSError(errno.EIO, "simulated: the sync failed")
        if self._disk.sync_lies:
            return
        self._inode.sync()

    def allocate(self, offset_bytes: int, size_bytes: int) -> None:
        """Extend with zeros, if there is space."""
        self._check()
        end = offset_bytes + size_bytes
        self._disk.need(self._inode, end)
        if self._disk.stops():
            raise Crash
        if end > len(self._inode.current):
            self._inode.truncate(end)

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend."""
        self._check()
        if self._disk.stops():
            raise Crash
        self._inode.truncate(size_bytes)

    def size_bytes(self) -> int:
        """The current size."""
        self._check()
        return len(self._inode.current)

    def close(self) -> None:
        """Release the file."""
        self._open = False


@final
class SimDisk:
    """A directory tree in memory; see `warren.ports.Disk`.

    Attributes:
        random: Where all chances come from.
        capacity_bytes: Size of the disk.
        syncs: Number of file syncs so far.
        sync_fails_at: The number of the sync that fails, 0 for none.
        sync_lies: Whether syncs do nothing and say nothing; for planted bugs.
        crash_after: Changing calls until the machine stops within one, -1 for never.
        boot: Number of crashes and restarts; handles of an earlier one are void.
        written_bytes: How much was written so far, without the zeros that fill new files.
    """

    def __init__(self, seed: int, capacity_bytes: int = 1 << 40) -> None:
        self.random = Random(seed)
        self.capacity_bytes = capacity_bytes
        self.syncs = 0
        self.sync_fails_at = 0
        self.sync_lies = False
        self.crash_after = -1
        self.boot = 0
        self.written_bytes = 0
        self._directories: set[str] = {""}
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._unsynced_names: list[tuple[str, str, Inode | None]] = []
        """(path gone or empty, path set or empty, its inode), in order."""

    def stops(self) -> bool:
        """Count a changing call; True if the machine stops in it."""
        if self.crash_after < 0:
            return False
        self.crash_after -= 1
        return self.crash_after < 0

    def need(self, inode: Inode, size: int) -> None:
        """Fail if a file cannot grow to a size."""
        if size > len(inode.current) and size - len(inode.current) > self.free_bytes():
            raise OSError(errno.ENOSPC, "simulated: no space left")

    # --- the port -------------------------------------------------------------------------------

    def open(self, path: str, create: bool = False) -> SimFile:
        """Open for reading and writing."""
        inode = self._names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", path)
            if self.stops():
                raise Crash
            inode = Inode()
            self._change("", path, inode)
        return SimFile(self, inode)

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        return path in self._names or path in self._directories

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        start = path + "/" if path else ""
        return sorted(
            name[len(start) :]
            for name in self._names
            if name.startswith(start) and "/" not in name[len(start) :]
        )

    def make_directory(self, path: str) -> None:
        """Create a directory. Directories are durable at once."""
        self._directories.add(path)

    def rename(self, source: str, target: str) -> None:
        """Replace one name by another."""
        if self.stops():
            raise Crash
        self._change(source, target, self._names[source])

    def remove(self, path: str) -> None:
        """Delete a name."""
        if path in self._names:
            if self.stops():
                raise Crash
            self._change(path, "", None)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        if self.stops():
            raise Crash
        if self.sync_lies:
            return
        start = path + "/" if path else ""
        rest: list[tuple[str, str, Inode | None]] = []
        for change in self._unsynced_names:
            if (change[0] or change[1]).startswith(start):
                _apply_change(self._durable_names, change)
            else:
                rest.append(change)
        self._unsynced_names = rest

    def free_bytes(self) -> int:
        """Space left."""
        used = sum(len(inode.current) for inode in set(self._names.values()))
        return max(0, self.capacity_bytes - used)

    def _change(self, gone: str, path: str, inode: Inode | None) -> None:
        change = (gone, path, inode)
        _apply_change(self._names, change)
        self._unsynced_names.append(change)

    # --- faults ---------------------------------------------------------------------------------

    def crash(self) -> None:
        """Stop the machine and start it again: keep any part of what was not synced."""
        share = self.random.choice((0.0, 0.5, 1.0))
        for change in self._unsynced_names:
            if self.random.random() < share:
                _apply_change(self._durable_names, change)
        self._unsynced_names = []
        self._names = dict(self._durable_names)
        for path in sorted(self._names):
            self._names[path].crash(self.random)
        self.restart()

    def restart(self) -> None:
        """Stop the process only: what was written stays, synced or not."""
        self.boot += 1
        self.crash_after = -1
        self.sync_fails_at = 0

    def flip(self, path: str, offset_bytes: int, mask: int) -> None:
        """Damage one byte where it lies."""
        inode = self._names[path]
        for content in (inode.current, inode.durable):
            if offset_bytes < len(content):
                content[offset_bytes] ^= mask

    def image(self) -> dict[str, bytes]:
        """Every file's content as it is read."""
        return {path: bytes(inode.current) for path, inode in sorted(self._names.items())}


def _apply_change(names: dict[str, Inode], change: tuple[str, str, Inode | None]) -> None:
    gone, path, inode = change
    if gone:
        names.pop(gone, None)
    if path and inode is not None:
        names[path] = inode


@final
class SimExecutor:
    """Workers that move only when told to; see `warren.ports.Executor`."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lanes: dict[str, deque[Job]] = {}
        self._finished: deque[tuple[Job, BaseException | None]] = deque()

    def submit(self, lane: str, job: Job) -> None:
        """Queue a job."""
        self._lanes.setdefault(lane, deque()).append(job)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to run or to report."""
        return not self._finished and not any(self._lanes.values())

    def step(self) -> bool:
        """Run one job of any lane, or report one that has run; False if there is none."""
        choices = [lane for lane in sorted(self._lanes) if self._lanes[lane]]
        if self._finished:
            choices.append("")
        if not choices:
            return False
        lane = self._random.choice(choices)
        if not lane:
            job, error = self._finished.popleft()
            job.done(error)
            return True
        job = self._lanes[lane].popleft()
        try:
            job.run()
        except Exception as raised:
            self._finished.append((job, raised))
        else:
            self._finished.append((job, None))
        return True

    def drain(self) -> None:
        """Step until nothing is left."""
        while self.step():
            pass
