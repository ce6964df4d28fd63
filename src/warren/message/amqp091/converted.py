"""Records of AMQP 0-9-1 made of messages that came by another protocol."""

from __future__ import annotations

from typing import Final

from warren.errors import BrokerError
from warren.limits import FRAME_BYTES_MAX, SHORTSTR_BYTES_MAX
from warren.message.amqp091.conversion import properties_bytes
from warren.message.amqp091.edits import without_bcc
from warren.message.amqp091.record import content_at
from warren.message.envelope import Envelope
from warren.message.properties import MessageProperties
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.spec import BasicPublish

BCC: Final = "BCC"
"""The header that names further routing keys, and that nobody gets to see."""


def publish_of(envelope: Envelope) -> bytes:
    """The record of a publish that says what a message says, as far as AMQP 0-9-1 can.

    Names are cut to what a short string takes. Where a property has no place, the headers are left
    out; and all that is left out but for whether it is persistent, if that is not enough.
    """
    method = BasicPublish(
        0, _short(envelope.exchange()), _short(envelope.routing_key()), False, False
    )
    body = b"".join(envelope.body())
    return content_frames(0, method, _encoded(envelope.properties()), body, FRAME_BYTES_MAX)


def _encoded(properties: MessageProperties) -> bytes:
    try:
        return properties_bytes(properties)
    except BrokerError:
        pass
    properties.headers = None
    try:
        return properties_bytes(properties)
    except BrokerError:
        return properties_bytes(MessageProperties(persistent=properties.persistent))


def _short(name: str) -> str:
    encoded = name.encode("utf-8", "surrogateescape")
    if len(encoded) <= SHORTSTR_BYTES_MAX:
        return name
    return encoded[:SHORTSTR_BYTES_MAX].decode("utf-8", "ignore")


def made_publish(envelope: Envelope, notes_keys: bool) -> bytes:
    """The record of a publish that says exactly what a message says, of which a client is told.

    Args:
        notes_keys: Whether records may have notes, for what a BCC header names.

    Raises:
        ProtocolError: It has a value that has no place in AMQP 0-9-1.
    """
    method = BasicPublish(0, envelope.exchange(), envelope.routing_key(), False, False)
    properties = envelope.properties()
    body = b"".join(envelope.body())
    record = content_frames(0, method, properties_bytes(properties), body, FRAME_BYTES_MAX)
    if properties.headers is not None and BCC in properties.headers:
        return without_bcc(record, content_at(record, 0), notes_keys)
    return record
