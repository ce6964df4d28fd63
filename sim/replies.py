"""Requests and direct replies: a client asks by a queue, and is answered without one.

Some ask, and take what comes back to their channel; some serve requests, and publish to the address
that comes with each. A reply goes to the channel that asked and to no other, as often as it was
published at most, and not to a channel that has gone. What is published to what can be no address
comes back, if it is mandatory, and to an address that no channel has, it is dropped. When nothing
goes wrong any more every request is answered and every answer arrives, over whatever nodes, and the
preferred server has all requests.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Client, ignore
from sim.model import Violation
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties, decode_properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

PSEUDO: Final = "amq.rabbitmq.reply-to"
REQUESTS: Final = "requests"
FRAME_BYTES: Final = 131_072
PREFETCH: Final = 5
ASKED_MAX: Final = 300
CALLERS: Final = 4
"""Channels that ask, two on each of two connections."""
CALM_MAX: Final = 10
"""So many requests each client makes when nothing goes wrong any more."""
FORGED_SHARE: Final = 0.1
SPOIL_SHARE: Final = 0.03


@final
class Channel:
    """A channel that asks, from its beginning to its end.

    Attributes:
        alive: Whether it is there, as its client knows.
        site: Where in a cluster it leads.
    """

    def __init__(self, site: str) -> None:
        self.alive = True
        self.site = site


@final
class Talks:
    """What was asked and answered.

    Attributes:
        kind: Of the queue that requests go to.
        calm: Whether everything is answered.
        asked: By number, who asked.
        sent: How often each was answered.
        got: How often an answer came back.
        preferred: Who is to serve everything, once nothing goes wrong any more.
    """

    def __init__(self, world: Stage, kind: str) -> None:
        self.world = world
        self.kind = kind
        self.calm = False
        self.asked: dict[int, Channel] = {}
        self.sent: Counter[int] = Counter()
        self.got: Counter[int] = Counter()
        self.preferred: Server | None = None

    def have(self, actor: Actor) -> None:
        """Declare the queue that requests go to, which may be away with its node."""
        actor.tolerated = {404, 405, 406}
        arguments: Table = {"x-queue-type": self.kind}
        if self.kind == "quorum":
            arguments["x-delivery-limit"] = -1
        actor.call(spec.QueueDeclare(queue=REQUESTS, durable=True, arguments=arguments), ignore)

    def answered(self) -> bool:
        """Whether all who are there have asked enough, and been answered."""
        waiting = [
            number
            for number, channel in self.asked.items()
            if channel.alive and not self.got[number]
        ]
        callers = {channel for channel in self.asked.values() if channel.alive}
        asked = sum(channel.alive for channel in self.asked.values())
        return not waiting and len(callers) == CALLERS and asked == CALLERS * CALM_MAX


@final
class Caller(Actor):
    """Asks, and takes what comes back."""

    def __init__(self, world: Stage, name: str, number: int, talks: Talks) -> None:
        super().__init__(world, name, number)
        self.talks = talks
        self.channel = Channel("")
        self.asked = 0

    def set_up(self) -> None:
        """Another channel has another address."""
        assert self.connection is not None
        self.channel = Channel(self.connection.site)
        self.asked = 0
        self.talks.have(self)
        self.call(spec.BasicConsume(queue=PSEUDO, consumer_tag="r", no_ack=True), self.begin)

    def ended(self) -> None:
        """Nobody waits for answers any more."""
        self.channel.alive = False

    def act(self) -> None:
        """Ask something."""
        talks, random = self.talks, self.random
        if not talks.calm:
            if random.random() < self.world.options.close_share:
                self.close_channel()
                return
            if random.random() < SPOIL_SHARE:
                self._ask_without_an_address()
                return
        for _ in range(random.randrange(1, 4)):
            if self.asked >= CALM_MAX if talks.calm else len(talks.asked) >= ASKED_MAX:
                return
            number = len(talks.asked) + 1
            talks.asked[number] = self.channel
            self.asked += 1
            self.world.count("requests")
            self._publish(b"ask %d" % number)

    def _publish(self, body: bytes) -> None:
        connection = self.connection
        assert connection is not None
        properties = Properties(reply_to=PSEUDO).encode()
        method = spec.BasicPublish(exchange="", routing_key=REQUESTS)
        connection.send_bytes(
            content_frames(self.number, method, properties, body, connection.frame_max)
        )

    def _ask_without_an_address(self) -> None:
        """Who takes no answers may not ask for them: the channel is closed."""
        self.call(spec.BasicCancel("r"), ignore)
        self._publish(b"ask 0")
        self.world.count("requests without an address")
        self.ready = False

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """An answer."""
        if not isinstance(method, spec.BasicDeliver):
            super().pushed(method, content)
            return
        number = self._count(content)
        talks = self.talks
        if talks.asked[number] is not self.channel:
            raise Violation(f"{self.name} got answer {number} of another channel")
        if talks.got[number] > talks.sent[number]:
            raise Violation(f"{self.name} got answer {number} oftener than it was given")
        self.world.count("direct replies")

    def missed(self, method: spec.Method, content: bytes) -> None:
        """It was sent all the same."""
        if isinstance(method, spec.BasicDeliver):
            self._count(content)

    def _count(self, content: bytes) -> int:
        word, _, digits = content.partition(b" ")
        number = int(digits) if digits.isdigit() else 0
        if word != b"answer" or number not in self.talks.asked:
            raise Violation(f"{self.name} got an answer that nobody gave: {content[:40]!r}")
        self.talks.got[number] += 1
        return number


@final
class Server(Actor):
    """Answers requests."""

    def __init__(self, world: Stage, name: str, number: int, talks: Talks, priority: int) -> None:
        super().__init__(world, name, number)
        self.talks = talks
        self.priority = priority
        self.held: dict[int, tuple[int, str]] = {}
        self._forged = 0
        self._since = 1 << 60
        """It serves what was asked behind this number, for sure."""

    def set_up(self) -> None:
        """Subscribe."""
        self.held = {}
        self._forged = 0
        self.talks.have(self)
        self._since = 1 << 60
        if not self.talks.calm:
            self.call(spec.BasicQos(0, PREFETCH), ignore)
        self.call(
            spec.BasicConsume(queue=REQUESTS, arguments={"x-priority": self.priority}),
            self._serving,
        )

    def _serving(self, method: spec.Method, content: bytes) -> None:
        self.ready = True
        self._since = len(self.talks.asked)

    def serves(self, number: int) -> bool:
        """Whether it was there when a request was made."""
        return self.connection is not None and self.ready and number > self._since

    def ended(self) -> None:
        """Nothing is held."""
        self.held = {}
        self._forged = 0

    def waits(self) -> bool:
        """Whether something has to come back that was published to nobody."""
        return self._forged > 0

    def act(self) -> None:
        """Answer something, now and then to nobody."""
        random = self.random
        calm = self.talks.calm
        if not calm and random.random() < self.world.options.close_share:
            self.close_channel()
            return
        for tag, (number, address) in list(self.held.items()):
            if not calm and random.random() < FORGED_SHARE:
                # Like one that there was, or may be, and one that cannot be.
                self._publish(address[:-1] + ("A" if address[-1] != "A" else "Q"), b"forged alike")
                self._forged += 1
                self._publish(address[:-1], b"forged")
            if number:
                self.talks.sent[number] += 1
                assert self.connection is not None
                if self.connection.site != self.talks.asked[number].site:
                    self.world.count("answers over another node")
                self._publish(address, b"answer %d" % number)
            self.send(spec.BasicAck(tag))
            del self.held[tag]

    def _publish(self, address: str, body: bytes) -> None:
        connection = self.connection
        assert connection is not None
        method = spec.BasicPublish(exchange="", routing_key=address, mandatory=True)
        connection.send_bytes(content_frames(self.number, method, b"\0\0", body, FRAME_BYTES))

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A request, what nobody takes, or the end of the queue, which may go with its node."""
        if isinstance(method, spec.BasicDeliver):
            connection = self.connection
            assert connection is not None
            header = connection.properties
            address = decode_properties(header, 0, len(header)).reply_to or ""
            number = int(content.split(b" ")[1])
            if not address.startswith(PSEUDO + "."):
                raise Violation(f"{self.name}: request {number} says to answer to {address!r}")
            first = self.talks.preferred
            if first is not None and first is not self and first.serves(number):
                raise Violation(f"{self.name} got request {number}, which {first.name} was to have")
            self.held[method.delivery_tag] = (number, address)
        elif isinstance(method, spec.BasicReturn):
            self._returned(method, content)
        elif isinstance(method, spec.BasicCancel):
            self.close_channel()
        else:
            super().pushed(method, content)

    def _returned(self, method: spec.BasicReturn, content: bytes) -> None:
        if method.reply_code != 312:
            raise Violation(f"{self.name}: an answer came back for {method.reply_code}")
        if content == b"forged":
            self._forged -= 1
            self.world.count("forged addresses")
            return
        raise Violation(f"{self.name}: {content!r} came back from what can be an address")


def talkers(world: Stage, letter: str, talks: Talks) -> list[Client]:
    """Clients that ask, on two channels, and some that answer, of which one is preferred."""
    clients: list[Client] = []
    for at in range(CALLERS // 2):
        asking = Client(world, f"{letter}{at}", FRAME_BYTES)
        for number in (1, 2):
            asking.actors.append(Caller(world, f"{asking.name}.{number}", number, talks))
        serving = Client(world, f"{letter}s{at}", FRAME_BYTES)
        server = Server(world, f"{serving.name}.1", 1, talks, 5 if at else -1)
        serving.actors.append(server)
        if talks.calm and at:
            talks.preferred = server
        clients += [asking, serving]
    return clients


def add_talks(world: Stage, clients: list[Client]) -> Talks:
    """Clients that ask and answer."""
    kind = Random(f"{world.seed} requests").choice(("quorum", "classic"))
    talks = Talks(world, "quorum" if world.clustered else kind)
    clients += talkers(world, "k", talks)
    return talks


def last_talkers(world: Stage, talks: Talks) -> list[Client]:
    """Clients whose requests are all to be answered."""
    for channel in talks.asked.values():
        channel.alive = False
    talks.calm = True
    return talkers(world, "kk", talks)
