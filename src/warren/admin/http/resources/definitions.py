"""Definitions: what was declared, written down, and read in again."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok
from warren.admin.http.asked import HttpRequest, Resource
from warren.admin.http.compatible import PRODUCT, RABBITMQ_VERSION
from warren.admin.http.errors import bad_request
from warren.admin.service import definitions, details
from warren.admin.service.slices import Slices
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.metadata.arguments import QUEUE_TYPE
from warren.queue_types import DEFAULT

DEFINITIONS_BYTES_MAX = 20_000_000
"""RabbitMQ's `management.http.max_body_size`."""

VERSIONS = {"rabbit_version": RABBITMQ_VERSION, "rabbitmq_version": RABBITMQ_VERSION}


async def export(asked: HttpRequest) -> HttpAnswer:
    """All definitions."""
    found = await definitions.export_definitions(asked.service, asked.caller)
    return ok({**await tidied(found), **VERSIONS})


async def export_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one vhost."""
    name = asked["vhost"]
    try:
        row = await details.one_vhost(asked.service, asked.caller, vhost=name)
    except Refusal as refusal:
        if refusal.kind != NOT_FOUND:
            raise
        raise bad_request("vhost_not_found") from None
    found = await definitions.export_definitions(asked.service, asked.caller, vhost=name)
    limits = await details.visible_vhost_limits(asked.service, asked.caller)
    metadata = {
        "description": row.description,
        "tags": row.tags,
        "default_queue_type": row.default_queue_type,
    }
    head = {
        **VERSIONS,
        "product_name": PRODUCT,
        "product_version": asked.service.host.state().version,
        "rabbitmq_definition_format": "single_virtual_host",
        "original_vhost_name": name,
        "explanation": f"Definitions of virtual host '{name}'",
        "description": row.description,
        "metadata": metadata,
        "limits": next((each.limits for each in limits if each.vhost == name), {}),
    }
    return ok({**head, **await tidied(found)})


async def tidied(found: dict[str, Any]) -> dict[str, Any]:
    """Definitions with the types of queues beside their arguments, as RabbitMQ writes them."""
    slices = Slices()
    for queue in found.get("queues", []):
        queue["type"] = queue["arguments"].get(QUEUE_TYPE, DEFAULT.name)
        await slices.breathe()
    for exchange in found.get("exchanges", []):
        if not exchange["internal"]:
            del exchange["internal"]
        await slices.breathe()
    return found


async def load(asked: HttpRequest) -> HttpAnswer:
    """Have all that definitions say."""
    return await _load(asked, "")


async def load_vhost(asked: HttpRequest) -> HttpAnswer:
    """Have all that definitions of one vhost say."""
    return await _load(asked, asked["vhost"])


async def _load(asked: HttpRequest, vhost: str) -> HttpAnswer:
    # Only those who may import have up to 20 MB decoded.
    asked.permit(definitions.import_definitions)
    given = await decoded(asked.body)
    try:
        await definitions.import_definitions(
            asked.service, asked.caller, definitions=given, vhost=vhost
        )
    except Refusal as refusal:
        if refusal.kind not in (NOT_FOUND, PRECONDITION_FAILED):
            raise
        raise bad_request(refusal.text) from None
    return NO_CONTENT


async def decoded(body: bytes) -> dict[str, Any]:
    """Definitions out of a body, in slices: they may have a great many things.

    What an import does not read, such as the version that wrote them, is left out.

    Raises:
        Problem: It is no JSON object, or a kind of things is no list.
    """
    if not body:
        return {}
    try:
        # This is a look for where values begin and end, at a gigabyte a second.
        raw = await asyncio.to_thread(msgspec.json.decode, body, type=dict[str, msgspec.Raw])
        found: dict[str, Any] = {}
        slices = Slices()
        for name, value in raw.items():
            first = bytes(memoryview(value)[:1])
            if name not in definitions.KINDS or first == b"n":
                continue
            if first != b"[":
                raise bad_request(f"{name} of the definitions: a list is expected")
            items = await asyncio.to_thread(msgspec.json.decode, value, type=list[msgspec.Raw])
            found[name] = []
            for item in items:
                found[name].append(msgspec.json.decode(item))
                await slices.breathe()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request("failed_to_parse_json") from None
    return found


RESOURCES = [
    Resource("/api/definitions", get=export, post=load, body_bytes_max=DEFINITIONS_BYTES_MAX),
    Resource(
        "/api/definitions/{vhost}",
        get=export_vhost,
        post=load_vhost,
        body_bytes_max=DEFINITIONS_BYTES_MAX,
    ),
]
