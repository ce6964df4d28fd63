"""Messages that die in a quorum queue and have to arrive in another one.

Some publish to a queue with dead letters, some reject what is in it, for good or so that it fails,
and some take what has arrived in the other queue. Nothing arrives that no client sent, or that had
no reason to die: it was rejected for good, or it failed oftener than the queue's delivery limit, or
it may have expired.

At least once, everything that was confirmed to a publisher has arrived in the end, although the
other queue rejects publishes while it is full. At most once that goes for what dies when nothing
goes wrong any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.carried import Books, Receiver, Sender, clients_of
from sim.model import Violation
from sim.publisher import PERSISTENT
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

SOURCE: Final = "letters"
TARGET: Final = "arrived"


@final
class Letters(Books):
    """What was sent, what has died, and what has arrived.

    Attributes:
        most: So many the queue where they arrive may hold.
        once: Whether they arrive at most once, and not at least once.
        sure: Whether those come, too, that die at most once when nothing goes wrong any more.
        limit: How often a delivery may fail; negative for ever.
        lives: How often somebody began to consume what is to die.
    """

    what = "dead letters"
    word = b"letter"

    def __init__(self, world: Stage, random: Random, kind: str, sure: bool) -> None:
        super().__init__(world, kind)
        options = world.options
        self.sure = sure
        self.once = options.letters_once
        self.limit = options.letters_limit
        self.most = random.choice((1, 5, 1_000))
        if self.once:
            # What it rejected would be lost.
            self.most = 1_000
        self.lives = 0
        self._failed: Counter[int] = Counter()
        self._rejected: set[int] = set()
        self._owed: set[int] = set()
        """Those that died when nothing went wrong any more."""

    def have(self, actor: Actor) -> None:
        """Both queues."""
        target = self.target() | {"x-max-length": self.most, "x-overflow": "reject-publish"}
        source: Table = {
            "x-queue-type": "quorum",
            "x-overflow": "reject-publish",
            "x-delivery-limit": self.limit,
            "x-dead-letter-strategy": "at-most-once" if self.once else "at-least-once",
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

    def fail(self, number: int) -> None:
        """A client fails with one."""
        self._failed[number] += 1

    def reject(self, numbers: Iterable[int]) -> None:
        """These are to die."""
        self._rejected.update(numbers)
        if self.calm and self.sure:
            self._owed.update(numbers)

    def arrive(self, number: int, name: str) -> None:
        """One has arrived.

        Raises:
            Violation: It had no reason to die.
        """
        if number not in self._rejected and not self.world.options.letters_ttl_ms:
            # Whoever came and went may have left it behind, seen or not.
            failed_max = self._failed[number] + self.lives
            if not 0 <= self.limit < failed_max:
                raise Violation(
                    f"{name} got letter {number}, which nobody rejected; it failed {failed_max} "
                    f"times at most, with a limit of {self.limit}"
                )
            self.world.count("dead letters of a limit")
        if self.once:
            self.world.count("dead letters at most once")
        super().arrive(number, name)

    def came(self) -> bool:
        """Whether all has arrived that died when nothing went wrong any more."""
        return self._owed <= self.arrived

    def check(self) -> None:
        """All that was confirmed has arrived, unless it may be lost on its way."""
        if not self.once:
            super().check()


class Settling(Receiver):
    """Settles what comes, each kind in its own way."""

    def settle(self, last: int) -> spec.Method:
        """What settles all up to a tag."""
        raise AssertionError("a receiver defines settle")

    def give_back(self, last: int, chance: float) -> None:
        """Give back all up to a tag."""
        self.held = {tag: number for tag, number in self.held.items() if tag > last}
        self.send(spec.BasicNack(last, True, True))

    def act(self) -> None:
        """Settle some, or give them back."""
        if not self.held:
            return
        chance = self.random.random()
        calm = self.books.calm
        if not calm and chance < self.world.options.close_share:
            self.close_channel()
            return
        last = max(self.held) if calm else self.random.choice(list(self.held))
        if not calm and chance > 0.8:
            self.give_back(last, chance)
        else:
            self.send(self.settle(last))
            self.held = {tag: number for tag, number in self.held.items() if tag > last}


@final
class Killer(Settling):
    """Rejects what is to die."""

    queue = SOURCE

    def __init__(self, world: Stage, name: str, number: int, letters: Letters) -> None:
        super().__init__(world, name, number, letters)
        self.letters = letters

    def set_up(self) -> None:
        """Subscribe once more."""
        self.letters.lives += 1
        super().set_up()

    def take(self, number: int) -> None:
        """It has not arrived yet."""

    def give_back(self, last: int, chance: float) -> None:
        """Give some back, or fail with one."""
        if chance > 0.9:
            super().give_back(last, chance)
        else:
            self.letters.fail(self.held.pop(last))
            self.send(spec.BasicReject(last, True))

    def settle(self, last: int) -> spec.Method:
        """They die."""
        self.world.count("rejected to die")
        self.letters.reject([number for tag, number in self.held.items() if tag <= last])
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
