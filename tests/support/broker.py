"""A real broker in a process of its own, for tests that speak to it over a socket.

`Broker` runs `python -m warren server` on a free port of the loopback with a data directory of its
own; a test fails whose broker left an error to its event loop. With `WARREN_TEST_BROKER=host:port`
in the environment the shared broker is the one that runs there instead (any broker that speaks AMQP
0-9-1), and tests that need to start, kill or inspect a process of their own are skipped.
"""

from __future__ import annotations

import fcntl
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from tests.support.patience import patient

HOST = "127.0.0.1"
START_SECONDS_MAX = patient(30.0)
STOP_SECONDS_MAX = patient(20.0)
POLL_SECONDS = 0.01
LOG_TAIL_BYTES = 16_384
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD_FRAME = b"\x01"


class BrokerDied(AssertionError):
    """The broker's process ended although nobody told it to."""


class LeftUnhandled(AssertionError):
    """The broker's event loop met an error that no code of the broker had looked after."""


UNHANDLED = re.compile(rb"Exception in callback|exception was never retrieved")
"""What an event loop says of such errors, and of nothing else."""
PORTS = range(12_000, 30_000)
"""Below those that the kernel gives to outgoing connections, so that none of them is in the way."""
_claims: list[IO[str]] = []
_numbers = iter(random.sample(PORTS, len(PORTS)))


def free_port() -> int:
    """Claim a TCP port of the loopback for as long as this process lives.

    Nobody listens there, and no other run of the tests is given it: each claim is a lock on a file.
    """
    folder = Path(tempfile.gettempdir()) / "warren-ports"
    folder.mkdir(exist_ok=True)
    for port in _numbers:
        claim = (folder / str(port)).open("w")
        try:
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise AssertionError("no free port is left")


def answers(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether a broker greets an AMQP 0-9-1 client there with `connection.start`."""
    try:
        with socket.create_connection((host, port), timeout_s) as stream:
            stream.settimeout(timeout_s)
            stream.sendall(PROTOCOL_HEADER)
            return stream.recv(1) == METHOD_FRAME
    except OSError:
        return False


class Broker:
    """Where a broker listens, and where it is our own process, the hold on that process.

    Attributes:
        host, port: Where clients connect.
        data_dir: Its data directory; survives `kill` and `restart`. None where it is not ours.
        options: Further words of its command line, used at the next `start`.
        environment: Further environment variables, used at the next `start`.
        prefix: Words before its command line, of a program that becomes it.
        management: The port of its HTTP API, if it is to have one.
        metrics: The same of metrics.
    """

    def __init__(
        self,
        port: int,
        data_dir: Path | None,
        *,
        host: str = HOST,
        options: list[str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.data_dir = data_dir
        self.options = list(options or [])
        self.environment = dict(environment or {})
        self.prefix: list[str] = []
        self.management = "none"
        self.metrics = "none"
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def from_environment(cls) -> Broker | None:
        """The broker named by `WARREN_TEST_BROKER`, None where it is not set."""
        where = os.environ.get("WARREN_TEST_BROKER")
        if not where:
            return None
        host, _, port = where.rpartition(":")
        return cls(int(port), None, host=host or HOST)

    @property
    def ours(self) -> bool:
        """Whether the process is ours to start and to kill."""
        return self.data_dir is not None

    @property
    def url(self) -> str:
        """Where clients connect, as a URL with the default user and vhost."""
        return f"amqp://guest:guest@{self.host}:{self.port}/%2F"

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        assert self._process is not None, "this broker is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process runs; a broker that is not ours always counts as running."""
        return not self.ours or (self._process is not None and self._process.poll() is None)

    @property
    def log_path(self) -> Path:
        """The file that takes what the process prints; it grows over restarts."""
        assert self.data_dir is not None
        return self.data_dir.with_name(self.data_dir.name + ".log")

    def log_text(self) -> str:
        """The end of what the process has printed."""
        if not self.ours or not self.log_path.exists():
            return ""
        text = self.log_path.read_bytes()[-LOG_TAIL_BYTES:]
        return text.decode("utf-8", "replace")

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process without waiting for it, for starts that are meant to fail."""
        assert self.ours and not self.running
        # Where the tests themselves are killed, the broker goes with them.
        command = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        command += [*self.prefix, sys.executable, "-m", "warren", "server"]
        command += ["--data-dir", str(self.data_dir), "--bind", self.host]
        command += ["--port", str(self.port)]
        if "PYTHONPATH" not in self.environment:
            # Else it is another release, which may know neither.
            command += ["--management-port", self.management]
            command += ["--set", f"prometheus.tcp.port={self.metrics}"]
        command += self.options
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
            )
        return self._process

    def start(self) -> Broker:
        """Start the process and wait until it greets clients."""
        self.launch()
        return self.wait()

    def wait(self) -> Broker:
        """Wait until the process that was launched greets clients."""
        process = self._process
        assert process is not None, "nothing was launched"
        deadline = time.monotonic() + START_SECONDS_MAX
        while not answers(self.host, self.port):
            if process.poll() is not None:
                raise BrokerDied(f"exit status {process.returncode}\n{self.log_text()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerDied(f"no answer in {START_SECONDS_MAX} s\n{self.log_text()}")
            time.sleep(POLL_SECONDS)
        return self

    def kill(self) -> None:
        """End the process as a power cut would: SIGKILL, nothing flushed, nothing closed."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End the process in good order; returns its exit status."""
        return self._end(signal.SIGTERM)

    def restart(self, *, kill: bool = False) -> None:
        """End the process, in good order or by SIGKILL, and start it again on its data."""
        if self.running:
            self._end(signal.SIGKILL if kill else signal.SIGTERM)
        self.start()

    def send(self, number: signal.Signals) -> None:
        """Send the process a signal that does not end it."""
        assert self._process is not None, "this broker is not running"
        self._process.send_signal(number)

    def check_alive(self) -> None:
        """Raises BrokerDied where the process ended without `kill` or `stop`."""
        process = self._process
        if process is not None and process.poll() is not None:
            self._process = None
            raise BrokerDied(f"exit status {process.returncode}\n{self.log_text()}")

    def rss_bytes(self) -> int:
        """Memory the process holds in RAM."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise BrokerDied("no VmRSS")

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        self._process = None
        if process.poll() is None:
            process.send_signal(number)
        try:
            status = process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerDied(
                f"did not stop within {STOP_SECONDS_MAX} s\n{self.log_text()}"
            ) from None
        self._check_log()
        return status

    def _check_log(self) -> None:
        if not self.log_path.exists():
            # It was on a disk of the test's own, which is gone.
            return
        log = self.log_path.read_bytes()
        found = UNHANDLED.search(log)
        if found is not None:
            text = log[found.start() : found.start() + LOG_TAIL_BYTES]
            raise LeftUnhandled(text.decode("utf-8", "replace"))
