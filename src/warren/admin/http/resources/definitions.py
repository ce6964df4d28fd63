"""Definitions: what was declared, written down, and read in again."""

from __future__ import annotations

import asyncio
import logging
import re
from codecs import BOM_UTF8
from typing import Any

import msgspec

from warren.admin.compatible import PRODUCT, RABBITMQ_VERSION
from warren.admin.http.answers import NO_CONTENT, HttpAnswer
from warren.admin.http.asked import HttpRequest, Resource
from warren.admin.http.errors import Problem, bad_request, problem
from warren.admin.http.multipart import fields_of, is_multipart
from warren.admin.service import definitions, details
from warren.admin.service.caller import NotAuthorised
from warren.admin.service.definition_items import KINDS
from warren.admin.service.definition_items import VERSIONS as WRITTEN_BY
from warren.admin.service.slices import Slices
from warren.errors import NO_MAJORITY, NOT_FOUND, TIMED_OUT, Refusal
from warren.metadata.arguments import QUEUE_TYPE
from warren.queue_types import DEFAULT

log = logging.getLogger("warren")

DEFINITIONS_BYTES_MAX = 20_000_000
"""RabbitMQ's `management.http.max_body_size`."""

PARTS_MAX = 16
VERSION_BYTES_MAX = 64
FILE = "file"
"""The part that has the definitions where a body has parts."""
DOWNLOAD = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""Names of files that a header can have as they are."""

VERSIONS = {"rabbit_version": RABBITMQ_VERSION, "rabbitmq_version": RABBITMQ_VERSION}


async def export(asked: HttpRequest) -> HttpAnswer:
    """All definitions."""
    headers = _as_download(asked)
    found = await definitions.export_definitions(asked.service, asked.caller)
    return HttpAnswer(200, {**await tidied(found), **VERSIONS}, headers)


async def export_vhost(asked: HttpRequest) -> HttpAnswer:
    """Those of one vhost."""
    name = asked["vhost"]
    headers = _as_download(asked)
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
    return HttpAnswer(200, {**head, **await tidied(found)}, headers)


def _as_download(asked: HttpRequest) -> dict[str, str]:
    """The header that has a browser save an answer, if the query names a file."""
    name = asked.query.get("download")
    if name is None:
        return {}
    if DOWNLOAD.fullmatch(name) is None:
        raise bad_request("download names a file in letters, digits and signs such as . - _")
    return {"content-disposition": f"attachment; filename={name}"}


async def tidied(found: dict[str, Any]) -> dict[str, Any]:
    """Definitions with the types of queues beside their arguments, as RabbitMQ writes them."""
    slices = Slices()
    for queue in found.get("queues", []):
        queue["type"] = queue["arguments"].get(QUEUE_TYPE, DEFAULT.name)
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
    if vhost and vhost not in asked.service.machine.vhosts:
        raise Problem(problem(404, "not_found", "vhost_not_found"))
    given = await decoded(await _sent(asked))
    try:
        done = await definitions.import_definitions(
            asked.service, asked.caller, definitions=given, vhost=vhost
        )
    except Refusal as refusal:
        if refusal.kind in (NO_MAJORITY, TIMED_OUT) or isinstance(refusal, NotAuthorised):
            raise
        log.error("definitions of user '%s': %s", asked.caller.name, refusal.text)
        raise bad_request(refusal.text) from None
    for skipped in done.skipped:
        log.warning("definitions of user '%s': left out: %s", asked.caller.name, skipped)
    return NO_CONTENT


async def _sent(asked: HttpRequest) -> bytes:
    """The definitions out of a body, which may be the file of a form.

    Raises:
        Problem: It is a form without a file, or none.
    """
    content_type = asked.headers.get("content-type", "")
    if not is_multipart(content_type):
        return asked.body
    try:
        fields = await asyncio.to_thread(fields_of, asked.body, content_type, PARTS_MAX)
    except ValueError:
        raise bad_request("the form has too many parts, or is broken") from None
    content = dict(fields).get(FILE)
    if content is None:
        raise bad_request(f"the form has no part '{FILE}' with definitions")
    return content


async def decoded(body: bytes) -> dict[str, Any]:
    """Definitions out of a body, in slices: they may have a great many things.

    What an import does not read is left out.

    Raises:
        Problem: It is no JSON object, or a kind of things is no list.
    """
    body = body.removeprefix(BOM_UTF8)
    if not body:
        return {}
    try:
        # This is a look for where values begin and end, at a gigabyte a second.
        raw = await asyncio.to_thread(msgspec.json.decode, body, type=dict[str, msgspec.Raw])
        found: dict[str, Any] = {}
        slices = Slices()
        for name, value in raw.items():
            first = bytes(memoryview(value)[:1])
            if name in WRITTEN_BY and len(value) < VERSION_BYTES_MAX:
                found[name] = msgspec.json.decode(value)
            if name not in KINDS or first == b"n":
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
    Resource("/api/all-configuration", get=export, post=load, body_bytes_max=DEFINITIONS_BYTES_MAX),
    Resource(
        "/api/definitions/{vhost}",
        get=export_vhost,
        post=load_vhost,
        body_bytes_max=DEFINITIONS_BYTES_MAX,
    ),
]
