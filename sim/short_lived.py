"""Clients of queues that come and go; `incarnations` has what they are promised.

Some declare a queue for all and delete it, some have queues for their own connection, some publish
to either and consume from what all may use, and some try what is another connection's.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, Answer, Client, ignore
from sim.connection import Mark
from sim.incarnations import NOBODY, Parcel, Span
from sim.model import CONFIRMED, REFUSED, RETURNED, SENT, QueueState, Violation, body_of, id_of
from sim.publisher import PERSISTENT
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

EXCHANGE: Final = "amq.direct"
OWN_NAMES: Final = ("e0", "e1")
"""Of exclusive queues. Two, so that connections are in each other's way."""
FRAME_BYTES: Final = 131_072
PREFETCH: Final = 5
LEAVE_SHARE: Final = 0.04
DELETE_SHARE: Final = 0.08


@final
class Handed(Mark):
    """A question on its way to the node."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def handed(self, certain: bool) -> None:
        """The node has it."""
        self._span.handed = True


class Asking(Actor):
    """Whoever asks a node about queues that come and go."""

    def __init__(self, world: Stage, name: str, number: int) -> None:
        super().__init__(world, name, number)
        self._asked: deque[Span] = deque()

    def set_up(self) -> None:
        """The node may say that a queue is not there, or another's."""
        self.tolerated = {404, 405, 406}
        self._asked.clear()

    def ask(self, name: str, method: spec.Method, answer: Answer) -> Span:
        """Ask something of a queue; a refusal of it closes the channel."""
        connection = self.connection
        assert connection is not None
        incarnations = self.world.incarnations
        span = incarnations.span(connection, name)
        if isinstance(method, spec.QueueDelete):
            incarnations.delete(span)
        self._asked.append(span)
        self.call(method, partial(self._told, answer))
        connection.mark(Handed(span))
        return span

    def _told(self, answer: Answer, method: spec.Method, content: bytes) -> None:
        span = self._asked.popleft()
        if isinstance(method, spec.QueueDeclareOk):
            span.name = method.queue
        incarnations = self.world.incarnations
        incarnations.answer(span)
        if isinstance(method, spec.QueueDeleteOk):
            incarnations.check_deleted(span, self.name)
        else:
            incarnations.check_used(span, self.name)
        self.told(span)
        answer(method, content)

    def told(self, span: Span) -> None:
        """A question was answered, and not with a refusal."""

    def refused(self, method: spec.ChannelClose) -> None:
        """The first question without an answer was one too many."""
        self.world.count(f"short-lived {method.reply_code}")
        if not self._asked:
            raise Violation(f"{self.name}: nothing was asked, and {method.reply_text}")
        span = self._asked.popleft()
        incarnations = self.world.incarnations
        incarnations.answer(span)
        if not self.world.excuses(self, method):
            incarnations.check_refused(span, self.name, method)
        self._give_up()

    def disconnected(self) -> None:
        """Nobody will answer."""
        self._give_up()
        super().disconnected()

    def _give_up(self) -> None:
        connection = self.connection
        if connection is not None:
            for span in self._asked:
                self.world.incarnations.abandon(span, connection)
        self._asked.clear()


class Dealer(Asking):
    """Publishes and consumes.

    Attributes:
        source: The queues that its consumer may be attached to, empty while there is none.
    """

    def __init__(self, world: Stage, name: str, number: int) -> None:
        super().__init__(world, name, number)
        self.source: set[int] = set()
        self._channel = 0
        self._sequence = 0
        self._unconfirmed: dict[int, Parcel] = {}
        self._unheard: list[Span] = []
        self._held: dict[int, Parcel] = {}
        self._firsts: dict[int, int] = {}
        self._queue = ""
        self._tags = 0

    def set_up(self) -> None:
        """A new channel."""
        super().set_up()
        self.source = set()
        self._channel = self.world.new_channel()
        self._sequence = 0
        self._unconfirmed = {}
        self._unheard = []
        self._held = {}

    def _give_up(self) -> None:
        connection = self.connection
        if connection is not None:
            for span in self._pending():
                self.world.incarnations.abandon(span, connection)
        super()._give_up()

    def _pending(self) -> list[Span]:
        return [parcel.span for parcel in self._unconfirmed.values()] + self._unheard

    def close_channel(self) -> None:
        """Nobody reads any more what becomes of publishes; the node may not have seen them yet."""
        self._unheard = self._pending()
        super().close_channel()

    def _closed(self, method: spec.Method, content: bytes) -> None:
        for span in self._unheard:
            span.last = self.world.step_number
        super()._closed(method, content)

    def waits(self) -> bool:
        """Whether there is something that a node has to tell yet."""
        gone = self.source and all(self.world.incarnations.known[n].gone for n in self.source)
        return self.busy() or bool(self._unconfirmed) or bool(gone)

    def ended(self) -> None:
        """Nothing is held."""
        self.source = set()
        self._held = {}
        self._unconfirmed = {}

    # Publishing.

    def publish(self, name: str, exchange: str = "", key: str = "") -> None:
        """Publish some messages that a queue has to take, or that come back."""
        world, connection, random = self.world, self.connection, self.random
        assert connection is not None
        if len(self._unconfirmed) > world.options.window:
            return
        method = spec.BasicPublish(exchange=exchange, routing_key=key or name, mandatory=True)
        count = random.randrange(1, world.options.burst + 1)
        for _ in range(count):
            self._sequence += 1
            size = random.randrange(10, world.options.small_bytes)
            message = world.new_message(self._channel, self._sequence, size, True)
            span = world.incarnations.span(connection, name)
            self._unconfirmed[self._sequence] = world.incarnations.sent(message, span)
            connection.send_bytes(
                content_frames(
                    self.number, method, PERSISTENT, body_of(message), connection.frame_max
                )
            )
            connection.mark(Handed(span))
        world.count("published", count)
        world.say("%s publishes %d up to m%d to %s", self.name, count, message.id, name)

    def _answered(self, sequence: int, multiple: bool, status: int) -> None:
        if sequence not in self._unconfirmed:
            raise Violation(f"{self.name}: publish #{sequence} was answered twice, or never made")
        world = self.world
        for number in [n for n in self._unconfirmed if multiple and n <= sequence] or [sequence]:
            parcel = self._unconfirmed.pop(number)
            world.incarnations.answer(parcel.span)
            if parcel.message.status == SENT:
                parcel.message.status = status
                if status == CONFIRMED:
                    world.count("confirmed by short-lived queues")
                    world.incarnations.check_confirmed(parcel)

    # Consuming.

    def consume(self, name: str) -> None:
        """Subscribe."""
        self._queue = name
        self._firsts = {}
        self._tags += 1
        consume = spec.BasicConsume(queue=name, consumer_tag=f"t{self._tags}")
        self.ask(name, consume, self._consuming)

    def told(self, span: Span) -> None:
        """Whatever is consumed or polled comes from what that was asked of."""
        self.source = self.world.incarnations.candidates(span) - {NOBODY}

    def _consuming(self, method: spec.Method, content: bytes) -> None:
        self.ready = True

    def settle(self) -> None:
        """Acknowledge something, or give it back."""
        tag = self.random.choice(list(self._held))
        if self.random.random() < 0.2:
            self.world.say("%s gives m%d back", self.name, self._held.pop(tag).message.id)
            self.send(spec.BasicReject(tag, True))
            return
        self.acknowledge(tag)

    def acknowledge(self, tag: int) -> None:
        """Acknowledge all up to a tag."""
        for each in [each for each in self._held if each <= tag]:
            self._held.pop(each).settled = True
        self.send(spec.BasicAck(tag, True))

    def take(self, tag: int, redelivered: bool, content: bytes) -> None:
        """A message came."""
        world = self.world
        parcel = world.incarnations.parcels.get(id_of(content))
        if parcel is None or content != body_of(parcel.message):
            raise Violation(f"{self.name} got what nobody published: {content[:40]!r}")
        message = parcel.message
        world.say("%s gets m%d%s", self.name, message.id, " redelivered" if redelivered else "")
        world.count("delivered by short-lived queues")
        world.incarnations.check_delivered(parcel, self.source, self.name)
        if not redelivered:
            if message.sequence <= self._firsts.get(message.channel, 0):
                raise Violation(f"{message} came to {self.name} behind a later one")
            self._firsts[message.channel] = message.sequence
        self._held[tag] = parcel

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A delivery, the end of the queue, or what became of a publish."""
        if isinstance(method, spec.BasicDeliver):
            if method.consumer_tag != f"t{self._tags}":
                raise Violation(f"{self.name}: a delivery for consumer {method.consumer_tag}")
            self.take(method.delivery_tag, method.redelivered, content)
        elif isinstance(method, spec.BasicCancel):
            self.world.count("consumers of deleted queues")
            if method.consumer_tag == f"t{self._tags}":
                self.cancelled()
        elif isinstance(method, spec.BasicAck):
            self._answered(method.delivery_tag, method.multiple, CONFIRMED)
        elif isinstance(method, spec.BasicNack):
            self._answered(method.delivery_tag, method.multiple, REFUSED)
        elif isinstance(method, spec.BasicReturn):
            parcel = self.world.incarnations.parcels[id_of(content)]
            self.world.count("returned by short-lived queues")
            if method.exchange == "":
                self.world.incarnations.check_returned(parcel)
            parcel.message.status = RETURNED
        else:
            super().pushed(method, content)

    def cancelled(self) -> None:
        """The queue is gone, or its node."""
        self.source = set()
        self._held = {}


@final
class Owner(Dealer):
    """Has a queue for its connection, alone or with others of the same one.

    Attributes:
        names: Under which it may have it; empty for one that the node makes up.
    """

    def __init__(self, world: Stage, name: str, number: int, names: tuple[str, ...]) -> None:
        super().__init__(world, name, number)
        self._names = names
        self._bound = False

    def set_up(self) -> None:
        """Have a queue, use it."""
        super().set_up()
        self.call(spec.ConfirmSelect(), ignore)
        self.call(spec.BasicQos(0, PREFETCH), ignore)
        self._declare()

    def _declare(self) -> None:
        name = self.random.choice(self._names) if self._names else ""
        self._bound = False
        durable = self.random.random() < 0.5
        self.ask(
            name, spec.QueueDeclare(queue=name, durable=durable, exclusive=True), self._declared
        )

    def _declared(self, method: spec.Method, content: bytes) -> None:
        assert isinstance(method, spec.QueueDeclareOk)
        self.world.count("exclusive queues" if self._names else "queues named by nodes")
        name = method.queue
        self.world.say("%s has %s", self.name, name)
        if self.random.random() < 0.5:
            self._bound = True
            self.ask(
                name,
                spec.QueueBind(queue=name, exchange=EXCHANGE, routing_key=f"to {name}"),
                ignore,
            )
        self.consume(name)

    def act(self) -> None:
        """Use it, be rid of it, or end its connection."""
        if self.busy():
            return
        chance, connection = self.random.random(), self.connection
        assert connection is not None
        if chance < LEAVE_SHARE:
            self.world.say("%s says goodbye", connection.name)
            connection.say_goodbye()
        elif chance < 2 * LEAVE_SHARE:
            self.close_channel()
        elif chance < 2 * LEAVE_SHARE + DELETE_SHARE:
            self.world.say("%s deletes %s", self.name, self._queue)
            self.ready = False
            self.ask(self._queue, spec.QueueDelete(queue=self._queue), self._deleted)
        elif not self.source:
            self.ready = False
            self._declare()
        elif self._held and chance < 0.6:
            self.settle()
        elif self._bound and chance < 0.8:
            self.publish(self._queue, EXCHANGE, f"to {self._queue}")
        else:
            self.publish(self._queue)

    def _deleted(self, method: spec.Method, content: bytes) -> None:
        self.cancelled()
        self._declare()


@final
class Meddler(Asking):
    """Tries what other connections have for themselves."""

    def set_up(self) -> None:
        """Nothing is needed."""
        super().set_up()
        self.call(spec.BasicQos(), self.begin)

    def act(self) -> None:
        """Ask for something that must not be given."""
        if self.busy():
            return
        random, incarnations = self.random, self.world.incarnations
        living = [each.name for each in incarnations.living() if each.owner]
        name = random.choice(living) if living and random.random() < 0.8 else OWN_NAMES[0]
        self.world.count("meddled")
        methods: list[spec.Method] = [
            spec.QueueDeclare(queue=name, passive=True),
            spec.QueuePurge(queue=name),
            spec.BasicGet(queue=name),
            spec.BasicConsume(queue=name),
            spec.QueueBind(queue=name, exchange=EXCHANGE, routing_key="x"),
            spec.QueueDelete(queue=name),
        ]
        self.ask(name, random.choice(methods), ignore)


@final
class Renewer(Asking):
    """Declares a queue for all, deletes it, and declares it again.

    Attributes:
        queue: What it is like.
    """

    def __init__(self, world: Stage, name: str, number: int, queue: QueueState) -> None:
        super().__init__(world, name, number)
        self._queue = queue

    def set_up(self) -> None:
        """Declare it."""
        super().set_up()
        self._declare()
        self.call(spec.BasicQos(), self.begin)

    def _declare(self) -> None:
        queue = self._queue
        arguments: Table = {"x-queue-type": queue.kind}
        declare = spec.QueueDeclare(queue=queue.name, durable=queue.durable, arguments=arguments)
        self.ask(queue.name, declare, ignore)

    def act(self) -> None:
        """Delete it, declare it, or both at once."""
        if self.busy():
            return
        chance, name = self.random.random(), self._queue.name
        if chance < 0.5:
            self._declare()
            return
        self.world.say("%s deletes %s", self.name, name)
        if_unused = chance > 0.9 and self._queue.kind == "classic"
        self.ask(name, spec.QueueDelete(queue=name, if_unused=if_unused), ignore)
        if chance < 0.7:
            self._declare()


@final
class Sender(Dealer):
    """Publishes to whatever there is."""

    def __init__(self, world: Stage, name: str, number: int, names: list[str]) -> None:
        super().__init__(world, name, number)
        self._names = names

    def set_up(self) -> None:
        """Nothing is declared."""
        super().set_up()
        self.call(spec.ConfirmSelect(), self.begin)

    def act(self) -> None:
        """Publish."""
        if self.random.random() < self.world.options.close_share:
            self.close_channel()
        else:
            self.publish(self.random.choice(self._names))


@final
class Taker(Dealer):
    """Consumes a queue for all while it is there."""

    def __init__(self, world: Stage, name: str, number: int, queue: str) -> None:
        super().__init__(world, name, number)
        self._queue = queue

    def set_up(self) -> None:
        """Subscribe."""
        super().set_up()
        self.call(spec.BasicQos(0, PREFETCH), ignore)
        self.consume(self._queue)

    def act(self) -> None:
        """Settle, or subscribe again."""
        if self.busy():
            return
        if self.random.random() < self.world.options.close_share:
            self.close_channel()
        elif not self.source:
            self.ready = False
            self.consume(self._queue)
        elif self._held:
            self.settle()

    def settle_all(self) -> None:
        """Acknowledge everything."""
        if self._held and self.ready:
            self.acknowledge(max(self._held))


@final
class Sweeper(Asking):
    """Deletes what is left at the end."""

    def set_up(self) -> None:
        """Nothing is needed."""
        super().set_up()
        self.call(spec.BasicQos(), self.begin)

    def act(self) -> None:
        """Delete the next one."""
        left = [each for each in self.world.incarnations.living() if not each.owner]
        if left and not self.busy():
            self.ask(left[0].name, spec.QueueDelete(queue=left[0].name), ignore)


@final
class Emptier(Client):
    """Consumes a queue for all, and acknowledges at once."""

    def act(self) -> None:
        """Take all there is."""
        super().act()
        for actor in self.actors:
            if isinstance(actor, Taker):
                actor.settle_all()


def emptiers(world: Stage) -> list[Client]:
    """Clients that take everything out of every queue that is for all."""
    clients: list[Client] = []
    for queue in world.incarnations.living():
        client = Emptier(world, f"d.{queue.name}", FRAME_BYTES)
        client.actors.append(Taker(world, client.name, 1, queue.name))
        clients.append(client)
    return clients


def sweepers(world: Stage) -> list[Client]:
    """A client that deletes all queues that come and go."""
    client = Client(world, "s", FRAME_BYTES)
    client.actors.append(Sweeper(world, "s", 1))
    return [client]


def add_owners(world: Stage, clients: list[Client]) -> None:
    """Clients that have queues for their connections, and one that tries them."""
    random = world.random
    for n in range(2):
        client = Client(world, f"o{n}", FRAME_BYTES)
        for number in range(1, random.randrange(2, 4)):
            names: tuple[str, ...] = OWN_NAMES if random.random() < 0.7 else ()
            client.actors.append(Owner(world, f"o{n}.{number}", number, names))
        clients.append(client)
    meddler = Client(world, "m", FRAME_BYTES)
    meddler.actors.append(Meddler(world, "m", 1))
    meddler.actors.append(Sender(world, "m.2", 2, list(OWN_NAMES)))
    clients.append(meddler)


def add_renewers(world: Stage, clients: list[Client], queues: list[QueueState]) -> None:
    """Clients that declare and delete queues for all, and others that use them."""
    for n in range(2):
        renewing, using = Client(world, f"w{n}", FRAME_BYTES), Client(world, f"u{n}", FRAME_BYTES)
        for number, queue in enumerate(queues, 1):
            renewing.actors.append(Renewer(world, f"w{n}.{number}", number, queue))
            using.actors.append(Taker(world, f"u{n}.{number}", number, queue.name))
        names = [queue.name for queue in queues]
        using.actors.append(Sender(world, f"u{n}.s", len(queues) + 1, names))
        clients += [renewing, using, using]
