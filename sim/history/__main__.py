"""`python -m sim.history`: judge histories of clients, or forge one.

python -m sim.history check DIR...              event by event; --spark for the largest ones
python -m sim.history forge DIR --events 10000000 --faults 100
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from sim.history.verdict import Verdict

Check = Callable[[Path], Verdict]


def main() -> int:
    """Read the command line and do it; 1 if something is wrong with a history."""
    parser = argparse.ArgumentParser(prog="python -m sim.history")
    actions = parser.add_subparsers(dest="action", required=True)
    checking = actions.add_parser("check", help="say what is wrong with histories")
    checking.add_argument("folders", metavar="DIR", nargs="+", type=Path)
    checking.add_argument("--spark", action="store_true", help="on Spark, with two threads")
    checking.add_argument("--times", type=int, default=1, help="check each so often, for its cost")
    forging = actions.add_parser("forge", help="make a history with faults in it")
    forging.add_argument("folder", metavar="DIR", type=Path)
    forging.add_argument("--events", type=int, default=1_000_000)
    forging.add_argument("--faults", type=int, default=100, help="of each kind")
    forging.add_argument("--seed", type=int, default=1)
    simulating = actions.add_parser("simulate", help="run seeds of the simulator, of one node")
    simulating.add_argument("folder", metavar="DIR", type=Path)
    simulating.add_argument("--first", type=int, default=1)
    simulating.add_argument("--seeds", type=int, default=100)
    simulating.add_argument("--operations", type=int, default=300)
    words = parser.parse_args()
    if words.action != "check" and words.folder.exists():
        parser.error(f"{words.folder} is there already")
    if words.action == "simulate":
        from sim.history.recorder import record

        seeds = range(words.first, words.first + words.seeds)
        failed = [each for each in record(words.folder, seeds, words.operations) if each.complaint]
        for each in failed:
            print(f"seed {each.seed} FAILED: {each.complaint}")
        return int(bool(failed))
    if words.action == "forge":
        from sim.history.forge import forge

        planted = forge(words.folder, words.events, words.faults, words.seed)
        print(
            f"{len(planted.lost)} lost, {len(planted.invented)} invented, "
            f"{len(planted.doubled)} doubled, {len(planted.late)} late"
        )
        return 0
    check = on_spark() if words.spark else serially()
    bad = False
    for folder in words.folders:
        for _ in range(words.times):
            began, cpu = time.monotonic(), cpu_seconds()
            try:
                verdict = check(folder)
            except FileNotFoundError as error:
                parser.error(str(error))
            took, cost = time.monotonic() - began, cpu_seconds() - cpu
            print(f"{folder}\n{verdict.text()}\n({took:.1f} s, {cost:.1f} CPU-seconds)", flush=True)
            bad = bad or not verdict.good
    return int(bad)


def serially() -> Check:
    """What judges event by event."""
    from sim.history.serial import check

    return check


def on_spark() -> Check:
    """What judges on Spark, in a session that begins with this."""
    from sim.history.spark import check, session

    began = cpu_seconds()
    spark = session()
    print(f"(a session: {cpu_seconds() - began:.1f} CPU-seconds)", flush=True)
    return lambda folder: check(spark, folder)


def cpu_seconds() -> float:
    """What this process and those that it began, the JVM above all, have used so far."""
    tick = os.sysconf("SC_CLK_TCK")
    total = 0.0
    family = {os.getpid()}
    lines = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            lines[int(entry.name)] = fields
    grown = True
    while grown:
        children = {pid for pid, fields in lines.items() if int(fields[1]) in family}
        grown = not children <= family
        family |= children
    for pid in family & set(lines):
        fields = lines[pid]
        total += (int(fields[11]) + int(fields[12])) / tick
    return total


if __name__ == "__main__":
    sys.exit(main())
