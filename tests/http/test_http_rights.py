"""Who may do what over HTTP: requests about queues and exchanges take their user's permissions.

It is the table of `tests/node/test_access.py` for the ways in over HTTP: a request, and one test
for each right that is missing. Tags, which are asked for first, are in `test_openapi.py`.

Source: R-39.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.http.talk import Ask, Peer

CONFIGURE, WRITE, READ = "configure", "write", "read"
VHOST = "h.rights"
USER = "h.few"
"""Users of these tests have their names as passwords."""
TOPOLOGY = ("queues/q", "exchanges/e", "exchanges/f", "exchanges/dlx", "exchanges/ae")


class Way(NamedTuple):
    """A request, and the permissions and names that it takes."""

    method: str
    path: str
    body: Any
    rights: list[tuple[str, str]]


def message(key: str, **headers: list[str]) -> dict[str, Any]:
    """What is published."""
    return {
        "properties": {"headers": headers},
        "routing_key": key,
        "payload": "p",
        "payload_encoding": "string",
    }


GOT = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
DEAD_LETTERS = {"durable": True, "arguments": {"x-dead-letter-exchange": "dlx"}}
ALTERNATE = {"type": "topic", "arguments": {"alternate-exchange": "ae"}}
KEY = {"routing_key": "k"}

WAYS: dict[str, Way] = {
    "publish": Way("POST", "exchanges/{}/e/publish", message("k"), [(WRITE, "e")]),
    "publish with CC": Way(
        "POST", "exchanges/{}/e/publish", message("k", CC=["q"]), [(WRITE, "e")]
    ),
    "publish with BCC": Way(
        "POST", "exchanges/{}/e/publish", message("k", BCC=["q"]), [(WRITE, "e")]
    ),
    "publish to a queue": Way(
        "POST", "exchanges/{}/amq.default/publish", message("q"), [(WRITE, "amq.default")]
    ),
    "get": Way("POST", "queues/{}/q/get", GOT, [(READ, "q")]),
    "look": Way("POST", "queues/{}/q/look", {}, [(READ, "q")]),
    "search": Way("POST", "queues/{}/q/search", {"where": "body", "text": "x"}, [(READ, "q")]),
    "purge": Way("DELETE", "queues/{}/q/contents", None, [(READ, "q")]),
    "declare a queue": Way("PUT", "queues/{}/new", {"durable": True}, [(CONFIGURE, "new")]),
    "declare a queue with dead letters": Way(
        "PUT", "queues/{}/new", DEAD_LETTERS, [(CONFIGURE, "new"), (READ, "new"), (WRITE, "dlx")]
    ),
    "declare an exchange": Way("PUT", "exchanges/{}/new", {"type": "topic"}, [(CONFIGURE, "new")]),
    "declare an exchange with an alternate": Way(
        "PUT", "exchanges/{}/new", ALTERNATE, [(CONFIGURE, "new"), (READ, "new"), (WRITE, "ae")]
    ),
    "bind": Way("POST", "bindings/{}/e/e/q/q", KEY, [(WRITE, "q"), (READ, "e")]),
    "bind an exchange": Way("POST", "bindings/{}/e/e/e/f", KEY, [(WRITE, "f"), (READ, "e")]),
    "unbind": Way("DELETE", "bindings/{}/e/e/q/q/there", None, [(WRITE, "q"), (READ, "e")]),
    "delete a queue": Way("DELETE", "queues/{}/q", None, [(CONFIGURE, "q")]),
    "delete an exchange": Way("DELETE", "exchanges/{}/e", None, [(CONFIGURE, "e")]),
}
CELLS = [(name, *right) for name, way in WAYS.items() for right in way.rights]

TOPICS: dict[str, tuple[str, Any]] = {
    "publish": ("exchanges/{}/e/publish", message("theirs")),
    "publish with CC": ("exchanges/{}/e/publish", message("mine", CC=["theirs"])),
    "publish with BCC": ("exchanges/{}/e/publish", message("mine", BCC=["theirs"])),
    "bind": ("bindings/{}/e/e/q/q", {"routing_key": "theirs"}),
}
"""Requests with a routing key that is not for everybody."""


def ask(peer: Peer, method: str, path: str, body: Any = None, user: str = "guest") -> int:
    """Ask for something of the vhost; gives the status."""
    return answer(peer, method, path, body, user)[0]


def answer(
    peer: Peer, method: str, path: str, body: Any = None, user: str = "guest"
) -> tuple[int, bytes]:
    """The same, with what it says."""
    status, _, content = peer.raw(
        Ask(method, "/" + path.format(quote(VHOST, safe="")), body, user=user)
    )
    return status, content


def permit(peer: Peer, permission: str = "", name: str = "") -> None:
    """Let the user do everything but this."""
    rights = {CONFIGURE: ".*", WRITE: ".*", READ: ".*"}
    if permission:
        rights[permission] = f"^(?!{name}$)"
    assert ask(peer, "PUT", f"permissions/{{}}/{USER}", rights) in (201, 204)


def there(peer: Peer) -> object:
    """What the vhost has: queues, exchanges, bindings."""
    found = []
    for kind, columns in (
        ("queues", "name,messages"),
        ("exchanges", "name"),
        ("bindings", "source,destination,routing_key"),
    ):
        status, content = answer(peer, "GET", f"{kind}/{{}}?columns={columns}")
        assert status == 200
        found.append(json.loads(content))
    return found


@pytest.fixture
def world(peer: Peer) -> Iterator[Peer]:
    """A vhost with what requests need, and a user who may do everything in it."""
    everything = {CONFIGURE: ".*", WRITE: ".*", READ: ".*"}
    ask(peer, "PUT", f"users/{USER}", {"password": USER, "tags": "management"})
    ask(peer, "PUT", "vhosts/{}", {})
    ask(peer, "PUT", "permissions/{}/guest", everything)
    permit(peer)
    for path in TOPOLOGY:
        kind, _, name = path.partition("/")
        body = {"durable": True} if kind == "queues" else {"type": "topic"}
        assert ask(peer, "PUT", f"{kind}/{{}}/{name}", body) == 201
    assert ask(peer, "POST", "bindings/{}/e/e/q/q", {"routing_key": "there"}) == 201
    yield peer
    ask(peer, "DELETE", "vhosts/{}")
    ask(peer, "DELETE", f"users/{USER}")


@pytest.mark.parametrize("name", WAYS)
def test_with_all_rights_a_request_is_not_refused(world: Peer, name: str) -> None:
    way = WAYS[name]
    status, content = answer(world, way.method, way.path, way.body, USER)
    assert 200 <= status < 300, content


@pytest.mark.parametrize(("name", "permission", "what"), CELLS)
def test_each_right_that_is_missing_refuses_a_request(
    world: Peer, name: str, permission: str, what: str
) -> None:
    permit(world, permission, what)
    way, before = WAYS[name], there(world)
    status, content = answer(world, way.method, way.path, way.body, USER)
    assert status == 401 and json.loads(content)["error"] == "not_authorised", content
    assert there(world) == before


@pytest.mark.parametrize("name", TOPICS)
def test_topic_permissions_bound_routing_keys(world: Peer, name: str) -> None:
    path, body = TOPICS[name]
    before = there(world)
    for pattern, least, most in (("^mine$", 401, 401), ("^(mine|theirs)$", 200, 299)):
        rights = {"exchange": "e", WRITE: pattern, READ: pattern}
        assert ask(world, "PUT", f"topic-permissions/{{}}/{USER}", rights) in (201, 204)
        status, content = answer(world, "POST", path, body, USER)
        assert least <= status <= most, content
        if status == 401:
            assert there(world) == before


def test_definitions_of_a_vhost_are_for_administrators(world: Peer) -> None:
    """Whatever permissions a user has there: an import takes none of them into account."""
    before = there(world)
    body = {"queues": [{"name": "new", "durable": True, "auto_delete": False, "arguments": {}}]}
    assert ask(world, "POST", "definitions/{}", body, USER) == 401
    assert there(world) == before
    assert ask(world, "POST", "definitions/{}", body) in (200, 204)
    assert there(world) != before


@pytest.mark.parametrize("node", [{}, [], 1, None, {"name": "x"}])
@pytest.mark.parametrize("way", ["POST add", "DELETE delete"])
def test_a_member_that_is_named_by_no_text_is_refused(world: Peer, way: str, node: Any) -> None:
    method, _, word = way.partition(" ")
    path = f"queues/quorum/{{}}/q/replicas/{word}"
    status, content = answer(world, method, path, {"node": node})
    assert (status, "Node is not a cluster member" in str(content)) == (400, True), content
