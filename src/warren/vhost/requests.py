"""Changes that clients ask of a vhost, whatever protocol they speak.

Names are taken as RabbitMQ takes them, without line breaks.
"""

from __future__ import annotations

from typing import final

from warren.metadata.names import clean_name
from warren.wire.amqp091.table import Table


class VhostRequest:
    """One change, as a client asks for it."""


@final
class DeclareExchangeRequest(VhostRequest):
    """There is to be an exchange.

    Attributes:
        kind: Its type, one of `EXCHANGE_TYPES`.
        internal: Whether clients may not publish to it.
        passive: Whether the exchange only has to be there; nothing else is looked at then.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Table,
        passive: bool = False,
    ) -> None:
        self.name: str = clean_name(name)
        self.kind: str = kind
        self.durable: bool = durable
        self.auto_delete: bool = auto_delete
        self.internal: bool = internal
        self.arguments: Table = arguments
        self.passive: bool = passive


@final
class DeleteExchangeRequest(VhostRequest):
    """An exchange is to go.

    Attributes:
        if_unused: Whether only if it has no bindings.
    """

    def __init__(self, name: str, if_unused: bool = False) -> None:
        self.name: str = clean_name(name)
        self.if_unused: bool = if_unused


@final
class DeclareQueueRequest(VhostRequest):
    """There is to be a queue.

    Attributes:
        name: Where it is empty, the vhost fills in one that it makes up.
        exclusive: Whether it is for this client's connection alone, and goes with it.
        auto_delete: Whether it goes with its last consumer.
        passive: Whether the queue only has to be there; nothing else is looked at then.
    """

    def __init__(
        self,
        name: str,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: Table,
        passive: bool = False,
    ) -> None:
        self.name: str = clean_name(name)
        self.durable: bool = durable
        self.exclusive: bool = exclusive
        self.auto_delete: bool = auto_delete
        self.arguments: Table = arguments
        self.passive: bool = passive


@final
class DeleteQueueRequest(VhostRequest):
    """A queue is to go.

    Attributes:
        if_unused: Whether only if it has no consumers.
        if_empty: Whether only if it has no messages.
    """

    def __init__(self, name: str, if_unused: bool = False, if_empty: bool = False) -> None:
        self.name: str = clean_name(name)
        self.if_unused: bool = if_unused
        self.if_empty: bool = if_empty


class BindingRequest(VhostRequest):
    """A binding is to come or to go.

    Attributes:
        source: The exchange that it leads from.
        destination: The queue that it leads to, or the exchange if `to_exchange`.
    """

    def __init__(
        self, source: str, destination: str, to_exchange: bool, routing_key: str, arguments: Table
    ) -> None:
        self.source: str = clean_name(source)
        self.destination: str = clean_name(destination)
        self.to_exchange: bool = to_exchange
        self.routing_key: str = routing_key
        self.arguments: Table = arguments


@final
class BindRequest(BindingRequest):
    """There is to be a binding."""


@final
class UnbindRequest(BindingRequest):
    """A binding is to go."""
