"""What is done with every request of a page: who asks, its form, what is drawn and sent.

Requests are told apart by their paths as they came, as the API's are; `/api` is the API's.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, urlsplit

from starlette.routing import Match, Route, Router
from starlette.types import Receive, Scope, Send

from warren.admin.http.authentication import MAY_MANAGE
from warren.admin.http.bodies import BODY_SECONDS, Bodies, Body, ClientGone
from warren.admin.http.errors import Problem
from warren.admin.http.multipart import is_multipart
from warren.admin.http.same_site import check_same_site, parsed_query
from warren.admin.service.caller import NotAuthorised
from warren.admin.service.logins import log_in, network_of
from warren.admin.service.service import AdminService
from warren.admin.service.status import cluster_name
from warren.admin.ui import columns
from warren.admin.ui.asking import (
    SURE,
    TYPED,
    Download,
    PageRequest,
    Shown,
    WebPage,
    WentOn,
)
from warren.admin.ui.drawing import Drawing
from warren.admin.ui.forms import SentForm, read_form
from warren.admin.ui.moves import Moves
from warren.admin.ui.names import unpacked
from warren.admin.ui.other_nodes import OtherNodes
from warren.admin.ui.pages.catalogue import AREAS, PAGES
from warren.admin.ui.sessions import IDLE_SECONDS, BrowserSession, Sessions
from warren.admin.ui.static_files import StaticFiles
from warren.admin.ui.wrong import Again, Question, Wrong, reason_of

log = logging.getLogger("warren")

COOKIE: Final = "warren-session"
LOGIN_BYTES_MAX: Final = 16_384
LOGIN_SECONDS: Final = 10.0
"""For the form of a login to come, whole: whose it is, is not known before."""
LOGINS_MAX: Final = 20
"""Such forms that may be on their way from one address."""
Headers = list[tuple[bytes, bytes]]

SECURITY: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
NOT_KEPT: Final = (b"cache-control", b"no-store")
KEPT: Final = (b"cache-control", b"max-age=31536000, immutable")
HTML: Final = "text/html; charset=utf-8"
SAFE: Final = ("GET", "HEAD")


class WebPages:
    """Answers requests of pages for one node; an application of ASGI."""

    def __init__(self, service: AdminService) -> None:
        self._service = service
        self._bodies = Bodies()
        self._sessions = Sessions()
        self._drawing = Drawing()
        self._static = StaticFiles()
        self._moves = Moves()
        self._logging_in: Counter[str] = Counter()
        self._others = OtherNodes(service)
        self._router = Router(
            [Route(page.path, endpoint=PageEndpoint(self, page)) for page in PAGES],
            redirect_slashes=False,
        )

    def answers(self, scope: Scope) -> bool:
        """Whether a request is for pages: the path is one's, or a browser has come astray."""
        path: str = scope["path"]
        if path == "/api" or path.startswith("/api/"):
            return False
        if path == "/login" or path.startswith("/static/"):
            return True
        if any(route.matches(scope)[0] != Match.NONE for route in self._router.routes):
            return True
        return "text/html" in headers_of(scope).get("accept", "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, whose path is in its canonical form."""
        path: str = scope["path"]
        body = Body(self._bodies, LOGIN_BYTES_MAX)
        try:
            if path.startswith("/static/"):
                await self._send_static(path.removeprefix("/static/"), scope, send)
            elif path == "/login":
                await self._log_in(scope, receive, send, body)
            else:
                await self._show(scope, receive, send)
        except ClientGone:
            return
        except Problem as problem:
            status, said = (
                problem.answer.status,
                reason_of(problem.answer.status, problem.answer.body),
            )
            await self.send_plain(status, said, scope, send)
        except Exception:
            log.exception("page %s %s failed", scope["method"], path)
            await self.send_plain(500, FAILED, scope, send)
        finally:
            body.let_go()

    async def _show(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = self._session(scope)
        caller = None if session is None else session.caller(self._service)
        if session is None or caller is None:
            where = scope["path"]
            if scope["query_string"]:
                where += "?" + scope["query_string"].decode("latin-1")
            to = "/login" if where == "/" else f"/login?to={quote(where, safe='')}"
            await self.redirect(to, scope, send)
            return
        query = parsed_query(scope["query_string"])
        asked = PageRequest(self._service, session, caller, {}, query, scope["path"], self._moves)
        if not caller.tags & MAY_MANAGE:
            await self.send_wrong(asked, Wrong(403, NO_TAG), scope, send)
            return
        asked.columns = next(cookies(scope, columns.COOKIE), "")
        asked.since = await self._others.since()
        scope["asked"] = asked
        for route in self._router.routes:
            match, found = route.matches(scope)
            if match != Match.NONE:
                scope.update(found)
                variables = scope["path_params"].items()
                asked.variables = {name: unpacked(text) for name, text in variables}
                await route.handle(scope, receive, send)
                return
        await self.send_wrong(asked, Wrong(404, "There is no such page."), scope, send)

    # --- logging in -----------------------------------------------------------------------------

    def _session(self, scope: Scope) -> BrowserSession | None:
        for value in cookies(scope, cookie_name(scope)):
            found = self._sessions.find(value)
            if found is not None:
                return found
        return None

    async def _log_in(self, scope: Scope, receive: Receive, send: Send, body: Body) -> None:
        query = parsed_query(scope["query_string"])
        to = local(query.get("to", "/"))
        if scope["method"] in SAFE:
            await self._send_login(200, "", "", to, scope, send)
            return
        if scope["method"] != "POST":
            await self.send_plain(405, "A login is posted.", scope, send)
            return
        check_same_site(headers_of(scope))
        client = scope.get("client") or ("", 0)
        network = network_of(client[0])
        if self._logging_in[network] >= LOGINS_MAX:
            busy = [(b"connection", b"close")]
            await self.respond(503, MANY_LOGINS.encode(), TEXT, scope, send, busy)
            return
        self._logging_in[network] += 1
        try:
            form = await self.read_form(scope, receive, body, LOGIN_SECONDS)
        except Wrong as wrong:
            await self._send_login(wrong.status, wrong.text, "", to, scope, send)
            return
        finally:
            self._logging_in[network] -= 1
            if not self._logging_in[network]:
                del self._logging_in[network]
        name = form.text("username")
        caller = await log_in(self._service, name, form.text("password"), client[0])
        if caller is None or not caller.tags & MAY_MANAGE:
            text = NO_LOGIN if caller is None else NO_TAG
            await self._send_login(403, text, name, to, scope, send)
            return
        before = self._session(scope)
        if before is not None:
            self._sessions.end(before.token)
        session = self._sessions.begin(self._service, caller)
        await self.redirect(to, scope, send, [cookie_header(scope, session.token)])

    async def _send_login(
        self, status: int, error: str, user: str, to: str, scope: Scope, send: Send
    ) -> None:
        values = {
            "error": error,
            "user": user,
            "to": quote(to, safe=""),
            "cluster": cluster_name(self._service),
            "static_version": self._static.version,
        }
        content = await self._drawing.draw("login.html", values)
        await self.respond(status, content, HTML, scope, send)

    async def log_out(self, asked: PageRequest, scope: Scope, send: Send) -> None:
        """End a session."""
        self._sessions.end(asked.session.token)
        await self.redirect("/login", scope, send, [cookie_header(scope, "", 0)])

    # --- answers --------------------------------------------------------------------------------

    async def read_form(
        self, scope: Scope, receive: Receive, body: Body, seconds: float = BODY_SECONDS
    ) -> SentForm:
        """The form that a request brings, in so much time.

        Raises:
            Wrong: It is no form.
            Problem: It is too large, or too slow.
        """
        headers = headers_of(scope)
        content = await body.read(receive, headers.get("content-length", "0"), seconds)
        return await read_form(content, headers.get("content-type", ""))

    def new_body(self, most: int) -> Body:
        """Begin to wait for a form."""
        return Body(self._bodies, most)

    async def send_shown(
        self, asked: PageRequest, shown: Shown, scope: Scope, send: Send, status: int = 200
    ) -> None:
        """Answer with a page."""
        area = asked.path.split("/")[1]
        values: dict[str, Any] = {
            "asked": asked,
            "form": asked.form,
            "error": asked.error,
            "notices": asked.session.take_notices(),
            "areas": [each for each in AREAS if each.is_for(asked)],
            "area": next((each.path for each in AREAS if area in each.names), ""),
            "cluster": cluster_name(self._service),
            "node": self._service.own_name,
            "other_nodes": await self._others.addresses() if asked.monitors else [],
            "version": self._service.host.state().version,
            "static_version": self._static.version,
            **shown.values,
        }
        content = await self._drawing.draw(shown.template, values)
        await self.respond(status, content, HTML, scope, send)

    async def send_wrong(self, asked: PageRequest, wrong: Wrong, scope: Scope, send: Send) -> None:
        """Answer that there is no page to be shown, and why."""
        asked.error = ""
        shown = Shown("wrong.html", status=wrong.status, text=wrong.text)
        await self.send_shown(asked, shown, scope, send, wrong.status)

    async def send_question(
        self, asked: PageRequest, question: Question, scope: Scope, send: Send
    ) -> None:
        """Answer with a question, and the form once more for who means it."""
        fields = [pair for pair in asked.form.fields if pair[0] not in ("token", SURE, TYPED)]
        shown = Shown("question.html", question=question, fields=fields)
        await self.send_shown(asked, shown, scope, send)

    async def send_plain(self, status: int, text: str, scope: Scope, send: Send) -> None:
        """Answer in a sentence."""
        await self.respond(status, text.encode("utf-8", "replace"), TEXT, scope, send)

    async def redirect(
        self, to: str, scope: Scope, send: Send, headers: Iterable[tuple[bytes, bytes]] = ()
    ) -> None:
        """Have the browser go on."""
        there = (b"location", to.encode("latin-1", "replace"))
        await self.respond(303, b"", TEXT, scope, send, [there, *headers])

    async def _send_static(self, name: str, scope: Scope, send: Send) -> None:
        found = self._static.find(name)
        if found is None or scope["method"] not in SAFE:
            await self.send_plain(404, "There is no such file.", scope, send)
            return
        await self.respond(200, found[1], found[0], scope, send, [KEPT])

    async def send_file(self, file: Download, scope: Scope, send: Send) -> None:
        """Answer with a file to be kept."""
        disposition = (b"content-disposition", f'attachment; filename="{file.name}"'.encode())
        await self.respond(200, file.content, "application/json", scope, send, [disposition])

    async def respond(
        self,
        status: int,
        content: bytes,
        kind: str,
        scope: Scope,
        send: Send,
        further: Iterable[tuple[bytes, bytes]] = (),
    ) -> None:
        """Send an answer."""
        headers: Headers = [*SECURITY, *further, (b"content-type", kind.encode())]
        if KEPT not in headers:
            headers.append(NOT_KEPT)
        headers.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else content
        await send({"type": "http.response.body", "body": body})


FAILED: Final = "The node failed here; its log says how."
NO_LOGIN: Final = "This name and password do not fit, or the user may not log in from here."
MANY_LOGINS: Final = "Too many logins from this address are half sent: try again later."
NO_TAG: Final = (
    "This user has none of the tags management, policymaker, monitoring and administrator, "
    "and so sees no pages."
)
TEXT: Final = "text/plain; charset=utf-8"


class PageEndpoint:
    """Answers the requests of one page; an application of ASGI."""

    def __init__(self, pages: WebPages, page: WebPage) -> None:
        self._pages = pages
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of someone who is logged in."""
        asked: PageRequest = scope["asked"]
        try:
            has_file = is_multipart(headers_of(scope).get("content-type", ""))
            most = self._page.form_bytes_max(asked, has_file)
        except NotAuthorised as refusal:
            await self._pages.send_wrong(asked, Wrong(403, refusal.text), scope, send)
            return
        body = self._pages.new_body(most)
        try:
            await self._answer(asked, scope, receive, send, body)
        except Wrong as wrong:
            await self._pages.send_wrong(asked, wrong, scope, send)
        except (ClientGone, Problem):
            raise
        except Exception:
            log.exception("page %s %s failed", scope["method"], scope["path"])
            await self._pages.send_wrong(asked, Wrong(500, FAILED), scope, send)
        finally:
            body.let_go()

    async def _answer(
        self, asked: PageRequest, scope: Scope, receive: Receive, send: Send, body: Body
    ) -> None:
        status = 200
        if scope["method"] == "POST":
            check_same_site(headers_of(scope))
            asked.form = await self._pages.read_form(scope, receive, body)
            if not asked.session.made_form(asked.form.text("token")):
                raise Wrong(403, "This form is of another session: load the page and try again.")
            do = asked.form.text("do")
            if do == "log-out":
                await self._pages.log_out(asked, scope, send)
                return
            try:
                if "add" in asked.form:
                    raise Again
                if do not in self._page.acts:
                    raise Wrong(400, "There is nothing of that name to be done here.")
                moved = await self._page.acts[do](asked)
            except Wrong as wrong:
                status, asked.error = wrong.status, wrong.text
            except Question as question:
                await self._pages.send_question(asked, question, scope, send)
                return
            except Again:
                pass
            else:
                await self._go_on(asked, moved, scope, send)
                return
        elif scope["method"] not in SAFE:
            raise Wrong(405, "Pages are shown and forms are posted.")
        try:
            drawn = await self._page.show(asked)
        except Wrong as wrong:
            # What the form was about may be gone: what was wrong with it says more.
            raise Wrong(wrong.status, asked.error or wrong.text) from None
        if isinstance(drawn, Download):
            await self._pages.send_file(drawn, scope, send)
        else:
            await self._pages.send_shown(asked, drawn, scope, send, status)

    async def _go_on(self, asked: PageRequest, moved: WentOn, scope: Scope, send: Send) -> None:
        if moved.text:
            asked.session.tell("done", moved.text)
        kept = [(b"set-cookie", moved.cookie.encode())] if moved.cookie else []
        await self._pages.redirect(moved.to, scope, send, kept)


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request, by names in small letters."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def cookie_name(scope: Scope) -> str:
    """What the cookie is called: browsers do not tell ports of one host apart."""
    port = headers_of(scope).get("host", "").rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE


def cookies(scope: Scope, wanted: str) -> Iterator[str]:
    """The values of a request's cookies of one name.

    Sessions have no value in quotes, and so none is taken out of any: the standard library takes
    seconds for some, which anybody can send.
    """
    for header, text in scope["headers"]:
        if header == b"cookie":
            for pair in text.decode("latin-1").split(";"):
                name, _, value = pair.partition("=")
                if name.strip() == wanted:
                    yield value.strip()


def cookie_header(
    scope: Scope, token: str, seconds: int = int(IDLE_SECONDS)
) -> tuple[bytes, bytes]:
    """What has a browser keep a session, or forget it."""
    words = [f"{cookie_name(scope)}={token}", "Path=/", "HttpOnly", "SameSite=Strict"]
    if not seconds:
        words.append("Max-Age=0")
    if scope["scheme"] == "https" or headers_of(scope).get("x-forwarded-proto") == "https":
        words.append("Secure")
    return b"set-cookie", "; ".join(words).encode()


def local(to: str) -> str:
    """A path of this node to go on to; that of the overview in the place of any other address."""
    try:
        parts = urlsplit(to)
    except ValueError:
        return "/"
    wrong = parts.scheme or parts.netloc or not to.startswith("/") or to[1:2] in ("/", "\\")
    if wrong or not to.isascii() or not to.isprintable() or "\\" in to:
        return "/"
    return to
