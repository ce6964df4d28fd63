"""Warren answers over HTTP as RabbitMQ 4.3 does, but for what is listed with its reason."""

from __future__ import annotations

import pytest

from tests.http import recorded
from tests.http.deviations import DEVIATIONS
from tests.http.talk import Peer
from tests.http.verdict import differences

STORED = recorded.read()


@pytest.mark.parametrize("name", list(recorded.TALKS))
def test_answers_are_those_of_rabbitmq(name: str, peer: Peer) -> None:
    said = peer.talk(recorded.TALKS[name])
    assert differences(name, STORED[name], said) == []


@pytest.mark.rule("ARG-12")
@pytest.mark.parametrize("kind", ["policies", "operator policies"])
def test_policies_are_set_over_http(kind: str, peer: Peer) -> None:
    """Vhost and name stand in the path, `%2F` in either; what was set is there, and goes again."""
    said = peer.talk(recorded.TALKS[kind])
    assert differences(kind, STORED[kind], said) == []
    assert [answer["status"] for answer in said[:3]] == [201, 204, 201]
    assert {row["name"] for row in said[3]["body"]} == {"p1", "p/2"}


def test_so_much_was_recorded() -> None:
    assert STORED.keys() == recorded.TALKS.keys()
    assert sum(len(answers) for answers in STORED.values()) > 800


def test_deviations_are_of_requests() -> None:
    """One whose request is no more would be looked at by nothing."""
    asked = {(name, answer["ask"]) for name, answers in STORED.items() for answer in answers}
    unknown = [key for key in DEVIATIONS if (key[0], key[1].partition(" (")[0]) not in asked]
    assert unknown == []
