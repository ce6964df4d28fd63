"""Exchanges, queues and bindings: what there is, and operators who change it.

Users need permissions in the vhost for what they change, as over AMQP; an operator of the machine
needs none. What changes is done when it is in force on this node.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any

from warren.admin.service.caller import LOCAL, MANAGEMENT, Caller, acting_user, visible
from warren.admin.service.operation import operation
from warren.admin.service.rows import BindingRow, ExchangeRow
from warren.admin.service.service import CHANGE_SECONDS, AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.waiting import Awaited
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.access_checks import check_vhost
from warren.metadata.plain_tables import as_table, plain
from warren.metadata.policies import exchange_policy_of
from warren.metadata.tables import ExchangeRecord, QueueRecord, VhostRecord
from warren.pending import Result
from warren.queues.fifo.effects import PurgeReply
from warren.vhost.handle import VhostHandle
from warren.vhost.pending import QueueDeleted
from warren.vhost.requests import (
    BindRequest,
    DeclareExchangeRequest,
    DeclareQueueRequest,
    DeleteExchangeRequest,
    DeleteQueueRequest,
    UnbindRequest,
)

PART_ROWS = 1_000
NOBODY = -1
"""The identity of a connection that there is none of."""


@operation(MANAGEMENT)
async def list_exchanges(
    service: AdminService, caller: Caller, *, vhost: str = ""
) -> AsyncGenerator[list[ExchangeRow], None]:
    """List exchanges, in parts; of one vhost, or of all that the caller may see.

    Raises:
        Refusal: There is no such vhost, or the caller may not see it.
    """
    slices = Slices()
    part: list[ExchangeRow] = []
    for tables in visible(service.machine, caller, vhost):
        for exchange in list(tables.exchanges.values()):
            part.append(exchange_row(tables, exchange))
            await slices.breathe()
            if len(part) >= PART_ROWS:
                yield part
                part = []
    yield part


@operation(MANAGEMENT)
async def list_bindings(
    service: AdminService, caller: Caller, *, vhost: str = ""
) -> AsyncGenerator[list[BindingRow], None]:
    """List bindings, in parts; of one vhost, or of all that the caller may see.

    Each queue has one from the default exchange.

    Raises:
        Refusal: There is no such vhost, or the caller may not see it.
    """
    slices = Slices()
    part: list[BindingRow] = []
    for tables in visible(service.machine, caller, vhost):
        for queue in tables.queues_in_order():
            if not queue.type.delays:
                part.append(default_binding(queue))
            await slices.breathe()
            if len(part) >= PART_ROWS:
                yield part
                part = []
        for exchange in list(tables.exchanges.values()):
            for binding in list(exchange.bound.values()):
                part.append(
                    BindingRow(
                        vhost=tables.name,
                        source_name=binding.source,
                        source_kind="exchange",
                        destination_name=binding.destination,
                        destination_kind="exchange" if binding.to_exchange else "queue",
                        routing_key=binding.routing_key,
                        arguments=plain(binding.arguments),
                    )
                )
                await slices.breathe()
                if len(part) >= PART_ROWS:
                    yield part
                    part = []
    yield part


@operation(MANAGEMENT, of_vhost=True)
async def declare_exchange(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    type: str = "direct",
    durable: bool = True,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> None:
    """Have an exchange, made now if it is not there.

    Raises:
        Refusal: It cannot be, or the user may not have it.
    """
    given = as_table(arguments, "arguments of an exchange")
    request = DeclareExchangeRequest(name, type, durable, auto_delete, internal, given)
    handle = handle_of(service, caller, vhost)
    await changed(service, lambda pending: handle.declare_exchange(request, pending))


@operation(MANAGEMENT, of_vhost=True)
async def delete_exchange(
    service: AdminService, caller: Caller, *, vhost: str, name: str, if_unused: bool = False
) -> None:
    """Delete an exchange.

    Raises:
        Refusal: There is none, it may not go, or not by this user.
    """
    if name not in check_vhost(service.machine, vhost).exchanges:
        raise Refusal(NOT_FOUND, f"no exchange '{name}' in vhost '{vhost}'")
    request = DeleteExchangeRequest(name, if_unused)
    handle = handle_of(service, caller, vhost)
    await changed(service, lambda pending: handle.delete_exchange(request, pending))


@operation(MANAGEMENT, of_vhost=True)
async def declare_queue(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    durable: bool = True,
    auto_delete: bool = False,
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> None:
    """Have a queue, made now if it is not there.

    Raises:
        Refusal: It cannot be, or the user may not have it.
    """
    given = as_table(arguments, "arguments of a queue")
    request = DeclareQueueRequest(name, durable, False, auto_delete, given)
    handle = handle_of(service, caller, vhost)
    await changed(service, lambda pending: handle.declare_queue(request, pending))


@operation(MANAGEMENT, of_vhost=True)
async def delete_queue(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    if_unused: bool = False,
    if_empty: bool = False,
) -> int:
    """Delete a queue; how many messages were ready in it.

    Raises:
        Refusal: There is none, it may not go, or not by this user.
    """
    check_queue(service, vhost, name)
    request = DeleteQueueRequest(name, if_unused, if_empty)
    handle = handle_of(service, caller, vhost)
    result = await changed(service, lambda pending: handle.delete_queue(request, pending))
    return int(result.messages) if isinstance(result, QueueDeleted) else 0


@operation(MANAGEMENT, of_vhost=True)
async def purge_queue(service: AdminService, caller: Caller, *, vhost: str, name: str) -> int:
    """Drop all ready messages of a queue; how many there were.

    Raises:
        Refusal: There is no such queue, it cannot be reached, or the user may not read it.
    """
    check_queue(service, vhost, name)
    queue = handle_of(service, caller, vhost).queue_for(name, "read")
    result = await done(service, queue.purge)
    assert isinstance(result, PurgeReply), "it was asked to purge"
    return int(result.count)


@operation(MANAGEMENT, of_vhost=True)
async def bind(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    source: str,
    destination: str,
    destination_type: str = "queue",
    routing_key: str = "",
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> None:
    """Have a binding, made now if it is not there.

    Raises:
        Refusal: It cannot be, or the user may not have it.
    """
    given = as_table(arguments, "arguments of a binding")
    to_exchange = destination_type == "exchange"
    request = BindRequest(source, destination, to_exchange, routing_key, given)
    handle = handle_of(service, caller, vhost)
    await changed(service, lambda pending: handle.bind(request, pending))


@operation(MANAGEMENT, of_vhost=True)
async def unbind(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    source: str,
    destination: str,
    destination_type: str = "queue",
    routing_key: str = "",
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> None:
    """Have no such binding; one that is not there is no error.

    Raises:
        Refusal: It may not go, or not by this user.
    """
    given = as_table(arguments, "arguments of a binding")
    to_exchange = destination_type == "exchange"
    request = UnbindRequest(source, destination, to_exchange, routing_key, given)
    handle = handle_of(service, caller, vhost)
    await changed(service, lambda pending: handle.unbind(request, pending))


def exchange_row(tables: VhostRecord, exchange: ExchangeRecord) -> ExchangeRow:
    """The row of one exchange."""
    policy = exchange_policy_of(tables, exchange.name)
    return ExchangeRow(
        vhost=tables.name,
        name=exchange.name,
        type=exchange.kind,
        durable=exchange.durable,
        auto_delete=exchange.auto_delete,
        internal=exchange.internal,
        arguments=plain(exchange.arguments),
        policy="" if policy is None else policy.name,
    )


def default_binding(queue: QueueRecord) -> BindingRow:
    """The binding of the default exchange that each queue has."""
    return BindingRow(
        vhost=queue.vhost,
        source_name="",
        source_kind="exchange",
        destination_name=queue.name,
        destination_kind="queue",
        routing_key=queue.name,
        arguments={},
    )


def check_queue(service: AdminService, vhost: str, name: str) -> QueueRecord:
    """The queue of a name.

    Raises:
        Refusal: There is none, or no such vhost.
    """
    queue = check_vhost(service.machine, vhost).queues.get(name)
    if queue is None or queue.type.delays:
        raise Refusal(NOT_FOUND, f"no queue '{name}' in vhost '{vhost}'")
    return queue


def handle_of(service: AdminService, asker: Caller, vhost: str) -> VhostHandle:
    """The way into a vhost of who asks; an operator of the machine needs no permissions.

    Raises:
        Refusal: There is no such vhost, or it is being deleted.
    """
    node = service.node
    check_vhost(service.machine, vhost)
    tables = node.store.authority.vhost(vhost)
    return VhostHandle(
        node.vhosts,
        vhost,
        tables.router,
        node.queues.vhost(vhost).queues,
        asker.name,
        NOBODY,
        trusted=asker is LOCAL,
        grants=asker.grants,
        acts_as=acting_user.get(),
    )


async def changed(service: AdminService, ask: Callable[[Awaited], None]) -> Result:
    """Have a vhost changed, and wait until that is in force here.

    Raises:
        Refusal: It cannot be; or `TIMED_OUT`.
    """
    service.check_majority()
    return await done(service, ask)


async def done(service: AdminService, ask: Callable[[Awaited], None]) -> Result:
    """Have something asked of a vhost or a queue, and wait for what comes of it.

    Args:
        ask: Takes who is told of it.

    Raises:
        Refusal: It cannot be; or `TIMED_OUT`.
    """
    pending = Awaited()
    problems: list[Refusal] = []

    def step() -> None:
        try:
            ask(pending)
        except Refusal as refusal:
            problems.append(refusal)

    service.host.guarded(step)
    service.host.after_event()
    if problems:
        raise problems[0]
    return await pending.wait(CHANGE_SECONDS)
