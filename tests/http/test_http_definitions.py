"""Definitions as a request brings them: who may, and what is no definitions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.admin.host import answered, service_of
from tests.node.pair import Pair
from warren.admin.http.answers import HttpAnswer
from warren.admin.http.asked import HttpRequest
from warren.admin.http.errors import Problem
from warren.admin.http.resources import definitions
from warren.admin.service.caller import LOCAL, Caller, NotAuthorised
from warren.admin.service.definitions import KINDS, Given

MANAGER = Caller("m", frozenset({"management"}))


@pytest.fixture
def pair() -> Pair:
    return Pair(alone=True)


def loaded(pair: Pair, body: bytes, caller: Caller = LOCAL, vhost: str = "") -> HttpAnswer:
    request = HttpRequest(service_of(pair), caller, {"vhost": vhost}, {}, {}, body)

    async def ask() -> HttpAnswer:
        return await (definitions.load_vhost if vhost else definitions.load)(request)

    return answered(pair, ask)


@pytest.mark.parametrize("vhost", ["", "/"])
def test_who_may_not_import_has_nothing_decoded(pair: Pair, vhost: str) -> None:
    """They are refused before anything is said of what they sent, which is no JSON here."""
    with pytest.raises(NotAuthorised):
        loaded(pair, b"{", MANAGER, vhost)
    with pytest.raises(Problem) as wrong:
        loaded(pair, b"{", LOCAL, vhost)
    assert wrong.value.answer.status == 400


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [{"a": {}}, {}, "text", "", 5, 0, False])
def test_a_kind_of_things_is_a_list(pair: Pair, kind: str, value: Any) -> None:
    with pytest.raises(Problem) as wrong:
        loaded(pair, json.dumps({kind: value}).encode())
    assert wrong.value.answer.status == 400
    assert wrong.value.answer.body["reason"] == f"{kind} of the definitions: a list is expected"


def test_what_is_no_kind_of_things_is_passed_over(pair: Pair) -> None:
    given = {"rabbit_version": "4.3.0", "metadata": {"tags": []}, "users": None, "queues": []}
    indented = json.dumps({**given, "vhosts": [{"name": "v"}]}, indent=4).encode()
    assert loaded(pair, indented).status == 204
    assert "v" in service_of(pair).machine.vhosts


def test_all_kinds_are_read() -> None:
    assert set(Given({}, "").counts()) == set(KINDS)


def test_who_imports_a_new_vhost_may_do_everything_in_it(pair: Pair) -> None:
    """As RabbitMQ 4.3.6 has it; what the definitions say of that user counts all the same."""
    own = {"user": "guest", "configure": "", "write": "", "read": "^r"}
    given = {
        "vhosts": [{"name": "new"}, {"name": "said"}, {"name": "/"}],
        "permissions": [{"vhost": "said", **own}, {"vhost": "/", **own}],
    }
    guest = Caller("guest", frozenset({"administrator"}))
    assert loaded(pair, json.dumps(given).encode(), guest).status == 204
    assert loaded(pair, b'{"vhosts": [{"name": "/"}, {"name": "said"}]}', guest).status == 204
    assert loaded(pair, b'{"vhosts": [{"name": "of a command"}]}').status == 204
    vhosts = service_of(pair).machine.vhosts
    found = {name: tables.permissions.get("guest") for name, tables in vhosts.items()}
    shown = {name: right and (right.configure, right.read) for name, right in found.items()}
    assert shown == {
        "/": ("", "^r"), "new": (".*", ".*"), "said": ("", "^r"), "of a command": None,
    }  # fmt: skip
