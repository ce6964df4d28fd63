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

from warren.message.envelope import Envelope, redelivery_headers
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
class Redeliveries:
    """How often messages that a client was given together were given before.

    Attributes:
        acquired: How often they came back.
        failed: How often deliveries of them failed.
        whole: Whether that counts those that failed where they died before; else each record does.
        shown: Whether their headers say so, as those from quorum queues do (POI-01).
    """

    def __init__(self, acquired: i64, failed: i64, whole: bool, shown: bool) -> None:
        self.acquired: i64 = acquired
        self.failed: i64 = failed
        self.whole: bool = whole
        self.shown: bool = shown

    def failed_of(self, message: Envelope) -> i64:
        """How often deliveries of one of them failed."""
        return self.failed if self.whole else self.failed + message.failures()


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
        redeliveries: How often those given were given before; None of those published.
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
        redeliveries: Redeliveries | None,
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
        self.redeliveries: Redeliveries | None = redeliveries

    def routing_key(self) -> str:
        """With what they are told of."""
        return f"{self.kind}.{self.name}"

    def headers(self, message: Envelope, node: str) -> Table:
        """What the headers say of one of them."""
        properties = message.properties()
        shown = as_headers(properties)
        said: Table = {
            "exchange_name": message.exchange(),
            "routing_keys": _keys(message, properties.headers),
            "properties": shown,
            "node": node,
        }
        before = self.redeliveries
        if before is not None:
            failed = before.failed_of(message)
            again = before.acquired + failed > 0
            if again and before.shown:
                headers = {} if properties.headers is None else dict(properties.headers)
                headers.update(redelivery_headers(before.acquired, failed))
                shown["headers"] = headers
            said["redelivered"] = SignedInt(1 if again else 0)
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
        # In one expression, compiled code would make a plain integer of either.
        if seconds <= INT32_MAX:
            table["timestamp"] = SignedInt(seconds)
        else:
            table["timestamp"] = seconds
    _add_text(table, "type", found.type_)
    _add_text(table, "user_id", found.user_id)
    _add_text(table, "app_id", found.app_id)
    return table


def _add_text(table: Table, name: str, value: str | None) -> None:
    if value is not None:
        table[name] = value
