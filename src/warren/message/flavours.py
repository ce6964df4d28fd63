"""The flavours of records: as what protocol's bytes messages are stored.

Messages are kept as they came, and converted where another protocol reads them. All records of a
batch are of one flavour, which stands in the batch's header; numbers are given out here, once and
for ever. A release meets flavours that it does not know where a later one wrote a disk or leads a
queue: it keeps, replicates and removes such messages like others, and hands out none of them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import i64, mypyc_attr

from warren.errors import UnknownFlavour
from warren.message.amqp091 import record as amqp091_record
from warren.message.amqp091.converted import made_publish, publish_of
from warren.message.amqp091.dead_letters import PublishDeadLetters
from warren.message.amqp091.delayed import PublishDelayed
from warren.message.amqp091.envelope import PublishEnvelope
from warren.message.amqp091.record import RecordCheck
from warren.message.dead_letters import DeadLetters
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


def check_of(flavour: i64) -> RecordCheck:
    """What tells whether bytes from elsewhere are records of a flavour.

    Raises:
        UnknownFlavour: Only a later release can tell.
    """
    if flavour != AMQP091:
        raise UnknownFlavour(int(flavour))
    return RecordCheck()


def content_bytes(flavour: i64, data: bytes, at: i64, with_properties: bool) -> i64:
    """The size of the body of the record at `at`, and of the properties if these count.

    Raises:
        UnknownFlavour: Only a later release can tell.
    """
    if flavour != AMQP091:
        return _other(flavour).content_bytes(data, at, with_properties)
    return amqp091_record.content_bytes(data, at, with_properties)


def priority_of(flavour: i64, data: bytes, at: i64) -> i64:
    """The priority of the record at `at`; -1 if it has none.

    Raises:
        UnknownFlavour: Only a later release can tell.
    """
    if flavour != AMQP091:
        return _other(flavour).priority(data, at)
    return amqp091_record.priority_of(data, at)


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

    Raises:
        UnknownFlavour: Only a later release can tell.
    """
    return delay_of(envelope_of(flavour, data, 0, len(data)).properties().headers)


def delayed_of(flavour: i64) -> DeadLetters:
    """What makes of records of a flavour that were delayed what goes on.

    Raises:
        UnknownFlavour: Only a later release can read them.
    """
    if flavour != AMQP091:
        raise UnknownFlavour(int(flavour))
    return PublishDelayed()


def dead_letters_of(flavour: i64, queue: str) -> DeadLetters:
    """What makes dead letters of records of a flavour, for a queue of that name.

    Raises:
        UnknownFlavour: Only a later release can read them.
    """
    if flavour != AMQP091:
        raise UnknownFlavour(int(flavour))
    return PublishDeadLetters(queue)
