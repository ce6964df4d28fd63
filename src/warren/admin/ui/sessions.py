"""Who is logged in: sessions of browsers, bounded in number and time, and lost with the process."""

from __future__ import annotations

import hmac
import secrets
import time
from typing import Final, Literal, NamedTuple

from warren.admin.service.caller import Caller
from warren.admin.service.logins import caller_of, has_expired
from warren.admin.service.service import AdminService
from warren.admin.ui.collected import Collected

SESSIONS_MAX: Final = 1_024
SESSIONS_OF_USER_MAX: Final = 64
"""When one comes too many, the one that asked nothing for longest goes."""
IDLE_SECONDS: Final = 30 * 60.0
LIFE_SECONDS: Final = 12 * 3_600.0
TOKEN_BYTES: Final = 32
NOTICES_MAX: Final = 8


class Notice(NamedTuple):
    """Something that the next page says, once.

    Attributes:
        kind: Whether it is good news.
        text: It.
    """

    kind: Literal["done", "wrong"]
    text: str


class BrowserSession:
    """One login of one browser.

    Attributes:
        token: What the browser's cookie says.
        form_token: What each form of this session says, which no page of another site knows.
        user: Who logged in.
        notices: What the next page is to say.
        collected: Samples that its charts show where the node keeps none.
        begun, seen: When it began, and when it was last used; of the monotonic clock.
    """

    def __init__(self, caller: Caller, password_hash: bytes) -> None:
        self.token = secrets.token_urlsafe(TOKEN_BYTES)
        self.form_token = secrets.token_urlsafe(TOKEN_BYTES)
        self.user = caller.name
        self.notices: list[Notice] = []
        self.collected = Collected()
        self.begun = self.seen = time.monotonic()
        self._caller = caller
        self._password_hash = password_hash

    def tell(self, kind: Literal["done", "wrong"], text: str) -> None:
        """Have the next page say something."""
        self.notices = [*self.notices, Notice(kind, text)][-NOTICES_MAX:]

    def take_notices(self) -> list[Notice]:
        """What the page that is drawn now is to say."""
        notices, self.notices = self.notices, []
        return notices

    def made_form(self, token: str) -> bool:
        """Whether a form with this token is of this session."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.form_token.encode())

    def caller(self, service: AdminService) -> Caller | None:
        """The user as who asks now; None once they are gone, or have another password.

        Who came by a token may do what that says until it expires, and never what the tables say
        of a user of that name.
        """
        if self._caller.grants is not None:
            return None if has_expired(service, self._caller) else self._caller
        record = service.machine.users.get(self.user)
        if record is None or self._password_hash not in (record.password_hash, record.former_hash):
            return None
        return caller_of(service, self.user)


class Sessions:
    """The sessions of one node."""

    def __init__(self) -> None:
        # In the order in which they were used, the one that was used last behind.
        self._sessions: dict[str, BrowserSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, service: AdminService, caller: Caller) -> BrowserSession:
        """Begin a session of a user who has shown who they are."""
        self._forget_old()
        own = [each.token for each in self._sessions.values() if each.user == caller.name]
        if len(own) >= SESSIONS_OF_USER_MAX:
            self.end(own[0])
        elif len(self._sessions) >= SESSIONS_MAX:
            self.end(next(iter(self._sessions)))
        record = None if caller.grants is not None else service.machine.users.get(caller.name)
        session = BrowserSession(caller, b"" if record is None else bytes(record.password_hash))
        self._sessions[session.token] = session
        return session

    def find(self, token: str) -> BrowserSession | None:
        """The session of a cookie, which is used now; None if there is none any more."""
        session = self._sessions.pop(token, None)
        now = time.monotonic()
        if session is None or _is_over(session, now):
            return None
        session.seen = now
        self._sessions[token] = session
        return session

    def end(self, token: str) -> None:
        """Have a session be over."""
        self._sessions.pop(token, None)

    def _forget_old(self) -> None:
        now = time.monotonic()
        for session in [each for each in self._sessions.values() if _is_over(each, now)]:
            self.end(session.token)


def _is_over(session: BrowserSession, now: float) -> bool:
    return now - session.seen > IDLE_SECONDS or now - session.begun > LIFE_SECONDS
