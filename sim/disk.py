"""A disk that loses, tears and reorders what was not synced, fails, and fills up; from a seed.

What a file was synced to is its `durable` content; what is read is its `current` one. A crash of
the machine keeps, of everything written since, any part: each 512-byte sector of each write on its
own, each truncation or not, and of the names created, renamed or removed without a directory sync
any part too. That is the least a POSIX system promises; real ones are kinder.

A call may also fail as it does on a bad disk, with EIO; see `Failing`.

`SimExecutor` runs the jobs one step at a time, so that other things, crashes too, fall between the
submission of a job, its run and its report.
"""

from __future__ import annotations

import errno
from collections import deque
from random import Random
from typing import Final, final

from warren.ports import Job
from warren.queues import paging

SECTOR_BYTES = 512

WRITE: Final = "write"
SYNC: Final = "sync"
ALLOCATE: Final = "allocate"
TRUNCATE: Final = "truncate"
OPEN: Final = "open"
RENAME: Final = "rename"
REMOVE: Final = "remove"
SYNC_DIRECTORY: Final = "sync_directory"
CHANGES: Final = (WRITE, SYNC, ALLOCATE, TRUNCATE, OPEN, RENAME, REMOVE, SYNC_DIRECTORY)
"""Calls that change something; of `open` those that create a file."""
READ: Final = "read"
LIST: Final = "list"
LOOKS: Final = (READ, LIST)
"""Calls that change nothing. They fail apart from the others, and need not end a process."""


class Crash(BaseException):
    """The machine stops in the middle of a disk call. Not an `Exception`: nobody may handle it."""


@final
class Failing:
    """Which calls to a disk fail with EIO.

    A call that fails may have done a part of its work: some of the bytes are there, or the whole
    change is, and nothing says so. What a failed sync was to make durable may be or not, and
    no later sync sees to it. The names of a directory are another matter: a later sync of it does,
    since a file system that lost track of its own changes would not go on.

    Attributes:
        calls: Calls of these kinds count.
        after: So many of them succeed before the first one fails; -1 if none does.
        times: So many fail then, one after the other.
        count: How many have failed since the disk is there.
        fatal: How many of them have to end the process: not those to pages, which keep what
            memory lacks and no life but their own.
        failed: The kinds of those that have failed and were not looked at yet.
    """

    def __init__(self) -> None:
        self.calls: tuple[str, ...] = ()
        self.after = -1
        self.times = 0
        self.count = 0
        self.fatal = 0
        self.failed: list[str] = []

    def begin(self, calls: tuple[str, ...], after: int, times: int) -> None:
        """From now on some calls fail."""
        self.calls, self.after, self.times = calls, after, times

    def end(self) -> None:
        """From now on no call fails."""
        self.after = -1

    def strikes(self, call: str, path: str) -> bool:
        """Count a call; True if it fails."""
        if self.after < 0 or call not in self.calls:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        if self.times <= 0:
            self.end()
        self.count += 1
        self.fatal += not path.startswith(paging.DIRECTORY)
        self.failed.append(call)
        return True


@final
class Astray:
    """A write that a disk reports as done, and that is not where it should be.

    It is read all the same, as long as the machine keeps it in memory. After a crash it never was
    there, unless it was written once more.

    Attributes:
        after: So many writes to files of the log come before it; -1 if none goes astray.
        lands: Whether it lands somewhere else, over what is there, in place of nowhere.
        path: Where it was to be, once it has gone astray; empty before.
        offset: Likewise.
    """

    def __init__(self) -> None:
        self.after = -1
        self.lands = False
        self.path = ""
        self.offset = 0

    def begin(self, after: int, lands: bool) -> None:
        """From now on one write goes astray."""
        self.after, self.lands, self.path = after, lands, ""

    def strikes(self, path: str, offset: int) -> bool:
        """Count a write; True if it goes astray."""
        if self.after < 0 or path.startswith(paging.DIRECTORY):
            return False
        self.after -= 1
        if self.after >= 0:
            return False
        self.path, self.offset = path, offset
        return True


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

    def lose(self, offset: int, data: bytes) -> None:
        """Change the current content, which the disk never gets."""
        _apply_write(self.current, offset, data)

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
        self.settle(random)
        self.current = bytearray(self.durable)

    def settle(self, random: Random) -> None:
        """Decide what becomes durable of what is not synced; what is read stays what it is."""
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
    """An open file; see `warren.ports.File`.

    Attributes:
        path: Under which it was opened.
    """

    def __init__(self, disk: SimDisk, inode: Inode, path: str) -> None:
        self._disk = disk
        self.path = path
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
        if self._disk.failing.strikes(WRITE, self.path):
            part = self._disk.random.randrange(len(data) + 1)
            self._inode.write(offset_bytes, data[:part])
            raise failed(WRITE)
        if self._disk.astray.strikes(self.path, offset_bytes):
            self._inode.lose(offset_bytes, data)
            if self._disk.astray.lands:
                self._disk.land(data)
        else:
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
        if self._disk.reading.strikes(READ, self.path):
            raise failed(READ)
        return bytes(self._inode.current[offset_bytes : offset_bytes + size_bytes])

    def content(self, size_bytes: int) -> bytes:
        """What would be read, which cannot fail: for who looks at the node from outside."""
        return bytes(self._inode.current[:size_bytes])

    def sync(self) -> None:
        """Make what was written durable; may fail, may be where the machine stops."""
        self._check()
        self._disk.syncs += 1
        if self._disk.stops():
            raise Crash
        if self._disk.sync_fails_at == self._disk.syncs:
            self._inode.lose_track()
            raise OSError(errno.EIO, "simulated: the sync failed")
        if self._disk.failing.strikes(SYNC, self.path):
            self._inode.settle(self._disk.random)
            raise failed(SYNC)
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
        error = self._disk.error_of(ALLOCATE, self.path)
        if end > len(self._inode.current) and (error is None or self._disk.half()):
            self._inode.truncate(end)
        if error is not None:
            raise error

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend."""
        self._check()
        if self._disk.stops():
            raise Crash
        error = self._disk.error_of(TRUNCATE, self.path)
        if error is None or self._disk.half():
            self._inode.truncate(size_bytes)
        if error is not None:
            raise error

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
        failing: Which calls fail that change something.
        reading: Which of the others do.
        astray: Which write is not where it should be.
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
        self.failing = Failing()
        self.reading = Failing()
        self.astray = Astray()
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

    def error_of(self, call: str, path: str) -> OSError | None:
        """What a call is to raise; it may have done its work all the same."""
        return failed(call) if self.failing.strikes(call, path) else None

    def half(self) -> bool:
        """Whether a call that fails has done its work."""
        return self.random.random() < 0.5

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
            error = self.error_of(OPEN, path)
            if error is None or self.half():
                self._change("", path, inode)
            if error is not None:
                raise error
        return SimFile(self, inode, path)

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        return path in self._names or path in self._directories

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted."""
        if self.reading.strikes(LIST, path):
            raise failed(LIST)
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
        error = self.error_of(RENAME, source)
        if error is None or self.half():
            self._change(source, target, self._names[source])
        if error is not None:
            raise error

    def remove(self, path: str) -> None:
        """Delete a name."""
        if path in self._names:
            if self.stops():
                raise Crash
            error = self.error_of(REMOVE, path)
            if error is None or self.half():
                self._change(path, "", None)
            if error is not None:
                raise error

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        if self.stops():
            raise Crash
        error = self.error_of(SYNC_DIRECTORY, path)
        if error is not None:
            raise error
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

    def land(self, data: bytes) -> None:
        """Write something over what any file has on the disk, from the beginning of a sector on."""
        paths = [path for path, inode in sorted(self._names.items()) if len(inode.durable)]
        if not paths:
            return
        inode = self._names[self.random.choice(paths)]
        sectors = (len(inode.durable) - 1) // SECTOR_BYTES + 1
        at = self.random.randrange(sectors) * SECTOR_BYTES
        # No file grows by what was not written to it.
        data = data[: len(inode.durable) - at]
        _apply_write(inode.durable, at, data)

    def image(self) -> dict[str, bytes]:
        """Every file's content as it is read."""
        return {path: bytes(inode.current) for path, inode in sorted(self._names.items())}


def failed(call: str) -> OSError:
    """What a call to a bad disk raises."""
    return OSError(errno.EIO, f"simulated: {call} failed")


def _apply_change(names: dict[str, Inode], change: tuple[str, str, Inode | None]) -> None:
    gone, path, inode = change
    if gone:
        names.pop(gone, None)
    if path and inode is not None:
        names[path] = inode


@final
class SimExecutor:
    """Workers that move only when told to; see `warren.ports.Executor`.

    Attributes:
        failed: Whether a job has been reported in which a call to the disk had failed.
    """

    def __init__(self, random: Random, disk: SimDisk | None = None) -> None:
        self._random = random
        self._failing = Failing() if disk is None else disk.failing
        self._lanes: dict[str, deque[Job]] = {}
        self._finished: deque[tuple[Job, BaseException | None]] = deque()
        self._met: list[Job] = []
        """Jobs in which a call to the disk has failed, which are to be reported."""
        self.failed = False

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
            self.failed = self.failed or job in self._met
            return True
        job = self._lanes[lane].popleft()
        failures = self._failing.fatal
        try:
            job.run()
        except Exception as raised:
            self._finished.append((job, raised))
        else:
            self._finished.append((job, None))
        if self._failing.fatal > failures:
            self._met.append(job)
        return True

    def drain(self) -> None:
        """Step until nothing is left."""
        while self.step():
            pass
