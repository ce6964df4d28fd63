"""Clients that close, and answer closes, in every order: some before they have logged in.

Each connection has one such talk. At some step of the handshake, or when it is open, its client
sends words of an odd order; what the node says to that is answered in another one. Bytes go to the
node cut and joined, as all do, and the client may be gone at any step. No other client notices,
and where a close was answered the node closes the connection.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Client
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import HEARTBEAT_FRAME, method_frame
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.connection import SimConnection
    from sim.stage import Stage

CLOSE: Final = "close"
CLOSE_OK: Final = "close-ok"
BEAT: Final = "heartbeat"
STRAY: Final = "stray"
"""A method on a channel that is not open, which the node answers with a close."""
WORDS: Final = (CLOSE, CLOSE, CLOSE_OK, CLOSE_OK, BEAT, STRAY)
HEADER, START, WRONG, TUNE, OPEN = "header", "start", "wrong password", "tune", "open"
STEPS: Final = (HEADER, START, WRONG, TUNE, OPEN)
WORDS_MAX: Final = 4
GONE_SHARE: Final = 0.2
"""How often it is gone in the place of what it would do next."""
CHANNEL: Final = 9
FRAME_BYTES: Final = 131_072
CAPABILITIES: Final[Table] = {"authentication_failure_close": True}


def frame_of(word: str) -> bytes:
    """What a word is on the wire."""
    if word == BEAT:
        return HEARTBEAT_FRAME
    if word == STRAY:
        return method_frame(CHANNEL, spec.BasicQos().encode())
    method = spec.ConnectionClose(200, "bye") if word == CLOSE else spec.ConnectionCloseOk()
    return method_frame(0, method.encode())


@final
class Quitter(Client):
    """See the module's head."""

    def __init__(self, world: Stage, name: str, random: Random) -> None:
        super().__init__(world, name, FRAME_BYTES)
        self._random = random
        self._step = HEADER
        self._spoke = False

    def act(self) -> None:
        """Connect, or talk, or be gone."""
        connection = self.connection
        if connection is None or connection.dead:
            super().act()
            if self.connection is not None and self.connection is not connection:
                self._step = self._random.choice(STEPS)
                self._spoke = False
                self.connection.quitter = self
                if self._step == HEADER:
                    self._speak(self.connection)
        elif self._random.random() < GONE_SHARE:
            self.world.count("gone while it closes")
            self.world.disconnect(connection)
        elif connection.ready and not self._spoke:
            self._speak(connection)

    def started(self, connection: SimConnection) -> bool:
        """The node has asked who it is; whether it has said something else than that."""
        if self._step == WRONG:
            login = spec.ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", b"\0guest\0no")
            connection.send(0, login)
        elif self._step == START:
            self._speak(connection)
        return self._spoke or self._step == WRONG

    def tuned(self, connection: SimConnection) -> bool:
        """The node has said how much it takes; whether this has said something else than that."""
        if self._step == TUNE:
            self._speak(connection)
        return self._spoke

    def closed(self, connection: SimConnection) -> None:
        """The node closes."""
        self._say(connection, [self._random.choice(WORDS) for _ in range(self._count())])

    def _speak(self, connection: SimConnection) -> None:
        self._spoke = True
        connection.condemned = True
        self._say(connection, [self._random.choice(WORDS) for _ in range(self._count() or 1)])

    def _say(self, connection: SimConnection, words: list[str]) -> None:
        self.world.say("%s says %s", self.name, " ".join(words) or "nothing")
        self.world.count("closes in odd orders")
        if words and self._random.random() < 0.5:
            connection.send_bytes(b"".join(frame_of(word) for word in words))
        else:
            for word in words:
                connection.send_bytes(frame_of(word))

    def _count(self) -> int:
        return self._random.randrange(WORDS_MAX + 1)


def add_quitters(world: Stage, clients: list[Client]) -> None:
    """Add two of them."""
    for number in range(2):
        name = f"o{number}"
        client = Quitter(world, name, Random(f"{world.seed} quits {number}"))
        clients += [client, client]
