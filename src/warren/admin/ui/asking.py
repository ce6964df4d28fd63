"""One request of a page: who asks, what for, and the API, which it asks in the process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from warren.admin.http.answers import HttpAnswer, encoded
from warren.admin.http.asked import Handler, HttpRequest
from warren.admin.http.errors import Problem, of_refusal
from warren.admin.service.caller import ADMINISTRATOR, MONITORING, POLICYMAKER, Caller
from warren.admin.service.operation import Operation
from warren.admin.service.service import AdminService
from warren.admin.ui.forms import SentForm
from warren.admin.ui.moves import Moves
from warren.admin.ui.sessions import BrowserSession
from warren.admin.ui.wrong import Question, Wrong, reason_of
from warren.errors import Refusal

NOTHING: Mapping[str, str] = {}
SURE, TYPED = "sure", "typed"
"""Fields by which a question is answered."""
FORM_BYTES_MAX: Final = 1_048_576


class PageRequest:
    """One request of a page.

    Attributes:
        service: The service of the node that was asked.
        session, caller: Who asks.
        variables: What stands in the place of the path's variables, decoded.
        query: What stands behind the question mark.
        path: As it came, encoded.
        moves: Moves of messages on this node.
        form: What was sent with it; empty where nothing was.
        error: What was wrong with that; empty if nothing was.
        columns: What the browser's cookie says of columns of lists.
        since: Of what time the oldest samples are, in seconds since 1970.
    """

    def __init__(
        self,
        service: AdminService,
        session: BrowserSession,
        caller: Caller,
        variables: dict[str, str],
        query: dict[str, str],
        path: str,
        moves: Moves,
    ) -> None:
        self.service = service
        self.session = session
        self.caller = caller
        self.variables = variables
        self.query = query
        self.path = path
        self.moves = moves
        self.form = SentForm([])
        self.error = ""
        self.columns = ""
        self.since = 0.0

    def __getitem__(self, variable: str) -> str:
        return self.variables[variable]

    @property
    def administers(self) -> bool:
        """Whether the user may do everything."""
        return ADMINISTRATOR in self.caller.tags

    @property
    def monitors(self) -> bool:
        """Whether the user sees nodes, and what is of other users."""
        return not self.caller.tags.isdisjoint((ADMINISTRATOR, MONITORING))

    @property
    def makes_policies(self) -> bool:
        """Whether the user may set policies."""
        return not self.caller.tags.isdisjoint((ADMINISTRATOR, POLICYMAKER))

    def make_sure(self, text: str, button: str, name: str = "") -> None:
        """Return once the user has said that what the form asks for is meant.

        Args:
            text: The question.
            button: What the button says that does it.
            name: What has to be typed as well, where something would be lost; else empty.

        Raises:
            Question: They have not.
        """
        name = typeable(name)
        sure = self.form.truth(SURE)
        if sure and (not name or typeable(self.form.text(TYPED)) == name):
            return
        raise Question(text, button, name, mistyped=sure and TYPED in self.form)

    def request(
        self,
        variables: Mapping[str, str] = NOTHING,
        query: Mapping[str, str] = NOTHING,
        document: Any = None,
    ) -> HttpRequest:
        """A request of the API that this user makes."""
        body = b"" if document is None else encoded(document)
        return HttpRequest(
            self.service, self.caller, dict(variables), dict(query), {"x-reason": ""}, body
        )

    async def api(
        self,
        handler: Handler,
        variables: Mapping[str, str] = NOTHING,
        query: Mapping[str, str] = NOTHING,
        document: Any = None,
    ) -> Any:
        """Ask the API for something, and say what is in its answer.

        Raises:
            Wrong: It refuses.
        """
        request = self.request(variables, query, document)
        answer: HttpAnswer = await told(handler(request), document is not None)
        if isinstance(answer.body, AsyncIterator):
            return [row async for part in answer.body for row in part]
        return answer.body


def typeable(name: str) -> str:
    """A name as a browser's field has it: on one line, bytes that are no text replaced."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(text.splitlines()).strip()


async def told(answer: Awaitable[Any], changes: bool = True) -> Any:
    """What something comes to.

    Raises:
        Wrong: It is refused.
    """
    try:
        return await answer
    except Problem as problem:
        status, body = problem.answer.status, problem.answer.body
        raise Wrong(status, reason_of(status, body)) from None
    except Refusal as refusal:
        found = of_refusal(refusal, changes)
        text = refusal.text if found.status == 401 else reason_of(found.status, found.body)
        raise Wrong(403 if found.status == 401 else found.status, text) from None


class Shown:
    """A page to be drawn.

    Attributes:
        template: What it looks like.
        values: What the template is given.
    """

    def __init__(self, template: str, **values: Any) -> None:
        self.template = template
        self.values = values


class WentOn:
    """Something was done, and the browser goes on to a page that shows it.

    Attributes:
        to: Its path.
        text: What that page says first; empty for nothing.
        cookie: What the browser is to keep; empty for nothing.
    """

    def __init__(self, to: str, text: str = "", cookie: str = "") -> None:
        self.to = to
        self.text = text
        self.cookie = cookie


class Download:
    """A file for the browser to keep."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name = name
        self.content = content


Drawn = Shown | Download
Show = Callable[[PageRequest], Awaitable[Drawn]]
Act = Callable[[PageRequest], Awaitable[WentOn]]


class WebPage:
    """What is shown at one path, and what its forms do.

    Attributes:
        path: With variables in braces.
        show: What draws it.
        acts: What its forms do, by the field `do`.
        uploads: What its file is for: only those who may have that send one, and more than
            `FORM_BYTES_MAX`. None where there is none.
        body_bytes_max: The largest form that it takes.
    """

    def __init__(
        self,
        path: str,
        show: Show,
        acts: Mapping[str, Act] | None = None,
        uploads: Operation[..., Any] | None = None,
        body_bytes_max: int = FORM_BYTES_MAX,
    ) -> None:
        self.path = path
        self.show = show
        self.acts = dict(acts or {})
        self._uploads = uploads
        self._body_bytes_max = body_bytes_max

    def form_bytes_max(self, asked: PageRequest, has_file: bool) -> int:
        """The largest form that a user may send here, before it is read.

        Raises:
            NotAuthorised: It has a file for what they may not have.
        """
        if self._uploads is None:
            return self._body_bytes_max
        if not has_file:
            return FORM_BYTES_MAX
        asked.request().permit(self._uploads)
        return self._body_bytes_max
