"""Where chaos tests leave their histories, for the checker on Spark in a later stage."""

from __future__ import annotations

import shutil
from pathlib import Path

KEPT = Path(__file__).resolve().parents[3] / "build" / "histories"


def keep(history: Path, name: str) -> None:
    """Keep the newest history of each test."""
    KEPT.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(KEPT / name, ignore_errors=True)
    shutil.copytree(history, KEPT / name)


def kept_histories() -> list[Path]:
    """Those that there are."""
    return sorted(path for path in KEPT.glob("*") if path.is_dir())
