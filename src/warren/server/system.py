"""What the operating system has for a node: clock, random bytes, memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path


class SystemClock:
    """`ports.Clock` by the operating system."""

    # A node asks several times a message: nothing of the interpreter is in between.
    wall_ns = staticmethod(time.time_ns)
    monotonic_ns = staticmethod(time.monotonic_ns)


class SystemRandom:
    """`ports.Random` by the operating system."""

    def bytes(self, count: int) -> bytes:
        """Bytes from the kernel's generator."""
        return os.urandom(count)


def total_memory_bytes() -> int:
    """Memory of this machine, or of the control groups that bound this process."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([total, *group_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))])


def group_limits(groups: Path, mounted: Path) -> Iterator[int]:
    """The limits of a process's control group and of all that this one is in, in bytes.

    Args:
        groups: The file that says in which groups the process is.
        mounted: Where groups are.

    Source: Linux, cgroups(7) and the interface files of the memory controllers of both versions.
    """
    try:
        lines = groups.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return
    names: tuple[str, ...]
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top, names = mounted, ("memory.max", "memory.high")
        elif "memory" in controllers.split(","):
            top, names = mounted / "memory", ("memory.limit_in_bytes",)
        else:
            continue
        # In a container the path may be that of the machine outside: the top is its group then.
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for depth in range(len(parts), -1, -1):
            for name in names:
                limit = _number_in(top.joinpath(*parts[:depth], name))
                if limit > 0:
                    yield limit


def _number_in(file: Path) -> int:
    """The number in a file; 0 where there is none."""
    try:
        text = file.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() else 0


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_descriptors() -> int:
    """Descriptors that this process has open."""
    # Linux tells since 6.2; to list 10,000 of them takes ten milliseconds.
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
