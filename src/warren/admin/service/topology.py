"""Queues, exchanges and bindings that users declare and delete through an operator's way in.

The vhost checks the rights, as it does for clients. A queue or an exchange that was there before
has to be the same.
"""

from __future__ import annotations

from typing import Any

from warren.admin.service.caller import MANAGEMENT, Caller
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.visits import attempt, visit
from warren.admin.service.waiting import Awaited
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.limits import SHORTSTR_BYTES_MAX
from warren.metadata.permissions import READ
from warren.metadata.tables import VhostRecord
from warren.queues.fifo.effects import PurgeReply
from warren.vhost.requests import (
    BindRequest,
    DeclareExchangeRequest,
    DeclareQueueRequest,
    DeleteExchangeRequest,
    DeleteQueueRequest,
    UnbindRequest,
)

PURGE_SECONDS = 20.0


@operation(MANAGEMENT)
async def declare_queue(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    durable: bool = False,
    auto_delete: bool = False,
    exclusive: bool = False,
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> bool:
    """Have a queue; whether it was not there before.

    Args:
        exclusive: It goes at once, with the visit that it belongs to.

    Raises:
        Refusal: It cannot be, or not by this user.
    """
    _check_name("queue", name)
    with visit(service, caller, vhost) as guest:
        is_new = name not in _tables(service, vhost).queues
        request = DeclareQueueRequest(name, durable, exclusive, auto_delete, dict(arguments))
        await guest.change(request, lambda pending: guest.handle.declare_queue(request, pending))
        return is_new


@operation(MANAGEMENT)
async def delete_queue(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    if_unused: bool = False,
    if_empty: bool = False,
) -> None:
    """Delete a queue with its messages.

    Raises:
        Refusal: There is none, or it may not go, or not by this user.
    """
    with visit(service, caller, vhost) as guest:
        _check_queue(service, vhost, name)
        request = DeleteQueueRequest(name, if_unused, if_empty)
        await guest.change(request, lambda pending: guest.handle.delete_queue(request, pending))


@operation(MANAGEMENT)
async def purge_queue(service: AdminService, caller: Caller, *, vhost: str, name: str) -> int:
    """Drop all messages of a queue that are ready; how many they were.

    Raises:
        Refusal: There is none, or it is none of this user's.
    """
    with visit(service, caller, vhost) as guest:
        _check_queue(service, vhost, name)
        pending = Awaited()
        attempt(service, lambda: guest.handle.queue_for(name, READ).purge(pending))
        reply = await pending.wait(PURGE_SECONDS)
        return int(reply.count) if isinstance(reply, PurgeReply) else 0


@operation(MANAGEMENT)
async def declare_exchange(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    name: str,
    type: str = "direct",
    durable: bool = False,
    auto_delete: bool = False,
    internal: bool = False,
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> bool:
    """Have an exchange; whether it was not there before.

    Raises:
        Refusal: It cannot be, or not by this user.
    """
    _check_name("exchange", name)
    with visit(service, caller, vhost) as guest:
        is_new = name not in _tables(service, vhost).exchanges
        request = DeclareExchangeRequest(
            name, type, durable, auto_delete, internal, dict(arguments)
        )
        await guest.change(request, lambda pending: guest.handle.declare_exchange(request, pending))
        return is_new


@operation(MANAGEMENT)
async def delete_exchange(
    service: AdminService, caller: Caller, *, vhost: str, name: str, if_unused: bool = False
) -> None:
    """Delete an exchange with its bindings.

    Raises:
        Refusal: There is none, or it may not go, or not by this user.
    """
    with visit(service, caller, vhost) as guest:
        if name not in _tables(service, vhost).exchanges:
            raise Refusal(NOT_FOUND, f"no exchange '{name}' in vhost '{vhost}'")
        request = DeleteExchangeRequest(name, if_unused)
        await guest.change(request, lambda pending: guest.handle.delete_exchange(request, pending))


@operation(MANAGEMENT)
async def bind(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    source: str,
    destination: str,
    to_exchange: bool = False,
    routing_key: str = "",
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> None:
    """Have a binding from an exchange to a queue, or to another exchange.

    Raises:
        Refusal: It cannot be, or not by this user.
    """
    _check_name("routing key", routing_key)
    with visit(service, caller, vhost) as guest:
        request = BindRequest(source, destination, to_exchange, routing_key, dict(arguments))
        await guest.change(request, lambda pending: guest.handle.bind(request, pending))


@operation(MANAGEMENT)
async def unbind(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    source: str,
    destination: str,
    to_exchange: bool = False,
    routing_key: str = "",
    arguments: dict[str, Any] = {},  # noqa: B006 - it is read only
) -> None:
    """Have no such binding.

    Raises:
        Refusal: It may not go, or not by this user.
    """
    with visit(service, caller, vhost) as guest:
        request = UnbindRequest(source, destination, to_exchange, routing_key, dict(arguments))
        await guest.change(request, lambda pending: guest.handle.unbind(request, pending))


def _tables(service: AdminService, vhost: str) -> VhostRecord:
    tables = service.machine.vhosts.get(vhost)
    if tables is None:
        raise Refusal(NOT_FOUND, "vhost_not_found")
    return tables


def _check_queue(service: AdminService, vhost: str, name: str) -> None:
    queue = _tables(service, vhost).queues.get(name)
    if queue is None or queue.type.delays:
        raise Refusal(NOT_FOUND, f"no queue '{name}' in vhost '{vhost}'")


def _check_name(what: str, name: str) -> None:
    """Refuse a name that no client could send."""
    size = len(name.encode("utf-8", "surrogateescape"))
    if size > SHORTSTR_BYTES_MAX:
        raise Refusal(
            PRECONDITION_FAILED,
            f"{what} should be less than {SHORTSTR_BYTES_MAX} bytes, actually was {size}\n",
        )
