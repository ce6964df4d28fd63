"""What takes long to make and is the same for all: one worker makes it, the others read it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def once_a_run(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], Any]) -> Any:
    """Give each worker of this run what `make` gives as JSON, of a folder, to the first of them.

    The others wait meanwhile. Where it fails, it does so for each that asks.
    """
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    made = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            text = json.dumps(make(factory.mktemp(name)))
            part = made.with_suffix(".part")
            part.write_text(text, encoding="utf-8")
            part.rename(made)
        return json.loads(made.read_text(encoding="utf-8"))
