"""What simulated clients are made of: an actor is whoever uses one channel.

An actor opens its channel with everything it needs in one go, without waiting for answers between,
then acts when it is told to, and starts anew when its channel is gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from sim.connection import SimConnection
from sim.model import QueueState, Violation
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

Answer = Callable[[spec.Method, bytes], None]

ASYNCHRONOUS = (
    spec.BasicDeliver,
    spec.BasicAck,
    spec.BasicNack,
    spec.BasicReturn,
    spec.BasicCancel,
)


def ignore(method: spec.Method, content: bytes) -> None:
    """An answer that says nothing of interest."""


class Actor:
    """One user of one channel.

    Attributes:
        name: For event lines.
        number: Its channel's number on the connection.
        ready: Whether its channel is open and set up.
        tolerated: Reply codes with which the node may close the channel now.
    """

    def __init__(self, world: Stage, name: str, number: int) -> None:
        self.world = world
        self.random: Random = world.random
        self.name = name
        self.number = number
        self.connection: SimConnection | None = None
        self.ready = False
        self.tolerated: set[int] = set()
        self._answers: deque[Answer] = deque()
        self._asked_ms: deque[int] = deque()
        self._closing = False

    # For clients.

    def open(self, connection: SimConnection) -> None:
        """Open the channel and set it up."""
        self.connection = connection
        connection.channels[self.number] = self
        self.ready = False
        self.tolerated = set()
        self._answers = deque()
        self._asked_ms = deque()
        self._closing = False
        self.call(spec.ChannelOpen(), ignore)
        self.set_up()

    def set_up(self) -> None:
        """Send whatever this actor needs to begin; the last answer sets `ready`."""
        raise AssertionError("an actor defines set_up")

    def act(self) -> None:
        """Do something; the channel is ready."""
        raise AssertionError("an actor defines act")

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """Something came that nobody asked for."""
        raise Violation(f"{self.name}: unexpected {method.NAME}")

    def missed(self, method: spec.Method, content: bytes) -> None:
        """Something was sent, but the channel was over before it came."""

    def ended(self) -> None:
        """The channel is gone, with the connection or alone."""

    # For connections.

    def receive(self, method: spec.Method, content: bytes) -> None:
        """A method came on this channel."""
        if isinstance(method, ASYNCHRONOUS):
            if self._closing:
                self.missed(method, content)
            else:
                self.pushed(method, content)
        elif isinstance(method, spec.ChannelClose):
            self._closed_by_node(method)
        elif self._answers:
            self._asked_ms.popleft()
            self._answers.popleft()(method, content)
        else:
            raise Violation(f"{self.name}: {method.NAME} answers nothing")

    def disconnected(self) -> None:
        """The connection is gone."""
        if self.connection is not None:
            self.connection = None
            self.ready = False
            self._answers = deque()
            self._asked_ms = deque()
            self.ended()

    # For kinds of actors.

    def call(self, method: spec.Method, answer: Answer) -> None:
        """Send a method that is answered."""
        assert self.connection is not None
        self.connection.send(self.number, method)
        self._answers.append(answer)
        self._asked_ms.append(self.world.now_ms())

    def send(self, method: spec.Method) -> None:
        """Send a method that is not."""
        assert self.connection is not None
        self.connection.send(self.number, method)

    def busy(self) -> bool:
        """Whether answers are missing."""
        return bool(self._answers)

    def waits_ms(self) -> int:
        """How long the oldest question has waited."""
        return self.world.now_ms() - self._asked_ms[0] if self._asked_ms else 0

    def begin(self, method: spec.Method, content: bytes) -> None:
        """The last answer of the set-up."""
        self.ready = True

    def close_channel(self) -> None:
        """Close the channel in an orderly way."""
        assert self.connection is not None
        self.world.say("%s closes its channel", self.name)
        self.ready = False
        self._closing = True
        self.tolerated = {404, 405, 406}
        self.call(spec.ChannelClose(200, "done"), self._closed)
        self.ended()

    def declare(self, queue: QueueState, answer: Answer = ignore) -> None:
        """Make sure that a queue exists."""
        arguments: Table = {"x-queue-type": queue.kind}
        if queue.most >= 0:
            arguments["x-max-length"] = queue.most
        if queue.most_bytes >= 0:
            arguments["x-max-length-bytes"] = queue.most_bytes
        if queue.rejects():
            arguments["x-overflow"] = "reject-publish"
        if queue.max_priority:
            arguments["x-max-priority"] = queue.max_priority
        if queue.own_limit:
            arguments["x-delivery-limit"] = queue.delivery_limit
        if queue.retry_ms:
            arguments["x-delayed-retry-type"] = "all"
            arguments["x-delayed-retry-min"] = queue.retry_ms
            arguments["x-delayed-retry-max"] = 3 * queue.retry_ms
        if queue.timeout_ms >= 0:
            arguments["x-consumer-timeout"] = queue.timeout_ms
        if queue.single_active:
            arguments["x-single-active-consumer"] = True
        self.call(
            spec.QueueDeclare(queue=queue.name, durable=queue.durable, arguments=arguments),
            answer,
        )
        if queue.volatile or queue.single:
            self.tolerated.add(404)

    def _closed(self, method: spec.Method, content: bytes) -> None:
        if not isinstance(method, spec.ChannelCloseOk):
            raise Violation(f"{self.name}: {method.NAME} answers channel.close")
        self._forget()

    def _closed_by_node(self, method: spec.ChannelClose) -> None:
        if method.reply_code not in self.tolerated and not self.world.excuses(self, method):
            raise Violation(
                f"{self.name}: the node closed the channel: {method.reply_code} {method.reply_text}"
            )
        self.world.say("%s closed by the node: %s", self.name, method.reply_text)
        self.send(spec.ChannelCloseOk())
        self.refused(method)
        if self._closing:
            # Both close it at once: the node answers that, too, and nothing else.
            self._answers = deque([self._closed])
            self._asked_ms = deque([self._asked_ms[-1]])
            return
        self._forget()
        self.ended()

    def refused(self, method: spec.ChannelClose) -> None:
        """The node closed the channel with a code that is tolerated."""

    def _forget(self) -> None:
        if self.connection is not None:
            self.connection.channels.pop(self.number, None)
            self.connection = None
            self.ready = False
            self._answers = deque()
            self._asked_ms = deque()


class Client:
    """One connection at a time, and the actors that share it.

    Attributes:
        connection: None while there is none.
        settles_for_sure: Whether an ack that was handed over is an ack that was taken: alarms
            make the node put input of publishing connections aside.
    """

    def __init__(self, world: Stage, name: str, frame_max: int) -> None:
        self.world = world
        self.name = name
        self.frame_max = frame_max
        self.connection: SimConnection | None = None
        self.actors: list[Actor] = []
        self.settles_for_sure = True

    def act(self) -> None:
        """Connect, open a channel, or have an actor act."""
        connection = self.connection
        if connection is None or connection.dead:
            self.connection = self.world.connect(self)
            if self.connection is not None:
                self.connection.tolerated |= self.world.tolerated
                self.world.connections.append(self.connection)
            return
        if not connection.ready or connection.condemned:
            return
        actor = self.actors[int(self.world.random.random() * len(self.actors))]
        if actor.connection is None:
            if actor.number not in connection.channels:
                actor.open(connection)
        elif actor.ready:
            actor.act()
