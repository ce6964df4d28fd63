"""Messages that were delayed, as they go on: as they were published, with the header negative."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.message.amqp091.letters import (
    PublishDeadLetter,
    PublishLetters,
    hidden_keys,
    letter_with,
    open_keys,
)
from warren.message.amqp091.note import note_of
from warren.message.amqp091.record import content_at
from warren.message.dead_letters import DeadLetter
from warren.message.delays import mark_delayed
from warren.message.properties import parse_life
from warren.wire.amqp091.properties import decode_properties
from warren.wire.amqp091.table import Table


@final
class PublishDelayed(PublishLetters):
    """Makes of records what goes on when their time has come."""

    def aim(self, exchange: str, key: str | None) -> None:
        """They go on where they were published to."""

    def make(self, record: bytes, reason: i64, failed: i64, now_ms: i64) -> DeadLetter:
        """Look at a message whose time has come."""
        alike = self._look(record)
        letter = self._letter
        if letter is None or not alike:
            letter = self._written(record)
            self._keep(letter)
        return letter

    def _written(self, record: bytes) -> PublishDeadLetter:
        note = note_of(record, 0)
        properties = decode_properties(self._properties, 0, len(self._properties))
        headers: Table = {} if properties.headers is None else dict(properties.headers)
        keys = [*open_keys(record, note, headers), *hidden_keys(note)]
        mark_delayed(headers)
        properties.headers = headers
        letter = letter_with(keys, properties, [])
        letter.begin(record[: content_at(record, 0)], record)
        if properties.expiration is not None:
            letter.life_ms = parse_life(properties.expiration)
        return letter
