"""Messages that were delayed, as they go on: as they were published, with the header negative."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from warren.message.amqp091.conversion import PERSISTENT
from warren.message.amqp091.dead_letters import PublishDeadLetter
from warren.message.amqp091.note import note_of
from warren.message.amqp091.record import (
    BODY_SIZE_AT,
    FRAME_HEAD_BYTES,
    HEADER_PROPERTIES_AT,
    NAMES_AT,
    content_at,
    names_end,
    properties_of,
)
from warren.message.dead_letters import DeadLetter, DeadLetters
from warren.message.delays import mark_delayed
from warren.message.properties import parse_life
from warren.wire.amqp091.properties import HEADER_FIXED_BYTES, decode_properties
from warren.wire.amqp091.table import Table

BODY_SIZE_BYTES: Final = 8


@final
class PublishDelayed(DeadLetters):
    """Makes of records what goes on when their time has come; those alike cost little."""

    def __init__(self) -> None:
        self._letter: PublishDeadLetter | None = None
        """The one that was made last."""
        self._head: bytes = b""
        """Of the record that it was made of, what comes before the size of its body."""
        self._properties: bytes = b""
        self._size: bytes = b""
        self._body: bytes = b""

    def aim(self, exchange: str, key: str | None) -> None:
        """They go on where they were published to."""

    def make(self, record: bytes, reason: i64, failed: i64, now_ms: i64) -> DeadLetter:
        """Look at a message whose time has come."""
        content = content_at(record, 0)
        properties = properties_of(record, content)
        size_at = content + BODY_SIZE_AT
        head = record[:size_at]
        self._size = record[size_at : size_at + BODY_SIZE_BYTES]
        self._body = record[content + HEADER_PROPERTIES_AT + i64(len(properties)) + 1 :]
        letter = self._letter
        if letter is None or properties != self._properties or head != self._head:
            self._head = head
            self._properties = properties
            letter = self._written(record)
            self._letter = letter
        return letter

    def record(self) -> bytes:
        """The message that was looked at last, as it goes on."""
        letter = self._letter
        assert letter is not None, "a message is looked at before it is written"
        return b"".join([letter.front, self._size, letter.back, self._body])

    def _written(self, record: bytes) -> PublishDeadLetter:
        note = note_of(record, 0)
        names = names_end(record, 0)
        key_at = NAMES_AT + 1 + i64(record[NAMES_AT])
        properties = decode_properties(self._properties, 0, len(self._properties))
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        keys = [str(record[key_at + 1 : names], "utf-8", "surrogateescape")]
        if not note.alone:
            copies = headers.get("CC")
            if isinstance(copies, list):
                keys.extend([each for each in copies if isinstance(each, str)])
            keys.extend([str(name, "utf-8", "surrogateescape") for name in note.keys])
        mark_delayed(headers)
        properties.headers = headers
        encoded = properties.encode()
        content = content_at(record, 0)
        front = BytesWriter()
        front.write(record[: content + 3])
        write_i32_be(front, i32(HEADER_FIXED_BYTES + i64(len(encoded))))
        front.write(record[content + FRAME_HEAD_BYTES : content + BODY_SIZE_AT])
        letter = PublishDeadLetter(
            keys,
            headers,
            properties.delivery_mode == PERSISTENT,
            properties.priority is not None,
            [],
            front.getvalue(),
            encoded,
        )
        if properties.expiration is not None:
            letter.life_ms = parse_life(properties.expiration)
        return letter
