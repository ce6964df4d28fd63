"""The generated module: up to date with its specification, and consistent in itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.wire.strategies import argument_names
from warren.wire.amqp091 import spec

ROOT = Path(__file__).resolve().parents[2]
OFFICIAL = "amqp-rabbitmq-0.9.1.json"


def _official() -> Path | None:
    """RabbitMQ's specification file, which is published separately: `WARREN_SPEC`, or nearby."""
    named = os.environ.get("WARREN_SPEC")
    path = Path(named) if named else ROOT.parent / "shared" / "spec" / OFFICIAL
    return path if path.is_file() else None


def test_up_to_date() -> None:
    official = _official()
    if official is None:
        pytest.skip(f"{OFFICIAL} is not here; set WARREN_SPEC to its path")
    generated = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tools" / "generate_amqp091.py"),
            str(official),
            str(ROOT / "tools" / "amqp091-extension.json"),
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert generated == (ROOT / "src/warren/wire/amqp091/spec.py").read_text(encoding="utf-8")


def test_every_method_is_listed_once() -> None:
    ids = [(method.CLASS_ID, method.METHOD_ID) for method in spec.METHODS]
    assert ids == sorted(set(ids))
    names = [method.NAME for method in spec.METHODS]
    assert len(set(names)) == len(names)
    defined = {
        member
        for member in vars(spec).values()
        if isinstance(member, type)
        and issubclass(member, spec.Method)
        and member is not spec.Method
    }
    assert defined == set(spec.METHODS)


def test_the_protocol_is_whole() -> None:
    """The classes of AMQP 0-9-1 as RabbitMQ speaks it, and ours, by number of methods."""
    counts: dict[int, int] = {}
    for method in spec.METHODS:
        counts[method.CLASS_ID] = counts.get(method.CLASS_ID, 0) + 1
    assert counts == {10: 14, 20: 6, 30: 2, 40: 8, 50: 10, 60: 18, 85: 2, 90: 6, 240: 30}


def test_who_answers_whom() -> None:
    """A synchronous method has an `-ok` with the next id; content comes with these only."""
    by_name = {method.NAME: method for method in spec.METHODS}
    for method in spec.METHODS:
        if method.SYNCHRONOUS and method.NAME != "basic.get":
            answer = by_name[method.NAME + "-ok"]
            assert not answer.SYNCHRONOUS
            # exchange.unbind-ok is 51 by an old slip of the specification.
            assert answer.METHOD_ID - method.METHOD_ID in {1, 11}
    assert {method.NAME for method in spec.METHODS if method.HAS_CONTENT} == {
        "basic.publish",
        "basic.return",
        "basic.deliver",
        "basic.get-ok",
        "table.checkout-ok",
        "table.checkouts-ok",
        "table.groups-ok",
        "table.held-ok",
        "table.messages-ok",
        "table.queues-ok",
        "table.read-ok",
        "table.retake-ok",
        "table.status-ok",
    }


def test_constants() -> None:
    assert (spec.FRAME_METHOD, spec.FRAME_HEADER, spec.FRAME_BODY) == (1, 2, 3)
    assert (spec.FRAME_HEARTBEAT, spec.FRAME_END, spec.FRAME_MIN_SIZE) == (8, 206, 8192)
    assert (spec.NOT_FOUND, spec.SYNTAX_ERROR, spec.INTERNAL_ERROR) == (404, 502, 541)


def test_tables_are_not_shared_between_methods() -> None:
    """A default argument is a new table each time."""
    one, other = spec.QueueDeclare(), spec.QueueDeclare()
    one.arguments["x"] = 1
    assert other.arguments == {}


def test_methods_have_no_other_attributes() -> None:
    with pytest.raises(AttributeError):
        spec.BasicAck().surprise = 1  # type: ignore[attr-defined]
    assert argument_names(spec.BasicAck) == ["delivery_tag", "multiple"]
