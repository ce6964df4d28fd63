"""What a message costs the broker in the shapes of applications, of two builds in turns.

    python -m bench.shapes NAME=PYTHON [NAME=PYTHON ...] [--nodes 1] [--only REGEX]
                           [--seconds 3] [--runs 3] [--feed NAME] [--watch NAME]

Each PYTHON has a build of Warren installed, and a broker of it is started, of so many nodes, which
goes on through all runs. A row is one call of the load generator (`bench/peer tools` builds it)
against each broker in turn, the order changed with each run. Processor time is that of the broker's
processes, user and system, in the middle of the run, a message: one that is only published counts
half, and one that is only consumed does: compare builds in `steady` and not in `workers`, whose
publisher runs ahead by as much as a build lets it. Shown is the run with the median of it, and the
lowest and highest. `--feed` names a build whose broker tells what becomes of messages in an events
feed, and `--watch` one whose broker samples statistics for the HTTP API and for Prometheus, with a
client that asks every five seconds for what the page of the overview shows, and a scrape as often.
Without either way in, brokers sample nothing.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.broker import HOST, answers, free_port

LOADGEN = Path(__file__).parent / "run" / "tools" / "loadgen" / "loadgen"
QUORUM = "--type quorum --queue shapes-q"
CLASSIC = "--type classic --queue shapes-c"
ROWS = {
    "one": f"{QUORUM} --size 1024 --real --window 1",
    "waiting": f"{QUORUM} --size 1024 --real --window 1 --producers 100 --consumers 100 "
    "--prefetch 1",
    "workers": f"{QUORUM} --size 1024 --real --consumers 50 --prefetch 1",
    "steady": f"{QUORUM} --size 1024 --real --consumers 50 --prefetch 1 --rate 20000",
    "queues": f"{QUORUM} --size 1024 --real --window 64 --producers 300 --consumers 300 "
    "--queues 300 --rate 20000",
    "own": f"{QUORUM} --size 1024 --real --producers 4 --consumers 4",
    "stream": f"{QUORUM} --size 1024 --producers 4 --consumers 4",
    "large": f"{QUORUM} --size 1000000 --window 8 --producers 2 --consumers 2 --prefetch 8",
    "transient": f"{CLASSIC} --durable 0 --persistent 0 --window 0 --autoack --size 100 "
    "--producers 4 --consumers 4",
    "plain": f"{CLASSIC} --size 1024 --real",
    "trickle": f"{CLASSIC} --persistent 0 --window 0 --size 256 --real --rate 1000",
    "flood": f"{CLASSIC} --window 0 --size 1024 --real --producers 4 --consumers 4",
    "expiration": f"{CLASSIC} --size 1024 --real --expiration 3600000",
    "priorities": f"{QUORUM} --size 1024 --real --priorities 10",
    "overflow": "--type quorum --queue shapes-o --size 1024 --real --consumers 0 "
    "--args x-max-length=1000",
}
WARMUP_SECONDS = 1.0
MARGIN_SECONDS = 0.3
"""At either end of a run nothing is counted."""
WATCH_SECONDS = 5.0
OVERVIEW = "/api/overview?lengths_age=60&lengths_incr=5&msg_rates_age=60&msg_rates_incr=5"
START_SECONDS_MAX = 60.0
"""A start under valgrind takes many times longer than another one."""


class Target:
    """A broker of one build, run by another program if there is one."""

    def __init__(
        self,
        name: str,
        python: str,
        folder: Path,
        runner: Sequence[str] = (),
        nodes: int = 1,
        watched: bool = False,
    ) -> None:
        self.name = name
        self.python = python
        self.folder = folder
        self.addresses: list[str] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._over = threading.Event()
        self._watchers: list[threading.Thread] = []
        secret = folder / f"{name}.secret"
        secret.touch(0o600)
        secret.write_text(secrets.token_hex())
        join: list[str] = []
        for number in range(nodes):
            node, port, cluster_port = f"{name}{number}", free_port(), free_port()
            words = ["--data-dir", str(folder / node), "--node-name", f"{node}@localhost"]
            words += ["--bind", HOST, "--port", str(port), "--cluster-port", str(cluster_port)]
            words += ["--secret-file", str(secret), "--log-level", "warning", *join]
            ports = (free_port(), free_port()) if watched else ()
            for key, at in (("management", 0), ("prometheus", 1)):
                words += ["--set", f"{key}.tcp.port={ports[at] if ports else 'none'}"]
            # A neighbour named `warren` would come before the build that is installed.
            command = [*runner, python, "-m", "warren", "server", *words]
            self.processes.append(subprocess.Popen(command, cwd=folder))
            self._await(port)
            self.addresses.append(f"{HOST}:{port}")
            join = join or ["--join", f"{HOST}:{cluster_port}"]
            if ports:
                self._watchers.append(threading.Thread(target=self._watch, args=ports))
                self._watchers[-1].start()

    def tell(self) -> None:
        """Have what becomes of messages told of in a feed, which keeps little of it."""
        command = [self.python, "-m", "warren", "feed", "enable", "--max-bytes", "100000000"]
        folder = self.folder / f"{self.name}0"
        subprocess.run([*command, "--data-dir", str(folder)], cwd=self.folder, check=True)

    def _watch(self, port: int, prometheus_port: int) -> None:
        """Ask a node for what watches it, until it is to stop."""
        token = b64encode(b"guest:guest").decode()
        asked = [
            (http.client.HTTPConnection(HOST, port, timeout=60), path)
            for path in (OVERVIEW, "/api/nodes")
        ]
        asked.append((http.client.HTTPConnection(HOST, prometheus_port, timeout=60), "/metrics"))
        while not self._over.wait(WATCH_SECONDS):
            for connection, path in asked:
                connection.request("GET", path, headers={"authorization": f"Basic {token}"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, (path, answer.status)

    def _await(self, port: int) -> None:
        until = time.monotonic() + START_SECONDS_MAX
        while not answers(HOST, port):
            if self.processes[-1].poll() is not None or time.monotonic() > until:
                self.stop()
                raise SystemExit(f"{self.name}: the broker does not start")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the broker, in order."""
        self._over.set()
        for watcher in self._watchers:
            watcher.join()
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def cpu_seconds(self) -> float:
        """Processor time that the broker has used on all nodes, user and system."""
        ticks = 0
        for process in self.processes:
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def run(self, words: str, seconds: float) -> dict[str, Any]:
        """One run of the load generator: what it says, and `cpu_us` a message."""
        addresses = ",".join(self.addresses)
        command = [str(LOADGEN), "--addr", addresses, *shlex.split(words), "--purge"]
        command += ["--warmup", str(WARMUP_SECONDS), "--secs", str(seconds)]
        load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        time.sleep(WARMUP_SECONDS + MARGIN_SECONDS)
        cpu, began = self.cpu_seconds(), time.monotonic()
        time.sleep(seconds - 2 * MARGIN_SECONDS)
        cpu, took = self.cpu_seconds() - cpu, time.monotonic() - began
        said: dict[str, Any] = json.loads(load.communicate()[0])
        messages = (said["pub_rate"] + said["con_rate"]) / 2 * took
        said["cpu_us"] = 1e6 * cpu / max(1.0, messages)
        return said


def line(row: str, name: str, runs: list[dict[str, Any]]) -> str:
    """A row of one build, as text."""
    runs = sorted(runs, key=lambda run: run["cpu_us"])
    middle = runs[len(runs) // 2]
    published = sorted(run["pub_rate"] for run in runs)[len(runs) // 2]
    rates = sorted(run["con_rate"] for run in runs)
    # Where nothing is consumed, it is the confirms that publishers wait for.
    what, delays = next(
        (what, middle[key])
        for what, key in (("delivery", "lat_us"), ("confirm", "confirm_us"))
        if key in middle
    )
    return (
        f"{row:10} {name:10} {middle['cpu_us']:8.2f} us "
        f"({runs[0]['cpu_us']:.2f}-{runs[-1]['cpu_us']:.2f})  "
        f"in {published:.0f}/s, out {rates[len(rates) // 2]:.0f}/s "
        f"({rates[0]:.0f}-{rates[-1]:.0f})  "
        f"{what} p50 {delays['p50'] / 1e3:.2f} p99 {delays['p99'] / 1e3:.2f} ms"
    )


def main() -> int:
    """Measure the rows that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.shapes")
    parser.add_argument("builds", nargs="+", metavar="NAME=PYTHON")
    parser.add_argument("--nodes", type=int, default=1, help="of each broker (1)")
    parser.add_argument("--only", default=".", help="rows whose names this is found in")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--feed", action="append", default=[], metavar="NAME")
    parser.add_argument("--watch", action="append", default=[], metavar="NAME")
    words = parser.parse_args()
    if not LOADGEN.exists():
        print("bench.shapes: no load generator; `bench/peer tools` builds it", file=sys.stderr)
        return 1
    targets: list[Target] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for build in words.builds:
                name, _, python = build.partition("=")
                watched = name in words.watch
                target = Target(name, python, Path(folder), nodes=words.nodes, watched=watched)
                targets.append(target)
                if name in words.feed:
                    targets[-1].tell()
            for row, load in ROWS.items():
                if not re.search(words.only, row):
                    continue
                found: dict[str, list[dict[str, Any]]] = {each.name: [] for each in targets}
                for number in range(words.runs):
                    for target in targets if number % 2 == 0 else targets[::-1]:
                        found[target.name].append(target.run(load, words.seconds))
                for name, runs in found.items():
                    print(line(row, name, runs), flush=True)
        finally:
            for target in targets:
                target.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
