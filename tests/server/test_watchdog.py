"""A process whose loop stands still ends with its stack; one that was stopped goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time

import pytest

from tests.support.patience import patient
from warren.server.watchdog import Watchdog

WAIT_S = patient(30.0)


def run(code: str) -> subprocess.Popen[str]:
    """Start a process that runs some Python, and wait until it says so."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


STANDS_STILL = """
    import re
    from warren.server.stopping import Signals
    from warren.server.watchdog import Watchdog

    Signals().start()
    watchdog = Watchdog({seconds})
    watchdog.arm()
    print("begins")

    def stands_still():
        # One call of C that keeps the interpreter to itself for longer than anybody waits.
        re.match("(a+)+$", "a" * 99 + "b")

    stands_still()
"""


def test_loop_that_keeps_the_interpreter_ends_its_process() -> None:
    """No thread of it runs any Python: the kernel's clock ends it, and C writes its stack."""
    process = run(STANDS_STILL.format(seconds=0.5))
    _, told = process.communicate(timeout=WAIT_S)
    assert process.returncode == -signal.SIGPROF
    assert "stands_still" in told


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_a_process_whatever_it_does(second: signal.Signals) -> None:
    """The first one is taken without the interpreter, and no handler is left for the second."""
    process = run(STANDS_STILL.format(seconds=1_000.0))
    process.send_signal(second)
    deadline = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < deadline:
        # Two signals at once are one.
        process.send_signal(second)
        time.sleep(0.01)
    assert process.returncode == -second
    process.communicate()


def test_loop_that_waits_for_ever_ends_its_process() -> None:
    """Another thread has looked for so long, and the loop has taken no turn."""
    process = run(
        """
        import threading
        from warren.server.watchdog import Watchdog

        watchdog = Watchdog(1.0)
        watchdog.arm()

        def look():
            while True:
                watchdog.look(0.25, False)
                threading.Event().wait(0.01)

        threading.Thread(target=look, daemon=True).start()
        print("begins")

        def waits_for_ever():
            threading.Lock().acquire() and threading.Event().wait()

        waits_for_ever()
        """
    )
    _, told = process.communicate(timeout=WAIT_S)
    assert process.returncode == 1
    assert "stood still" in told and "waits_for_ever" in told


def test_looks_without_turns_count_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that takes turns, or waits for a disk, is left alone; so is a stopped process."""
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr("logging.shutdown", lambda: None)
    monkeypatch.setattr("faulthandler.register", lambda *_, **__: None)
    monkeypatch.setattr("faulthandler.unregister", lambda *_: None)
    monkeypatch.setattr("faulthandler.dump_traceback", lambda *_: None)
    watchdog = Watchdog(10.0)
    for _ in range(100):
        watchdog.look(0.25, False)
    assert not ended, "nobody armed it"
    watchdog.arm()
    for _ in range(100):
        watchdog.feed()
        watchdog.look(0.25, False)
        watchdog.look(9.0, False)
    for _ in range(100):
        watchdog.look(0.25, True)
    for _ in range(40):
        watchdog.look(0.25, False)
    assert not ended
    watchdog.look(0.25, False)
    assert ended == [1]
    watchdog.disarm()
    watchdog.look(100.0, False)
    assert ended == [1]
