"""Exchanges, bindings, and messages that are published."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from warren.admin.http import fields
from warren.admin.http.answers import NO_CONTENT, HttpAnswer, created, ok, put
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import bad_request, not_there, refused_as
from warren.admin.http.paging import Page, columns_of, listing, narrowed_one
from warren.admin.http.ranges import Ranges
from warren.admin.http.values import as_boolean, as_table, check_name, check_table
from warren.admin.service import details, messages, topology
from warren.admin.service.details import BindingDetails
from warren.admin.service.messages import GivenProperties
from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, Refusal

DEFAULT_ALIAS = "amq.default"
"""What paths call the exchange that has no name."""
PUBLISH_BYTES_MAX = 20_971_520
"""Of a request that publishes: the largest message by default, with room for its properties."""
PROPERTIES_JSON_BYTES_MAX = 524_288
"""Of a message's properties as JSON: to decode them takes some milliseconds. What they become has
to fit into one frame of 131,072 bytes."""
NUMBERS = ("delivery_mode", "priority", "timestamp")
PERSISTENT = 2


def exchange_name(segment: str) -> str:
    """An exchange as a path names it."""
    return "" if segment == DEFAULT_ALIAS else segment


async def all_exchanges(asked: HttpRequest) -> HttpAnswer:
    """The exchanges of all vhosts that the user may enter."""
    return await _exchanges(asked, None)


async def exchanges_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one vhost."""
    return await _exchanges(asked, asked["vhost"])


async def _exchanges(asked: HttpRequest, vhost: str | None) -> HttpAnswer:
    ranges = Ranges(asked.query)
    rows = await details.exchange_details(
        asked.service, asked.caller, vhost=vhost, spans=ranges.spans
    )
    return await listing(asked, rows, partial(fields.exchange, ranges=ranges))


async def one_exchange(asked: HttpRequest) -> HttpAnswer:
    """One exchange."""
    ranges = Ranges(asked.query)
    name = exchange_name(asked["exchange"])
    (row,) = await details.exchange_details(
        asked.service, asked.caller, vhost=asked["vhost"], name=name, spans=ranges.spans
    )
    shown = {**fields.exchange(row, ranges), "incoming": [], "outgoing": []}
    return ok(narrowed_one(asked, shown))


async def put_exchange(asked: HttpRequest) -> HttpAnswer:
    """Have an exchange."""
    document = asked.document()
    check_name("exchange", asked["exchange"])
    kind = document.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request(f"unknown exchange type '{kind}'")
    name = exchange_name(asked["exchange"])
    there = await is_there(asked, name)
    try:
        await topology.declare_exchange(
            asked.service,
            asked.caller,
            vhost=asked["vhost"],
            name=name,
            type=kind,
            durable=as_boolean(document, "durable"),
            auto_delete=as_boolean(document, "auto_delete"),
            internal=as_boolean(document, "internal"),
            arguments=as_table(document, "arguments"),
        )
    except Refusal as refusal:
        text = refusal.text.replace("unknown exchange type", "invalid exchange type")
        raise refused_as(refusal, PRECONDITION_FAILED, text) from None
    return put(not there)


async def is_there(asked: HttpRequest, name: str) -> bool:
    """Whether an exchange is there already."""
    try:
        await details.exchange_details(asked.service, asked.caller, vhost=asked["vhost"], name=name)
    except Refusal as refusal:
        if refusal.kind != NOT_FOUND:
            raise
        return False
    return True


async def delete_exchange(asked: HttpRequest) -> HttpAnswer:
    """Delete an exchange."""
    await topology.delete_exchange(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        name=exchange_name(asked["exchange"]),
        if_unused=asked.truth("if-unused"),
    )
    return NO_CONTENT


# --- bindings -----------------------------------------------------------------------------------


async def _shown(asked: HttpRequest, rows: list[BindingDetails]) -> HttpAnswer:
    return await listing(asked, rows, fields.binding)


async def _list_bindings(asked: HttpRequest, vhost: str | None) -> HttpAnswer:
    page = Page(asked)
    if not page.number or page.name or asked.query.get("sort"):
        rows = await details.binding_details(asked.service, asked.caller, vhost=vhost)
        return await _shown(asked, rows)
    found = await details.binding_page(
        asked.service,
        asked.caller,
        vhost=vhost,
        begin=page.begin,
        count=page.size,
        reverse=asked.truth("sort_reverse"),
    )
    page.check(found.total)
    shown = columns_of(asked, [fields.binding(row) for row in found.items])
    return ok(page.document(shown, found.total, found.total))


async def all_bindings(asked: HttpRequest) -> HttpAnswer:
    """The bindings of all vhosts that the user may enter."""
    return await _list_bindings(asked, None)


async def bindings_of_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one vhost."""
    return await _list_bindings(asked, asked["vhost"])


async def bindings_from(asked: HttpRequest) -> HttpAnswer:
    """Those that lead from an exchange."""
    rows = await details.binding_details(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        source=exchange_name(asked["exchange"]),
    )
    return await _shown(asked, rows)


async def bindings_to(asked: HttpRequest) -> HttpAnswer:
    """Those that lead to an exchange."""
    rows = await details.binding_details(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        destination=exchange_name(asked["exchange"]),
        to_exchange=True,
    )
    return await _shown(asked, rows)


def to_exchange(asked: HttpRequest) -> bool:
    """Whether a path is about bindings to an exchange.

    Raises:
        Problem: It is about neither queues nor exchanges.
    """
    kind = asked["kind"]
    if kind not in ("q", "e"):
        raise bad_request(f"a destination is q or e, not {kind}")
    return kind == "e"


async def _between(asked: HttpRequest) -> list[BindingDetails]:
    return await details.binding_details(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        source=exchange_name(asked["exchange"]),
        destination=asked["destination"],
        to_exchange=to_exchange(asked),
    )


async def bindings_between(asked: HttpRequest) -> HttpAnswer:
    """Those between two."""
    return await _shown(asked, await _between(asked))


async def bind(asked: HttpRequest) -> HttpAnswer:
    """Have a binding."""
    document = asked.document()
    # Clients that have none say so with a null.
    key = document.get("routing_key") or ""
    if not isinstance(key, str):
        raise bad_request("routing_key should be a text")
    arguments = as_table(document, "arguments")
    await topology.bind(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        source=exchange_name(asked["exchange"]),
        destination=asked["destination"],
        destination_type="exchange" if to_exchange(asked) else "queue",
        routing_key=key,
        arguments=arguments,
    )
    place = quote(details.binding_key(key, arguments), safe="~", errors="surrogateescape")
    return created(f"{quote(asked['destination'], safe='', errors='surrogateescape')}/{place}")


async def _one(asked: HttpRequest) -> BindingDetails:
    for row in await _between(asked):
        if row.key == asked["key"]:
            return row
    raise not_there()


async def one_binding(asked: HttpRequest) -> HttpAnswer:
    """One of those between two."""
    return ok(narrowed_one(asked, fields.binding(await _one(asked))))


async def unbind(asked: HttpRequest) -> HttpAnswer:
    """Have such a binding no more."""
    row = await _one(asked)
    await topology.unbind(
        asked.service,
        asked.caller,
        vhost=row.vhost,
        source=row.source,
        destination=row.destination,
        destination_type=row.destination_type,
        routing_key=row.routing_key,
        arguments=row.arguments,
    )
    return NO_CONTENT


# --- messages -----------------------------------------------------------------------------------


async def publish(asked: HttpRequest) -> HttpAnswer:
    """Publish a message."""
    document = asked.texts_and(
        PROPERTIES_JSON_BYTES_MAX, ("payload",), "routing_key", "properties", "payload_encoding"
    )
    key, given, payload, encoding = needed_to_publish(document)
    if not isinstance(payload, str):
        raise bad_request("payload_not_string")
    if not isinstance(key, str):
        raise bad_request("routing_key should be a text")
    body = decoded_payload(payload, encoding)
    properties = new_properties(given)
    try:
        routed = await messages.publish_message(
            asked.service,
            asked.caller,
            vhost=asked["vhost"],
            exchange=exchange_name(asked["exchange"]),
            routing_key=key,
            body=body,
            properties=properties,
        )
    except Refusal as refusal:
        if refusal.kind == ACCESS_REFUSED and "internal exchange" in refusal.text:
            raise bad_request(f"403 {refusal}") from None
        if refusal.kind == ACCESS_REFUSED:
            raise refused_as(refusal, ACCESS_REFUSED, str(refusal)) from None
        raise refused_as(refusal, PRECONDITION_FAILED, f"406 {refusal}") from None
    return ok({"routed": routed})


def needed_to_publish(document: dict[str, Any]) -> list[Any]:
    """What a request to publish has to say.

    Raises:
        Problem: Some of it is missing.
    """
    return needed(
        document, "routing_key", "properties", "payload", "payload_encoding", between=",\n "
    )


def decoded_payload(payload: str, encoding: object) -> bytes:
    """The bytes of a body.

    Raises:
        Problem: The encoding is not known, or the payload is not in it.
    """
    if encoding == "string":
        return payload.encode("utf-8", "surrogatepass")
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(payload, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(["not_base64", payload]) from None


def new_properties(given: object) -> GivenProperties:
    """GivenProperties as the service takes them; names that there are not are passed over.

    Raises:
        Problem: A value is not of its type.
    """
    if given == []:
        given = {}
    if not isinstance(given, dict):
        raise bad_request("properties are no object")
    values = dict(given)
    for name in NUMBERS:
        if name in values and (isinstance(values[name], bool) or not isinstance(values[name], int)):
            raise bad_request(["not_int", name])
    if "headers" in values:
        if not isinstance(values["headers"], dict):
            raise bad_request("headers are no object")
        check_table(values["headers"])
    mode = values.pop("delivery_mode", None)
    if mode is not None:
        values["persistent"] = mode == PERSISTENT
    try:
        return msgspec.convert(values, GivenProperties)
    except msgspec.ValidationError as error:
        raise bad_request(f"properties: {error}") from None


RESOURCES = [
    Resource("/api/exchanges", get=all_exchanges),
    Resource("/api/exchanges/{vhost}", get=exchanges_of_vhost),
    Resource(
        "/api/exchanges/{vhost}/{exchange}",
        get=one_exchange,
        put=put_exchange,
        delete=delete_exchange,
    ),
    Resource(
        "/api/exchanges/{vhost}/{exchange}/publish",
        post=publish,
        body_bytes_max=PUBLISH_BYTES_MAX,
    ),
    Resource("/api/exchanges/{vhost}/{exchange}/bindings/source", get=bindings_from),
    Resource("/api/exchanges/{vhost}/{exchange}/bindings/destination", get=bindings_to),
    Resource("/api/bindings", get=all_bindings),
    Resource("/api/bindings/{vhost}", get=bindings_of_vhost),
    Resource(
        "/api/bindings/{vhost}/e/{exchange}/{kind}/{destination}", get=bindings_between, post=bind
    ),
    Resource(
        "/api/bindings/{vhost}/e/{exchange}/{kind}/{destination}/{key}",
        get=one_binding,
        delete=unbind,
    ),
]
