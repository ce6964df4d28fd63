"""Connections, channels and consumers of clients: what there is, and an end to them.

A node knows its own; the others are asked. What names a connection is its `pid`:
`<node.start.number.0>`, where a channel has its number at the end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import TypeVar

import msgspec

from warren.admin.service.caller import (
    MANAGEMENT,
    MONITORING,
    Caller,
    may_see,
    visible,
)
from warren.admin.service.client_figures import (
    KEPT_MAX,
    ClientFigure,
    channel_values,
    uses_of,
)
from warren.admin.service.client_order import ChannelPlace, channels_of, name_of
from warren.admin.service.everywhere import ASK_SECONDS, ask_all, rows_everywhere
from warren.admin.service.history import SampleRange
from warren.admin.service.name_filters import name_filter
from warren.admin.service.operation import operation
from warren.admin.service.rows import ChannelRow, ConnectionRow, ConsumerRow
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.errors import NOT_FOUND, Refusal
from warren.metadata.plain_tables import plain
from warren.protocols.client import ClientConnection
from warren.protocols.facts import ChannelFacts, ConnectionFacts, ConsumerFacts

PART_ROWS = 500

Thing = TypeVar("Thing")


@operation(MANAGEMENT)
async def list_connections(
    service: AdminService, caller: Caller, *, own: bool = False
) -> AsyncGenerator[list[ConnectionRow], None]:
    """List connections, in parts; who sees not all sees their own.

    Args:
        own: Only those to this node.
    """
    async for part in own_connections(service, partial(may_see, caller)):
        yield part
    if not own:
        asked = {"own": True}
        async for rows in rows_everywhere(service, "list_connections", asked, ConnectionRow):
            yield [row for row in rows if may_see(caller, row.user)]


@operation(MANAGEMENT)
async def list_channels(
    service: AdminService, caller: Caller, *, vhost: str = "", own: bool = False
) -> AsyncGenerator[list[ChannelRow], None]:
    """List channels, in parts; who sees not all sees their own.

    Args:
        vhost: Only those of this one; empty for all.
        own: Only those of this node.
    """
    part: list[ChannelRow] = []
    slices = Slices()
    for connection in of_users(service, partial(may_see, caller)):
        await slices.breathe()
        if vhost not in ("", connection.vhost):
            continue
        name = name_of(connection.facts())
        for facts in channels_of(connection):
            part.append(channel_row(service, connection, name, facts))
            await slices.breathe()
            if len(part) >= PART_ROWS:
                yield part
                part = []
    yield part
    if not own:
        asked = {"vhost": vhost, "own": True}
        async for rows in rows_everywhere(service, "list_channels", asked, ChannelRow):
            yield [row for row in rows if may_see(caller, row.user)]


@operation(MANAGEMENT)
async def list_consumers(
    service: AdminService, caller: Caller, *, vhost: str = "", own: bool = False
) -> AsyncGenerator[list[ConsumerRow], None]:
    """List consumers of one vhost, or of all that the caller may see, in parts.

    Args:
        own: Only those of this node's clients.

    Raises:
        Refusal: There is no such vhost, or the caller may not see it.
    """
    seen = {tables.name for tables in visible(service.machine, caller, vhost)}
    part: list[ConsumerRow] = []
    slices = Slices()
    for connection in list(service.node.connections.values()):
        await slices.breathe()
        if connection.vhost not in seen:
            continue
        name = name_of(connection.facts())
        for channel in channels_of(connection):
            await slices.breathe()
            for consumer in channel.consumers:
                part.append(consumer_row(service, connection, name, channel, consumer))
                await slices.breathe()
                if len(part) >= PART_ROWS:
                    yield part
                    part = []
    yield part
    if not own:
        asked = {"vhost": vhost, "own": True}
        async for rows in rows_everywhere(service, "list_consumers", asked, ConsumerRow):
            yield [row for row in rows if row.vhost in seen]


class ConnectionPage(msgspec.Struct, kw_only=True):
    """A part of the list of connections that are in a vhost, by name.

    Attributes:
        items: The connections of the part.
        filtered: How many fit what was asked for.
        total: How many there are.
    """

    items: list[ConnectionRow]
    filtered: int
    total: int


class ChannelPage(msgspec.Struct, kw_only=True):
    """A part of the list of channels, by name, as `ConnectionPage` is one of connections."""

    items: list[ChannelRow]
    filtered: int
    total: int


@operation(MANAGEMENT)
async def connection_page(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str = "",
    user: str = "",
    name: str = "",
    use_regex: bool = False,
    begin: int = 0,
    count: int = 100,
    reverse: bool = False,
) -> ConnectionPage:
    """Show some connections by name, from one of them on; who sees not all sees their own.

    Args:
        vhost, user: Only those to this vhost, or of this user; empty for all.
        name: Only those whose names have this in them.
        use_regex: Whether that is a regular expression.
        reverse: Whether the last come first.
    """

    def wanted(one: ClientConnection | ConnectionRow) -> bool:
        there = one.vhost != "" and vhost in ("", one.vhost) and user in ("", one.user)
        return there and may_see(caller, one.user)

    every = await service.connection_order.of_all()
    own: list[tuple[str, ClientConnection | ConnectionRow]] = [
        *await Slices().those(every, lambda each: wanted(each.connection))
    ]
    elsewhere: list[tuple[str, ClientConnection | ConnectionRow]] = []
    asked = {"own": True}
    async for rows in rows_everywhere(service, "list_connections", asked, ConnectionRow):
        elsewhere += [(row.name, row) for row in rows if wanted(row)]
    fitting = await _fitting(own, elsewhere, name, use_regex)
    items: list[ConnectionRow] = []
    slices = Slices()
    for _, each in _page(fitting, begin, count, reverse):
        items.append(each if isinstance(each, ConnectionRow) else connection_row(service, each))
        await slices.breathe()
    return ConnectionPage(items=items, filtered=len(fitting), total=len(own) + len(elsewhere))


@operation(MANAGEMENT)
async def channel_page(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str = "",
    name: str = "",
    use_regex: bool = False,
    begin: int = 0,
    count: int = 100,
    reverse: bool = False,
) -> ChannelPage:
    """Show some channels by name, from one of them on, as `connection_page` does connections."""
    every = await service.channel_order.of_all(await service.connection_order.of_all())
    slices = Slices()

    def wanted(one: ClientConnection) -> bool:
        return vhost in ("", one.vhost) and may_see(caller, one.user)

    own: list[tuple[str, ChannelPlace | ChannelRow]] = [
        *await slices.those(every, lambda each: wanted(each.place.connection))
    ]
    elsewhere: list[tuple[str, ChannelPlace | ChannelRow]] = []
    asked = {"vhost": vhost, "own": True}
    async for rows in rows_everywhere(service, "list_channels", asked, ChannelRow):
        elsewhere += [(row.name, row) for row in rows if may_see(caller, row.user)]
    fitting = await _fitting(own, elsewhere, name, use_regex)
    items: list[ChannelRow] = []
    for full_name, each in _page(fitting, begin, count, reverse):
        await slices.breathe()
        if isinstance(each, ChannelRow):
            items.append(each)
            continue
        head = full_name.rpartition(" (")[0]
        facts = each.connection.channel_facts(each.number)
        if facts is not None:
            items.append(channel_row(service, each.connection, head, facts))
    return ChannelPage(items=items, filtered=len(fitting), total=len(own) + len(elsewhere))


async def _fitting(
    own: list[tuple[str, Thing]], elsewhere: list[tuple[str, Thing]], name: str, use_regex: bool
) -> list[tuple[str, Thing]]:
    """Those whose names fit, by name.

    Args:
        own: Those of this node, by name.
        elsewhere: Those of others.
    """
    every = own
    if elsewhere:
        parts = Slices().in_order([*own, *elsewhere], lambda each: each[0])
        every = [each async for each in parts]
    wanted = name_filter(name, use_regex)
    return every if wanted is None else await Slices().those(every, lambda each: wanted(each[0]))


def _page(things: list[Thing], begin: int, count: int, reverse: bool) -> list[Thing]:
    """Some things from one of them on, perhaps counted from the end."""
    if not reverse:
        return things[begin : begin + count]
    end = max(len(things) - begin, 0)
    return things[max(end - count, 0) : end][::-1]


@operation(MONITORING)
async def client_figures(
    service: AdminService,
    caller: Caller,
    *,
    pids: list[str],
    spans: list[SampleRange] = [],  # noqa: B006 - it is read only
) -> list[ClientFigure]:
    """Show what some connections to this node, or channels of them, have counted.

    They are looked at for some minutes from now on, and have rates from the second look on.

    Args:
        pids: What names them.
        spans: Moments at which samples are wanted.
    """
    return await own_figures(service, pids, spans)


async def own_figures(
    service: AdminService, pids: list[str], spans: list[SampleRange]
) -> list[ClientFigure]:
    """The same, for what authorises its callers by itself."""
    figures = service.statistics.clients
    figures.want()
    wanted = frozenset(pids)
    heads = {pid.rpartition(".")[0] for pid in wanted}
    numbers = {head.rpartition(".")[2] for head in heads}
    identities = {int(number) for number in numbers if number.isdecimal() and len(number) < 20}
    keep = len(wanted) <= KEPT_MAX
    now = int(time.time())
    found: list[ClientFigure] = []
    slices = Slices()
    here = list(service.node.connections.values())
    for connection in await Slices().those(here, lambda each: identity_of(each) in identities):
        await slices.breathe()
        head, _, _ = pid_of(service, connection).rpartition(".")
        if head not in heads:
            continue
        facts = connection.facts()
        octets = (int(facts.received_bytes), int(facts.sent_bytes))
        if f"{head}.0>" in wanted:
            found.append(
                figures.figure(f"{head}.0>", (connection, 0), octets, spans, now if keep else -1)
            )
        for channel in channels_of(connection):
            await slices.breathe()
            pid = f"{head}.{channel.number}>"
            if pid in wanted:
                key, values = (connection, int(channel.number)), channel_values(channel)
                figure = figures.figure(pid, key, values, spans, now if keep else -1)
                figure.client = calls_itself(facts)
                figure.queues, figure.exchanges = uses_of(channel)
                found.append(figure)
    return found


def calls_itself(facts: ConnectionFacts) -> str:
    """The name that a client gives its connection; empty if it gives none."""
    given = facts.client_properties.get("connection_name")
    return given if isinstance(given, str) else ""


async def figures_of(
    service: AdminService, by_node: dict[str, list[str]], spans: list[SampleRange]
) -> dict[str, ClientFigure]:
    """What connections and channels of any nodes have counted, by pid.

    Args:
        by_node: Their pids, by the node that they are on.
    """
    rows: list[ClientFigure] = []
    for node, pids in by_node.items():
        if node == service.own_name:
            rows += await own_figures(service, pids, spans)
        else:
            asked = {"pids": pids, "spans": spans}
            shape = list[ClientFigure]
            answers = await ask_all(service, [node], "client_figures", asked, shape)
            for told in answers.by_node.values():
                rows += told
    return {row.pid: row for row in rows}


@operation(MANAGEMENT)
async def close_connection(
    service: AdminService, caller: Caller, *, connection: str, reason: str
) -> None:
    """Close a connection, and tell its client why.

    Args:
        connection: Its pid, or its name.

    Raises:
        Refusal: There is none, or the caller may not see it.
    """
    seen = partial(may_see, caller)
    found = await named(service, seen, frozenset([connection]))
    if found:
        await close(service, found, reason)
        return
    async for rows in rows_everywhere(service, "list_connections", {"own": True}, ConnectionRow):
        for row in rows:
            if connection in (row.pid, row.name) and seen(row.user):
                asked = {"pids": [row.pid], "reason": reason}
                await service.host.ask(row.node, "close_connections", asked, ASK_SECONDS)
                return
    raise Refusal(NOT_FOUND, f"there is no connection {connection}")


@operation()
async def close_connections(
    service: AdminService, caller: Caller, *, pids: list[str], reason: str
) -> int:
    """Close connections to this node; how many of them were there."""
    found = await named(service, partial(may_see, caller), frozenset(pids))
    await close(service, found, reason)
    return len(found)


@operation()
async def close_all_connections(
    service: AdminService,
    caller: Caller,
    *,
    reason: str,
    vhost: str = "",
    user: str = "",
    limit: int = 0,
    per_connection_delay: int = 0,
) -> int:
    """Close connections, of one vhost, of one user, or all; how many of them there were.

    Args:
        limit: Only so many; 0 for all.
        per_connection_delay: Milliseconds between two of them.

    Raises:
        Refusal: There is no such vhost.
    """
    visible(service.machine, caller, vhost)
    rows = [row async for part in own_connections(service, anybody) for row in part]
    asked = {"own": True}
    async for part in rows_everywhere(service, "list_connections", asked, ConnectionRow):
        rows += part
    wanted = [row for row in rows if vhost in ("", row.vhost) and user in ("", row.user)]
    if limit > 0:
        wanted = wanted[:limit]
    by_node: dict[str, list[str]] = {}
    for row in wanted:
        by_node.setdefault(row.node, []).append(row.pid)
    closed = 0
    for node, pids in by_node.items():
        if node == service.own_name:
            found = await named(service, anybody, frozenset(pids))
            await close(service, found, reason, per_connection_delay / 1000)
            closed += len(found)
        else:
            told = {"pids": pids, "reason": reason}
            answers = await ask_all(service, [node], "close_connections", told, int)
            closed += sum(answers.by_node.values())
    return closed


def anybody(user: str) -> bool:
    """Every user's connections."""
    return True


async def own_connections(
    service: AdminService, seen: Callable[[str], bool]
) -> AsyncGenerator[list[ConnectionRow], None]:
    """The rows of connections to this node, in parts.

    Args:
        seen: Whether those of a user are wanted.
    """
    part: list[ConnectionRow] = []
    slices = Slices()
    for connection in of_users(service, seen):
        part.append(connection_row(service, connection))
        await slices.breathe()
        if len(part) >= PART_ROWS:
            yield part
            part = []
    yield part


def of_users(service: AdminService, seen: Callable[[str], bool]) -> Iterator[ClientConnection]:
    """The connections to this node of users that are wanted."""
    for connection in list(service.node.connections.values()):
        if seen(connection.user):
            yield connection


async def named(
    service: AdminService, seen: Callable[[str], bool], names: frozenset[str]
) -> list[ClientConnection]:
    """Those of the same that have one of some pids or names."""
    by_name = not all(name.startswith("<") for name in names)

    def wanted(connection: ClientConnection) -> bool:
        if pid_of(service, connection) in names:
            return True
        return by_name and name_of(connection.facts()) in names

    return await Slices().those(of_users(service, seen), wanted)


async def close(
    service: AdminService, connections: list[ClientConnection], reason: str, delay: float = 0.0
) -> None:
    """Close connections, and tell their clients why.

    Args:
        delay: Seconds between two of them.
    """
    slices = Slices()
    for connection in connections:
        service.host.guarded(partial(connection.shut_down, reason))
        service.host.after_event()
        if delay > 0:
            await asyncio.sleep(delay)
        await slices.breathe()


def pid_of(service: AdminService, connection: ClientConnection, channel: int = 0) -> str:
    """What names a connection, or one of its channels."""
    settings = service.node.settings
    return f"<{settings.node_name}.{settings.boot}.{identity_of(connection)}.{channel}>"


def identity_of(connection: ClientConnection) -> int:
    """What tells a connection from all others that the node has, or had since it started."""
    return int(connection.number)


def connection_row(service: AdminService, connection: ClientConnection) -> ConnectionRow:
    """The row of one connection."""
    facts = connection.facts()
    return ConnectionRow(
        pid=pid_of(service, connection),
        name=name_of(facts),
        node=service.own_name,
        user=connection.user,
        vhost=connection.vhost,
        host=facts.host,
        port=int(facts.port),
        peer_host=facts.peer_host,
        peer_port=int(facts.peer_port),
        ssl=facts.encrypted,
        protocol=facts.protocol,
        auth_mechanism=facts.mechanism,
        state=facts.state,
        channels=int(facts.channels),
        timeout=int(facts.heartbeat_s),
        frame_max=int(facts.frame_max),
        channel_max=int(facts.channel_max),
        client_properties=plain(facts.client_properties),
        recv_oct=int(facts.received_bytes),
        recv_cnt=int(facts.received_count),
        send_oct=int(facts.sent_bytes),
        send_cnt=int(facts.sent_count),
        send_pend=int(facts.pending_bytes),
        connected_at=int(facts.connected_ms),
    )


def channel_row(
    service: AdminService, connection: ClientConnection, name: str, facts: ChannelFacts
) -> ChannelRow:
    """The row of one channel of a connection with a name."""
    return ChannelRow(
        pid=pid_of(service, connection, int(facts.number)),
        connection=pid_of(service, connection),
        name=f"{name} ({facts.number})",
        node=service.own_name,
        number=int(facts.number),
        user=connection.user,
        vhost=connection.vhost,
        transactional=facts.transactional,
        confirm=facts.confirm,
        consumer_count=len(facts.consumers),
        messages_unacknowledged=int(facts.unacknowledged),
        messages_uncommitted=int(facts.uncommitted),
        acks_uncommitted=int(facts.acks_uncommitted),
        messages_unconfirmed=int(facts.unconfirmed),
        prefetch_count=int(facts.prefetch),
        global_prefetch_count=int(facts.global_prefetch),
    )


def consumer_row(
    service: AdminService,
    connection: ClientConnection,
    name: str,
    channel: ChannelFacts,
    facts: ConsumerFacts,
) -> ConsumerRow:
    """The row of one consumer of a channel."""
    queue = service.node.queues.find(connection.vhost, facts.queue)
    standing = "up" if queue is None else queue.standing(facts.consumer_id)
    return ConsumerRow(
        vhost=connection.vhost,
        queue_name=facts.queue,
        channel_pid=pid_of(service, connection, int(channel.number)),
        channel_name=f"{name} ({channel.number})",
        node=service.own_name,
        consumer_tag=facts.tag,
        ack_required=facts.ack_required,
        exclusive=facts.exclusive,
        prefetch_count=int(facts.prefetch),
        active=standing in ("up", "single_active"),
        activity_status=standing,
        user=connection.user,
        arguments=plain(facts.arguments),
    )
