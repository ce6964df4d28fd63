"""Ends a process whose loop stands still, with the stacks of its threads.

A supervisor starts it again, and clients go on elsewhere meanwhile.

There are two looks. A loop that burns the processor may hold the interpreter, so that no Python
runs: the kernel counts the process's time and sends a signal, whose handler is C. A loop that waits
for something that never comes leaves the interpreter to others: a thread counts its own looks. No
look goes by the wall clock: a process that was stopped for an hour did not stand still by itself.

A disk that hangs is no such case: a node waits for it, and says so (`pulse`, `stopping`).
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
from typing import Final

log = logging.getLogger("warren")

STILL_SECONDS: Final = 30.0
"""Processor time of the process, or time that a thread of it has seen, within which the loop has to
take a turn. The longest turns that are known take a tenth of a second."""


class Watchdog:
    """Watches the loop of one process. `feed` belongs to the loop's thread, `look` to another."""

    def __init__(self, seconds: float = STILL_SECONDS) -> None:
        self._seconds = seconds
        self._seen = 0.0
        """How long the looking thread has seen no feed."""
        self._armed = False

    def arm(self) -> None:
        """Begin to watch."""
        # Behind the stacks follows what the signal does by itself: it ends the process.
        faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)
        self._armed = True
        self.feed()

    def feed(self) -> None:
        """The loop took a turn."""
        self._seen = 0.0
        if self._armed:
            signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def look(self, passed_seconds: float, waits_for_disk: bool) -> None:
        """See whether the loop has taken a turn of late; called a few times a second.

        Args:
            passed_seconds: Since the look before, by a clock that other threads do not delay.
            waits_for_disk: Whether the loop's thread is known to wait for a disk.
        """
        if waits_for_disk or not self._armed:
            self._seen = 0.0
            return
        self._seen += passed_seconds
        if self._seen > self._seconds:
            log.critical("the loop has stood still for %.0f s: the node ends", self._seconds)
            faulthandler.dump_traceback(sys.stderr)
            logging.shutdown()
            os._exit(1)

    def disarm(self) -> None:
        """Watch no more: the node is being closed, which has a watch of its own."""
        if self._armed:
            self._armed = False
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            faulthandler.unregister(signal.SIGPROF)
