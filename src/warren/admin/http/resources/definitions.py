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
from warren.metadata.json_scan import JsonScan
from warren.queue_types import DEFAULT

log = logging.getLogger("warren")

DEFINITIONS_BYTES_MAX = 20_000_000
"""RabbitMQ's `management.http.max_body_size`."""

PARTS_MAX = 16
VERSION_BYTES_MAX = 64
ITEM_BYTES_MAX = 262_144
"""What is decoded in one go: some tens of milliseconds at the most. Larger ones have more in them
than arguments, policies and parameters may have."""
NAMES_MAX = 1_000
BLANKS = re.compile(rb"[ \t\r\n]*")
NO_JSON = "failed_to_parse_json"
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
    """Definitions out of a body, item by item and in slices: they may have a great many.

    What an import does not read is left out.

    Raises:
        Problem: It is no JSON object, a kind of things is no list, or an item is too large.
    """
    body = body.removeprefix(BOM_UTF8)
    if not body:
        return {}
    try:
        return await DefinitionsText(body).all()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise bad_request(NO_JSON) from None


class DefinitionsText:
    """A text with definitions, which is read item by item."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0
        self._slices = Slices()

    async def all(self) -> dict[str, Any]:
        """All that an import reads.

        Raises:
            Problem, msgspec.DecodeError: It is not what definitions are.
        """
        found: dict[str, Any] = {}
        names = 0
        self._pass(b"{")
        while self._more(b"}", names == 0):
            names += 1
            if names > NAMES_MAX:
                raise bad_request(f"definitions have at most {NAMES_MAX} kinds of things")
            name = msgspec.json.decode(await self._value("names"), type=str)
            self._pass(b":")
            first = self._sign()
            if name not in KINDS or first == b"n":
                value = await self._passed()
                if name in WRITTEN_BY and len(value) < VERSION_BYTES_MAX:
                    found[name] = msgspec.json.decode(value)
            elif first == b"[":
                found[name] = await self._items(name)
            else:
                raise bad_request(f"{name} of the definitions: a list is expected")
        if self._sign():
            raise bad_request(NO_JSON)
        return found

    async def _items(self, kind: str) -> list[Any]:
        """The things of a list."""
        items: list[Any] = []
        self._pass(b"[")
        while self._more(b"]", not items):
            items.append(msgspec.json.decode(await self._value(kind)))
        return items

    async def _value(self, kind: str) -> memoryview:
        """The value that comes next, which is to be decoded."""
        self._sign()
        scan = JsonScan(self._body, self._at)
        if not scan.go_on(ITEM_BYTES_MAX):
            if scan.ended():
                raise bad_request(NO_JSON)
            text = f"{kind} of the definitions: an item has more than {ITEM_BYTES_MAX} bytes"
            raise bad_request(text)
        await self._slices.breathe()
        return self._up_to(scan)

    async def _passed(self) -> memoryview:
        """The value that comes next, of which nothing but a version is read."""
        scan = JsonScan(self._body, self._at)
        while not scan.go_on(ITEM_BYTES_MAX):
            if scan.ended():
                raise bad_request(NO_JSON)
            await self._slices.breathe()
        return self._up_to(scan)

    def _up_to(self, scan: JsonScan) -> memoryview:
        at, self._at = self._at, int(scan.at)
        return memoryview(self._body)[at : self._at]

    def _more(self, end: bytes, first: bool) -> bool:
        """Whether there is one more thing before a sign that ends them."""
        if self._sign() == end:
            self._at += 1
            return False
        if not first:
            self._pass(b",")
        return True

    def _pass(self, sign: bytes) -> None:
        """Go on behind a sign."""
        if self._sign() != sign:
            raise bad_request(NO_JSON)
        self._at += 1

    def _sign(self) -> bytes:
        """The next sign that is no blank; empty at the end."""
        blanks = BLANKS.match(self._body, self._at)
        assert blanks is not None, "none are some, too"
        self._at = blanks.end()
        return self._body[self._at : self._at + 1]


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
