"""The command `warren dev cluster`: three nodes on this machine, to try a cluster with.

Each node is a process of its own, `warren server`, with a directory, a port for clients and one for
other nodes. All end with this command. One that is killed is not started again: what the others do
without it is what there is to see.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from warren.admin.cli.words import Parser, checked, examples, wrapped
from warren.config import config

NAMES = ("a", "b", "c")
HOST = "127.0.0.1"
CLUSTER_PORTS_ABOVE = 20_000
"""A node's port for other nodes lies so far above that for clients, as RabbitMQ has it."""
HTTP_PORTS_ABOVE = 10_000
"""So far above is that of its HTTP API and web UI, as RabbitMQ has it, and that of its metrics:"""
METRICS_PORTS_ABOVE = 10_020
PORT_MAX = 65_535 - CLUSTER_PORTS_ABOVE - len(NAMES) + 1
START_SECONDS = 60.0
STOP_SECONDS = 20.0
POLL_SECONDS = 0.1
PR_SET_PDEATHSIG = 1


EXAMPLES = examples(
    "warren dev cluster --data-dir cluster",
    "warren dev cluster --data-dir cluster --port 6672",
)


def add_command(commands: Any) -> None:
    """Define the words of the command."""
    command: Parser = commands.add_parser(
        "dev",
        help="run a cluster of three nodes on this machine, to try it",
        description="For trying things out, not for data that matters.",
        epilog=EXAMPLES,
    )
    command.set_defaults(run=run)
    actions = command.add_subparsers(dest="action", required=True, metavar="ACTION")
    cluster: Parser = actions.add_parser(
        "cluster",
        help="run three nodes until Ctrl-C",
        description="Run the nodes a, b and c of one cluster on this machine until Ctrl-C. A later "
        "run with the same directory goes on with what the cluster had.",
        epilog=EXAMPLES,
    )
    cluster.add_argument(
        "--data-dir",
        metavar="DIR",
        default="warren-cluster",
        help="the directory of the three nodes' directories (default: warren-cluster)",
    )
    cluster.add_argument(
        "--port",
        type=checked(parse_first_port),
        default=config.PORT_DEFAULT,
        help="of the first node's clients; the others have the next two, the HTTP API and web UI "
        f"ports {HTTP_PORTS_ABOVE} above, metrics {METRICS_PORTS_ABOVE}, and links "
        f"{CLUSTER_PORTS_ABOVE} (default: {config.PORT_DEFAULT})",
    )


def parse_first_port(text: str) -> int:
    """The first of three ports.

    Raises:
        ValueError: It is none; says what is allowed.
    """
    if not text.isdecimal() or not 1 <= int(text) <= PORT_MAX:
        raise ValueError(f"a port from 1 to {PORT_MAX}")
    return int(text)


class DevNode:
    """One of the nodes.

    Attributes:
        name: Its name without the host.
        port: Where clients connect.
        folder: Its data directory.
        web: Whether it answers over HTTP; not where something else has a port that it takes.
        process: It, once it was started.
    """

    def __init__(self, name: str, port: int, folder: Path) -> None:
        self.name = name
        self.port = port
        self.folder = folder
        above = (HTTP_PORTS_ABOVE, METRICS_PORTS_ABOVE)
        self.web = not any(why_taken(port + each) for each in above)
        self.process: subprocess.Popen[str] | None = None

    def words(self, secret: Path, join: int) -> list[str]:
        """The words of its command.

        Args:
            secret: The file with the cluster's secret.
            join: The cluster port of the node to join; 0 for none.
        """
        words = ["server", "--node-name", f"{self.name}@localhost", "--data-dir", str(self.folder)]
        words += ["--bind", HOST, "--port", str(self.port)]
        words += ["--cluster-port", str(self.port + CLUSTER_PORTS_ABOVE)]
        words += ["--secret-file", str(secret)]
        if self.web:
            words += ["--management-port", str(self.port + HTTP_PORTS_ABOVE)]
            words += ["--set", f"prometheus.tcp.port={self.port + METRICS_PORTS_ABOVE}"]
        else:
            words += ["--management-port", "none", "--set", "prometheus.tcp.port=none"]
        return words + (["--join", f"{HOST}:{join}"] if join else [])

    def start(self, words: list[str]) -> None:
        """Start it; its log goes where ours goes, each line with its name."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warren", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # Ctrl-C is ours to pass on; whatever ends this process ends the nodes, too.
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        assert self.process.stdout is not None
        threading.Thread(target=self._show, args=(self.process.stdout,), daemon=True).start()

    def _show(self, lines: IO[str]) -> None:
        for line in lines:
            print(f"{self.name} | {line.rstrip()}", flush=True)

    @property
    def runs(self) -> bool:
        """Whether its process is there."""
        return self.process is not None and self.process.poll() is None

    def answers(self) -> bool:
        """Whether clients can connect."""
        try:
            socket.create_connection((HOST, self.port), 1.0).close()
        except OSError:
            return False
        return True


def end_with_parent() -> None:
    """Have the kernel end this process in good order when its parent is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run(words: argparse.Namespace) -> int:
    """Run the nodes until SIGINT or SIGTERM; returns the exit status: 0 ended as told, 1 failed."""
    folder = Path(words.data_dir).absolute()
    secret = folder / "secret"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not secret.exists():
            secret.touch(0o600)
            secret.write_text(secrets.token_hex(32) + "\n")
    except OSError as error:
        print(f"warren: {folder}: {error.strerror}", file=sys.stderr)
        return 2
    nodes = [DevNode(name, words.port + at, folder / name) for at, name in enumerate(NAMES)]
    for node in nodes:
        for port in (node.port, node.port + CLUSTER_PORTS_ABOVE):
            problem = why_taken(port)
            if problem:
                print(f"warren: port {port} of {HOST}: {problem}", file=sys.stderr)
                return 1
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    commands = {
        node.name: node.words(
            secret, 0 if node is nodes[0] else nodes[0].port + CLUSTER_PORTS_ABOVE
        )
        for node in nodes
    }
    try:
        for node in nodes:
            node.start(commands[node.name])
        if not wait_for_all(nodes, told):
            return 0 if told.is_set() else 1
        print(introduction(nodes), flush=True)
        watch(nodes, commands, told)
        return 0 if told.is_set() else 1
    finally:
        stop(nodes)


def why_taken(port: int) -> str:
    """Why a node could not listen on a port; empty if it can.

    Looked at beforehand: a stranger that listens there would pass for the node.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return f"{error.strerror}; is another broker running? choose others with --port"
    return ""


def wait_for_all(nodes: list[DevNode], told: threading.Event) -> bool:
    """Wait until clients may come to all; False if a node fails, it takes too long, or we end."""
    until = time.monotonic() + START_SECONDS
    waiting = list(nodes)
    while waiting and not told.wait(POLL_SECONDS):
        waiting = [node for node in waiting if not node.answers()]
        failed = [node.name for node in nodes if not node.runs]
        if failed or (waiting and time.monotonic() > until):
            names = ", ".join(failed or [node.name for node in waiting])
            print(f"warren: no cluster: node {names} does not start", file=sys.stderr)
            return False
    return not waiting


def introduction(nodes: list[DevNode]) -> str:
    """What there is, and what can be done with it."""
    lines = ["", "a cluster of three nodes; clients may connect to any of them:"]
    for node in nodes:
        assert node.process is not None
        lines.append(
            f"  {node.name}  amqp://guest:guest@localhost:{node.port}/%2F  "
            f"process {node.process.pid}"
        )
    for node in nodes:
        if node.web:
            lines.append(f"  {node.name}  http://localhost:{node.port + HTTP_PORTS_ABOVE}  web UI")
    lines.append(wrapped("in another terminal:"))
    shown = os.path.relpath(nodes[0].folder)
    lines.append(f"  {program()} cluster status --data-dir {shown}")
    lines.append(f"  kill -9 {nodes[1].process.pid if nodes[1].process else ''}")
    return "\n".join([*lines, "Ctrl-C ends all.", ""])


def program() -> str:
    """How this command was called."""
    name = sys.argv[0]
    return f"{Path(sys.executable).name} -m warren" if name.endswith("__main__.py") else name


def watch(nodes: list[DevNode], commands: dict[str, list[str]], told: threading.Event) -> None:
    """Wait for the end; a node that ends meanwhile is told, with the way to start it again."""
    running = list(nodes)
    while running and not told.wait(POLL_SECONDS):
        for node in [node for node in running if not node.runs]:
            running.remove(node)
            assert node.process is not None
            again = " ".join([program(), *commands[node.name]])
            ended = (
                f"node {node.name} ended ({node.process.returncode}); it starts with:\n  {again}"
            )
            print(ended, flush=True)


def stop(nodes: list[DevNode]) -> None:
    """End all nodes in good order, or else in any."""
    for node in nodes:
        if node.process is not None and node.runs:
            node.process.terminate()
    for node in nodes:
        if node.process is not None:
            try:
                node.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                node.process.kill()
