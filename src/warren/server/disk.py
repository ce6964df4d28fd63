"""The disk as the operating system gives it."""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Final

IOV_MAX: Final = os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16
"""Most buffers the kernel takes in one gathered write."""

DSYNC: Final[int] = getattr(os, "RWF_DSYNC", 0)
"""Flag that makes one write durable before it returns; 0 where the platform has none."""

FILE_FLAGS: Final = os.O_RDWR | os.O_CLOEXEC

DESCRIPTORS_MAX: Final = 256
"""Log files that are open at a time, unless the process may not have so many."""

RESERVE: Final = 4
"""Descriptors kept for the log's files: each of its threads opens one file at a time."""


class OsFile:
    """One open file; see `warren.ports.File`.

    Its descriptor comes and goes, see `OsDisk`.
    """

    def __init__(self, disk: OsDisk, path: str, descriptor: int) -> None:
        self._disk = disk
        self.path = path
        self.descriptor = descriptor
        """-1 while there is none."""
        self.users = 0
        """Calls under way that use it."""
        self.unsynced = False
        """Whether an error of what was written could still be reported to this descriptor only."""
        self.unnamed = False
        """Whether the file cannot be opened again by its name."""

    def write(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write all buffers, gathered, at an offset."""
        with self._disk.use(self) as descriptor:
            self.unsynced = True
            _write(descriptor, buffers, offset_bytes, 0)

    def write_durable(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write all buffers and wait until they would survive a crash of the machine."""
        # As with `use`, without its object: this is done for each message where one is in flight.
        descriptor = self._disk.begin(self)
        try:
            if DSYNC and len(buffers) <= IOV_MAX:
                _write(descriptor, buffers, offset_bytes, DSYNC)
            else:
                _write(descriptor, buffers, offset_bytes, 0)
                os.fdatasync(descriptor)
        finally:
            self._disk.end(self)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes from an offset; fewer only at the end of the file."""
        with self._disk.use(self) as descriptor:
            data = os.pread(descriptor, size_bytes, offset_bytes)
            if len(data) == size_bytes or not data:
                return data
            pieces = [data]
            have = len(data)
            while have < size_bytes:
                data = os.pread(descriptor, size_bytes - have, offset_bytes + have)
                if not data:
                    break
                pieces.append(data)
                have += len(data)
        return b"".join(pieces)

    def sync(self) -> None:
        """Make everything written so far survive a crash of the machine."""
        with self._disk.use(self) as descriptor:
            os.fdatasync(descriptor)
            self.unsynced = False

    def allocate(self, offset_bytes: int, size_bytes: int) -> None:
        """Reserve disk space; `OSError(ENOSPC)` if there is none."""
        with self._disk.use(self) as descriptor:
            os.posix_fallocate(descriptor, offset_bytes, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend the file to a size."""
        with self._disk.use(self) as descriptor:
            os.ftruncate(descriptor, size_bytes)

    def size_bytes(self) -> int:
        """The file's present size."""
        with self._disk.use(self) as descriptor:
            return os.fstat(descriptor).st_size

    def close(self) -> None:
        """Release the file."""
        self._disk.close(self)


class Use:
    """A call that uses a file's descriptor."""

    def __init__(self, disk: OsDisk, file: OsFile) -> None:
        self._disk = disk
        self._file = file

    def __enter__(self) -> int:
        return self._disk.begin(self._file)

    def __exit__(self, *raised: object) -> None:
        self._disk.end(self._file)


def _write(descriptor: int, buffers: list[bytes], offset_bytes: int, flags: int) -> None:
    for start in range(0, len(buffers), IOV_MAX):
        rest: list[bytes] | list[memoryview] = buffers
        if len(buffers) > IOV_MAX:
            rest = buffers[start : start + IOV_MAX]
        missing = sum(map(len, rest))
        while missing:
            written = os.pwritev(descriptor, rest, offset_bytes, flags)
            offset_bytes += written
            missing -= written
            if missing:
                rest = _behind(rest, written)


def _behind(buffers: list[bytes] | list[memoryview], written: int) -> list[memoryview]:
    """What a short write left over."""
    rest: list[memoryview] = []
    for buffer in buffers:
        if written >= len(buffer):
            written -= len(buffer)
        else:
            rest.append(memoryview(buffer)[written:])
            written = 0
    return rest


class OsDisk:
    """A data directory; see `warren.ports.Disk`.

    However many files are open, at most `descriptors_max` of them hold a descriptor: the one that
    was used least recently gives its own up for another, and gets it back when it is used. Some are
    kept in reserve, so that a file can be opened when connections have taken all there are, and the
    directories that are synced stay open. Files may be used from several threads.
    """

    def __init__(self, root: Path, descriptors_max: int = DESCRIPTORS_MAX) -> None:
        self._root = root
        self._descriptors_max = descriptors_max
        self._lock = threading.Lock()
        self._crowd = descriptors_max // 2
        """Up to so many files with a descriptor it is not minded which was used when."""
        self._holding: OrderedDict[OsFile, None] = OrderedDict()
        """Files with a descriptor; where these are a crowd, the least recently used one first."""
        self._named: dict[str, OsFile] = {}
        self._directories: dict[str, int] = {}
        self._reserve: list[int] = []

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else str(self._root)

    # --- descriptors ----------------------------------------------------------------------------

    def use(self, file: OsFile) -> Use:
        """Have a descriptor for a call."""
        return Use(self, file)

    def begin(self, file: OsFile) -> int:
        """A call on a file begins: its descriptor, which stays until `end`."""
        with self._lock:
            descriptor = file.descriptor
            if descriptor >= 0:
                file.users += 1
                if len(self._holding) > self._crowd:
                    self._holding.move_to_end(file)
                return descriptor
        return self._begin_again(file)

    def _begin_again(self, file: OsFile) -> int:
        """The same for a file that has given its descriptor up."""
        descriptor = -1
        while True:
            with self._lock:
                if file.descriptor < 0:
                    file.descriptor = descriptor
                    descriptor = -1
                found = file.descriptor
                if found >= 0:
                    file.users += 1
                    self._holding[file] = None
                    self._holding.move_to_end(file)
                path = file.path
            if descriptor >= 0:
                # Another thread was faster.
                os.close(descriptor)
            if found >= 0:
                return found
            try:
                descriptor = self._open(self._path(path), FILE_FLAGS)
            except FileNotFoundError:
                # It may have been renamed just now.
                if file.path == path:
                    raise

    def end(self, file: OsFile) -> None:
        """A call on a file is over."""
        with self._lock:
            file.users -= 1
            if len(self._holding) > self._descriptors_max:
                self._limit(self._descriptors_max)

    def close(self, file: OsFile) -> None:
        """A file is used no more."""
        with self._lock:
            self._holding.pop(file, None)
            if self._named.get(file.path) is file:
                del self._named[file.path]
            descriptor = file.descriptor
            file.descriptor = -1
        if descriptor >= 0:
            # The last one of a file that was removed may take its time.
            os.close(descriptor)
        self._fill_reserve()

    def _limit(self, most: int) -> None:
        """Let files that are idle give their descriptors up until so many are held."""
        if len(self._holding) <= most:
            return
        for file in list(self._holding):
            if not file.users and not file.unsynced and not file.unnamed:
                del self._holding[file]
                os.close(file.descriptor)
                file.descriptor = -1
                if len(self._holding) <= most:
                    return

    def _open(self, path: str, flags: int) -> int:
        """Open, out of the reserve if there is no descriptor left."""
        while True:
            try:
                return os.open(path, flags, 0o600)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                with self._lock:
                    held = len(self._holding)
                    self._limit(held - 1)
                    if len(self._holding) == held:
                        if not self._reserve:
                            raise
                        os.close(self._reserve.pop())

    def _fill_reserve(self) -> None:
        with self._lock:
            try:
                while len(self._reserve) < RESERVE:
                    self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise

    # --- the port -------------------------------------------------------------------------------

    def open(self, path: str, create: bool = False) -> OsFile:
        """Open for reading and writing."""
        flags = FILE_FLAGS | os.O_CREAT if create else FILE_FLAGS
        file = OsFile(self, path, self._open(self._path(path), flags))
        with self._lock:
            self._holding[file] = None
            self._named[path] = file
            self._limit(self._descriptors_max)
        self._fill_reserve()
        return file

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""
        return os.path.exists(self._path(path))

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it does not exist."""
        try:
            return sorted(os.listdir(self._path(path)))
        except FileNotFoundError:
            return []

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""
        os.makedirs(self._path(path), mode=0o700, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target` by `source`."""
        self._lose_name(target)
        file = self._named.get(source)
        if file is None:
            os.replace(self._path(source), self._path(target))
            return
        with Use(self, file):
            os.replace(self._path(source), self._path(target))
            with self._lock:
                del self._named[source]
                file.path = target
                self._named[target] = file

    def remove(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""
        self._lose_name(path)
        try:
            os.unlink(self._path(path))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def _lose_name(self, path: str) -> None:
        """Whoever still reads a file that is about to lose its name keeps a descriptor."""
        file = self._named.get(path)
        if file is not None:
            with Use(self, file), self._lock:
                file.unnamed = True
                self._named.pop(path, None)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a crash."""
        descriptor = self._directories.get(path)
        if descriptor is None:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            descriptor = self._open(self._path(path), flags)
            self._directories[path] = descriptor
        os.fsync(descriptor)

    def free_bytes(self) -> int:
        """Space left for ordinary files."""
        figures = os.statvfs(self._root)
        return figures.f_bavail * figures.f_frsize
