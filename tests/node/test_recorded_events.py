"""Events are RabbitMQ's: a script was played to RabbitMQ 4.3.6, and its events are compared.

What it told of is in `events-rabbitmq-4.3.json`, by the steps of the script: topology by pika, then
the HTTP API as `guest`, then `rabbitmqctl`. The order within a step is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.admin.host import answered, service_of
from tests.node.pair import Client, Pair
from tests.node.test_events import told, watched
from warren.admin.service.caller import ADMINISTRATOR, LOCAL, Caller
from warren.admin.service.catalogue import OPERATIONS
from warren.admin.service.topology import handle_of
from warren.admin.service.waiting import Awaited
from warren.vhost.requests import BindRequest, DeclareExchangeRequest, DeclareQueueRequest
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import SignedInt, Table

RECORDED = json.loads(Path(__file__).with_name("events-rabbitmq-4.3.json").read_text())

NO_HEADERS = {
    *("pid", "owner_pid", "metadata", "cluster_state", "policy", "user_provided_name"),
    *("peer_cert_issuer", "peer_cert_serial_number", "peer_cert_subject", "peer_cert_validity"),
    *("ssl_cipher", "ssl_hash", "ssl_key_exchange", "ssl_protocol", "consumer_count"),
}
"""Headers that Warren has nothing for: Erlang's, of certificates, or of this client only."""
OF_CHANNELS = {"connection", "name", "number", "user", "vhost"}
"""RabbitMQ names a channel by its process when it opens, and by nothing else when it closes."""
OF_CLIENTS = {
    *("name", "connection_name", "port", "peer_port", "connected_at", "client_properties"),
    *("host", "peer_host", "channel_max", "timeout", "error", "channel"),
}
"""Headers whose values differ from one client to the next: only that they are there counts."""
ACTING = "user_who_performed_action"

Event = tuple[str, dict[str, Any]]


def compared(found: list[Event]) -> list[str]:
    """Events as they are compared: without what differs by plan."""
    kept: list[str] = []
    for key, given in found:
        if given.get("component") == "exchange-delete-in-progress":
            # Warren deletes at once, without a parameter meanwhile.
            continue
        if key == "consumer.deleted" and ACTING not in given:
            # A consumer of a deleted queue is told of once more.
            continue
        headers = {name: value for name, value in given.items() if name not in NO_HEADERS}
        if key == "binding.deleted":
            # RabbitMQ names itself for bindings of classic queues, and the user for others.
            del headers[ACTING]
        if key.startswith("channel."):
            headers = {name: headers[name] for name in headers if name not in OF_CHANNELS}
        if key.startswith(("connection.", "consumer.", "user.authentication.")):
            headers = {name: "-" if name in OF_CLIENTS else headers[name] for name in headers}
        kept.append(f"{key} {json.dumps(headers, sort_keys=True)}")
    return sorted(kept)


class Script:
    """Takes the steps, and compares what is told of each."""

    def __init__(self) -> None:
        self.pair = Pair(alone=True)
        self.watcher = watched(self.pair)
        self.service = service_of(self.pair)

    def step(self, name: str, act: Callable[[], object]) -> None:
        act()
        expected = json.loads(json.dumps(RECORDED[name]).replace("NODE", "a"))
        found: list[Event] = list(told(self.watcher))
        assert compared(found) == compared([(key, headers) for key, headers in expected]), name

    def ask(self, caller: Caller, operation: str, /, **arguments: Any) -> None:
        async def asked() -> None:
            await OPERATIONS[operation].asked(self.service, caller, arguments)

        answered(self.pair, asked)


def test_topology_and_clients_are_told_of_as_by_rabbitmq() -> None:
    script = Script()
    step, pair = script.step, script.pair
    clients: list[Client] = []
    step("open", lambda: clients.append(pair.a.client()))
    (client,) = clients
    call = client.call

    def declare(name: str, arguments: Table, exclusive: bool = False) -> None:
        durable = not exclusive
        call(spec.QueueDeclare(0, name, False, durable, exclusive, exclusive, False, arguments))

    def exchange(name: str, kind: str, auto_delete: bool = False) -> None:
        arguments: Table = {"alternate-exchange": "x"} if kind == "fanout" else {}
        durable = not auto_delete
        call(
            spec.ExchangeDeclare(
                0, name, kind, False, durable, auto_delete, False, False, arguments
            )
        )

    def bind(queue: str, source: str, key: str, arguments: Table | None = None) -> None:
        call(spec.QueueBind(0, queue, source, key, False, arguments or {}))

    def bind_exchange(exchange: str, source: str, key: str) -> None:
        call(spec.ExchangeBind(0, exchange, source, key, False, {}))

    def consume(queue: str, tag: str, no_ack: bool, arguments: Table) -> None:
        call(spec.BasicConsume(0, queue, tag, False, no_ack, False, False, arguments))

    def delete(queue: str) -> None:
        call(spec.QueueDelete(0, queue, False, False, False))

    step("queue classic", lambda: declare("q", {"x-max-length": SignedInt(10)}))
    step("queue quorum", lambda: declare("qq", {"x-queue-type": "quorum"}))
    step("queue exclusive", lambda: declare("ex", {}, exclusive=True))
    step("exchange", lambda: exchange("e", "fanout"))
    step("exchange auto", lambda: exchange("ea", "topic", auto_delete=True))
    step("bind", lambda: bind("q", "e", "k", {"a": SignedInt(1)}))
    step("bind auto", lambda: bind("q", "ea", "k"))
    step("bind exchange", lambda: bind_exchange("ea", "e", "k2"))
    step("bind qq", lambda: (bind("qq", "ea", "kk"), bind("qq", "amq.direct", "d")))
    step("unbind", lambda: call(spec.QueueUnbind(0, "q", "e", "k", {"a": SignedInt(1)})))
    step("consume", lambda: consume("q", "t", False, {"x-priority": SignedInt(5)}))
    step("cancel", lambda: call(spec.BasicCancel("t", False)))
    step("consume again", lambda: consume("q", "t2", True, {}))
    step("queue delete (consumed, bound)", lambda: delete("q"))
    step("queue delete last of auto exchange", lambda: delete("qq"))
    exchange("e2", "direct")
    declare("q2", {})
    bind("q2", "e2", "x")
    bind("q2", "e2", "y")
    bind_exchange("e2", "e", "z")
    told(script.watcher)
    step("exchange delete with bindings", lambda: call(spec.ExchangeDelete(0, "e2", False, False)))
    # A client that closes its connection has closed its channel before, in the recorded script.
    call(spec.ChannelClose(200, "", 0, 0))
    told(script.watcher)
    step("connection close (exclusive queue)", client.vanish)

    def refused() -> None:
        caller = pair.a.caller(password="wrong")
        pair.settle()
        caller.vanish()

    step("wrong password", refused)


def test_what_operators_do_is_told_of_as_by_rabbitmq() -> None:
    script = Script()
    step = script.step
    guest = Caller("guest", frozenset([ADMINISTRATOR]))

    def asking(caller: Caller, operation: str, /, **arguments: Any) -> Callable[[], None]:
        return lambda: script.ask(caller, operation, **arguments)

    def both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
        return lambda: (first(), second())[0]

    user, vhost, every = "u", "v", {"configure": ".*", "write": ".*", "read": ".*"}
    step(
        "http vhost",
        both(
            asking(
                guest, "add_vhost",
                name=vhost, description="d", tags=["a", "b"], default_queue_type="quorum",
            ),
            asking(guest, "set_permissions", vhost=vhost, user="guest", **every),
        ),
    )  # fmt: skip
    # RabbitMQ takes back a default type that is not given again.
    step(
        "http vhost again",
        asking(
            guest, "update_vhost_metadata",
            name=vhost, description="d2", tags=["a", "c"], default_queue_type="classic",
        ),
    )  # fmt: skip
    limits = '{"max-connections": 10}'
    step("http vhost limits", asking(guest, "set_vhost_limits", vhost=vhost, definition=limits))
    more = '{"max-connections": 10, "max-queues": 10}'
    limiting = asking(guest, "set_vhost_limits", vhost=vhost, definition=more)
    step("http vhost limits 2", limiting)
    step("http vhost limits same", limiting)
    script.ask(guest, "set_vhost_limits", vhost=vhost, definition=limits)
    told(script.watcher)
    tags = ["management"]
    step(
        "http user",
        both(
            asking(guest, "add_user", name=user, password="p"),
            asking(guest, "set_user_tags", name=user, tags=tags),
        ),
    )
    step(
        "http user again",
        both(
            asking(guest, "change_password", name=user, password="p2"),
            asking(guest, "set_user_tags", name=user, tags=[*tags, "monitoring"]),
        ),
    )
    channels = '{"max-channels": 10}'
    step("http user limit", asking(guest, "set_user_limits", user=user, definition=channels))
    step("http user limit clear", asking(guest, "clear_user_limits", user=user, limit="all"))
    step("http perms", asking(guest, "set_permissions", vhost=vhost, user=user, **every))
    topic = {"vhost": vhost, "user": user, "exchange": "amq.topic", "write": ".*", "read": ".*"}
    step("http topic perms", asking(guest, "set_topic_permissions", **topic))
    step("http topic perms clear", asking(guest, "clear_topic_permissions", vhost=vhost, user=user))
    step("http topic perms 3", asking(guest, "set_topic_permissions", **topic))
    policy = {
        "vhost": vhost, "pattern": "^h", "definition": '{"max-length": 5}', "priority": 1,
        "apply_to": "queues",
    }  # fmt: skip
    handle = handle_of(script.service, guest, vhost)
    pending = Awaited()
    handle.declare_queue(
        DeclareQueueRequest("hq", True, False, False, {"x-queue-type": "classic"}), pending
    )
    bound = Awaited()
    told(script.watcher)
    handle.declare_exchange(
        DeclareExchangeRequest("he", "direct", True, False, False, {}), Awaited()
    )
    told(script.watcher)
    handle.bind(BindRequest("he", "hq", False, "x", {}), bound)
    told(script.watcher)
    setting = asking(guest, "set_policy", name="p", **policy)
    step("http policy", setting)
    step("http policy same", setting)
    step("http operator policy", asking(guest, "set_operator_policy", name="op", **policy))
    clearing = {"vhost": vhost, "name": "op"}
    step("http operator policy clear", asking(guest, "clear_operator_policy", **clearing))
    step("http policy clear", asking(guest, "clear_policy", vhost=vhost, name="p"))
    step("http policy p2", asking(guest, "set_policy", name="p2", **{**policy, "pattern": "^zzz"}))
    value = '{"a": [1, "x"]}'
    step("http global parameter", asking(guest, "set_global_parameter", name="gp", value=value))
    step("http global parameter clear", asking(guest, "clear_global_parameter", name="gp"))
    step("http delete vhost v", asking(guest, "delete_vhost", name=vhost))
    step("http delete user", asking(guest, "delete_user", name=user))
    name = "cu"
    step("ctl add_user", asking(LOCAL, "add_user", name=name, password="p"))
    step("ctl change_password", asking(LOCAL, "change_password", name=name, password="p2"))
    step("ctl clear_password", asking(LOCAL, "clear_password", name=name))
    of_cli = ["monitoring", "management"]
    step("ctl set_user_tags", asking(LOCAL, "set_user_tags", name=name, tags=of_cli))
    step("ctl set_permissions", asking(LOCAL, "set_permissions", vhost="/", user=name, **every))
    step("ctl clear_permissions", asking(LOCAL, "clear_permissions", vhost="/", user=name))
    step("ctl add_vhost", asking(LOCAL, "add_vhost", name="cv"))
    step("ctl set_vhost_tags", asking(LOCAL, "update_vhost_metadata", name="cv", tags=["x", "y"]))
    two = '{"max-connections":2}'
    step("ctl set_vhost_limits", asking(LOCAL, "set_vhost_limits", vhost="cv", definition=two))
    step("ctl clear_vhost_limits", asking(LOCAL, "clear_vhost_limits", vhost="cv"))
    step("ctl delete_user", asking(LOCAL, "delete_user", name=name))


def test_maintenance_is_told_of_as_by_rabbitmq() -> None:
    script = Script()
    for name in ("drain", "revive"):
        script.ask(LOCAL, name)
    # The one that watched was let go, too.
    script.watcher = script.pair.a.client()
    found = [event for event in told(script.watcher) if event[0].startswith("maintenance.")]
    assert found == [(key, headers) for key, headers in RECORDED["drain and revive"]]
