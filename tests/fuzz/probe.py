"""A client that does something small all the time, and says how long it had to wait at most.

It runs in a process of its own (`python -m tests.fuzz.probe`), so that what a fuzzer computes does
not hold it up. Of each wait it is also known how much of it the loop's thread of the node worked:
on a machine with much else to do a wait may be nobody's fault, and work of a second never is.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from tests.clients.raw import METHOD, PROTOCOL_HEADER, Closed, RawClient

ROOT = Path(__file__).resolve().parents[2]
PAUSE_SECONDS = 0.01
NEW_EACH = 20
"""A roundtrip of so many is that of a client that has just come."""
TICKS = os.sysconf("SC_CLK_TCK")
LOGIN = base64.b64encode(b"guest:guest").decode()


@dataclass
class Wait:
    """One wait for an answer.

    Attributes:
        what: What was asked.
        seconds: How long it took.
        worked: How much of that the loop's thread of the node was at work, in seconds.
        broken: Why no answer came; empty where one did.
    """

    what: str
    seconds: float
    worked: float
    broken: str = ""

    def __str__(self) -> str:
        said = f"{self.what} took {self.seconds:.2f} s, {self.worked:.2f} s of it the node's work"
        return f"{said}: {self.broken}" if self.broken else said


@dataclass(frozen=True)
class Bounds:
    """How long a wait may be.

    Attributes:
        wait_seconds: By the clock.
        work_seconds: By what the loop's thread of the node worked meanwhile.
    """

    wait_seconds: float
    work_seconds: float

    def passed_by(self, wait: Wait) -> bool:
        """Whether a wait was too long, or for nothing."""
        late = wait.seconds >= self.wait_seconds or wait.worked >= self.work_seconds
        return late or bool(wait.broken)


def loop_seconds(pid: int) -> float:
    """Processor time of the thread that runs the node's loop, so far."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/stat").read_text()
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Asker(threading.Thread):
    """Asks one node again and again, in one protocol.

    Attributes:
        longest: The longest wait so far.
        count: How many there were.
    """

    def __init__(self, pid: int, bounds: Bounds, tell: Callable[[Wait], None]) -> None:
        super().__init__(daemon=True)
        self.longest = Wait("nothing", 0.0, 0.0)
        self.count = 0
        self.stopped = threading.Event()
        self._pid = pid
        self._bounds = bounds
        self._tell = tell

    def run(self) -> None:
        """Ask until told to stop, or until an answer does not come."""
        for what, ask in self.asks():
            if self.stopped.wait(PAUSE_SECONDS):
                return
            worked, began, broken = loop_seconds(self._pid), time.monotonic(), ""
            try:
                ask()
            except (OSError, Closed, AssertionError, http.client.HTTPException) as error:
                broken = repr(error)
            wait = Wait(what, time.monotonic() - began, loop_seconds(self._pid) - worked, broken)
            self.count += 1
            if wait.seconds > self.longest.seconds:
                self.longest = wait
            if self._bounds.passed_by(wait):
                self._tell(wait)
            if broken:
                return

    def asks(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """What is asked, and how, without an end."""
        raise NotImplementedError


class AmqpAsker(Asker):
    """Publishes a message, waits for its confirm, and gets it; now and then greets as a new one."""

    def __init__(self, address: tuple[str, int], *rest: Any) -> None:
        super().__init__(*rest)
        self._address = address
        self._client = RawClient(address).open(channels=[1])
        self._client.ask(1, "confirm.select")
        self._queue = self._client.ask(1, "queue.declare", exclusive=True).args["queue"]

    def asks(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Mostly a message's whole way."""
        while True:
            for _ in range(NEW_EACH):
                yield "a message's way over AMQP", self._roundtrip
            yield "a greeting over AMQP", self._greet

    def _roundtrip(self) -> None:
        client, most = self._client, self._bounds.wait_seconds
        client.publish(1, "", self._queue, b"probe")
        client.expect(1, "basic.ack", most)
        client.send(1, "basic.get", queue=self._queue, no_ack=True)
        got = client.expect(1, "basic.get-ok", most)
        assert got.body == b"probe", got

    def _greet(self) -> None:
        with RawClient(self._address) as client:
            client.send_bytes(PROTOCOL_HEADER)
            assert client.read_frame(self._bounds.wait_seconds)[0] == METHOD


class HttpAsker(Asker):
    """Asks the HTTP API something small, over one connection; now and then over a new one."""

    def __init__(self, address: tuple[str, int], *rest: Any) -> None:
        super().__init__(*rest)
        self._connection = self._new(address)
        self._address = address

    def asks(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Mostly over the connection that there is."""
        while True:
            for _ in range(NEW_EACH):
                yield "an answer over HTTP", self._ask
            yield "an answer to a new client over HTTP", self._ask_anew

    def _new(self, address: tuple[str, int]) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*address, timeout=self._bounds.wait_seconds)

    def _ask(self) -> None:
        self._connection.request("GET", "/api/whoami", headers={"authorization": f"Basic {LOGIN}"})
        with self._connection.getresponse() as answer:
            assert answer.status == 200, answer.status
            answer.read()

    def _ask_anew(self) -> None:
        self._connection.close()
        self._connection = self._new(self._address)
        self._ask()


@dataclass(frozen=True)
class Asked:
    """Where one node is asked."""

    pid: int
    amqp: tuple[str, int]
    http: tuple[str, int]


class Probe:
    """The process that asks some nodes.

    Attributes:
        found: Waits that passed the bounds.
        count: How many waits there were, once it has stopped.
        longest: The longest of them, once it has stopped.
    """

    def __init__(self, nodes: list[Asked], bounds: Bounds) -> None:
        self.found: list[Wait] = []
        self.count = 0
        self.longest = Wait("nothing", 0.0, 0.0)
        said = json.dumps({"nodes": [asdict(node) for node in nodes], "bounds": asdict(bounds)})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.probe", said],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._began = threading.Event()
        self._reader.start()

    def began(self, seconds: float) -> None:
        """Wait until it asks."""
        assert self._began.wait(seconds), "the probe did not begin"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            if "began" in said:
                self._began.set()
            elif "count" in said:
                self.count, self.longest = said["count"], Wait(**said["longest"])
            else:
                self.found.append(Wait(**said))

    def stop(self, seconds: float) -> None:
        """Ask no more."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            stdin.close()
        self._process.wait(seconds)
        self._reader.join(seconds)

    def kill(self) -> None:
        """End it, however it stands."""
        self._process.kill()
        self._process.wait()


def main() -> int:
    """Ask until the standard input ends; print what took too long, and in the end the longest."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.probe", description=__doc__)
    parser.add_argument("said", help="JSON: nodes, and how long a wait may be")
    said = json.loads(parser.parse_args().said)
    bounds = Bounds(**said["bounds"])
    lock = threading.Lock()

    def tell(fact: Any, file: IO[str] = sys.stdout) -> None:
        with lock:
            print(json.dumps(fact), file=file, flush=True)

    askers: list[Asker] = []
    for node in said["nodes"]:
        common = (node["pid"], bounds, lambda wait: tell(asdict(wait)))
        askers.append(AmqpAsker(tuple(node["amqp"]), *common))
        askers.append(HttpAsker(tuple(node["http"]), *common))
    for asker in askers:
        asker.start()
    tell({"began": True})
    sys.stdin.read()
    for asker in askers:
        asker.stopped.set()
    for asker in askers:
        asker.join(bounds.wait_seconds + 1)
    longest = max((asker.longest for asker in askers), key=lambda wait: wait.seconds)
    tell({"count": sum(asker.count for asker in askers), "longest": asdict(longest)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
