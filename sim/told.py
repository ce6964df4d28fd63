"""An events feed: who turns it on and off, who reads it, and what it has to tell in the end.

The feed is turned on, off, and to some queues only, while everything goes wrong; its queue is full,
emptied, deleted and made again, while the clients that it tells of have to get on as ever. What was
told is looked at by `checkers.told`. When nothing goes wrong any more, a client does a few things
with a queue, and each of them has to be told, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

import msgspec

from sim.actors import Actor, Client, ignore
from sim.checkers.told import ToldChecker, numbers_of
from sim.model import Violation
from sim.publisher import PERSISTENT
from warren.metadata.commands import ClearParameter, Command, SetParameter
from warren.metadata.feeds import DEFAULT_QUEUE, FEED_NAME
from warren.metadata.parameters import FEED
from warren.node.node import Node
from warren.queues.fifo_queue import FifoQueue
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

FRAME_BYTES: Final = 131_072
PREFETCH: Final = 20
SUBJECT: Final = "subject"
"""The queue that something is done with when nothing goes wrong."""
SUBJECTS: Final = 12
"""So many messages come to it."""
SWITCH_SHARE: Final = 0.3
PATTERNS: Final = ("", "", "^[qc]", "0$")
ON: Final = msgspec.json.encode({"queue": DEFAULT_QUEUE})

Wait = Callable[[str, Callable[[], bool]], None]
"""Waits for a condition, and complains when it does not come."""

Event = tuple[str, int, str | None]
"""What is told of a message: its name, the message's number, and why."""


class Feed:
    """The feed of a run.

    Attributes:
        kind: Of its queue.
        most: So many blocks this may have; -1 for no limit.
        rejects: Whether it rejects those beyond, and does not drop its first ones.
        checker: What looks at what it tells.
    """

    def __init__(self, world: Stage, kind: str) -> None:
        self.kind = kind
        self.most = world.options.told_most
        self.rejects = world.options.told_rejects
        # What is on its way to a classic queue of another node is lost with the line.
        lossy = world.clustered and kind == "classic"
        self.checker = ToldChecker(world, self.most < 0, lossy)

    def declaration(self) -> spec.QueueDeclare:
        """How its queue is made."""
        arguments: Table = {"x-queue-type": self.kind}
        if self.kind == "quorum":
            # However often a block comes and its reader goes, it is to be read.
            arguments["x-delivery-limit"] = -1
        if self.most >= 0:
            arguments["x-max-length"] = self.most
            arguments["x-overflow"] = "reject-publish" if self.rejects else "drop-head"
        return spec.QueueDeclare(queue=DEFAULT_QUEUE, durable=True, arguments=arguments)


@final
class Listener(Actor):
    """Reads the feed."""

    def __init__(self, world: Stage, name: str, number: int, feed: Feed) -> None:
        super().__init__(world, name, number)
        self._feed = feed
        self._last = 0

    def set_up(self) -> None:
        """Subscribe; the feed's queue may be away with its node."""
        self.tolerated = {404, 405, 406}
        self._last = 0
        self.call(self._feed.declaration(), ignore)
        self.call(spec.BasicQos(0, PREFETCH), ignore)
        self.call(spec.BasicConsume(queue=DEFAULT_QUEUE), self.begin)

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A block, or the end of the queue."""
        if isinstance(method, spec.BasicDeliver):
            self._feed.checker.read(content)
            self._last = method.delivery_tag
        elif isinstance(method, spec.BasicCancel):
            self.close_channel()
        else:
            super().pushed(method, content)

    def act(self) -> None:
        """Be done with what came."""
        if self._last:
            self.send(spec.BasicAck(self._last, True))
            self._last = 0


@final
class Switch(Actor):
    """Turns the feed on and off, and empties or deletes its queue now and then."""

    def __init__(self, world: Stage, name: str, number: int, feed: Feed) -> None:
        super().__init__(world, name, number)
        self._feed = feed
        self._changed = False

    def set_up(self) -> None:
        """Nothing is to be declared; the queue may be away with its node."""
        self.tolerated = {404, 405, 406}
        self.call(spec.BasicQos(), self.begin)

    def act(self) -> None:
        """Change something."""
        if self.busy() or (self._changed and self.random.random() > SWITCH_SHARE):
            return
        chance = self.random.random() if self._changed else 0.0
        self._changed = True
        if chance < 0.6:
            pattern = self.random.choice(PATTERNS)
            said = {"queue": DEFAULT_QUEUE} | ({"pattern": pattern} if pattern else {})
            self._change(SetParameter("/", FEED, FEED_NAME, msgspec.json.encode(said)))
        elif chance < 0.8:
            self._change(ClearParameter("/", FEED, FEED_NAME))
        elif chance < 0.9:
            self._feed.checker.cleared = True
            self.call(spec.QueuePurge(queue=DEFAULT_QUEUE), ignore)
        else:
            self.world.count("queues of feeds deleted")
            self._feed.checker.cleared = True
            self.call(spec.QueueDelete(queue=DEFAULT_QUEUE), ignore)
            self.call(self._feed.declaration(), ignore)

    def _change(self, command: Command) -> None:
        assert self.connection is not None
        self.world.say("%s: %s of the feed", self.name, type(command).__name__)
        self.world.count("changes of feeds")
        self.world.change_tables(self.connection.site, command)


@final
class Subject(Actor):
    """Does a few things with a queue, of which it knows what is to be told.

    Attributes:
        wanted: That.
    """

    def __init__(self, world: Stage, name: str, number: int, kind: str) -> None:
        super().__init__(world, name, number)
        self.wanted: Counter[Event] = Counter()
        self._kind = kind
        self._sent = 0
        self._confirmed = 0
        self._left = SUBJECTS

    def set_up(self) -> None:
        """Have the queue, confirms, and a consumer."""
        arguments: Table = {"x-queue-type": self._kind}
        self.call(spec.QueueDeclare(queue=SUBJECT, durable=True, arguments=arguments), ignore)
        self.call(spec.ConfirmSelect(), ignore)
        self.call(spec.BasicConsume(queue=SUBJECT), self.begin)

    def act(self) -> None:
        """Publish."""
        connection = self.connection
        assert connection is not None
        if self._sent < SUBJECTS:
            method = spec.BasicPublish(exchange="", routing_key=SUBJECT)
            body = b"subject %d" % self._sent
            self._sent += 1
            connection.send_bytes(
                content_frames(self.number, method, PERSISTENT, body, connection.frame_max)
            )

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A confirm, or a message: of three one is acked at once, one comes again, one goes.

        Raises:
            Violation: It is something else, though nothing goes wrong.
        """
        if isinstance(method, spec.BasicAck):
            self._confirmed = method.delivery_tag
        elif isinstance(method, spec.BasicDeliver):
            self._take(int(content.partition(b" ")[2]), method.delivery_tag, method.redelivered)
        else:
            raise Violation(f"{self.name}: {method.NAME}, though nothing goes wrong")

    def _take(self, number: int, tag: int, again: bool) -> None:
        self._tell("delivered", number, "redelivered" if again else None)
        if not again:
            self._tell("published", number)
            self._tell("confirmed", number)
        if number % 3 == 0 and not again:
            self._tell("returned", number, "requeued")
            self.send(spec.BasicNack(tag, False, True))
            return
        if number % 3 == 1:
            self._tell("rejected", number)
            self._tell("dropped", number, "rejected")
            self.send(spec.BasicReject(tag, False))
        else:
            self._tell("acked", number)
            self.send(spec.BasicAck(tag))
        self._left -= 1

    def _tell(self, event: str, number: int, reason: str | None = None) -> None:
        self.wanted[event, number, reason] += 1

    def done(self) -> bool:
        """Whether all of it was done."""
        return self._confirmed == SUBJECTS and self._left == 0


def add_feed(world: Stage, clients: list[Client], kind: str) -> Feed:
    """A feed whose queue is of a kind, and clients that have to do with it."""
    feed = Feed(world, kind)
    world.checkers.append(feed.checker)
    # Named twice it acts twice as often, so that blocks do not pile up.
    clients += [_client(world, "e0", Listener(world, "e0.1", 1, feed))] * 2
    clients.append(_client(world, "e1", Switch(world, "e1.1", 1, feed)))
    return feed


def _client(world: Stage, name: str, actor: Actor) -> Client:
    client = Client(world, name, FRAME_BYTES)
    client.actors.append(actor)
    return client


@final
class Audit:
    """The end: each thing that is done when nothing goes wrong is told, once."""

    def __init__(
        self, world: Stage, feed: Feed, wait: Wait, begin: Callable[[list[Client]], None]
    ) -> None:
        self._world = world
        self._feed = feed
        self._wait = wait
        self._begin = begin

    def run(self) -> None:
        """Have the feed on, do something, look at what is told, and have it off again.

        Raises:
            Violation: It does not tell all of it, or something else.
        """
        world, feed = self._world, self._feed
        listening = Listener(world, "el.1", 1, feed)
        subject = Subject(world, "es.1", 1, feed.kind)
        self._begin([_client(world, "el", listening)])
        self._wait("the feed's queue cannot be used", lambda: listening.ready)
        self._have(ON)
        self._wait("blocks of a feed stay where they are", self._read)
        # A node learns a while later that there is space again, and nacks publishes until then.
        self._wait("a disk with space counts as full", self._has_space)
        feed.checker.calm = True
        clients = [_client(world, "es", subject), *world.clients]
        self._begin(clients)
        self._wait("what the feed is to tell of is not done", subject.done)
        if feed.checker.sure:
            try:
                self._wait("a feed does not tell all", lambda: self._told_all(subject.wanted))
            except Violation as error:
                missing = subject.wanted - self._told()
                raise Violation(f"{error}: {sorted(missing, key=str)}") from error
            extra = self._told() - subject.wanted
            if extra:
                raise Violation(f"a feed tells what was not done: {sorted(extra, key=str)}")
            world.count("feeds that told all")
        self._have(b"")
        self._wait("blocks of a feed that is off stay where they are", self._read)

    def _have(self, value: bytes) -> None:
        """Have the feed say this, or be off."""
        world = self._world
        command: Command = SetParameter("/", FEED, FEED_NAME, value)
        if not value:
            command = ClearParameter("/", FEED, FEED_NAME)
        world.change_tables(world.nodes()[0].settings.node_name, command)
        self._wait("a feed is not changed", lambda: all(map(_says(value), world.nodes())))

    def _has_space(self) -> bool:
        """Whether no node thinks that its disk is full."""
        return not any(node.log.full for node in self._world.nodes())

    def _read(self) -> bool:
        """Whether the feed's queue is empty, and no node has anything for it."""
        for node in self._world.nodes():
            vhost = node.queues.vhosts.get("/")
            queue = None if vhost is None else vhost.queues.get(DEFAULT_QUEUE)
            if isinstance(queue, FifoQueue) and queue.fifo.ready_count() + queue.fifo.held_count():
                return False
            if node.feeds.waiting():
                return False
        return True

    def _told_all(self, wanted: Counter[Event]) -> bool:
        """Whether all was told, or a change of leader took some, as the row that says so shows."""
        rows = self._feed.checker.of_queue(SUBJECT)
        if any(row["event"] == "leading" and row["first_offset"] > 0 for row in rows):
            self._world.count("leaders of a subject changed")
            return True
        return self._told() >= wanted

    def _told(self) -> Counter[Event]:
        """What was told of the queue."""
        told: Counter[Event] = Counter()
        for row in self._feed.checker.of_queue(SUBJECT):
            for number in numbers_of(row):
                told[row["event"], number, row["reason"]] += 1
        return told


def _says(value: bytes) -> Callable[[Node], bool]:
    """Whether a node knows of a feed with this parameter; of none if it is empty."""
    return lambda node: node.metadata.parameters.get(("/", FEED, FEED_NAME), b"") == value
