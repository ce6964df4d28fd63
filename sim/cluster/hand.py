"""A client for the last acts of a cluster's run: it does what it is told, through a given node.

What it publishes is numbered, so that it can say what of it came back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, ignore
from sim.connection import SimConnection
from sim.model import Violation
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.properties import Properties
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.cluster.site import Site
    from sim.cluster.world import ClusterWorld

BODY_BYTES: Final = 4_000
FRAME_BYTES: Final = 131_072
NUMBER_BYTES: Final = 8
PERSISTENT: Final = b"\x10\0\2"
"""Properties: delivery mode 2."""
QUORUM: Final[Table] = {"x-queue-type": "quorum", "x-quorum-initial-group-size": 1}


@final
class Hand(Actor):
    """Declares one queue, publishes to it with confirms, takes out what it has, and purges it.

    Attributes:
        sent: How many it has published; they are numbered from 1 on.
        confirmed: So many of them are confirmed.
        got: The numbers of those that it took out.
        most: So many of them it takes, at most.
        emptied: Whether the queue had nothing more when it was asked last, or that was enough.
        refused_with: What the node said when it closed the channel; empty if it did not.
    """

    def __init__(
        self,
        world: ClusterWorld,
        site: Site,
        queue: str,
        arguments: Table = QUORUM,
        first: int = 0,
    ) -> None:
        """
        Args:
            arguments: What the queue is declared with; it may be there already.
            first: The last number that others have used.
        """
        super().__init__(world, f"s.{queue}.{site.name}", 1)
        self.queue = queue
        self.sent = 0
        self.confirmed = 0
        self.got: list[int] = []
        self.most = 1 << 30
        self.emptied = False
        self.refused_with = ""
        self._arguments = arguments
        self._first = first
        assert site.node is not None
        connection = SimConnection(world, self.name, FRAME_BYTES, site.node, site.name)
        connection.tolerated |= world.tolerated
        world.connections.append(connection)
        self._line = connection

    def opened(self) -> bool:
        """Open the channel as soon as that may be; whether it is open."""
        if self._line.ready and self.connection is None:
            self.open(self._line)
        return self.ready

    def set_up(self) -> None:
        """The queue begins with the member that is here."""
        arguments = self._arguments
        self.call(spec.QueueDeclare(queue=self.queue, durable=True, arguments=arguments), ignore)
        self.call(spec.ConfirmSelect(), self.begin)

    def publish(self, life_ms: int = 0) -> None:
        """One message.

        Args:
            life_ms: After what time it expires; 0 for never.
        """
        assert self.connection is not None
        self.sent += 1
        body = b"%08d" % (self._first + self.sent) + bytes(BODY_BYTES - NUMBER_BYTES)
        envelope = spec.BasicPublish(exchange="", routing_key=self.queue)
        properties = PERSISTENT
        if life_ms:
            properties = Properties(delivery_mode=2, expiration=str(life_ms)).encode()
        frames = content_frames(self.number, envelope, properties, body, FRAME_BYTES)
        self.connection.send_bytes(frames)

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A confirm."""
        if not isinstance(method, spec.BasicAck):
            super().pushed(method, content)
            return
        self.confirmed = method.delivery_tag if method.multiple else self.confirmed + 1

    def settled(self) -> bool:
        """Whether all that was published is confirmed."""
        return self.confirmed == self.sent

    def take(self) -> bool:
        """Take messages out one by one; whether there are none any more."""
        if not self.busy() and not self.emptied and self.connection is not None:
            self.call(spec.BasicGet(queue=self.queue, no_ack=True), self._got)
        return self.emptied

    def _got(self, method: spec.Method, content: bytes) -> None:
        if isinstance(method, spec.BasicGetEmpty):
            self.emptied = True
            return
        number = content[:NUMBER_BYTES]
        if not isinstance(method, spec.BasicGetOk) or not number.isdigit():
            raise Violation(f"{self.name} got what nobody published: {content[:40]!r}")
        if not method.redelivered or int(number) not in self.got:
            # What was taken through a node whose session is closed comes again, and says so.
            self.got.append(int(number))
        self.emptied = len(self.got) >= self.most
        self.take()

    def empty(self) -> None:
        """Nothing is to be left."""
        self.call(spec.QueuePurge(queue=self.queue), ignore)

    def delete(self) -> None:
        """The queue is to go."""
        self.call(spec.QueueDelete(queue=self.queue), ignore)

    def refused(self, method: spec.ChannelClose) -> None:
        """The node closed the channel, as it may."""
        self.refused_with = method.reply_text
