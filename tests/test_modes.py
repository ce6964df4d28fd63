"""`WARREN_PURE=1` runs the source although compiled modules lie beside it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import warren

SHOW = (
    "import sys, warren, warren.errors\n"
    "print(warren.COMPILED, warren.errors.__file__.rpartition('.')[2],"
    " any('__mypyc' in name for name in sys.modules))\n"
)


def run(pure: str) -> list[str]:
    """What a fresh interpreter says about its modules."""
    result = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "WARREN_PURE": pure},
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.split()


def test_pure() -> None:
    assert run("1") == ["False", "py", "False"]


@pytest.mark.skipif(not warren.COMPILED, reason="the package under test was not compiled")
def test_compiled() -> None:
    assert run("") == ["True", "so", "True"]
    assert run("0") == ["True", "so", "True"]
