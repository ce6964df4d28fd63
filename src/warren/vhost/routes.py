"""Where published messages go."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, trait

from warren.queues.queue import Queue

REPLY_PREFIX: Final = "amq.rabbitmq.reply-to"
"""Names of what takes direct replies begin with this, and are no queues."""


@trait
class ReplyTarget:
    """A client's channel that takes direct replies, here or on another node."""

    @abstractmethod
    def replied(self, record: bytes) -> bool:
        """A message was published to this channel's reply address; False if it is not routed."""


@final
class Route:
    """Where messages with one exchange and one routing key go, as of one generation.

    Attributes:
        exchange, routing_key, mandatory: As published.
        generation: Routing state this was computed from; stale when the vhost's differs.
        queues: The destinations, each once.
        by_message: Whether each message has a route of its own: by its headers or other properties,
            or at random.
        by_properties: Whether properties that are no headers decide.
        keepers: Exchanges that keep these messages, for what is bound to them later.
        reply: Set where the message is a direct reply.
        bounded: Whether topic permissions say which routing keys the user may publish with.
    """

    def __init__(self, exchange: str, routing_key: str, mandatory: bool, generation: i64) -> None:
        self.exchange: str = exchange
        self.routing_key: str = routing_key
        self.mandatory: bool = mandatory
        self.generation: i64 = generation
        self.queues: list[Queue] = []
        self.by_message: bool = False
        self.by_properties: bool = False
        self.keepers: list[str] = []
        self.reply: ReplyTarget | None = None
        self.bounded: bool = False
