"""A full classic queue whose publishes beyond its limit go elsewhere (`reject-publish-dlx`).

Some publish to a queue with little room, some take what is in it, and some take what has come to
the queue that its dead letters go to. A publish is either taken in or rejected: what is confirmed
comes out of the first queue and never of the other one, and what came out of one comes out of the
other at no time. What is rejected says that there was no room for it, once. When nothing goes wrong
any more, all that is rejected has to come to the other queue.

Source: DL-02; CQ-04.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.carried import Books, Receiver, Sender, clients_of
from sim.model import Violation
from sim.publisher import PERSISTENT
from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

NARROW: Final = "narrow"
SPILLED: Final = "spilled"
LAST: Final = 40
"""So many are sent when nothing goes wrong any more."""


@final
class Spills(Books):
    """What was sent, what was told of it, and where it came out.

    Attributes:
        arrived: What came out of the queue that it was published to.
        spilled: What came out of the other one.
    """

    what = "messages to a narrow queue"
    word = b"narrow"

    def __init__(self, world: Stage, kind: str, most: int) -> None:
        super().__init__(world, kind)
        self._most = most
        self.spilled: set[int] = set()
        self._refused: set[int] = set()
        self._first = 0
        """The first that is sent when nothing goes wrong any more."""

    def have(self, actor: Actor) -> None:
        """Both queues."""
        source: Table = {
            "x-queue-type": "classic",
            "x-max-length": self._most,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": SPILLED,
        }
        for name, arguments in ((SPILLED, self.target()), (NARROW, source)):
            actor.call(spec.QueueDeclare(queue=name, durable=True, arguments=arguments), ignore)

    def envelope(self) -> tuple[spec.BasicPublish, bytes]:
        """All go to the narrow queue."""
        return spec.BasicPublish(exchange="", routing_key=NARROW), PERSISTENT

    def next(self) -> int:
        """The number of the next one; in the end there are some more, and then no more."""
        if not self.calm:
            return super().next()
        if self._all_sent():
            return 0
        self._sent += 1
        return self._sent

    def _all_sent(self) -> bool:
        return self._sent - self._first + 1 >= LAST

    def last(self) -> None:
        """From now on nothing goes wrong, and what is sent is answered and comes out."""
        self.calm = True
        self._first = self._sent + 1

    def confirm(self, number: int) -> None:
        """The queue has taken one in."""
        super().confirm(number)
        if number in self.spilled:
            raise Violation(f"narrow message {number} was confirmed, and had been rejected")

    def refuse(self, number: int) -> None:
        """The publisher was told that one was rejected, or could not be taken in."""
        self._refused.add(number)
        self.world.count("publishes to a narrow queue refused")

    def arrive(self, number: int, name: str) -> None:
        """One came out of the queue that it was published to."""
        super().arrive(number, name)
        self._check(number, name)
        if self.calm and number >= self._first and number in self._refused:
            raise Violation(f"{name} got narrow message {number}, which was rejected")

    def spill(self, number: int, properties: Properties, name: str) -> None:
        """One came out of the other queue.

        Raises:
            Violation: It was taken in, or does not say that there was no room for it, once.
        """
        self.spilled.add(number)
        self.world.count("rejected publishes spilled")
        self._check(number, name)
        if number in self.confirmed:
            raise Violation(f"{name} got narrow message {number} as rejected, and it was confirmed")
        deaths = (properties.headers or {}).get("x-death")
        death = deaths[0] if isinstance(deaths, list) and len(deaths) == 1 else None
        said = None
        if isinstance(death, dict):
            said = (death.get("queue"), death.get("reason"), death.get("count"))
        if said != (NARROW, "maxlen", 1):
            raise Violation(f"{name} got narrow message {number}, which died of {deaths!r}")

    def _check(self, number: int, name: str) -> None:
        if number in self.spilled and number in self.arrived:
            raise Violation(f"{name}: narrow message {number} was both queued and dead-lettered")

    def done(self) -> bool:
        """Whether all that is sent in the end is answered, and has come out where it has to."""
        numbers = set(range(self._first, self._sent + 1))
        owed = numbers & self._refused
        return (
            self._all_sent()
            and numbers <= self.confirmed | self._refused
            and owed <= self.spilled
            and self.confirmed <= self.arrived
        )


class _Taking(Receiver):
    """Takes what comes, and gives some of it back."""

    def __init__(self, world: Stage, name: str, number: int, spills: Spills) -> None:
        super().__init__(world, name, number, spills)
        self.spills = spills
        self._seen: set[int] = set()

    def set_up(self) -> None:
        """A channel that has seen nothing."""
        self._seen = set()
        super().set_up()

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, which comes again only if it says so."""
        if isinstance(method, spec.BasicDeliver):
            number = self.books.number(content, self.name)
            if number in self._seen and not method.redelivered:
                raise Violation(f"{self.name} got narrow message {number} twice")
            self._seen.add(number)
        super().pushed(method, content)

    def act(self) -> None:
        """Settle some, give some back, or go and come again."""
        if not self.held:
            return
        calm = self.books.calm
        if not calm and self.random.random() < self.world.options.close_share:
            self.close_channel()
            return
        last = max(self.held) if calm else self.random.choice(list(self.held))
        back = not calm and self.random.random() < 0.2
        self.send(spec.BasicNack(last, True, True) if back else spec.BasicAck(last, True))
        self.held = {tag: number for tag, number in self.held.items() if tag > last}


@final
class Narrowed(_Taking):
    """Takes what the narrow queue had room for."""

    queue = NARROW


@final
class Mopping(_Taking):
    """Takes what it had no room for."""

    queue = SPILLED

    def take(self, number: int) -> None:
        """One was rejected."""
        assert self.connection is not None
        header = self.connection.properties
        self.spills.spill(number, decode_properties(header, 0, len(header)), self.name)


def add_spills(world: Stage, clients: list[Client], spills: Spills) -> None:
    """Clients that have to do with them."""
    for client in clients_of(world, "n", spills, (Sender, Narrowed, Mopping)):
        clients += [client, client]


def moppers(world: Stage, spills: Spills) -> list[Client]:
    """Those who send some more in the end, and take all that is left."""
    spills.last()
    return clients_of(world, "nm", spills, (Sender, Narrowed, Mopping))
