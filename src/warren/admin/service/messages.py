"""Messages that users publish and take through an operator's way in, with their rights as clients.

Both are for a look and a try, and cost what they cost clients with one message at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from warren.admin.service.caller import LOCAL, MANAGEMENT, Caller, check_entrance
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.topology import handle_of
from warren.errors import (
    EXHAUSTED,
    NOT_FOUND,
    PRECONDITION_FAILED,
    TIMED_OUT,
    BrokerError,
    Refusal,
)
from warren.message.envelope import NewMessage
from warren.message.facts import MessageFacts
from warren.message.flavours import AMQP091, made
from warren.message.properties import MessageProperties
from warren.metadata.plain_tables import as_table, plain
from warren.protocols.broker import ALARM_MEMORY, ELSEWHERE_SHIFT
from warren.queues.publishing import Publisher, PublishRun
from warren.vhost.getting import TakenMessage, Taker
from warren.vhost.routes import Route

GET_SECONDS = 20.0
"""For the next message to come."""
CONFIRM_SECONDS = 20.0
GET_BYTES_MAX = 67_108_864
"""Bodies that one request gets: it stops behind that which passes this."""
GET_COUNT_MAX = 10_000

Done = TypeVar("Done")

Fate = Literal["settled", "returned", "failed", "discarded"]
"""What becomes of messages that were looked at; those that failed count as a failed delivery."""


class GivenProperties(msgspec.Struct, kw_only=True, frozen=True):
    """A message's properties as requests give and answers show them.

    Attributes:
        expiration: How long it is worth anything, as text.
        timestamp: In whole seconds since 1970.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Any] | None = None
    persistent: bool | None = None
    priority: Annotated[int, Meta(ge=0, le=255)] | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None


class Taken(msgspec.Struct, kw_only=True):
    """One message as it was taken.

    Attributes:
        exchange, routing_key: As it was published.
        redelivered: Whether it was handed out before.
        properties: Its properties, with the counts that queues show in the headers.
        body: The body.
        left: Messages that were ready in the queue behind it.
    """

    exchange: str
    routing_key: str
    redelivered: bool
    properties: GivenProperties
    body: bytes
    left: int


@operation(MANAGEMENT)
async def get_messages(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    count: int = 1,
    fate: Fate = "returned",
) -> list[Taken]:
    """Take messages out of a queue, one after the other; they go back only when all are taken.

    Raises:
        Refusal: There is no such queue, or it is none of this user's.
    """
    taken: list[Taken] = []
    told = asyncio.Event()
    slices = Slices()
    check_entrance(service.machine, caller, vhost)
    handle = handle_of(service, caller.name, caller is LOCAL, vhost)
    tables = service.machine.vhosts.get(vhost)
    if tables is None or queue not in tables.queues:
        raise Refusal(NOT_FOUND, "queue_not_found")
    record = attempt(service, lambda: handle.queue_to_poll(queue))
    taker = attempt(service, lambda: Taker(record, fate == "settled", told.set))
    size = 0
    try:
        while len(taken) < min(count, GET_COUNT_MAX) and size <= GET_BYTES_MAX:
            told.clear()
            attempt(service, taker.ask)
            try:
                await asyncio.wait_for(told.wait(), GET_SECONDS)
            except TimeoutError:
                raise Refusal(TIMED_OUT, f"queue '{queue}' gives no message now") from None
            if taker.refusal is not None:
                raise taker.refusal
            if taker.taken is None:
                break
            taken.append(_shown(taker.taken, record.type.shows_delivery_counts))
            size += len(taken[-1].body)
            await slices.breathe()
        if fate in ("returned", "failed"):
            attempt(service, lambda: taker.give_back(fate == "failed"))
        elif fate == "discarded":
            attempt(service, taker.discard)
    finally:
        attempt(service, taker.end)
    return taken


def _shown(taken: TakenMessage, shows_counts: bool) -> Taken:
    message = taken.message
    found = message.properties()
    headers = None if found.headers is None else plain(found.headers)
    if taken.redelivered and shows_counts:
        headers = headers or {}
        headers["x-acquired-count"] = int(taken.acquired if taken.acquired > 0 else taken.failed)
        if taken.failed > 0:
            headers["x-delivery-count"] = int(taken.failed)
    timestamp_ms, expiration_ms = found.timestamp_ms, found.expiration_ms
    properties = GivenProperties(
        content_type=found.content_type,
        content_encoding=found.content_encoding,
        headers=headers,
        persistent=found.persistent,
        priority=found.priority,
        correlation_id=found.correlation_id,
        reply_to=found.reply_to,
        expiration=None if expiration_ms is None else str(expiration_ms),
        message_id=found.message_id,
        timestamp=None if timestamp_ms is None else timestamp_ms // 1_000,
        type=found.type_,
        user_id=found.user_id,
        app_id=found.app_id,
    )
    return Taken(
        exchange=message.exchange(),
        routing_key=message.routing_key(),
        redelivered=taken.redelivered,
        properties=properties,
        body=b"".join(message.body()),
        left=int(taken.left),
    )


class Confirmed(Publisher):
    """Waits until all queues have a message."""

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told

    def settled(self, run: PublishRun) -> None:
        """All have it, or one has refused it."""
        self._told()


@operation(MANAGEMENT)
async def publish_message(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    exchange: str,
    routing_key: str,
    body: bytes,
    properties: GivenProperties = GivenProperties(),  # noqa: B008 - it is read only
) -> bool:
    """Publish one message as a user, and wait until it is safe; whether it came to any queue.

    Raises:
        Refusal: It cannot be, or not by this user.
    """
    check_entrance(service.machine, caller, vhost)
    handle = handle_of(service, caller.name, caller is LOCAL, vhost)
    tables = service.machine.vhosts.get(vhost)
    if tables is None or exchange not in tables.exchanges:
        raise Refusal(NOT_FOUND, "exchange_not_found")
    if service.node.alarms() & (ALARM_MEMORY | ALARM_MEMORY << ELSEWHERE_SHIFT):
        raise Refusal(EXHAUSTED, f"publishers are blocked: {service.node.alarm_reason()}")
    if len(body) > handle.max_message_bytes:
        raise Refusal(
            PRECONDITION_FAILED,
            f"message size {len(body)} is larger than configured max size "
            f"{handle.max_message_bytes}",
        )
    values = _values(properties)
    headers = values.headers or {}
    facts = _facts(values, properties.expiration)

    def routed() -> Route:
        route = handle.resolve(exchange, routing_key, True)
        handle.check_properties(facts, route)
        if facts.copies or route.by_message:
            given = values if route.by_properties else None
            route = handle.route_message(route, facts, headers, given)
        return route

    route = attempt(service, routed)
    if facts.life_ms >= 0:
        values.expiration_ms = int(facts.life_ms)
    try:
        message = NewMessage(exchange, routing_key, values, body)
        record = made(message, handle.notes_keys())
    except BrokerError as error:
        raise Refusal(PRECONDITION_FAILED, str(error)) from None
    told = asyncio.Event()
    run = PublishRun(Confirmed(told.set), 0, 1, len(route.queues))

    def handed_over() -> bool:
        traffic = handle.traffic
        traffic.published += 1
        if route.reply is None and not route.queues:
            traffic.returned += 1
        if handle.tracer.on:
            size = len(record).to_bytes(4, "little")
            handle.trace_published(caller.name, 0, route, AMQP091, record, size)
        if route.keepers:
            handle.keep(route, [record])
        if route.reply is not None:
            route.reply.replied(record)
            return False
        if handle.refuses(route):
            raise Refusal(EXHAUSTED, "the disk is full")
        size = len(record).to_bytes(4, "little")
        for queue in route.queues:
            queue.publish(record, size, 1, facts.persistent, run, AMQP091, facts.life_ms)
        return len(route.queues) > 0

    if not attempt(service, handed_over):
        return route.reply is not None
    try:
        await asyncio.wait_for(told.wait(), CONFIRM_SECONDS)
    except TimeoutError:
        raise Refusal(
            TIMED_OUT, f"the message was not safe within {CONFIRM_SECONDS:.0f} s"
        ) from None
    if run.refused or run.rejected is not None:
        raise Refusal(PRECONDITION_FAILED, "a queue has no room for the message")
    handle.traffic.confirmed += 1
    return True


def _values(given: GivenProperties) -> MessageProperties:
    """The same by neutral names; the expiration is yet to be checked."""
    return MessageProperties(
        content_type=given.content_type,
        content_encoding=given.content_encoding,
        headers=None if given.headers is None else as_table(given.headers, "headers"),
        persistent=given.persistent,
        priority=given.priority,
        correlation_id=given.correlation_id,
        reply_to=given.reply_to,
        message_id=given.message_id,
        timestamp_ms=None if given.timestamp is None else 1_000 * given.timestamp,
        type_=given.type,
        user_id=given.user_id,
        app_id=given.app_id,
    )


def _facts(properties: MessageProperties, expiration: str | None) -> MessageFacts:
    """What the broker looks at in a message."""
    facts = MessageFacts()
    facts.persistent = bool(properties.persistent)
    facts.priority = properties.priority or 0
    if expiration is not None:
        facts.has_expiration = True
        facts.expiration = expiration.encode("utf-8", "surrogateescape")
    if properties.user_id is not None:
        facts.has_user_id = True
        facts.user_id = properties.user_id.encode("utf-8", "surrogateescape")
    headers = properties.headers or {}
    facts.copies = "CC" in headers or "BCC" in headers
    return facts


def attempt(service: AdminService, step: Callable[[], Done]) -> Done:
    """Run a step of the node that may be refused, and have its turn follow.

    Raises:
        Refusal: It was refused.
    """
    results: list[Done] = []
    refusals: list[Refusal] = []

    def run() -> None:
        try:
            results.append(step())
        except Refusal as refusal:
            refusals.append(refusal)

    service.host.guarded(run)
    service.host.after_event()
    if refusals:
        raise refusals[0]
    return results[0]
