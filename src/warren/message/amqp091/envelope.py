"""A message that is stored as the frames of an AMQP 0-9-1 publish, by neutral names."""

from __future__ import annotations

from typing import final

from librt.strings import read_i32_be, read_i64_be
from mypy_extensions import i64

from warren.limits import FRAME_OVERHEAD_BYTES
from warren.message.amqp091.conversion import neutral_properties
from warren.message.amqp091.letters import hidden_keys
from warren.message.amqp091.note import note_of
from warren.message.amqp091.record import (
    BODY_SIZE_AT,
    FRAME_HEAD_BYTES,
    NAMES_AT,
    content_at,
    properties_of,
)
from warren.message.envelope import Envelope
from warren.message.properties import MessageProperties


@final
class PublishEnvelope(Envelope):
    """Reads one record, which `RecordCheck` has passed or a publisher of this node has brought."""

    def __init__(self, data: bytes, at: i64, end: i64) -> None:
        self._data: bytes = data
        self._at: i64 = at
        self._content: i64 = content_at(data, at)
        self._end: i64 = end

    def exchange(self) -> str:
        """The exchange's name, from the method frame."""
        return self._name(self._at + NAMES_AT)

    def routing_key(self) -> str:
        """The routing key, which follows it."""
        at = self._at + NAMES_AT
        return self._name(at + 1 + i64(self._data[at]))

    def _name(self, at: i64) -> str:
        size: i64 = self._data[at]
        return str(self._data[at + 1 : at + 1 + size], "utf-8", "surrogateescape")

    def properties(self) -> MessageProperties:
        """Its properties, decoded anew each time."""
        return neutral_properties(properties_of(self._data, self._content))

    def body_size(self) -> i64:
        """What the content header frame says."""
        return read_i64_be(self._data, self._content + BODY_SIZE_AT)

    def body(self) -> list[memoryview]:
        """The payload of each body frame."""
        view = memoryview(self._data)
        pieces: list[memoryview] = []
        at = self._content + self._frame_bytes(self._content)
        while at < self._end:
            behind = at + self._frame_bytes(at)
            pieces.append(view[at + FRAME_HEAD_BYTES : behind - 1])
            at = behind
        return pieces

    def _frame_bytes(self, at: i64) -> i64:
        return FRAME_OVERHEAD_BYTES + i64(read_i32_be(self._data, at + 3))

    def size(self) -> i64:
        """How many bytes its frames have together."""
        return self._end - self._at

    def failures(self) -> i64:
        """What the broker has noted, for a message that died before."""
        return note_of(self._data, self._at).failed

    def is_dead_letter(self) -> bool:
        """What the broker has noted."""
        return note_of(self._data, self._at).dead

    def hidden_keys(self) -> list[str]:
        """What a `BCC` header named when it came."""
        return hidden_keys(note_of(self._data, self._at))
