"""Messages that users publish and take through an operator's way in, with their rights as clients.

Both are for a look and a try, and cost what they cost clients with one message at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from warren.admin.service.caller import MANAGEMENT, Caller, check_entrance
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
from warren.limits import PROPERTIES_BYTES_MAX
from warren.message.envelope import Envelope, NewMessage, redelivery_headers
from warren.message.facts import MessageFacts
from warren.message.flavours import AMQP091, content_bytes, made
from warren.message.properties import MessageProperties
from warren.metadata.plain_tables import as_table, plain
from warren.protocols.broker import ALARM_MEMORY, ELSEWHERE_SHIFT
from warren.queues.fan_out import RunFanOut
from warren.queues.publishing import Publisher, PublishRun
from warren.queues.traffic import ExchangeUse
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
    timestamp: Annotated[int, Meta(ge=0)] | None = None
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
    slices = Slices()
    taking = TakingOut(service, caller, vhost, queue, fate == "settled")
    size = 0
    try:
        while len(taken) < min(count, GET_COUNT_MAX) and size <= GET_BYTES_MAX:
            message = await taking.next()
            if message is None:
                break
            taken.append(shown(message, taking.shows_counts))
            size += len(taken[-1].body)
            await slices.breathe()
        if fate in ("returned", "failed"):
            attempt(service, lambda: taking.taker.give_back(fate == "failed"))
        elif fate == "discarded":
            attempt(service, taking.taker.discard)
    finally:
        attempt(service, taking.taker.end)
    return taken


class TakingOut:
    """Takes messages out of one queue for a user, one after the other.

    Attributes:
        taker: What holds them; to be ended.
        shows_counts: Whether messages show how often they failed.
    """

    def __init__(
        self, service: AdminService, caller: Caller, vhost: str, queue: str, automatic: bool
    ) -> None:
        """Begin to hold nothing.

        Args:
            automatic: Whether messages are settled as they are taken.

        Raises:
            Refusal: There is no such queue, or it is none of this user's.
        """
        check_entrance(service.machine, caller, vhost)
        handle = handle_of(service, caller, vhost)
        tables = service.machine.vhosts.get(vhost)
        if tables is None or queue not in tables.queues:
            raise Refusal(NOT_FOUND, "queue_not_found")
        record = attempt(service, lambda: handle.queue_to_poll(queue))
        self._told = asyncio.Event()
        self.taker = attempt(service, lambda: Taker(record, automatic, self._told.set))
        self.taker.handle = handle
        self.taker.user = caller.name
        self.shows_counts = record.type.shows_delivery_counts
        self._service = service
        self._queue = queue
        self._handle = handle

    async def next(self, number: int = -1) -> TakenMessage | None:
        """The next message, or that of a number wherever it lies; None if it is not ready.

        Raises:
            Refusal: The queue cannot give one.
        """
        self._told.clear()
        # Who may not read the queue any more gets nothing further.
        attempt(self._service, lambda: self._handle.queue_to_poll(self._queue))
        attempt(self._service, lambda: self.taker.ask(number))
        try:
            await asyncio.wait_for(self._told.wait(), GET_SECONDS)
        except TimeoutError:
            raise Refusal(TIMED_OUT, f"queue '{self._queue}' gives no message now") from None
        if self.taker.refusal is not None:
            raise self.taker.refusal
        return self.taker.taken


def shown(taken: TakenMessage, shows_counts: bool) -> Taken:
    """A message as answers show it."""
    message = taken.message
    properties = properties_of(message)
    if taken.redelivered and shows_counts:
        headers = properties.headers or {}
        headers.update(redelivery_headers(taken.acquired, taken.failed))
        properties = msgspec.structs.replace(properties, headers=headers)
    return Taken(
        exchange=message.exchange(),
        routing_key=message.routing_key(),
        redelivered=taken.redelivered,
        properties=properties,
        body=b"".join(message.body()),
        left=int(taken.left),
    )


def properties_of(message: Envelope) -> GivenProperties:
    """A message's own properties as answers show them."""
    found = message.properties()
    timestamp_ms, expiration_ms = found.timestamp_ms, found.expiration_ms
    return GivenProperties(
        content_type=found.content_type,
        content_encoding=found.content_encoding,
        headers=None if found.headers is None else plain(found.headers),
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
    putting = PuttingIn(service, caller, vhost)
    values = values_of(properties)
    return await putting.publish(exchange, routing_key, body, values, properties.expiration)


class PuttingIn:
    """Publishes messages for a user, one after the other."""

    def __init__(self, service: AdminService, caller: Caller, vhost: str) -> None:
        """Begin with none.

        Raises:
            Refusal: The vhost is none of this user's.
        """
        check_entrance(service.machine, caller, vhost)
        self._handle = handle_of(service, caller, vhost)
        self._service = service
        self._user = caller.name
        self._vhost = vhost

    async def publish(
        self,
        exchange: str,
        routing_key: str,
        body: bytes,
        values: MessageProperties,
        expiration: str | None,
    ) -> bool:
        """Publish one message, and wait until it is safe; whether it came to any queue.

        Args:
            expiration: How long it is worth anything, as text; it is yet to be checked.

        Raises:
            Refusal: It cannot be, or not by this user.
        """
        service, handle = self._service, self._handle
        tables = service.machine.vhosts.get(self._vhost)
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
        headers = values.headers or {}
        facts = facts_of(values, expiration)

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
        size = content_bytes(AMQP091, record, 0, True) - len(body)
        if size > PROPERTIES_BYTES_MAX:
            raise Refusal(
                PRECONDITION_FAILED,
                f"the properties of a message have at most {PROPERTIES_BYTES_MAX} bytes, these "
                f"have {size}: put what is large into the body",
            )
        told = asyncio.Event()
        run = PublishRun(Confirmed(told.set), 0, 1, len(route.queues))

        traffic = service.node.traffic
        use = ExchangeUse(exchange, traffic.of_exchange(self._vhost, exchange), handle.traffic)
        replied: list[bool] = []

        def handed_over() -> bool:
            traffic.received += 1
            traffic.with_confirms += 1
            traffic.sizes.add(len(body))
            traffic.routed += len(route.queues)
            use.published(1)
            use.exchange.routed += len(route.queues)
            if route.reply is None and not route.queues:
                use.unroutable(1, True)
            if handle.tracer.on:
                size = len(record).to_bytes(4, "little")
                # RabbitMQ opens a connection with one channel for each request.
                handle.trace_published(self._user, 1, route, AMQP091, record, size)
            if route.keepers:
                handle.keep(route, [record])
            if route.reply is not None:
                if route.reply.replied(record):
                    replied.append(True)
                return False
            if handle.refuses(route):
                raise Refusal(EXHAUSTED, "the disk is full")
            size = len(record).to_bytes(4, "little")
            into = RunFanOut(
                route.queues, record, size, 1, facts.persistent, run, AMQP091, facts.life_ms
            )
            if not into.go_on():
                handle.do_in_parts(into)
            return len(route.queues) > 0

        if not attempt(service, handed_over):
            return len(replied) > 0
        try:
            await asyncio.wait_for(told.wait(), CONFIRM_SECONDS)
        except TimeoutError:
            raise Refusal(
                TIMED_OUT, f"the message was not safe within {CONFIRM_SECONDS:.0f} s"
            ) from None
        if run.refused or run.rejected is not None:
            raise Refusal(PRECONDITION_FAILED, "a queue has no room for the message")
        use.confirmed(1)
        return True


def values_of(given: GivenProperties) -> MessageProperties:
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


def facts_of(properties: MessageProperties, expiration: str | None) -> MessageFacts:
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
