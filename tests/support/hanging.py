"""Becomes a broker whose writes hang while a file of the name in `WARREN_TEST_HANG` exists.

Runs as `python hanging.py python -m warren server ...`; see `Broker.prefix`.
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

from warren.server import executor
from warren.server import main as server
from warren.server.disk import OsFile

SWITCH = "WARREN_TEST_HANG"
POLL_SECONDS = 0.005
STOP_SECONDS = 2.0


def can_hang(broker_prefix: list[str], environment: dict[str, str], switch: Path) -> None:
    """Have a broker started in such a way."""
    broker_prefix[:] = [sys.executable, __file__]
    environment[SWITCH] = str(switch)


def main() -> None:
    """Put the switch before each durable write, and run the command."""
    switch = os.environ[SWITCH]
    write_durable = OsFile.write_durable

    def hanging(self: OsFile, buffers: list[bytes], offset_bytes: int) -> None:
        while os.path.exists(switch):
            time.sleep(POLL_SECONDS)
        write_durable(self, buffers, offset_bytes)

    OsFile.write_durable = hanging  # type: ignore[method-assign]
    # A busy machine does not make this disk a slow one: until it hangs it is thought to be prompt.
    executor.SLOW_NS = sys.maxsize
    # Tests do not wait as long as operators.
    server.STOP_STALL_SECONDS_MAX = STOP_SECONDS
    sys.argv = sys.argv[3:]
    runpy.run_module("warren", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
