"""The firehose: what clients of this node publish to a vhost and are given, told of as messages.

While a vhost is traced, each message that a client publishes is told of in the topic exchange
`amq.rabbitmq.trace` with the routing key `publish.EXCHANGE`, and each that a client is given with
`deliver.QUEUE`. The body is the message's own, and headers say the rest. Runs of messages are only
noted where they pass; telling of them follows in a later turn, so that a queue that hands out is
never published to meanwhile. What came from that exchange itself is not told of again.

Source: RabbitMQ 4.3, `rabbit_trace` and its guide to the firehose; the headers' types as recorded.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.message.envelope import Envelope
from warren.message.properties import MessageProperties
from warren.wire.amqp091.table import SignedInt, Table, Value

TRACE_EXCHANGE: Final = "amq.rabbitmq.trace"
PUBLISHED: Final = "publish"
DELIVERED: Final = "deliver"
INT32_MAX: Final = 0x7FFF_FFFF
PERSISTENT: Final = 2
NOT_PERSISTENT: Final = 1


@final
class Tracer:
    """Whether a vhost is traced on this node; shared by all who would have something to tell.

    Attributes:
        on: Looked at once for each run of messages.
    """

    def __init__(self) -> None:
        self.on: bool = False


@final
class TracedRun:
    """Messages that passed together, and where.

    Attributes:
        vhost: Their vhost.
        kind: `PUBLISHED` or `DELIVERED`.
        name: The exchange that they were published to, or the queue that gave them.
        connection, channel, user: The client's.
        flavour: That of the records.
        records: They back to back, and their sizes as u32 little-endian in `lengths`.
        queues: Where published messages were routed.
        redelivered: Whether those given were given before.
    """

    def __init__(
        self,
        vhost: str,
        kind: str,
        name: str,
        connection: str,
        channel: i64,
        user: str,
        flavour: i64,
        records: bytes,
        lengths: bytes,
        queues: list[str],
        redelivered: bool,
    ) -> None:
        self.vhost: str = vhost
        self.kind: str = kind
        self.name: str = name
        self.connection: str = connection
        self.channel: i64 = channel
        self.user: str = user
        self.flavour: i64 = flavour
        self.records: bytes = records
        self.lengths: bytes = lengths
        self.queues: list[str] = queues
        self.redelivered: bool = redelivered

    def routing_key(self) -> str:
        """With what they are told of."""
        return f"{self.kind}.{self.name}"

    def headers(self, message: Envelope, node: str) -> Table:
        """What the headers say of one of them."""
        properties = message.properties()
        said: Table = {
            "exchange_name": message.exchange(),
            "routing_keys": _keys(message, properties.headers),
            "properties": as_headers(properties),
            "node": node,
        }
        if self.kind == DELIVERED:
            said["redelivered"] = SignedInt(1 if self.redelivered else 0)
        said["vhost"] = self.vhost
        said["connection"] = self.connection
        said["channel"] = SignedInt(self.channel)
        said["user"] = self.user
        if self.kind == PUBLISHED:
            names: list[Value] = []
            names.extend(self.queues)
            said["routed_queues"] = names
        return said


def _keys(message: Envelope, headers: Table | None) -> list[Value]:
    """The routing key, and those of the headers `CC` and `BCC`."""
    keys: list[Value] = [message.routing_key()]
    more = None if headers is None else headers.get("CC")
    if isinstance(more, list):
        for key in more:
            if isinstance(key, str):
                keys.append(key)
    keys.extend(message.hidden_keys())
    return keys


def as_headers(found: MessageProperties) -> Table:
    """The properties that are set, by their names in AMQP 0-9-1."""
    table: Table = {}
    _add_text(table, "content_type", found.content_type)
    _add_text(table, "content_encoding", found.content_encoding)
    headers = found.headers
    if headers is not None:
        table["headers"] = headers
    persistent = found.persistent
    if persistent is not None:
        table["delivery_mode"] = SignedInt(PERSISTENT if persistent else NOT_PERSISTENT)
    priority = found.priority
    if priority is not None:
        table["priority"] = SignedInt(priority)
    _add_text(table, "correlation_id", found.correlation_id)
    _add_text(table, "reply_to", found.reply_to)
    expiration_ms = found.expiration_ms
    if expiration_ms is not None:
        table["expiration"] = str(expiration_ms)
    _add_text(table, "message_id", found.message_id)
    timestamp_ms = found.timestamp_ms
    if timestamp_ms is not None:
        seconds = timestamp_ms // 1_000
        table["timestamp"] = SignedInt(seconds) if seconds <= INT32_MAX else seconds
    _add_text(table, "type", found.type_)
    _add_text(table, "user_id", found.user_id)
    _add_text(table, "app_id", found.app_id)
    return table


def _add_text(table: Table, name: str, value: str | None) -> None:
    if value is not None:
        table[name] = value
