"""The outside world as node code sees it: clock, randomness, disk, workers, transports.

The server shell implements these with the operating system, the simulator with virtual time and
faulty disks. Nothing below `warren.server` reaches the world in any other way.
"""

from __future__ import annotations

from typing import Protocol

from mypy_extensions import mypyc_attr


class Clock(Protocol):
    """Time. Wall time may jump; monotonic time may not."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def monotonic_ms(self) -> int:
        """Milliseconds from an arbitrary start; never goes back."""


class Random(Protocol):
    """Randomness that a seed can replay."""

    def bytes(self, count: int) -> bytes:
        """`count` random bytes, fit for names and identities that must not be guessed."""


class File(Protocol):
    """One open file. Every call may block and may raise `OSError`."""

    def write(self, buffers: list[bytes], offset_bytes: int) -> None:
        """Write all buffers, gathered, at an offset. Not durable before `sync`."""

    def write_durable(self, buffers: list[bytes], offset_bytes: int) -> None:
        """`write` followed by `sync`, in one system call where there is one."""

    def read(self, offset_bytes: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes from an offset; fewer only at the end of the file."""

    def sync(self) -> None:
        """Make everything written so far survive a crash of the machine (`fdatasync`)."""

    def allocate(self, offset_bytes: int, size_bytes: int) -> None:
        """Reserve disk space, which reads as zeros until written; `OSError(ENOSPC)` if none."""

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend the file to a size."""

    def size_bytes(self) -> int:
        """The file's present size."""

    def close(self) -> None:
        """Release the file. Does not sync."""


class Disk(Protocol):
    """A directory tree. Paths are relative to the node's data directory, with `/` between parts.

    A created, renamed or removed name survives a crash only after `sync_directory`.
    """

    def open(self, path: str, create: bool = False) -> File:
        """Open for reading and writing. `FileNotFoundError` if absent and `create` is False."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty if it does not exist."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents; no error if it exists."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target` by `source`."""

    def remove(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory survive a crash."""

    def free_bytes(self) -> int:
        """Space left for ordinary files."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Job:
    """Blocking work for a worker. `run` happens off the node's thread, `done` back on it.

    Attributes:
        brief: Whether `run` is as short as handing it to another thread. The executor may then do
            both at once, before `submit` returns, while the disk answers promptly.
    """

    brief: bool = False

    def run(self) -> None:
        """The blocking part. Touches nothing that the node's thread may touch meanwhile."""
        raise AssertionError("a job defines run")

    def done(self, error: BaseException | None) -> None:
        """What follows, on the node's thread; `error` is what `run` raised."""
        raise AssertionError("a job defines done")


class Executor(Protocol):
    """Workers for blocking jobs. Jobs of one lane run one at a time, in order."""

    def submit(self, lane: str, job: Job) -> None:
        """Queue a job. Lanes: `wal` (group commit), `read` (backlogs), `compact` (background)."""


class Transport(Protocol):
    """The byte stream to one client."""

    def write(self, data: bytes) -> None:
        """Queue bytes for sending; never blocks."""

    def write_eof(self) -> None:
        """Send what is queued and say that nothing follows; input still arrives."""

    def close(self) -> None:
        """Send what is queued, then close."""

    def abort(self) -> None:
        """Close now and drop what is queued."""

    def pause_reading(self) -> None:
        """Stop delivering input until `resume_reading`."""

    def resume_reading(self) -> None:
        """Deliver input again."""
