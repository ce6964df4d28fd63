"""The story of one message: where it is, how it came there, and where it would go now."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from warren.admin.service.caller import MANAGEMENT, Caller, check_entrance
from warren.admin.service.looking import (
    BODY_BYTES_MAX,
    NONE_THERE,
    SeenMessage,
    SoughtMessages,
    asked_there,
    place_of,
    queue_here,
    read_message,
    ready_runs,
    searched,
    seen,
)
from warren.admin.service.messages import GivenProperties, attempt, facts_of, values_of
from warren.admin.service.moving import DEATHS
from warren.admin.service.operation import operation
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.topology import handle_of
from warren.errors import NOT_FOUND, Refusal
from warren.queues.fifo.pieces import Piece, opened
from warren.queues.fifo.runs import Run, as_run
from warren.queues.fifo_queue import FifoQueue
from warren.vhost.routes import Route

QUEUES_MAX: Final = 100
"""Queues that are searched for a message id."""
ELSEWHERE_SECONDS: Final = 5.0
"""For all of them."""
QUEUE_SECONDS: Final = 1.0
LOOKED_AT_MAX: Final = 20_000
"""Messages of one queue that are looked at."""
COPIES_MAX: Final = 10
"""Of one queue that are shown."""
ROUTED_MAX: Final = 200
"""Queues that a route names."""

State = Literal["ready", "held", "waiting"]


class MessageStanding(msgspec.Struct, kw_only=True):
    """A message, and how it stands in its queue.

    Attributes:
        state: `ready`; `held` by a consumer that has not settled it; or `waiting`: for its time to
            come (again), or dead and on its way elsewhere.
        message: It.
    """

    state: State
    message: SeenMessage


class DeathRecord(msgspec.Struct, kw_only=True):
    """One line of what a message's headers say of its deaths.

    Attributes:
        queue, reason: Where and why.
        exchange, routing_keys: As it had been published.
        count: How often.
        time: When it did so first, in seconds since 1970; None if that is not known.
    """

    queue: str
    reason: str
    exchange: str
    routing_keys: list[str]
    count: int
    time: int | None


class MessageCopies(msgspec.Struct, kw_only=True):
    """Messages of one queue that have a message id.

    Attributes:
        queue: It.
        messages: Some of them.
        looked: How many messages were looked at.
        whole: Whether these are all that are ready there.
        problem: Why it could not be searched; else empty.
    """

    queue: str
    messages: list[SeenMessage]
    looked: int
    whole: bool
    problem: str = ""


def deaths_of(is_dead_letter: bool, headers: dict[str, Any] | None) -> list[DeathRecord]:
    """What headers say of deaths, the last one first; values that are of no use say nothing.

    Args:
        is_dead_letter: As `death_of` has it.
    """
    found = (headers or {}).get(DEATHS) if is_dead_letter else None
    rows = found if isinstance(found, list) else []
    records: list[DeathRecord] = []
    for row in rows:
        if not isinstance(row, dict):
            continue
        keys = row.get("routing-keys")
        count, when = row.get("count"), row.get("time")
        records.append(
            DeathRecord(
                queue=_text(row.get("queue")),
                reason=_text(row.get("reason")),
                exchange=_text(row.get("exchange")),
                routing_keys=[_text(key) for key in keys] if isinstance(keys, list) else [],
                count=count if isinstance(count, int) else 1,
                time=when if isinstance(when, int) else None,
            )
        )
    return records


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


@operation(MANAGEMENT)
async def look_at(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    number: Annotated[int, Meta(ge=0, le=1 << 62)],
    body_bytes: Annotated[int, Meta(ge=0, le=BODY_BYTES_MAX)] = 65_536,
) -> MessageStanding:
    """Show one message wherever it is in its queue, and leave it as it is.

    Raises:
        Refusal: There is no such queue, none for this user, or the message has left it.
    """
    node, record = await place_of(service, caller, vhost, queue)
    if node != service.own_name:
        words = {"vhost": vhost, "queue": queue, "number": number, "body_bytes": body_bytes}
        return await asked_there(service, node, "look_at", words, MessageStanding)
    found = queue_here(service, record)
    state, position, run = await _standing(found, number)
    message = await read_message(service, found, number)
    if message is None:
        raise Refusal(NOT_FOUND, NONE_THERE)
    shown = seen(found, message, position, run, number, body_bytes)
    found.looked_through()
    return MessageStanding(state=state, message=shown)


async def _standing(queue: FifoQueue, number: int) -> tuple[State, int, Run]:
    """How a message stands, its position if it is ready, and a run that counts it.

    Raises:
        Refusal: It has left the queue.
    """
    slices = Slices()
    async for position, run in ready_runs(queue, slices):
        if run.first <= number < run.first + run.count:
            return "ready", position + number - int(run.first), run
    for consumer in queue.fifo_consumers():
        if consumer.held > 0:
            held = await _among(consumer.freeze(), number, slices)
            if held is not None:
                return "held", 0, held
    if queue.has(number):
        live = queue.gather_unconsumed()
        while not live.go_on():
            await slices.breathe()
        at = live.runs.find(number)
        if at < live.runs.size and live.runs.first(at) <= number:
            return "waiting", 0, Run(number, number, 1)
    raise Refusal(NOT_FOUND, NONE_THERE)


async def _among(lists: list[list[Piece]], number: int, slices: Slices) -> Run | None:
    for pieces in lists:
        for piece in opened(pieces):
            run = as_run(piece)
            if run.first <= number < run.first + run.count:
                return run
            await slices.breathe()
    return None


@operation(MANAGEMENT)
async def route_now(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    exchange: str,
    routing_key: str,
    properties: GivenProperties,
) -> list[str]:
    """Name the queues that a message would come to if it were published again as it was.

    Raises:
        Refusal: The exchange is gone, or the user may not publish there.
    """
    check_entrance(service.machine, caller, vhost)
    handle = handle_of(service, caller, vhost)
    values = values_of(properties)
    facts = facts_of(values, None)

    def routed() -> Route:
        route = handle.resolve(exchange, routing_key, True)
        if facts.copies or route.by_message:
            given = values if route.by_properties else None
            route = handle.route_message(route, facts, values.headers or {}, given)
        return route

    route = attempt(service, routed)
    return [queue.name for queue in route.queues[:ROUTED_MAX]]


@operation(MANAGEMENT)
async def copies_of(
    service: AdminService, caller: Caller, *, vhost: str, message_id: str, but: str = ""
) -> list[MessageCopies]:
    """Search the queues of a vhost for messages with a message id, for some seconds at most.

    Args:
        but: A queue that is left out.

    Raises:
        Refusal: The vhost is none of this user's.
    """
    tables = check_entrance(service.machine, caller, vhost)
    names: list[str] = []
    for record in tables.queues_in_order():
        if record.name != but:
            names.append(record.name)
        if len(names) == QUEUES_MAX:
            break
    until = time.perf_counter() + ELSEWHERE_SECONDS
    rows: list[MessageCopies] = []
    wanted = SoughtMessages(where="property", name="message_id", text=message_id)
    for name in names:
        left = until - time.perf_counter()
        if left <= 0:
            break
        try:
            found = await searched(
                service, caller, vhost, name, wanted, None, COPIES_MAX, LOOKED_AT_MAX,
                min(left, QUEUE_SECONDS), 0,
            )  # fmt: skip
        except Refusal as refusal:
            rows.append(
                MessageCopies(queue=name, messages=[], looked=0, whole=False, problem=refusal.text)
            )
            continue
        whole = found.behind is None
        rows.append(
            MessageCopies(queue=name, messages=found.messages, looked=found.looked, whole=whole)
        )
    return rows
