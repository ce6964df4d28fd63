"""Dead letters of messages that were published with AMQP 0-9-1.

The header `x-death` has an entry for each queue and reason, the latest first; of a message that
dies for the same reason in the same queue again the entry comes to the front, and counts. What a
client wrote there itself counts for nothing, and is replaced. `x-first-death-*` and
`x-last-death-*` say it of the first and the last death alone. The expiration is gone, and told.

Source: DL-01, DL-06; `rabbit_dead_letter` and `mc` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i32_be
from mypy_extensions import i32, i64, u8

from warren.limits import SHORTSTR_BYTES_MAX
from warren.message.amqp091.conversion import PERSISTENT, neutral_properties
from warren.message.amqp091.note import Note, note_of
from warren.message.amqp091.record import (
    BASIC_PUBLISH,
    BODY_SIZE_AT,
    FRAME_HEAD_BYTES,
    HEADER_PROPERTIES_AT,
    NAMES_AT,
    content_at,
    names_end,
    properties_of,
)
from warren.message.dead_letters import REASONS, REJECTED, DeadLetter, DeadLetters
from warren.message.properties import MessageProperties, parse_expiration
from warren.wire.amqp091.frame import FRAME_END
from warren.wire.amqp091.properties import HEADER_FIXED_BYTES, decode_properties
from warren.wire.amqp091.table import Table, Timestamp, Value, encode_entry

DEATH: Final = "x-death"
DEATHS_MAX: Final = 128
DEATHS_BYTES_MAX: Final = 65_536
"""The oldest deaths are forgotten beyond these, so that no message grows with each circle."""
BODY_SIZE_BYTES: Final = 8


@final
class PublishDeadLetter(DeadLetter):
    """Of messages with the same method frame and properties, that died alike.

    Attributes:
        front, back: The frames before its body's size, and the properties behind that.
        encoded: Its properties bytes.
    """

    def __init__(
        self,
        keys: list[str],
        headers: Table,
        persistent: bool,
        prioritised: bool,
        deaths: list[tuple[str, bool]],
        front: bytes,
        encoded: bytes,
    ) -> None:
        super().__init__(keys, headers, persistent, prioritised, deaths)
        self.front: bytes = front
        self.encoded: bytes = encoded
        self.back: bytes = encoded + bytes([FRAME_END])

    def properties(self) -> MessageProperties:
        """All of its properties."""
        return neutral_properties(self.encoded)


@final
class PublishDeadLetters(DeadLetters):
    """Makes dead letters of records of one queue; those like the one before cost little."""

    def __init__(self, queue: str) -> None:
        self._queue: str = queue
        self._exchange: str = ""
        self._key: str | None = None
        self._nowhere: bool = False
        self._letter: PublishDeadLetter | None = None
        """The one that was made last."""
        self._head: bytes = b""
        """Of the record that it was made of, what comes before the size of its body."""
        self._properties: bytes = b""
        self._reason: i64 = -1
        self._failed: i64 = 0
        self._seconds: i64 = 0
        self._size: bytes = b""
        """The size of the body of the message looked at last."""
        self._body: bytes = b""

    def aim(self, exchange: str, key: str | None) -> None:
        """Say where they go from now on."""
        self._exchange = exchange
        self._key = key
        self._letter = None
        # What no publish could name leads nowhere.
        self._nowhere = _too_long(exchange) or (key is not None and _too_long(key))

    def make(self, record: bytes, reason: i64, failed: i64, now_ms: i64) -> DeadLetter:
        """Look at a message that died."""
        content = content_at(record, 0)
        properties = properties_of(record, content)
        size_at = content + BODY_SIZE_AT
        head = record[:size_at]
        self._size = record[size_at : size_at + BODY_SIZE_BYTES]
        self._body = record[content + HEADER_PROPERTIES_AT + i64(len(properties)) + 1 :]
        letter = self._letter
        if (
            letter is None
            or properties != self._properties
            or head != self._head
            or reason != self._reason
            or failed != self._failed
            or now_ms // 1_000 != self._seconds
        ):
            self._head = head
            self._properties = properties
            self._reason = reason
            self._failed = failed
            self._seconds = now_ms // 1_000
            letter = self._written(record)
            self._letter = letter
        return letter

    def record(self) -> bytes:
        """The dead letter of the message that was looked at last."""
        letter = self._letter
        assert letter is not None, "a message is looked at before its dead letter is written"
        return b"".join([letter.front, self._size, letter.back, self._body])

    def _written(self, record: bytes) -> PublishDeadLetter:
        note = note_of(record, 0)
        names = names_end(record, 0)
        key_at = NAMES_AT + 1 + i64(record[NAMES_AT])
        exchange = _text(record[NAMES_AT + 1 : key_at])
        key = _text(record[key_at + 1 : names])
        properties = decode_properties(self._properties, 0, len(self._properties))
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        keys = [key]
        if not note.alone:
            keys.extend(_texts(headers.get("CC")))
        told: list[Value] = list(keys)
        if not note.alone:
            keys.extend([_text(name) for name in note.keys])
        before = known_deaths(headers) if note.dead else []
        deaths = self._deaths(before, exchange, told, properties.expiration)
        self._tell(headers, deaths, exchange, len(before) == 0)
        properties.headers = headers
        properties.expiration = None
        encoded = properties.encode()
        note.dead = True
        note.failed += self._failed
        if self._nowhere:
            return PublishDeadLetter([], headers, False, False, [], b"", encoded)
        if self._key is not None:
            keys = [self._key]
            note.alone = True
            note.keys = []
        method = method_frame(record, self._exchange, keys[0], note)
        header = BytesWriter()
        header.write(method)
        content = content_at(record, 0)
        header.write(record[content : content + 3])
        write_i32_be(header, i32(HEADER_FIXED_BYTES + i64(len(encoded))))
        header.write(record[content + FRAME_HEAD_BYTES : content + BODY_SIZE_AT])
        return PublishDeadLetter(
            keys,
            headers,
            properties.delivery_mode == PERSISTENT,
            properties.priority is not None,
            [(_name(death, "queue"), death.get("reason") == REASONS[REJECTED]) for death in deaths],
            header.getvalue(),
            encoded,
        )

    def _deaths(
        self, before: list[Table], exchange: str, keys: list[Value], expiration: str | None
    ) -> list[Table]:
        """All deaths, with the newest."""
        reason = REASONS[self._reason]
        newest: Table | None = None
        others: list[Table] = []
        for death in before:
            if newest is None and death["queue"] == self._queue and death["reason"] == reason:
                newest = dict(death)
                count = death.get("count")
                newest["count"] = 1 + (int(count) if isinstance(count, int) else 1)
            else:
                others.append(death)
        if newest is None:
            newest = {}
            if expiration is not None:
                newest["original-expiration"] = str(parse_expiration(expiration))
            newest["count"] = 1
            newest["reason"] = reason
            newest["queue"] = self._queue
            newest["time"] = Timestamp(self._seconds)
            newest["exchange"] = exchange
            newest["routing-keys"] = keys
        deaths = [newest, *others[: DEATHS_MAX - 1]]
        size = 0
        for at, death in enumerate(deaths):
            size += len(encode_entry(DEATH, death))
            if size > DEATHS_BYTES_MAX and at > 0:
                return deaths[:at]
        return deaths

    def _tell(self, headers: Table, deaths: list[Table], exchange: str, first: bool) -> None:
        """Put what is told of the deaths into the headers."""
        listed: list[Value] = list(deaths)
        headers[DEATH] = listed
        reason = REASONS[self._reason]
        for which in ("first", "last") if first else ("last",):
            headers[f"x-{which}-death-exchange"] = exchange
            headers[f"x-{which}-death-queue"] = self._queue
            headers[f"x-{which}-death-reason"] = reason


def known_deaths(headers: Table) -> list[Table]:
    """The deaths that headers tell of, as far as they can be read as such."""
    found: list[Table] = []
    told = headers.get(DEATH)
    if isinstance(told, list):
        for death in told:
            if (
                isinstance(death, dict)
                and isinstance(death.get("queue"), str)
                and isinstance(death.get("reason"), str)
            ):
                found.append(death)
    return found


def method_frame(record: bytes, exchange: str, key: str, note: Note) -> bytes:
    """The method frame of a record, with other names and a note."""
    method = BytesWriter()
    write_i32_be(method, BASIC_PUBLISH)
    method.append(0)
    method.append(0)
    for name in (exchange, key):
        encoded = name.encode("utf-8", "surrogateescape")
        method.append(u8(len(encoded)))
        method.write(encoded)
    method.append(0)
    method.write(note.encode())
    frame = BytesWriter()
    frame.write(record[:3])
    write_i32_be(frame, i32(len(method)))
    frame.write(method.getvalue())
    frame.append(FRAME_END)
    return frame.getvalue()


def _text(name: bytes) -> str:
    return str(name, "utf-8", "surrogateescape")


def _too_long(name: str) -> bool:
    return len(name.encode("utf-8", "surrogateescape")) > SHORTSTR_BYTES_MAX


def _texts(value: Value) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def _name(death: Table, field: str) -> str:
    value = death.get(field)
    return value if isinstance(value, str) else ""
