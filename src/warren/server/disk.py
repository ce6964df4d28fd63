"""The disk as the operating system gives it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

IOV_MAX: Final = os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 16
"""Most buffers the kernel takes in one gathered write."""

DSYNC: Final[int] = getattr(os, "RWF_DSYNC", 0)
"""Flag that makes one write durable before it returns; 0 where the platform has none."""


class OsFile:
    """One open file; see `warren.ports.File`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write all buffers, gathered, at an offset."""
        self._write(buffers, offset_bytes, 0)

    def write_durable(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write all buffers and wait until they would survive a crash of the machine."""
        if DSYNC and len(buffers) <= IOV_MAX:
            self._write(buffers, offset_bytes, DSYNC)
        else:
            self._write(buffers, offset_bytes, 0)
            os.fdatasync(self._descriptor)

    def _write(self, buffers: list[bytes], offset_bytes: int, flags: int) -> None:
        for start in range(0, len(buffers), IOV_MAX):
            rest: list[bytes] | list[memoryview] = buffers[start : start + IOV_MAX]
            missing = sum(map(len, rest))
            while missing:
                written = os.pwritev(self._descriptor, rest, offset_bytes, flags)
                offset_bytes += written
                missing -= written
                if missing:
                    rest = _behind(rest, written)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes from an offset; fewer only at the end of the file."""
        data = os.pread(self._descriptor, size_bytes, offset_bytes)
        if len(data) == size_bytes or not data:
            return data
        pieces = [data]
        have = len(data)
        while have < size_bytes:
            data = os.pread(self._descriptor, size_bytes - have, offset_bytes + have)
            if not data:
                break
            pieces.append(data)
            have += len(data)
        return b"".join(pieces)

    def sync(self) -> None:
        """Make everything written so far survive a crash of the machine."""
        os.fdatasync(self._descriptor)

    def allocate(self, offset_bytes: int, size_bytes: int) -> None:
        """Reserve disk space; `OSError(ENOSPC)` if there is none."""
        os.posix_fallocate(self._descriptor, offset_bytes, size_bytes)

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend the file to a size."""
        os.ftruncate(self._descriptor, size_bytes)

    def size_bytes(self) -> int:
        """The file's present size."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)


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
    """A data directory; see `warren.ports.Disk`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}" if path else str(self._root)

    def open(self, path: str, create: bool = False) -> OsFile:
        """Open for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT
        return OsFile(os.open(self._path(path), flags, 0o600))

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
        os.replace(self._path(source), self._path(target))

    def remove(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""
        try:
            os.unlink(self._path(path))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a crash."""
        descriptor = os.open(self._path(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self) -> int:
        """Space left for ordinary files."""
        figures = os.statvfs(self._root)
        return figures.f_bavail * figures.f_frsize
