"""Warren answers the oracle's scripts as RabbitMQ 4.3 did when they were recorded."""

from __future__ import annotations

import pytest

from tests.oracle import recorded
from tests.oracle.deviations import DEVIATIONS
from tests.oracle.recorded import difference, play, play_at_once
from tests.oracle.registry import Scenario, load
from tests.oracle.session import Session
from tests.oracle.verdict import verdict
from tools.rules import read_rules

SCENARIOS = load()
STORED = recorded.read()
TRACING = "tracing"
"""The area of scripts that want a vhost traced."""


def names_of(tracing: bool) -> list[str]:
    """The scripts that are played one after the other."""
    return sorted(
        name
        for name, each in SCENARIOS.items()
        if not each.waits and (each.area == TRACING) == tracing
    )


def test_answers_and_scenarios_match() -> None:
    """Every scenario was recorded, and nothing else; every deviation is about one."""
    assert set(STORED) == set(SCENARIOS)
    assert set(DEVIATIONS) <= set(SCENARIOS)


def test_what_is_lacking_is_a_rule() -> None:
    """A mark names what it waits for, and nothing that lacks deviates, too."""
    rules = {rule.id for rule in read_rules()}
    lacking = {each.name: each.lacking for each in SCENARIOS.values() if each.lacking}
    assert {name: rule for name, rule in lacking.items() if rule not in rules} == {}
    assert not set(lacking) & set(DEVIATIONS)


@pytest.mark.parametrize("name", names_of(tracing=False))
def test_same_answers(name: str, amqp_address: tuple[str, int], is_warren: bool) -> None:
    """The transcript is the oracle's, but for what deviates on purpose; and that does deviate."""
    compare(name, amqp_address, is_warren)


@pytest.mark.parametrize("name", names_of(tracing=True))
def test_same_traces(name: str, tracing_address: tuple[str, int], is_warren: bool) -> None:
    """The same where messages that pass are told of."""
    compare(name, tracing_address, is_warren)


def compare(name: str, amqp_address: tuple[str, int], is_warren: bool) -> None:
    """Play a script and compare what was said with what the oracle said."""
    scenario = SCENARIOS[name]
    got = play(scenario, amqp_address, lacking=is_warren and bool(scenario.lacking))
    diff = verdict(scenario, STORED[name], got) if is_warren else difference(STORED[name], got)
    assert not diff, diff


@pytest.mark.parametrize("lacking", [False, True], ids=["there", "lacking"])
def test_same_answers_after_waits(
    lacking: bool, amqp_address: tuple[str, int], is_warren: bool
) -> None:
    """The same for scripts that wait, played beside each other."""
    waiting = [s for s in SCENARIOS.values() if s.waits and bool(s.lacking) == lacking]
    wrong = []
    for name, got in play_at_once(waiting, amqp_address, lacking and is_warren).items():
        if isinstance(got, Exception):
            wrong.append(f"{name}\n{got!r}")
            continue
        known = SCENARIOS[name], STORED[name]
        if diff := verdict(*known, got) if is_warren else difference(known[1], got):
            wrong.append(f"{name}\n{diff}")
    assert not wrong, "\n\n".join(wrong)


def test_marks_out_of_date_are_found() -> None:
    """What is marked as lacking has to be refused by name, and nothing else may be."""

    def nothing(_: Session) -> None:
        """Plays nothing."""

    lacks = Scenario("s", "a", nothing, "DL-01", False)
    refused = {
        "a/1": [{"reply_text": "argument 'x' is not supported yet by this version of Warren"}]
    }
    assert not verdict(lacks, {"a/1": ["fine"]}, refused)
    assert "take `lacking` away" in verdict(lacks, {"a/1": ["fine"]}, {"a/1": ["fine"]})
    assert verdict(lacks._replace(lacking=""), {"a/1": ["fine"]}, refused)
    assert not verdict(lacks._replace(lacking=""), {"a/1": ["fine"]}, {"a/1": ["fine"]})
