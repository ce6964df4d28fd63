"""Messages that die in a quorum queue and have to arrive in another one, at least once.

Some publish to a queue that keeps its dead letters until they are confirmed, some reject what is in
it, and some take what has arrived in the other queue, which rejects publishes while it is full. In
the end everything that was confirmed to a publisher has arrived, and nothing that nobody sent.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any, Final, final

from sim.actors import Actor, Client, ignore
from sim.model import Violation
from sim.publisher import PERSISTENT
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

SOURCE: Final = "letters"
TARGET: Final = "arrived"
FRAME_BYTES: Final = 131_072
PREFETCH: Final = 5
UNANSWERED_MAX: Final = 20
SENT_MAX: Final = 300


@final
class Letters:
    """What was sent, and what has arrived.

    Attributes:
        kind: Of the queue where they arrive.
        most: So many that may hold.
        confirmed: Those that the queue where they die has, for sure.
        arrived: Those that came out where they are to arrive.
        calm: Whether everything is to be rejected and taken at once.
    """

    def __init__(self, world: Stage, random: Random, kind: str) -> None:
        self.kind = kind
        self.most = random.choice((1, 5, 1_000))
        self.confirmed: set[int] = set()
        self.arrived: set[int] = set()
        self.calm = False
        self._world = world
        self._sent = 0

    def arguments(self, name: str) -> Table:
        """What one of the queues is declared with."""
        if name == TARGET:
            wanted: Table = {
                "x-queue-type": self.kind,
                "x-max-length": self.most,
                "x-overflow": "reject-publish",
            }
            if self.kind == "quorum":
                # However often one comes and its undertaker goes, it is to be taken.
                wanted["x-delivery-limit"] = -1
            return wanted
        arguments: Table = {
            "x-queue-type": "quorum",
            "x-overflow": "reject-publish",
            "x-dead-letter-strategy": "at-least-once",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": TARGET,
        }
        ttl_ms = self._world.options.letters_ttl_ms
        if ttl_ms:
            arguments["x-message-ttl"] = ttl_ms
        return arguments

    def next(self) -> int:
        """The number of the next one; 0 if there are enough."""
        if self._sent == SENT_MAX:
            return 0
        self._sent += 1
        return self._sent

    def take(self, content: bytes, name: str) -> int:
        """One came out of a queue.

        Raises:
            Violation: Nobody sent it.
        """
        word, _, digits = content.partition(b" ")
        if word != b"letter" or not digits.isdigit() or not 0 < int(digits) <= self._sent:
            raise Violation(f"{name} got what nobody published: {content[:40]!r}")
        return int(digits)

    def check(self) -> None:
        """All that died has arrived.

        Raises:
            Violation: Something has not.
        """
        lost = sorted(self.confirmed - self.arrived)
        if lost:
            raise Violation(f"dead letters {lost[:9]} were confirmed, and have not arrived")


class Mailer(Actor):
    """Whoever has to do with them."""

    def __init__(self, world: Stage, name: str, number: int, letters: Letters) -> None:
        super().__init__(world, name, number)
        self.letters = letters

    def have(self, *names: str) -> None:
        """Declare queues; one may be away with its node."""
        self.tolerated = {404, 405, 406}
        for name in names:
            arguments = self.letters.arguments(name)
            self.call(spec.QueueDeclare(queue=name, durable=True, arguments=arguments), ignore)

    def missed(self, method: spec.Method, content: bytes) -> None:
        """What comes to a channel that is being closed counts as much."""
        if isinstance(method, spec.BasicAck):
            self.pushed(method, content)


@final
class Writer(Mailer):
    """Publishes what is to die."""

    def __init__(self, world: Stage, name: str, number: int, letters: Letters) -> None:
        super().__init__(world, name, number, letters)
        self._sequence = 0
        self._unanswered: dict[int, int] = {}

    def set_up(self) -> None:
        """Have both queues, and confirms."""
        self._sequence = 0
        self._unanswered = {}
        self.have(TARGET, SOURCE)
        self.call(spec.ConfirmSelect(), self.begin)

    def act(self) -> None:
        """Publish some."""
        connection = self.connection
        assert connection is not None
        method = spec.BasicPublish(exchange="", routing_key=SOURCE)
        for _ in range(self.random.randrange(1, 6)):
            number = self.letters.next() if len(self._unanswered) < UNANSWERED_MAX else 0
            if number == 0:
                return
            self._sequence += 1
            self._unanswered[self._sequence] = number
            body = b"letter %d" % number
            connection.send_bytes(
                content_frames(self.number, method, PERSISTENT, body, connection.frame_max)
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
                self.letters.confirmed.add(number)
                self.world.count("dead letters confirmed")


class Receiving(Mailer):
    """Consumes a queue."""

    queue: str

    def __init__(self, world: Stage, name: str, number: int, letters: Letters) -> None:
        super().__init__(world, name, number, letters)
        self.held: list[int] = []

    def set_up(self) -> None:
        """Subscribe."""
        self.held = []
        self.have(TARGET, SOURCE)
        self.call(spec.BasicQos(0, PREFETCH), ignore)
        self.call(spec.BasicConsume(queue=self.queue), self.begin)

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, or the end of the queue, which goes away with its node for a while."""
        if isinstance(method, spec.BasicDeliver):
            self.came(self.letters.take(content, self.name))
            self.held.append(method.delivery_tag)
        elif isinstance(method, spec.BasicCancel):
            self.close_channel()
        else:
            super().pushed(method, content)

    def came(self, number: int) -> None:
        """A message came."""

    def ended(self) -> None:
        """Nothing is held."""
        self.held = []

    def settle(self, last: int) -> spec.Method:
        """What settles all up to a tag."""
        raise AssertionError("a receiver defines settle")

    def act(self) -> None:
        """Settle some, or give them back."""
        if not self.held:
            return
        chance = self.random.random()
        if not self.letters.calm and chance < self.world.options.close_share:
            self.close_channel()
            return
        last = self.held[-1] if self.letters.calm else self.random.choice(self.held)
        self.held = [tag for tag in self.held if tag > last]
        if not self.letters.calm and chance > 0.8:
            self.send(spec.BasicNack(last, True, True))
        else:
            self.send(self.settle(last))


@final
class Killer(Receiving):
    """Rejects what is to die."""

    queue = SOURCE

    def settle(self, last: int) -> spec.Method:
        """They die."""
        self.world.count("dead letters")
        return spec.BasicNack(last, True, False)


@final
class Reader(Receiving):
    """Takes what has arrived."""

    queue = TARGET

    def came(self, number: int) -> None:
        """One has arrived."""
        self.letters.arrived.add(number)
        self.world.count("dead letters arrived")

    def settle(self, last: int) -> spec.Method:
        """They are read."""
        return spec.BasicAck(last, True)


def add_letters(world: Stage, clients: list[Client], letters: Letters) -> None:
    """Clients that have to do with dead letters."""
    makers: list[Callable[..., Any]] = [Writer, Killer, Reader]
    for at, make in enumerate(makers):
        client = Client(world, f"l{at}", FRAME_BYTES)
        client.actors.append(make(world, f"l{at}.1", 1, letters))
        clients += [client, client]


def undertakers(world: Stage, letters: Letters) -> list[Client]:
    """Those who reject and take all that is left."""
    letters.calm = True
    clients: list[Client] = []
    for at, make in enumerate((Killer, Reader)):
        client = Client(world, f"e{at}", FRAME_BYTES)
        client.actors.append(make(world, f"e{at}.1", 1, letters))
        clients.append(client)
    return clients
