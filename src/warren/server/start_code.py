"""Code that only a start needs leaves memory once the start is over.

Of what a process has mapped of its libraries most is touched once, while modules are imported: a
third of an idle node. The kernel keeps such pages for as long as it has room. They are given back
here; what runs again is found in the kernel's cache of files and mapped anew, 64 KB at a time.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator
from typing import final

from warren.ports import Job

MAPS = "/proc/self/smaps"
MADV_DONTNEED = 4
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r-[x-]p \S+ \S+ \d+ +\S.*\.so(?:\.[0-9.]+)?$")
_ANONYMOUS = re.compile(r"Anonymous: +(\d+) kB$")


def unchanged_code(lines: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Find what is mapped of libraries, cannot be written and never was.

    Pages that were changed, if only by the linker, are not in the library's file.

    Args:
        lines: Of the kernel's `smaps`.

    Yields:
        Address and size in bytes of each mapping.
    """
    start = size = 0
    for line in lines:
        line = line.rstrip()
        if found := _MAPPING.match(line):
            start = int(found[1], 16)
            size = int(found[2], 16) - start
        elif "-" in line.partition(" ")[0]:
            size = 0
        elif size and (found := _ANONYMOUS.match(line)):
            if found[1] == "0":
                yield start, size
            size = 0


@final
class StartCode(Job):
    """Gives back what the start of this process has left in memory of its libraries."""

    def run(self) -> None:
        """Give it back; where there is no such file or call, nothing is done. Takes some 10 ms."""
        try:
            advise = ctypes.CDLL(None).madvise
            with open(MAPS) as file:
                mappings = list(unchanged_code(file))
        except (AttributeError, OSError):
            return
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for start, size in mappings:
            advise(start, size, MADV_DONTNEED)

    def done(self, error: BaseException | None) -> None:
        """Nobody waits for it."""
