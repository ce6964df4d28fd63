"""The API's description: it is true of who may ask, and of what is answered to anything."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import hypothesis
import pytest
import schemathesis

from tests.http.talk import ROLES, Ask, Peer
from warren.admin.http.asked import Resource
from warren.admin.http.openapi import BODIES, document
from warren.admin.http.resources.catalogue import RESOURCES

FEW = 3
EXAMPLES = int(os.environ.get("WARREN_API_EXAMPLES", FEW))
"""Requests that are made up for each operation; in `make long` more, and others each time."""

DOCUMENT = document(RESOURCES)
OPERATIONS = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
TITLES = [f"{method} {path}" for method, path, _ in OPERATIONS]
ORDER = ("PUT", "GET", "POST", "DELETE")

VARIABLES = {"vhost": "h", "exchange": "roles.e", "queue": "roles.q", "kind": "q", "key": "k"}
OTHERS = {"destination": "roles.q", "within": "1", "unit": "weeks", "port": "1", "user": "h.roles"}
EXAMPLE: dict[str, Any] = {
    "pattern": "^none$",
    "definition": {"max-length": 5},
    "value": 5,
    "node": "nowhere",
    "tags": "",
    "password": "x",
    "users": ["h.nobody"],
    "count": 1,
    "name": "roles",
    "type": "topic",
    "exchange": "amq.topic",
    "action": "none",
    "strategy": "all",
    "ackmode": "ack_requeue_true",
    "encoding": "auto",
    "where": "body",
    "text": "x",
    "payload": "x",
    "payload_encoding": "string",
    "properties": {},
    "routing_key": "k",
    "vhost_pattern": "^none$",
    "queue_pattern": "^none$",
}
"""A value for whatever a body may have to say."""

MAY: dict[str, set[str]] = {role: set(tags.split(",")) for role, tags in ROLES.items()}


def path_of(path: str) -> str:
    """A path with names in it, most of which nothing has."""
    values = {**VARIABLES, **OTHERS, "node": "nowhere"}
    if path in ("/api/vhosts/{vhost}", "/api/vhosts/{vhost}/deletion/protection"):
        values["vhost"] = "h.roles"
    parts = [
        quote(values.get(part[1:-1], "max-queues"), safe="") if part.startswith("{") else part
        for part in path.split("/")
    ]
    return "!" + "/".join(parts)


def body_of(method: str, path: str) -> Any:
    schema = BODIES.get(f"{method} {path}")
    if schema is None:
        return None
    names = [
        *schema.get("required", ()),
        *(("type",) if "type" in schema.get("properties", {}) else ()),
    ]
    return {name: EXAMPLE.get(name, ".*") for name in names}


ODD_VALUES = (
    *("{}", "[]", "[{}]", "null", "true", "-1", "1.5", "1e400", "18446744073709551616", '""'),
    *('"\\ud800"', '"\\u0000"', '{"a": {"\\ud800": [1e400]}}'),
)
"""What a property of a body may be that none should be, as JSON."""


@pytest.fixture
def rights(peer: Peer) -> Iterator[Peer]:
    """A vhost in which all but `h.out` may do everything, with a queue and an exchange."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    peer.raw(Ask("PUT", "/vhosts/h", {}))
    for user in ("guest", *ROLES):
        if user != "h.out":
            peer.raw(Ask("PUT", f"/permissions/h/{user}", everything))
    yield peer
    for path in ("/vhosts/h", "/vhosts/h.roles", "/users/h.roles", "/global-parameters/max-queues"):
        peer.raw(Ask("DELETE", path))


@pytest.mark.parametrize("role", list(ROLES))
def test_every_operation_is_for_those_whom_its_description_names(role: str, rights: Peer) -> None:
    """A table of all operations for each role: who has no such tag gets 401, whoever asks for what
    is in a vhost that is not theirs gets 401 or 404, and all others are not refused for a tag."""
    wrong: list[str] = []
    asked = sorted(OPERATIONS, key=lambda each: ORDER.index(each[0]))
    for method, path, operation in asked:
        if path == "/api/cluster-name" and method == "PUT" and role == "h.administrator":
            continue
        for name in ("queues", "exchanges"):
            # Others need them there, too.
            what = {"durable": True} if name == "queues" else {"type": "topic"}
            rights.raw(Ask("PUT", f"/{name}/h/roles.{name[0]}", what))
        status, _, content = rights.raw(
            Ask(method, path_of(path), body_of(method, path), user=role)
        )
        allowed = bool(MAY[role] & set(operation["x-tags"]))
        refused = status == 401 and any(
            text in content for text in (b"Not management", b"Not administrator", b"Not monitor")
        )
        outside = role == "h.out" and "{vhost}" in path and "/health/" not in path
        if str(status) not in operation["responses"]:
            wrong.append(f"{method} {path}: {status} is not described")
        if not allowed and status != 401:
            wrong.append(f"{method} {path}: {status} {content[:80]!r} without a tag")
        if allowed and refused:
            wrong.append(f"{method} {path}: {status} {content[:80]!r} with a tag")
        if allowed and outside and status not in (401, 404):
            wrong.append(f"{method} {path}: {status} {content[:80]!r} from outside")
    assert not wrong, "\n".join(wrong)


def test_the_description_is_served(peer: Peer) -> None:
    status, headers, content = peer.raw(Ask("GET", "/openapi.json", user="h.management"))
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(content) == DOCUMENT
    assert peer.raw(Ask("GET", "/openapi.json", user="h.none"))[0] == 401


def test_all_bodies_are_of_operations() -> None:
    assert not set(BODIES) - set(TITLES)
    without = [title for title in TITLES if title.startswith("PUT") and title not in BODIES]
    assert without == ["PUT /api/feature-flags/{name}/enable"]


class Mutual:
    """A handler of two methods that call each other, and are other objects at each look."""

    def __init__(self) -> None:
        self.looks: list[Any] = []

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("get", "more"):
            self.looks.append(found)
            assert len(self.looks) < 100, "it is looked at again and again"
        return found

    def get(self) -> Any:
        return self.more()

    def more(self) -> Any:
        return self.get()


def test_a_handler_whose_methods_call_each_other_is_described_once() -> None:
    found = document([Resource("/api/mutual", get=Mutual().get)])
    assert list(found["paths"]["/api/mutual"]) == ["get"]


def bodies_with(value: str, method: str, path: str) -> Iterator[str]:
    """Bodies of an operation in which one property, or all of it, is this."""
    yield value
    names = list(BODIES[f"{method} {path}"].get("properties", {}))
    for odd in names:
        parts = (
            f"{json.dumps(name)}: {value if name == odd else json.dumps(EXAMPLE.get(name, '.*'))}"
            for name in names
        )
        yield "{" + ", ".join(parts) + "}"


def test_no_property_of_a_body_fails_the_node(rights: Peer) -> None:
    """Whatever stands in the place of a text, a number or a table is taken or refused."""
    wrong: list[str] = []
    for method, path, operation in OPERATIONS:
        if f"{method} {path}" not in BODIES:
            continue
        # The queue and the exchange are there, so that all of the body is looked at.
        rights.raw(Ask("PUT", "/queues/h/roles.q", {"durable": True}))
        rights.raw(Ask("PUT", "/exchanges/h/roles.e", {"type": "topic"}))
        for value in ODD_VALUES:
            for body in bodies_with(value, method, path):
                where = path_of(path.replace("{node}", quote(rights.node, safe="")))
                status, _, content = rights.raw(Ask(method, where, body))
                if status == 500 or str(status) not in operation["responses"]:
                    wrong.append(f"{method} {path} {body}: {status} {content[:200]!r}")
    assert not wrong, "\n".join(wrong)


def made_up(operation: Any, base: str) -> int:
    """Have requests to an operation answered; how many there were."""
    known = set(operation.definition.raw["responses"])
    asked: list[int] = []

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=EXAMPLES == FEW,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate],
    )
    @hypothesis.given(case=operation.as_strategy())
    def answered(case: Any) -> None:
        answer = case.call(base_url=base, auth=("guest", "guest"), timeout=60)
        asked.append(answer.status_code)
        told = (operation.label, answer.status_code, answer.text[:300], case.as_curl_command())
        assert answer.status_code != 500 and str(answer.status_code) in known, told

    answered()
    return len(asked)


def test_whatever_is_asked_is_answered_as_described(rights: Peer) -> None:
    """Requests made up from the description: none fails the node, and each status is in it."""
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    base = f"http://{rights.host}:{rights.port}"
    asked = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path == "/api/users/bulk-delete":
            # Names that are made up might be those of others' users.
            continue

        asked += made_up(operation, base)
    assert asked >= EXAMPLES * len(OPERATIONS) // 2
