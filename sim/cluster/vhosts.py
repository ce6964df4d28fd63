"""Vhosts that operators delete and make anew while clients use them, beside one that stays.

Both have queues and exchanges of the same names: a quorum queue, one whose messages die, one of
dead letters, mostly a classic one, an exchange whose messages wait, and one that keeps its recent
messages. Each vhost that is made bears its number in its description, so that it is known at every
moment which one a node has. A connection belongs to the one that it was opened to:

- What was published over a connection to one vhost comes out of no other one, and of no later one
  of the same name.
- A connection to a vhost that is gone ends soon after its node has learned of that.
- What was confirmed in a vhost that is there at the end comes out of it.
- The vhost that stays is there, whatever becomes of the other one.

At the end all of them are deleted, and nothing of them is left on any node.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.cluster.schedule import MS
from sim.connection import SimConnection
from sim.model import Violation
from warren.metadata.commands import DeleteVhost, SetPermissions, SetVhost
from warren.metadata.vhosts import DESCRIPTION
from warren.protocols.amqp091.connection import OPEN
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

RENEWED: Final = "renewed"
LASTING: Final = "lasting"
VHOSTS: Final = (RENEWED, LASTING)

PLAIN: Final = "of.plain"
CLASSIC: Final = "of.classic"
DYING: Final = "of.dying"
BURIED: Final = "of.buried"
OWN: Final = "of.own"
DELAYING: Final = "of.delaying"
STORE: Final = "amq.delayed.of.delaying"
RECENT: Final = "of.recent"
QUEUES: Final = (PLAIN, CLASSIC, DYING, BURIED, OWN, STORE)

WORD: Final = b"of vhost"
FRAME_BYTES: Final = 131_072
PREFETCH: Final = 5
SENT_MAX: Final = 600
UNANSWERED_MAX: Final = 20
BURST: Final = 5
AT_ONCE_SHARE: Final = 0.5
"""So often a vhost is made anew in the same breath as the one before it goes."""
AWAY_SHARE: Final = 0.2
"""So often that is left to whoever is next."""
RESTS_MS: Final = (50, 800, 3_000)
"""For so long, at least, a vhost is left as it is."""
LEAVE_SHARE: Final = 0.1
LIVES_MS: Final = (1, 20, 300)
"""One of these is after what time a message dies or goes on."""
LOOKS_MAX: Final = 300
"""So many events of its node a connection may outlive its vhost."""
MADE_MS: Final = 30_000


@final
class Realms:
    """See the module's head.

    Attributes:
        kinds: The queues and exchanges that messages are published to.
        calm: Whether everything that is left is to be taken.
        over: Whether all vhosts are to go.
    """

    def __init__(self, world: ClusterWorld, classic: bool, sure: bool) -> None:
        """
        Args:
            classic: Whether there are classic queues, which a lost machine would take with it.
            sure: Whether what is to die, or waits, comes for sure.
        """
        self._world = world
        self._random = Random(f"{world.seed} vhosts")
        self.calm = self.over = False
        self.kinds = [PLAIN, PLAIN, DYING, DELAYING, RECENT]
        if classic:
            self.kinds.append(CLASSIC)
        self._sure = {PLAIN, CLASSIC, DYING, DELAYING} if sure else {PLAIN, CLASSIC}
        self._made = 0
        self._next_us = 0
        self._sent: list[SimConnection] = []
        """For each message the connection that it was published over."""
        self._waiting: dict[str, set[int]] = {}
        """Of each vhost what was confirmed and is to come."""
        self._came: set[int] = set()
        self._eras: dict[SimConnection, list[str]] = {}
        """The vhosts that connections were in: more than one only after tables came as a whole."""
        self._stale: dict[SimConnection, int] = {}
        self._lasting: dict[tuple[str, int], str] = {}
        """By node and its life the vhost that stays, as it was seen last."""
        for name in QUEUES:
            world.incarnations.overlook(name)

    # --- operators ------------------------------------------------------------------------------

    def renew(self, site: Site) -> None:
        """Delete a vhost through a node, or make it, or both."""
        node, random, now_us = site.node, self._random, self._world.schedule.now_us
        assert node is not None
        if now_us < self._next_us:
            return
        self._next_us = now_us + random.choice(RESTS_MS) * MS
        here = RENEWED in node.metadata.vhosts
        if here:
            self.delete(site, RENEWED)
        if not here or random.random() < AT_ONCE_SHARE:
            self.make(site, RENEWED)
        elif random.random() >= AWAY_SHARE:
            other = random.choice(self._world.running())
            gap_us = random.randrange(1, self._world.faults.longest_us)
            self._world.schedule.after(gap_us, lambda: self.make(other, RENEWED))

    def delete(self, site: Site, name: str) -> None:
        """Delete a vhost through a node."""
        self._world.say("%s: vhost %s is to go", site.name, name)
        self._world.count("vhosts deleted")
        self._world.submit(site, DeleteVhost(name))

    def make(self, site: Site, name: str) -> None:
        """Make a vhost through a node; one that is there stays as it is."""
        if site.node is None:
            return
        self._made += 1
        era = f"{name} {self._made}"
        self._world.say("%s: there is to be a vhost %s", site.name, era)
        self._world.submit(site, SetVhost(name, True, {DESCRIPTION: era}))
        self._world.submit(site, SetPermissions("guest", name, ".*", ".*", ".*"))

    # --- which vhost it is ----------------------------------------------------------------------

    def era_at(self, site: Site, name: str) -> str:
        """The vhost that a node has under a name; empty if it has none."""
        assert site.node is not None
        vhost = site.node.metadata.vhosts.get(name)
        return "" if vhost is None or vhost.going else vhost.description

    def watch(self, site: Site) -> None:
        """An event was handled by a node: look at whose connections it has.

        Raises:
            Violation: One has outlived its vhost.
        """
        node = site.node
        assert node is not None
        self.look_at_lasting(site.name, site.life, self.era_at(site, LASTING))
        for connection in self._world.connections:
            handle = connection.end.handle
            if connection.site != site.name or connection.vhost not in VHOSTS or handle is None:
                continue
            if connection.end.state == OPEN:
                tables = node.metadata.vhosts.get(connection.vhost)
                follows = tables is not None and tables.router is handle._router
                self.look(connection, self.era_at(site, connection.vhost), follows)

    def look_at_lasting(self, site: str, life: int, era: str) -> None:
        """A node has this vhost that stays, or none yet.

        Raises:
            Violation: It has had it, or another one.
        """
        before = self._lasting.get((site, life), era)
        if before and era != before and not self.over:
            raise Violation(f"{site} had vhost {before}, and has {era or 'none of its name'}")
        self._lasting[site, life] = era

    def look(self, connection: SimConnection, era: str, follows: bool) -> None:
        """A connection is open, and its node has this vhost of its name, or none.

        Args:
            follows: Whether the node takes it for the vhost that the connection was opened to. Of
                tables that come as a whole it cannot tell, where one vhost has followed another.

        Raises:
            Violation: It was opened to another one, which is gone for long.
        """
        eras = self._eras.setdefault(connection, [era])
        if era in eras:
            return
        if follows and era:
            self._world.count("connections that followed to another vhost")
            eras.append(era)
            return
        looks = self._stale.get(connection, 0) + 1
        self._stale[connection] = looks
        if looks == 1:
            self._world.count("connections of vhosts that went")
        if looks > LOOKS_MAX:
            raise Violation(
                f"{connection.name} was opened to vhost {eras[-1]}, and is open yet, while "
                f"{connection.site} has {era or 'none of its name'}"
            )

    # --- messages -------------------------------------------------------------------------------

    def next(self, connection: SimConnection) -> int:
        """The number of the next message, published over a connection; 0 if there are enough."""
        if len(self._sent) == SENT_MAX:
            return 0
        self._sent.append(connection)
        return len(self._sent)

    def confirm(self, number: int, kind: str) -> None:
        """The broker has a message."""
        self._world.count("confirmed in vhosts that come and go")
        self._world.say("message %d of vhosts is confirmed by %s", number, kind)
        eras = self._eras[self._sent[number - 1]]
        if kind in self._sure and number not in self._came and len(eras) == 1:
            self._waiting.setdefault(eras[0], set()).add(number)

    def take(self, content: bytes, connection: SimConnection, name: str) -> None:
        """A message came over a connection.

        Raises:
            Violation: It was published in another vhost, or by nobody.
        """
        word, _, digits = content.rpartition(b" ")
        if word != WORD or not digits.isdigit() or not 0 < int(digits) <= len(self._sent):
            raise Violation(f"{name} got what nobody published: {content[:40]!r}")
        number = int(digits)
        sent, eras = self._eras[self._sent[number - 1]], self._eras[connection]
        self._world.say("%s gets message %d of vhost %s", name, number, sent[0])
        if not set(sent) & set(eras):
            raise Violation(f"{name} got message {number} of vhost {sent} in vhost {eras}")
        self._world.count("delivered in vhosts that come and go")
        self._came.add(number)
        for era in sent:
            self._waiting.get(era, set()).discard(number)

    # --- the end --------------------------------------------------------------------------------

    def made(self) -> bool:
        """Whether all nodes have the same vhosts; one that is lacking is made."""
        world = self._world
        for name in VHOSTS:
            eras = {self.era_at(site, name) for site in world.running()}
            if eras == {""}:
                self.make(world.running()[0], name)
            if len(eras) > 1 or "" in eras:
                return False
        return True

    def came(self) -> bool:
        """Whether all has come that was confirmed in the vhosts that are there."""
        first = self._world.running()[0]
        return not any(self._waiting.get(self.era_at(first, name)) for name in VHOSTS)

    def gone(self) -> bool:
        """Whether no node has any of the vhosts."""
        for site in self._world.running():
            node = site.node
            assert node is not None
            if any(name in node.metadata.vhosts or name in node.queues.vhosts for name in VHOSTS):
                return False
        return True


@final
class VhostClient(Client):
    """A client of another vhost than the one that all others use."""

    def __init__(self, world: ClusterWorld, name: str, vhost: str) -> None:
        super().__init__(world, name, FRAME_BYTES)
        self._vhost = vhost

    def act(self) -> None:
        """As others do; but the vhost may not be there."""
        before = self.connection
        super().act()
        if self.connection is not None and self.connection is not before:
            self.connection.vhost = self._vhost
            self.connection.tolerated.add(spec.NOT_ALLOWED)


class Resident(Actor):
    """Whoever uses a vhost that comes and goes."""

    def __init__(self, world: ClusterWorld, name: str, number: int, realms: Realms) -> None:
        super().__init__(world, name, number)
        self.realms = realms

    def have(self) -> None:
        """Declare all there is to be; a queue may be away with its node, or go with its vhost."""
        self.tolerated = {403, 404, 405, 406}
        for queue in (PLAIN, BURIED):
            self._declare(queue, {"x-queue-type": "quorum", "x-delivery-limit": -1})
        arguments: Table = {
            "x-queue-type": "quorum",
            "x-delivery-limit": -1,
            "x-message-ttl": LIVES_MS[1],
            "x-overflow": "reject-publish",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": BURIED,
            "x-dead-letter-strategy": "at-least-once",
        }
        self._declare(DYING, arguments)
        if CLASSIC in self.realms.kinds:
            self._declare(CLASSIC, {"x-queue-type": "classic"})
        typed: Table = {"x-delayed-type": "fanout"}
        self._exchange(DELAYING, "x-delayed-message", typed)
        self._exchange(RECENT, "x-recent-history", {"x-recent-history-length": 5})
        self.call(spec.QueueBind(queue=PLAIN, exchange=DELAYING), ignore)

    def _declare(self, queue: str, arguments: Table) -> None:
        self.call(spec.QueueDeclare(queue=queue, durable=True, arguments=arguments), ignore)

    def _exchange(self, exchange: str, kind: str, arguments: Table) -> None:
        method = spec.ExchangeDeclare(
            exchange=exchange, type_=kind, durable=True, arguments=arguments
        )
        self.call(method, ignore)


@final
class Sender(Resident):
    """Publishes to all there is."""

    def __init__(self, world: ClusterWorld, name: str, number: int, realms: Realms) -> None:
        super().__init__(world, name, number, realms)
        self._sequence = 0
        self._unanswered: dict[int, tuple[int, str]] = {}

    def set_up(self) -> None:
        """Have everything, and confirms."""
        self._sequence = 0
        self._unanswered = {}
        self.have()
        self.call(spec.ConfirmSelect(), self.begin)

    def act(self) -> None:
        """Publish some."""
        connection, random = self.connection, self.random
        assert connection is not None
        for _ in range(random.randrange(1, BURST)):
            number = 0
            if len(self._unanswered) < UNANSWERED_MAX:
                number = self.realms.next(connection)
            if number == 0:
                return
            kind = random.choice(self.realms.kinds)
            self._sequence += 1
            self._unanswered[self._sequence] = number, kind
            properties = Properties()
            properties.delivery_mode = 2
            exchange = ""
            if kind in (DELAYING, RECENT):
                exchange = kind
                properties.headers = {"x-delay": random.choice(LIVES_MS)}
            method = spec.BasicPublish(exchange=exchange, routing_key=kind)
            body = b"%s %d" % (WORD, number)
            connection.send_bytes(
                content_frames(self.number, method, properties.encode(), body, FRAME_BYTES)
            )

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A confirm."""
        if not isinstance(method, (spec.BasicAck, spec.BasicNack)):
            super().pushed(method, content)
            return
        tag = method.delivery_tag
        for each in [n for n in self._unanswered if n == tag or (method.multiple and n <= tag)]:
            number, kind = self._unanswered.pop(each)
            if isinstance(method, spec.BasicAck):
                self.realms.confirm(number, kind)


class Taker(Resident):
    """Consumes one queue."""

    def __init__(
        self, world: ClusterWorld, name: str, number: int, realms: Realms, queue: str
    ) -> None:
        super().__init__(world, name, number, realms)
        self._queue = queue
        self._held: list[int] = []

    def set_up(self) -> None:
        """Have everything, and subscribe."""
        self._held = []
        self.have()
        self.subscribe()

    def subscribe(self) -> None:
        """Consume the queue."""
        self.call(spec.BasicQos(0, PREFETCH), ignore)
        self.call(spec.BasicConsume(queue=self._queue), self.begin)

    def act(self) -> None:
        """Acknowledge what has come, or give some of it back."""
        if self._held and (self.realms.calm or self.random.random() < 0.5):
            self.send(spec.BasicAck(self._held[-1], True))
            self._held = []
        elif self._held and self.random.random() < 0.2:
            self.send(spec.BasicReject(self._held.pop(), True))
        elif not self.realms.calm and self.random.random() < LEAVE_SHARE:
            self.close_channel()

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A message, or the end of the queue, which goes away with its node for a while."""
        if isinstance(method, spec.BasicDeliver):
            assert self.connection is not None
            self.realms.take(content, self.connection, self.name)
            self._held.append(method.delivery_tag)
        elif isinstance(method, spec.BasicCancel):
            self.close_channel()
        else:
            super().pushed(method, content)

    def ended(self) -> None:
        """Nothing is held."""
        self._held = []


@final
class Reminder(Taker):
    """Has a queue for its connection that gets what an exchange kept, and what comes there."""

    def subscribe(self) -> None:
        """Bind it first."""
        self.call(spec.QueueDeclare(queue=OWN, exclusive=True), ignore)
        self.call(spec.QueueBind(queue=OWN, exchange=RECENT), ignore)
        super().subscribe()


def add_realms(world: ClusterWorld, clients: list[Client], realms: Realms) -> None:
    """Make the vhosts, and have clients that use them."""
    site = world.running()[0]
    for vhost in VHOSTS:
        realms.make(site, vhost)
        client = VhostClient(world, f"{vhost}.s", vhost)
        client.actors += [Sender(world, f"{client.name}.{n}", n, realms) for n in (1, 2)]
        clients += [client, client]
        clients += takers(world, vhost, realms)


def takers(world: ClusterWorld, vhost: str, realms: Realms) -> list[Client]:
    """Those who take what is in a vhost."""
    client = VhostClient(world, f"{vhost}.t{'x' * realms.calm}", vhost)
    queues = [PLAIN, BURIED, *([CLASSIC] if CLASSIC in realms.kinds else [])]
    for number, queue in enumerate(queues, 1):
        client.actors.append(Taker(world, f"{client.name}.{number}", number, realms, queue))
    if realms.calm:
        return [client, client, client]
    own = VhostClient(world, f"{vhost}.r", vhost)
    own.actors.append(Reminder(world, f"{own.name}.1", 1, realms, OWN))
    return [client, client, own]
