"""Passwords that clients log in with: a thread looks at one after the other.

Each password first has a turn of its address (`login_turns`), so that no client can try many.
Clients of one address that come with one password share a turn. A password is looked at once,
however many clients come with it, and what came of it is remembered (`Outcomes`), so that a client
that connects again does not wait. The thread has one password of each address in turn.

Every refusal costs one Argon2id hash, whatever the hash is, and whether there is such a user, so
that the time tells nothing. A right password whose hash is not Argon2id, or has other parameters,
is hashed anew in place of that, and the tables have the new hash from then on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from warren.metadata.commands import RenewHash
from warren.metadata.machine import MetadataMachine
from warren.metadata.passwords import (
    ARGON2,
    ARGON2_SALT_BYTES,
    Outcomes,
    argon2_hash,
    is_renewable,
    is_slow,
    password_matches,
    spend_as_much,
)
from warren.node.login_turns import LoginTurns, Turn, is_late, line_of, network_of
from warren.node.store import MetadataStore
from warren.ports import Executor, Job, Random
from warren.protocols.broker import LoginListener, Settings
from warren.versions import RENEWED_HASHES

LANE: Final = "passwords"
NS_IN_MS: Final = 1_000_000
TOLD_MAX: Final = 256
"""Clients that are told at once what came of their passwords; others are told with later ticks."""


@final
class Guess(Turn):
    """The turn of one password that came from one network.

    Attributes:
        user, password, password_hash, scheme: What came, and what it is held against.
        digest: Of password and hash, see `Outcomes`.
        listeners: Who waits for what comes of it.
    """

    def __init__(
        self,
        network: str,
        asked_ms: i64,
        user: str,
        password: bytes,
        password_hash: bytes,
        scheme: str,
        digest: bytes,
    ) -> None:
        super().__init__(network, line_of(user), asked_ms)
        self.user: str = user
        self.password: bytes = password
        self.password_hash: bytes = password_hash
        self.scheme: str = scheme
        self.digest: bytes = digest
        self.listeners: list[LoginListener] = []


@final
class Verification(Job):
    """One password and one hash.

    Attributes:
        guesses: Those that wait for what comes of them, of one network each.
        matches: Whether the password is right.
        late: Whether it was not looked at, since no client can wait for it any more, or not to the
            end, for want of memory.
        renewed: Another hash of the same password, for the tables; empty for none.
    """

    def __init__(self, logins: Logins, guess: Guess, salt: bytes) -> None:
        """Prepare.

        Args:
            salt: What a new hash is made with; empty if none is to be made.
        """
        self.guesses: list[Guess] = [guess]
        self.matches: bool = False
        self.late: bool = False
        self.renewed: bytes = b""
        self._logins: Logins = logins
        self._password: bytes = guess.password
        self._hash: bytes = guess.password_hash
        self._scheme: str = guess.scheme
        self._salt: bytes = salt
        self._asked_ns: int = logins.monotonic_ns()

    def run(self) -> None:
        """Compute the hash, if that is still of use."""
        waited_ns = self._logins.monotonic_ns() - self._asked_ns
        self.late = waited_ns > self._logins.patience_ms * NS_IN_MS
        if self.late:
            return
        matches = password_matches(self._password, self._hash, self._scheme)
        if matches and self._salt:
            self.renewed = argon2_hash(self._password, self._salt)
        elif self._scheme != ARGON2:
            spend_as_much(self._password)
        self.matches = matches

    def done(self, error: BaseException | None) -> None:
        """Tell those who wait; where memory was lacking, that it came to nothing."""
        self.late = self.late or error is not None
        self._logins.over(self)


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
        random: Random,
        store: MetadataStore,
        metadata: MetadataMachine,
        settings: Settings,
    ) -> None:
        self.monotonic_ns: Callable[[], int] = monotonic_ns
        self.patience_ms: int = settings.handshake_timeout_ms
        self._executor: Executor = executor
        self._random: Random = random
        self._store: MetadataStore = store
        self._metadata: MetadataMachine = metadata
        self._renews: bool = settings.renews_hashes
        self._outcomes: Outcomes = store.authority.outcomes
        self._turns: LoginTurns = LoginTurns()
        self._guesses: dict[tuple[str, bytes], Guess] = {}
        """Those that wait for their turn or are looked at, by network and digest."""
        self._under_way: dict[bytes, Verification] = {}
        self._in_line: dict[str, deque[Verification]] = {}
        """Of each network what is to be looked at; the one whose turn it is comes first."""
        self._looking: bool = False
        self._ready: deque[LoginListener] = deque()
        """Whom to tell what came of a password."""

    def wait(self, user: str, password: bytes, host: str, listener: LoginListener) -> bool:
        """Whether the answer to a password has to wait; the listener is told when it need not.

        Args:
            host: From where it comes.
        """
        if listener.turned_away:
            return False
        password_hash, scheme = self._store.authority.hash_of(user)
        digest = self._outcomes.digest(password, password_hash)
        if listener.waited and (not self._is_slow(password, scheme) or self._knows(digest)):
            return False
        # Else this is the first time, or the user has another password since.
        network = network_of(host)
        guess = self._guesses.get((network, digest))
        if guess is None:
            now_ms = self._now_ms()
            guess = Guess(network, now_ms, user, password, password_hash, scheme, digest)
            has_turn = self._turns.ask(guess, now_ms)
            if has_turn and self._is_decided(guess):
                listener.waited = True
                return False
            self._guesses[(network, digest)] = guess
            if has_turn:
                self._look_at(guess)
        guess.listeners.append(listener)
        return True

    def waiting(self) -> bool:
        """Whether some client is to be told at a later tick."""
        return len(self._ready) > 0 or self._turns.waits()

    def tick(self) -> None:
        """Look at passwords whose turn has come; to be called some times a second."""
        self._give_turns()
        self._tell()

    def over(self, verification: Verification) -> None:
        """A password was looked at, or came too late for that: tell all who wait for it.

        Clients whose password came too late ask again, if they are still there.
        """
        self._looking = False
        self._go_on()
        digest = verification.guesses[0].digest
        del self._under_way[digest]
        if not verification.late:
            self._outcomes.learn(digest, verification.matches)
        for guess in verification.guesses:
            wrong = not (verification.late or verification.matches)
            self._turns.over(guess, wrong, self._now_ms())
            self._answer(guess, not verification.late)
        if verification.matches and verification.renewed:
            self._renew(verification.guesses[0], verification.renewed)
        self._give_turns()
        self._tell()

    def _renew(self, guess: Guess, renewed: bytes) -> None:
        """Have the tables know another hash of a password, unless another node was first."""
        self._outcomes.learn(self._outcomes.digest(guess.password, renewed), True)
        self._store.submit(RenewHash(guess.user, guess.password_hash, renewed, ARGON2), None)

    # --- what comes of a password ---------------------------------------------------------------

    def _is_slow(self, password: bytes, scheme: str) -> bool:
        """Whether a thread has to look at a password."""
        return len(password) > 0 and (self._renews or is_slow(scheme))

    def _knows(self, digest: bytes) -> bool:
        return self._outcomes.known(digest)

    def _is_decided(self, guess: Guess) -> bool:
        """Whether it is known what comes of a password that has its turn, which is over then."""
        password, scheme = guess.password, guess.scheme
        if self._is_slow(password, scheme) and not self._knows(guess.digest):
            return False
        right = bool(password) and self._outcomes.matches(password, guess.password_hash, scheme)
        self._turns.over(guess, not right, self._now_ms())
        return True

    def _look_at(self, guess: Guess) -> None:
        """Have the thread look at a password."""
        verification = self._under_way.get(guess.digest)
        if verification is not None:
            verification.guesses.append(guess)
            return
        renews = (
            self._renews
            and self._metadata.version >= RENEWED_HASHES
            and is_renewable(guess.password_hash, guess.scheme)
        )
        salt = self._random.bytes(ARGON2_SALT_BYTES) if renews else b""
        verification = Verification(self, guess, salt)
        self._under_way[guess.digest] = verification
        self._in_line.setdefault(guess.network, deque()).append(verification)
        self._go_on()

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

    # --- turns and answers ----------------------------------------------------------------------

    def _give_turns(self) -> None:
        """Look at passwords whose turn has come, and turn those away that waited for too long."""
        now_ms = self._now_ms()
        left: i64 = TOLD_MAX
        while left > 0:
            due = self._turns.due(now_ms, left)
            if not due:
                return
            left -= len(due)
            for turn in due:
                assert isinstance(turn, Guess)
                if is_late(turn, now_ms):
                    for listener in turn.listeners:
                        listener.turned_away = True
                    self._answer(turn, True)
                elif self._is_decided(turn):
                    self._answer(turn, True)
                else:
                    self._look_at(turn)

    def _answer(self, guess: Guess, waited: bool) -> None:
        """Have all be told who came with a password.

        Args:
            waited: Whether that was all; else they ask again.
        """
        del self._guesses[(guess.network, guess.digest)]
        for listener in guess.listeners:
            listener.waited = waited
            self._ready.append(listener)

    def _tell(self) -> None:
        """Tell some of those who wait for what came of their passwords."""
        for _ in range(TOLD_MAX):
            if not self._ready:
                return
            self._ready.popleft().verified()

    def _now_ms(self) -> i64:
        return self.monotonic_ns() // NS_IN_MS
