"""Messages that die in one queue, go to another one, die there, and come back.

What is rejected in the first queue goes to the second, where it expires, and so comes to the first
one again: as often as it is rejected. In some runs it expires in the first queue, too. Then it
would go round with nobody rejecting it, which RabbitMQ does not allow: it is dropped where it would
come into the first queue for the second time, or, at least once, stays where it died last.

At most once, a message comes out of the first queue as if nobody had had it no oftener than it was
published and rejected. Whatever comes has been rejected as often as it says, at most, and nothing
comes that has been round by itself. At least once, and where nothing expires in the first queue,
everything that was confirmed to a publisher is there in the end until somebody acknowledges it.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.carried import Books, Sender, clients_of
from sim.dead_letters import Settling
from sim.model import Violation
from sim.publisher import PERSISTENT
from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

FIRST: Final = "hops.first"
SECOND: Final = "hops.second"
SECOND_TTL_MS: Final = 40
FIRST_TTL_MS: Final = 150
TURN_SHARE: Final = 0.7


@final
class Hops(Books):
    """What was sent, what was rejected, and what has come.

    Attributes:
        once: Whether letters go at most once, and not at least once.
        rounds: Whether messages expire in the first queue, too.
    """

    what = "messages that hop"
    word = b"hop"

    def __init__(self, world: Stage, random: Random, once: bool, rounds: bool) -> None:
        super().__init__(world, "quorum")
        self.once = once
        self.rounds = rounds
        self._random = random
        self._rejected: Counter[int] = Counter()
        self._came: Counter[int] = Counter()

    def have(self, actor: Actor) -> None:
        """Both queues, each with the other one for what dies."""
        lives = {FIRST: FIRST_TTL_MS if self.rounds else 0, SECOND: SECOND_TTL_MS}
        for name, other in ((FIRST, SECOND), (SECOND, FIRST)):
            arguments: Table = {
                "x-queue-type": "quorum",
                "x-delivery-limit": -1,
                "x-overflow": "reject-publish",
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": other,
                "x-dead-letter-strategy": "at-most-once" if self.once else "at-least-once",
            }
            if lives[name]:
                arguments["x-message-ttl"] = lives[name]
            actor.call(spec.QueueDeclare(queue=name, durable=True, arguments=arguments), ignore)

    def envelope(self) -> tuple[spec.BasicPublish, bytes]:
        """All go to the first queue."""
        return spec.BasicPublish(exchange="", routing_key=FIRST), PERSISTENT

    def reject(self, numbers: list[int]) -> None:
        """These are to hop."""
        self._rejected.update(numbers)

    def examine(self, number: int, properties: Properties, fresh: bool, name: str) -> None:
        """One came out of the first queue.

        Args:
            fresh: Whether it comes as if nobody had had it there.

        Raises:
            Violation: It cannot be there, or not once more.
        """
        deaths = (properties.headers or {}).get("x-death")
        seen = (
            [each for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else []
        )
        told = 0
        for death in seen:
            if death.get("queue") == FIRST and death.get("reason") == "rejected":
                told += int(str(death.get("count")))
        if told > self._rejected[number]:
            raise Violation(
                f"{name} got hop {number}, which says that it was rejected {told} times, and was "
                f"{self._rejected[number]} times"
            )
        round_by_itself = any(death.get("queue") == FIRST for death in seen)
        if round_by_itself and all(death.get("reason") != "rejected" for death in seen):
            raise Violation(f"{name} got hop {number}, which went round with nobody rejecting it")
        if told:
            self.world.count("hops of messages")
        if not fresh:
            return
        self._came[number] += 1
        if self.once and self._came[number] > 1 + self._rejected[number]:
            raise Violation(
                f"{name} got hop {number} for the {self._came[number]}th time, and it was rejected "
                f"{self._rejected[number]} times"
            )

    def keeps(self) -> bool:
        """Whether what would go round stays where it died last, as in RabbitMQ, at least once."""
        return self.rounds and not self.once

    def check(self) -> None:
        """All that was confirmed has come, unless it may be lost on its way, or by going round."""
        if not self.once and not self.rounds:
            super().check()


@final
class Turner(Settling):
    """Takes what is in the first queue, and rejects most of it."""

    queue = FIRST

    def __init__(self, world: Stage, name: str, number: int, hops: Hops) -> None:
        super().__init__(world, name, number, hops)
        self.hops = hops

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, which says how it came here."""
        if isinstance(method, spec.BasicDeliver):
            assert self.connection is not None
            header = self.connection.properties
            properties = decode_properties(header, 0, len(header))
            number = self.books.number(content, self.name)
            self.hops.examine(number, properties, not method.redelivered, self.name)
        super().pushed(method, content)

    def take(self, number: int) -> None:
        """It may be to hop yet."""

    def settle(self, last: int) -> spec.Method:
        """They hop once more, or have come."""
        numbers = [number for tag, number in self.held.items() if tag <= last]
        if not self.books.calm and self.random.random() < TURN_SHARE:
            self.hops.reject(numbers)
            return spec.BasicNack(last, True, False)
        for number in numbers:
            self.books.arrive(number, self.name)
        return spec.BasicAck(last, True)


def add_hops(world: Stage, clients: list[Client], hops: Hops) -> None:
    """Clients that have to do with them."""
    for client in clients_of(world, "h", hops, (Sender, Turner)):
        clients += [client, client]


def last_turners(world: Stage, hops: Hops) -> list[Client]:
    """Those who take all that is left."""
    hops.calm = True
    return clients_of(world, "hx", hops, (Turner,))
