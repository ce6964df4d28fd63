"""Every operation, called as a way in without a socket would: by who may, and by who may not."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

import msgspec
import pytest

import warren.admin.service
from tests.admin.host import Host, answered, service_of
from tests.node.pair import Pair
from tests.node.test_at_least_once import keeping
from tests.node.test_dead_letters import reject
from tests.support.patience import patient
from tools.columns import PAGE, kinds_of_rows, page
from warren.admin.service import caller as callers
from warren.admin.service import changes, leaders, rows, waiting
from warren.admin.service.caller import ADMINISTRATOR, LOCAL, MONITORING, POLICYMAKER, Caller
from warren.admin.service.catalogue import OPERATIONS
from warren.admin.service.looking import SoughtMessages
from warren.admin.service.moving import Choice, Destination
from warren.admin.service.operation import Operation
from warren.admin.service.service import AdminService
from warren.errors import (
    ACCESS_REFUSED,
    NO_MAJORITY,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    TIMED_OUT,
    CorruptRecord,
    Refusal,
)
from warren.limits import GROUPS_ASKED_MAX
from warren.pending import Result
from warren.protocols.broker import Login
from warren.replication.kinds import WHO_LEADS
from warren.vhost.pending import QueueDeclared
from warren.vhost.requests import DeclareQueueRequest
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

QUEUE = {"vhost": "/", "queue": "orders"}
POLICY = {"vhost": "/", "name": "five"}
FIVE = '{"target-group-size": 5}'

RIGHTS = {"vhost": "v", "user": "new"}

LIMITS = {"component": "vhost-limits", "name": "limits"}
BINDING = {"source": "e", "destination": "q", "routing_key": "k.*"}

ARGUMENTS: dict[str, dict[str, Any]] = {
    "status": {},
    "list_queues": {},
    "quorum_status": QUEUE,
    "force_shrink_member_to_current_member": QUEUE,
    "add_member": {**QUEUE, "node": "b"},
    "transfer_leadership": {**QUEUE, "node": "b"},
    "rebalance": {},
    "delete_member": {**QUEUE, "node": "a"},
    "grow": {"node": "a"},
    "shrink": {"node": "a"},
    "grow_to_count": {"count": 2},
    "set_policy": {**POLICY, "pattern": "^orders", "definition": FIVE},
    "list_policies": {"vhost": "/"},
    "clear_policy": POLICY,
    "set_operator_policy": {**POLICY, "pattern": "^orders", "definition": FIVE},
    "list_operator_policies": {"vhost": "/"},
    "clear_operator_policy": POLICY,
    "add_user": {"name": "new", "password": "secret"},
    "change_password": {"name": "new", "password": "other"},
    "authenticate_user": {"name": "new", "password": "other"},
    "clear_password": {"name": "new"},
    "set_user_tags": {"name": "new", "tags": ["monitoring"]},
    "list_users": {},
    "add_vhost": {"name": "v", "tags": ["t"]},
    "update_vhost_metadata": {"name": "v", "description": "for tests"},
    "set_tracing": {"vhost": "v", "on": True},
    "set_event_exchange": {"on": True},
    "event_exchange": {},
    "list_vhosts": {},
    "set_permissions": {**RIGHTS, "configure": "^c", "write": "^w", "read": "^r"},
    "list_permissions": {"vhost": "v"},
    "list_user_permissions": {"user": "new"},
    "set_topic_permissions": {**RIGHTS, "exchange": "amq.topic", "write": "^w", "read": "^r"},
    "list_topic_permissions": {"vhost": "v"},
    "list_user_topic_permissions": {"user": "new"},
    "clear_topic_permissions": RIGHTS,
    "clear_permissions": RIGHTS,
    "set_user_limits": {"user": "new", "definition": '{"max-connections": 5}'},
    "list_user_limits": {"user": "new"},
    "clear_user_limits": {"user": "new", "limit": "all"},
    "set_vhost_limits": {"vhost": "v", "definition": '{"max-queues": 5}'},
    "list_vhost_limits": {},
    "clear_vhost_limits": {"vhost": "v"},
    "set_parameter": {"vhost": "v", **LIMITS, "value": '{"max-queues": 9}'},
    "list_parameters": {"vhost": "v"},
    "clear_parameter": {"vhost": "v", **LIMITS},
    "set_global_parameter": {"name": "colour", "value": '"blue"'},
    "list_global_parameters": {},
    "clear_global_parameter": {"name": "colour"},
    "set_cluster_name": {"name": "three"},
    "declare_exchange": {"vhost": "v", "name": "e", "type": "topic"},
    "list_exchanges": {"vhost": "v"},
    "declare_queue": {"vhost": "v", "name": "q", "arguments": {"x-max-length": 5}},
    "bind": {"vhost": "v", **BINDING},
    "list_bindings": {"vhost": "v"},
    "enable_feed": {"vhost": "v", "queue": "f"},
    "list_feeds": {"vhost": "v"},
    "disable_feed": {"vhost": "v"},
    "export_definitions": {},
    "overview": {},
    "node_figures": {},
    "figures_of_vhosts": {"vhosts": ["v"]},
    "shared_figures": {"kind": "queues", "things": [("v", "q")]},
    "reset_samples": {},
    "reset_all_samples": {},
    "peek": {**QUEUE, "position": 1},
    "certificates": {},
    "tls_support": {},
    "check_certificate_expiration": {},
    "os_env": {},
    "memory_breakdown": {},
    "auth_attempts": {},
    "reset_auth_attempts": {},
    "salted_hash": {"password": "secret"},
    "client_figures": {"pids": []},
    "connection_page": {},
    "channel_page": {},
    "visible_vhost": {"vhost": "v"},
    "visible_policies": {},
    "visible_operator_policies": {},
    "visible_vhost_limits": {},
    "list_queue_details": {},
    "queue_page": {},
    "queue_lengths": {"column": "messages"},
    "queues_in_use": {},
    "queues_seen": {},
    "some_queues": {"names": []},
    "queue_details": {"vhost": "v", "queue": "q"},
    "led_queue": {"vhost": "v", "queue": "q"},
    "exchange_details": {},
    "binding_details": {},
    "binding_page": {},
    "vhost_details": {},
    "one_vhost": {"vhost": "v"},
    "user_details": {},
    "publish_message": {"vhost": "v", "exchange": "e", "routing_key": "k.1", "body": b"one"},
    "move_messages": {
        **{"vhost": "v", "queue": "q", "count": 1, "dry_run": True},
        **{"destination": Destination(way="queue", name="q"), "choice": Choice()},
    },
    "look": {"vhost": "v", "queue": "q"},
    "look_at": {"vhost": "v", "queue": "q", "number": 0},
    "search_messages": {
        **{"vhost": "v", "queue": "q"},
        "wanted": SoughtMessages(where="body", text="one"),
    },
    "route_now": {"vhost": "v", "exchange": "e", "routing_key": "k.1", "properties": {}},
    "copies_of": {"vhost": "v", "message_id": "one"},
    "get_messages": {"vhost": "v", "queue": "q", "fate": "settled"},
    "unbind": {"vhost": "v", **BINDING},
    "purge_queue": {"vhost": "v", "name": "q"},
    "count_queues": {"queues": [("v", "q")]},
    "delete_queue": {"vhost": "v", "name": "q"},
    "delete_exchange": {"vhost": "v", "name": "e"},
    "import_definitions": {"definitions": {"vhosts": [{"name": "w"}]}},
    "list_connections": {},
    "list_channels": {},
    "list_consumers": {},
    "close_connections": {"pids": [], "reason": "over"},
    "close_all_connections": {"reason": "over", "vhost": "v"},
    "list_nodes": {},
    "environment": {},
    "list_feature_flags": {},
    "enable_feature_flag": {"name": "all"},
    "set_disk_free_limit": {"bytes": 1_000},
    "set_vm_memory_high_watermark": {"absolute": 1_000_000_000_000},
    "say_alarm": {"resource": "memory", "raised": False},
    "set_channel_max": {"most": 2_047},
    "check_running": {},
    "check_local_alarms": {},
    "check_alarms": {},
    "check_port_connectivity": {},
    "check_port_listener": {"port": 1},
    "check_protocol_listener": {"protocol": "amqp"},
    "check_virtual_hosts": {},
    "check_node": {"node": "a"},
    "check_if_node_is_quorum_critical": {},
    "check_for_quorum_queues_without_an_elected_leader": {},
    "check_if_new_quorum_queue_replicas_have_finished_initial_sync": {},
    "check_below_node_connection_limit": {},
    "check_ready_to_serve_clients": {},
    "close_connection": {"connection": "127.0.0.1:0 -> :0", "reason": "over"},
    "suspend_listeners": {},
    "resume_listeners": {},
    "set_log_level": {"level": "warning"},
    "drain": {},
    "stop_app": {},
    "revive": {},
    "join_cluster": {"node": "b", "host": "h", "port": 1},
    "delete_user": {"name": "new"},
    "delete_vhost": {"name": "v"},
    "forget_node": {"node": "c"},
    "leave": {},
    "reset": {},
    "stop": {},
}
"""A request for each operation, in an order in which all can be done."""


NEED_PERMISSIONS = (
    *("declare_exchange", "delete_exchange", "declare_queue", "delete_queue", "purge_queue"),
    *("bind", "unbind", "enable_feed"),
)
"""What a user needs permissions for in the vhost, an administrator, too."""

VISITS = (
    *("visible_vhost", "queue_details", "led_queue", "publish_message", "get_messages"),
    *("look", "look_at", "search_messages", "route_now", "copies_of"),
    "move_messages",
)
"""What is about a vhost that is not even shown to those who may not enter it."""


READS_OF_ANYBODY = {
    *("list_queues", "list_exchanges", "list_bindings"),
    *("list_connections", "list_channels", "list_consumers"),
    *("connection_page", "channel_page"),
    *("close_connection", "list_feature_flags", "overview", "visible_policies"),
    *("visible_operator_policies", "visible_vhost_limits", "list_queue_details", "queue_page"),
    *("queue_lengths", "queues_in_use", "queues_seen", "some_queues"),
    *("exchange_details", "binding_details", "binding_page", "vhost_details"),
    *(name for name in ARGUMENTS if name.startswith("check_")),
}
"""What whoever may administer anything may ask for: they are told of what they may see."""

READS_OF_MONITORS = {
    *("status", "quorum_status", "count_queues", "list_nodes"),
    *("figures_of_vhosts", "shared_figures"),
    *("node_figures", "memory_breakdown", "auth_attempts", "client_figures"),
    *("certificates", "tls_support"),
}

READS_OF_POLICYMAKERS = {"list_parameters", "list_global_parameters", "list_feeds"}

AS_IT_IS: dict[str, dict[str, Any]] = {
    name: {} for name in ("list_exchanges", "list_bindings", "list_parameters", "list_feeds")
}
"""Requests for where nothing was made."""


def user(*tags: str, name: str = "u") -> Caller:
    return Caller(name, frozenset(tags))


ADMIN = user(ADMINISTRATOR, name="root")


def known(pair: Pair, caller: Caller) -> None:
    """Have a caller be a user of the cluster, with their tags."""
    service = service_of(pair)
    if caller.name not in service.machine.users:
        call(pair, service, LOCAL, "add_user", {"name": caller.name, "password": "secret"})
    call(pair, service, LOCAL, "set_user_tags", {"name": caller.name, "tags": [*caller.tags]})


async def whole(done: Any) -> Any:
    """What an operation answered; of parts all rows."""
    if isinstance(done, AsyncGenerator):
        return [row async for part in done for row in part]
    return await done


def call(
    pair: Pair,
    service: AdminService,
    caller: Caller,
    name: str,
    arguments: Mapping[str, Any] | None = None,
) -> Any:
    """The answer of an operation, as a handler of requests has it."""

    async def asked() -> Any:
        return await whole(OPERATIONS[name].asked(service, caller, arguments or {}))

    return answered(pair, asked)


def refusal(
    pair: Pair,
    service: AdminService,
    caller: Caller,
    name: str,
    arguments: Mapping[str, Any] | None = None,
) -> Refusal:
    """Why an operation is refused, which it has to be."""
    with pytest.raises(Refusal) as refused:
        call(pair, service, caller, name, arguments)
    return refused.value


@pytest.fixture
def pair() -> Pair:
    """Two nodes; a leads quorum queue `orders`, which has no member on b, and has classic `log`.

    There are the users who ask, so that what is answered in parts is answered to its end.
    """
    pair = Pair()
    for caller in (ADMIN, user()):
        known(pair, caller)
    client = pair.a.client()
    client.declare("orders", kind="quorum", size=1)
    client.declare("log", kind="classic")
    pair.settle()
    return pair


@pytest.fixture
def service(pair: Pair) -> AdminService:
    return service_of(pair)


def test_the_requests_here_are_for_all_operations() -> None:
    assert ARGUMENTS.keys() == OPERATIONS.keys()


def test_an_administrator_may_do_everything_without_a_socket(
    pair: Pair, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation once, authorised, once more for each part of its answer, and what it did."""
    passed: list[str] = []
    authorise = callers.authorise

    def counted(machine: Any, caller: Caller, name: str, tag: str, vhost: str | None) -> None:
        if caller is not LOCAL or name in (*NEED_PERMISSIONS, *VISITS):
            # What a node asks another one is authorised there, as an operator's.
            if passed[-1:] != [name]:
                passed.append(name)
        authorise(machine, caller, name, tag, vhost)

    monkeypatch.setattr(callers, "authorise", counted)
    given: dict[str, Any] = {}

    def policies() -> int:
        tables = service.machine.vhosts["/"]
        return len(tables.policies) + 10 * len(tables.operator_policies)

    seen: dict[str, Any] = {}
    for name, arguments in ARGUMENTS.items():
        asked = service
        if name == "leave":
            asked = service_of(pair, "b")
        if name == "forget_node":
            pair.add("c").kill()
            pair.until(lambda: "c" not in service.members.running())
        if name == "peek":
            message = {"vhost": "/", "exchange": "", "routing_key": "orders", "body": b"one"}
            assert call(pair, service, LOCAL, "publish_message", message)
            passed.remove("publish_message")
        if name == "reset":
            assert isinstance(service.host, Host)
            service.host.drained = True
        caller = LOCAL if name in (*NEED_PERMISSIONS, *VISITS) else ADMIN
        given[name] = call(pair, asked, caller, name, arguments)
        seen[name] = (
            sorted(row.node for row in pair.a.record("orders").members if row.voter),
            service.members.leader(pair.a.record("orders")),
            policies(),
        )
        if name == "leave":
            host = asked.host
            assert isinstance(host, Host) and (host.over, host.handed_over) == (True, 1)
    assert passed == list(ARGUMENTS)

    status = given["status"]
    assert (status.node, status.leader, status.problem) == ("a", "a", "")
    assert [(row.name, row.running) for row in status.nodes] == [("a", True), ("b", True)]
    queues = {row.name: row for row in given["list_queues"]}
    assert (queues["orders"].type, queues["orders"].members) == ("quorum", ["a"])
    assert (queues["log"].type, queues["log"].leader, queues["log"].consumers) == (
        "classic",
        "a",
        0,
    )
    (own,) = [row for row in given["quorum_status"] if row.membership == "voter"]
    assert (own.node_name, own.raft_state) == ("a", "leader")
    assert own.last_log_index == own.commit_index > 0
    assert given["add_member"].changed and given["delete_member"].changed
    assert [row.queues for row in given["rebalance"]] == [0, 1]
    assert seen["add_member"] == (["a", "b"], "a", 0)
    assert seen["transfer_leadership"] == (["a", "b"], "b", 0)
    assert seen["delete_member"] == (["b"], "b", 0)
    for name, voting in (("grow", ["a", "b"]), ("shrink", ["b"]), ("grow_to_count", ["a", "b"])):
        assert [(row.name, row.ok) for row in given[name]] == [("orders", True)]
        assert seen[name][0] == voting
    assert [seen[name][2] for name in list(ARGUMENTS)[11:17]] == [1, 1, 0, 10, 10, 0]
    for name in ("list_policies", "list_operator_policies"):
        (row,) = given[name]
        assert (row.name, row.definition, row.apply_to) == ("five", {"target-group-size": 5}, "all")
    (new,) = [row for row in given["list_users"] if row.user not in ("guest", "root", "u")]
    assert (new.user, new.tags) == ("new", ["monitoring"])
    (made,) = [row for row in given["list_vhosts"] if row.name != "/"]
    assert (made.description, made.tags, made.default_queue_type) == (
        "for tests",
        ["t"],
        "classic",
    )
    patterns = {"configure": "^c", "write": "^w", "read": "^r"}
    topics = {"exchange": "amq.topic", "write": "^w", "read": "^r"}
    for name, row in (
        ("list_permissions", {"user": "new", **patterns}),
        ("list_user_permissions", {"vhost": "v", **patterns}),
        ("list_topic_permissions", {"user": "new", **topics}),
        ("list_user_topic_permissions", {"vhost": "v", **topics}),
        ("list_user_limits", {"user": "new", "limits": {"max-connections": 5}}),
        ("list_vhost_limits", {"vhost": "v", "limits": {"max-queues": 5}}),
    ):
        assert [found.cells() for found in given[name]] == [row]
    check_further(given)
    assert list(service.machine.users) == ["guest", "root", "u"]
    assert list(service.machine.vhosts) == ["/", "w"]
    assert list(service.machine.nodes) == ["a"]
    assert pair.a.record("orders").members[0].node == "a"


def check_further(given: dict[str, Any]) -> None:
    """What the operations beside those of users and rights answered."""
    (limits,) = given["list_parameters"]
    assert limits.cells() == {"vhost": "v", **LIMITS, "value": {"max-queues": 9}}
    tags, colour, identity = [row.cells() for row in given["list_global_parameters"]]
    assert (tags, colour) == (
        {"name": "cluster_tags", "value": []},
        {"name": "colour", "value": "blue"},
    )
    assert identity["name"] == "internal_cluster_id"
    assert re.fullmatch(r"rabbitmq-cluster-id-[\w-]{22}", identity["value"])
    assert [row.type for row in given["list_exchanges"] if row.name == "e"] == ["topic"]
    assert [(row.source_name, row.routing_key) for row in given["list_bindings"]] == [
        ("", "q"),
        ("e", "k.*"),
    ]
    exported = given["export_definitions"]
    assert exported["bindings"][0] == {
        **BINDING,
        "vhost": "v",
        "destination_type": "queue",
        "arguments": {},
    }
    assert exported["original_cluster_name"] == "three"
    assert given["purge_queue"] == 0 and given["delete_queue"] == 0
    (counted,) = given["count_queues"]
    assert (counted.messages, counted.arguments["x-max-length"]) == (0, 5)
    assert [row.user for row in given["list_connections"]] == ["guest"]
    assert [row.number for row in given["list_channels"]] == [1]
    assert [(row.name, row.running) for row in given["list_nodes"]] == [
        ("a", True),
        ("b", True),
    ]
    for name, answer in given.items():
        if name.startswith("check_"):
            fails = name in ("check_port_listener", "check_protocol_listener")
            critical = name == "check_if_node_is_quorum_critical"
            assert answer.ok == (not fails and not critical), (name, answer)


@pytest.mark.parametrize("tags", [(), ("management",), (MONITORING,), (POLICYMAKER,)])
def test_who_lacks_the_tag_is_refused_and_changes_nothing(
    pair: Pair, service: AdminService, tags: tuple[str, ...]
) -> None:
    """Whatever is asked for; and the tag alone opens no vhost."""
    sees = frozenset(tags) & {"management", MONITORING, POLICYMAKER}
    may = READS_OF_ANYBODY if sees else set()
    if MONITORING in tags:
        may = may | READS_OF_MONITORS
    if POLICYMAKER in tags:
        may = may | READS_OF_POLICYMAKERS
    known(pair, user(*tags))
    before = service.machine.snapshot()
    for name, arguments in ARGUMENTS.items():
        if sees and name in VISITS:
            assert refusal(pair, service, user(*tags), name, arguments).kind == NOT_FOUND
            continue
        if name in may:
            if name == "close_connection":
                refused = refusal(
                    pair, service, user(*tags), name, {**arguments, "connection": "x"}
                )
                assert refused.kind == NOT_FOUND
            elif "vhost" not in arguments or MONITORING in tags:
                call(pair, service, user(*tags), name, AS_IT_IS.get(name, arguments))
            continue
        refused = refusal(pair, service, user(*tags), name, arguments)
        assert refused.kind == ACCESS_REFUSED, name
        assert f"operation '{name}' refused for user 'u'" in refused.text
    pair.settle()
    assert service.machine.snapshot() == before
    assert isinstance(service.host, Host)
    assert (service.host.over, service.host.handed_over) == (False, 0)
    assert service.members.leader(pair.a.record("orders")) == "a"


def test_a_policymaker_changes_policies_of_vhosts_they_may_enter(
    pair: Pair, service: AdminService
) -> None:
    """User guest may; operator policies are not theirs."""
    guest = user(POLICYMAKER, name="guest")
    words = {"name": "p", "pattern": ".*", "definition": FIVE}
    here, elsewhere = {"vhost": "/", **words}, {"vhost": "none", **words}
    call(pair, service, guest, "set_policy", here)
    assert list(service.machine.vhosts["/"].policies) == ["p"]
    refused = refusal(pair, service, guest, "set_policy", elsewhere)
    assert refused.kind == ACCESS_REFUSED and "in vhost 'none'" in refused.text
    refused = refusal(pair, service, guest, "set_operator_policy", here)
    assert refused.kind == ACCESS_REFUSED


def modules() -> list[Any]:
    package = warren.admin.service
    return [
        importlib.import_module(f"{package.__name__}.{info.name}")
        for info in pkgutil.iter_modules(package.__path__)
    ]


def test_nothing_that_a_caller_may_ask_for_goes_around_the_check() -> None:
    """A function of the service that takes a caller is an operation, and is in the catalogue."""
    found: list[str] = []
    for module in modules():
        if module is callers:
            continue
        for name, value in vars(module).items():
            if isinstance(value, Operation) and value._function.__module__ == module.__name__:
                found.append(value.name)
                assert name == value.name and OPERATIONS[name] is value
            elif inspect.isfunction(value) and value.__module__ == module.__name__:
                assert "caller" not in inspect.signature(value).parameters, name
    assert sorted(found) == sorted(OPERATIONS)


def test_arguments_are_checked_before_anything_is_done(pair: Pair, service: AdminService) -> None:
    wrong: list[tuple[str, Mapping[str, Any]]] = [
        ("forget_node", {}),
        ("forget_node", {"node": 5}),
        ("add_member", {**QUEUE, "node": "b", "membership": "observer"}),
        ("grow_to_count", {"count": "2"}),
        ("set_policy", {**POLICY, "pattern": ".*", "definition": {}}),
    ]
    for name, words in wrong:
        with pytest.raises(ValueError):
            OPERATIONS[name].asked(service, LOCAL, words)


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "text"),
    [
        ("list_queues", {"vhost": "v"}, NOT_FOUND, "vhost 'v' does not exist"),
        ("list_policies", {"vhost": "v"}, NOT_FOUND, "vhost 'v' does not exist"),
        ("clear_policy", POLICY, NOT_FOUND, "there is no policy 'five' in vhost '/'"),
        ("set_policy", {**POLICY, "pattern": "*", "definition": FIVE}, PRECONDITION_FAILED, "'*'"),
        ("set_policy", {**POLICY, "pattern": "", "definition": "{"}, PRECONDITION_FAILED, "JSON"),
        ("quorum_status", {**QUEUE, "queue": "q"}, NOT_FOUND, "queue 'q' in vhost '/' does not"),
        ("quorum_status", {**QUEUE, "queue": "log"}, NOT_IMPLEMENTED, "is of type classic"),
        ("add_member", {**QUEUE, "node": "z"}, NOT_FOUND, "node 'z' is not in the cluster"),
        ("delete_member", {**QUEUE, "node": "a"}, PRECONDITION_FAILED, "the last node cannot be"),
        ("grow", {"node": "b", "queue_pattern": "*"}, PRECONDITION_FAILED, "no regular expression"),
        ("grow_to_count", {"count": 0}, PRECONDITION_FAILED, "one member at least"),
        ("transfer_leadership", {**QUEUE, "node": "b"}, PRECONDITION_FAILED, "has no member on"),
        ("transfer_leadership", {**QUEUE, "node": "a"}, PRECONDITION_FAILED, "already the leader"),
        ("rebalance", {"type": "stream"}, NOT_IMPLEMENTED, "type stream is not supported"),
        ("forget_node", {"node": "z"}, NOT_FOUND, "node 'z' is not in the cluster"),
        ("forget_node", {"node": "a"}, PRECONDITION_FAILED, "node 'a' is this one, which runs"),
        ("forget_node", {"node": "b"}, PRECONDITION_FAILED, "node 'b' is running: stop it before"),
        ("leave", {}, PRECONDITION_FAILED, "has the only voting member of 1 quorum queue"),
    ],
)
def test_refusals_say_of_which_kind_they_are(
    pair: Pair,
    service: AdminService,
    name: str,
    arguments: dict[str, Any],
    kind: str,
    text: str,
) -> None:
    refused = refusal(pair, service, ADMIN, name, arguments)
    assert (refused.kind, text in refused.text) == (kind, True), refused.text


def test_without_a_majority_nothing_is_changed(pair: Pair, service: AdminService) -> None:
    """What only reads is answered, and says so."""
    pair.b.kill()
    pair.until(lambda: service.members.tables_leader() == "")
    waits = "waits for a majority of a, b; not reached: b"
    for name in ("grow", "shrink", "set_policy", "clear_operator_policy"):
        refused = refusal(pair, service, ADMIN, name, ARGUMENTS[name])
        assert (refused.kind, refused.text) == (NO_MAJORITY, f"{waits}: nothing can be changed")
    status = call(pair, service, ADMIN, "status")
    assert (status.leader, status.problem) == ("", waits)


async def noticed(service: AdminService) -> None:
    """The tables here say all there is."""


def test_no_operation_waits_for_ever(
    pair: Pair, service: AdminService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster stands still while a change is under way."""
    # This one may take its time: it is what the others go by.
    assert not call(pair, service, ADMIN, "add_member", ARGUMENTS["add_member"]).later
    monkeypatch.setattr("warren.admin.service.service.CHANGE_SECONDS", 0.05)
    monkeypatch.setattr("warren.admin.service.cluster.LEAVE_SECONDS", 0.05)
    monkeypatch.setattr(changes, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(leaders, "TRANSFER_SECONDS", 0.05)

    def still(asked: Callable[[], Any]) -> Any:
        return asyncio.run(whole(asked()))

    for name in ("set_policy", "delete_member", "transfer_leadership", "leave"):
        with pytest.raises(Refusal) as refused:
            still(lambda name=name: OPERATIONS[name].asked(service, ADMIN, ARGUMENTS[name]))
        assert refused.value.kind == (PRECONDITION_FAILED if name == "leave" else TIMED_OUT)
    # Nor does one that hears the newest of the tables, and no more.
    monkeypatch.setattr(AdminService, "catch_up", noticed)
    (row,) = still(lambda: OPERATIONS["shrink"].asked(service, ADMIN, {"node": "b"}))
    assert (row.result, row.size, row.ok) == ("unknown", None, False)


def test_what_a_vhost_does_is_waited_for_in_the_same_way(pair: Pair) -> None:
    """A request of a user, as an HTTP handler makes it: its result, or why it is refused."""
    handle = pair.a.node.open_vhost(Login("guest", ""), "/")

    async def declared(kind: str) -> Result:
        pending = waiting.Awaited()
        request = DeclareQueueRequest("made", True, False, False, {"x-queue-type": kind})
        handle.declare_queue(request, pending)
        return await pending.wait(patient(20.0))

    for _ in range(2):
        result = answered(pair, lambda: declared("quorum"))
        assert isinstance(result, QueueDeclared) and result.name == "made"
    with pytest.raises(Refusal, match="inequivalent arg 'x-queue-type'"):
        answered(pair, lambda: declared("classic"))
    assert pair.a.record("made").kind == "quorum"


def test_a_pending_request_may_be_refused_later() -> None:
    async def run() -> None:
        pending = waiting.Awaited()
        asyncio.get_running_loop().call_soon(pending.refused, Refusal(NOT_FOUND, "gone"))
        with pytest.raises(Refusal, match="gone"):
            await pending.wait(patient(20.0))

    asyncio.run(run())


def test_a_queue_may_be_asked_that_goes_away_or_loses_its_answer() -> None:
    """A quorum queue tells of both; who asked is told to ask again, and the node goes on."""

    async def told(method: str) -> Refusal:
        pending = waiting.Awaited()
        asyncio.get_running_loop().call_soon(getattr(pending, method))
        with pytest.raises(Refusal, match="ask again") as refused:
            await pending.wait(patient(20.0))
        return refused.value

    assert asyncio.run(told("abandoned")).kind == NOT_FOUND
    assert asyncio.run(told("missed")).kind == TIMED_OUT


def test_one_rebalance_at_a_time(pair: Pair, service: AdminService) -> None:
    service.rebalancing = True
    refused = refusal(pair, service, ADMIN, "rebalance")
    assert refused.text == "a rebalance is in progress; wait for its end"


ROWS = kinds_of_rows()


@pytest.mark.parametrize("kind", ROWS, ids=lambda kind: kind.__name__)
def test_each_column_says_where_it_comes_from(kind: type[rows.Row]) -> None:
    found = list(rows.columns(kind))
    assert len({column.name for column in found}) == len(found) > 1
    assert all(column.source and column.type is not None for column in found)


def test_the_page_about_columns_is_up_to_date() -> None:
    """Else `python tools/columns.py` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_dead_letters_that_a_queue_keeps_are_listed(pair: Pair, service: AdminService) -> None:
    client = pair.a.client()
    keeping(client, "q", to="none")
    client.publish_confirmed("q", 2)
    reject(client, "q")
    rows = {row.name: row for row in call(pair, service, ADMIN, "list_queues", {})}
    assert (rows["q"].messages_ready, rows["q"].messages_dlx) == (1, 1)
    assert rows["log"].messages_dlx == 0


def test_queues_in_which_exchanges_keep_messages_are_not_counted(
    pair: Pair, service: AdminService
) -> None:
    """Operators find such a queue in the list; no client has declared it."""
    client = pair.a.client()
    arguments: Table = {"x-delayed-type": "direct"}
    client.call(
        spec.ExchangeDeclare(
            0, "x", "x-delayed-message", False, True, False, False, False, arguments
        )
    )
    assert len(call(pair, service, ADMIN, "list_queues", {})) == 3
    assert call(pair, service, ADMIN, "status").queues_count == 2
    client.call(spec.ExchangeDelete(0, "x"))
    assert call(pair, service, ADMIN, "status").queues_count == 2


def test_columns_have_rabbitmqs_names() -> None:
    """Those of `rabbitmqctl list_queues`, `list_policies` and `rabbitmq-queues quorum_status`."""
    kinds = (rows.QueueRow, rows.PolicyRow, rows.MemberStatus)
    names = [[column.name for column in rows.columns(kind)] for kind in kinds]
    assert {"messages_ready", "messages_unacknowledged", "leader", "members"} <= set(names[0])
    assert names[1] == ["vhost", "name", "pattern", "apply-to", "definition", "priority"]
    assert names[2][:5] == [
        "Node Name",
        "Raft State",
        "Membership",
        "Last Log Index",
        "Last Written",
    ]


def test_a_node_without_the_queue_is_as_good_as_any() -> None:
    """It asks the members who leads, and has the lead handed over."""
    pair = Pair()
    pair.add("c")
    known(pair, ADMIN)
    client = pair.a.client()
    for name in ("orders", "bills"):
        client.declare(name, kind="quorum", size=2)
    pair.until(lambda: all(station.knows("bills") for station in pair.stations.values()))
    held = {name: [row.node for row in pair.a.record(name).members] for name in ("orders", "bills")}
    outside = next(iter({"b", "c"} - set(held["orders"])))
    service = service_of(pair, outside)
    for _ in range(2):
        rows = {row.name: row for row in call(pair, service, ADMIN, "list_queues")}
        assert [rows[name].leader for name in held] == ["a", "a"]
        assert rows["orders"].messages_ready is None, "nobody uses it here"
        assert service.node.observers.observer(pair.a.record("orders").group_id) is None
    other = next(node for node in held["orders"] if node != "a")
    call(pair, service, ADMIN, "transfer_leadership", {**QUEUE, "node": other})
    assert pair.stations[other].queue("orders").group.leads()
    counts = call(pair, service, ADMIN, "rebalance")
    assert sum(row.queues for row in counts) == 2 and max(row.queues for row in counts) == 1
    again = refusal(pair, service, ADMIN, "transfer_leadership", {**QUEUE, "node": other})
    assert again.kind == PRECONDITION_FAILED


def test_more_groups_than_a_node_asks_about_are_not_answered() -> None:
    pair = Pair()
    groups = list(range(GROUPS_ASKED_MAX + 1))
    content = bytes([WHO_LEADS]) + msgspec.msgpack.encode([1, groups])
    with pytest.raises(CorruptRecord, match="asked for at once"):
        pair.a.node.queue_members.received("b", content)


def test_lengths_are_those_of_rows(pair: Pair, service: AdminService) -> None:
    """Of queues here, those that another node counts, and those whose node is gone."""
    client, other = pair.a.client(), pair.b.client()
    other.declare("there")
    client.publish_confirmed("orders", 3)
    client.publish_confirmed("log", 2)
    other.publish_confirmed("there", 1)
    client.consume("orders")
    pair.until(lambda: len(client.messages) == 3)
    pair.settle()

    def lengths(column: str) -> dict[str, int | None]:
        found = call(pair, service, LOCAL, "queue_lengths", {"column": column})
        assert {vhost for vhost, _ in found.names} == {"/"}
        names = [name for _, name in found.names]
        return dict(zip(names, found.lengths, strict=True))

    assert lengths("messages") == {"orders": 3, "log": 2, "there": 1}
    assert lengths("messages_ready") == {"orders": 0, "log": 2, "there": 1}
    assert lengths("messages_unacknowledged") == {"orders": 3, "log": 0, "there": 0}
    assert lengths("consumers") == {"orders": 1, "log": 0, "there": 0}
    pair.b.kill()
    pair.until(lambda: "b" not in service.members.running())
    assert lengths("messages")["there"] is None
