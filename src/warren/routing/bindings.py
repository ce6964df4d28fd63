"""A binding: what an exchange checks a message against, and where it sends what passes."""

from __future__ import annotations

from typing import final

from warren.wire.amqp091.table import Table


@final
class Binding:
    """One binding. Immutable; its vhost's tables and its exchange's index share it.

    Attributes:
        source: The exchange it leads from.
        destination: A queue, or an exchange where `to_exchange`.
        routing_key: The pattern of a topic exchange, the key of a direct one; fanout and headers
            exchanges keep it only to tell bindings apart.
        arguments: What a headers exchange matches; part of the binding's identity everywhere.
        durable: Whether both ends survive a restart.
    """

    def __init__(
        self,
        source: str,
        destination: str,
        to_exchange: bool,
        routing_key: str,
        arguments: Table,
        durable: bool,
    ) -> None:
        self.source: str = source
        self.destination: str = destination
        self.to_exchange: bool = to_exchange
        self.routing_key: str = routing_key
        self.arguments: Table = arguments
        self.durable: bool = durable
