"""A queue of which policies say otherwise again and again, while it is used.

Policies and operator policies change how many messages it may hold, and bytes of them, what happens
to more, when messages expire, how often a delivery may fail, how long what returns waits, what
becomes of those that die, and, user policies alone, how long a consumer may hold a message.
Each run has a few such terms to choose from. A change takes effect some time after it was asked for
and two policies count together, so that while things go wrong whatever one of the terms allows may
happen; what none allows may not. `trials` says what happens when nothing goes wrong any more.

Source: ARG-06, ARG-07, ARG-10; CT-05 to CT-07; QL-01, QL-02; DL-01 to DL-04, DL-15.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final, NamedTuple, final

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

GOVERNED: Final = "governed"
BURIED: Final = "buried"
POLICY: Final = "governs"
PRIORITY: Final = 9
BODY_BYTES: Final = 14
"""All messages have bodies of this size, so that a limit of bytes is one of messages."""
BYTES: Final = {"classic": BODY_BYTES, "quorum": BODY_BYTES + len(PERSISTENT)}
"""What a message counts: of a quorum queue with its properties."""
EARLY_MS: Final = 100
"""So much earlier one may expire: a turn goes by the time at which it began, on each node."""
UNSAID: Final = -2
"""A delivery limit or a consumer timeout of which policies say nothing."""
NOWHERE: Final = "nowhere"
ONCE: Final = "at-most-once"
KEPT: Final = "at-least-once"
RETRY_MOST: Final = 3
"""What returns waits no longer than so many times the shortest wait."""
RETRIES_MS: Final = (0, 0, 20, 300)
REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit")
LONG_MS: Final = 3_600_000
TIMEOUTS_MS: Final = (300, 300, 900, LONG_MS)
DECLARED_MS: Final = (-1, 600, LONG_MS)
"""A consumer timeout that the queue is declared with; -1 for none."""
FEW: Final = (0, 1, 2, 5)
"""So many there may be where what is rejected goes to an exchange."""
SPILL_SHARE: Final = 0.5
TIMEOUT_SHARE: Final = 0.6
CHANGE_SHARE: Final = 0.3
CLEAR_SHARE: Final = 0.2


@final
class Terms(NamedTuple):
    """What policies say of the queue.

    Attributes:
        most: So many ready messages it may have; -1 for no limit.
        most_bytes: So many bytes these may take; likewise.
        rejects: Whether publishes are rejected where there is too much.
        to_exchange: Whether policies say `reject-publish-dlx`: what a classic queue rejects dies of
            that, and a quorum queue drops its first messages.
        ttl_ms: When messages expire that come from then on; -1 for never.
        limit: How often a delivery may fail; negative for ever, and `UNSAID`.
        retry_ms: So long what returns waits for each delivery that failed, up to thrice; 0 for not
            at all.
        dead: What becomes of those that die: `NOWHERE`, `ONCE`, `KEPT`.
        expires_ms: For how long the queue may be unused; -1 for ever.
        timeout_ms: For how long who subscribes from then on may hold a message; or `UNSAID`.
    """

    most: int = -1
    most_bytes: int = -1
    rejects: bool = False
    ttl_ms: int = -1
    limit: int = UNSAID
    retry_ms: int = 0
    dead: str = NOWHERE
    expires_ms: int = -1
    to_exchange: bool = False
    timeout_ms: int = UNSAID

    def spills(self) -> bool:
        """Whether what is rejected goes where the dead go."""
        return self.to_exchange and self.rejects

    def room(self, kind: str) -> int:
        """How many messages there may be in a queue of a kind; -1 for no limit."""
        by_bytes = self.most_bytes // BYTES[kind] if self.most_bytes >= 0 else -1
        return (
            max(self.most, by_bytes) if self.most < 0 or by_bytes < 0 else min(self.most, by_bytes)
        )


Definition = dict[str, object]


def draw_terms(
    random: Random, kind: str, kept: bool, ttls_ms: tuple[int, ...], retries_ms: tuple[int, ...]
) -> Terms:
    """Draw terms for a queue of a kind.

    Args:
        kept: Whether its declaration says that dead letters arrive at least once.
        ttls_ms: What times to live there are to choose from.
        retries_ms: For how long what returns to a quorum queue may wait, likewise.
    """
    way = random.choice(("most", "most", "bytes", "ttl", "nothing"))
    count = random.choice((1, 2, 5, 9))
    dead = random.choice((NOWHERE, ONCE, KEPT if kind == "quorum" else ONCE))
    rejects = random.random() < 0.4
    if kept:
        dead, rejects = KEPT, True
    return Terms(
        most=count if way == "most" else -1,
        most_bytes=count * BYTES[kind] if way == "bytes" else -1,
        rejects=rejects or dead == KEPT,
        ttl_ms=random.choice(ttls_ms) if way == "ttl" else -1,
        limit=random.choice((UNSAID, UNSAID, -1, 0, 1)) if kind == "quorum" else UNSAID,
        retry_ms=random.choice(retries_ms) if kind == "quorum" else 0,
        dead=dead,
    )


def definitions_of(terms: Terms, kind: str, random: Random) -> tuple[Definition, Definition]:
    """A user's policy and an operator's that together say terms, drawn from all that do."""
    user: Definition = {}
    operator: Definition = {}

    def say(key: str, value: int, looser: int) -> None:
        who = random.choice(("user", "operator", "both", "both"))
        values = [value, looser]
        random.shuffle(values)
        if who == "user":
            user[key] = value
        elif who == "operator":
            operator[key] = value
        else:
            user[key], operator[key] = values

    if terms.most >= 0:
        say("max-length", terms.most, terms.most + random.randrange(3))
    if terms.most_bytes >= 0:
        say("max-length-bytes", terms.most_bytes, terms.most_bytes * 2)
    if terms.ttl_ms >= 0:
        say("message-ttl", terms.ttl_ms, LONG_MS)
    if terms.expires_ms >= 0:
        say("expires", terms.expires_ms, LONG_MS)
    if terms.limit != UNSAID:
        say("delivery-limit", terms.limit, terms.limit + 2 if terms.limit >= 0 else -1)
    if terms.retry_ms > 0:
        times = [
            (terms.retry_ms, RETRY_MOST * terms.retry_ms),
            (terms.retry_ms // 2, LONG_MS),
        ]
        both = random.sample((user, operator), 2)
        # Of two shortest times the longer one counts, and of longest ones the shorter.
        for policy, (least, most) in zip(both[: random.choice((1, 2))], times, strict=False):
            policy["delayed-retry-type"] = "all"
            policy["delayed-retry-min"] = least
            policy["delayed-retry-max"] = most
    overflow = "reject-publish" if terms.rejects else "drop-head"
    # Whoever says a limit says what becomes of more, so that two policies of the same kind agree.
    user["overflow"] = "reject-publish-dlx" if terms.to_exchange else overflow
    if operator:
        operator["overflow"] = user["overflow"]
        if terms.to_exchange:
            # What the operator says counts.
            user["overflow"] = random.choice(("reject-publish-dlx", overflow))
    if terms.timeout_ms >= 0:
        # Operators have no such key.
        user["consumer-timeout"] = terms.timeout_ms
    if terms.dead != NOWHERE:
        user["dead-letter-exchange"] = ""
        user["dead-letter-routing-key"] = BURIED
        if kind == "quorum":
            # A policy with a key that a type of queue does not know is none for it.
            user["dead-letter-strategy"] = terms.dead
    return user, operator


@final
class Governed(Books):
    """What was sent to the queue, and what became of it.

    Attributes:
        source: Its kind.
        kept: Whether it is declared with dead letters that arrive at least once.
        strict: Whether clocks go right, so that none may expire before its time.
        sure: Whether what dies at most once arrives when nothing goes wrong.
        declared_ms: The consumer timeout that the queue is declared with; negative for none.
        more: Draws what came to be drawn later.
        returned: What a consumer held for too long when nothing went wrong.
        retries_ms: How long what returns may have to wait.
        palette: The terms there are to choose from.
        taken: What a client has acknowledged.
        died: Of what those died that have arrived in the other queue.
        refused: Those that a publisher was told are not there.
        deliveries: How often each was delivered.
        quota: So many are to be sent, when nothing goes wrong any more.
        singly: Whether each of these waits for the answer to the one before.
        lives: How often somebody began to consume the queue.
    """

    what = "governed messages"
    word = b"governed"

    def __init__(
        self, world: Stage, random: Random, source: str, kind: str, sure: bool, strict: bool
    ) -> None:
        super().__init__(world, kind)
        self.random = random
        self.source = source
        self.sure = sure
        self.strict = strict
        self.kept = source == "quorum" and random.random() < 0.4
        self.most = random.choice((1, 5, 1_000)) if self.kept else 1_000
        # A queue's time never goes back: behind a clock that jumped ahead nothing ever comes again.
        self.retries_ms = RETRIES_MS if strict else (0,)
        self.more = Random(f"{world.seed} more that policies say")
        self._varies = world.options.governed_varies
        timed = self._varies and source == "quorum" and strict
        self.declared_ms = self.more.choice(DECLARED_MS) if timed else -1
        self._timeouts_ms = TIMEOUTS_MS if timed else ()
        self.palette = [self.draw((20, 400)) for _ in range(random.choice((1, 2)))]
        self._said = [definitions_of(terms, source, random) for terms in self.palette]
        self.taken: set[int] = set()
        self.died: dict[int, str] = {}
        self.refused: set[int] = set()
        self.returned: set[int] = set()
        self.deliveries: Counter[int] = Counter()
        self.quota = 0
        self.singly = False
        self.lives = 0
        self.rejected: set[int] = set()
        self._failed: Counter[int] = Counter()
        self._sent_ms: dict[int, int] = {}
        self._last = 0
        """The last one that was sent while things went wrong."""

    def draw(self, ttls_ms: tuple[int, ...]) -> Terms:
        """Draw terms.

        Args:
            ttls_ms: What times to live there are to choose from.
        """
        terms = draw_terms(self.random, self.source, self.kept, ttls_ms, self.retries_ms)
        more = self.more
        if self._varies and terms.dead != KEPT and more.random() < SPILL_SHARE:
            classic = self.source == "classic"
            terms = terms._replace(rejects=classic, to_exchange=True)
            if terms.room(self.source) < 0:
                terms = terms._replace(most=more.choice(FEW), ttl_ms=-1)
            if terms.dead == NOWHERE and more.random() < 0.5:
                terms = terms._replace(dead=ONCE)
        if self._timeouts_ms and more.random() < TIMEOUT_SHARE:
            terms = terms._replace(timeout_ms=more.choice(self._timeouts_ms))
        return terms

    def timeout_ms(self, terms: Terms, own_ms: int) -> int:
        """How long a consumer may hold a message that subscribes under some terms.

        Args:
            own_ms: What the consumer asks for, negative if it does not.

        Returns:
            Milliseconds; negative for longer than any run.
        """
        if own_ms >= 0:
            return own_ms
        said = [each for each in (self.declared_ms, terms.timeout_ms) if each >= 0]
        return min(said, default=-1)

    def may_time_out(self) -> bool:
        """Whether consumers may be timed out."""
        return bool(self._timeouts_ms)

    def check_told(self, name: str, since_ms: int) -> None:
        """A consumer that goes by the queue's timeout was told that it held messages for too long.

        Args:
            since_ms: When it began to subscribe.

        Raises:
            Violation: It may hold them for longer by all terms.
        """
        palette = [Terms()] if self.calm else [Terms(), *self.palette]
        limits = [each for terms in palette if (each := self.timeout_ms(terms, -1)) >= 0]
        held_ms = self.world.now_ms() - since_ms
        if not limits or held_ms + EARLY_MS < min(limits):
            raise Violation(f"{name} was cancelled after {held_ms} ms, with {limits} allowed")
        self.world.count("consumers timed out by a policy")

    def have(self, actor: Actor) -> None:
        """Both queues."""
        target = self.target() | {"x-max-length": self.most, "x-overflow": "reject-publish"}
        source: Table = {"x-queue-type": self.source}
        if self.kept:
            source["x-dead-letter-exchange"] = ""
            source["x-dead-letter-routing-key"] = BURIED
            source["x-dead-letter-strategy"] = KEPT
            source["x-overflow"] = "reject-publish"
        if self.declared_ms >= 0:
            source["x-consumer-timeout"] = self.declared_ms
        for name, arguments in ((BURIED, target), (GOVERNED, source)):
            actor.call(spec.QueueDeclare(queue=name, durable=True, arguments=arguments), ignore)

    def envelope(self) -> tuple[spec.BasicPublish, bytes]:
        """All go to the queue."""
        self._sent_ms[self._sent] = self.world.now_ms()
        return spec.BasicPublish(exchange="", routing_key=GOVERNED), PERSISTENT

    def body(self, number: int) -> bytes:
        """All are of the same size."""
        body = b"%s %05d" % (self.word, number)
        assert len(body) == BODY_BYTES
        return body

    def next(self) -> int:
        """The number of the next one; 0 if there are enough for now."""
        if not self.calm:
            return super().next()
        if self.quota == 0 or (self.singly and not self.answered()):
            return 0
        self.quota -= 1
        self._sent += 1
        return self._sent

    def sent(self) -> int:
        """The number of the last one."""
        return self._sent

    def answered(self) -> bool:
        """Whether all that was sent when nothing went wrong is answered."""
        known = self.confirmed | self.refused
        return all(number in known for number in range(self._last + 1, self._sent + 1))

    def last(self) -> None:
        """From now on nothing goes wrong."""
        self.calm = True
        self._last = self._sent

    def refuse(self, number: int) -> None:
        """There was no room for one, or it could not be kept."""
        self.refused.add(number)
        self.world.count("governed messages refused")

    def confirm(self, number: int) -> None:
        """The queue has taken one in."""
        super().confirm(number)
        self._check_place(number)

    def take(self, number: int) -> None:
        """A client acknowledges one."""
        self.taken.add(number)
        self._check_place(number)

    def fail(self, number: int) -> None:
        """A client fails with one."""
        self._failed[number] += 1

    def bury(self, number: int, properties: Properties, name: str) -> None:
        """One has arrived where the dead go.

        Raises:
            Violation: It does not say of what it died, or cannot have died of that.
        """
        deaths = (properties.headers or {}).get("x-death")
        death = deaths[0] if isinstance(deaths, list) and deaths else None
        if not isinstance(death, dict) or death.get("queue") != GOVERNED:
            raise Violation(f"{name} got message {number}, which does not say where it died")
        reason = str(death.get("reason"))
        problem = self._problem(number, reason)
        if problem:
            raise Violation(f"{name} got message {number}, which died of {reason}, but {problem}")
        self.died[number] = reason
        self.world.count(f"died by policy: {reason}")
        self._check_place(number)

    def _check_place(self, number: int) -> None:
        """What there was no room for was either dropped or rejected.

        Raises:
            Violation: One died of that which the queue has taken in, though none is dropped.
        """
        if self.calm and number > self._last:
            # In trials another one looks at that.
            return
        if self.died.get(number) == "maxlen" and not self._may_drop():
            if number in self.confirmed or number in self.taken:
                raise Violation(f"governed message {number} was taken in, and rejected to die")

    def _problem(self, number: int, reason: str) -> str:
        """Why one cannot have died of this under any of the terms; empty if it can.

        In trials another one looks at that.
        """
        if reason not in REASONS:
            return "there is no such reason"
        if number > self._last:
            return ""
        if all(terms.dead == NOWHERE for terms in self.palette):
            return "none goes anywhere"
        if reason == "rejected":
            return "" if number in self.rejected else "nobody rejected it"
        if reason == "maxlen":
            return "" if self._may_drop() or self._may_spill() else "none is for want of room"
        if reason == "expired":
            lives = [terms.ttl_ms for terms in self.palette if terms.ttl_ms >= 0]
            if not lives:
                return "it was to live for ever"
            age = self.world.now_ms() - self._sent_ms[number]
            early = self.strict and age + EARLY_MS < min(lives)
            return f"it was {age} ms old, with {min(lives)} to live" if early else ""
        return "" if self._may_fail(number) else f"it failed {self._failed[number]} times at most"

    def _may_drop(self) -> bool:
        """Whether any terms have messages go for want of room."""
        return any(terms.room(self.source) >= 0 for terms in self.palette) and not all(
            terms.rejects for terms in self.palette
        )

    def _may_spill(self) -> bool:
        """Whether any terms have publishes die for want of room."""
        return any(terms.room(self.source) >= 0 for terms in self.palette) and any(
            terms.spills() for terms in self.palette
        )

    def _may_fail(self, number: int) -> bool:
        """Whether a message may have failed too often for any terms."""
        limits = [terms.limit for terms in self.palette if terms.limit >= 0]
        if self.default_limit() >= 0:
            limits.append(self.default_limit())
        # Whoever came and went may have left it behind, seen or not.
        return bool(limits) and self._failed[number] + self.lives > min(limits)

    def default_limit(self) -> int:
        """The delivery limit where nobody says one."""
        options = self.world.options
        own = self.source == "classic" or options.own_limit
        return -1 if own else options.delivery_limit

    def may_be_gone(self, number: int) -> bool:
        """Whether one that was sent while things went wrong may be nowhere."""
        if self.kept:
            return False
        return (
            number in self.rejected
            or self._may_drop()
            or any(terms.ttl_ms >= 0 for terms in self.palette)
            or self._may_fail(number)
        )

    def check(self) -> None:
        """All that was confirmed has come, or may have died without a trace.

        Raises:
            Violation: Something has not.
        """
        lost = [
            number
            for number in sorted(self.confirmed - self.taken - set(self.died))
            if number <= self._last and not self.may_be_gone(number)
        ]
        if lost:
            raise Violation(f"{self.what} {lost[:9]} were confirmed, and are nowhere")

    def change(self, site: str) -> None:
        """Have a policy be another one, or none."""
        random, world = self.random, self.world
        user, operator = random.choice(self._said)
        of_operator = random.random() < 0.5
        definition = operator if of_operator else user
        if random.random() < CLEAR_SHARE:
            definition = {}
        govern(world, site, definition, of_operator)


def govern(world: Stage, site: str, definition: Definition, operator: bool) -> None:
    """Have a policy say this, through a node; nothing takes it away."""
    who = "the operator's" if operator else "the user's"
    world.say("%s: %s policy of %s is %s", site, who, GOVERNED, definition)
    world.count("policies of a governed queue")
    if not definition:
        world.change_tables(site, ClearPolicy("/", POLICY, operator))
        return
    command = SetPolicy("/", POLICY, operator, f"^{GOVERNED}$", "queues", PRIORITY, definition)
    world.change_tables(site, command)


class GovernedReceiver(Receiver):
    """Consumes one of both queues."""

    def __init__(self, world: Stage, name: str, number: int, governed: Governed) -> None:
        super().__init__(world, name, number, governed)
        self.governed = governed


@final
class Taker(GovernedReceiver):
    """Settles what is in the queue, in one way or another."""

    queue = GOVERNED
    _since_ms = 0

    def set_up(self) -> None:
        """Subscribe once more."""
        self.governed.lives += 1
        self._since_ms = self.world.now_ms()
        super().set_up()

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, or the end: a quorum queue is there for good, and its consumers are served."""
        if isinstance(method, spec.BasicCancel) and self.governed.source == "quorum":
            self.governed.check_told(self.name, self._since_ms)
        super().pushed(method, content)

    def take(self, number: int) -> None:
        """It is not settled yet."""
        self.governed.deliveries[number] += 1

    def act(self) -> None:
        """Settle some, give them back, have them die, or go and come again."""
        if not self.held:
            return
        governed, random = self.governed, self.random
        if governed.calm:
            last = max(self.held)
            self._acknowledge(last)
            return
        chance = random.random()
        if chance < self.world.options.close_share:
            self.close_channel()
            return
        last = random.choice(list(self.held))
        if chance < 0.6:
            self._acknowledge(last)
        elif chance < 0.75:
            governed.rejected.update(number for tag, number in self.held.items() if tag <= last)
            self.send(spec.BasicNack(last, True, False))
            self._forget_up_to(last)
        elif chance < 0.9:
            self.send(spec.BasicNack(last, True, True))
            self._forget_up_to(last)
        else:
            governed.fail(self.held.pop(last))
            self.send(spec.BasicReject(last, True))

    def _acknowledge(self, last: int) -> None:
        for tag, number in self.held.items():
            if tag <= last:
                self.governed.take(number)
        self.send(spec.BasicAck(last, True))
        self._forget_up_to(last)

    def _forget_up_to(self, last: int) -> None:
        self.held = {tag: number for tag, number in self.held.items() if tag > last}


@final
class Burier(GovernedReceiver):
    """Takes what has died, and looks at why."""

    queue = BURIED

    def take(self, number: int) -> None:
        """One has arrived."""
        assert self.connection is not None
        header = self.connection.properties
        self.governed.bury(number, decode_properties(header, 0, len(header)), self.name)

    def act(self) -> None:
        """Settle all."""
        if self.held:
            self.send(spec.BasicAck(max(self.held), True))
            self.held = {}


@final
class Governor(Actor):
    """Changes policies now and then."""

    def __init__(self, world: Stage, name: str, number: int, governed: Governed) -> None:
        super().__init__(world, name, number)
        self._governed = governed

    def set_up(self) -> None:
        """Nothing is to be declared."""
        self.call(spec.BasicQos(), self.begin)

    def act(self) -> None:
        """Change one of both policies."""
        if self.random.random() < CHANGE_SHARE:
            assert self.connection is not None
            self._governed.change(self.connection.site)


def add_governed(world: Stage, clients: list[Client], governed: Governed) -> None:
    """Clients that have to do with the queue."""
    for client in clients_of(world, "g", governed, (Sender, Taker, Burier)):
        clients += [client, client]
    client = Client(world, "gp", FRAME_BYTES)
    client.actors.append(Governor(world, "gp.1", 1, governed))
    clients.append(client)
