"""Messages that die in a quorum queue and have to arrive in another one, at least once.

Some publish to a queue that keeps its dead letters until they are confirmed, some reject what is in
it, and some take what has arrived in the other queue, which rejects publishes while it is full. In
the end everything that was confirmed to a publisher has arrived, and nothing that nobody sent.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.carried import Books, Receiver, Sender, clients_of
from sim.publisher import PERSISTENT
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

SOURCE: Final = "letters"
TARGET: Final = "arrived"


@final
class Letters(Books):
    """What was sent, and what has arrived.

    Attributes:
        most: So many the queue where they arrive may hold.
    """

    what = "dead letters"
    word = b"letter"

    def __init__(self, world: Stage, random: Random, kind: str) -> None:
        super().__init__(world, kind)
        self.most = random.choice((1, 5, 1_000))

    def have(self, actor: Actor) -> None:
        """Both queues."""
        target = self.target() | {"x-max-length": self.most, "x-overflow": "reject-publish"}
        source: Table = {
            "x-queue-type": "quorum",
            "x-overflow": "reject-publish",
            "x-dead-letter-strategy": "at-least-once",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": TARGET,
        }
        ttl_ms = self.world.options.letters_ttl_ms
        if ttl_ms:
            source["x-message-ttl"] = ttl_ms
        for name, arguments in ((TARGET, target), (SOURCE, source)):
            actor.call(spec.QueueDeclare(queue=name, durable=True, arguments=arguments), ignore)

    def envelope(self) -> tuple[spec.BasicPublish, bytes]:
        """All go to where they die."""
        return spec.BasicPublish(exchange="", routing_key=SOURCE), PERSISTENT


class Settling(Receiver):
    """Settles what comes, each kind in its own way."""

    def settle(self, last: int) -> spec.Method:
        """What settles all up to a tag."""
        raise AssertionError("a receiver defines settle")

    def act(self) -> None:
        """Settle some, or give them back."""
        if not self.held:
            return
        chance = self.random.random()
        calm = self.books.calm
        if not calm and chance < self.world.options.close_share:
            self.close_channel()
            return
        last = self.held[-1] if calm else self.random.choice(self.held)
        self.held = [tag for tag in self.held if tag > last]
        if not calm and chance > 0.8:
            self.send(spec.BasicNack(last, True, True))
        else:
            self.send(self.settle(last))


@final
class Killer(Settling):
    """Rejects what is to die."""

    queue = SOURCE

    def take(self, number: int) -> None:
        """It has not arrived yet."""

    def settle(self, last: int) -> spec.Method:
        """They die."""
        self.world.count("rejected to die")
        return spec.BasicNack(last, True, False)


@final
class Reader(Settling):
    """Takes what has arrived."""

    queue = TARGET

    def settle(self, last: int) -> spec.Method:
        """They are read."""
        return spec.BasicAck(last, True)


def add_letters(world: Stage, clients: list[Client], letters: Letters) -> None:
    """Clients that have to do with dead letters."""
    for client in clients_of(world, "l", letters, (Sender, Killer, Reader)):
        clients += [client, client]


def undertakers(world: Stage, letters: Letters) -> list[Client]:
    """Those who reject and take all that is left."""
    letters.calm = True
    return clients_of(world, "e", letters, (Killer, Reader))
