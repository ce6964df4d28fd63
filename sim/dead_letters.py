"""Messages that die in a queue and have to arrive in another one.

Some publish to a queue with dead letters, some reject what is in it, for good or so that it fails,
and some take what has arrived in the other queue. Nothing arrives that no client sent, or that had
no reason to die, which it has to say: it was rejected for good, or it failed oftener than the
queue's delivery limit, or its time was over, or there was no room for it.

At least once, everything that was confirmed to a publisher has arrived in the end, although the
other queue rejects publishes while it is full. At most once that goes for what dies when nothing
goes wrong any more, and what dies in a quorum queue never arrives twice, whoever leads it when. In
some runs policies say meanwhile how it is to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.carried import FRAME_BYTES, Books, Receiver, Sender, clients_of
from sim.model import Violation
from sim.publisher import PERSISTENT
from warren.metadata.commands import ClearPolicy, SetPolicy
from warren.wire.amqp091 import spec
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

SOURCE: Final = "letters"
TARGET: Final = "arrived"
POLICY: Final = "letters"
EARLY_MS: Final = 100
"""So much earlier one may expire: a turn goes by the time at which it began, on each node."""
REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit")
TTLS_MS: Final = (20, 400)
"""What policies say."""
CHANGE_SHARE: Final = 0.3


@final
class Letters(Books):
    """What was sent, what has died, and what has arrived.

    Attributes:
        most: So many the queue where they arrive may hold.
        once: Whether they arrive at most once, and not at least once.
        sure: Whether those come, too, that die at most once when nothing goes wrong any more.
        limit: How often a delivery may fail; negative for ever.
        source: Which kind of queue they die in.
        strict: Whether clocks go right, so that none may expire before its time.
        changes: Whether policies say meanwhile how it is to be.
        single: Whether none may arrive twice. A classic queue forgets in a crash that one has died.
        lives: How often somebody began to consume what is to die.
    """

    what = "dead letters"
    word = b"letter"

    def __init__(
        self, world: Stage, random: Random, kind: str, source: str, sure: bool, strict: bool
    ) -> None:
        super().__init__(world, kind)
        options = world.options
        self.sure = sure
        self.strict = strict
        self.source = source
        self.changes = options.letters_change
        self.once = options.letters_once or source == "classic" or self.changes
        self.single = self.once and source == "quorum" and not self.changes
        self.limit = options.letters_limit if source == "quorum" else -1
        self._random = random
        self._due_ms: dict[int, int] = {}
        self.most = random.choice((1, 5, 1_000))
        if self.once:
            # What it rejected would be lost.
            self.most = 1_000
        self.lives = 0
        self._failed: Counter[int] = Counter()
        self._rejected: set[int] = set()
        self._came: set[int] = set()
        """Those that were handed out where they arrive, and not for the second time."""
        self._owed: set[int] = set()
        """Those that died when nothing went wrong any more."""

    def have(self, actor: Actor) -> None:
        """Both queues."""
        target = self.target() | {"x-max-length": self.most, "x-overflow": "reject-publish"}
        options = self.world.options
        source: Table = {
            "x-queue-type": self.source,
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": TARGET,
        }
        if self.source == "quorum":
            source["x-delivery-limit"] = self.limit
            if not self.changes:
                how = "at-most-once" if self.once else "at-least-once"
                source["x-dead-letter-strategy"] = how
        if not self.once or self.changes or self.source == "quorum" and options.letters_most < 0:
            source["x-overflow"] = "reject-publish"
        if options.letters_most >= 0:
            source["x-max-length"] = options.letters_most
        if options.letters_ttl_ms:
            source["x-message-ttl"] = options.letters_ttl_ms
        for name, arguments in ((TARGET, target), (SOURCE, source)):
            actor.call(spec.QueueDeclare(queue=name, durable=True, arguments=arguments), ignore)

    def envelope(self) -> tuple[spec.BasicPublish, bytes]:
        """All go to where they die, some to die soon."""
        options = self.world.options
        lives = [options.letters_ttl_ms] if options.letters_ttl_ms else []
        properties = PERSISTENT
        life_ms = self._random.choice(options.letters_lives) if options.letters_lives else 0
        if life_ms:
            lives.append(life_ms)
            properties = Properties(delivery_mode=2, expiration=str(life_ms)).encode()
        if self.changes:
            lives += TTLS_MS
        if lives:
            self._due_ms[self._sent] = self.world.now_ms() + min(lives)
        return spec.BasicPublish(exchange="", routing_key=SOURCE), properties

    def fail(self, number: int) -> None:
        """A client fails with one."""
        self._failed[number] += 1

    def reject(self, numbers: Iterable[int]) -> None:
        """These are to die."""
        self._rejected.update(numbers)
        if self.calm and self.sure:
            self._owed.update(numbers)

    def examine(self, number: int, properties: Properties, name: str) -> None:
        """One has arrived: look at why it died.

        Raises:
            Violation: It had no reason for that, or says none.
        """
        deaths = (properties.headers or {}).get("x-death")
        death = deaths[0] if isinstance(deaths, list) and deaths else None
        if not isinstance(death, dict) or death.get("queue") != SOURCE:
            raise Violation(f"{name} got letter {number}, which does not say where it died")
        reason = death.get("reason")
        if reason not in REASONS:
            raise Violation(f"{name} got letter {number}, which died of {reason!r}")
        if properties.expiration is not None:
            raise Violation(f"{name} got letter {number}, which may expire once more")
        self.world.count(f"dead letters {reason}")
        problem = self._problem(number, str(reason))
        if problem:
            raise Violation(f"{name} got letter {number}, which died of {reason}, but {problem}")

    def _problem(self, number: int, reason: str) -> str:
        """Why one cannot have died of this; empty if it can."""
        if reason == "rejected":
            return "" if number in self._rejected else "nobody rejected it"
        if reason == "maxlen":
            may = self.changes or (self.world.options.letters_most >= 0 and self.once)
            return "" if may else "there is room for all"
        if reason == "expired":
            if number not in self._due_ms:
                return "it was to live for ever"
            early = self._due_ms[number] - self.world.now_ms()
            return f"it had {early} ms left" if self.strict and early > EARLY_MS else ""
        # Whoever came and went may have left it behind, seen or not.
        failed_max = self._failed[number] + self.lives
        if 0 <= self.limit < failed_max:
            return ""
        return f"it failed {failed_max} times at most, with a limit of {self.limit}"

    def come(self, number: int, name: str) -> None:
        """One is handed out as if nobody had had it: it is in the other queue once.

        Raises:
            Violation: It is there twice.
        """
        if self.single and number in self._came:
            raise Violation(f"{name} got letter {number}, which had arrived before")
        self._came.add(number)

    def arrive(self, number: int, name: str) -> None:
        """One has arrived."""
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

    def __init__(self, world: Stage, name: str, number: int, letters: Letters) -> None:
        super().__init__(world, name, number, letters)
        self.letters = letters

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, which may be there twice."""
        if isinstance(method, spec.BasicDeliver) and not method.redelivered:
            self.letters.come(self.books.number(content, self.name), self.name)
        super().pushed(method, content)

    def take(self, number: int) -> None:
        """It has arrived, and says why."""
        assert self.connection is not None
        header = self.connection.properties
        self.letters.examine(number, decode_properties(header, 0, len(header)), self.name)
        super().take(number)

    def settle(self, last: int) -> spec.Method:
        """They are read."""
        return spec.BasicAck(last, True)


@final
class Registrar(Actor):
    """An operator, who says by policies how letters are to die."""

    def set_up(self) -> None:
        """Nothing is to be declared."""
        self.call(spec.BasicQos(), self.begin)

    def act(self) -> None:
        """Set the policy, or take it away."""
        world, random = self.world, self.random
        if random.random() > CHANGE_SHARE:
            return
        assert self.connection is not None
        set_policy(world, self.connection.site, random)


def set_policy(world: Stage, site: str, random: Random | None) -> None:
    """Have another policy, or none, for the queue in which letters die; without chance none."""
    if random is None or random.random() < 0.2:
        world.change_tables(site, ClearPolicy("/", POLICY, False))
        return
    definition: dict[str, object] = {}
    if random.random() < 0.5:
        definition["dead-letter-strategy"] = random.choice(("at-most-once", "at-least-once"))
    if random.random() < 0.5:
        definition["message-ttl"] = random.choice(TTLS_MS)
    if random.random() < 0.5:
        definition["overflow"] = random.choice(("drop-head", "reject-publish"))
    if random.random() < 0.3:
        definition["max-length"] = random.choice((1, 10))
    if not definition:
        definition["dead-letter-strategy"] = "at-least-once"
    world.say("%s: letters die by %s", site, definition)
    world.count("policies of dead letters")
    command = SetPolicy("/", POLICY, False, f"^{SOURCE}$", "queues", 9, definition)
    world.change_tables(site, command)


def add_letters(world: Stage, clients: list[Client], letters: Letters) -> None:
    """Clients that have to do with dead letters."""
    for client in clients_of(world, "l", letters, (Sender, Killer, Reader)):
        clients += [client, client]
    if letters.changes:
        client = Client(world, "lp", FRAME_BYTES)
        client.actors.append(Registrar(world, "lp.1", 1))
        clients.append(client)


def undertakers(world: Stage, letters: Letters) -> list[Client]:
    """Those who reject and take all that is left."""
    letters.calm = True
    return clients_of(world, "e", letters, (Killer, Reader))
