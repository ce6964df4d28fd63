"""Passwords whose hash takes too long for a turn of the loop: one after the other, on a thread.

However many clients come with one password, it is looked at once. What came of it is remembered
(`Outcomes`), so that a client that connects again does not wait. Of others, each address has one
looked at in turn, so that who tries many keeps no other client waiting for long. What no client can
wait for any more is left out, so that a flood of passwords is over soon. Answers to wrong passwords
wait, whatever their hash (`wrong_passwords`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from warren.metadata.passwords import Outcomes, is_slow, password_matches
from warren.metadata.permissions import Authority
from warren.node.wrong_passwords import (
    DELAY_MS_MAX,
    FULL,
    WrongPasswords,
    line_of,
    network_of,
)
from warren.ports import Executor, Job
from warren.protocols.broker import LoginListener

LANE: Final = "passwords"
NS_IN_MS: Final = 1_000_000
TOLD_MAX: Final = 256
"""Clients that one tick tells of what has waited long enough."""


@final
class Verification(Job):
    """One password and one hash.

    Attributes:
        listeners: Who waits for what comes of them.
    """

    def __init__(
        self, logins: Logins, digest: bytes, password: bytes, password_hash: bytes, scheme: str
    ) -> None:
        self.listeners: list[LoginListener] = []
        self._logins: Logins = logins
        self._digest: bytes = digest
        self._password: bytes = password
        self._hash: bytes = password_hash
        self._scheme: str = scheme
        self._asked_ns: int = logins.monotonic_ns()
        self._late: bool = False
        self._matches: bool = False

    def run(self) -> None:
        """Compute the hash, if that is still of use."""
        waited_ns = self._logins.monotonic_ns() - self._asked_ns
        self._late = waited_ns > self._logins.patience_ms * NS_IN_MS
        if not self._late:
            self._matches = password_matches(self._password, self._hash, self._scheme)

    def done(self, error: BaseException | None) -> None:
        """Tell those who wait; where there was no memory for it, that it does not match."""
        self._logins.over(self._digest, self._late, self._matches and error is None)


@final
class LoginCallback(LoginListener):
    """Calls a function when a password was checked, for code that is not compiled."""

    def __init__(self, told: Callable[[], None]) -> None:
        self.waited = False
        self.turned_away = False
        self._told: Callable[[], None] = told

    def verified(self) -> None:
        """What comes of the password is known."""
        self._told()


@final
class Logins:
    """Of one node.

    Attributes:
        monotonic_ns: Tells the time, on any thread.
        patience_ms: How long a client waits to be let in, at most.
    """

    def __init__(
        self,
        executor: Executor,
        monotonic_ns: Callable[[], int],
        authority: Authority,
        patience_ms: int,
    ) -> None:
        self.monotonic_ns: Callable[[], int] = monotonic_ns
        self.patience_ms: int = patience_ms
        self._executor: Executor = executor
        self._authority: Authority = authority
        self._under_way: dict[bytes, Verification] = {}
        self._in_line: dict[str, deque[Verification]] = {}
        """Of each network what is to be looked at; the one whose turn it is comes first."""
        self._looking: bool = False
        self._wrong: WrongPasswords = WrongPasswords()
        self._waiting: list[tuple[int, int, LoginListener]] = []
        """Who waits for the answer to a password: a heap by the time of that."""
        self._count: i64 = 0

    def wait(self, user: str, password: bytes, host: str, listener: LoginListener) -> bool:
        """Whether the answer to a password has to wait; the listener is told when it need not.

        Args:
            host: From where it comes.
        """
        if listener.turned_away:
            return False
        network = network_of(host)
        line = line_of(network, user)
        if not listener.waited and self._wrong.is_full(line, self._now_ms()):
            self._hold(listener, FULL)
            return True
        password_hash, scheme = self._authority.hash_of(user)
        if password and is_slow(scheme):
            outcomes: Outcomes = self._authority.outcomes
            digest = outcomes.digest(password, password_hash)
            if not outcomes.known(digest):
                verification = self._under_way.get(digest)
                if verification is None:
                    verification = Verification(self, digest, password, password_hash, scheme)
                    self._under_way[digest] = verification
                    self._in_line.setdefault(network, deque()).append(verification)
                    self._go_on()
                verification.listeners.append(listener)
                return True
        if listener.waited:
            return False
        matches = bool(password) and self._authority.outcomes.matches(
            password, password_hash, scheme
        )
        delay_ms = self._wrong.delay_ms(line, matches, self._now_ms())
        if delay_ms == 0:
            listener.waited = True
            return False
        self._hold(listener, delay_ms)
        return True

    def _hold(self, listener: LoginListener, delay_ms: i64) -> None:
        """Have the answer to a password wait; that to one that is not looked at, for longest."""
        listener.waited = True
        if delay_ms == FULL:
            listener.turned_away = True
            delay_ms = DELAY_MS_MAX
        self._count += 1
        told_ms = self._now_ms() + delay_ms
        heappush(self._waiting, (int(told_ms), int(self._count), listener))

    def tick(self) -> None:
        """Tell those who have waited long enough; to be called some times a second."""
        now_ms = self._now_ms()
        for _ in range(TOLD_MAX):
            if not self._waiting or self._waiting[0][0] > now_ms:
                return
            listener = heappop(self._waiting)[2]
            listener.verified()

    def _now_ms(self) -> i64:
        return self.monotonic_ns() // NS_IN_MS

    def _go_on(self) -> None:
        """Have the next password looked at, unless one is: of those from the network in turn."""
        if self._looking or not self._in_line:
            return
        network = next(iter(self._in_line))
        line = self._in_line.pop(network)
        verification = line.popleft()
        if line:
            # Behind all others.
            self._in_line[network] = line
        self._looking = True
        self._executor.submit(LANE, verification)

    def over(self, digest: bytes, late: bool, matches: bool) -> None:
        """Tell all who wait for a password that it was looked at, or came too late for the first.

        Others, who asked later, ask again when they are told.
        """
        self._looking = False
        self._go_on()
        if not late:
            self._authority.outcomes.learn(digest, matches)
        for listener in self._under_way.pop(digest).listeners:
            listener.verified()
