"""What policies of a queue do when nothing goes wrong: exactly what they say.

A trial has some terms in force, fills the queue, has other terms in force, sends some more and
takes all out again, one way or another; now and then all nodes are stopped and started between.
What has to become of each message follows from the terms alone:

- Where the first ones are dropped, no more are left than there is room for, when a message comes
  and when a policy has come into force. Where publishes are rejected nothing that is there goes,
  and publishers are told; where they go to an exchange they arrive where the dead go, too.
- Messages expire that come under a time to live, and those do not that were there before, as in
  RabbitMQ.
- What fails oftener than the delivery limit allows dies, by the limit in force when it fails. What
  comes back waits for as long as it is to.
- Who holds messages for longer than the policies said when it subscribed is told so, and they
  return (`overdue`); that is no failure.
- What dies goes where the terms say. At least once all of it arrives, also what died before some
  other setting changed; what dies at most once does, too, since nothing goes wrong; where a change
  ends at-least-once, what is under way may go (DL-15).

In the end a policy says that the queue is to go when it is unused, and it goes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, final

from sim.carried import Sender, clients_of
from sim.governed import (
    BURIED,
    EARLY_MS,
    GOVERNED,
    KEPT,
    LONG_MS,
    NOWHERE,
    ONCE,
    POLICY,
    RETRY_MOST,
    UNSAID,
    Burier,
    Definition,
    Governed,
    GovernedReceiver,
    Taker,
    Terms,
    definitions_of,
    govern,
)
from sim.model import Violation
from sim.overdue import OWN_MS, Holding, hold
from warren.queues.fifo_queue import FifoQueue
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim.actors import Client
    from sim.cluster.healing import Healing
    from sim.cluster.world import ClusterWorld

TRIAL_MS: Final = 120_000
"""So long anything may take."""
SETTLED_MS: Final = 500
"""For so long all nodes have to agree before a policy counts as in force."""
TTLS_MS: Final = (50, 1_000)
LATE_MS: Final = 2_000
"""So long after their time expired messages may still be there."""
EXPIRES_MS: Final = 600
GONE_MS: Final = 6_000
FAILS_MAX: Final = 2
READY: Final = "ready"
GONE: Final = "gone"
REFUSED: Final = "refused"
SPILLED: Final = "maxlen and refused"
"""A publisher was told that one was rejected, and it arrived where the dead go."""
BEYOND: Final = 1
"""So many more than there is room for a quorum queue takes: one that tells that it is full (QL-03).

Each node with publishers looks at its own copy, and counts what it has under way until that copy
has it; so among nodes it may be one each, and what is under way. A trial has one publisher, who
waits for each answer.
"""
KEEP_SHARE: Final = 0.5
HOLD_SHARE: Final = 0.6


@final
class Examiner(GovernedReceiver):
    """Takes messages out of the queue in the way that its trial says.

    Attributes:
        way: `ack`, `reject` or `fail`.
        fails: How often each is failed with before it is acknowledged.
        retry_ms: So long what it failed with may not come again.
        own_ms: For how long it asks to hold messages; negative for as long as the queue says.
        turn: Called once, before it settles the first one.
    """

    queue = GOVERNED
    way = "ack"
    fails = 0
    retry_ms = 0
    own_ms = -1
    turn: Callable[[], None] | None = None

    def __init__(self, world: ClusterWorld, name: str, number: int, governed: Governed) -> None:
        super().__init__(world, name, number, governed)
        self._newest = 0
        self._failed_ms: dict[int, int] = {}
        """When it last failed with each."""

    def arguments(self) -> Table:
        """A timeout of its own, perhaps."""
        return {"x-consumer-timeout": self.own_ms} if self.own_ms >= 0 else {}

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message.

        Raises:
            Violation: It was held before, and does not say so, or this consumer is cancelled.
        """
        if isinstance(method, spec.BasicDeliver):
            number = self.books.number(content, self.name)
            held = number in self.governed.returned or self.governed.deliveries[number] > 0
            if held and not method.redelivered:
                raise Violation(f"{self.name} got message {number} again without redelivered")
        elif isinstance(method, spec.BasicCancel) and self.governed.source == "quorum":
            raise Violation(f"{self.name} was cancelled, and held nothing for long")
        super().pushed(method, content)

    def take(self, number: int) -> None:
        """It came.

        Raises:
            Violation: It came behind a later one, or again, or too soon.
        """
        deliveries = self.governed.deliveries
        deliveries[number] += 1
        if deliveries[number] == 1 and number in self.governed.returned:
            # What waits before it comes again comes behind others.
            self.world.count("came again after a timeout")
        elif deliveries[number] == 1:
            if number < self._newest:
                raise Violation(f"{self.name} got message {number} behind {self._newest}")
            self._newest = number
        elif self.way != "fail":
            raise Violation(f"{self.name} got message {number} {deliveries[number]} times")
        elif number in self._failed_ms:
            waited = self.world.now_ms() - self._failed_ms[number]
            if waited + EARLY_MS < self.retry_ms * min(deliveries[number] - 1, RETRY_MOST):
                raise Violation(f"{self.name} got message {number} again after {waited} ms")
            if self.retry_ms:
                self.world.count("came again by policy")

    def act(self) -> None:
        """Settle the first one that is held."""
        if not self.held:
            return
        tag, number = next(iter(self.held.items()))
        del self.held[tag]
        turn, self.turn = self.turn, None
        if turn is not None:
            turn()
        if self.way == "reject":
            self.send(spec.BasicReject(tag, False))
        elif self.way == "fail" and self.governed.deliveries[number] <= self.fails:
            self._failed_ms[number] = self.world.now_ms()
            self.send(spec.BasicReject(tag, True))
        else:
            self.governed.take(number)
            self.send(spec.BasicAck(tag))


@final
class Trials:
    """See the module's head."""

    def __init__(self, healing: Healing, world: ClusterWorld, governed: Governed) -> None:
        self._healing = healing
        self._world = world
        self._governed = governed
        self._fates: dict[int, set[str]] = {}
        """What may have become of each message."""
        self._ready: list[int] = []
        """Those that are there, the first one first."""
        self._terms = Terms()
        self._said: tuple[Definition, Definition] = ({}, {})
        """The policies that say them."""
        self._since = 0
        """Since when all nodes agree."""
        self._story: list[str] = []
        # A queue's time never goes back: behind a clock that jumped ahead nothing expires soon.
        self._ttls_ms = (-1,) if world.wall_jumps else TTLS_MS

    def run(self) -> None:
        """Take out what is left of the run, then try some terms.

        Raises:
            Violation: Something becomes of a message that must not.
        """
        world, governed = self._world, self._governed
        governed.last()
        self._govern({}, {})
        self._with((Taker, Burier))
        world.until(TRIAL_MS, "messages stay in a governed queue", self._is_empty)
        self._settle()
        self._healing.leave()
        governed.check()
        for _ in range(governed.random.choice((1, 2, 3))):
            self._try()
        self._expire()

    # --- a trial --------------------------------------------------------------------------------

    def _try(self) -> None:
        governed = self._governed
        random = governed.random
        self._story = []
        self._have(self._draw())
        # Those that are refused for want of room, and dead already, are to stay under way.
        if not governed.kept:
            self._with((Burier,))
        self._fill(random.randrange(1, 13))
        if random.random() < 0.5:
            # Else some of what died is still under way when the policy changes.
            self._settle()
        if random.random() < 0.3:
            self._start_again()
        self._have(self._draw())
        if random.random() < 0.3:
            self._start_again()
        if random.random() < 0.6:
            self._fill(random.randrange(1, 13))
        self._settle()
        self._empty()
        self._world.count("trials of policies")

    def _draw(self) -> Terms:
        """Other terms."""
        governed = self._governed
        terms = governed.draw(self._ttls_ms)
        while terms.most_bytes >= 0 > self._terms.most_bytes and self._story:
            # What came without such a limit counts with its framing.
            terms = governed.draw(self._ttls_ms)
        return terms

    def _have(self, terms: Terms) -> None:
        """Have other terms in force."""
        before = self._terms
        user, operator = definitions_of(terms, self._governed.source, self._governed.random)
        self._story.append(f"{terms} by {user} and {operator}")
        self._govern(user, operator)
        self._terms = terms
        self._said = user, operator
        if terms.dead == NOWHERE or (before.dead == KEPT and terms.dead != KEPT):
            # What is under way may go with the change.
            for fates in self._fates.values():
                if SPILLED in fates:
                    fates.add(REFUSED)
                elif READY not in fates and REFUSED not in fates:
                    fates.add(GONE)
        self._drop()

    def _govern(self, user: Definition, operator: Definition) -> None:
        """Have two policies say this, and wait until they do everywhere."""
        world = self._world
        site = world.running()[0].name
        # In an order in which nothing is stricter meanwhile than before and afterwards.
        for definition, of_operator in (({}, True), (user, False), (operator, True)):
            govern(world, site, definition, of_operator)
            self._since = -1
            world.until(
                TRIAL_MS,
                "a policy does not take effect",
                partial(self._in_force, definition, of_operator),
            )

    def _in_force(self, definition: Definition, operator: bool) -> bool:
        for site in self._world.running():
            assert site.node is not None
            record = site.node.metadata.vhosts["/"].policies_of(operator).get(POLICY)
            if (record.definition if record is not None else {}) != definition:
                return False
        return self._agree()

    def _agree(self) -> bool:
        """Whether all nodes have agreed for a while."""
        now = self._world.now_ms()
        if not self._healing.agreed():
            self._since = -1
        elif self._since < 0:
            self._since = now
        return 0 <= self._since <= now - SETTLED_MS

    def _settle(self) -> None:
        """Wait until everything under way has come to where it is to be."""
        self._since = -1
        self._world.until(TRIAL_MS, "the nodes do not come to rest", self._agree)

    def _with(self, kinds: tuple[type[GovernedReceiver] | type[Sender], ...]) -> list[Client]:
        """Have clients of these kinds at work, beside those that are."""
        world = self._world
        clients = clients_of(world, f"gt{len(world.clients)}", self._governed, kinds)
        acts = bool(world.clients)
        world.clients = [*world.clients, *clients]
        if not acts:
            world.begin_acting()
        return clients

    def _fill(self, count: int) -> None:
        """Send so many, and say what has to become of them."""
        world, governed, terms = self._world, self._governed, self._terms
        first = governed.sent() + 1
        waiting = self._under_way()
        blocked = 0 <= terms.room(governed.source) * 4 // 5 < len(self._ready) + waiting
        governed.singly = terms.rejects
        governed.quota = count
        if not any(isinstance(actor, Sender) for each in world.clients for actor in each.actors):
            # One alone, so that what is sent comes in its order.
            self._with((Sender,))
        world.until(
            TRIAL_MS,
            "what is sent to a governed queue is not answered",
            lambda: governed.quota == 0 and governed.answered(),
        )
        self._story.append(f"{count} from {first} on")
        for number in range(first, first + count):
            self._add(number, waiting, blocked)
        if terms.ttl_ms >= 0:
            end = world.now_ms() + terms.ttl_ms + LATE_MS
            world.until(TRIAL_MS, "time does not pass", lambda: world.now_ms() >= end)

    def _under_way(self) -> int:
        """How many that have died may still count."""
        died = self._governed.died
        return sum(
            1
            for number, fates in self._fates.items()
            if number not in died and not {READY, REFUSED} & fates
        )

    def _add(self, number: int, waiting: int, blocked: bool) -> None:
        """One was sent under the terms in force."""
        governed, terms = self._governed, self._terms
        room = terms.room(governed.source)
        refused = number in governed.refused
        if not terms.rejects or room < 0:
            if refused:
                self._complain(f"message {number} was refused, though none is to be")
        elif governed.source == "classic":
            if refused != (len(self._ready) >= room):
                self._complain(f"message {number} was {'refused' if refused else 'taken'}")
        elif refused:
            if len(self._ready) + waiting < room + BEYOND and not blocked:
                self._complain(f"message {number} was refused where there is room")
        elif len(self._ready) >= room + BEYOND:
            self._complain(f"message {number} was taken where there is no room")
        if refused and terms.spills() and terms.dead == ONCE:
            self._fates[number] = {SPILLED} if governed.sure else {SPILLED, REFUSED}
            self._world.count("publishes rejected to die by a policy")
        elif refused:
            self._fates[number] = {REFUSED}
        elif terms.ttl_ms >= 0:
            self._fates[number] = self._dead("expired")
        else:
            self._fates[number] = {READY}
            self._ready.append(number)
            self._drop()

    def _drop(self) -> None:
        """The first ones go for which there is no room."""
        terms, room = self._terms, self._terms.room(self._governed.source)
        if not terms.rejects and room >= 0:
            while len(self._ready) > room:
                self._fates[self._ready.pop(0)] = self._dead("maxlen")
                self._world.count("dropped by a policy's limit")

    def _dead(self, reason: str) -> set[str]:
        """What becomes of what dies under the terms in force."""
        if self._terms.dead == NOWHERE and not self._governed.kept:
            return {GONE}
        if self._terms.dead == ONCE and not self._governed.sure:
            return {reason, GONE}
        return {reason}

    def _empty(self) -> None:
        """Take everything out, and look at what became of each."""
        world, governed, terms = self._world, self._governed, self._terms
        ways = ("ack", "ack", "reject", "fail" if governed.source == "quorum" else "reject")
        way = governed.random.choice(ways)
        limit = governed.default_limit() if terms.limit == UNSAID else terms.limit
        fails = governed.random.randrange(1, FAILS_MAX + 1)
        self._story.append(f"{way}, {fails} times, limit {limit}")
        self._hold()
        for number in self._ready:
            if way == "reject":
                self._fates[number] = self._dead("rejected")
            elif way == "fail" and 0 <= limit < fails:
                self._fates[number] = self._dead("delivery_limit")
        governed.deliveries.clear()
        kinds: tuple[type[GovernedReceiver], ...] = (Examiner, Burier)
        for client in self._with(kinds if governed.kept else kinds[:1]):
            for actor in client.actors:
                if isinstance(actor, Examiner):
                    actor.way, actor.fails, actor.retry_ms = way, fails, terms.retry_ms
                    if governed.timeout_ms(terms, -1) >= 0:
                        # It is slow, and is not to be told.
                        actor.own_ms = LONG_MS
                    switches = governed.source == "quorum" and terms.dead == ONCE and way != "ack"
                    if switches and governed.random.random() < KEEP_SHARE:
                        actor.turn = self._keep
        try:
            world.until(TRIAL_MS, "a trial does not end", self._is_over)
        except Violation as error:
            raise Violation(f"{error}: {self._wrong()}; {self._story}") from error
        self._settle()
        if not self._is_over():
            self._complain("something came that was not to")
        times = fails + 1 if limit < 0 or limit >= fails else limit + 1
        for number in self._ready if way == "fail" else ():
            if governed.deliveries[number] != times:
                self._complain(
                    f"message {number} was delivered {governed.deliveries[number]} times, not "
                    f"{times}"
                )
        self._ready = []
        self._healing.leave()

    def _hold(self) -> None:
        """Have a consumer hold some for long; what it may have and settles is there no more."""
        governed = self._governed
        governed.returned.clear()
        if not self._ready or not governed.may_time_out() or governed.more.random() >= HOLD_SHARE:
            return
        own_ms = governed.more.choice(OWN_MS)
        (client,) = self._with((Holding,))
        (holding,) = client.actors
        assert isinstance(holding, Holding)
        holding.own_ms = own_ms
        may_ms = governed.timeout_ms(self._terms, own_ms)
        self._story.append(f"held by one who may do so for {may_ms} ms")
        hold(holding, may_ms, self._ready)
        self._ready = [number for number in self._ready if number not in governed.taken]
        self._settle()
        self._healing.leave()
        if not governed.kept:
            self._with((Burier,))

    def _keep(self) -> None:
        """While messages die that are to arrive at most once, have them do so at least once."""
        world = self._world
        user, operator = self._said
        user = user | {"overflow": "reject-publish", "dead-letter-strategy": KEPT}
        if operator:
            operator = operator | {"overflow": "reject-publish"}
        site = world.running()[0].name
        for definition, of_operator in ((user, False), (operator, True)):
            govern(world, site, definition, of_operator)
        self._story.append("and what dies is kept meanwhile")
        self._terms = self._terms._replace(rejects=True, to_exchange=False, dead=KEPT)
        world.count("dead letters kept meanwhile")

    def _is_over(self) -> bool:
        return self._is_empty() and not self._wrong()

    def _wrong(self) -> str:
        """Of what became something else than may have; empty if of none."""
        wrong = [
            f"{number} is {found}, not {sorted(fates)}"
            for number, fates in self._fates.items()
            if (found := self._fate(number)) not in fates
        ]
        return ", ".join(wrong)

    def _fate(self, number: int) -> str:
        """What became of a message."""
        governed = self._governed
        found = [READY] if number in governed.taken else []
        if number in governed.died:
            found.append(governed.died[number])
        if number in governed.refused:
            found.append(REFUSED)
        return " and ".join(found) or GONE

    def _complain(self, text: str) -> None:
        raise Violation(f"a governed queue: {text}; {self._wrong()}; {self._story}")

    def _is_empty(self) -> bool:
        return self._healing.left_in((GOVERNED, BURIED)) == 0

    def _start_again(self) -> None:
        """Stop and start all nodes, when all that is under way at most once has arrived."""
        world = self._world
        if not self._governed.kept:
            late = "what died does not arrive"
            world.until(TRIAL_MS, late, lambda: not self._owed())
        with_burier = not self._governed.kept
        self._healing.leave()
        self._settle()
        self._story.append("all nodes are started again")
        self._healing.stop_and_start()
        self._settle()
        if with_burier:
            self._with((Burier,))
        world.count("nodes started again in a trial")

    def _owed(self) -> bool:
        """Whether some that died are still to arrive."""
        died = self._governed.died
        return any(
            number not in died and not {READY, REFUSED, GONE} & fates
            for number, fates in self._fates.items()
        )

    # --- the end --------------------------------------------------------------------------------

    def _expire(self) -> None:
        """The queue goes when it is unused for long enough, and not before a policy says so."""
        world = self._world
        self._have(Terms())
        if not any(self._is_there(site) for site in self._sites()):
            raise Violation("a governed queue went although it is to stay")
        if self._governed.kept:
            terms = Terms(rejects=True, dead=KEPT, expires_ms=EXPIRES_MS)
        else:
            terms = Terms(expires_ms=EXPIRES_MS)
        user, operator = definitions_of(terms, self._governed.source, self._governed.random)
        site = world.running()[0].name
        govern(world, site, user, False)
        govern(world, site, operator, True)
        world.until(
            GONE_MS,
            "a queue stays that is to go by a policy",
            lambda: not any(self._is_there(name) for name in self._sites()),
        )
        world.count("expired queues")
        self._settle()

    def _sites(self) -> list[str]:
        return [site.name for site in self._world.running()]

    def _is_there(self, name: str) -> bool:
        node = self._world.sites[name].node
        assert node is not None
        queues = node.queues.vhosts.get("/")
        queue = None if queues is None else queues.queues.get(GOVERNED)
        return GOVERNED in node.metadata.vhosts["/"].queues or isinstance(queue, FifoQueue)
