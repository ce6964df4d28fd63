"""amqplib (Node.js) against the broker; each check of `js/amqplib.js` runs in a process of its own.

npm puts the package once into the folder that `WARREN_JS` names, else beside `js/package.json`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.clients.fixtures import Names
from tests.support.patience import patient

HERE = Path(__file__).parent / "js"


@pytest.fixture(scope="session")
def node_path() -> Path:
    """The folder of installed packages; npm is asked when it is not there yet."""
    if shutil.which("node") is None:
        pytest.skip("needs node; `make test` installs it")
    place = Path(os.environ.get("WARREN_JS", HERE))
    wanted = (HERE / "package.json").read_text("utf-8")
    stamp = place / "node_modules" / "installed.json"
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        if shutil.which("npm") is None:
            pytest.skip("needs npm; `make test` installs it")
        place.mkdir(parents=True, exist_ok=True)
        if place != HERE:
            (place / "package.json").write_text(wanted, "utf-8")
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--silent", "--no-package-lock"],
            cwd=place, check=True, timeout=patient(240),
        )  # fmt: skip
        stamp.write_text(wanted, "utf-8")
    return place / "node_modules"


@pytest.mark.rule("QQ-03")
@pytest.mark.parametrize(
    "check", ["bodies", "consume", "returns", "headers", "unicode", "errors", "rpc"]
)
def test_amqplib(
    check: str, kind: str, names: Names, amqp_address: tuple[str, int], node_path: Path
) -> None:
    host, port = amqp_address
    done = subprocess.run(
        ["node", str(HERE / "amqplib.js"), host, str(port), check, names.queue(), kind],
        env={**os.environ, "NODE_PATH": str(node_path)},
        capture_output=True, text=True, timeout=patient(60), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
