"""Passwords whose hash takes too long for a turn of the loop: one after the other, on a thread.

However many clients come with one password, it is looked at once. What came of it is remembered
(`Outcomes`), so that a client that connects again does not wait; who tries other passwords waits in
line with all who do. What no client can wait for any more is left out, so that a flood of
passwords is over soon.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from warren.metadata.passwords import Outcomes, is_slow, password_matches
from warren.metadata.permissions import Authority
from warren.ports import Executor, Job
from warren.protocols.broker import LoginListener

LANE: Final = "passwords"
NS_IN_MS: Final = 1_000_000


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

    def wait(self, user: str, password: bytes, listener: LoginListener) -> bool:
        """Whether what comes of a password is not known yet; the listener is told when it is."""
        password_hash, scheme = self._authority.hash_of(user)
        if not password or not is_slow(scheme):
            return False
        outcomes: Outcomes = self._authority.outcomes
        digest = outcomes.digest(password, password_hash)
        if outcomes.known(digest):
            return False
        verification = self._under_way.get(digest)
        if verification is None:
            verification = Verification(self, digest, password, password_hash, scheme)
            self._under_way[digest] = verification
            self._executor.submit(LANE, verification)
        verification.listeners.append(listener)
        return True

    def over(self, digest: bytes, late: bool, matches: bool) -> None:
        """Tell all who wait for a password that it was looked at, or came too late for the first.

        Others, who asked later, ask again when they are told.
        """
        if not late:
            self._authority.outcomes.learn(digest, matches)
        for listener in self._under_way.pop(digest).listeners:
            listener.verified()
