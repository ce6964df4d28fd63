"""Scrapes over HTTP: which path answers with what, to whom, and how much of it at a time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qsl

from starlette.types import Receive, Scope, Send

from warren.admin.http.answers import gathered
from warren.admin.http.authentication import authenticate
from warren.admin.http.errors import Problem
from warren.admin.metrics.about import Telemetry, identity
from warren.admin.metrics.exposition import CONTENT_TYPE, written
from warren.admin.service.caller import ADMINISTRATOR, MONITORING
from warren.admin.service.metrics import scrapes
from warren.admin.service.metrics.gathering import Wanted
from warren.admin.service.metrics.samples import Series
from warren.admin.service.service import AdminService
from warren.admin.service.sought import SoughtPattern
from warren.errors import Refusal
from warren.metadata.patterns import PatternError

log = logging.getLogger("warren")

SCRAPES_MAX: Final = 4
"""Scrapes under way; each has what it read in memory until the client has taken it."""
SCRAPE_SECONDS: Final = 60.0
"""For a client to take all of one."""
QUERY_FIELDS_MAX: Final = 1_000
PATTERN_CHARACTERS_MAX: Final = 2_000
CHALLENGE: Final = (b"www-authenticate", b'Basic realm="RabbitMQ Prometheus"')
ALLOW: Final = (b"allow", b"HEAD, GET, OPTIONS")
VARY: Final = (b"vary", b"accept-encoding")
PLAIN: Final = (b"content-type", CONTENT_TYPE.encode())
REFUSAL: Final = (b"content-type", b"text/plain")
DEFAULT: Final = "default"
PER_OBJECT: Final = "per-object"
DETAILED: Final = "detailed"
AGGREGATED: Final = "aggregated"
"""How the metrics of a path are called that is none of these."""


class Refused(Exception):
    """A request that is not answered as asked; with the status, and why."""

    def __init__(self, status: int, text: str = "", *headers: tuple[bytes, bytes]) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


class MetricsApplication:
    """Answers scrapes of one node; an application of ASGI."""

    def __init__(self, service: AdminService, path: str, each: bool, authenticates: bool) -> None:
        """
        Args:
            path: Under which metrics are.
            each: Whether the path itself answers as `per-object` below it does.
            authenticates: Whether clients have to say who they are, and may monitor.
        """
        self._service = service
        self._path = path.strip("/")
        self._authenticates = authenticates
        self._telemetry: dict[str, Telemetry] = {}
        self._reading = asyncio.Lock()
        self._under_way = 0
        whole: Callable[[AdminService], Awaitable[list[Series]]] = (
            scrapes.per_object if each else scrapes.aggregated
        )
        self._readers = {DEFAULT: whole, PER_OBJECT: scrapes.per_object}
        self._default = PER_OBJECT if each else AGGREGATED

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            await self._answer(scope, send)
        except Refused as refused:
            body = str(refused).encode()
            headers = [*refused.headers, (b"content-length", str(len(body)).encode())]
            if body:
                headers.append(REFUSAL)
            await _begin(send, refused.status, headers)
            await send({"type": "http.response.body", "body": body, "more_body": False})

    async def _answer(self, scope: Scope, send: Send) -> None:
        registry = self._registry_of(scope["path"])
        if scope["method"] == "OPTIONS":
            raise Refused(200)
        if scope["method"] not in ("GET", "HEAD"):
            raise Refused(405)
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        accepted = headers.get(b"accept", "*/*")
        if not any(kind in accepted for kind in ("*/*", "text/*", "text/plain")):
            raise Refused(406)
        await self._check_caller(headers.get(b"authorization"), scope)
        if registry not in (*self._readers, DETAILED):
            raise Refused(404, "Unknown Registry")
        asked, wanted = asked_of(scope["query_string"], self._service)
        if scope["method"] == "HEAD":
            # To know how long it is all of it would have to be read.
            raise Refused(204)
        if self._under_way >= SCRAPES_MAX:
            raise Refused(503, "too many scrapes at once", (b"retry-after", b"1"))
        self._under_way += 1
        try:
            async with asyncio.timeout(SCRAPE_SECONDS):
                await self._scrape(registry, asked, wanted, send)
        finally:
            self._under_way -= 1

    async def _scrape(self, registry: str, asked: list[str], wanted: Wanted, send: Send) -> None:
        """Read what is asked for, and send it, no faster than the client takes it."""
        began = time.perf_counter()
        telemetry = self._telemetry.setdefault(registry, Telemetry(registry))
        # One reads at a time, so that clients of the broker wait for one slice, and not for some.
        async with self._reading:
            if registry == DETAILED:
                try:
                    series = await scrapes.detailed(self._service, asked, wanted)
                except Refusal as refusal:
                    raise Refused(400, f"Invalid 'queue' regex: {refusal.text}") from None
            else:
                series = await self._readers[registry](self._service)
        endpoint = self._default if registry == DEFAULT else registry
        series += identity(self._service, endpoint) + telemetry.series()
        await _begin(send, 200, [PLAIN])
        size = 0
        async for part in gathered(written(series)):
            size += len(part)
            await send({"type": "http.response.body", "body": part, "more_body": True})
        telemetry.add(time.perf_counter() - began, size)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _registry_of(self, path: str) -> str:
        """The part of a path behind that of metrics."""
        segments = path.strip("/").split("/")
        if self._path:
            if segments[0] != self._path:
                raise Refused(404)
            segments = segments[1:]
        if len(segments) > 1:
            raise Refused(404)
        return segments[0] if segments and segments[0] else DEFAULT

    async def _check_caller(self, header: str | None, scope: Scope) -> None:
        """See who asks, where that matters."""
        if not self._authenticates:
            return
        client = scope.get("client") or ("", 0)
        try:
            caller = await authenticate(self._service, header, client[0])
        except Problem as problem:
            raise Refused(problem.answer.status, "", CHALLENGE) from None
        if not caller.tags & {ADMINISTRATOR, MONITORING}:
            raise Refused(401, "", CHALLENGE)


async def _begin(send: Send, status: int, headers: list[tuple[bytes, bytes]]) -> None:
    await send(
        {"type": "http.response.start", "status": status, "headers": [ALLOW, VARY, *headers]}
    )


def asked_of(query: bytes, service: AdminService) -> tuple[list[str], Wanted]:
    """The groups of families that a query names, and what of them is wanted.

    Raises:
        Refused: It has too many fields, or an expression that is none.
    """
    try:
        fields = parse_qsl(
            query.decode("latin-1"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError:
        raise Refused(400, "too many fields in the query") from None
    vhosts = [value for name, value in fields if name == "vhost"]
    patterns = [value for name, value in fields if name == "queue"]
    if len(patterns) > 1:
        raise Refused(400, "Only one 'queue' query parameter is allowed")
    wanted = Wanted(frozenset(vhosts) if vhosts else None)
    if patterns and patterns[0]:
        if len(patterns[0]) > PATTERN_CHARACTERS_MAX:
            raise Refused(400, "'queue' regex too long")
        try:
            wanted = wanted._replace(queues=SoughtPattern(patterns[0]).found_in)
        except PatternError as error:
            raise Refused(400, f"Invalid 'queue' regex: {error}") from None
    return [value for name, value in fields if name == "family"], wanted
