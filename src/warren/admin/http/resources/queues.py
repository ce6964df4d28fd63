"""Queues: their lists, in pages and sorted, what becomes of one, and the messages in it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, get_args

import msgspec

from warren.admin.http import fields
from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok, put
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import bad_request, lacking, refused_as
from warren.admin.http.paging import Page, columns_of, listing, narrowed_one, rank, value_at
from warren.admin.http.ranges import Ranges
from warren.admin.http.resources.clients import consumers_of_queue
from warren.admin.http.values import as_boolean, as_integer, as_table, check_name
from warren.admin.service import details, messages, queue_sorting, topology
from warren.admin.service.caller import ADMINISTRATOR
from warren.admin.service.details import QueueDetails
from warren.admin.service.messages import Fate, GivenProperties, Taken
from warren.admin.service.slices import Slices
from warren.errors import ACCESS_REFUSED, NOT_FOUND, Refusal

ACKMODES: dict[str, Fate] = {
    "ack_requeue_true": "returned",
    "ack_requeue_false": "settled",
    "reject_requeue_true": "failed",
    "reject_requeue_false": "discarded",
}


LENGTH_COLUMNS: dict[str, queue_sorting.LengthColumn] = {
    column: column for column in get_args(queue_sorting.LengthColumn)
}
FIGURES = frozenset(
    (
        "message_stats",
        *("messages_details", "messages_ready_details", "messages_unacknowledged_details"),
        *("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged"),
        *("messages_persistent", "message_bytes_persistent"),
        *("messages_ram", "message_bytes_ram"),
    )
)
"""Columns that are the same of all queues that are not in use."""
PART_ROWS = 500
"""Queues that are looked at in full at a time."""


def shape_of(asked: HttpRequest, ranges: Ranges) -> Any:
    """How a list shows each queue: with all figures, with its length alone, or with none."""
    shape = fields.listed_queue
    if asked.truth("disable_stats"):
        totals = asked.truth("enable_queue_totals")
        shape = fields.queue_with_totals if totals else fields.bare_queue
    return partial(shape, ranges=ranges)


async def all_queues(asked: HttpRequest) -> HttpAnswer:
    """The queues of all vhosts that the user may enter."""
    return await _list(asked, None)


async def queues_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one vhost."""
    return await _list(asked, asked["vhost"])


async def _list(asked: HttpRequest, vhost: str | None) -> HttpAnswer:
    page = Page(asked)
    ranges = Ranges(asked.query)
    shape = shape_of(asked, ranges)
    sort = asked.query.get("sort", "")
    chosen: dict[str, Any] = {
        "vhost": vhost,
        "name": page.name,
        "use_regex": asked.truth("use_regex"),
    }
    reverse = asked.truth("sort_reverse")
    if page.number and sort in ("", "name"):
        found = await details.queue_page(
            asked.service,
            asked.caller,
            **chosen,
            spans=ranges.spans,
            begin=page.begin,
            count=page.size,
            reverse=reverse,
        )
        page.check(found.filtered)
        rows = columns_of(asked, await Slices().each(found.items, shape))
        return ok(page.document(rows, found.filtered, found.total))
    if not page.number and not sort and not reverse:
        parts = details.list_queue_details(
            asked.service, asked.caller, **chosen, spans=ranges.spans
        )
        # The first part is waited for here, so that what is wrong is told.
        first = await anext(parts)
        return HttpAnswer(200, _shown(asked, shape, first, parts))
    return await _sorted(asked, page, chosen, shape, ranges, sort, reverse)


async def _shown(
    asked: HttpRequest,
    shape: Any,
    first: list[QueueDetails],
    parts: AsyncIterator[list[QueueDetails]],
) -> AsyncIterator[list[dict[str, Any]]]:
    """A list as it is sent, part by part."""
    yield columns_of(asked, [shape(each) for each in first])
    async for part in parts:
        yield columns_of(asked, [shape(each) for each in part])


async def _sorted(
    asked: HttpRequest,
    page: Page,
    chosen: dict[str, Any],
    shape: Any,
    ranges: Ranges,
    sort: str,
    reverse: bool,
) -> HttpAnswer:
    """A list in the order of any of its columns: of all only what is sorted by is kept."""
    seen = await queue_sorting.queues_seen(asked.service, asked.caller, vhost=chosen["vhost"])
    names, places = await asked.service.kept.get(
        (
            "queues in order",
            *(tuple(seen.vhosts), chosen["name"], chosen["use_regex"], sort, reverse),
            *(asked.truth("disable_stats"), asked.truth("enable_queue_totals")),
        ),
        seen.count,
        partial(_order, asked, chosen, shape, sort, reverse),
    )
    total = len(names)
    if page.name:
        everything = await details.queue_page(
            asked.service, asked.caller, vhost=chosen["vhost"], count=0
        )
        total = everything.total
    page.check(len(names))
    if page.number:
        places = places[page.begin : page.begin + page.size]
    wanted = [names[place] for place in places]
    found = await details.some_queues(asked.service, asked.caller, names=wanted, spans=ranges.spans)
    rows = columns_of(asked, await Slices().each(found, shape))
    return ok(page.document(rows, len(names), total))


async def _order(
    asked: HttpRequest, chosen: dict[str, Any], shape: Any, sort: str, reverse: bool
) -> queue_sorting.QueuesInOrder:
    """All queues in the order that is wanted."""
    service, caller = asked.service, asked.caller
    path = sort.split(".")
    slices = Slices()
    ranked: list[tuple[Any, int]] = []
    column = LENGTH_COLUMNS.get(sort)
    if column is not None and not asked.truth("disable_stats"):
        told = await queue_sorting.queue_lengths(service, caller, **chosen, column=column)
        idle: list[int] = []
        async for at, end in slices.stretches(len(told.lengths)):
            lengths = told.lengths[at:end]
            idle += [at + place for place, length in enumerate(lengths) if length == 0]
            ranked += [(rank(n), at + place) for place, n in enumerate(lengths) if n != 0]
        places = await queue_sorting.in_order(ranked, idle, rank(0), reverse)
        return queue_sorting.QueuesInOrder(told.names, places)
    if path[0] in FIGURES and len(service.machine.nodes) == 1:
        used = await queue_sorting.queues_in_use(service, caller, **chosen)
        rest: list[int] = []
        busy = frozenset(used.used)
        async for at, end in slices.stretches(len(used.names)):
            end = min(end, len(used.names))
            rest += [place for place in range(at, end) if place not in busy]
        # One that is idle shows what all of them do.
        for part in (rest[:1], *_parts(used.used)):
            names = [used.names[place] for place in part]
            rows = await details.some_queues(service, caller, names=names)
            by_name = {(each.row.vhost, each.row.name): each for each in rows}
            for place in part:
                each = by_name.get(used.names[place])
                value = None if each is None else value_at(shape(each), path)
                ranked.append((rank(value), place))
                await slices.breathe()
        same = ranked.pop(0)[0] if rest else None
        places = await queue_sorting.in_order(ranked, rest, same, reverse)
        return queue_sorting.QueuesInOrder(used.names, places)
    every: list[tuple[str, str]] = []
    async for found in details.list_queue_details(service, caller, **chosen):
        for each in found:
            await slices.breathe()
            ranked.append((rank(value_at(shape(each), path)) if sort else 0, len(every)))
            every.append((each.row.vhost, each.row.name))
    if not sort:
        ranked = [(-place, place) for _, place in ranked] if reverse else ranked
        reverse = False
    places = await queue_sorting.in_order(ranked, [], None, reverse)
    return queue_sorting.QueuesInOrder(every, places)


def _parts(places: list[int]) -> list[list[int]]:
    return [places[at : at + PART_ROWS] for at in range(0, len(places), PART_ROWS)]


async def one_queue(asked: HttpRequest) -> HttpAnswer:
    """One queue, with its consumers."""
    ranges = Ranges(asked.query)
    found = await details.queue_details(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        queue=asked["queue"],
        spans=ranges.spans,
    )
    if asked.truth("disable_stats"):
        return ok(narrowed_one(asked, fields.bare_queue(found)))
    shown = fields.queue(found, ranges)
    consumers = await consumers_of_queue(asked, asked["vhost"], asked["queue"])
    shown.update(consumer_details=consumers, incoming=[], deliveries=[])
    return ok(narrowed_one(asked, shown))


async def put_queue(asked: HttpRequest) -> HttpAnswer:
    """Have a queue."""
    document = asked.document()
    check_name("queue", asked["queue"])
    if as_boolean(document, "exclusive"):
        raise bad_request("an exclusive queue goes with its connection, which there is none of")
    there = await is_there(asked)
    await topology.declare_queue(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        name=asked["queue"],
        durable=as_boolean(document, "durable"),
        auto_delete=as_boolean(document, "auto_delete"),
        arguments=as_table(document, "arguments"),
    )
    await details.led_queue(asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"])
    return put(not there)


async def is_there(asked: HttpRequest) -> bool:
    """Whether a queue is there already."""
    try:
        await details.queue_details(
            asked.service, asked.caller, vhost=asked["vhost"], queue=asked["queue"]
        )
    except Refusal as refusal:
        if refusal.kind != NOT_FOUND:
            raise
        return False
    return True


async def delete_queue(asked: HttpRequest) -> HttpAnswer:
    """Delete a queue."""
    await topology.delete_queue(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        name=asked["queue"],
        if_unused=asked.truth("if-unused"),
        if_empty=asked.truth("if-empty"),
    )
    return NO_CONTENT


async def purge(asked: HttpRequest) -> HttpAnswer:
    """Drop all messages of a queue that are ready."""
    await topology.purge_queue(
        asked.service, asked.caller, vhost=asked["vhost"], name=asked["queue"]
    )
    return NO_CONTENT


async def bindings(asked: HttpRequest) -> HttpAnswer:
    """The bindings that lead to a queue."""
    rows = await details.binding_details(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        destination=asked["queue"],
        to_exchange=False,
    )
    return await listing(asked, rows, fields.binding)


async def act(asked: HttpRequest) -> HttpAnswer:
    """Carry out what is neither of the above; there is no such thing any more."""
    (action,) = needed(asked.document(), "action")
    if ADMINISTRATOR not in asked.caller.tags:
        raise lacking(ADMINISTRATOR)
    raise bad_request(["unknown", action])


# --- messages -----------------------------------------------------------------------------------


async def get(asked: HttpRequest) -> HttpAnswer:
    """Take messages out of a queue, and as a rule put them back."""
    document = asked.document()
    mode, count, encoding = needed(document, "ackmode", "count", "encoding")
    count = as_integer(count)
    if not isinstance(mode, str) or mode not in ACKMODES:
        raise bad_request(f"Invalid ackmode value: {mode}. Valid values are: {', '.join(ACKMODES)}")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    truncate = document.get("truncate")
    most = None if truncate is None else as_integer(truncate)
    try:
        taken = await messages.get_messages(
            asked.service,
            asked.caller,
            vhost=asked["vhost"],
            queue=asked["queue"],
            count=messages.GET_COUNT_MAX if count < 0 else count,
            fate=ACKMODES[mode],
        )
    except Refusal as refusal:
        raise refused_as(refusal, ACCESS_REFUSED, f"{refusal}") from None
    slices = Slices()
    rows = []
    for each in taken:
        rows.append(_message(each, encoding == "base64", most))
        await slices.breathe()
    return ok(rows)


def _message(taken: Taken, as_base64: bool, most: int | None) -> dict[str, Any]:
    payload, encoding = encoded_body(taken.body if most is None else taken.body[:most], as_base64)
    return {
        "payload_bytes": len(taken.body),
        "redelivered": taken.redelivered,
        "exchange": taken.exchange,
        "routing_key": taken.routing_key,
        "message_count": taken.left,
        # RabbitMQ's empty object.
        "properties": properties(taken.properties) or [],
        "payload": payload,
        "payload_encoding": encoding,
    }


def encoded_body(body: bytes, as_base64: bool) -> tuple[str, str]:
    """A body as text, in Base64 where it is none."""
    if not as_base64:
        try:
            return body.decode("utf-8"), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"


def properties(values: GivenProperties) -> dict[str, Any]:
    """GivenProperties by their names in AMQP 0-9-1, without those that are not set."""
    shown = msgspec.to_builtins(values)
    persistent = shown.pop("persistent")
    if persistent is not None:
        shown["delivery_mode"] = 2 if persistent else 1
    return {name: value for name, value in shown.items() if value is not None}


RESOURCES = [
    Resource("/api/queues", get=all_queues),
    Resource("/api/queues/detailed", get=all_queues),
    Resource("/api/queues/{vhost}", get=queues_of_vhost),
    Resource("/api/queues/{vhost}/{queue}", get=one_queue, put=put_queue, delete=delete_queue),
    Resource("/api/queues/{vhost}/{queue}/bindings", get=bindings),
    Resource("/api/queues/{vhost}/{queue}/contents", delete=purge),
    Resource("/api/queues/{vhost}/{queue}/get", post=get),
    Resource("/api/queues/{vhost}/{queue}/actions", post=act),
]
