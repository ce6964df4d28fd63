"""`warren dev cluster`: three nodes by one command, and what commands say of them."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.admin.test_commands import said, warren
from tests.clients.support import eventually
from tests.conftest import ROOT
from tests.ctl.play import in_process
from tests.support.broker import HOST
from tests.support.patience import patient
from warren.admin.cli.asking import FOLDER_VARIABLE
from warren.admin.cli.dev import CLUSTER_PORTS_ABOVE, DevNode, watch

SECONDS_MAX = patient(30)

pytestmark = pytest.mark.process


FIRST_PORTS = range(10_000, 11_997, 3)
"""These ports, and those for links above them, are given to no other test and no connection."""


def six_free_ports() -> int:
    """The first of three ports that are free, as are those that links take with them."""
    for first in random.sample(FIRST_PORTS, len(FIRST_PORTS)):
        try:
            for port in range(first, first + 3):
                for each in (port, port + CLUSTER_PORTS_ABOVE):
                    with socket.socket() as probe:
                        probe.bind((HOST, each))
        except OSError:
            continue
        return first
    raise AssertionError("no free ports")


class DevCluster:
    """The command in a process of its own.

    Attributes:
        port: The first node's.
        folder: With the directories of the nodes.
        lines: What it has printed.
    """

    def __init__(self, folder: Path) -> None:
        self.port = six_free_ports()
        self.folder = folder
        self.lines: list[str] = []
        words = ["dev", "cluster", "--data-dir", str(folder), "--port", str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warren", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    def text(self) -> str:
        """What it has printed."""
        return "".join(self.lines)

    def says(self, text: str) -> None:
        """Wait until it has printed something."""
        eventually(lambda: text in self.text() or self.process.poll() is not None, SECONDS_MAX)
        assert text in self.text()

    def pid(self, name: str) -> int:
        """The process of a node, by what was printed."""
        found = re.search(rf"^  {name}  amqp\S+  process (\d+)$", self.text(), re.MULTILINE)
        assert found is not None, self.text()
        return int(found[1])

    def status(self, name: str, *words: str) -> dict[str, Any]:
        """The cluster as a node sees it."""
        folder = str(self.folder / name)
        found: dict[str, Any] = json.loads(
            said(warren("cluster", "status", "--json", "--data-dir", folder, *words))
        )
        return found

    def queues(self, name: str) -> dict[str, Any]:
        """Queues by name, as a node lists them."""
        folder = str(self.folder / name)
        rows = json.loads(said(warren("queues", "list", "--json", "--data-dir", folder)))
        return {row["name"]: row for row in rows}

    def uri(self, at: int) -> list[str]:
        """Where clients connect, as words of a command."""
        return ["--uri", f"amqp://{HOST}:{self.port + at}"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DevCluster]:
    """A running cluster; it is ended as by Ctrl-C."""
    made = DevCluster(tmp_path / "cluster")
    yield made
    if made.process.poll() is None:
        made.process.send_signal(signal.SIGINT)
    made.process.wait(SECONDS_MAX)


def first_hour(cluster: DevCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of docs/first-hour.md about a cluster, with this one's ports and folder."""
    text = (ROOT / "docs" / "first-hour.md").read_text("utf-8").partition("5. **A cluster")[2]
    blocks = re.findall(r"^ *```\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    assert (
        lines[0].startswith("export ") and f'{FOLDER_VARIABLE}="$PWD/warren-cluster/b"' in lines[0]
    )
    monkeypatch.setenv(FOLDER_VARIABLE, str(cluster.folder / "b"))
    printed = ""
    for line in lines[1:]:
        tool, *words = shlex.split(line.replace(":5673", f":{cluster.port + 1}"))
        if tool == "warren":
            printed += said(warren(*words))
        else:
            assert in_process([tool, *words], "")[0] == 0, line
    assert "key 'orders'" in printed
    monkeypatch.delenv(FOLDER_VARIABLE)
    # Each node has a web UI of its own, where the ports are free.
    addresses = re.findall(
        r"^  [abc]  http://localhost:(\d+)  web UI$", cluster.text(), re.MULTILINE
    )
    for port in addresses:
        with socket.create_connection((HOST, int(port)), SECONDS_MAX):
            pass
    assert addresses, cluster.text()


def test_three_nodes_by_one_command(cluster: DevCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes up, works, says what is wrong when nodes die or leave, and ends by Ctrl-C."""
    cluster.says("Ctrl-C ends all.")
    pids = [cluster.pid(name) for name in "abc"]
    # A classic queue is on one node: another one's list asks that.
    said(warren("declare", *cluster.uri(1), "log", "--type", "classic"))
    publish = ["publish", *cluster.uri(2), "log", "x"]
    # Until the third node has its line to the second one it refuses.
    eventually(lambda: warren(*publish).returncode == 0, SECONDS_MAX)
    said(warren(*publish, "--count", "2"))
    said(warren("declare", *cluster.uri(0), "orders"))
    said(warren("publish", *cluster.uri(1), "orders", "x"))

    def counted(name: str) -> bool:
        rows = cluster.queues(name)
        return (
            rows["orders"]["ready"] == 1
            and len(rows["orders"]["members"]) == 3
            and (rows["log"]["ready"], rows["log"]["leader"]) == (3, "b@localhost")
        )

    for name in "abc":
        eventually(lambda name=name: counted(name), SECONDS_MAX)
    state = cluster.status("c")
    assert state["problem"] == "" and state["leader"]

    first_hour(cluster, monkeypatch)

    # A node that left says so when it is started again, and ends.
    said(warren("cluster", "--data-dir", str(cluster.folder / "c"), "leave", "--force"))
    cluster.says("node c ended (0)")
    again = re.search(r"^  (.* server --node-name c@localhost .*)$", cluster.text(), re.MULTILINE)
    assert again is not None
    words = again[1].partition(" server ")[2].split()
    start = [sys.executable, "-m", "warren", "server", *words]
    done = subprocess.run(start, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 2
    assert "has left its cluster, and of no more use" in done.stderr

    # Of two nodes one is no majority, and no dead node leads anything.
    os.kill(cluster.pid("b"), signal.SIGKILL)
    cluster.says("node b ended (-9)")

    def told() -> bool:
        state = cluster.status("a")
        return bool(state["problem"]) and not state["leader"]

    eventually(told, SECONDS_MAX)
    state = cluster.status("a")
    assert "b@localhost" in state["problem"]
    assert [row["name"] for row in state["nodes"] if row["running"]] == ["a@localhost"]
    assert {row["leader"] for row in state["queues"] if row["name"] == "log"} == {""}
    text = said(warren("status", "--data-dir", str(cluster.folder / "a")))
    assert "NO MAJORITY  waits for a majority of a@localhost, b@localhost" in text
    assert " leads" not in text
    rows = said(warren("queues", "list", "--data-dir", str(cluster.folder / "a")))
    assert re.search(r"^/ +log +classic +- +- +- +-", rows, re.MULTILINE)

    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(SECONDS_MAX) == 0
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_port_that_is_taken_is_named_before_anything_starts(tmp_path: Path) -> None:
    """Those of clients and those of links."""
    first = six_free_ports()
    for port in (first + 1, first + 2 + CLUSTER_PORTS_ABOVE):
        with socket.socket() as busy:
            busy.bind((HOST, port))
            busy.listen()
            done = warren("dev", "cluster", "--data-dir", str(tmp_path), "--port", str(first))
        assert (done.returncode, done.stdout) == (1, "")
        assert f"port {port} of {HOST}: Address already in use; is another" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_a_node_that_does_not_start_ends_all(tmp_path: Path) -> None:
    """Its log says why, and no node is left behind."""
    folder = tmp_path / "cluster"
    folder.mkdir()
    (folder / "b").write_text("a file where the directory should be")
    words = ["dev", "cluster", "--data-dir", str(folder), "--port", str(six_free_ports())]
    start = [sys.executable, "-m", "warren", *words]
    done = subprocess.run(start, capture_output=True, text=True, timeout=SECONDS_MAX)
    assert done.returncode == 1
    assert "no cluster: node b does not start" in done.stderr
    assert "b | warren: data directory" in done.stdout


def test_a_node_that_ended_is_told_at_once_to_a_reader_of_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = DevNode("c", 5674, tmp_path)
    node.process = subprocess.Popen([sys.executable, "-c", ""], text=True)
    node.process.wait(SECONDS_MAX)
    pipe = io.BytesIO()
    # Standard output as it is where it goes to no terminal: it keeps what it has until told.
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))
    watch([node], {"c": ["server", "--node-name", "c@localhost"]}, threading.Event())
    assert b"node c ended (0)" in pipe.getvalue()
    assert b"server --node-name c@localhost" in pipe.getvalue()
