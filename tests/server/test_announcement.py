"""A broker on a terminal says where clients connect when they can, and not before."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.broker import (
    HOST,
    METHOD_FRAME,
    PROTOCOL_HEADER,
    START_SECONDS_MAX,
    STOP_SECONDS_MAX,
    free_port,
)


@pytest.mark.process
def test_a_broker_listens_by_the_time_it_says_so(tmp_path: Path) -> None:
    port = free_port()
    terminal, inside = pty.openpty()
    words = ["--data-dir", str(tmp_path / "data"), "--bind", HOST, "--port", str(port)]
    words += ["--cluster-port", str(free_port())]
    process = subprocess.Popen(
        [sys.executable, "-m", "warren", "server", *words],
        stdin=subprocess.DEVNULL,
        stdout=inside,
        stderr=inside,
    )
    try:
        said = b""
        until = time.monotonic() + START_SECONDS_MAX
        while f"clients connect to amqp://{HOST}:{port};".encode() not in said:
            ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
            assert ready, f"it said {said!r}"
            said += os.read(terminal, 4096)
        with socket.create_connection((HOST, port), START_SECONDS_MAX) as client:
            client.sendall(PROTOCOL_HEADER)
            assert client.recv(1) == METHOD_FRAME
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_SECONDS_MAX)
        os.close(terminal)
        os.close(inside)
