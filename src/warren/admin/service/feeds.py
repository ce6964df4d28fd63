"""Events feeds of vhosts: turned on with a queue for them, listed, and turned off."""

from __future__ import annotations

from warren.admin.service.caller import POLICYMAKER, Caller, check_target, visible
from warren.admin.service.operation import operation
from warren.admin.service.rows import FeedRow
from warren.admin.service.service import AdminService
from warren.admin.service.topology import changed, handle_of
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.metadata.access_checks import check_vhost
from warren.metadata.arguments import QUEUE_TYPE
from warren.metadata.commands import ClearParameter
from warren.metadata.feeds import DEFAULT_QUEUE, FEED_NAME, check_feed, feed_settings
from warren.metadata.parameters import FEED
from warren.metadata.plain_tables import as_table
from warren.queue_types import (
    QUORUM,
    X_MAX_LENGTH_BYTES,
    X_MESSAGE_TTL,
    X_OVERFLOW,
)
from warren.vhost.requests import DeclareQueueRequest

MAX_BYTES = 1_073_741_824
MAX_AGE_S = 604_800


@operation(POLICYMAKER, of_vhost=True)
async def enable_feed(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str = DEFAULT_QUEUE,
    pattern: str = "",
    max_bytes: int = MAX_BYTES,
    max_age_s: int = MAX_AGE_S,
) -> None:
    """Have what becomes of messages in a vhost told of in a queue, which is made if need be.

    Args:
        pattern: Of the names of queues that are told of; empty for all.
        max_bytes, max_age_s: What the queue keeps, if it is made: its oldest blocks go first.

    Raises:
        Refusal: There is no such vhost, the queue is none that the caller may configure and write
            to, something is wrong, or there is no majority.
    """
    await service.catch_up()
    machine = service.machine
    tables = check_vhost(machine, vhost)
    command = check_feed(machine.parameters, vhost, queue, pattern)
    check_target(service.node.store.authority, caller, vhost, queue)
    if max_bytes < 1 or max_age_s < 1:
        raise Refusal(PRECONDITION_FAILED, "a feed keeps at least 1 byte, for at least 1 second")
    if queue not in tables.queues:
        arguments = {
            QUEUE_TYPE: QUORUM.name,
            X_MAX_LENGTH_BYTES: max_bytes,
            X_MESSAGE_TTL: 1_000 * max_age_s,
            X_OVERFLOW: "drop-head",
        }
        given = as_table(arguments, "arguments of a feed's queue")
        request = DeclareQueueRequest(queue, True, False, False, given)
        handle = handle_of(service, caller, vhost)
        await changed(service, lambda pending: handle.declare_queue(request, pending))
    await service.change(command)


@operation(POLICYMAKER, of_vhost=True)
async def disable_feed(service: AdminService, caller: Caller, *, vhost: str) -> None:
    """Have nothing more told of in a vhost's feed; its queue stays, with what it has.

    Raises:
        Refusal: There is no such vhost, it has no feed, or there is no majority.
    """
    await service.catch_up()
    check_vhost(service.machine, vhost)
    if (vhost, FEED, FEED_NAME) not in service.machine.parameters:
        raise Refusal(NOT_FOUND, f"vhost '{vhost}' has no events feed")
    await service.change(ClearParameter(vhost, FEED, FEED_NAME))


@operation(POLICYMAKER)
async def list_feeds(service: AdminService, caller: Caller, *, vhost: str = "") -> list[FeedRow]:
    """List the events feeds of a vhost, or of all that the caller may see.

    Raises:
        Refusal: There is no such vhost, or the caller may not see it.
    """
    rows: list[FeedRow] = []
    for tables in visible(service.machine, caller, vhost):
        value = service.machine.parameters.get((tables.name, FEED, FEED_NAME))
        settings = None if value is None else feed_settings(value)
        if settings is not None:
            rows.append(FeedRow(vhost=tables.name, queue=settings.queue, pattern=settings.pattern))
    return rows
