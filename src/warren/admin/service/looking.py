"""Looks at messages where they lie: nothing is taken, counted, marked or held from consumers.

    look             some messages from a place in the queue on, in the order in which they go
    look_at          one message by its number, wherever it is in the queue
    search_messages  those that fit, in parts: each part ends after some time or some messages

The node answers that has the queue, or leads it; others ask that one. A message's number names it
for as long as it is in its queue.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta

from warren.admin.service.caller import MANAGEMENT, Caller, check_entrance
from warren.admin.service.inquiries import leaders_of
from warren.admin.service.messages import GivenProperties, attempt, properties_of
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.topology import handle_of
from warren.errors import EXHAUSTED, NOT_FOUND, PRECONDITION_FAILED, TIMED_OUT, Refusal
from warren.message.envelope import Envelope
from warren.metadata.plain_tables import plain
from warren.metadata.tables import QueueRecord
from warren.queues.fifo.pieces import opened
from warren.queues.fifo.runs import Run, as_run
from warren.queues.fifo_queue import FifoQueue
from warren.vhost.peeking import LyingMessage, Peek, record_here

LOOK_MAX: Final = 1_000
"""Messages of one answer."""
BODY_BYTES_MAX: Final = 1_048_576
"""What is shown of one body."""
ANSWER_BYTES: Final = 8_388_608
"""An answer ends behind the message with which its bodies and headers pass this."""
READ_SECONDS: Final = 10.0
"""For a body to be read."""
ASK_SECONDS: Final = 15.0
SEARCHES_AT_ONCE: Final = 4
"""Parts of searches that one node works on."""
SEARCH_SECONDS_MAX: Final = 5.0
FOUND_MAX: Final = 200
MATCHED_AT_ONCE: Final = 262_144
"""Bytes of a body that are searched in one go."""
NONE_THERE: Final = "the message has left the queue"
ROUTE_NAMES: Final = ("exchange", "routing_key")

Answer = TypeVar("Answer")
Where = Literal["body", "header", "property"]


class SeenMessage(msgspec.Struct, kw_only=True):
    """A message as it lies in its queue.

    Attributes:
        number: What names it there.
        position: How many places from the head it is; 0 where it is not ready, or that was not
            looked for.
        exchange, routing_key: As it was published.
        redelivered: Whether it was handed out before.
        acquired_count: How often it was handed out and came back.
        delivery_count: How often deliveries of it failed.
        dead_letter: Whether it died, so that what its headers tell of deaths is the broker's word.
        properties: Its properties.
        body: The first bytes of its body.
        body_bytes: How many it has.
    """

    number: int
    position: int
    exchange: str
    routing_key: str
    redelivered: bool
    acquired_count: int
    delivery_count: int
    dead_letter: bool
    properties: GivenProperties
    body: bytes
    body_bytes: int


class LookedMessages(msgspec.Struct, kw_only=True):
    """Some messages of a queue.

    Attributes:
        ready: How many messages are ready.
        messages: Some of them, in the order in which they go.
    """

    ready: int
    messages: list[SeenMessage]


class FoundMessages(msgspec.Struct, kw_only=True):
    """What one part of a search came to.

    Attributes:
        messages: Those that fit.
        looked: How many were looked at.
        behind: The number of the last one of these, from which the next part goes on; None if
            there is no more to look at.
        ready: How many messages are ready.
    """

    messages: list[SeenMessage]
    looked: int
    behind: int | None
    ready: int


class SoughtMessages(msgspec.Struct, kw_only=True):
    """Which messages a search is for.

    Attributes:
        where: In the body; in one header; or in one property, `exchange` and `routing_key` among
            them.
        name: The header's or the property's.
        text: What a body has anywhere in it; or what the value is. An empty one fits any value
            that is there.
    """

    where: Where
    name: str = ""
    text: str = ""

    def check(self) -> None:
        """Refuse what fits nothing.

        Raises:
            Refusal: It says too little, or names no property.
        """
        if self.where == "body" and not self.text:
            raise Refusal(PRECONDITION_FAILED, "say which text a body has to have")
        if self.where == "header" and not self.name:
            raise Refusal(PRECONDITION_FAILED, "name the header")
        known = (*ROUTE_NAMES, *GivenProperties.__struct_fields__)
        if self.where == "property" and (self.name not in known or self.name == "headers"):
            raise Refusal(PRECONDITION_FAILED, f"there is no property '{self.name}'")

    async def fits(self, message: Envelope, slices: Slices) -> bool:
        """Whether a message is one of them."""
        if self.where == "body":
            return await _body_has(message, self.text.encode("utf-8", "surrogateescape"), slices)
        value = self._value(message)
        return value is not None and (not self.text or self.text == as_text(value))

    def _value(self, message: Envelope) -> Any:
        if self.where == "property":
            if self.name == "exchange":
                return message.exchange()
            if self.name == "routing_key":
                return message.routing_key()
            return getattr(properties_of(message), self.name)
        headers = message.properties().headers
        if headers is None or self.name not in headers:
            return None
        return plain({self.name: headers[self.name]})[self.name]


def as_text(value: Any) -> str:
    """A value as searches compare it: texts as they are, others as JSON has them."""
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, TypeError, msgspec.ValidationError):
        return str(value)


async def _body_has(message: Envelope, text: bytes, slices: Slices) -> bool:
    """Whether a body has some bytes; a long one is looked through in parts."""
    overlap = len(text) - 1
    tail = b""
    for piece in message.body():
        for at in range(0, len(piece), MATCHED_AT_ONCE):
            some = tail + bytes(piece[at : at + MATCHED_AT_ONCE])
            if text in some:
                return True
            tail = some[len(some) - overlap :] if overlap else b""
            if len(some) >= MATCHED_AT_ONCE:
                await slices.breathe()
    return False


# --- where a queue is ---------------------------------------------------------------------------


async def place_of(
    service: AdminService, asker: Caller, vhost: str, queue: str
) -> tuple[str, QueueRecord]:
    """The node that has a queue, for a user who may read it.

    Raises:
        Refusal: There is no such queue, none for this user, or no node has it now.
    """
    tables = check_entrance(service.machine, asker, vhost)
    record = tables.queues.get(queue)
    if record is None:
        raise Refusal(NOT_FOUND, "queue_not_found")
    handle = handle_of(service, asker, vhost)
    attempt(service, lambda: handle.queue_for(queue, "read"))
    if not record.type.replicated:
        return record.node or service.own_name, record
    leader = (await leaders_of(service, [record])).get(int(record.group_id), "")
    if not leader:
        raise Refusal(PRECONDITION_FAILED, f"queue '{queue}' has no leader now: ask again")
    return leader, record


def queue_here(service: AdminService, record: QueueRecord) -> FifoQueue:
    """The queue that this node has, or leads.

    Raises:
        Refusal: It is not here, or not yet.
    """
    here = service.node.queues.vhosts.get(record.vhost)
    found = None if here is None else here.queues.get(record.name)
    fifo = None if found is None else found.as_fifo()
    if fifo is None or fifo.deleted:
        raise Refusal(PRECONDITION_FAILED, f"queue '{record.name}' is not here now: ask again")
    return fifo


async def asked_there(
    service: AdminService, node: str, name: str, words: dict[str, Any], kind: type[Answer]
) -> Answer:
    """What the node that has the queue answers.

    Raises:
        Refusal: It refuses, or cannot be asked.
    """
    # What is asked of it stands for an operator of the machine: the user's right was seen to here.
    answer = await service.host.ask(node, name, words, ASK_SECONDS)
    return msgspec.convert(answer, kind)


async def ready_runs(queue: FifoQueue, slices: Slices) -> AsyncIterator[tuple[int, Run]]:
    """The messages that are ready, as of now, with the position of the first of each run."""
    position = 1
    for pieces in queue.ready_in_order():
        for piece in opened(pieces):
            run = as_run(piece)
            count = int(run.count)
            yield position, run
            position += count
            await slices.breathe()


async def read_message(service: AdminService, queue: FifoQueue, number: int) -> LyingMessage | None:
    """A message, read from disk if it has to be; None if it has left.

    Raises:
        Refusal: It cannot be read now.
    """
    told = asyncio.Event()
    look = Peek(queue, number, told.set)
    attempt(service, look.resume)
    try:
        await asyncio.wait_for(told.wait(), READ_SECONDS)
    except TimeoutError:
        raise Refusal(TIMED_OUT, "the message cannot be read now: ask again") from None
    finally:
        look.end()
    return look.found


class ReadyReader:
    """Reads messages that were ready when it began, and asks the disk for none that has left.

    Attributes:
        overtaken: Whether a message had left: what was read of the order before is out of date.
    """

    def __init__(self, service: AdminService, queue: FifoQueue, slices: Slices) -> None:
        self.overtaken = False
        self._service = service
        self._queue = queue
        self._slices = slices
        self._mark = self._state()

    def _state(self) -> tuple[int, int]:
        """What changes when messages leave or are handed out."""
        return int(self._queue.not_ready_count()), int(self._queue.delivered)

    async def read(self, number: int) -> LyingMessage | None:
        """A message; None if it has left or is lost.

        Raises:
            Refusal: It cannot be read now.
        """
        queue = self._queue
        message = record_here(queue, number)
        if message is not None:
            return message
        queue.looked_through()
        if queue.gone_up_to(number) >= 0:
            return None
        if self._state() != self._mark and not await is_ready(queue, number, self._slices):
            self.overtaken = True
            return None
        return await read_message(self._service, queue, number)


async def is_ready(queue: FifoQueue, number: int, slices: Slices) -> bool:
    """Whether a message is ready now."""
    if not queue.has(number):
        return False
    async for _, run in ready_runs(queue, slices):
        if run.first <= number < run.first + run.count:
            return True
    return False


def seen(
    queue: FifoQueue, lying: LyingMessage, position: int, run: Run, number: int, body_bytes: int
) -> SeenMessage:
    """A message as answers show it; what it was counted as is the run's."""
    message, left = lying.message, body_bytes
    parts: list[bytes] = []
    size = 0
    for piece in message.body():
        size += len(piece)
        if left > 0:
            parts.append(bytes(piece[:left]))
            left -= len(parts[-1])
    acquired = int(run.acquired)
    return SeenMessage(
        number=number,
        position=position,
        exchange=message.exchange(),
        routing_key=message.routing_key(),
        redelivered=acquired > 0 or queue.is_doubted(number),
        acquired_count=acquired,
        delivery_count=int(run.failed + lying.failures),
        dead_letter=message.is_dead_letter(),
        properties=properties_of(message),
        body=b"".join(parts),
        body_bytes=size,
    )


# --- operations ---------------------------------------------------------------------------------


@operation(MANAGEMENT)
async def look(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    position: Annotated[int, Meta(ge=1, le=1 << 62)] = 1,
    count: Annotated[int, Meta(ge=0, le=LOOK_MAX)] = 10,
    body_bytes: Annotated[int, Meta(ge=0, le=BODY_BYTES_MAX)] = 4_096,
) -> LookedMessages:
    """Show messages that are ready, from a place on; 1 is that of the next one to go.

    Of queues with two levels of priority the higher one is counted first, although the lower one
    has its share when messages go out. There are fewer where consumers take them meanwhile.

    Raises:
        Refusal: There is no such queue, none for this user, or it cannot be read now.
    """
    return await looked_at(service, caller, vhost, queue, position, count, body_bytes)


async def looked_at(
    service: AdminService,
    asker: Caller,
    vhost: str,
    queue: str,
    position: int,
    count: int,
    body_bytes: int,
) -> LookedMessages:
    """Messages that are ready, as `look` shows them to a caller who was authorised.

    Raises:
        Refusal: As `look` has it.
    """
    node, record = await place_of(service, asker, vhost, queue)
    if node != service.own_name:
        words = {"vhost": vhost, "queue": queue, "position": position}
        words |= {"count": count, "body_bytes": body_bytes}
        return await asked_there(service, node, "look", words, LookedMessages)
    found = queue_here(service, record)
    messages: list[SeenMessage] = []
    size = 0
    slices = Slices()
    reader = ReadyReader(service, found, slices)
    async for first, run in ready_runs(found, slices):
        offset = max(position - first, 0)
        while offset < run.count and len(messages) < count and size <= ANSWER_BYTES:
            number = int(run.first) + offset
            message = await reader.read(number)
            if reader.overtaken:
                break
            if message is not None:
                each = seen(found, message, first + offset, run, number, body_bytes)
                size += int(message.message.size()) - each.body_bytes + len(each.body)
                messages.append(each)
            offset += 1
            await slices.breathe()
        if reader.overtaken or len(messages) >= count or size > ANSWER_BYTES:
            break
    found.looked_through()
    return LookedMessages(ready=int(found.ready_count()), messages=messages)


@operation(MANAGEMENT)
async def search_messages(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    wanted: SoughtMessages,
    behind: int | None = None,
    most: Annotated[int, Meta(ge=1, le=FOUND_MAX)] = 50,
    look_at_most: Annotated[int, Meta(ge=1)] = 1_000_000,
    seconds: Annotated[float, Meta(gt=0, le=SEARCH_SECONDS_MAX)] = 2.0,
    body_bytes: Annotated[int, Meta(ge=0, le=BODY_BYTES_MAX)] = 256,
) -> FoundMessages:
    """Look through messages that are ready for those that fit, for some time.

    What comes in between two parts is looked at if it stands behind; where the message has left
    with which the part before ended, the next one begins at the head, since what stood before it
    has left as well.

    Args:
        behind: The number with which the part before ended; None for the head.
        most: How many are shown; the part ends with that.
        look_at_most: How many are looked at.

    Raises:
        Refusal: There is no such queue, none for this user, it cannot be read now, too many
            searches run, or what is wanted makes no sense.
    """
    return await searched(
        service, caller, vhost, queue, wanted, behind, most, look_at_most, seconds, body_bytes
    )


async def searched(
    service: AdminService,
    asker: Caller,
    vhost: str,
    queue: str,
    wanted: SoughtMessages,
    behind: int | None,
    most: int,
    look_at_most: int,
    seconds: float,
    body_bytes: int,
) -> FoundMessages:
    """One part of a search, as `search_messages` has it for a caller who was authorised.

    Raises:
        Refusal: As `search_messages` has it.
    """
    wanted.check()
    node, record = await place_of(service, asker, vhost, queue)
    if node != service.own_name:
        words = {"vhost": vhost, "queue": queue, "wanted": msgspec.to_builtins(wanted)}
        words |= {"behind": behind, "most": most, "look_at_most": look_at_most}
        words |= {"seconds": seconds, "body_bytes": body_bytes}
        return await asked_there(service, node, "search_messages", words, FoundMessages)
    found = queue_here(service, record)
    if service.searching >= SEARCHES_AT_ONCE:
        raise Refusal(EXHAUSTED, f"{SEARCHES_AT_ONCE} searches run on this node: ask again")
    service.searching += 1
    try:
        search = Search(service, found, wanted, most, look_at_most, seconds, body_bytes)
        return await search.part(behind)
    finally:
        service.searching -= 1


class Search:
    """One part of a search through what a queue of this node has ready."""

    def __init__(
        self,
        service: AdminService,
        queue: FifoQueue,
        wanted: SoughtMessages,
        most: int,
        look_at_most: int,
        seconds: float,
        body_bytes: int,
    ) -> None:
        """Prepare; arguments as `search_messages` has them."""
        self._queue = queue
        self._wanted = wanted
        self._most = most
        self._left = look_at_most
        self._looked = 0
        self._until = time.perf_counter() + seconds
        self._body_bytes = body_bytes
        self._slices = Slices()
        self._reader = ReadyReader(service, queue, self._slices)
        self._found: list[SeenMessage] = []
        self._last = -1

    async def part(self, behind: int | None) -> FoundMessages:
        """Look at what stands behind a message, or at all if it is not ready any more.

        Raises:
            Refusal: A message cannot be read now.
        """
        there = behind is not None and await is_ready(self._queue, behind, self._slices)
        ended = await self._go(behind if there else None)
        self._queue.looked_through()
        return FoundMessages(
            messages=self._found,
            looked=self._looked,
            behind=None if ended else self._last,
            ready=int(self._queue.ready_count()),
        )

    async def _go(self, behind: int | None) -> bool:
        """Look at messages; whether all were looked at."""
        async for position, run in ready_runs(self._queue, self._slices):
            offset = 0
            if behind is not None:
                if not run.first <= behind < run.first + run.count:
                    continue
                offset = behind - int(run.first) + 1
                behind = None
            while offset < run.count:
                if self._is_over():
                    return False
                await self._look(position + offset, run, int(run.first) + offset)
                offset += 1
        return True

    def _is_over(self) -> bool:
        if self._looked == 0:
            # Each part comes forward.
            return False
        if self._reader.overtaken:
            # The next part begins with what is ready then.
            return True
        if self._left <= 0 or len(self._found) >= self._most:
            return True
        return self._looked % 16 == 0 and time.perf_counter() > self._until

    async def _look(self, position: int, run: Run, number: int) -> None:
        message = await self._reader.read(number)
        self._looked += 1
        self._left -= 1
        self._last = number
        if message is not None and await self._wanted.fits(message.message, self._slices):
            shown = seen(self._queue, message, position, run, number, self._body_bytes)
            self._found.append(shown)
        await self._slices.breathe()
