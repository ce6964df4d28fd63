"""Writes down what the tools of a broker say at each step.

    python -m tests.ctl.record rabbitmq TOOL OWN THEIRS PORT   of a RabbitMQ 4.3
    python -m tests.ctl.record warren                          of Warren, where it deviates

TOOL is a program that runs one of RabbitMQ's tools on a fresh node called r5890-1@localhost, and is
given the tool and its words; OWN is a folder of this machine that the tool knows as THEIRS; clients
connect to PORT, and the node listens 10,000 and 20,000 above for others. What is written is to be
read before it is committed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.ctl.deviations import DEVIATIONS
from tests.ctl.play import GIVEN, as_json, play
from tests.ctl.warren import running

FOLDER = Path(__file__).with_name("answers")
ORACLE = FOLDER / "rabbitmq-4.3.json"
OWN = FOLDER / "warren.json"
SECONDS_MAX = 120
PORTS = {0: 5672, 10_000: 15672, 20_000: 25672}
"""What the ports of the oracle stand for, by how far they are above the first."""


def of_rabbitmq(tool: str, own: Path, theirs: str, port: int) -> list[dict[str, Any]]:
    """What RabbitMQ says."""
    shutil.copy(GIVEN, own / GIVEN.name)

    def run(argv: list[str], given: str) -> tuple[int, str, str]:
        done = subprocess.run(
            [tool, *argv], input=given, capture_output=True, text=True, timeout=SECONDS_MAX
        )
        return done.returncode, done.stdout, done.stderr

    known = {str(port + step): str(PORTS[step]) for step in PORTS}
    return as_json(play(run, f"{theirs}/{GIVEN.name}", f"{theirs}/out.json", known, port))


def of_warren() -> list[dict[str, Any]]:
    """What Warren says at the steps where it deviates."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as said:
        rows = as_json(said)
    return [row for row in rows if row["words"] in DEVIATIONS]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write steps down, a line for each."""
    path.parent.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "rabbitmq":
        write(ORACLE, of_rabbitmq(sys.argv[2], Path(sys.argv[3]), sys.argv[4], int(sys.argv[5])))
    else:
        write(OWN, of_warren())
