"""What a connection has of messages that no queue has yet: bodies under way, and transactions.

Both are memory that a client can keep for as long as it likes, so that a connection and a node have
so much of them at most. What is too much costs the largest of these: its channel is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.protocols.amqp091.unsettled import TagRun
from warren.vhost.pending import Resumable
from warren.wire.amqp091.errors import ChannelException

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel
    from warren.protocols.amqp091.connection import Connection
    from warren.protocols.amqp091.publishing import Transacted

PUBLISH_BYTES: Final = 384
"""What a run of messages takes beside its records where it waits for a commit, and"""
TARGET_BYTES: Final = 8
"""for each queue that it goes to."""
ANSWER_BYTES: Final = 320
"""What an answer to deliveries takes, and each run of them."""


def weight_of(record: Transacted) -> i64:
    """What a run of messages takes that waits for a commit, in bytes."""
    size: i64 = len(record.records) + len(record.lengths)
    return size + PUBLISH_BYTES + TARGET_BYTES * len(record.route.queues)


def weight_of_answer(runs: list[TagRun]) -> i64:
    """What an answer to deliveries takes that waits for a commit, in bytes."""
    return ANSWER_BYTES * (1 + i64(len(runs)))


def held_by(channel: Channel) -> i64:
    """What a channel has of messages that no queue has, in bytes."""
    assembly = channel.publishing.assembly
    transaction = channel.transaction
    held: i64 = 0 if assembly is None else assembly.body_bytes
    return held if transaction is None else held + transaction.bytes


def shed_largest(channels: list[Channel], limit: i64) -> bool:
    """Close the channel that has most of these; whether there was one that has some.

    Args:
        limit: What is too much, in bytes; 0 where memory is short because of all that there is.
    """
    worst: Channel | None = None
    most: i64 = 0
    for channel in channels:
        held = held_by(channel)
        if held > most:
            worst = channel
            most = held
    if worst is None:
        return False
    transaction = worst.transaction
    if transaction is None or 2 * transaction.bytes < most:
        what = f"messages that are not whole have more than {limit} bytes"
        code, ids = 311, (60, 40)
    else:
        what = f"transactions that are not committed have more than {limit} bytes"
        code, ids = 406, (60, 40)
    if limit == 0:
        what = f"memory is short, for which {most} bytes of this channel are to blame"
    advice = "publish again later" if code == 311 else "commit less at a time"
    worst.fail(ChannelException(code, f"{what}; {advice}", *ids))
    return True


@final
class Shedding(Resumable):
    """Closes channels of a connection that has too much, behind the publish that was too much."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection = connection

    def go_on(self) -> None:
        """Close what is too much now."""
        self._connection.shed()

    def failed(self, error: Exception) -> None:
        """End the connection."""
        self._connection.failed(error)
