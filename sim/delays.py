"""Messages that wait in an exchange, and have to come to a queue in the end, none before its time.

Some publish to an exchange of type `x-delayed-message`, by an exchange that is bound to it now and
then, and some take what has come to a queue that is bound to it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.model import Violation
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

EXCHANGE: Final = "delaying"
BESIDE: Final = "beside"
"""Leads to the same."""
TARGET: Final = "due"
STORE: Final = "amq.delayed.delaying"
FRAME_BYTES: Final = 131_072
PREFETCH: Final = 5
UNANSWERED_MAX: Final = 20
SENT_MAX: Final = 300
EARLY_MS: Final = 100
"""So much earlier a message may come: a turn goes by the time at which it began, on each node."""
DELAYS_MS: Final = (1, 20, 300, 300, 2_000, 5_000)


@final
class Delays:
    """What was sent, and what has come.

    Attributes:
        kind: Of the queue that they come to.
        strict: Whether clocks go right, so that none may come before its time.
        confirmed: Those that the broker has, for sure.
        arrived: Those that came out of the queue.
        calm: Whether everything is to be taken at once.
    """

    def __init__(self, world: Stage, random: Random, kind: str, strict: bool) -> None:
        self.kind = kind
        self.strict = strict
        self.confirmed: set[int] = set()
        self.arrived: set[int] = set()
        self.calm = False
        self.random = random
        self._world = world
        self._due_ms: list[int] = []

    def next(self) -> tuple[int, int]:
        """The number of the next one, and how long it is to wait; 0 if there are enough."""
        if len(self._due_ms) == SENT_MAX:
            return 0, 0
        delay = self.random.choice(DELAYS_MS)
        self._due_ms.append(self._world.now_ms() + delay)
        return len(self._due_ms), delay

    def take(self, content: bytes, name: str) -> None:
        """One came out of the queue.

        Raises:
            Violation: Nobody sent it, or it is not due yet.
        """
        word, _, digits = content.partition(b" ")
        if word != b"delayed" or not digits.isdigit() or not 0 < int(digits) <= len(self._due_ms):
            raise Violation(f"{name} got what nobody published: {content[:40]!r}")
        number = int(digits)
        early = self._due_ms[number - 1] - self._world.now_ms()
        if self.strict and early > EARLY_MS:
            raise Violation(f"{name} got message {number} {early} ms before its time")
        self.arrived.add(number)
        self._world.count("delayed messages arrived")

    def check(self) -> None:
        """All that was confirmed has come.

        Raises:
            Violation: Something has not.
        """
        lost = sorted(self.confirmed - self.arrived)
        if lost:
            raise Violation(f"delayed messages {lost[:9]} were confirmed, and have not come")


class Waiter(Actor):
    """Whoever has to do with them."""

    def __init__(self, world: Stage, name: str, number: int, delays: Delays) -> None:
        super().__init__(world, name, number)
        self.delays = delays

    def have(self) -> None:
        """Declare all there is to be; the queue may be away with its node."""
        self.tolerated = {404, 405, 406}
        typed: Table = {"x-delayed-type": "fanout"}
        self.call(
            spec.ExchangeDeclare(
                exchange=EXCHANGE, type_="x-delayed-message", durable=True, arguments=typed
            ),
            ignore,
        )
        self.call(spec.ExchangeDeclare(exchange=BESIDE, type_="fanout", durable=True), ignore)
        self.call(spec.ExchangeBind(destination=EXCHANGE, source=BESIDE), ignore)
        arguments: Table = {"x-queue-type": self.delays.kind}
        if self.delays.kind == "quorum":
            # However often one comes and its taker goes, it is to be taken.
            arguments["x-delivery-limit"] = -1
        self.call(spec.QueueDeclare(queue=TARGET, durable=True, arguments=arguments), ignore)
        self.call(spec.QueueBind(queue=TARGET, exchange=EXCHANGE), ignore)

    def missed(self, method: spec.Method, content: bytes) -> None:
        """What comes to a channel that is being closed counts as much."""
        if isinstance(method, spec.BasicAck):
            self.pushed(method, content)


@final
class Delayer(Waiter):
    """Publishes what is to wait."""

    def __init__(self, world: Stage, name: str, number: int, delays: Delays) -> None:
        super().__init__(world, name, number, delays)
        self._sequence = 0
        self._unanswered: dict[int, int] = {}

    def set_up(self) -> None:
        """Have everything, and confirms."""
        self._sequence = 0
        self._unanswered = {}
        self.have()
        self.call(spec.ConfirmSelect(), self.begin)

    def act(self) -> None:
        """Publish some."""
        connection = self.connection
        assert connection is not None
        for _ in range(self.random.randrange(1, 6)):
            if len(self._unanswered) >= UNANSWERED_MAX:
                return
            number, delay = self.delays.next()
            if number == 0:
                return
            self._sequence += 1
            self._unanswered[self._sequence] = number
            properties = Properties()
            properties.headers = {"x-delay": delay}
            properties.delivery_mode = 2
            exchange = BESIDE if self.random.random() < 0.2 else EXCHANGE
            method = spec.BasicPublish(exchange=exchange, routing_key="k", mandatory=True)
            body = b"delayed %d" % number
            connection.send_bytes(
                content_frames(self.number, method, properties.encode(), body, connection.frame_max)
            )

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A confirm."""
        if not isinstance(method, (spec.BasicAck, spec.BasicNack)):
            super().pushed(method, content)
            return
        tag = method.delivery_tag
        for each in [n for n in self._unanswered if n == tag or (method.multiple and n <= tag)]:
            number = self._unanswered.pop(each)
            if isinstance(method, spec.BasicAck):
                self.delays.confirmed.add(number)
                self.world.count("delayed messages")


@final
class Taker(Waiter):
    """Takes what has come."""

    def __init__(self, world: Stage, name: str, number: int, delays: Delays) -> None:
        super().__init__(world, name, number, delays)
        self._held: list[int] = []

    def set_up(self) -> None:
        """Subscribe."""
        self._held = []
        self.have()
        self.call(spec.BasicQos(0, PREFETCH), ignore)
        self.call(spec.BasicConsume(queue=TARGET), self.begin)

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, or the end of the queue, which goes away with its node for a while."""
        if isinstance(method, spec.BasicDeliver):
            self.delays.take(content, self.name)
            self._held.append(method.delivery_tag)
        elif isinstance(method, spec.BasicCancel):
            self.close_channel()
        else:
            super().pushed(method, content)

    def ended(self) -> None:
        """Nothing is held."""
        self._held = []

    def act(self) -> None:
        """Settle all, or go and come again."""
        if not self.delays.calm and self.random.random() < self.world.options.close_share:
            self.close_channel()
        elif self._held:
            self.send(spec.BasicAck(self._held[-1], True))
            self._held = []


def add_delays(world: Stage, clients: list[Client], delays: Delays) -> None:
    """Clients that have to do with messages that wait."""
    for at, make in enumerate((Delayer, Taker)):
        client = Client(world, f"d{at}", FRAME_BYTES)
        client.actors.append(make(world, f"d{at}.1", 1, delays))
        clients += [client, client]


def takers(world: Stage, delays: Delays) -> list[Client]:
    """Whoever takes all that is left."""
    delays.calm = True
    client = Client(world, "t0", FRAME_BYTES)
    client.actors.append(Taker(world, "t0.1", 1, delays))
    return [client]
