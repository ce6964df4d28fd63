"""Heartbeats to clients while a write keeps the event loop.

A node that is alone writes brief rounds on the loop's own thread (decision 29). A disk that hangs
in such a write keeps the loop for as long, and nobody could tell the clients that the broker is
there. Then a thread of its own sends them heartbeats, straight to their sockets, until the loop
goes on. The same thread looks for the watchdog whether the loop takes turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Protocol

from warren.server.executor import ThreadExecutor
from warren.server.watchdog import Watchdog

LOOK_SECONDS = 0.25
KEPT_MS_MAX = 500
"""How long the loop may be kept before its clients get heartbeats from here."""


class Beating(Protocol):
    """One client's socket."""

    def beat(self, now_ms: int) -> None:
        """Send a heartbeat if one is due; called while the loop is kept, by another thread."""


class Pulse:
    """The thread that looks after the loop."""

    def __init__(
        self, executor: ThreadExecutor, clients: Iterable[Beating], watchdog: Watchdog
    ) -> None:
        """Prepare; `clients` may change while the loop goes on, and only then."""
        self._watchdog = watchdog
        self._executor = executor
        self._clients = clients
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="warren-pulse", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            # A process that was stopped meanwhile has seen one look, however long it was stopped.
            self._watchdog.look(LOOK_SECONDS, self._executor.kept_ms() > 0)
            if self._executor.kept_ms() > KEPT_MS_MAX:
                # The loop does not go on before the lock is free, so nothing changes meanwhile.
                with self._executor.keeping:
                    if self._executor.kept_ms() > KEPT_MS_MAX:
                        now_ms = time.monotonic_ns() // 1_000_000
                        for client in self._clients:
                            client.beat(now_ms)
