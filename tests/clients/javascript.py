"""Runs the checks in `js`, each in a process of its own.

npm puts the packages once into the folder that `WARREN_JS` names, else beside `js/package.json`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.patience import patient

HERE = Path(__file__).parent / "js"


@pytest.fixture(scope="session")
def node_path() -> Path:
    """The folder of installed packages; npm is asked when it is not there yet."""
    assert shutil.which("node"), "needs node; `make test` installs it"
    place = Path(os.environ.get("WARREN_JS", HERE))
    wanted = (HERE / "package.json").read_text("utf-8")
    stamp = place / "node_modules" / "installed.json"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        assert shutil.which("npm"), "needs npm; `make test` installs it"
        place.mkdir(parents=True, exist_ok=True)
        if place != HERE:
            (place / "package.json").write_text(wanted, "utf-8")
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--silent", "--no-package-lock"],
            cwd=place, check=True, timeout=patient(240),
        )  # fmt: skip
        stamp.write_text(wanted, "utf-8")
    return place / "node_modules"


def run_check(
    script: str, check: str, address: tuple[str, int], name: str, kind: str, packages: Path
) -> None:
    """Run one check of a script; what it says where it fails is the failure."""
    done = subprocess.run(
        ["node", str(HERE / script), address[0], str(address[1]), check, name, kind],
        env={**os.environ, "NODE_PATH": str(packages)},
        capture_output=True, text=True, timeout=patient(60), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
