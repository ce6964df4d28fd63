"""Messages that go on from one queue to elsewhere: to another queue, or back to where they died.

Each is taken, published with a confirm, and only then settled, so that none is lost; where a node
ends in between, one may be there twice. What is not wanted stays held until the end and goes back.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from warren.admin.service.caller import MANAGEMENT, Caller
from warren.admin.service.looking import looked_at
from warren.admin.service.messages import PuttingIn, TakingOut, attempt
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.errors import EXHAUSTED, PRECONDITION_FAILED, Refusal
from warren.message.properties import MessageProperties
from warren.metadata.plain_tables import plain

HELD_MAX = 10_000
"""Messages that are passed over, all of which are held until the end."""
LOOKED_AT_ONCE = 500
"""Messages that a dry run asks for at a time."""
TARGETS_MAX = 1_000
"""Exchanges that are counted apart, and routing keys of each."""
DEATHS = "x-death"
Way = Literal["queue", "exchange", "died_in", "published_to"]
WAYS: Final[Mapping[str, Way]] = {way: way for way in get_args(Way)}
"""The ways, as text has them."""


class Death(msgspec.Struct, frozen=True):
    """Why and where a message died last.

    Attributes:
        reason: `rejected`, `expired`, `maxlen` or `delivery_limit`; empty if it did not die.
        queue: The queue that it died in.
        exchange, routing_key: As it had been published.
        count: How often it died so.
    """

    reason: str = ""
    queue: str = ""
    exchange: str = ""
    routing_key: str = ""
    count: int = 0


def death_of(is_dead_letter: bool, headers: dict[str, Any] | None) -> Death:
    """What a message's headers say of its last death; values that are of no use say nothing.

    Args:
        is_dead_letter: Whether the broker says that it died. Else a client wrote these headers, and
            they could name any queue or exchange.
    """
    deaths = (headers or {}).get(DEATHS) if is_dead_letter else None
    last = deaths[0] if isinstance(deaths, list) and deaths else None
    if not isinstance(last, dict):
        return Death()
    keys = last.get("routing-keys")
    count = last.get("count")
    return Death(
        reason=_text(last.get("reason")),
        queue=_text(last.get("queue")),
        exchange=_text(last.get("exchange")),
        routing_key=_text(keys[0]) if isinstance(keys, list) and keys else "",
        count=count if isinstance(count, int) else 0,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class Choice(msgspec.Struct, kw_only=True):
    """Which messages are to go on; None is any.

    Attributes:
        reason, queue, exchange: Of their last death.
    """

    reason: str | None = None
    queue: str | None = None
    exchange: str | None = None

    def fits(self, death: Death) -> bool:
        """Whether a message with this death is to go on."""
        return (
            self.reason in (None, death.reason)
            and self.queue in (None, death.queue)
            and self.exchange in (None, death.exchange)
        )


class Destination(msgspec.Struct, kw_only=True):
    """Where messages are to go.

    Attributes:
        way: To a queue, or through an exchange; or of each message to the queue that it died in,
            or to the exchange, with the routing key, that it had been published to before.
        name: The queue or exchange.
        routing_key: For an exchange; None for that of each message.
    """

    way: Way
    name: str = ""
    routing_key: str | None = None

    def of(self, death: Death, exchange: str, key: str) -> tuple[str, str] | None:
        """Exchange and routing key for one message; None if it does not say where it came from."""
        if self.way == "queue":
            return "", self.name
        if self.way == "exchange":
            return self.name, key if self.routing_key is None else self.routing_key
        if not death.queue:
            return None
        if self.way == "died_in":
            return "", death.queue
        return death.exchange, death.routing_key


class MoveProgress(msgspec.Struct, kw_only=True):
    """How far it is.

    Attributes:
        moved: Messages that went on; in a dry run, those that would.
        passed_over: Those that did not fit.
        targets: The moved ones by exchange, and by routing key.
    """

    moved: int = 0
    passed_over: int = 0
    targets: dict[str, dict[str, int]] = {}


@operation(MANAGEMENT)
async def move_messages(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    destination: Destination,
    choice: Choice,
    count: Annotated[int, Meta(ge=1, le=10_000_000)],
    dry_run: bool = False,
) -> AsyncGenerator[list[MoveProgress], None]:
    """Have messages of a queue go on elsewhere, from the oldest on; says after each how far it is.

    It is as fast as its answer is read, and who reads no more stops it.

    Args:
        count: Messages that are looked at.
        dry_run: Whether they are only looked at.

    Raises:
        Refusal: A message cannot go on; it and those behind it stay where they are.
    """
    done = MoveProgress(targets={})
    if dry_run:
        async for tried in _tried(service, caller, vhost, queue, destination, choice, count):
            yield [tried]
        return
    putting = PuttingIn(service, caller, vhost)
    taking = TakingOut(service, caller, vhost, queue, False)
    try:
        while done.moved + done.passed_over < count:
            if taking.taker.held >= HELD_MAX:
                raise Refusal(EXHAUSTED, f"{HELD_MAX} messages are held that stay in the queue")
            taken = await taking.next()
            if taken is None:
                break
            message = taken.message
            properties = message.properties()
            headers = None if properties.headers is None else plain(properties.headers)
            death = death_of(message.is_dead_letter(), headers)
            target = destination.of(death, message.exchange(), message.routing_key())
            if target is None or not choice.fits(death):
                done.passed_over += 1
                yield [done]
                continue
            body = b"".join(message.body())
            await _send(putting, caller.name, target, properties, body)
            attempt(service, taking.taker.settle_last)
            done.moved += 1
            _count(done.targets, *target)
            yield [done]
        attempt(service, lambda: taking.taker.give_back(False))
    finally:
        attempt(service, taking.taker.end)


async def _tried(
    service: AdminService,
    asker: Caller,
    vhost: str,
    queue: str,
    destination: Destination,
    choice: Choice,
    count: int,
) -> AsyncIterator[MoveProgress]:
    """What would go where; messages are looked at where they lie, and stay as they are."""
    done = MoveProgress(targets={})
    position = 1
    while position <= count:
        some = min(LOOKED_AT_ONCE, count - position + 1)
        found = await looked_at(service, asker, vhost, queue, position, some, 0)
        if not found.messages:
            break
        for message in found.messages:
            death = death_of(message.dead_letter, message.properties.headers)
            target = destination.of(death, message.exchange, message.routing_key)
            if target is None or not choice.fits(death):
                done.passed_over += 1
            else:
                done.moved += 1
                _count(done.targets, *target)
            yield done
        position = found.messages[-1].position + 1


def _count(targets: dict[str, dict[str, int]], exchange: str, key: str) -> None:
    """Note where a message went, unless that is one place too many."""
    keys = targets.setdefault(exchange, {}) if len(targets) < TARGETS_MAX else targets.get(exchange)
    if keys is not None and (key in keys or len(keys) < TARGETS_MAX):
        keys[key] = keys.get(key, 0) + 1


async def _send(
    putting: PuttingIn,
    user: str,
    target: tuple[str, str],
    properties: MessageProperties,
    body: bytes,
) -> None:
    """Publish a message once more.

    Raises:
        Refusal: It is not safe there.
    """
    expiration = properties.expiration_ms
    if properties.user_id not in (None, user):
        # It says who publishes, which is now another one.
        properties.user_id = None
    life = None if expiration is None else str(expiration)
    routed = await putting.publish(*target, body, properties, life)
    if not routed:
        exchange, key = target
        raise Refusal(
            PRECONDITION_FAILED,
            f"no queue takes a message of exchange '{exchange}' with routing key '{key}'; "
            "it stays where it is",
        )
