"""What is done with every request: its path and method, who asks, its body, the answer, its time.

Paths are matched as they came, segment by segment, so that `%2F` is a vhost and no separator.
"""

from __future__ import annotations

import contextlib
import logging
from urllib.parse import quote, unquote_to_bytes

from starlette.routing import Match, Route, Router
from starlette.types import Receive, Scope, Send

from warren.admin.http.answers import JSON, PLAIN, HttpAnswer, Text, gathered, parts_of
from warren.admin.http.asked import HttpRequest, Resource, decoded
from warren.admin.http.authentication import authenticate
from warren.admin.http.bodies import Bodies, Body, ClientGone
from warren.admin.http.errors import NOT_THERE, Problem, of_refusal, problem
from warren.admin.http.resources.catalogue import RESOURCES
from warren.admin.http.same_site import check_same_site, parsed_query
from warren.admin.service.caller import NO_VHOST
from warren.admin.service.service import AdminService
from warren.admin.service.slices import give_way
from warren.errors import NOT_FOUND, Refusal

log = logging.getLogger("warren")

HEADERS = (
    (b"cache-control", b"no-cache"),
    (b"content-security-policy", b"script-src 'self'; object-src 'self'"),
    (b"vary", b"accept, accept-encoding, origin"),
    (b"x-content-type-options", b"nosniff"),
)
SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}


class Application:
    """Answers requests of HTTP for one node; an application of ASGI."""

    def __init__(self, service: AdminService) -> None:
        bodies = Bodies()
        self._router = Router(
            [
                Route(resource.path, endpoint=ResourceEndpoint(service, resource, bodies))
                for resource in RESOURCES
            ],
            redirect_slashes=False,
        )
        # Only here: it takes memory, which a node that answers nobody over HTTP saves.
        from warren.admin.ui.application import WebPages

        self._pages = WebPages(service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        # To find out what is asked for, and by whom, is a part of the work.
        await give_way()
        path = canonical(scope["raw_path"])
        scope = {**scope, "path": path, "root_path": ""}
        if self._pages.answers(scope):
            await self._pages(scope, receive, send)
            return
        for route in self._router.routes:
            match, found = route.matches(scope)
            if match != Match.NONE:
                scope.update(found)
                await route.handle(scope, receive, send)
                return
        answer = NOT_THERE if scope["method"] in SAFE_METHODS else HttpAnswer(405)
        await respond(answer, "HEAD, GET, OPTIONS", scope, send)


def canonical(raw_path: bytes) -> str:
    """A path in the one form in which routes know it: encoded alike, and with no slash behind."""
    segments = [
        quote(unquote_to_bytes(segment), safe="-._~@!$'()*,;:&=+")
        for segment in raw_path.rstrip(b"/").split(b"/")
    ]
    return "/".join(segments) or "/"


class ResourceEndpoint:
    """Answers the requests of one resource; an application of ASGI."""

    def __init__(self, service: AdminService, resource: Resource, bodies: Bodies) -> None:
        self._service = service
        self._resource = resource
        self._bodies = bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        allow = self._resource.allow
        if scope["method"] == "OPTIONS":
            await respond(HttpAnswer(200), allow, scope, send)
            return
        body = Body(self._bodies, self._resource.body_bytes_max)
        try:
            answer = await self._answer(scope, receive, body)
        except Problem as wrong:
            answer = wrong.answer
        except Refusal as refusal:
            changes = scope["method"] in ("POST", "PUT")
            vhost = decoded(scope["path_params"].get("vhost", ""))
            if refusal.kind == NOT_FOUND and vhost and vhost not in self._service.machine.vhosts:
                refusal = Refusal(NOT_FOUND, NO_VHOST)
            answer = of_refusal(refusal, changes)
        except ClientGone:
            return
        except Exception:
            log.exception("HTTP request %s %s failed", scope["method"], scope["path"])
            answer = problem(500, "internal_server_error", "the node failed; its log says how")
        finally:
            body.let_go()
        await respond(answer, allow, scope, send)

    async def _answer(self, scope: Scope, receive: Receive, body: Body) -> HttpAnswer:
        resource = self._resource
        handler = resource.methods.get(scope["method"])
        if handler is None:
            return HttpAnswer(405)
        accepted = dict(scope["headers"]).get(b"accept", b"*/*")
        if not any(kind in accepted for kind in resource.accepted):
            return HttpAnswer(406)
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        client = scope.get("client") or ("", 0)
        caller = await authenticate(self._service, headers.get("authorization"), client[0])
        if scope["method"] not in SAFE_METHODS:
            check_same_site(headers)
        variables = {name: decoded(text) for name, text in scope["path_params"].items()}
        query = parsed_query(scope["query_string"])
        content = await body.read(receive, headers.get("content-length", "0"))
        return await handler(HttpRequest(self._service, caller, variables, query, headers, content))


async def respond(answer: HttpAnswer, allow: str, scope: Scope, send: Send) -> None:
    """Send an answer, no faster than the client takes it."""
    headers = [*HEADERS, (b"allow", allow.encode())]
    headers += [(name.encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
    first = b""
    async with contextlib.AsyncExitStack() as stack:
        parts = None
        if answer.body is not None:
            media = PLAIN if isinstance(answer.body, Text) else JSON
            headers.append((b"content-type", media.encode()))
            encoded = gathered(parts_of(answer.body))
            parts = await stack.enter_async_context(contextlib.aclosing(encoded))
            first = await anext(parts)
            # What fits into one part has a length; of longer answers it would have to be in memory.
            second = await anext(parts, None)
        else:
            second = None
        if second is None and answer.status != 204:
            headers.append((b"content-length", str(len(first)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        more = second is not None
        await send({"type": "http.response.body", "body": first, "more_body": more})
        if parts is None or second is None:
            return
        await send({"type": "http.response.body", "body": second, "more_body": True})
        if scope["method"] != "HEAD":
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
