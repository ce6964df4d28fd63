"""Connections, channels and consumers of clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok
from warren.admin.http.asked import HttpRequest, Resource
from warren.admin.http.errors import lacking, not_there
from warren.admin.http.fields import grouped
from warren.admin.http.paging import Page, columns_of, listing, narrowed_one
from warren.admin.http.ranges import NO_RANGES, Ranges, detailed
from warren.admin.service import clients, details, visible
from warren.admin.service.caller import POLICYMAKER, sees_all
from warren.admin.service.client_figures import (
    OCTETS,
    PUBLISHED,
    SERVED,
    ClientFigure,
)
from warren.admin.service.rows import ChannelRow, ConnectionRow, ConsumerRow
from warren.admin.service.slices import Slices

CLOSED = "Closed via management plugin"
"""What clients are told where the request gives no reason, in RabbitMQ's words."""
NO_FIGURES: Mapping[str, ClientFigure] = {}
NO_RATES = (0.0,) * len(OCTETS)

Row = TypeVar("Row")
Counted = TypeVar("Counted", ConnectionRow, ChannelRow)
Shape = Callable[[Counted, Mapping[str, ClientFigure], Ranges], dict[str, Any]]
"""Shows a row as the API does, with what was counted and the samples that were asked for."""


async def whole(parts: AsyncIterator[list[Row]]) -> list[Row]:
    """All rows of an answer in parts."""
    return [row async for part in parts for row in part]


# --- connections --------------------------------------------------------------------------------


def connection(
    row: ConnectionRow, figures: Mapping[str, ClientFigure] = NO_FIGURES, ranges: Ranges = NO_RANGES
) -> dict[str, Any]:
    """A connection as the API shows it.

    Args:
        figures: What connections have counted, by pid.
    """
    fields = {name: value for name, value in row.cells().items() if name != "pid"}
    fields["type"] = "network"
    fields["user_who_performed_action"] = row.user
    found = figures.get(row.pid)
    rates = NO_RATES if found is None else found.rates
    samples = None if found is None else ranges.samples("data_rates", found.samples)
    for place, name in enumerate(OCTETS):
        fields[f"{name}_details"] = detailed(rates[place], samples, place)
    given = row.client_properties.get("connection_name")
    if isinstance(given, str):
        fields["user_provided_name"] = given
    return fields


async def _connections(asked: HttpRequest) -> list[ConnectionRow]:
    rows = await whole(clients.list_connections(asked.service, asked.caller))
    return sorted(rows, key=lambda row: row.name)


async def _figures(
    asked: HttpRequest, ranges: Ranges, rows: Sequence[ConnectionRow | ChannelRow]
) -> dict[str, ClientFigure]:
    """What connections or channels have counted."""
    by_node: dict[str, list[str]] = {}
    for row in rows:
        by_node.setdefault(row.node, []).append(row.pid)
    return await clients.figures_of(asked.service, by_node, ranges.spans)


async def _sorted(asked: HttpRequest, rows: list[Counted], shape: Shape[Counted]) -> HttpAnswer:
    """A list in the order of any of its columns: samples are found for the page alone, unless it
    is sorted by what they come to."""
    ranges = Ranges(asked.query)
    by_samples = ".avg" in asked.query.get("sort", "")
    needed = ranges if by_samples or not Page(asked).number else NO_RANGES
    figures = await _figures(asked, needed, rows)

    async def page_of(wanted: list[Counted]) -> list[dict[str, Any]]:
        sampled = await _figures(asked, ranges, wanted)
        return await Slices().each(wanted, lambda row: shape(row, sampled, ranges))

    further = page_of if needed is not ranges and ranges.spans else None
    return await listing(asked, rows, lambda row: shape(row, figures, needed), further)


async def _shown_connections(asked: HttpRequest, vhost: str = "", user: str = "") -> HttpAnswer:
    """The connections of a vhost, of a user, or all; a page by name looks at that page only."""
    ranges = Ranges(asked.query)
    page = Page(asked)
    if page.number and asked.query.get("sort", "") in ("", "name"):
        found = await clients.connection_page(
            asked.service, asked.caller, vhost=vhost, user=user, **page.chosen(asked)
        )
        page.check(found.filtered)
        figures = await _figures(asked, ranges, found.items)
        shape = partial(connection, figures=figures, ranges=ranges)
        rows = await Slices().each(found.items, shape)
        return ok(page.document(columns_of(asked, rows), found.filtered, found.total))
    every = [
        row
        for row in await _connections(asked)
        if row.vhost and vhost in ("", row.vhost) and user in ("", row.user)
    ]
    return await _sorted(asked, every, connection)


async def all_connections(asked: HttpRequest) -> HttpAnswer:
    """All connections that the user may see."""
    return await _shown_connections(asked)


async def connections_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those to one vhost."""
    vhost = asked["vhost"]
    await visible.visible_vhost(asked.service, asked.caller, vhost=vhost)
    return await _shown_connections(asked, vhost=vhost)


async def connections_of_user(asked: HttpRequest) -> HttpAnswer:
    """Those of one user."""
    user = asked["user"]
    if user != asked.caller.name and not sees_all(asked.caller):
        raise lacking(POLICYMAKER)
    return await _shown_connections(asked, user=user)


async def _connection(asked: HttpRequest) -> ConnectionRow:
    for row in await _connections(asked):
        if row.name == asked["connection"]:
            return row
    raise not_there()


async def one_connection(asked: HttpRequest) -> HttpAnswer:
    """One connection."""
    row = await _connection(asked)
    ranges = Ranges(asked.query)
    return ok(narrowed_one(asked, connection(row, await _figures(asked, ranges, [row]), ranges)))


def _reason(asked: HttpRequest) -> str:
    return asked.headers.get("x-reason") or CLOSED


async def close_connection(asked: HttpRequest) -> HttpAnswer:
    """Close a connection."""
    row = await _connection(asked)
    await clients.close_connection(
        asked.service, asked.caller, connection=row.pid, reason=_reason(asked)
    )
    return NO_CONTENT


async def close_connections_of_user(asked: HttpRequest) -> HttpAnswer:
    """Close those of one user."""
    user = asked["user"]
    if user != asked.caller.name and not sees_all(asked.caller):
        raise lacking(POLICYMAKER)
    for row in await _connections(asked):
        if row.user == user:
            await clients.close_connection(
                asked.service, asked.caller, connection=row.pid, reason=_reason(asked)
            )
    return NO_CONTENT


# --- channels -----------------------------------------------------------------------------------


def channel(
    row: ChannelRow, figures: Mapping[str, ClientFigure] = NO_FIGURES, ranges: Ranges = NO_RANGES
) -> dict[str, Any]:
    """A channel as the API shows it.

    Args:
        figures: What channels have counted, by pid.
    """
    fields = {
        name: value
        for name, value in row.cells().items()
        if name not in ("pid", "connection", "global_prefetch_count")
    }
    fields["state"] = "running"
    fields["user_who_performed_action"] = row.user
    fields["connection_details"] = _ends(row.name)
    found = figures.get(row.pid)
    if found is not None and any(found.counters):
        fields["message_stats"] = grouped(
            (PUBLISHED, SERVED), found.counters, found.rates, ranges, found.samples
        )
    return fields


def named_channel(
    row: ChannelRow, figures: Mapping[str, ClientFigure] = NO_FIGURES, ranges: Ranges = NO_RANGES
) -> dict[str, Any]:
    """The same with what it is for, which RabbitMQ's API does not say: for pages."""
    found = figures.get(row.pid)
    return channel(row, figures, ranges) | {
        "client": found.client if found else "",
        "queues": found.queues if found else [],
        "exchanges": found.exchanges if found else [],
    }


async def _channels_of(
    asked: HttpRequest, vhost: str = "", shape: Shape[ChannelRow] = channel
) -> HttpAnswer:
    """The channels of a vhost, or all; a page by name looks at that page only."""
    page = Page(asked)
    if not page.number or asked.query.get("sort", "") not in ("", "name"):
        return await _sorted(asked, await _channels(asked, vhost), shape)
    ranges = Ranges(asked.query)
    found = await clients.channel_page(
        asked.service, asked.caller, vhost=vhost, **page.chosen(asked)
    )
    page.check(found.filtered)
    figures = await _figures(asked, ranges, found.items)
    rows = await Slices().each(found.items, lambda row: shape(row, figures, ranges))
    return ok(page.document(columns_of(asked, rows), found.filtered, found.total))


def _ends(name: str) -> dict[str, Any]:
    """A connection by the name of one of its channels."""
    name = name.rpartition(" (")[0]
    host, _, port = name.partition(" -> ")[0].rpartition(":")
    return {"name": name, "peer_host": host, "peer_port": int(port) if port.isdecimal() else 0}


async def _channels(asked: HttpRequest, vhost: str = "") -> list[ChannelRow]:
    rows = await whole(clients.list_channels(asked.service, asked.caller, vhost=vhost))
    return sorted(rows, key=lambda row: row.name)


async def all_channels(asked: HttpRequest) -> HttpAnswer:
    """All channels that the user may see."""
    return await _channels_of(asked)


async def channels_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those to one vhost."""
    vhost = asked["vhost"]
    await visible.visible_vhost(asked.service, asked.caller, vhost=vhost)
    return await _channels_of(asked, vhost)


async def all_named_channels(asked: HttpRequest) -> HttpAnswer:
    """All channels that the user may see, with what they are for."""
    return await _channels_of(asked, shape=named_channel)


async def named_channels_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those to one vhost, with what they are for."""
    vhost = asked["vhost"]
    await visible.visible_vhost(asked.service, asked.caller, vhost=vhost)
    return await _channels_of(asked, vhost, named_channel)


async def channels_of_connection(asked: HttpRequest) -> HttpAnswer:
    """Those of one connection."""
    pid = (await _connection(asked)).pid
    rows = [row for row in await _channels(asked) if row.connection == pid]
    return await _sorted(asked, rows, channel)


async def one_channel(asked: HttpRequest) -> HttpAnswer:
    """One channel, with its consumers."""
    for row in await _channels(asked):
        if row.name == asked["channel"]:
            rows = await whole(clients.list_consumers(asked.service, asked.caller, vhost=row.vhost))
            own = [consumer(asked, each) for each in rows if each.channel_pid == row.pid]
            ranges = Ranges(asked.query)
            figures = await _figures(asked, ranges, [row])
            # Which exchanges and queues they were of is not told with rates of the mode `basic`.
            shown = {
                **channel(row, figures, ranges),
                "consumer_details": own,
                "deliveries": [],
                "publishes": [],
            }
            return ok(narrowed_one(asked, shown))
    raise not_there()


# --- consumers ----------------------------------------------------------------------------------


def consumer(asked: HttpRequest, row: ConsumerRow) -> dict[str, Any]:
    """A consumer as the API shows it."""
    ends = _ends(row.channel_name)
    number = row.channel_name.rpartition(" (")[2].removesuffix(")")
    return {
        "arguments": row.arguments,
        "ack_required": row.ack_required,
        "active": row.active,
        "activity_status": row.activity_status,
        "channel_details": {
            "connection_name": ends["name"],
            "name": row.channel_name,
            "node": row.node,
            "number": int(number) if number.isdecimal() else 0,
            "peer_host": ends["peer_host"],
            "peer_port": ends["peer_port"],
            "user": row.user,
        },
        "consumer_tag": row.consumer_tag,
        "consumer_timeout": details.consumer_timeout_ms(asked.service, row.vhost, row.queue_name),
        "exclusive": row.exclusive,
        "prefetch_count": row.prefetch_count,
        "queue": {"name": row.queue_name, "vhost": row.vhost},
    }


async def consumers_of_queue(asked: HttpRequest, vhost: str, queue: str) -> list[dict[str, Any]]:
    """The consumers of one queue."""
    rows = await whole(clients.list_consumers(asked.service, asked.caller, vhost=vhost))
    return [consumer(asked, row) for row in rows if row.queue_name == queue]


async def all_consumers(asked: HttpRequest) -> HttpAnswer:
    """The consumers of all vhosts that the user may see."""
    rows = await whole(clients.list_consumers(asked.service, asked.caller))
    return await listing(asked, rows, partial(consumer, asked))


async def consumers_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one vhost."""
    vhost = asked["vhost"]
    await visible.visible_vhost(asked.service, asked.caller, vhost=vhost)
    rows = await whole(clients.list_consumers(asked.service, asked.caller, vhost=vhost))
    return await listing(asked, rows, partial(consumer, asked))


RESOURCES = [
    Resource("/api/connections", get=all_connections),
    Resource(
        "/api/connections/username/{user}",
        get=connections_of_user,
        delete=close_connections_of_user,
    ),
    Resource("/api/connections/{connection}", get=one_connection, delete=close_connection),
    Resource("/api/connections/{connection}/channels", get=channels_of_connection),
    Resource("/api/vhosts/{vhost}/connections", get=connections_of_vhost),
    Resource("/api/channels", get=all_channels),
    Resource("/api/channels/{channel}", get=one_channel),
    Resource("/api/vhosts/{vhost}/channels", get=channels_of_vhost),
    Resource("/api/consumers", get=all_consumers),
    Resource("/api/consumers/{vhost}", get=consumers_of_vhost),
]
