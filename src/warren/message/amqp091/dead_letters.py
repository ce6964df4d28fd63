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
from warren.message.amqp091.edits import with_entries
from warren.message.amqp091.letters import (
    PublishDeadLetter,
    PublishLetters,
    hidden_keys,
    letter_with,
    open_keys,
    text_of,
)
from warren.message.amqp091.note import Note, no_note, note_of
from warren.message.amqp091.record import (
    BASIC_PUBLISH,
    NAMES_AT,
    NAMES_TAIL_BYTES,
    content_at,
    names_end,
)
from warren.message.amqp091.scan import PropertyScan, scan_properties
from warren.message.dead_letters import REASONS, REJECTED, DeadLetter
from warren.message.properties import parse_expiration
from warren.wire.amqp091.frame import FRAME_END
from warren.wire.amqp091.properties import FLAG_PRIORITY, decode_properties
from warren.wire.amqp091.table import Table, Timestamp, Value, encode_entry, find_entry

DEATH: Final = "x-death"
DEATHS_MAX: Final = 128
DEATHS_BYTES_MAX: Final = 65_536
"""The oldest deaths are forgotten beyond these, so that no message grows with each circle."""
TOLD: Final = (
    b"x-death",
    b"x-first-death-exchange",
    b"x-first-death-queue",
    b"x-first-death-reason",
    b"x-last-death-exchange",
    b"x-last-death-queue",
    b"x-last-death-reason",
)
"""The headers that tell of deaths."""


@final
class Telling:
    """What messages with one exchange and routing key are told of their first death.

    Attributes:
        names: These, as their records have them.
        entries: The headers that are added, encoded.
        method: The method frame with which they go on.
        keys, deaths: As `DeadLetter` has them.
    """

    def __init__(
        self,
        names: bytes,
        entries: bytes,
        method: bytes,
        keys: list[str],
        deaths: list[tuple[str, bool]],
    ) -> None:
        self.names: bytes = names
        self.entries: bytes = entries
        self.method: bytes = method
        self.keys: list[str] = keys
        self.deaths: list[tuple[str, bool]] = deaths


@final
class PublishDeadLetters(PublishLetters):
    """Makes dead letters of records of one queue."""

    def __init__(self, queue: str) -> None:
        super().__init__()
        self._queue: str = queue
        self._exchange: str = ""
        self._key: str | None = None
        self._nowhere: bool = False
        self._reason: i64 = -1
        self._failed: i64 = 0
        self._seconds: i64 = 0
        self._scan: PropertyScan = PropertyScan()
        self._telling: Telling | None = None
        """What the message that was looked at last is told, if that was its first death."""

    def aim(self, exchange: str, key: str | None) -> None:
        """Say where they go from now on."""
        self._exchange = exchange
        self._key = key
        self._letter = None
        self._telling = None
        # What no publish could name leads nowhere.
        self._nowhere = _too_long(exchange) or (key is not None and _too_long(key))

    def make(self, record: bytes, reason: i64, failed: i64, now_ms: i64) -> DeadLetter:
        """Look at a message that died."""
        alike = self._look(record)
        letter = self._letter
        seconds = now_ms // 1_000
        if (
            letter is None
            or not alike
            or reason != self._reason
            or failed != self._failed
            or seconds != self._seconds
        ):
            if reason != self._reason or failed != self._failed or seconds != self._seconds:
                self._reason = reason
                self._failed = failed
                self._seconds = seconds
                self._telling = None
            flags = scan_properties(self._properties, 0, len(self._properties), self._scan)
            if self._is_simple(record):
                letter = self._first(record, flags)
            else:
                letter = self._written(record)
            self._keep(letter)
        return letter

    def _is_simple(self, record: bytes) -> bool:
        """Whether it never died before, and nothing but headers has to be added."""
        scan = self._scan
        if scan.copies or scan.has_expiration or self._nowhere:
            return False
        if content_at(record, 0) - names_end(record, 0) != NAMES_TAIL_BYTES:
            return False
        for name in TOLD:
            if find_entry(self._properties, scan.headers_at, scan.headers_end, name) >= 0:
                return False
        return True

    def _first(self, record: bytes, flags: i64) -> PublishDeadLetter:
        """The dead letter of a message that is simple; its properties are kept byte for byte."""
        telling = self._telling
        names = record[NAMES_AT : names_end(record, 0)]
        if telling is None or names != telling.names:
            telling = self._tell_first(record, names)
            self._telling = telling
        encoded = with_entries(
            self._properties, self._scan.headers_at, self._scan.headers_end, telling.entries
        )
        prioritised = flags & FLAG_PRIORITY != 0
        letter = PublishDeadLetter(
            telling.keys, encoded, self._scan.persistent, prioritised, telling.deaths
        )
        letter.begin(telling.method, record)
        return letter

    def _tell_first(self, record: bytes, names: bytes) -> Telling:
        """What is told of the first death of messages that were published alike."""
        exchange = text_of(record[NAMES_AT + 1 : NAMES_AT + 1 + i64(record[NAMES_AT])])
        note = no_note()
        headers: Table = {}
        keys = open_keys(record, note, headers)
        told: list[Value] = list(keys)
        self._tell(headers, self._deaths([], exchange, told, None), exchange, True)
        entries = b"".join([encode_entry(name, value) for name, value in headers.items()])
        note.dead = True
        note.failed = self._failed
        if self._key is not None:
            keys = [self._key]
            note.alone = True
        method = method_frame(record, self._exchange, keys[0], note)
        deaths = [(self._queue, self._reason == REJECTED)]
        return Telling(names, entries, method, keys, deaths)

    def _written(self, record: bytes) -> PublishDeadLetter:
        """The dead letter of any message."""
        note = note_of(record, 0)
        exchange = text_of(record[NAMES_AT + 1 : NAMES_AT + 1 + i64(record[NAMES_AT])])
        properties = decode_properties(self._properties, 0, len(self._properties))
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        keys = open_keys(record, note, headers)
        told: list[Value] = list(keys)
        keys.extend(hidden_keys(note))
        before = known_deaths(headers) if note.dead else []
        deaths = self._deaths(before, exchange, told, properties.expiration)
        self._tell(headers, deaths, exchange, len(before) == 0)
        properties.headers = headers
        properties.expiration = None
        note.dead = True
        note.failed += self._failed
        if self._nowhere:
            return letter_with([], properties, [])
        if self._key is not None:
            keys = [self._key]
            note.alone = True
            note.keys = []
        died = [
            (_name(death, "queue"), death.get("reason") == REASONS[REJECTED]) for death in deaths
        ]
        letter = letter_with(keys, properties, died)
        letter.begin(method_frame(record, self._exchange, keys[0], note), record)
        return letter

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
                newest["count"] = 1 + (count if isinstance(count, int) else 1)
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


def _too_long(name: str) -> bool:
    return len(name.encode("utf-8", "surrogateescape")) > SHORTSTR_BYTES_MAX


def _name(death: Table, field: str) -> str:
    value = death.get(field)
    return value if isinstance(value, str) else ""
