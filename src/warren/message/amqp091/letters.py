"""Messages that go through an exchange once more, made of what was published with AMQP 0-9-1.

Many that come one after the other differ in their bodies alone: what comes before and behind the
size of the body is written for the first of them.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64

from warren.limits import HEADER_STEP_BYTES
from warren.message.amqp091.conversion import PERSISTENT, neutral_properties
from warren.message.amqp091.note import Note
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
from warren.message.properties import MessageProperties
from warren.wire.amqp091.frame import FRAME_END
from warren.wire.amqp091.properties import HEADER_FIXED_BYTES, Properties, decode_properties
from warren.wire.amqp091.table import Table, Value

BODY_SIZE_BYTES: Final = 8


@final
class PublishDeadLetter(DeadLetter):
    """Of messages with the same method frame and properties, that go on alike.

    Attributes:
        front, back: The frames before its body's size, and the properties behind that.
        encoded: Its properties bytes.
    """

    def __init__(
        self,
        keys: list[str],
        encoded: bytes,
        persistent: bool,
        prioritised: bool,
        deaths: list[tuple[str, bool]],
    ) -> None:
        super().__init__(keys, persistent, prioritised, deaths)
        self.encoded: bytes = encoded
        self.front: bytes = b""
        self.back: bytes = self.encoded + bytes([FRAME_END])

    def begin(self, method: bytes, record: bytes) -> None:
        """Write what comes first: a method frame, and the rest as a record has it."""
        content = content_at(record, 0)
        front = BytesWriter()
        front.write(method)
        front.write(record[content : content + 3])
        write_i32_be(front, i32(HEADER_FIXED_BYTES + i64(len(self.encoded))))
        front.write(record[content + FRAME_HEAD_BYTES : content + BODY_SIZE_AT])
        self.front = front.getvalue()

    def headers(self) -> Table:
        """The headers in its properties; none are an empty table."""
        headers = decode_properties(self.encoded, 0, len(self.encoded)).headers
        return {} if headers is None else headers

    def properties(self) -> MessageProperties:
        """All of its properties."""
        return neutral_properties(self.encoded)


def letter_with(
    keys: list[str], properties: Properties, deaths: list[tuple[str, bool]]
) -> PublishDeadLetter:
    """One with these properties."""
    persistent = properties.delivery_mode == PERSISTENT
    prioritised = properties.priority is not None
    return PublishDeadLetter(keys, properties.encode(), persistent, prioritised, deaths)


class PublishLetters(DeadLetters):
    """Makes of records what goes on; those like the one before cost little."""

    def __init__(self) -> None:
        super().__init__()
        self._letter: PublishDeadLetter | None = None
        """The one that was made last."""
        self._head: bytes = b""
        """Of the record looked at last, what comes before the size of its body."""
        self._properties: bytes = b""
        self._size: bytes = b""
        self._body: bytes = b""

    def _look(self, record: bytes) -> bool:
        """Look at a record; returns whether it differs from the one before in its body alone."""
        content = content_at(record, 0)
        properties = properties_of(record, content)
        size_at = content + BODY_SIZE_AT
        head = record[:size_at]
        alike = properties == self._properties and head == self._head
        self.steps = 0
        self._head = head
        self._properties = properties
        self._size = record[size_at : size_at + BODY_SIZE_BYTES]
        self._body = record[content + HEADER_PROPERTIES_AT + i64(len(properties)) + 1 :]
        return alike

    def _keep(self, letter: PublishDeadLetter) -> None:
        """Keep what was made of the record looked at last, and what that took."""
        self._letter = letter
        self.steps = i64(len(self._properties)) // HEADER_STEP_BYTES

    def record(self) -> bytes:
        """The message that was looked at last, as it goes on."""
        letter = self._letter
        assert letter is not None, "a message is looked at before it is written"
        return b"".join([letter.front, self._size, letter.back, self._body])


def open_keys(record: bytes, note: Note, headers: Table) -> list[str]:
    """The routing keys that receivers see, and that count: the message's own, and those in CC."""
    names = names_end(record, 0)
    key_at = NAMES_AT + 1 + i64(record[NAMES_AT])
    keys = [text_of(record[key_at + 1 : names])]
    if not note.alone:
        keys.extend(texts_of(headers.get("CC")))
    return keys


def hidden_keys(note: Note) -> list[str]:
    """Those that count, too, and that no receiver sees: what was in BCC."""
    return [] if note.alone else [text_of(name) for name in note.keys]


def text_of(name: bytes) -> str:
    """A name in a record, which is any bytes."""
    return str(name, "utf-8", "surrogateescape")


def texts_of(value: Value) -> list[str]:
    """The texts of a list; none of what is none."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
