"""`python -m sim`: which seeds it runs, and for how long."""

from __future__ import annotations

import pytest

from sim.__main__ import main


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: str) -> str:
    """What the command prints."""
    monkeypatch.setattr("sys.argv", ["sim", *words.split()])
    assert main() == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("kind", ["", "--cluster "])
def test_seeds_for_a_time(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It runs seeds until the time is up, and says which."""
    words = f"{kind}--for 0.1 --first 7 --operations 5 --workers 1"
    lines = run(monkeypatch, capsys, words).splitlines()
    assert lines[0] == "seeds from 7 on, for 0.1 s"
    assert int(lines[1].split()[0]) > 0
    assert " 0 failed" in lines[1]


def test_each_run_has_seeds_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who does not say where to begin begins elsewhere each time."""
    first = {run(monkeypatch, capsys, "--for 0").splitlines()[0] for _ in range(3)}
    assert len(first) > 1


def test_seeds_by_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Several workers run as many seeds as were asked for."""
    lines = run(monkeypatch, capsys, "--seeds 3 --operations 5 --workers 2").splitlines()
    assert lines[0].startswith("3 seeds, 0 failed")
