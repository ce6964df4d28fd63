"""How many instructions a message costs the broker in the shapes of applications, by function.

    python -m bench.instructions ROW NAME=PYTHON [NAME=PYTHON ...] [--seconds 10] [--top 40]
                                 [--feed NAME]

ROW is one of `bench.shapes` whose messages have properties of their own, so that those of each are
checked, and it is counted by that; each PYTHON has a build of Warren installed. A broker of each
runs in valgrind (callgrind), which has to be installed. What it counts does not depend on what else
the machine does, unlike processor time; neither the kernel's work nor what waits for memory is in
it.
Shown is what each library executes itself for a message, then the functions by how much the last
build differs from the first, or by what they take where there is one build.

The broker runs some fifty times slower than otherwise, so that what it does once a second weighs
the more: where few messages pass, as with one in flight, look at the functions and not at the sum.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from bench.shapes import LOADGEN, ROWS, Target

WARMUP_SECONDS = 12
"""Modules are imported and clients connect, all of it slowly."""
ACCEPTED = "Shape___examine"
"""Called once for each message, whose properties are unlike those before."""
ONE_BY_ONE = [row for row, load in ROWS.items() if "--real" in load]
COST = re.compile(r"\s*([\d,]+)\s*\(\s*[\d.]+%\)\s+(.*)")
PLACE = re.compile(r"^(?:.*:)?(\S+?)(?:'\d+)?(?: \[(.*)\])?$")


class Profile:
    """What one build executed, by library and function, and for how many messages."""

    def __init__(self, counted: Counter[tuple[str, str]], messages: float) -> None:
        self.counted = counted
        self.messages = messages

    def by_library(self) -> dict[str, float]:
        """Instructions a message."""
        found: Counter[str] = Counter()
        for (library, _), count in self.counted.items():
            found[library] += count
        return {library: count / self.messages for library, count in found.items()}

    def of(self, place: tuple[str, str]) -> float:
        """Instructions a message of one function itself."""
        return self.counted[place] / self.messages


def number(text: str) -> int:
    """A count as callgrind prints it."""
    return int(text.replace(",", ""))


def annotated(path: Path, *options: str) -> list[str]:
    """What callgrind_annotate says of a run."""
    command = ["callgrind_annotate", *options, str(path)]
    return subprocess.check_output(command, text=True).splitlines()


def published(path: Path) -> int:
    """How often messages were accepted."""
    calls = 0
    for line in annotated(path, "--tree=caller", "--threshold=100"):
        if match := re.search(r" < .* \(([\d,]+)x\)", line):
            calls += number(match[1])
        elif " * " in line and ACCEPTED in line:
            return calls
        elif not line.strip():
            calls = 0
    raise SystemExit(f"no message was accepted while instructions were counted in {path}")


def counted(path: Path) -> Counter[tuple[str, str]]:
    """What each function executed itself, by library and name."""
    found: Counter[tuple[str, str]] = Counter()
    for line in annotated(path, "--threshold=99.9"):
        match = COST.match(line)
        place = PLACE.match(match[2].strip()) if match else None
        if match and place and "PROGRAM TOTALS" not in line:
            found[Path(place[2] or "?").name.partition(".")[0], place[1]] += number(match[1])
    return found


def profile(row: str, name: str, python: str, folder: Path, seconds: float, feed: bool) -> Profile:
    """Count a build's instructions under the load of a row, with an events feed or without."""
    path = folder / f"{name}.callgrind"
    valgrind = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"]
    target = Target(name, python, folder, [*valgrind, f"--callgrind-out-file={path}"])
    switch = ["callgrind_control", "-i"]
    pid = str(target.processes[0].pid)
    try:
        if feed:
            target.tell()
        command = [str(LOADGEN), "--addr", target.addresses[0], *shlex.split(ROWS[row])]
        command += ["--purge", "--warmup", str(WARMUP_SECONDS), "--secs", str(seconds + 4)]
        load = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(WARMUP_SECONDS + 2)
        subprocess.run([*switch, "on", pid], check=True, stdout=subprocess.DEVNULL)
        time.sleep(seconds)
        subprocess.run([*switch, "off", pid], check=True, stdout=subprocess.DEVNULL)
        load.wait()
    finally:
        target.stop()
    return Profile(counted(path), published(path))


def main() -> int:
    """Count for each build, and compare the first with the last."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions")
    parser.add_argument("row", choices=ONE_BY_ONE, help="the load, as in bench.shapes")
    parser.add_argument("builds", nargs="+", metavar="NAME=PYTHON")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--top", type=int, default=40, help="how many functions to show")
    parser.add_argument("--feed", action="append", default=[], metavar="NAME")
    words = parser.parse_args()
    if not shutil.which("valgrind"):
        print("bench.instructions: no valgrind; `apt-get install valgrind`", file=sys.stderr)
        return 1
    profiles: dict[str, Profile] = {}
    with tempfile.TemporaryDirectory() as folder:
        for build in words.builds:
            name, _, python = build.partition("=")
            feed = name in words.feed
            found = profile(words.row, name, python, Path(folder), words.seconds, feed)
            profiles[name] = found
            print(f"{name}: {sum(found.by_library().values()):.0f} instructions a message")
    first, *_ = profiles.values()
    *_, last = profiles.values()
    before, after = first.by_library(), last.by_library()
    for library in sorted(after, key=lambda each: -after[each]):
        print(f"{before.get(library, 0):10.0f}{after[library]:10.0f}  {library}")
    print()
    places = first.counted.keys() | last.counted.keys()
    alone = last is first

    def weight(place: tuple[str, str]) -> float:
        return last.of(place) if alone else abs(last.of(place) - first.of(place))

    for place in sorted(places, key=weight, reverse=True)[: words.top]:
        was, now = first.of(place), last.of(place)
        print(f"{was:10.0f}{now:10.0f}{now - was:+10.0f}  {' '.join(place)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
