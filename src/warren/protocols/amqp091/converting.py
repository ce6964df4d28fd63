"""Messages that came by another protocol, as those that this one reads."""

from __future__ import annotations

from mypy_extensions import i64

from warren.log.batch import Batch
from warren.message.flavours import AMQP091, as_amqp091


def readable(batch: Batch, number: i64) -> Batch:
    """A batch with a message that this protocol can read; the same one if it can read all of it.

    Else it is one with that message alone, which is converted each time that it is sent.
    """
    if batch.flavour == AMQP091:
        return batch
    position = number - batch.first
    start = batch.offset(position)
    end = start + batch.length(position)
    record = as_amqp091(batch.flavour, batch.payload, start, end)
    size: i64 = len(record)
    length = int(size).to_bytes(4, "little")
    return Batch(
        None,
        batch.kind,
        batch.index,
        batch.term,
        number,
        1,
        batch.stamp_ms,
        length,
        0,
        record,
        0,
        size,
        None,
        flavour=AMQP091,
    )
