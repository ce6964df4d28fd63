"""RabbitMQ's tools on Warren say what they say on RabbitMQ 4.3, at the same steps, one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ctl.deviations import DEVIATIONS
from tests.ctl.normal import Said
from tests.ctl.record import ORACLE, OWN
from tests.ctl.steps import STEPS
from tests.ctl.warren import running
from tests.support.once import once_a_run

pytestmark = pytest.mark.process


def stored(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return rows


def said_in(row: dict[str, Any]) -> Said:
    return Said(row["code"], row["out"], row["err"])


def played(folder: Path) -> list[Said]:
    """Play all steps to a Warren."""
    with running(folder) as found:
        return found


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> list[Said]:
    """What Warren says at each step."""
    return [Said(*each) for each in once_a_run(tmp_path_factory, "ctl", played)]


def test_each_step_was_recorded_once() -> None:
    rows = stored(ORACLE)
    assert [(row["words"], row["given"]) for row in rows] == [tuple(step) for step in STEPS]
    assert {row["words"] for row in stored(OWN)} == set(DEVIATIONS)
    assert set(DEVIATIONS) <= {step.words for step in STEPS}


@pytest.mark.parametrize("at", range(len(STEPS)), ids=lambda at: f"{at}-{STEPS[at].words[:60]}")
def test_what_is_said_is_what_rabbitmq_says(said: list[Said], at: int) -> None:
    oracle = said_in(stored(ORACLE)[at])
    if STEPS[at].words not in DEVIATIONS:
        assert said[at] == oracle
        return
    own = [row for row in stored(OWN) if row["words"] == STEPS[at].words]
    nth = [step.words for step in STEPS[:at]].count(STEPS[at].words)
    assert said[at] == said_in(own[nth])
    alike = [said_in(row) for row in stored(ORACLE) if row["words"] == STEPS[at].words]
    assert said_in(own[nth]) != oracle or len(alike) > 1, "the deviation is out of date"
