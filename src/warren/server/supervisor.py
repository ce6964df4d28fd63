"""What a node tells systemd: that it is ready, that it stops, and that its loop turns.

The protocol is a datagram of `NAME=value` to the socket that `NOTIFY_SOCKET` names. Without one
nothing is told.

Source: systemd's sd_notify(3) and sd_watchdog_enabled(3).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
ALIVE: Final = "WATCHDOG=1"


class Supervisor:
    """Whom a process tells how it is.

    Attributes:
        watches: Whether it wants to hear again and again that the process lives.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._where = environment.get("NOTIFY_SOCKET", "")
        process = environment.get("WATCHDOG_PID", "")
        # Of another process, which started this one, the watchdog is no business of ours.
        ours = process in ("", str(os.getpid()))
        self.watches = bool(self._where and environment.get("WATCHDOG_USEC") and ours)

    def tell(self, word: str) -> None:
        """Send a word; one that does not arrive is no reason to end."""
        if not self._where:
            return
        # An abstract socket's name begins with a zero byte.
        where = "\0" + self._where[1:] if self._where.startswith("@") else self._where
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto(word.encode(), where)
        except OSError:
            return

    def tick(self) -> None:
        """Say that the loop turns; to be called once a second."""
        if self.watches:
            self.tell(ALIVE)
