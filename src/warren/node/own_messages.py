"""The node publishes to exchanges of a vhost what it has to tell of its own accord.

They take the way of a publish but for rights: the exchange may be internal, and
nothing is made where no queue would get it. A full queue, or disk, does not hold up who caused
them. A queue that is behind, or has no leader, goes without, since nothing else bounds what is kept
for it.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.errors import BrokerError, Refusal
from warren.limits import FAN_OUT_QUEUES, PROPERTIES_BYTES_MAX
from warren.message.envelope import NewMessage
from warren.message.flavours import AMQP091, content_bytes, made
from warren.message.properties import MessageProperties
from warren.metadata.machine import MetadataMachine
from warren.node.loop import Loop
from warren.node.queues import LocalQueues
from warren.node.vhosts import NodeVhosts
from warren.queues.queue import Queue
from warren.routing.router import Router
from warren.versions import DEAD_LETTERS

TURN_COPIES: Final = 2_048
"""So many come to queues in one turn: some milliseconds, however many queues are bound."""
TOLD_MAX: Final = 1_024
"""Of so many queues it is known that the log says what they go without."""


@final
class OnItsWay:
    """A message on its way into its queues.

    Attributes:
        done: How many of the queues were seen to.
    """

    def __init__(
        self, vhost: str, exchange: str, names: list[str], record: bytes, persistent: bool
    ) -> None:
        self.vhost: str = vhost
        self.exchange: str = exchange
        self.names: list[str] = names
        self.record: bytes = record
        self.persistent: bool = persistent
        self.done: i64 = 0


@final
class OwnMessages:
    """Publishes what one node has to tell.

    Attributes:
        copies: How many messages came to queues so far: one for each queue that gets it.
        left_out: How many did not, since the queue took no more.
    """

    def __init__(
        self, loop: Loop, metadata: MetadataMachine, queues: LocalQueues, vhosts: NodeVhosts
    ) -> None:
        self.copies: i64 = 0
        self.left_out: i64 = 0
        self._on_its_way: OnItsWay | None = None
        """The last message, as long as not all of its queues were seen to."""
        self._behind: dict[str, None] = {}
        """Queues of which the log says that they go without."""
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._vhosts: NodeVhosts = vhosts

    def traced(self, vhost: str) -> bool:
        """Say whether what passes in a vhost is told of in its firehose."""
        return self._vhosts.tracer_of(vhost).on

    def wanted(self, vhost: str, exchange: str, routing_key: str) -> bool:
        """Says whether a message would come to any queue, as far as its routing key says."""
        tables = self._metadata.vhosts.get(vhost)
        if tables is None or exchange not in tables.exchanges:
            return False
        router = tables.router
        if router.by_message(exchange) or router.keeps(exchange):
            return True
        return len(router.route(exchange, routing_key)) > 0

    def publish(
        self,
        vhost: str,
        exchange: str,
        routing_key: str,
        properties: MessageProperties,
        body: bytes,
    ) -> bool:
        """Publish a message; False where its properties are too large for any client.

        If it goes to very many queues, `takes` is false until `go_on` has put it into all of them.
        """
        tables = self._metadata.vhosts.get(vhost)
        if tables is None or tables.going or exchange not in tables.exchanges:
            return True
        if len(routing_key.encode("utf-8", "surrogateescape")) > 255:
            routing_key = routing_key.encode("utf-8", "surrogateescape")[:255].decode(
                "utf-8", "surrogateescape"
            )
        try:
            record = made(
                NewMessage(exchange, routing_key, properties, body),
                self._metadata.version >= DEAD_LETTERS,
            )
        except BrokerError:
            return False
        if content_bytes(AMQP091, record, 0, True) - len(body) > PROPERTIES_BYTES_MAX:
            return False
        keepers: list[str] = []
        names = self._route(tables.router, exchange, routing_key, properties, keepers)
        for keeper in keepers:
            self._vhosts.keep_recent(vhost, keeper, [record])
        self.copies += len(names)
        self._on_its_way = OnItsWay(vhost, exchange, names, record, properties.persistent is True)
        self.go_on()
        return True

    def go_on(self) -> bool:
        """Put the last message into more of its queues; whether all have it.

        Until they do, nothing else may be published.
        """
        message = self._on_its_way
        if message is None:
            return True
        first = message.done
        message.done = min(len(message.names), first + FAN_OUT_QUEUES)
        for name in message.names[first : message.done]:
            self._put(message, name)
        if message.done == len(message.names):
            self._on_its_way = None
        return self._on_its_way is None

    def takes(self) -> bool:
        """Whether all queues have the last message."""
        return self._on_its_way is None

    def _put(self, message: OnItsWay, name: str) -> None:
        """Put a message into one of its queues, unless that is behind."""
        queue = self._queue(message.vhost, name)
        if queue is None or self._refuses(queue):
            return
        if queue.congested() and not queue.deleted:
            self._leave_out(queue, message.exchange)
            return
        if self._behind:
            self._behind.pop(str(queue), None)
        record = message.record
        lengths = len(record).to_bytes(4, "little")
        queue.publish(record, lengths, 1, message.persistent, None, AMQP091, -1)

    def _leave_out(self, queue: Queue, exchange: str) -> None:
        """Have a queue go without a message, and say so with the first."""
        self.left_out += 1
        named = str(queue)
        if named not in self._behind and len(self._behind) < TOLD_MAX:
            self._behind[named] = None
            self._loop.log_warning(
                f"{named} takes no more for now: what {exchange} tells is left out there until it "
                "does"
            )

    def queue_for(self, vhost: str, name: str) -> Queue | None:
        """A queue that a message may be put into now; None if there is none, no way, or no room."""
        tables = self._metadata.vhosts.get(vhost)
        if tables is None or tables.going or name not in tables.queues:
            return None
        queue = self._queue(vhost, name)
        if queue is None or queue.deleted or self._refuses(queue):
            return None
        try:
            queue.check_usable()
        except Refusal:
            return None
        return queue

    def put(self, queue: Queue, properties: MessageProperties, body: bytes) -> None:
        """Publish a message to one queue, as through the default exchange."""
        record = made(
            NewMessage("", queue.name, properties, body), self._metadata.version >= DEAD_LETTERS
        )
        lengths = len(record).to_bytes(4, "little")
        queue.publish(record, lengths, 1, properties.persistent is True, None, AMQP091, -1)

    def _route(
        self,
        router: Router,
        exchange: str,
        routing_key: str,
        properties: MessageProperties,
        keepers: list[str],
    ) -> list[str]:
        headers = {} if properties.headers is None else properties.headers
        if router.keeps(exchange):
            return router.route_kept(exchange, [routing_key], headers, properties, keepers)
        return router.route(exchange, routing_key, headers, properties)

    def _queue(self, vhost: str, name: str) -> Queue | None:
        queue = self._queues.vhost(vhost).queues.get(name)
        return self._vhosts.use(vhost, name) if queue is None else queue

    def _refuses(self, queue: Queue) -> bool:
        return self._vhosts.disk_full and self._vhosts.stores(queue.group_id)
