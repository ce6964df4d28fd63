"""What the operating system has for a node: clock, random bytes, memory."""

from __future__ import annotations

import os
import time


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
    """Memory of this machine, or of the control group that bounds this process."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            limit = file.read().strip()
        if limit != "max":
            total = min(total, int(limit))
    except OSError:
        pass
    return total


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def open_descriptors() -> int:
    """Descriptors that this process has open."""
    # Linux tells since 6.2; to list 10,000 of them takes ten milliseconds.
    return os.stat("/proc/self/fd").st_size or len(os.listdir("/proc/self/fd"))
