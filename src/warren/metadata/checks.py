"""What a client may change: one function a method, which reads the tables and changes nothing.

Each gives the command to log, or None where there is nothing to do and the client gets its reply
at once. Names are clean (`names.clean_name`) and permissions checked by the caller. Errors come
in the order in which RabbitMQ finds them, without class and method id.

Source: B-07; `rabbit_channel`, `rabbit_exchange`, `rabbit_binding`, `rabbit_amqqueue`
of RabbitMQ 4.3.
"""

from __future__ import annotations

from mypy_extensions import i64

from warren.errors import (
    ACCESS_REFUSED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION_FAILED,
    RESOURCE_LOCKED,
    Refusal,
)
from warren.metadata.access import MAX_QUEUES, has_room
from warren.metadata.arguments import (
    QUEUE_TYPE,
    RELAXED_ARGUMENTS,
    check_equivalent,
    check_queue_arguments,
    check_same_flag,
    check_same_type,
    queue_type,
    stored_arguments,
    with_type,
)
from warren.metadata.changes import binding_key
from warren.metadata.commands import (
    Bind,
    DeclareDelayed,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Unbind,
)
from warren.metadata.exchange_checks import (
    check_binding,
    check_exchange_arguments,
    check_exchange_type,
)
from warren.metadata.machine import MetadataMachine
from warren.metadata.names import RESERVED_PREFIX, check_reserved
from warren.metadata.tables import NO_OWNER, ExchangeRecord, QueueRecord
from warren.queue_types import DEFAULT, X_SINGLE_ACTIVE_CONSUMER, find, type_of
from warren.routing.alternates import ALTERNATE_EXCHANGE
from warren.routing.exchange_types import DELAYED_MESSAGE, routing_type
from warren.routing.terms import type_name
from warren.wire.amqp091.table import Table


def queue_title(vhost: str, name: str) -> str:
    """How error texts call a queue."""
    return f"queue '{name}' in vhost '{vhost}'"


def exchange_title(vhost: str, name: str) -> str:
    """How error texts call an exchange."""
    return f"exchange '{name}' in vhost '{vhost}'"


def _no_queue(vhost: str, name: str) -> Refusal:
    return Refusal(NOT_FOUND, f"no {queue_title(vhost, name)}")


def _no_exchange(vhost: str, name: str) -> Refusal:
    return Refusal(NOT_FOUND, f"no {exchange_title(vhost, name)}")


# --- queues -------------------------------------------------------------------------------------


def use_queue(machine: MetadataMachine, vhost: str, name: str, connection: i64) -> QueueRecord:
    """A queue that a connection wants to consume, get, purge, or declare passively.

    Raises:
        Refusal: `NOT_FOUND`, or `RESOURCE_LOCKED` where it is another connection's.
    """
    queue = machine.queue(vhost, name)
    if queue is None or queue.type.delays:
        raise _no_queue(vhost, name)
    _check_owner(queue, connection)
    return queue


def check_polls(queue: QueueRecord) -> None:
    """Refuse to get one message from a queue that serves one consumer, if its type does so.

    Raises:
        Refusal: `RESOURCE_LOCKED`.
    """
    if queue.type.single_active_polls or queue.arguments.get(X_SINGLE_ACTIVE_CONSUMER) is not True:
        return
    raise Refusal(
        RESOURCE_LOCKED,
        f"cannot obtain access to locked {queue_title(queue.vhost, queue.name)}. basic.get "
        f'operations are not supported by <<"{queue.kind}">> queues with single active consumer',
    )


def _check_owner(queue: QueueRecord, connection: i64) -> None:
    if queue.exclusive_owner not in (NO_OWNER, connection):
        raise _locked(queue)


def _locked(queue: QueueRecord) -> Refusal:
    return Refusal(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked {queue_title(queue.vhost, queue.name)}. "
        "It could be originally declared on another connection or the exclusive property value "
        "does not match that of the original declaration.",
    )


def with_queue_type(
    machine: MetadataMachine,
    vhost: str,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    arguments: Table,
    node_default: str,
) -> Table:
    """The arguments of a declare, with the type of queues that its vhost has where they name none.

    A type that has no such queues is left out, as RabbitMQ does.

    Args:
        node_default: The type of vhosts that have none of their own.
    """
    if QUEUE_TYPE in arguments:
        return arguments
    tables = machine.vhosts.get(vhost)
    name = "" if tables is None else tables.default_queue_type
    kind = find(name or node_default)
    if (
        kind is None
        or (not durable and not kind.transient)
        or (exclusive and not kind.exclusive)
        or (auto_delete and not kind.auto_delete)
    ):
        return arguments
    return with_type(arguments, kind.name)


def check_queue_limit(machine: MetadataMachine, vhost: str, name: str) -> None:
    """Refuse one more queue where the vhost has as many as it may.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    tables = machine.vhosts.get(vhost)
    if tables is not None and not has_room(tables):
        raise Refusal(
            PRECONDITION_FAILED,
            f"cannot declare queue '{name}': queue limit in vhost '{vhost}' "
            f"({tables.limits[MAX_QUEUES]}) is reached",
        )


def server_named(arguments: Table) -> None:
    """Refuse to make up a name for a type that is not for queues without one, or that is none.

    Raises:
        Refusal: `PRECONDITION_FAILED`.
    """
    name = queue_type(arguments)
    kind = find(name)
    if kind is None:
        raise Refusal(PRECONDITION_FAILED, f"unknown queue type '{name}'")
    if not kind.server_named:
        raise Refusal(
            PRECONDITION_FAILED, f"Cannot declare a server-named queue for type {kind.module}"
        )


def declare_queue(
    machine: MetadataMachine,
    vhost: str,
    name: str,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    arguments: Table,
    connection: i64,
    group_id: i64,
    named_by_server: bool = False,
    node: str = "",
    relaxed: bool = False,
) -> DeclareQueue | None:
    """`queue.declare`, not passive. None where an equivalent queue exists.

    `placement.place` gives a quorum queue's command its members.

    Args:
        connection: Who asks, the owner if `exclusive`; not `NO_OWNER`.
        group_id: The incarnation to create, never used before; or the command is given it later.
        named_by_server: Whether `name` is from `names.server_name`.
        node: The node that asks, where the queue will live.
        relaxed: Whether a replicated queue may be declared like one of the default type.

    Raises:
        Refusal: `ACCESS_REFUSED`, `RESOURCE_LOCKED` or `PRECONDITION_FAILED`.
    """
    assert connection != NO_OWNER
    if not named_by_server:
        check_reserved("queue", name)
    owner: i64 = connection if exclusive else NO_OWNER
    durable = durable and not exclusive
    stored = stored_arguments(arguments)
    title = queue_title(vhost, name)
    current = machine.queue(vhost, name)
    if current is not None:
        if relaxed and current.type.replicated and stored[QUEUE_TYPE] == DEFAULT.name:
            check_equivalent(current.arguments, stored, RELAXED_ARGUMENTS, title)
            return None
        if current.exclusive_owner != owner:
            raise _locked(current)
        check_same_flag(current.durable, durable, "durable", title)
        check_same_flag(current.auto_delete, auto_delete, "auto_delete", title)
        check_equivalent(current.arguments, stored, current.type.arguments, title)
        return None
    dead_letters = stored.get("x-dead-letter-exchange", "")
    if not isinstance(dead_letters, str):
        raise Refusal(
            PRECONDITION_FAILED,
            f"invalid type '{type_name(dead_letters)}' for arg 'x-dead-letter-exchange' in {title}",
        )
    check_queue_arguments(stored, title)
    kind = type_of(queue_type(stored))
    if auto_delete and not kind.auto_delete:
        raise Refusal(PRECONDITION_FAILED, f"invalid property 'auto-delete' for {title}")
    if exclusive and not kind.exclusive:
        raise Refusal(PRECONDITION_FAILED, f"invalid property 'exclusive-owner' for {title}")
    if not durable and not kind.transient:
        raise Refusal(PRECONDITION_FAILED, f"invalid property 'non-durable' for {title}")
    check_queue_limit(machine, vhost, name)
    return DeclareQueue(vhost, name, kind.name, durable, auto_delete, owner, stored, group_id, node)


def delete_queue(
    machine: MetadataMachine,
    vhost: str,
    name: str,
    if_unused: bool,
    if_empty: bool,
    connection: i64,
) -> DeleteQueue | None:
    """`queue.delete`. None where there is no such queue, which is no error.

    The caller checks `if_unused` and `if_empty` on the queue itself (`in_use`, `not_empty`).

    Raises:
        Refusal: `RESOURCE_LOCKED`.
        Refusal: `NOT_IMPLEMENTED`, a condition that queues of this type do not have.
    """
    queue = machine.queue(vhost, name)
    if queue is None or queue.type.delays:
        return None
    _check_owner(queue, connection)
    if (if_unused or if_empty) and not queue.type.conditional_delete:
        flag = "if-unused" if if_unused else "if-empty"
        raise Refusal(
            NOT_IMPLEMENTED,
            f"cannot delete {queue_title(vhost, name)}. queue.delete operations with {flag} "
            f"flag set are not supported by {queue.type.name} queues",
        )
    return DeleteQueue(vhost, name, queue.group_id, queue.durable)


def in_use(queue: QueueRecord) -> Refusal:
    """The error for a queue with consumers and `if_unused`."""
    return Refusal(PRECONDITION_FAILED, f"{queue_title(queue.vhost, queue.name)} in use")


def not_empty(queue: QueueRecord) -> Refusal:
    """The error for a queue with messages and `if_empty`."""
    return Refusal(PRECONDITION_FAILED, f"{queue_title(queue.vhost, queue.name)} not empty")


# --- exchanges ----------------------------------------------------------------------------------


def _check_not_default(name: str) -> None:
    if not name:
        raise Refusal(ACCESS_REFUSED, "operation not permitted on the default exchange")


def use_exchange(machine: MetadataMachine, vhost: str, name: str) -> ExchangeRecord:
    """`exchange.declare`, passive.

    Raises:
        Refusal: `ACCESS_REFUSED` or `NOT_FOUND`.
    """
    _check_not_default(name)
    exchange = machine.exchange(vhost, name)
    if exchange is None:
        raise _no_exchange(vhost, name)
    return exchange


def declare_exchange(
    machine: MetadataMachine,
    vhost: str,
    name: str,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Table,
) -> DeclareExchange | DeclareDelayed | None:
    """`exchange.declare`, not passive. None where an equivalent exchange exists.

    Raises:
        Refusal: `ACCESS_REFUSED` or `PRECONDITION_FAILED`.
    """
    check_exchange_type(kind)
    _check_not_default(name)
    title = exchange_title(vhost, name)
    current = machine.exchange(vhost, name)
    if current is not None:
        check_same_type(current.kind, kind, title)
        check_same_flag(current.durable, durable, "durable", title)
        check_same_flag(current.auto_delete, auto_delete, "auto_delete", title)
        check_same_flag(current.internal, internal, "internal", title)
        check_equivalent(current.arguments, arguments, (ALTERNATE_EXCHANGE,), title)
        return None
    check_reserved("exchange", name)
    alternate = arguments.get(ALTERNATE_EXCHANGE, "")
    if not isinstance(alternate, str):
        raise Refusal(
            PRECONDITION_FAILED,
            f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE_EXCHANGE}' in {title}",
        )
    check_exchange_arguments(kind, arguments, title)
    if kind == DELAYED_MESSAGE:
        return DeclareDelayed(vhost, name, durable, auto_delete, internal, arguments)
    return DeclareExchange(vhost, name, kind, durable, auto_delete, internal, arguments)


def delete_exchange(
    machine: MetadataMachine, vhost: str, name: str, if_unused: bool
) -> DeleteExchange | None:
    """`exchange.delete`. None where there is no such exchange, which is no error.

    Raises:
        Refusal: `ACCESS_REFUSED` or `PRECONDITION_FAILED`.
    """
    _check_not_default(name)
    title = exchange_title(vhost, name)
    if name.startswith(RESERVED_PREFIX):
        raise Refusal(ACCESS_REFUSED, f"deletion of system {title} not allowed")
    exchange = machine.exchange(vhost, name)
    if exchange is None:
        return None
    if if_unused and exchange.bound:
        raise Refusal(PRECONDITION_FAILED, f"{title} in use")
    return DeleteExchange(vhost, name, if_unused, exchange.durable)


# --- bindings -----------------------------------------------------------------------------------


def bind(
    machine: MetadataMachine,
    vhost: str,
    source: str,
    destination: str,
    to_exchange: bool,
    routing_key: str,
    arguments: Table,
    connection: i64,
) -> Bind | None:
    """`queue.bind`, or `exchange.bind` where `to_exchange`. None where the binding exists.

    Raises:
        Refusal: `ACCESS_REFUSED`, `NOT_FOUND`, `RESOURCE_LOCKED` or `PRECONDITION_FAILED`.
    """
    _check_ends(source, destination, to_exchange)
    exchange = machine.exchange(vhost, source)
    if exchange is None:
        raise _no_exchange(vhost, source)
    kind = routing_type(exchange.kind, exchange.arguments)
    if to_exchange:
        target = machine.exchange(vhost, destination)
        if target is None:
            raise _no_exchange(vhost, destination)
        check_binding(kind, routing_key, arguments, None)
        durable = exchange.durable and target.durable
    else:
        queue = machine.queue(vhost, destination)
        if queue is None or queue.type.delays:
            raise _no_queue(vhost, destination)
        check_binding(kind, routing_key, arguments, queue.type)
        _check_owner(queue, connection)
        durable = exchange.durable and queue.durable
    if binding_key(destination, to_exchange, routing_key, arguments) in exchange.bound:
        return None
    return Bind(vhost, source, destination, to_exchange, routing_key, arguments, durable)


def unbind(
    machine: MetadataMachine,
    vhost: str,
    source: str,
    destination: str,
    to_exchange: bool,
    routing_key: str,
    arguments: Table,
    connection: i64,
) -> Unbind | None:
    """`queue.unbind` or `exchange.unbind`. None where there is no such binding: no error.

    Raises:
        Refusal: `ACCESS_REFUSED` or `RESOURCE_LOCKED`.
    """
    _check_ends(source, destination, to_exchange)
    exchange = machine.exchange(vhost, source)
    if exchange is None:
        return None
    key = binding_key(destination, to_exchange, routing_key, arguments)
    binding = exchange.bound.get(key)
    if binding is None:
        return None
    if not to_exchange:
        queue = machine.queue(vhost, destination)
        assert queue is not None, "a binding leads to a queue that exists"
        _check_owner(queue, connection)
    return Unbind(vhost, source, destination, to_exchange, routing_key, arguments, binding.durable)


def _check_ends(source: str, destination: str, to_exchange: bool) -> None:
    if not to_exchange and destination.startswith("amq.rabbitmq.reply-to."):
        raise Refusal(ACCESS_REFUSED, "cannot bind or unbind to a volatile (direct reply-to) queue")
    if to_exchange:
        _check_not_default(destination)
    _check_not_default(source)
