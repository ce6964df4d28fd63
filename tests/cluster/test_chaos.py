"""Clusters of real processes through many faults, with clients that other people wrote.

`WARREN_CHAOS_CYCLES` sets how often each fault happens (5, but 3 where five nodes are killed; from
100 on clusters of three and of five go through each kind), `WARREN_CHAOS_SECONDS` the longest stop
of a leader (3), `WARREN_CHAOS_SEED` what is drawn, `WARREN_CHAOS_DIR` where histories are kept
(pytest's own temporary directory, of which it keeps three).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sim.history.serial import check
from tests.cluster.chaos.kept import keep
from tests.cluster.chaos.net import ENTER
from tests.support.patience import patient

pytestmark = [pytest.mark.process, pytest.mark.early]

ROOT = Path(__file__).resolve().parents[2]
CYCLES = int(os.environ.get("WARREN_CHAOS_CYCLES", "5"))
SECONDS_MAX = float(os.environ.get("WARREN_CHAOS_SECONDS", "3"))
SEED = int(os.environ.get("WARREN_CHAOS_SEED", "20261121"))
FOLDER = os.environ.get("WARREN_CHAOS_DIR", "")
LONG = 100
FEW = 3
RUNS = [("kill", 3, CYCLES), ("stop", 3, CYCLES), ("cut", 5, CYCLES)]
if CYCLES >= LONG:
    RUNS += [("kill", 5, CYCLES), ("stop", 5, CYCLES), ("cut", 3, CYCLES)]
else:
    RUNS += [("kill", 5, min(CYCLES, FEW))]
CYCLE_SECONDS = 30.0 + SECONDS_MAX
TAIL = 4_000


@pytest.mark.rule(
    "QQ-03", "QQ-27", "BEH-01", "BEH-02", "BEH-04", "BEH-09", "BEH-10", "BEH-12", "BEH-15"
)
@pytest.mark.timeout(patient(180 + CYCLES * (CYCLE_SECONDS + 5)))
@pytest.mark.parametrize(("fault", "count", "cycles"), RUNS)
def test_chaos(
    fault: str, count: int, cycles: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing confirmed is lost, nothing invented, doubled without a mark or out of order.

    Of five nodes two have no member of one of the queues, and clients that use it all the same.
    """
    suffer(fault, count, cycles, tmp_path, capsys)


@pytest.mark.timeout(patient(300))
def test_a_rolling_upgrade(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nodes of two releases in one cluster, until all have the newer one; there is no way back."""
    suffer("upgrade", 3, 3, tmp_path, capsys)


def suffer(
    fault: str, count: int, cycles: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Have a fault happen so often, under clients, and look at what these saw."""
    folder = Path(FOLDER, f"{fault}-{count}-{SEED}") if FOLDER else tmp_path
    entered = subprocess.run([*ENTER, "true"], capture_output=True, text=True)
    assert entered.returncode == 0, (
        "the nodes of this test need a network namespace each, which takes root, or a kernel that "
        f"lets users have namespaces: {' '.join(ENTER)} says {entered.stderr.strip()}"
    )
    command = [*ENTER, sys.executable, "-m", "tests.cluster.chaos", "--fault", fault]
    command += ["--nodes", str(count), "--cycles", str(cycles), "--seconds", str(SECONDS_MAX)]
    command += ["--seed", str(SEED), "--folder", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patient(120 + cycles * CYCLE_SECONDS),
    )
    report = f"{' '.join(command)}\n{done.stdout[-TAIL:]}{done.stderr[-TAIL:]}"
    assert done.returncode == 0, report + logs(folder)
    verdict = check(folder / "history")
    keep(folder / "history", f"{fault}-{count}")
    with capsys.disabled():
        print(f"\n{count} nodes, {fault}: {verdict.text()}\nhistory: {folder / 'history'}")
    assert verdict.good, f"{verdict.text()}\n{report}"
    assert verdict.faults == cycles
    for data in folder.glob("n*/"):
        shutil.rmtree(data)


def logs(folder: Path) -> str:
    """The ends of the nodes' logs."""
    return "".join(
        f"--- {path.name}\n{path.read_text('utf-8', 'replace')[-TAIL:]}"
        for path in sorted(folder.glob("*.log"))
    )
