"""RabbitMQ's tools on Warren say what they say on RabbitMQ 4.3, at the same steps, one by one."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.ctl.deviations import DEVIATIONS, OWN_NAMES, PARTS
from tests.ctl.normal import Said
from tests.ctl.record import ORACLE, OWN
from tests.ctl.steps import STEPS
from tests.ctl.warren import running
from tests.support.once import once_a_run

pytestmark = pytest.mark.process

NAMED = re.compile(r"^([^:\n]+): (.*)$", re.MULTILINE)
"""A line of text with the name of what it tells."""


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
    there, here = oracle._asdict(), said[at]._asdict()
    otherwise = PARTS[DEVIATIONS[STEPS[at].words]]
    assert {part for part in there if there[part] != here[part]} <= set(otherwise)
    of_oracle, of_warren = named(oracle.out), named(said[at].out)
    shared = (of_oracle.keys() & of_warren.keys()) - OWN_NAMES.keys()
    assert {name: of_warren[name] for name in shared} == {name: of_oracle[name] for name in shared}


def named(out: Any) -> dict[str, Any]:
    """What is told under a name: the values of an object, or lines that have one of their own."""
    if isinstance(out, dict):
        return out
    if not isinstance(out, str):
        return {}
    lines = NAMED.findall(out)
    times = Counter(name for name, _ in lines)
    return {name: value for name, value in lines if times[name] == 1}


def test_what_is_told_under_a_name_is_compared() -> None:
    """Where a step deviates as a whole; so many values are RabbitMQ's all the same."""
    oracle = {row["words"]: named(row["out"]) for row in stored(ORACLE)}
    own = {row["words"]: named(row["out"]) for row in stored(OWN)}
    shared = [name for words in own for name in oracle[words].keys() & own[words].keys()]
    assert len([name for name in shared if name not in OWN_NAMES]) > 90
    assert OWN_NAMES.keys() <= set(shared)
    assert PARTS.keys() == set(DEVIATIONS.values())


def test_numbers_that_mean_something_are_compared() -> None:
    """Among them are those of the environment, of members' logs, and limits and timeouts."""
    known = {
        "heartbeat": 60, "consumer_timeout": 1_800_000, "raft.wal_max_size_bytes": 536_870_912,
    }  # fmt: skip
    rows = {row["words"]: row["out"] for row in stored(ORACLE) + stored(OWN)}
    environment = rows["rabbitmqctl environment --formatter json"]
    assert environment | known == environment
    (member,) = rows["rabbitmq-queues quorum_status --vhost orders q1 --formatter json"]
    assert (member["Last Applied"], member["Term"]) == (3, 1)
    (shown,) = (str(out) for words, out in rows.items() if "list_connections name user" in words)
    assert "\t60\t131072\t2047\t" in shown
    assert "Timeout: 60000 ms" in rows["rabbitmqctl ping"]
