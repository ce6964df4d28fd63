"""Messages that wait in an exchange, and have to come to a queue in the end, none before its time.

Some publish to an exchange of type `x-delayed-message`, by an exchange that is bound to it now and
then, and some take what has come to a queue that is bound to it.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.carried import Books, Receiver, Sender, clients_of
from sim.model import Violation
from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

EXCHANGE: Final = "delaying"
BESIDE: Final = "beside"
"""Leads to the same."""
TARGET: Final = "due"
STORE: Final = "amq.delayed.delaying"
EARLY_MS: Final = 100
"""So much earlier a message may come: a turn goes by the time at which it began, on each node."""
DELAYS_MS: Final = (1, 20, 300, 300, 2_000, 5_000)


@final
class Delays(Books):
    """What was sent, and what has come.

    Attributes:
        strict: Whether clocks go right, so that none may come before its time.
    """

    what = "delayed messages"
    word = b"delayed"

    def __init__(self, world: Stage, random: Random, kind: str, strict: bool) -> None:
        super().__init__(world, kind)
        self.strict = strict
        self._random = random
        self._due_ms: list[int] = []

    def have(self, actor: Actor) -> None:
        """The exchange, what leads to it, and the queue."""
        typed: Table = {"x-delayed-type": "fanout"}
        actor.call(
            spec.ExchangeDeclare(
                exchange=EXCHANGE, type_="x-delayed-message", durable=True, arguments=typed
            ),
            ignore,
        )
        actor.call(spec.ExchangeDeclare(exchange=BESIDE, type_="fanout", durable=True), ignore)
        actor.call(spec.ExchangeBind(destination=EXCHANGE, source=BESIDE), ignore)
        actor.call(spec.QueueDeclare(queue=TARGET, durable=True, arguments=self.target()), ignore)
        actor.call(spec.QueueBind(queue=TARGET, exchange=EXCHANGE), ignore)

    def envelope(self) -> tuple[spec.BasicPublish, bytes]:
        """It waits for a time that is drawn."""
        delay = self._random.choice(DELAYS_MS)
        self._due_ms.append(self.world.now_ms() + delay)
        properties = Properties()
        properties.headers = {"x-delay": delay}
        properties.delivery_mode = 2
        exchange = BESIDE if self.world.random.random() < 0.2 else EXCHANGE
        method = spec.BasicPublish(exchange=exchange, routing_key="k", mandatory=True)
        return method, properties.encode()

    def arrive(self, number: int, name: str) -> None:
        """One came to the queue.

        Raises:
            Violation: It is not due yet.
        """
        early = self._due_ms[number - 1] - self.world.now_ms()
        if self.strict and early > EARLY_MS:
            raise Violation(f"{name} got message {number} {early} ms before its time")
        super().arrive(number, name)


@final
class Taker(Receiver):
    """Takes what has come."""

    queue = TARGET

    def act(self) -> None:
        """Settle all, or go and come again."""
        if not self.books.calm and self.random.random() < self.world.options.close_share:
            self.close_channel()
        elif self.held:
            self.send(spec.BasicAck(max(self.held), True))
            self.held = {}


def add_delays(world: Stage, clients: list[Client], delays: Delays) -> None:
    """Clients that have to do with messages that wait."""
    for client in clients_of(world, "d", delays, (Sender, Taker)):
        clients += [client, client]


def takers(world: Stage, delays: Delays) -> list[Client]:
    """Whoever takes all that is left."""
    delays.calm = True
    return clients_of(world, "t", delays, (Taker,))
