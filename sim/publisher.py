"""Clients that publish: in confirm mode, without, or in transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from sim.actors import Actor, ignore
from sim.connection import Mark, SimConnection
from sim.model import (
    CONFIRMED,
    REFUSED,
    RETURNED,
    ROLLED_BACK,
    SENT,
    UNCOMMITTED,
    Message,
    QueueState,
    Violation,
    body_of,
    id_of,
)
from warren.limits import FRAME_OVERHEAD_BYTES
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

if TYPE_CHECKING:
    from sim.stage import Stage

FANOUT = "sim.fanout"
NOWHERE = "sim.nowhere"
"""Nothing is bound to it: what is published to it goes where its alternate leads."""
PERSISTENT = b"\x10\x00\x02"
TRANSIENT = b"\x10\x00\x01"
PERSISTENT_RANKED = b"\x18\x00\x02"
TRANSIENT_RANKED = b"\x18\x00\x01"
"""A priority follows."""
HEADERS: Final = 0x20
"""Flag in the first byte of properties: headers come before what is there above."""


@final
class Published(Mark):
    """Publishes on their way to the node."""

    def __init__(self, world: Stage, connection: SimConnection, messages: list[Message]) -> None:
        self._world = world
        self._connection = connection
        self._messages = messages

    def handed(self, certain: bool) -> None:
        """The node has them."""
        world = self._world
        life, turn = world.moment(self._connection)
        for message in self._messages:
            message.life = life
            message.turn = turn
            message.site = self._connection.site
            if message.step < 0:
                # A transaction's messages are routed when they come, not when it commits.
                message.step = world.step_number
        for checker in world.checkers:
            checker.handed(self._messages)


class Publisher(Actor):
    """Publishes to one queue, or to several by a fanout exchange.

    Attributes:
        mode: `confirm`, `plain` or `tx`.
        unconfirmed: Publishes of this channel without an answer, by sequence.
    """

    def __init__(
        self, world: Stage, name: str, number: int, mode: str, queues: list[QueueState]
    ) -> None:
        super().__init__(world, name, number)
        self.mode = mode
        self.queues = queues
        self.unconfirmed: dict[int, Message] = {}
        self._channel = 0
        self._sequence = 0
        self._transaction: list[Message] = []
        self._committing: list[Message] = []
        self._exchange = FANOUT if len(queues) > 1 else ""
        if self._exchange and world.options.alternates:
            self._exchange = NOWHERE
        self._method = spec.BasicPublish(
            exchange=self._exchange,
            routing_key="" if len(queues) > 1 else queues[0].name,
            mandatory=mode != "plain" and len(queues) == 1,
        )

    def set_up(self) -> None:
        """Declare what is published to."""
        self._channel = self.world.new_channel()
        self._sequence = 0
        self.unconfirmed = {}
        self._transaction = []
        self._committing = []
        if len(self.queues) > 1:
            self.call(spec.ExchangeDeclare(exchange=FANOUT, type_="fanout", durable=True), ignore)
        if self._exchange == NOWHERE:
            self.world.count("publishers by an alternate exchange")
            leads: Table = {"alternate-exchange": FANOUT}
            self.call(
                spec.ExchangeDeclare(
                    exchange=NOWHERE, type_="direct", durable=True, arguments=leads
                ),
                ignore,
            )
        for queue in self.declared():
            self.declare(queue)
            if len(self.queues) > 1:
                self.call(spec.QueueBind(queue=queue.name, exchange=FANOUT), ignore)
        if self.mode == "confirm":
            self.call(spec.ConfirmSelect(), self.begin)
        elif self.mode == "tx":
            if any(queue.rejects() for queue in self.world.queues):
                # A full classic queue ends the transaction with what could be done.
                self.tolerated.add(406)
            self.call(spec.TxSelect(), self.begin)
        else:
            self.call(spec.BasicQos(), self.begin)

    def declared(self) -> list[QueueState]:
        """The queues that have to be there."""
        return self.queues

    def address(self) -> tuple[list[QueueState], bytes]:
        """The queues that the next message goes to, and its headers, as they are sent."""
        return self.queues, b""

    def ended(self) -> None:
        """Nobody will tell what became of the rest."""
        self.unconfirmed = {}

    def act(self) -> None:
        """Publish some messages, or end a transaction."""
        options = self.world.options
        if len(self.unconfirmed) > options.window:
            return
        if self._transaction and self.random.random() < 0.4:
            self._end_transaction()
            return
        if self._committing:
            return
        if self.random.random() < options.close_share:
            self.close_channel()
            return
        self._publish(self.random.randrange(1, options.burst + 1))

    def _publish(self, count: int) -> None:
        world, connection = self.world, self.connection
        assert connection is not None
        options = world.options
        messages: list[Message] = []
        for _ in range(count):
            self._sequence += 1
            size = self._size(connection)
            persistent = self.random.random() >= options.transient_share
            message = world.new_message(self._channel, self._sequence, size, persistent)
            queues, headers = self.address()
            world.copy_to(message, queues)
            properties = PERSISTENT if persistent else TRANSIENT
            if options.priorities:
                message.priority = self.random.choice(options.priorities)
                head = PERSISTENT_RANKED if persistent else TRANSIENT_RANKED
                properties = head + bytes([message.priority])
                world.count("messages with priorities")
            if headers:
                flags = bytes([properties[0] | HEADERS, properties[1]])
                properties = flags + headers + properties[2:]
            connection.send_bytes(
                content_frames(
                    self.number,
                    self._method,
                    properties,
                    body_of(message),
                    connection.frame_max,
                )
            )
            connection.mark(Published(world, connection, [message]))
            messages.append(message)
            if self.mode == "confirm":
                self.unconfirmed[self._sequence] = message
            elif self.mode == "tx":
                message.status = UNCOMMITTED
                self._transaction.append(message)
            if 0 < options.body_bytes_max < size:
                self._too_large(message)
                break
        world.count("published", len(messages))
        world.say("%s publishes %s to %s", self.name, span(messages), [q.name for q in self.queues])

    def _size(self, connection: SimConnection) -> int:
        """How large the next message is."""
        options, random = self.world.options, self.random
        if options.edge_share and random.random() < options.edge_share:
            payload = connection.frame_max - FRAME_OVERHEAD_BYTES
            edges = [payload * n + d for n in (1, 2, 3) for d in (-1, 0, 1)]
            edges += [options.body_bytes_max - 1, options.body_bytes_max]
            for size in (options.round_bytes_max, options.extent_bytes_max, options.wal_max_bytes):
                # What the message is wrapped in takes a part of these.
                edges.append(size - random.randrange(300))
            if random.random() < 0.05:
                return options.body_bytes_max + 1
            return random.choice([size for size in edges if size <= options.body_bytes_max])
        if random.random() < options.large_share:
            return random.randrange(2_000, options.large_bytes)
        return random.randrange(10, options.small_bytes)

    def _too_large(self, message: Message) -> None:
        """What the node does not take has to close the channel, and never comes out."""
        self.world.say("%s publishes too large a message", self.name)
        self.world.count("too large")
        message.status = ROLLED_BACK
        self.unconfirmed.pop(message.sequence, None)
        self.tolerated.add(406)
        self.ready = False

    def _end_transaction(self) -> None:
        messages = self._transaction
        self._transaction = []
        if self.random.random() < 0.25:
            self.world.say("%s rolls %s back", self.name, span(messages))
            for message in messages:
                message.status = ROLLED_BACK
            self.call(spec.TxRollback(), ignore)
            return
        self.world.say("%s commits %s", self.name, span(messages))
        # From here on they may be delivered, whatever becomes of the commit.
        for message in messages:
            message.status = SENT
        self._committing = messages
        self.call(spec.TxCommit(), self._committed)
        if self.connection is not None:
            self.connection.mark(Published(self.world, self.connection, messages))

    def _committed(self, method: spec.Method, content: bytes) -> None:
        messages = self._committing
        self._committing = []
        self.world.count("commits")
        for message in messages:
            # What a full quorum queue rejects of a transaction is lost in silence.
            if message.status == SENT and not any(copy.queue.rejects() for copy in message.copies):
                self.world.confirm(message)

    def pushed(self, method: spec.Method, content: bytes) -> None:
        """A confirm or a return."""
        if isinstance(method, spec.BasicReturn):
            message = self.world.messages.get(id_of(content))
            if message is None or content != body_of(message):
                raise Violation(f"{self.name}: a message came back that it never published")
            if not self.world.may_return(message, self.queues[0]):
                raise Violation(f"{self.name}: {message} came back, though its queue is there")
            message.status = RETURNED
            self.world.count("returns")
        elif isinstance(method, spec.BasicAck):
            self._answered(method.delivery_tag, method.multiple, CONFIRMED)
        elif isinstance(method, spec.BasicNack):
            self._answered(method.delivery_tag, method.multiple, REFUSED)
        else:
            super().pushed(method, content)

    def _answered(self, sequence: int, multiple: bool, status: int) -> None:
        if sequence not in self.unconfirmed:
            raise Violation(f"{self.name}: publish #{sequence} was answered twice, or never made")
        answered = [s for s in self.unconfirmed if s <= sequence] if multiple else [sequence]
        word = "confirmed" if status == CONFIRMED else "refused"
        self.world.say("%s was %s %s..%d", self.name, word, answered[0], sequence)
        for number in answered:
            message = self.unconfirmed.pop(number)
            if message.status != SENT:
                continue
            if status == CONFIRMED:
                self.world.confirm(message)
            else:
                full = any(copy.queue.rejects() for copy in message.copies)
                if not full and not self.world.may_refuse(message):
                    raise Violation(f"{self.name}: {message} was refused for no reason")
                message.status = REFUSED
                self.world.count("refused")


def span(messages: list[Message]) -> str:
    """Messages in a line."""
    if not messages:
        return "nothing"
    return f"m{messages[0].id}..m{messages[-1].id}"
