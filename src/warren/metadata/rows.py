"""Rows of exchanges, queues and bindings as a snapshot holds them, encoded.

Each is encoded when it is made or changed and kept, so that a snapshot of hundreds of thousands of
them is put together in milliseconds. Layout: `docs/formats/metadata.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from mypy_extensions import i64

from warren.wire.amqp091.table import encode_table

if TYPE_CHECKING:
    from warren.metadata.tables import ExchangeRecord, QueueRecord
    from warren.routing.bindings import Binding


def exchange_row(exchange: ExchangeRecord) -> bytes:
    """An exchange."""
    return msgspec.msgpack.encode(
        [
            exchange.name,
            exchange.kind,
            exchange.durable,
            exchange.auto_delete,
            exchange.internal,
            encode_table(exchange.arguments),
        ]
    )


def queue_row(queue: QueueRecord) -> bytes:
    """A queue."""
    return msgspec.msgpack.encode(
        [
            queue.name,
            queue.kind,
            queue.durable,
            queue.auto_delete,
            queue.exclusive_owner,
            encode_table(queue.arguments),
            queue.group_id,
            queue.node,
            [[member.node, member.incarnation, member.voter] for member in queue.members],
            queue.revision,
        ]
    )


def binding_row(binding: Binding) -> bytes:
    """A binding."""
    return msgspec.msgpack.encode(
        [
            binding.source,
            binding.destination,
            binding.to_exchange,
            binding.routing_key,
            encode_table(binding.arguments),
            binding.durable,
        ]
    )


def array_of(rows: list[bytes]) -> msgspec.Raw:
    """Encoded values as one array."""
    count: i64 = len(rows)
    if count < 16:
        head = bytes([0x90 | count])
    elif count < 1 << 16:
        head = b"\xdc" + int(count).to_bytes(2, "big")
    else:
        head = b"\xdd" + int(count).to_bytes(4, "big")
    rows.insert(0, head)
    return msgspec.Raw(b"".join(rows))
