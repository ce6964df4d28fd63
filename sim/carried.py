"""Messages that are carried on: in the end they come to another queue than they were published to.

Some clients publish with confirms, some take what has come, and books are kept of both. In the end
everything that was confirmed has come, and nothing that nobody sent. `dead_letters` and `delays`
say what carries them on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from sim.actors import Actor, Client, ignore
from sim.model import Violation
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

FRAME_BYTES: Final = 131_072
PREFETCH: Final = 5
UNANSWERED_MAX: Final = 20
SENT_MAX: Final = 300


class Books:
    """What was sent, and what has come.

    Attributes:
        kind: Of the queue that they come to.
        confirmed: Those that the broker has, for sure.
        arrived: Those that came to where they are to come in the end.
        calm: Whether everything is to be carried on and taken at once.
    """

    what: str
    """They are called this where they are counted, and in complaints."""
    word: bytes
    """Their bodies begin with it."""

    def __init__(self, world: Stage, kind: str) -> None:
        self.world = world
        self.kind = kind
        self.confirmed: set[int] = set()
        self.arrived: set[int] = set()
        self.calm = False
        self._sent = 0

    def have(self, actor: Actor) -> None:
        """Declare all there is to be, on an actor's channel."""
        raise AssertionError("books define have")

    def target(self) -> Table:
        """What the queue that they come to is declared with."""
        arguments: Table = {"x-queue-type": self.kind}
        if self.kind == "quorum":
            # However often one comes and its taker goes, it is to be taken.
            arguments["x-delivery-limit"] = -1
        return arguments

    def envelope(self) -> tuple[spec.BasicPublish, bytes]:
        """Method and properties of the message that is sent next."""
        raise AssertionError("books define envelope")

    def next(self) -> int:
        """The number of the next one; 0 if there are enough."""
        if self._sent == SENT_MAX:
            return 0
        self._sent += 1
        return self._sent

    def body(self, number: int) -> bytes:
        """What a message says."""
        return b"%s %d" % (self.word, number)

    def number(self, content: bytes, name: str) -> int:
        """One came out of a queue: its number.

        Raises:
            Violation: Nobody sent it.
        """
        word, _, digits = content.partition(b" ")
        if word != self.word or not digits.isdigit() or not 0 < int(digits) <= self._sent:
            raise Violation(f"{name} got what nobody published: {content[:40]!r}")
        return int(digits)

    def confirm(self, number: int) -> None:
        """The broker has one."""
        self.confirmed.add(number)
        self.world.count(self.what)

    def refuse(self, number: int) -> None:
        """The broker does not have one, or cannot say that it has."""

    def arrive(self, number: int, name: str) -> None:
        """One came to where it is to come in the end."""
        self.arrived.add(number)
        self.world.count(f"{self.what} arrived")

    def check(self) -> None:
        """All that was confirmed has come.

        Raises:
            Violation: Something has not.
        """
        lost = sorted(self.confirmed - self.arrived)
        if lost:
            raise Violation(f"{self.what} {lost[:9]} were confirmed, and have not come")


class Carrying(Actor):
    """Whoever has to do with them."""

    def __init__(self, world: Stage, name: str, number: int, books: Books) -> None:
        super().__init__(world, name, number)
        self.books = books

    def have(self) -> None:
        """Declare all there is to be; a queue may be away with its node."""
        self.tolerated = {404, 405, 406}
        self.books.have(self)


@final
class Sender(Carrying):
    """Publishes what is to be carried on."""

    def __init__(self, world: Stage, name: str, number: int, books: Books) -> None:
        super().__init__(world, name, number, books)
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
            number = self.books.next() if len(self._unanswered) < UNANSWERED_MAX else 0
            if number == 0:
                return
            self._sequence += 1
            self._unanswered[self._sequence] = number
            method, properties = self.books.envelope()
            body = self.books.body(number)
            connection.send_bytes(
                content_frames(self.number, method, properties, body, connection.frame_max)
            )

    def missed(self, method: spec.Method, content: bytes) -> None:
        """What it was told counts although it has gone, but not where it has begun anew since."""
        if self.connection is None and isinstance(method, (spec.BasicAck, spec.BasicNack)):
            self.pushed(method, content)

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A confirm."""
        if not isinstance(method, (spec.BasicAck, spec.BasicNack)):
            super().pushed(method, content)
            return
        tag = method.delivery_tag
        for each in [n for n in self._unanswered if n == tag or (method.multiple and n <= tag)]:
            number = self._unanswered.pop(each)
            if isinstance(method, spec.BasicAck):
                self.books.confirm(number)
            else:
                self.books.refuse(number)


class Receiver(Carrying):
    """Consumes a queue.

    Attributes:
        held: What is not settled yet: numbers by tags.
    """

    queue: str

    def __init__(self, world: Stage, name: str, number: int, books: Books) -> None:
        super().__init__(world, name, number, books)
        self.held: dict[int, int] = {}

    def set_up(self) -> None:
        """Subscribe."""
        self.held = {}
        self.have()
        self.call(spec.BasicQos(0, PREFETCH), ignore)
        arguments = self.arguments()
        self.call(spec.BasicConsume(queue=self.queue, arguments=arguments), self.begin)

    def arguments(self) -> Table:
        """What its consumer is subscribed with."""
        return {}

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, or the end of the queue, which goes away with its node for a while."""
        if isinstance(method, spec.BasicDeliver):
            number = self.books.number(content, self.name)
            self.take(number)
            self.held[method.delivery_tag] = number
        elif isinstance(method, spec.BasicCancel):
            self.close_channel()
        else:
            super().pushed(method, content)

    def take(self, number: int) -> None:
        """A message came."""
        self.books.arrive(number, self.name)

    def ended(self) -> None:
        """Nothing is held."""
        self.held = {}


def clients_of(
    world: Stage, letter: str, books: Books, kinds: Sequence[Callable[..., Any]]
) -> list[Client]:
    """A client of each kind."""
    clients: list[Client] = []
    for at, make in enumerate(kinds):
        client = Client(world, f"{letter}{at}", FRAME_BYTES)
        client.actors.append(make(world, f"{letter}{at}.1", 1, books))
        clients.append(client)
    return clients
