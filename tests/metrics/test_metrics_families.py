"""Warren's families of metrics against those that RabbitMQ had after the same traffic."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.metrics.conftest import Scraped
from tests.metrics.endpoints import ENDPOINTS
from tests.metrics.exposition import Family
from tests.metrics.left_out import DIFFERENT, LEFT_OUT, bare, is_left_out

pytestmark = pytest.mark.process

RECORDED: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "answers" / "rabbitmq-4.3.json").read_text("utf-8")
)
OUR_LABELS = {"product_name", "product_version"}
"""RabbitMQ has these on `rabbitmq_build_info` where it is sold under another name."""


def values(samples: list[list[Any]]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Those samples that are not 0, whatever order they came in."""
    return {
        (name, frozenset(labels.items())): value for name, labels, value in samples if value != 0
    }


def differences(endpoint: str, found: dict[str, Family]) -> list[str]:
    """Where families are not those that were recorded."""
    wrong = []
    for family in RECORDED[endpoint]:
        name, labels = family["name"], family["labels"]
        ours = found.get(name)
        if ours is None:
            # Of what had no samples it does not matter whether it was said that there are none.
            if labels and not is_left_out(endpoint, name):
                wrong.append(f"{name} is not there")
            continue
        if is_left_out(endpoint, name):
            wrong.append(f"{name} is there, and said not to be")
        if ours.type != family["type"]:
            wrong.append(f"{name} is a {ours.type}, and not a {family['type']}")
        own = sorted({tuple(sorted({*each} - OUR_LABELS)) for each in ours.labels()})
        if labels and own != [tuple(each) for each in labels]:
            wrong.append(f"{name} has labels {own}, and not {labels}")
        if "values" in family and bare(name) not in DIFFERENT:
            told = values([[*sample] for sample in ours.samples])
            if told != values(family["values"]):
                wrong.append(f"{name} has {told}, and not {family['values']}")
    known = {family["name"] for family in RECORDED[endpoint]}
    return wrong + [f"RabbitMQ has no {name}" for name in found if name not in known]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_families_are_those_of_rabbitmq(scraped: Scraped, endpoint: str) -> None:
    assert not differences(endpoint, scraped.scrape(endpoint))


def test_what_differs_is_found(scraped: Scraped) -> None:
    found = scraped.scrape("/metrics")
    name = "rabbitmq_global_messages_confirmed_total"
    confirmed = found[name]
    assert differences("/metrics", {each: found[each] for each in found if each != name})
    assert differences("/metrics", found | {name: confirmed._replace(type="gauge")})
    assert differences("/metrics", found | {name: confirmed._replace(samples=[])})
    assert differences("/metrics", found | {"rabbitmq_more": confirmed})


def test_what_is_left_out_is_what_rabbitmq_has() -> None:
    """No pattern stands there for nothing, and what differs is a family."""
    names = {bare(family["name"]) for families in RECORDED.values() for family in families}
    for pattern in LEFT_OUT:
        assert any(is_left_out("", name) for name in names), pattern
    assert set(DIFFERENT) <= names


def test_operators_read_what_is_left_out() -> None:
    text = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text("utf-8")
    for reason in LEFT_OUT.values():
        assert reason in text, reason
    for name in DIFFERENT:
        assert f"rabbitmq_{name}" in text, name
