"""What there is, in full, as users see it over HTTP: queues, exchanges, bindings, vhosts, users.

Lists are of the vhosts that the caller may enter. Of many queues first the records are found that
are wanted, then only those are looked at in full.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Sequence
from hashlib import blake2b
from typing import Any
from urllib.parse import quote_plus

import msgspec

from warren.admin.service.caller import (
    MANAGEMENT,
    Caller,
    check_entrance,
    vhosts_of,
    vhosts_seen,
)
from warren.admin.service.history import SampleRange, Values
from warren.admin.service.name_filters import name_filter
from warren.admin.service.operation import operation
from warren.admin.service.queues import PART_ROWS, counted, queue_rows
from warren.admin.service.rows import QueueRow, VhostLimitsRow
from warren.admin.service.service import AdminService
from warren.admin.service.shared_figures import (
    EXCHANGES,
    QUEUES,
    VHOSTS,
    SharedFigures,
    shared,
)
from warren.admin.service.slices import Slices
from warren.admin.service.statistics import (
    EXCHANGE_COUNTERS,
    EXCHANGE_NOTHING,
)
from warren.admin.service.waiting import until
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.plain_tables import plain
from warren.metadata.policies import (
    EffectiveSettings,
    exchange_policy_of,
)
from warren.metadata.tables import ExchangeRecord, QueueRecord, UserRecord, VhostRecord
from warren.queue_types import CONSUMER_TIMEOUT, DELIVERY_LIMIT
from warren.routing.bindings import Binding

LED_SECONDS = 5.0
"""For a new queue to have a leader."""
KEPT_MAX = 500
"""Of so many queues samples are kept because they are asked for; of longer lists those are told
that there are."""


class QueueDetails(msgspec.Struct, kw_only=True):
    """One queue.

    Attributes:
        row: What lists of queues have of it.
        replicated: Whether it has members.
        delivery_limit: Failed deliveries that its messages survive; None where none counts, and
            negative for any number.
        counters: As `statistics.COUNTERS` has them.
        rates, length_rates: As `Figures` has them.
        samples: Counters and lengths, for each span that was asked for.
    """

    row: QueueRow
    replicated: bool
    delivery_limit: int | None
    counters: tuple[int, ...]
    rates: tuple[float, ...]
    length_rates: tuple[float, ...]
    samples: list[list[Values]] = []


class ExchangeDetails(msgspec.Struct, kw_only=True):
    """One exchange, as declared, with the name of its policy.

    Attributes:
        counters, rates: What went through it on all nodes, in `EXCHANGE_COUNTERS`.
        samples: The same over time, for each span that was asked for.
    """

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: dict[str, Any]
    policy: str
    counters: tuple[int, ...] = EXCHANGE_NOTHING
    rates: tuple[float, ...] = (0.0,) * len(EXCHANGE_COUNTERS)
    samples: list[list[Values]] = []


class BindingDetails(msgspec.Struct, kw_only=True):
    """One binding.

    Attributes:
        key: What tells it from others between the same two, in RabbitMQ's form.
    """

    source: str
    vhost: str
    destination: str
    destination_type: str
    routing_key: str
    arguments: dict[str, Any]
    key: str


class BindingPage(msgspec.Struct, kw_only=True):
    """A part of a list of bindings.

    Attributes:
        items: The bindings of the part.
        total: How many there are.
    """

    items: list[BindingDetails]
    total: int


class VhostDetails(msgspec.Struct, kw_only=True):
    """One vhost, with its figures on all nodes."""

    name: str
    description: str
    tags: list[str]
    default_queue_type: str
    protected_from_deletion: bool
    tracing: bool
    nodes: list[str]
    counters: tuple[int, ...]
    lengths: tuple[int, ...]
    rates: tuple[float, ...]
    length_rates: tuple[float, ...]
    samples: list[list[Values]] = []


class UserDetails(msgspec.Struct, kw_only=True):
    """One user; the hash is as export and import have it."""

    name: str
    password_hash: bytes
    hashing_algorithm: str
    tags: list[str]
    limits: dict[str, int]


# --- queues -------------------------------------------------------------------------------------


class QueuePage(msgspec.Struct, kw_only=True):
    """A part of a list of queues.

    Attributes:
        items: The queues of the part, in full.
        filtered: How many fit what was asked for.
        total: How many there are.
    """

    items: list[QueueDetails]
    filtered: int
    total: int


@operation(MANAGEMENT)
async def list_queue_details(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str | None = None,
    name: str = "",
    use_regex: bool = False,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> AsyncGenerator[list[QueueDetails], None]:
    """Show the queues of a vhost, or of all that the caller may enter, in parts and by name.

    Args:
        name: Only those whose names have this in them.
        use_regex: Whether that is a regular expression.
        spans: Moments at which samples are wanted.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    vhosts = vhosts_of(service.machine, caller, vhost)
    found, _ = await chosen_queues(service, vhosts, name, use_regex)
    waiting: list[QueueRecord] = []
    for records in found:
        for at in range(0, len(records), PART_ROWS):
            waiting += records[at : at + PART_ROWS]
            if len(waiting) >= PART_ROWS:
                part, waiting = waiting[:PART_ROWS], waiting[PART_ROWS:]
                yield await looked_at(service, part, spans)
    yield await looked_at(service, waiting, spans)


@operation(MANAGEMENT)
async def queue_page(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str | None = None,
    name: str = "",
    use_regex: bool = False,
    begin: int = 0,
    count: int = 100,
    reverse: bool = False,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> QueuePage:
    """Show some queues of that list, from one of them on.

    Args:
        reverse: Whether the last come first.
        spans: Moments at which samples are wanted.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    vhosts = vhosts_of(service.machine, caller, vhost)
    found, total = await chosen_queues(service, vhosts, name, use_regex)
    filtered = sum(len(records) for records in found)
    if reverse:
        # The last ones from the end on.
        first, last = max(filtered - begin - count, 0), max(filtered - begin, 0)
    else:
        first, last = begin, begin + count
    some: list[QueueRecord] = []
    for records in found:
        some += records[max(first, 0) : max(last, 0)]
        first, last = first - len(records), last - len(records)
    if reverse:
        some.reverse()
    items = await looked_at(service, some, spans)
    return QueuePage(items=items, filtered=filtered, total=total)


@operation(MANAGEMENT)
async def some_queues(
    service: AdminService,
    caller: Caller,
    *,
    names: list[tuple[str, str]],
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> list[QueueDetails]:
    """Show the queues of these vhosts and names, without those that are gone by now.

    Args:
        spans: Moments at which samples are wanted.

    Raises:
        Refusal: A vhost is none of this user's.
    """
    found = [
        check_entrance(service.machine, caller, vhost).queues.get(name) for vhost, name in names
    ]
    there = [record for record in found if record is not None]
    return await looked_at(service, there, spans)


async def chosen_queues(
    service: AdminService, vhosts: list[VhostRecord], name: str, use_regex: bool
) -> tuple[list[list[QueueRecord]], int]:
    """The queues of each vhost that fit, by name, and how many there are in all."""
    wanted = name_filter(name, use_regex)
    found: list[list[QueueRecord]] = []
    total = 0
    for tables in vhosts:
        order = await service.queue_order.with_names(service.machine, tables)
        total += len(order.records)
        found.append(
            order.records if wanted is None else await order.those((name, use_regex), wanted)
        )
    return found, total


async def looked_at(
    service: AdminService, records: list[QueueRecord], spans: list[SampleRange]
) -> list[QueueDetails]:
    """Queues in full, without those that are gone by now; other nodes are asked for their part."""
    keep = len(records) <= KEPT_MAX
    rows = await counted(service, await queue_rows(service, records, False), True)
    things = [(row.vhost, row.name) for row in rows]
    every = await shared(service, QUEUES, things, spans, keep)
    slices = Slices()
    found: list[QueueDetails] = []
    for row, figures in zip(rows, every, strict=True):
        await slices.breathe()
        tables = service.machine.vhosts.get(row.vhost)
        record = None if tables is None else tables.queues.get(row.name)
        if tables is not None and record is not None:
            found.append(_queue(service, tables, record, row, figures))
    return found


@operation(MANAGEMENT)
async def queue_details(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    queue: str,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> QueueDetails:
    """Show one queue in full.

    Args:
        spans: Moments at which samples are wanted.

    Raises:
        Refusal: There is none, or its vhost is none of this user's.
    """
    record = check_entrance(service.machine, caller, vhost).queues.get(queue)
    found = (
        [] if record is None or record.type.delays else await looked_at(service, [record], spans)
    )
    if not found:
        raise Refusal(NOT_FOUND, f"no queue '{queue}' in vhost '{vhost}'")
    return found[0]


@operation(MANAGEMENT)
async def led_queue(service: AdminService, caller: Caller, *, vhost: str, queue: str) -> bool:
    """Wait until a queue that was declared has a leader, but not for ever; whether it has.

    Raises:
        Refusal: Its vhost is none of this user's.
    """
    record = check_entrance(service.machine, caller, vhost).queues.get(queue)
    if record is None or not record.type.replicated:
        return record is not None
    return await until(lambda: service.members.leader(record) != "", LED_SECONDS)


def _queue(
    service: AdminService,
    tables: VhostRecord,
    record: QueueRecord,
    row: QueueRow,
    figures: SharedFigures,
) -> QueueDetails:
    limit = None
    if record.type.replicated:
        said = EffectiveSettings(tables, record.name, record.kind, record.arguments)
        limit = int(said.number(DELIVERY_LIMIT, service.node.settings.delivery_limit))
    return QueueDetails(
        row=row,
        replicated=record.type.replicated,
        delivery_limit=limit,
        counters=figures.counters,
        rates=figures.rates,
        length_rates=figures.length_rates,
        samples=figures.samples,
    )


def consumer_timeout_ms(service: AdminService, vhost: str, queue: str) -> int:
    """How long consumers of a queue may hold a message where they say nothing themselves."""
    default = service.node.settings.consumer_timeout_ms
    tables = service.machine.vhosts.get(vhost)
    record = None if tables is None else tables.queues.get(queue)
    if tables is None or record is None:
        return default
    said = EffectiveSettings(tables, record.name, record.kind, record.arguments)
    return int(said.number(CONSUMER_TIMEOUT, default))


# --- exchanges and bindings ---------------------------------------------------------------------


@operation(MANAGEMENT)
async def exchange_details(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str | None = None,
    name: str | None = None,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> list[ExchangeDetails]:
    """Show the exchanges of a vhost, or of all that the caller may enter; or one of a vhost.

    Args:
        spans: Moments at which samples are wanted.

    Raises:
        Refusal: There is no such vhost or exchange, or none for this user.
    """
    tables = vhosts_of(service.machine, caller, vhost)
    if name is not None:
        record = tables[0].exchanges.get(name)
        if record is None:
            raise Refusal(NOT_FOUND, f"no exchange '{name}' in vhost '{vhost}'")
        things = [(tables[0].name, name)]
    else:
        things = [(each.name, exchange) for each in tables for exchange in sorted(each.exchanges)]
    rows: list[ExchangeDetails] = []
    slices = Slices()
    for figures in await shared(service, EXCHANGES, things, spans, name is not None):
        await slices.breathe()
        there = service.machine.vhosts.get(figures.vhost)
        found = None if there is None else there.exchanges.get(figures.name)
        if there is not None and found is not None:
            rows.append(_exchange(there, found, figures))
    if name is not None and not rows:
        raise Refusal(NOT_FOUND, f"no exchange '{name}' in vhost '{vhost}'")
    return rows


def _exchange(
    tables: VhostRecord, record: ExchangeRecord, figures: SharedFigures
) -> ExchangeDetails:
    policy = exchange_policy_of(tables, record.name)
    return ExchangeDetails(
        vhost=record.vhost,
        name=record.name,
        type=record.kind,
        durable=record.durable,
        auto_delete=record.auto_delete,
        internal=record.internal,
        arguments=plain(record.arguments),
        policy="" if policy is None else policy.name,
        counters=figures.counters,
        rates=figures.rates,
        samples=figures.samples,
    )


@operation(MANAGEMENT)
async def binding_details(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str | None = None,
    source: str | None = None,
    destination: str | None = None,
    to_exchange: bool | None = None,
) -> list[BindingDetails]:
    """Show bindings: those that the default exchange has to each queue are among them.

    Args:
        vhost: Of this one; None for all that the caller may enter.
        source: Only those that lead from this exchange.
        destination: Only those that lead to what is called so.
        to_exchange: Only those that lead to exchanges, or only those that lead to queues.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    vhosts = vhosts_of(service.machine, caller, vhost)
    rows: list[BindingDetails] = []
    slices = Slices()
    for name, found in await _bindings(service, vhosts, source, destination, to_exchange):
        for each in found:
            rows.append(_binding(name, each))
            await slices.breathe()
    return rows


@operation(MANAGEMENT)
async def binding_page(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str | None = None,
    begin: int = 0,
    count: int = 100,
    reverse: bool = False,
) -> BindingPage:
    """Show some bindings of that list, from one of them on.

    Args:
        vhost: Of this one; None for all that the caller may enter.
        reverse: Whether the last come first.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    vhosts = vhosts_of(service.machine, caller, vhost)
    found = await _bindings(service, vhosts)
    total = sum(len(some) for _, some in found)
    first = max(total - begin - count, 0) if reverse else begin
    last = max(total - begin, 0) if reverse else begin + count
    items: list[BindingDetails] = []
    for name, some in found:
        items += [_binding(name, each) for each in some[max(first, 0) : max(last, 0)]]
        first, last = first - len(some), last - len(some)
    return BindingPage(items=items[::-1] if reverse else items, total=total)


async def _bindings(
    service: AdminService,
    vhosts: list[VhostRecord],
    source: str | None = None,
    destination: str | None = None,
    to_exchange: bool | None = None,
) -> list[tuple[str, Sequence[QueueRecord | Binding]]]:
    """Bindings in the order of lists, by vhost; a queue stands for that of the default exchange."""
    slices = Slices()

    def wanted(binding: Binding) -> bool:
        return (
            (source is None or binding.source == source)
            and (destination is None or binding.destination == destination)
            and (to_exchange is None or binding.to_exchange == to_exchange)
        )

    found: list[tuple[str, Sequence[QueueRecord | Binding]]] = []
    for tables in sorted(vhosts, key=lambda each: each.name):
        if source in (None, "") and to_exchange is not True:
            if destination is None:
                found.append((tables.name, await service.queue_order.of(service.machine, tables)))
            else:
                only = tables.queues.get(destination)
                if only is not None and not only.type.delays:
                    found.append((tables.name, [only]))
        some = await slices.those(_candidates(tables, source, destination), wanted)
        found.append((tables.name, [each async for each in slices.in_order(some, _place)]))
    return found


def _place(binding: Binding) -> tuple[Any, ...]:
    arguments = plain(binding.arguments)
    return (
        binding.source,
        binding.to_exchange is False,
        binding.destination,
        binding.routing_key,
        bool(arguments),
        binding_key(binding.routing_key, arguments) if arguments else "",
    )


def _candidates(tables: VhostRecord, source: str | None, destination: str | None) -> list[Binding]:
    """Bindings among which those are that are looked for."""
    if source is not None:
        exchange = tables.exchanges.get(source)
        return [] if exchange is None else list(exchange.bound.values())
    if destination is not None:
        queue = tables.queues.get(destination)
        exchange = tables.exchanges.get(destination)
        found = [] if queue is None else list(queue.incoming)
        return found + ([] if exchange is None else list(exchange.incoming))
    return [
        binding for record in list(tables.exchanges.values()) for binding in record.bound.values()
    ]


def _binding(vhost: str, binding: QueueRecord | Binding) -> BindingDetails:
    if isinstance(binding, QueueRecord):
        # That of the default exchange.
        return BindingDetails(
            source="",
            vhost=vhost,
            destination=binding.name,
            destination_type="queue",
            routing_key=binding.name,
            arguments={},
            key=binding_key(binding.name, {}),
        )
    return BindingDetails(
        source=binding.source,
        vhost=vhost,
        destination=binding.destination,
        destination_type="exchange" if binding.to_exchange else "queue",
        routing_key=binding.routing_key,
        arguments=plain(binding.arguments),
        key=binding_key(binding.routing_key, plain(binding.arguments)),
    )


def binding_key(routing_key: str, arguments: dict[str, Any]) -> str:
    """What tells a binding from others between the same two: the routing key, and with arguments
    a digest of them."""
    key = quote_plus(routing_key, errors="surrogateescape").replace("~", "%7E")
    if not arguments:
        return key or "~"
    encoded = repr(sorted(arguments.items(), key=lambda item: item[0])).encode("utf-8", "replace")
    digest = urlsafe_b64encode(blake2b(encoded, digest_size=4).digest()).decode()
    return f"{key}~{digest.rstrip('=')}"


# --- vhosts and users ---------------------------------------------------------------------------


@operation(MANAGEMENT)
async def vhost_details(
    service: AdminService,
    caller: Caller,
    *,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> list[VhostDetails]:
    """Show all vhosts to those who monitor, and to others those that they may enter.

    Args:
        spans: Moments at which samples are wanted.
    """
    return await _vhosts(service, vhosts_seen(service.machine, caller), spans)


@operation(MANAGEMENT)
async def visible_vhost_limits(
    service: AdminService, caller: Caller, *, vhost: str | None = None
) -> list[VhostLimitsRow]:
    """List the limits of a vhost, or of all that the caller may enter, if they have some.

    Raises:
        Refusal: There is no such vhost, or none for this user.
    """
    tables = vhosts_of(service.machine, caller, vhost)
    return [
        VhostLimitsRow(vhost=each.name, limits=dict(each.limits)) for each in tables if each.limits
    ]


@operation()
async def one_vhost(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> VhostDetails:
    """Show one vhost.

    Args:
        spans: Moments at which samples are wanted.

    Raises:
        Refusal: There is none of that name.
    """
    tables = service.machine.vhosts.get(vhost)
    if tables is None:
        raise Refusal(NOT_FOUND, f"Virtual host '{vhost}' does not exist")
    (found,) = await _vhosts(service, [tables], spans)
    return found


async def _vhosts(
    service: AdminService, vhosts: list[VhostRecord], spans: list[SampleRange]
) -> list[VhostDetails]:
    every = await shared(service, VHOSTS, [(tables.name, "") for tables in vhosts], spans, False)
    return [_vhost(service, tables, figures) for tables, figures in zip(vhosts, every, strict=True)]


def _vhost(service: AdminService, tables: VhostRecord, figures: SharedFigures) -> VhostDetails:
    return VhostDetails(
        name=tables.name,
        description=tables.description,
        tags=list(tables.tags),
        default_queue_type=service.default_queue_type(tables),
        protected_from_deletion=tables.protected,
        tracing=service.node.vhosts.tracer_of(tables.name).on,
        nodes=list(service.members.running()),
        counters=figures.counters,
        lengths=figures.lengths,
        rates=figures.rates,
        length_rates=figures.length_rates,
        samples=figures.samples,
    )


@operation()
async def user_details(
    service: AdminService, caller: Caller, *, user: str | None = None
) -> list[UserDetails]:
    """Show all users, or one.

    Raises:
        Refusal: There is none of that name.
    """
    users = service.machine.users
    if user is not None:
        if user not in users:
            raise Refusal(NOT_FOUND, f'User "{user}" does not exist')
        return [_user(users[user])]
    return [_user(users[name]) for name in sorted(users)]


def _user(record: UserRecord) -> UserDetails:
    return UserDetails(
        name=record.name,
        password_hash=record.password_hash,
        hashing_algorithm=record.hash_scheme,
        tags=list(record.tags),
        limits=dict(record.limits),
    )
