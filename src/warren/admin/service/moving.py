"""Messages that go on from one queue to elsewhere: to another queue, or back to where they died.

Each is taken, published with a confirm, and only then settled, so that none is lost; where a node
ends in between, one may be there twice. Messages are looked at where they lie, and those that are
wanted are taken by their numbers, so that others stay as they are: neither held nor marked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Annotated, Any, Final, Literal, get_args

import msgspec
from msgspec import Meta

from warren.admin.service.caller import MANAGEMENT, Caller
from warren.admin.service.looking import SeenMessage, looked_at
from warren.admin.service.messages import PuttingIn, TakingOut, attempt
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.errors import PRECONDITION_FAILED, Refusal
from warren.message.properties import MessageProperties
from warren.metadata.version_checks import check_known
from warren.versions import PICKED_MESSAGES

LOOKED_AT_ONCE = 500
"""Messages that are looked at at a time."""
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
        passed_over: Those that did not fit, or that a consumer had taken before.
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
    place = WayThrough(service, caller, vhost, queue)
    if dry_run:
        async for tried in _tried(place, destination, choice, count):
            yield [tried]
        return
    check_known(service.machine, PICKED_MESSAGES)
    done = MoveProgress(targets={})
    putting = PuttingIn(service, caller, vhost)
    taking = TakingOut(service, caller, vhost, queue, False)
    try:
        async for message in place.messages(count):
            death = death_of(message.dead_letter, message.properties.headers)
            target = destination.of(death, message.exchange, message.routing_key)
            taken = None
            if target is not None and choice.fits(death):
                taken = await taking.next(message.number)
                if taken is None:
                    place.left()
            if taken is None or target is None:
                done.passed_over += 1
                yield [done]
                continue
            try:
                body = b"".join(taken.message.body())
                await _send(putting, caller.name, target, taken.message.properties(), body)
            except Refusal:
                # It goes back as it was, and no delivery has failed.
                attempt(service, lambda: taking.taker.give_back(False))
                raise
            attempt(service, taking.taker.settle_last)
            place.left()
            done.moved += 1
            _count(done.targets, *target)
            yield [done]
    finally:
        attempt(service, taking.taker.end)


class WayThrough:
    """A way through the messages of a queue, which lie there while some of them leave."""

    def __init__(self, service: AdminService, asker: Caller, vhost: str, queue: str) -> None:
        self._service = service
        self._asker = asker
        self._vhost = vhost
        self._queue = queue
        self._behind = 1
        """The position behind what was looked at, of messages that are still there."""
        self._last = -1
        """The number of the last of these; negative where none is."""
        self._before = -1
        """That of the one before it."""

    def left(self) -> None:
        """The message that was shown last has left the queue."""
        self._behind -= 1
        self._last = self._before

    async def messages(self, count: int) -> AsyncIterator[SeenMessage]:
        """So many messages that are ready, from the head on.

        Raises:
            Refusal: They cannot be looked at.
        """
        shown = 0
        while shown < count:
            some = await self._next(min(LOOKED_AT_ONCE, count - shown))
            if not some:
                return
            for message in some:
                self._before = self._last
                self._last = message.number
                self._behind += 1
                shown += 1
                yield message

    async def _next(self, count: int) -> list[SeenMessage]:
        """The messages behind those that were looked at; what left before them moves all."""
        # That which stands before them has to be the last that was looked at.
        begin = max(1, self._behind - 1)
        while True:
            found = await self._look(begin, count + 1)
            for at, message in enumerate(found):
                if message.number == self._last:
                    self._behind = begin + at + 1
                    return found[at + 1 :]
            if begin == 1:
                # A consumer took it, and with it all that stood before it.
                self._behind = 1
                return found[:count]
            begin = max(1, begin - count)

    async def _look(self, position: int, count: int) -> list[SeenMessage]:
        service, asker = self._service, self._asker
        found = await looked_at(service, asker, self._vhost, self._queue, position, count, 0)
        return found.messages


async def _tried(
    place: WayThrough, destination: Destination, choice: Choice, count: int
) -> AsyncIterator[MoveProgress]:
    """What would go where; messages stay as they are."""
    done = MoveProgress(targets={})
    async for message in place.messages(count):
        death = death_of(message.dead_letter, message.properties.headers)
        target = destination.of(death, message.exchange, message.routing_key)
        if target is None or not choice.fits(death):
            done.passed_over += 1
        else:
            done.moved += 1
            _count(done.targets, *target)
        yield done


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
