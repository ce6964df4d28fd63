"""Histories are judged on Spark as the serial checker judges them, those of chaos tests too."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sim.history import serial
from sim.history import spark as on_spark
from sim.history.forge import forge, scribble
from sim.history.vector import judge_others, judge_part, put_together, read_part
from sim.history.verdict import Verdict
from tests.cluster.chaos.kept import kept_histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAULTS = 60
"""Of each kind, and more than there are publishers."""


def found(verdict: Verdict) -> dict[str, object]:
    return asdict(verdict)


@pytest.mark.rule("G-24")
def test_parts_come_to_the_same(tmp_path: Path) -> None:
    """However many parts there are, some of them without any event."""
    scribble(tmp_path, 20, 5)
    for parts in (1, 3, 40):
        found = [judge_part(read_part(tmp_path, part, parts)) for part in range(parts)]
        verdict = put_together(found, judge_others(tmp_path))
        assert asdict(verdict) == asdict(serial.check(tmp_path))


@pytest.mark.spark
def test_planted_faults_are_found_by_both(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    planted = forge(folder, 80_000, FAULTS, 7)
    one, other = serial.check(folder), on_spark.check(spark, folder)
    assert found(other) == found(one)
    for name in ("lost", "invented", "late"):
        assert getattr(one, name) == getattr(planted, name)
        assert len(getattr(one, name)) == FAULTS
    assert one.doubled == planted.doubled and len(one.doubled) == 2 * FAULTS
    assert not one.good and not one.vacuous


@pytest.mark.rule("G-24")
@pytest.mark.spark
def test_what_makes_no_sense_is_judged_alike(spark: SparkSession, tmp_path: Path) -> None:
    """Many histories of events in any order, each with names of its own, in one."""
    scribble(tmp_path / "history", 60, 11)
    one = serial.check(tmp_path / "history")
    assert min(map(len, (one.lost, one.invented, one.doubled, one.late))) > 10
    assert found(on_spark.check(spark, tmp_path / "history")) == found(one)


@pytest.mark.spark
def test_no_history_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        on_spark.check(spark, tmp_path)


@pytest.mark.spark
def test_histories_of_chaos_tests(spark: SparkSession) -> None:
    """Those that the chaos tests have left in this checkout."""
    folders = kept_histories()
    if not folders:
        pytest.skip("no chaos test has run in this checkout")
    for folder in folders:
        verdict = on_spark.check(spark, folder)
        assert found(verdict) == found(serial.check(folder)), folder
