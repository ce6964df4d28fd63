"""A disk on which nothing is changed: what is written to it stays in memory.

A start of a node mends what a crash left: it cuts a torn write off, writes the last round once
more, and replaces the manifest where it goes on over damage. All that happens here, too, for those
who read through this view, and for nobody else.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

from warren.errors import StorageError

FREE_BYTES: Final = 1 << 62
"""There is always room in a view: a start writes little."""


class ViewedFile:
    """One file as the view has it.

    The file is opened for each read, so that a log of very many files needs no descriptors.
    """

    def __init__(self, path: Path | None) -> None:
        """
        Args:
            path: Where it lies on disk; None for one that is in the view alone.
        """
        self._path = path
        self._size = 0 if path is None else path.stat().st_size
        self._kept = self._size
        """Up to where the bytes on disk count."""
        self._pieces: list[tuple[int, bytes]] = []
        """What was written since, in that order."""

    def write(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Keep all buffers, as if they lay behind each other at an offset."""
        data = b"".join(buffers)
        self._pieces.append((offset_bytes, data))
        self._size = max(self._size, offset_bytes + len(data))

    def write_durable(self, buffers: list[bytes], offset_bytes: int) -> None:
        """The same: nothing here is durable."""
        self.write(buffers, offset_bytes)

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Up to so many bytes from an offset; fewer only at the end. Raises `OSError`."""
        size = max(min(size_bytes, self._size - offset_bytes), 0)
        data = self._stored(offset_bytes, min(size, max(self._kept - offset_bytes, 0)))
        data += bytes(size - len(data))
        for at, piece in self._pieces:
            low, high = max(at, offset_bytes), min(at + len(piece), offset_bytes + size)
            if low < high:
                head, tail = data[: low - offset_bytes], data[high - offset_bytes :]
                data = head + piece[low - at : high - at] + tail
        return data

    def _stored(self, offset: int, size: int) -> bytes:
        """Bytes as they lie on disk."""
        if self._path is None or size == 0:
            return b""
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            pieces: list[bytes] = []
            while size > 0:
                piece = os.pread(descriptor, size, offset)
                if not piece:
                    break
                pieces.append(piece)
                offset += len(piece)
                size -= len(piece)
            return b"".join(pieces)
        finally:
            os.close(descriptor)

    def sync(self) -> None:
        """Nothing of it goes to the disk."""

    def allocate(self, offset_bytes: int, size_bytes: int) -> None:
        """Have the file be that long; what is added reads as zeros."""
        self._size = max(self._size, offset_bytes + size_bytes)

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend the file to a size."""
        self._kept = min(self._kept, size_bytes)
        self._pieces = [
            (at, piece[: size_bytes - at]) for at, piece in self._pieces if at < size_bytes
        ]
        self._size = size_bytes

    def size_bytes(self) -> int:
        """The file's size in the view."""
        return self._size

    def close(self) -> None:
        """The file stays in the view as it is."""


class DiskView:
    """A data directory, with what was written to the view since."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, ViewedFile] = {}
        """Files that were opened, or that are in the view alone."""
        self._gone: set[str] = set()
        """Names on disk that are not in the view any more."""

    def open(self, path: str, create: bool = False) -> ViewedFile:
        """Open a file; `FileNotFoundError` if there is none and `create` is False."""
        found = self._files.get(path)
        if found is None:
            if self._on_disk(path):
                found = ViewedFile(self._root / path)
            elif create:
                found = ViewedFile(None)
            else:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._files[path] = found
        return found

    def _on_disk(self, path: str) -> bool:
        return path not in self._gone and (self._root / path).exists()

    def exists(self, path: str) -> bool:
        """Whether the view has a file or directory of this name."""
        return path in self._files or self._on_disk(path)

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it does not exist.

        Raises:
            StorageError: It cannot be looked at.
        """
        try:
            names = set(os.listdir(self._root / path))
        except FileNotFoundError:
            names = set()
        except OSError as error:
            raise StorageError(f"{self._root / path}: {error.strerror}") from error
        head = f"{path}/"
        names = {name for name in names if head + name not in self._gone}
        return sorted(names | {name[len(head) :] for name in self._files if name.startswith(head)})

    def make_directory(self, path: str) -> None:
        """A view has directories by the names of its files alone."""

    def rename(self, source: str, target: str) -> None:
        """Replace `target` by `source`."""
        self._files[target] = self.open(source)
        self._gone.discard(target)
        self.remove(source)

    def remove(self, path: str) -> None:
        """Have no file of this name; no error if there was none."""
        self._files.pop(path, None)
        self._gone.add(path)

    def sync_directory(self, path: str) -> None:
        """No name goes to the disk."""

    def free_bytes(self) -> int:
        """More than whoever starts asks for."""
        return FREE_BYTES
