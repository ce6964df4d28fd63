"""The flavours of records: as what protocol's bytes messages are stored.

Messages are kept as they came, and converted where another protocol reads them. All records of a
batch are of one flavour, which stands in the batch's header; numbers are given out here, once and
for ever. A release meets flavours that it does not know where a later one wrote a disk or leads a
queue: it keeps, replicates and removes such messages like others, and hands out none of them. What
is asked of a record here has an answer for these as well, which says nothing of the message; only
to read one raises `UnknownFlavour`, so that `is_known` is to be asked before.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from warren.errors import UnknownFlavour
from warren.message.amqp091 import record as amqp091_record
from warren.message.amqp091.converted import made_publish, publish_of
from warren.message.amqp091.dead_letters import PublishDeadLetters
from warren.message.amqp091.delayed import PublishDelayed
from warren.message.amqp091.envelope import PublishEnvelope
from warren.message.amqp091.record import RecordCheck
from warren.message.dead_letters import DeadLetter, DeadLetters, NoLetters
from warren.message.delays import delay_of
from warren.message.envelope import Envelope

AMQP091: Final = 0
"""The frames of an AMQP 0-9-1 publish; the number that was there before there were flavours."""
FLAVOUR_MAX: Final = 15
"""Messages between nodes have four bits for it."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Flavour:
    """Reads records of a flavour other than AMQP 0-9-1, whose records are read directly."""

    @abstractmethod
    def envelope(self, data: bytes, at: i64, end: i64) -> Envelope:
        """The message in the record `data[at:end]`."""

    @abstractmethod
    def content_bytes(self, data: bytes, at: i64, with_properties: bool) -> i64:
        """The size of the body of the record at `at`, and of the properties if these count."""

    @abstractmethod
    def priority(self, data: bytes, at: i64) -> i64:
        """The priority of the record at `at`; -1 if it has none."""


OTHERS: Final[dict[int, Flavour]] = {}
"""The flavours that this release can read besides; there is none yet."""


def is_known(flavour: i64) -> bool:
    """Whether this release can read records of a flavour."""
    return flavour == AMQP091 or int(flavour) in OTHERS


def _other(flavour: i64) -> Flavour:
    found = OTHERS.get(int(flavour))
    if found is None:
        raise UnknownFlavour(int(flavour))
    return found


def check_of(flavour: i64) -> RecordCheck | None:
    """What tells whether bytes from elsewhere are records of a flavour.

    None where only a later release can tell: no node of this one has stored such a record.
    """
    return RecordCheck() if flavour == AMQP091 else None


def content_bytes(flavour: i64, data: bytes, at: i64, with_properties: bool) -> i64:
    """The size of the body of the record at `at`, and of the properties if these count.

    -1 where only a later release can tell.
    """
    if flavour != AMQP091:
        other = OTHERS.get(int(flavour))
        return -1 if other is None else other.content_bytes(data, at, with_properties)
    return amqp091_record.content_bytes(data, at, with_properties)


def priority_of(flavour: i64, data: bytes, at: i64) -> i64:
    """The priority of the record at `at`; -1 if it has none, or only a later release can tell."""
    if flavour != AMQP091:
        other = OTHERS.get(int(flavour))
        return -1 if other is None else other.priority(data, at)
    return amqp091_record.priority_of(data, at)


def failures_of(flavour: i64, data: bytes, at: i64) -> i64:
    """How often deliveries of the record at `at` failed in queues that it was in before.

    0 where only a later release can tell.
    """
    return amqp091_record.failures_of(data, at) if flavour == AMQP091 else 0


def envelope_of(flavour: i64, data: bytes, at: i64, end: i64) -> Envelope:
    """The message in the record `data[at:end]`, which was checked when it came.

    Raises:
        UnknownFlavour: Only a later release can read it.
    """
    if flavour != AMQP091:
        return _other(flavour).envelope(data, at, end)
    return PublishEnvelope(data, at, end)


def as_amqp091(flavour: i64, data: bytes, at: i64, end: i64) -> bytes:
    """The record `data[at:end]` as one of AMQP 0-9-1.

    Raises:
        UnknownFlavour: Only a later release can read it.
    """
    if flavour == AMQP091:
        return data[at:end]
    return publish_of(envelope_of(flavour, data, at, end))


def made(message: Envelope, notes_keys: bool) -> bytes:
    """The record, of flavour `AMQP091`, of a message that the node itself was asked to publish.

    Args:
        notes_keys: Whether records may have notes, for what a BCC header names.

    Raises:
        BrokerError: It has a value that cannot be kept.
    """
    return made_publish(message, notes_keys)


def delay_in(flavour: i64, data: bytes) -> i64:
    """For how many milliseconds the message in the record that data begins with is to be delayed.

    0 where only a later release can tell.
    """
    if not is_known(flavour):
        return 0
    return delay_of(envelope_of(flavour, data, 0, len(data)).properties().headers)


def delayed_of(flavour: i64) -> DeadLetters:
    """What makes of records of a flavour that were delayed what goes on; see `dead_letters_of`."""
    if not is_known(flavour):
        return NoLetters()
    return PublishDelayed() if flavour == AMQP091 else ConvertedLetters(flavour, PublishDelayed())


def dead_letters_of(flavour: i64, queue: str) -> DeadLetters:
    """What makes dead letters of records of a flavour, for a queue of that name.

    They are AMQP 0-9-1, whose headers tell of deaths. Those of records that only a later release
    can read lead nowhere; but queues do not give such records away.
    """
    if not is_known(flavour):
        return NoLetters()
    letters = PublishDeadLetters(queue)
    return letters if flavour == AMQP091 else ConvertedLetters(flavour, letters)


@final
class ConvertedLetters(DeadLetters):
    """Makes letters of records of another flavour, as if they had been published with 0-9-1."""

    def __init__(self, flavour: i64, letters: DeadLetters) -> None:
        super().__init__()
        self._of: i64 = flavour
        self._letters: DeadLetters = letters

    def aim(self, exchange: str, key: str | None) -> None:
        """Say where they go from now on."""
        self._letters.aim(exchange, key)

    def make(self, record: bytes, reason: i64, failed: i64, now_ms: i64) -> DeadLetter:
        """Look at a message that died."""
        converted = as_amqp091(self._of, record, 0, len(record))
        letter = self._letters.make(converted, reason, failed, now_ms)
        self.steps = self._letters.steps
        return letter

    def record(self) -> bytes:
        """The letter of the message that was looked at last."""
        return self._letters.record()
