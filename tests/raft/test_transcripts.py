"""Scenarios one can read, a file each in `transcripts/`; `script.py` says how they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.raft.script import Script

FILES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def play(text: str) -> str:
    """The text with the answers as they are now."""
    script = Script()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("  "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            lines += [f"  {answer}" for answer in script.play(line)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    expected = path.read_text(encoding="utf-8")
    found = play(expected)
    if os.environ.get("WARREN_REWRITE"):
        path.write_text(found, encoding="utf-8")
    else:
        assert found == expected
    assert any(line.startswith("  ") for line in found.splitlines())
