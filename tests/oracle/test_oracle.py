"""Warren answers the oracle's scripts as RabbitMQ 4.3 did when they were recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.deviations import DEVIATIONS, edited, edits_of
from tests.oracle.scenarios import SCENARIOS
from tools.oracle import difference, play

RECORD: dict[str, Any] = json.loads(
    (Path(__file__).parent / "rabbitmq-4.3.json").read_text("utf-8")
)


def test_record_and_scenarios_match() -> None:
    """Every scenario was recorded, and nothing else; every deviation is about one."""
    assert set(RECORD) == set(SCENARIOS)
    assert set(DEVIATIONS) <= set(SCENARIOS)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_same_answers(name: str, amqp_address: tuple[str, int], is_warren: bool) -> None:
    """The transcript is the oracle's, but for what deviates on purpose; and that does deviate."""
    got = play(name, amqp_address)
    edits = edits_of(name) if is_warren else []
    diff = difference(edited(RECORD[name], edits), got)
    assert not diff, diff
    for edit in edits:
        others = [other for other in edits if other is not edit]
        assert difference(edited(RECORD[name], others), got), f"not needed any more: {edit}"
