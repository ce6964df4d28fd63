"""A queue that goes when nobody has used it for a while (`x-expires`), and those who use it.

Some consume it, poll it, publish to it, and leave it alone for a time. What a client was told says
since when it used the queue for sure, and until when. From that follows what may be: the queue goes
only if for as long as it says nobody used it for sure, and when all are gone, it goes on all nodes.
While somebody consumes it and nothing goes wrong any more, it stays.

Source: QQ-12, DUR-08.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, final

from sim.actors import Client, ignore
from sim.connection import SimConnection
from sim.incarnations import IDLE, NOBODY, Incarnation, Span
from sim.model import Violation
from sim.publisher import PERSISTENT
from sim.short_lived import Asking
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

FRAME_BYTES: Final = 131_072
EARLY_MS: Final = 100
"""So much earlier it may go: a turn goes by the time at which it began, on each node."""
HOLD_TIMES: Final = 3
"""For so many times its time it is held in the end."""
SHARES: Final = (
    ("consume", 3),
    ("poll", 2),
    ("declare", 1),
    ("publish", 1),
    ("close", 1),
    ("rest", 4),
)


@final
class Use:
    """For how long a client used an incarnation for sure.

    Attributes:
        queue: The incarnation.
        connection: Over which it was used.
        channel: The number of its channel.
        begun: The latest moment at which the use may have begun, in virtual milliseconds.
        ended: The earliest one at which it may have been over; negative while it goes on.
    """

    def __init__(self, queue: int, connection: SimConnection, channel: int, begun: int) -> None:
        self.queue = queue
        self.connection = connection
        self.channel = channel
        self.begun = begun
        self.ended = -1

    def unsure(self) -> bool:
        """Whether its node may have ended it without its client's knowing."""
        connection = self.connection
        if self.ended >= 0:
            return False
        closed = connection.is_closed_unread(self.channel)
        return connection.condemned or connection.garbled or connection.dead or closed


@final
class Expiring:
    """Who has used the queue, and when.

    Attributes:
        kind: Of the queue: `quorum`, `classic` or `transient`.
        expires_ms: For how long it may be unused.
        strict: Whether clocks go right, so that it may not go before its time.
        calm: Whether nothing goes wrong any more, and it is to be held.
    """

    def __init__(self, world: Stage, kind: str, expires_ms: int, strict: bool) -> None:
        self.world = world
        self.kind = kind
        self.expires_ms = expires_ms
        self.strict = strict
        self.calm = False
        self._uses: list[Use] = []
        self._blind: set[int] = set()
        """Groups in which it cannot be seen any more which consumers are gone."""

    def declaration(self) -> spec.QueueDeclare:
        """What declares the queue."""
        arguments: Table = {
            "x-queue-type": "quorum" if self.kind == "quorum" else "classic",
            "x-expires": self.expires_ms,
        }
        durable = self.kind != "transient"
        return spec.QueueDeclare(queue=IDLE, durable=durable, arguments=arguments)

    def begin(self, span: Span, connection: SimConnection, channel: int) -> Use | None:
        """A client was told that it consumes the queue; None if it is unclear which one."""
        found = self.world.incarnations.candidates(span)
        if len(found) != 1 or NOBODY in found:
            return None
        use = Use(next(iter(found)), connection, channel, self.world.now_ms())
        self._uses.append(use)
        return use

    def end(self, use: Use) -> None:
        """A client begins to leave."""
        use.ended = self.world.now_ms()

    def doubt(self, use: Use) -> None:
        """A use may have been over before its client knew."""
        if use in self._uses:
            self._uses.remove(use)

    def forget(self, site: str, group_id: int = -1) -> None:
        """What clients of a node used of a queue, or of any, may have been over for long.

        Args:
            site: The node; empty for all.
            group_id: The queue's group; negative for every queue.
        """
        self._uses = [
            use
            for use in self._uses
            if (site and use.connection.site != site) or (group_id >= 0 and use.queue != group_id)
        ]

    def blind(self, group_id: int) -> None:
        """From here on it cannot be seen which consumers of a group are gone."""
        self._blind.add(group_id)

    def used(self) -> bool:
        """Whether somebody consumes the queue, for all that clients know."""
        return any(use.ended < 0 and not use.unsure() for use in self._uses)

    def check_gone(self, queue: Incarnation) -> None:
        """Some node has applied the deletion of an incarnation, for which no client asked.

        Raises:
            Violation: It was never unused for as long as that takes.
        """
        self.world.count("expired queues")
        if not self.strict or queue.id in self._blind:
            return
        now = self.world.now_ms()
        least = self.expires_ms - EARLY_MS
        free_from, longest = queue.came_ms, 0
        uses = [use for use in self._uses if use.queue == queue.id and not use.unsure()]
        for use in sorted(uses, key=lambda use: use.begun):
            longest = max(longest, use.begun - free_from)
            free_from = max(free_from, now if use.ended < 0 else use.ended)
        longest = max(longest, now - free_from)
        if longest < least:
            raise Violation(
                f"queue {queue.name} went after {longest} ms without use at most, not "
                f"{self.expires_ms}; it came at {queue.came_ms} ms, and was used by "
                f"{[(use.begun, use.ended) for use in uses]}"
            )


@final
class User(Asking):
    """Uses the queue now and then."""

    def __init__(self, world: Stage, name: str, number: int, expiring: Expiring) -> None:
        super().__init__(world, name, number)
        self._expiring = expiring
        self._use: Use | None = None
        self._consumes = False
        self._rests_until_ms = 0
        self._tags = 0

    def set_up(self) -> None:
        """Nothing that is a use."""
        super().set_up()
        self._use = None
        self._consumes = False
        self.call(spec.BasicQos(), self.begin)

    def act(self) -> None:
        """Use the queue, or leave it alone."""
        if self.busy() or self.world.now_ms() < self._rests_until_ms:
            return
        if self._expiring.calm:
            if not self._consumes:
                self._consume()
            return
        way = self.random.choices([s[0] for s in SHARES], [s[1] for s in SHARES])[0]
        if way == "consume" and not self._consumes:
            self._consume()
        elif way == "poll":
            self._poll()
        elif way == "declare":
            self.ask(IDLE, self._expiring.declaration(), ignore)
        elif way == "publish":
            self._publish()
        elif way == "close":
            self.close_channel()
        elif way == "rest":
            if self._consumes:
                self._cancel()
            self._rests_until_ms = self.world.now_ms() + self.random.randrange(
                2 * self._expiring.expires_ms
            )

    def _consume(self) -> None:
        self._consumes = True
        self.ask(IDLE, self._expiring.declaration(), self._declared)

    def _declared(self, method: spec.Method, content: bytes) -> None:
        """Which queue it is is clear, since the node has it by now."""
        if self.connection is None or self._closing or not self._consumes:
            return
        self._tags += 1
        consume = spec.BasicConsume(queue=IDLE, consumer_tag=f"t{self._tags}", no_ack=True)
        spans: list[Span] = []
        spans.append(self.ask(IDLE, consume, lambda *_: self._consuming(spans[0])))

    def _consuming(self, span: Span) -> None:
        connection = self.connection
        if connection is not None and self._consumes and not self._closing:
            self._use = self._expiring.begin(span, connection, self.number)
            self.world.count("expiring queues used")

    def _cancel(self) -> None:
        self._leave()
        self.call(spec.BasicCancel(f"t{self._tags}"), ignore)

    def _poll(self) -> None:
        """A poll is a use at some moment between its question and its answer."""
        spans: list[Span] = []
        polled = partial(self._polled, spans, self.world.now_ms())
        spans.append(self.ask(IDLE, spec.BasicGet(queue=IDLE, no_ack=True), polled))

    def _polled(self, spans: list[Span], asked: int, method: spec.Method, content: bytes) -> None:
        connection = self.connection
        if connection is not None:
            use = self._expiring.begin(spans[0], connection, self.number)
            if use is not None:
                use.ended = asked

    def _publish(self) -> None:
        """Publishers keep no queue."""
        connection = self.connection
        assert connection is not None
        method = spec.BasicPublish(exchange="", routing_key=IDLE)
        connection.send_bytes(
            content_frames(self.number, method, PERSISTENT, b"idle", connection.frame_max)
        )

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, or the end of the queue.

        Raises:
            Violation: It ends although it is held and nothing goes wrong.
        """
        if isinstance(method, spec.BasicCancel):
            if method.consumer_tag == f"t{self._tags}":
                if self._expiring.calm and self._use is not None:
                    raise Violation(f"{self.name} was cancelled by a queue that it uses")
                self._doubt()
        elif not isinstance(method, spec.BasicDeliver):
            super().pushed(method, content)

    def refused(self, method: spec.ChannelClose) -> None:
        """The node has closed the channel some time ago."""
        self._doubt()
        super().refused(method)

    def ended(self) -> None:
        """The channel is over, by its client's doing, or with its connection."""
        self._leave()

    def disconnected(self) -> None:
        """What ended a connection may have done so before its client knew."""
        connection = self.connection
        if connection is not None and (connection.condemned or connection.garbled):
            self._doubt()
        super().disconnected()

    def _leave(self) -> None:
        if self._use is not None:
            self._expiring.end(self._use)
        self._use = None
        self._consumes = False

    def _doubt(self) -> None:
        if self._use is not None:
            self._expiring.doubt(self._use)
        self._use = None
        self._consumes = False


def add_users(world: Stage, clients: list[Client], expiring: Expiring) -> None:
    """Clients that use the queue now and then."""
    for n in range(2):
        client = Client(world, f"i{n}", FRAME_BYTES)
        client.actors.append(User(world, f"i{n}.1", 1, expiring))
        clients += [client, client]


def holders(world: Stage, expiring: Expiring) -> list[Client]:
    """A client that holds the queue."""
    expiring.calm = True
    client = Client(world, "ih", FRAME_BYTES)
    client.actors.append(User(world, "ih.1", 1, expiring))
    return [client]
