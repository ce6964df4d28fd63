"""Writes which versions images are made of, each with its hashes: `packaging/requirements*.txt`.

    python tools/lock.py [UV]

UV is the program of that name, which looks the versions up; by default the one that is found. It
takes the newest that `pyproject.toml` allows, for Linux on any processor.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "3.11"
"""The one of `packaging/Dockerfile`."""
LOCKS = {
    "requirements.txt": ("project", "dependencies"),
    "requirements-build.txt": ("build-system", "requires"),
}
"""Each file, and what of `pyproject.toml` it is made of."""


def wanted(table: str, key: str) -> list[str]:
    """Requirements that `pyproject.toml` states."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(project[table][key])


def locked(uv: str, requirements: list[str]) -> str:
    """These and all that they need, with versions and hashes."""
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "asked.in"
        asked.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        command = [uv, "pip", "compile", str(asked), "--universal", "--python-version", PYTHON]
        command += ["--generate-hashes", "--no-header", "--no-annotate", "--no-emit-index-url"]
        command += ["--no-emit-find-links", "--quiet", "--no-config"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    uv = sys.argv[1] if len(sys.argv) > 1 else "uv"
    for name, (table, key) in LOCKS.items():
        text = locked(uv, wanted(table, key))
        (ROOT / "packaging" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
