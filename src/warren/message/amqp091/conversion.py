"""Properties bytes of AMQP 0-9-1 from and to neutral properties.

Delivery mode 2 is persistent, every other one is not. Timestamps are whole seconds, expirations are
text. The reserved `cluster-id` has no neutral name: bytes that are kept have it, values do not.
"""

from __future__ import annotations

from typing import Final

from warren.message.properties import MessageProperties, parse_expiration
from warren.wire.amqp091.properties import Properties, decode_properties

PERSISTENT: Final = 2
NOT_PERSISTENT: Final = 1


def neutral_properties(encoded: bytes) -> MessageProperties:
    """The values in properties bytes.

    Raises:
        ProtocolError: They cannot be read.
        Refusal: The expiration is no number of milliseconds; such a message was never accepted.
    """
    found = decode_properties(encoded, 0, len(encoded))
    mode = found.delivery_mode
    seconds = found.timestamp
    expiration = found.expiration
    return MessageProperties(
        content_type=found.content_type,
        content_encoding=found.content_encoding,
        headers=found.headers,
        persistent=None if mode is None else mode == PERSISTENT,
        priority=found.priority,
        correlation_id=found.correlation_id,
        reply_to=found.reply_to,
        expiration_ms=None if expiration is None else parse_expiration(expiration),
        message_id=found.message_id,
        timestamp_ms=None if seconds is None else 1_000 * seconds,
        type_=found.type_,
        user_id=found.user_id,
        app_id=found.app_id,
    )


def properties_bytes(properties: MessageProperties) -> bytes:
    """Properties bytes with these values.

    Raises:
        ProtocolError: A value has no place in AMQP 0-9-1: a text above 255 bytes, a number that is
            out of range, a header that is no field value.
    """
    persistent = properties.persistent
    mode: int | None = None
    if persistent is not None:
        mode = PERSISTENT if persistent else NOT_PERSISTENT
    timestamp_ms = properties.timestamp_ms
    expiration_ms = properties.expiration_ms
    return Properties(
        content_type=properties.content_type,
        content_encoding=properties.content_encoding,
        headers=properties.headers,
        delivery_mode=mode,
        priority=properties.priority,
        correlation_id=properties.correlation_id,
        reply_to=properties.reply_to,
        expiration=None if expiration_ms is None else str(expiration_ms),
        message_id=properties.message_id,
        timestamp=None if timestamp_ms is None else timestamp_ms // 1_000,
        type_=properties.type_,
        user_id=properties.user_id,
        app_id=properties.app_id,
    ).encode()
