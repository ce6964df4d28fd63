"""A vhost as any protocol uses it: requests and results, without a frame of AMQP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.node.pair import Pair
from warren import errors
from warren.errors import Refusal
from warren.message.facts import MessageFacts
from warren.metadata.commands import (
    ClearPolicy,
    DeclareVhost,
    DeleteVhost,
    SetPermissions,
    SetPolicy,
)
from warren.pending import PendingRequest, Result
from warren.protocols.broker import Login
from warren.vhost.handle import VhostHandle
from warren.vhost.pending import QueueDeclared, QueueDeleted
from warren.vhost.requests import (
    BindRequest,
    DeclareExchangeRequest,
    DeclareQueueRequest,
    DeleteExchangeRequest,
    DeleteQueueRequest,
    UnbindRequest,
)

QUORUM = {"x-queue-type": "quorum"}


class Asked(PendingRequest):
    """Keeps what a request came to."""

    def __init__(self) -> None:
        self.results: list[Result | Refusal] = []

    def succeeded(self, result: Result) -> None:
        self.results.append(result)

    def refused(self, refusal: Refusal) -> None:
        self.results.append(refusal)


class Way:
    """A way into a vhost that speaks no protocol at all."""

    def __init__(self, pair: Pair, handle: VhostHandle) -> None:
        self.pair = pair
        self.handle = handle

    def ask(self, method: Callable[..., None], request: object) -> Result | Refusal:
        """Make a request; returns what it comes to, once."""
        asked = Asked()
        try:
            method(request, asked)
        except Refusal as refusal:
            assert not asked.results
            return refusal
        self.pair.until(lambda: bool(asked.results))
        self.pair.settle()
        assert len(asked.results) == 1
        return asked.results[0]

    def declare(self, name: str, passive: bool = False, **arguments: object) -> Result | Refusal:
        """Declare a durable queue."""
        table = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        request = DeclareQueueRequest(name, True, False, False, table, passive)
        return self.ask(self.handle.declare_queue, request)

    def exchange(self, name: str, kind: str) -> Result | Refusal:
        """Declare a durable exchange."""
        request = DeclareExchangeRequest(name, kind, True, False, False, {})
        return self.ask(self.handle.declare_exchange, request)

    def leads_to(self, exchange: str, key: str) -> list[str]:
        """The queues that a message goes to."""
        return [queue.name for queue in self.handle.resolve(exchange, key, False).queues]


@pytest.fixture
def way() -> Way:
    pair = Pair(alone=True)
    return Way(pair, open_vhost(pair))


def open_vhost(pair: Pair, user: str = "guest", vhost: str = "/") -> VhostHandle:
    return pair.a.node.open_vhost(Login(user, ""), vhost)


def kind_of(outcome: Result | Refusal) -> str:
    assert isinstance(outcome, Refusal)
    return outcome.kind


def test_a_queue_from_its_declare_to_its_delete(way: Way) -> None:
    for _ in range(2):
        declared = way.declare("q\r\n")
        assert isinstance(declared, QueueDeclared)
        assert (declared.name, declared.messages, declared.consumers) == ("q", 0, 0)
    assert way.leads_to("", "q") == ["q"]
    route = way.handle.resolve("", "q", False)
    route.queues[0].publish(b"record", (6).to_bytes(4, "little"), 1, True, None)
    way.pair.settle()
    passive = way.declare("q", passive=True)
    assert isinstance(passive, QueueDeclared) and passive.messages == 1
    before = way.handle.generation()
    deleted = way.ask(way.handle.delete_queue, DeleteQueueRequest("q"))
    assert isinstance(deleted, QueueDeleted) and deleted.messages == 1
    assert way.handle.generation() != before and way.leads_to("", "q") == []
    again = way.ask(way.handle.delete_queue, DeleteQueueRequest("q"))
    assert isinstance(again, QueueDeleted) and again.messages == 0


def test_a_name_that_was_left_to_the_vhost_comes_with_the_result(way: Way) -> None:
    first, second = way.declare(""), way.declare("")
    assert isinstance(first, QueueDeclared) and isinstance(second, QueueDeclared)
    assert first.name != second.name and first.name.startswith("amq.gen-")
    assert way.handle.queue_for(first.name, "read").name == first.name


def test_exchanges_and_bindings(way: Way) -> None:
    way.declare("q")
    assert type(way.exchange("x", "direct")) is Result
    assert type(way.exchange("y", "fanout")) is Result
    bind, unbind = way.handle.bind, way.handle.unbind
    for _ in range(2):
        assert type(way.ask(bind, BindRequest("y", "q", False, "", {}))) is Result
        assert type(way.ask(bind, BindRequest("x", "y", True, "k", {}))) is Result
    assert way.leads_to("x", "k") == ["q"] and way.leads_to("x", "other") == []
    used = DeleteExchangeRequest("y", if_unused=True)
    assert kind_of(way.ask(way.handle.delete_exchange, used)) == errors.PRECONDITION_FAILED
    for _ in range(2):
        assert type(way.ask(unbind, UnbindRequest("x", "y", True, "k", {}))) is Result
    assert way.leads_to("x", "k") == []
    for name in ("x", "x", "y"):
        done = way.ask(way.handle.delete_exchange, DeleteExchangeRequest(name))
        assert type(done) is Result
    with pytest.raises(Refusal) as caught:
        way.handle.resolve("x", "k", False)
    assert caught.value.kind == errors.NOT_FOUND


def test_who_came_first_wins(way: Way) -> None:
    """Two declares that both pass the checks: the later one is checked again when it is applied."""
    outcomes = []
    for arguments in ({}, QUORUM):
        asked = Asked()
        request = DeclareQueueRequest("q", True, False, False, dict(arguments))
        way.handle.declare_queue(request, asked)
        outcomes.append(asked.results)
    way.pair.until(lambda: all(outcomes))
    assert isinstance(outcomes[0][0], QueueDeclared)
    assert kind_of(outcomes[1][0]) == errors.PRECONDITION_FAILED


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"queue_type": "none"}, errors.PRECONDITION_FAILED),
        ({"max_length_bytes": -5}, errors.PRECONDITION_FAILED),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    way: Way, arguments: dict[str, object], kind: str
) -> None:
    assert kind_of(way.declare("q", **arguments)) == kind
    assert kind_of(way.declare("q", passive=True)) == errors.NOT_FOUND


def test_refusals_say_why(way: Way) -> None:
    assert kind_of(way.declare("amq.mine")) == errors.ACCESS_REFUSED
    assert kind_of(way.exchange("x", "none")) == errors.PRECONDITION_FAILED
    way.declare("r", queue_type="quorum")
    unused = DeleteQueueRequest("r", if_unused=True)
    assert kind_of(way.ask(way.handle.delete_queue, unused)) == errors.NOT_IMPLEMENTED
    with pytest.raises(Refusal) as caught:
        open_vhost(way.pair, vhost="nowhere")
    assert caught.value.kind == errors.NOT_ALLOWED
    own = DeclareQueueRequest("own", False, True, False, {})
    assert isinstance(way.ask(way.handle.declare_queue, own), QueueDeclared)
    other = Way(way.pair, open_vhost(way.pair))
    assert kind_of(other.declare("own", passive=True)) == errors.RESOURCE_LOCKED
    way.handle.closed()
    way.pair.settle()
    assert kind_of(other.declare("own", passive=True)) == errors.NOT_FOUND


def test_every_request_is_authorised(way: Way) -> None:
    way.declare("q")
    way.exchange("x", "fanout")
    way.pair.a.node.store.submit(SetPermissions("guest", "/", "^$", "^$", "^$"), None)
    way.pair.settle()
    assert kind_of(way.declare("q")) == errors.ACCESS_REFUSED
    assert kind_of(way.exchange("x", "fanout")) == errors.ACCESS_REFUSED
    handle = way.handle
    for method, request in (
        (handle.delete_queue, DeleteQueueRequest("q")),
        (handle.delete_exchange, DeleteExchangeRequest("x")),
        (handle.bind, BindRequest("x", "q", False, "", {})),
        (handle.unbind, UnbindRequest("x", "q", False, "", {})),
    ):
        assert kind_of(way.ask(method, request)) == errors.ACCESS_REFUSED
    for use in (lambda: handle.queue_for("q", "read"), lambda: handle.resolve("x", "", False)):
        with pytest.raises(Refusal) as caught:
            use()
        assert caught.value.kind == errors.ACCESS_REFUSED


def test_what_messages_may_not_claim(way: Way) -> None:
    way.declare("q", queue_type="quorum")
    route = way.handle.resolve("", "q", False)
    facts = MessageFacts()
    way.handle.check_properties(facts, route)
    facts.has_user_id, facts.user_id = True, b"guest"
    way.handle.check_properties(facts, route)
    facts.user_id = b"other"
    with pytest.raises(Refusal, match="'other' but authenticated user was 'guest'"):
        way.handle.check_properties(facts, route)
    facts.has_user_id, facts.priority = False, 5
    way.handle.check_properties(facts, route)
    facts.priority, facts.has_expiration, facts.expiration = 0, True, b"-1"
    with pytest.raises(Refusal, match="value_negative,-1"):
        way.handle.check_properties(facts, route)


def test_routes_by_headers(way: Way) -> None:
    way.declare("q")
    way.declare("r")
    way.exchange("h", "headers")
    way.ask(way.handle.bind, BindRequest("h", "q", False, "", {"x-match": "all", "a": 1}))
    route = way.handle.resolve("h", "", False)
    assert route.by_message and not route.queues
    facts = MessageFacts()
    for value, names in ((1, ["q"]), (2, [])):
        found = way.handle.route_message(route, facts, {"a": value})
        assert [queue.name for queue in found.queues] == names
    facts.copies = True
    plain = way.handle.resolve("", "q", False)
    found = way.handle.route_message(plain, facts, {"CC": ["r"]})
    assert [queue.name for queue in found.queues] == ["q", "r"]
    with pytest.raises(Refusal):
        way.handle.route_message(plain, facts, {"CC": "r"})


def test_a_request_without_a_majority_is_given_up() -> None:
    pair = Pair()
    way = Way(pair, open_vhost(pair))
    asked = Asked()
    pair.b.kill()
    pair.until(lambda: not pair.a.node.store.member().raft.leader)
    request = DeclareQueueRequest("q", True, False, False, {})
    way.handle.declare_queue(request, asked)
    refusal = way.handle.timed_out(request, asked)
    assert refusal.kind == errors.TIMED_OUT
    assert refusal.text == (
        "Could not declare queue 'q' in vhost '/' on node 'a' because the metadata store operation "
        "timed out; no majority without b"
    )
    pair.b.start()
    pair.until(lambda: bool(pair.a.node.store.member().raft.leader))
    pair.settle()
    assert not asked.results


def test_a_policy_changes_where_an_exchange_leads_at_once_and_on_every_node() -> None:
    pair = Pair()
    ways = [
        Way(pair, station.node.open_vhost(Login("guest", ""), "/")) for station in (pair.a, pair.b)
    ]
    way = ways[0]
    assert not isinstance(way.exchange("x", "direct"), Refusal)
    assert not isinstance(way.exchange("rest", "fanout"), Refusal)
    assert isinstance(way.declare("q"), QueueDeclared)
    bound = BindRequest("rest", "q", False, "", {})
    assert not isinstance(way.ask(way.handle.bind, bound), Refusal)
    assert way.leads_to("x", "k") == []
    before = way.handle.generation()
    definition = {"alternate-exchange": "rest"}
    policy = SetPolicy("/", "p", False, "^x$", "exchanges", 0, definition)
    pair.b.node.store.submit(policy, None)
    pair.until(lambda: all(each.leads_to("x", "k") == ["q"] for each in ways))
    assert way.handle.generation() != before
    pair.b.node.store.submit(ClearPolicy("/", "p", False), None)
    pair.until(lambda: all(each.leads_to("x", "k") == [] for each in ways))


@pytest.mark.parametrize("kind", ["queue", "direct", "x-delayed-message"])
@pytest.mark.parametrize("trusted", [False, True])
def test_what_is_declared_behind_the_end_of_its_vhost_is_refused(kind: str, trusted: bool) -> None:
    """It comes into the log behind the deletion: the node goes on, and does not ask again."""
    pair = Pair()
    node = pair.a.node
    node.store.submit(DeclareVhost("v"), None)
    node.store.submit(SetPermissions("guest", "v", ".*", ".*", ".*"), None)
    pair.until(lambda: node.store.in_force)
    router, queues = node.metadata.vhosts["v"].router, node.queues.vhost("v").queues
    handle = VhostHandle(node.vhosts, "v", router, queues, "guest", 1, trusted=trusted)
    asked = Asked()
    node.store.submit(DeleteVhost("v"), None)
    if kind == "queue":
        handle.declare_queue(DeclareQueueRequest("late", True, False, False, QUORUM), asked)
    else:
        arguments = {"x-delayed-type": "direct"} if kind == "x-delayed-message" else {}
        handle.declare_exchange(
            DeclareExchangeRequest("late", kind, True, False, False, arguments), asked
        )
    pair.until(lambda: bool(asked.results))
    pair.settle()
    (refusal,) = asked.results
    assert isinstance(refusal, Refusal)
    assert node.store.in_force
    assert "v" not in node.metadata.vhosts
