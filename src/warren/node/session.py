"""A connection's view of its vhost: permissions, topology, routes.

Every method of every protocol that touches an exchange or a queue comes through here, so this is
where permissions are checked (R-39).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.errors import NOT_FOUND, NOT_IMPLEMENTED, PRECONDITION_FAILED, Refusal
from warren.metadata import checks
from warren.metadata.commands import Command
from warren.metadata.machine import Outcome
from warren.metadata.names import SERVER_NAME_RANDOM_BYTES, clean_name, server_name
from warren.metadata.tables import VhostRecord
from warren.node.tables import Change, Tables, VirtualHost
from warren.node.timeouts import timed_out
from warren.ports import Work
from warren.protocols.broker import (
    ALARM_DISK,
    Completion,
    Confirming,
    Login,
    ReplyTarget,
    Route,
    Session,
)
from warren.queues.links import Reply, Waiter
from warren.queues.queue import Queue
from warren.queues.remote import RemoteQueue
from warren.routing.router import Router, routing_keys
from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import DIRECT_REPLY, PropertyScan
from warren.wire.amqp091.table import Table, decode_table

if TYPE_CHECKING:
    from warren.node.node import Node

REPLY_PREFIX: Final = DIRECT_REPLY.decode()
NAME_RANDOM_BYTES: Final = 16
EXPIRATION_MS_MAX: Final = 0xFFFFFFFF
HIGH_PRIORITY: Final = 4
"""Priorities above this one are a level of their own in quorum queues (PRI-02)."""


@final
class TopologyChange(Change):
    """A method that changes the tables and waits for the disk."""

    def __init__(
        self, session: VirtualHostSession, request: spec.Method, name: str, done: Completion
    ) -> None:
        self._session: VirtualHostSession = session
        self._request: spec.Method = request
        self._name: str = name
        self.done: Completion = done
        self.messages: i64 = 0

    def applied(self, outcome: Outcome) -> None:
        """The change is in force. If another one came first, check again who wins."""
        request = self._request
        session = self._session
        try:
            if isinstance(request, spec.QueueDeclare):
                session.finish_declare(request, self._name, outcome.changed, self.done)
                return
            if isinstance(request, spec.ExchangeDeclare) and not outcome.changed:
                session.check_exchange(request, self._name)
        except Refusal as error:
            self.done.refused(error)
            return
        self.done.answered(Reply(0, self.messages))


@final
class DeclaredRemote(Waiter):
    """Waits for the counts of another node's queue, for a declare."""

    def __init__(self, queue: RemoteQueue, done: Completion) -> None:
        self._queue: RemoteQueue = queue
        self._done: Completion = done

    def answered(self, reply: Reply) -> None:
        """They are known."""
        queue = self._queue
        self._done.answered(Reply(0, queue.ready_count(), queue.consumer_count()))

    def abandoned(self) -> None:
        """Its node went down, or it was deleted."""
        self._done.refused(Refusal(NOT_FOUND, self._queue.absence()))


@final
class DeletingRemote(Waiter):
    """Waits for the counts of another node's queue, to delete it."""

    def __init__(
        self,
        session: VirtualHostSession,
        request: spec.QueueDelete,
        queue: RemoteQueue,
        command: Command | None,
        change: TopologyChange,
        done: Completion,
    ) -> None:
        self._session: VirtualHostSession = session
        self._request: spec.QueueDelete = request
        self._queue: RemoteQueue = queue
        self._command: Command | None = command
        self._change: TopologyChange = change
        self._done: Completion = done

    def answered(self, reply: Reply) -> None:
        """They are known: delete it, if it may be."""
        try:
            self._session.check_deletable(self._request, self._queue)
        except Refusal as error:
            self._done.refused(error)
            return
        self._change.messages = self._queue.ready_count()
        self._session.finish_delete(self._command, self._change)

    def abandoned(self) -> None:
        """Somebody else deleted it, which is no error; or its node went down."""
        if self._queue.deleted:
            self._done.answered(Reply())
        else:
            self._done.refused(Refusal(NOT_FOUND, self._queue.absence()))


@final
class VirtualHostSession(Session):
    """One connection in one vhost."""

    def __init__(
        self, node: Node, vhost: VirtualHost, record: VhostRecord, login: Login, identity: i64
    ) -> None:
        self.max_message_bytes = node.settings.max_message_bytes
        self._node: Node = node
        self._tables: Tables = node.tables
        self._vhost: VirtualHost = vhost
        self._router: Router = record.router
        self._name: str = vhost.name
        self._user: str = login.user
        self._user_bytes: bytes = login.user.encode("utf-8", "surrogateescape")
        self._identity: i64 = identity
        self._over: bool = False

    # Publishing.

    def generation(self) -> i64:
        """The router's."""
        return self._router.generation

    def resolve(self, method: bytes) -> Route:
        """Decode, authorise and route."""
        publish = spec.decode_method(method, 7, len(method) - 1)
        assert isinstance(publish, spec.BasicPublish)
        exchange = publish.exchange
        key = publish.routing_key
        if publish.immediate:
            raise Refusal(NOT_IMPLEMENTED, "immediate=true")
        self._router.check_publish(exchange)
        self._permit("write", "exchange", exchange)
        route = Route(exchange, key, publish.mandatory, self._router.generation)
        if exchange == "" and key.startswith(REPLY_PREFIX):
            route.reply = self._node.replies.get(key)
            return route
        route.by_headers = self._router.needs_headers(exchange)
        if not route.by_headers:
            route.queues = self._queues(self._router.route(exchange, key))
        return route

    def route_by_headers(self, route: Route, scan: PropertyScan, properties: bytes) -> Route:
        """Route one message by what its headers say."""
        headers: Table = decode_table(properties, scan.headers_at, scan.headers_end)
        result = Route(route.exchange, route.routing_key, route.mandatory, route.generation)
        if scan.copies:
            keys = routing_keys(route.routing_key, headers)
            names = self._router.route_keys(route.exchange, keys, headers)
        else:
            names = self._router.route(route.exchange, route.routing_key, headers)
        result.queues = self._queues(names)
        check_targets(scan, result.queues)
        return result

    def check_properties(self, scan: PropertyScan, route: Route) -> None:
        """Refuse a forged user, and properties whose meaning is not built yet."""
        if scan.has_user_id and scan.user_id != self._user_bytes:
            claimed = scan.user_id.decode("utf-8", "replace")
            raise Refusal(
                PRECONDITION_FAILED,
                f"user_id property set to '{claimed}' but authenticated user was '{self._user}'",
            )
        if scan.has_expiration:
            check_expiration(scan.expiration.decode("utf-8", "replace"))
            raise Refusal(
                PRECONDITION_FAILED,
                "property 'expiration' is not supported yet by this version of Warren",
            )
        check_targets(scan, route.queues)

    def refuses(self, route: Route) -> bool:
        """Whether the disk is full and the route leads to it."""
        if self._node.alarms() & ALARM_DISK == 0:
            return False
        for queue in route.queues:
            if self._tables.refuses(queue.group_id):
                return True
        return False

    # Topology.

    def declare_exchange(self, method: spec.ExchangeDeclare, done: Completion) -> None:
        """Check, then log."""
        name = clean_name(method.exchange)
        if method.passive:
            checks.use_exchange(self._tables.machine, self._name, name)
            done.answered(Reply())
            return
        if name:
            self._permit("configure", "exchange", name)
        command = self._exchange_command(method, name)
        alternate = method.arguments.get(checks.ALTERNATE_EXCHANGE)
        if isinstance(alternate, str):
            self._permit("read", "exchange", name)
            self._permit("write", "exchange", alternate)
        self._submit(command, method, name, done)

    def check_exchange(self, method: spec.ExchangeDeclare, name: str) -> None:
        """An exchange of this name came first: is it the same?"""
        self._exchange_command(method, name)

    def delete_exchange(self, method: spec.ExchangeDelete, done: Completion) -> None:
        """Check, then log."""
        name = clean_name(method.exchange)
        if name:
            self._permit("configure", "exchange", name)
        command = checks.delete_exchange(self._tables.machine, self._name, name, method.if_unused)
        self._submit(command, method, name, done)

    def bind_exchange(
        self, method: spec.ExchangeBind | spec.ExchangeUnbind, done: Completion
    ) -> None:
        """Check, then log."""
        self._bind(method, method.source, method.destination, True, method.routing_key, done)

    def declare_queue(self, method: spec.QueueDeclare, name: str, done: Completion) -> None:
        """Check, then log; a passive declare only looks."""
        name = clean_name(name)
        if method.passive:
            self._declare_passively(name, done)
            return
        named_by_server = name == ""
        if named_by_server:
            checks.server_named(method.arguments)
            name = server_name(self._node.random.bytes(SERVER_NAME_RANDOM_BYTES))
        self._permit("configure", "queue", name)
        done.named(name)
        command = self._queue_command(method, name, named_by_server)
        if command is None:
            self._declared(name, done)
        else:
            self._submit(command, method, name, done)

    def finish_declare(
        self, method: spec.QueueDeclare, name: str, created: bool, done: Completion
    ) -> None:
        """A declare is durable; if a queue of this name came first, is it the same?"""
        if self._over and method.exclusive:
            # It took so long that its connection has gone.
            self._tables.delete_owned(self._name, self._identity)
            return
        if not created:
            command = self._queue_command(method, name, True)
            if command is not None:
                # It was deleted again before this node heard of it, all in one snapshot, or the
                # nodes that it was to have members on are gone.
                self._submit(command, method, name, done)
                return
        self._declared(name, done)

    def bind_queue(
        self, method: spec.QueueBind | spec.QueueUnbind, name: str, key: str, done: Completion
    ) -> None:
        """Check, then log."""
        self._bind(method, method.exchange, name, False, key, done)

    def delete_queue(self, method: spec.QueueDelete, name: str, done: Completion) -> None:
        """Check, then log."""
        name = clean_name(name)
        self._permit("configure", "queue", name)
        command = checks.delete_queue(
            self._tables.machine,
            self._name,
            name,
            method.if_unused,
            method.if_empty,
            self._identity,
        )
        change = TopologyChange(self, method, name, done)
        queue = self._vhost.queues.get(name)
        halted = queue is not None and self._node.repairs.halts(int(queue.group_id))
        if halted and not method.if_unused and not method.if_empty:
            # Nobody knows what it holds, and it is to go whatever that is.
            queue = None
        if queue is not None:
            if isinstance(queue, RemoteQueue):
                queue.check()
                queue.count(DeletingRemote(self, method, queue, command, change, done))
                return
            queue.seal()
            queue.hand_out()
            self.check_deletable(method, queue)
            change.messages = queue.ready_count()
        if command is None:
            done.answered(Reply())
        else:
            self._tables.submit(command, change)

    def finish_delete(self, command: Command | None, change: TopologyChange) -> None:
        """A queue of another node may be deleted."""
        assert command is not None, "there is something to delete"
        self._tables.submit(command, change)

    def check_deletable(self, method: spec.QueueDelete, queue: Queue) -> None:
        """Refuse to delete what has consumers or messages, if the client wants that.

        Raises:
            Refusal: `PRECONDITION_FAILED`.
        """
        record = self._tables.machine.queue(self._name, queue.name)
        assert record is not None
        if method.if_unused and queue.consumer_count() > 0:
            raise checks.in_use(record)
        if method.if_empty and queue.ready_count() > 0:
            raise checks.not_empty(record)

    def queue_for(self, name: str, permission: str) -> Queue:
        """A queue that this user and this connection may use."""
        name = clean_name(name)
        self._permit(permission, "queue", name)
        checks.use_queue(self._tables.machine, self._name, name, self._identity)
        queue = self._vhost.queues[name]
        if isinstance(queue, RemoteQueue):
            queue.check()
        return queue

    # The rest.

    def new_name(self, prefix: str) -> str:
        """Sixteen random bytes behind a prefix."""
        unique = urlsafe_b64encode(self._node.random.bytes(NAME_RANDOM_BYTES)).decode()
        return prefix + unique.rstrip("=")

    def register_reply(self, address: str, target: ReplyTarget) -> None:
        """Keep a direct reply address."""
        self._node.replies[address] = target

    def forget_reply(self, address: str) -> None:
        """Drop it, and the routes that remember it."""
        self._node.replies.pop(address, None)
        self._router.generation += 1

    def confirm_later(self, channel: Confirming) -> None:
        """The node's."""
        self._node.confirm_later(channel)

    def wake_later(self, channel: Confirming) -> None:
        """The node's."""
        self._node.wake_later(channel)

    def log_warning(self, text: str) -> None:
        """The node's."""
        self._node.log_warning(text)

    def timed_out(
        self, request: spec.Method, name: str, queue: Queue | None, done: Completion
    ) -> Refusal:
        """Give a change up if that can still be, and say what there is no majority for."""
        node = self._node
        for submitted in self._tables.submitted():
            change = submitted.change
            if isinstance(change, TopologyChange) and change.done is done:
                self._tables.withdraw(submitted)
        record = None if queue is None else self._tables.machine.queue(self._name, queue.name)
        reason = node.queue_members.majority_missing(record)
        title = "" if queue is None else str(queue)
        return timed_out(request, self._name, name, title, node.settings.node_name, reason)

    def without_majority(self, queues: list[Queue]) -> Queue | None:
        """See `Session`."""
        for queue in queues:
            record = self._tables.machine.queue(self._name, queue.name)
            if record is not None and record.kind == "quorum":
                if self._node.queue_members.majority_missing(record):
                    return queue
        return None

    def removing(self) -> bool:
        """The tables', unless they cannot be changed now: then nobody waits for it."""
        return self._tables.removing and self._tables.member().raft.leader != ""

    def after_removal(self, queue: str, channel: Confirming) -> bool:
        """The tables'."""
        going = self._tables.going(self._name, clean_name(queue))
        if going is None:
            return False
        going.waiting.append(channel)
        return True

    def after_unbinding(self, exchange: str, channel: Confirming) -> bool:
        """The tables'."""
        going = self._tables.going_with(self._name, clean_name(exchange))
        if going is None:
            return False
        going.waiting.append(channel)
        return True

    def go_on_later(self, channel: Confirming) -> None:
        """The node's."""
        self._node.go_on_later(channel)

    def do_in_parts(self, work: Work) -> None:
        """The node's."""
        self._node.do_in_parts(work)

    def closed(self) -> None:
        """Exclusive queues go with their connection (DUR-12)."""
        self._over = True
        self._tables.delete_owned(self._name, self._identity)

    def _permit(self, permission: str, what: str, name: str) -> None:
        self._tables.authority.check_resource(self._user, self._name, permission, what, name)

    def _queues(self, names: list[str]) -> list[Queue]:
        queues = self._vhost.queues
        return [queues[name] for name in names]

    def _bind(
        self,
        method: spec.QueueBind | spec.QueueUnbind | spec.ExchangeBind | spec.ExchangeUnbind,
        source: str,
        destination: str,
        to_exchange: bool,
        key: str,
        done: Completion,
    ) -> None:
        source, destination = clean_name(source), clean_name(destination)
        if not to_exchange:
            self._permit("write", "queue", destination)
        elif destination:
            self._permit("write", "exchange", destination)
        if source:
            self._permit("read", "exchange", source)
        adds = isinstance(method, (spec.QueueBind, spec.ExchangeBind))
        check = checks.bind if adds else checks.unbind
        command = check(
            self._tables.machine,
            self._name,
            source,
            destination,
            to_exchange,
            key,
            method.arguments,
            self._identity,
        )
        self._submit(command, method, "", done)

    def _exchange_command(self, method: spec.ExchangeDeclare, name: str) -> Command | None:
        return checks.declare_exchange(
            self._tables.machine,
            self._name,
            name,
            method.type_,
            method.durable,
            method.auto_delete,
            method.internal,
            method.arguments,
        )

    def _queue_command(
        self, method: spec.QueueDeclare, name: str, named_by_server: bool
    ) -> Command | None:
        command = checks.declare_queue(
            self._tables.machine,
            self._name,
            name,
            method.durable,
            method.exclusive,
            method.auto_delete,
            method.arguments,
            self._identity,
            self._tables.new_group(),
            named_by_server,
            self._node.settings.node_name,
        )
        if command is not None:
            self._tables.place(command)
        return command

    def _declare_passively(self, name: str, done: Completion) -> None:
        done.named(name)
        if name.startswith(REPLY_PREFIX):
            if name != REPLY_PREFIX and name not in self._node.replies:
                raise Refusal(NOT_FOUND, f"no queue '{name}' in vhost '{self._name}'")
            done.answered(Reply(0, 0, 1))
            return
        checks.use_queue(self._tables.machine, self._name, name, self._identity)
        self._declared(name, done)

    def _declared(self, name: str, done: Completion) -> None:
        queue = self._vhost.queues[name]
        if isinstance(queue, RemoteQueue):
            queue.check()
            queue.count(DeclaredRemote(queue, done))
            return
        queue.seal()
        queue.hand_out()
        done.answered(Reply(0, queue.ready_count(), queue.consumer_count()))

    def _submit(
        self, command: Command | None, request: spec.Method, name: str, done: Completion
    ) -> None:
        if command is None:
            done.answered(Reply())
        else:
            self._tables.submit(command, TopologyChange(self, request, name, done))


def check_targets(scan: PropertyScan, queues: list[Queue]) -> None:
    """Refuse a message that one of its queues would not treat as its properties ask.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    if scan.priority <= HIGH_PRIORITY:
        return
    for queue in queues:
        if queue.kind == "quorum":
            raise Refusal(
                PRECONDITION_FAILED,
                f"property 'priority' above {HIGH_PRIORITY} for {queue} is not supported yet by "
                "this version of Warren",
            )


def check_expiration(text: str) -> None:
    """Refuse an `expiration` that is no number of milliseconds.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    match = re.match(r"[+-]?[0-9]+", text)
    if match is None:
        reason = "no_integer"
    elif match.end() < len(text):
        reason = f'{{leftover_string,"{text[match.end() :]}"}}'
    elif int(text) < 0:
        reason = f"{{value_negative,{int(text)}}}"
    elif int(text) > EXPIRATION_MS_MAX:
        reason = f"{{value_too_large,{int(text)}}}"
    else:
        return
    raise Refusal(PRECONDITION_FAILED, f"invalid expiration '{text}': {reason}")
