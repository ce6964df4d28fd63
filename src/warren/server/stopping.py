"""An orderly stop that ends, also where the disk does not answer any more.

The loop's thread may wait for the disk then, so that no timer and no signal handler of the loop
runs. Or it holds the interpreter, so that no Python runs. So C hears the signals, in two steps. The
first one wakes a thread by a pipe. The second one finds no handler and ends the process. Another
thread watches the stop.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import ClassVar

SIGNALS = (signal.SIGTERM, signal.SIGINT)
LOOK_SECONDS = 0.25
BUSY_SECONDS = 0.05
"""Processor time between two looks by which the loop's thread is at work, and does not wait."""
SA_RESETHAND = 0x8000_0000
"""Linux: a signal's handler is forgotten when the signal is taken for the first time."""


def no_stop() -> None:
    """Nobody can be told yet; who begins next is."""


class SignalAction(ctypes.Structure):
    """`struct sigaction` of Linux's C libraries."""

    _fields_: ClassVar = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * (1024 // (8 * ctypes.sizeof(ctypes.c_ulong)))),
        ("flags", ctypes.c_uint),
        ("restorer", ctypes.c_void_p),
    ]


def heed_once(number: int, pipe: int) -> None:
    """Have a signal write to a pipe, whatever the interpreter does; the next one has no handler.

    What is written, for want of another handler in C, is the stack of the thread that took it.
    """
    faulthandler.register(number, file=pipe, all_threads=False)
    library = ctypes.CDLL(None)
    action = SignalAction()
    library.sigaction(number, None, ctypes.byref(action))
    action.flags |= SA_RESETHAND
    library.sigaction(number, ctypes.byref(action), None)


class Signals(threading.Thread):
    """Takes the signals that end the process: the first one in good order, a second one at once."""

    def __init__(self) -> None:
        """Take signals from now on."""
        super().__init__(name="warren-signals", daemon=True)
        self._pipe, pipe = os.pipe()
        for number in SIGNALS:
            heed_once(number, pipe)
        self._stop = no_stop
        self._lock = threading.Lock()
        self._heard = False

    def run(self) -> None:
        """Wait for the first."""
        os.read(self._pipe, 1)
        for number in SIGNALS:
            # A second signal may be the other one.
            ctypes.CDLL(None).signal(number, int(signal.SIG_DFL))
        with self._lock:
            self._heard = True
            self._stop()

    def tell(self, stop: Callable[[], None]) -> None:
        """Say what is to be called at the first signal, by the thread that takes it.

        It is called now if that has come already.
        """
        with self._lock:
            self._stop = stop
            if self._heard:
                stop()


class StopWatch(threading.Thread):
    """Calls something when a stop does not get on."""

    def __init__(
        self, ended: Callable[[], int], stall_seconds: float, hung: Callable[[], None]
    ) -> None:
        """Prepare; made on the loop's thread.

        Args:
            ended: How many jobs of the disk have ended.
            stall_seconds: How long none may end, while the loop's thread waits.
            hung: Called once, on a thread of its own.
        """
        super().__init__(name="warren-stop", daemon=True)
        self._ended = ended
        self._stall_seconds = stall_seconds
        self._hung = hung
        self._clock = time.pthread_getcpuclockid(threading.get_ident())
        self._lock = threading.Lock()
        self._over = threading.Event()

    def begin(self) -> None:
        """Watch, if that has not begun yet; any thread may say so."""
        with self._lock:
            if self.ident is None:
                self.start()

    def run(self) -> None:
        """Look, until there is nothing more to look at."""
        since = time.monotonic()
        before = (-1, 0.0)
        while not self._over.wait(LOOK_SECONDS):
            now = (self._ended(), time.clock_gettime(self._clock))
            if now[0] != before[0] or now[1] - before[1] > BUSY_SECONDS:
                since = time.monotonic()
            elif time.monotonic() - since > self._stall_seconds:
                self._hung()
                return
            before = now

    def cancel(self) -> None:
        """The stop is done."""
        self._over.set()
