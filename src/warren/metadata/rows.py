"""Rows of exchanges, queues and bindings as a snapshot holds them, encoded.

Each is encoded when it is made or changed and kept, in lots of them that follow each other. A lot
that is full, or that a snapshot was made of, keeps its rows joined, and only so: a snapshot of
hundreds of thousands is put together in milliseconds, by joining the lots, all of them at once:
each further copy of some megabytes would cost as much.
Layout: `docs/formats/metadata.md`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

import msgspec
from librt.vecs import append, vec
from mypy_extensions import i64

from warren.sharded_dict import ShardedDict
from warren.wire.amqp091.table import encode_table

if TYPE_CHECKING:
    from warren.metadata.tables import ExchangeRecord, QueueRecord
    from warren.routing.bindings import Binding


LOT_ROWS: Final = 256
"""Rows that are joined anew when one of them changes: some 30 KB."""


@final
class Lot:
    """Some rows that follow each other, each under what it is of.

    Attributes:
        rows: Each of them, empty while they are joined.
        joined: All of them; empty when they have changed since.
    """

    def __init__(self) -> None:
        self.rows: dict[object, bytes] = {}
        self.joined: bytes = b""
        self._lengths = vec[i64]()
        """The length of each of those that are joined."""

    def join(self) -> bytes:
        """All rows of the lot, back to back."""
        if not self.joined:
            self.joined = b"".join(self.rows.values())
            for row in self.rows.values():
                self._lengths = append(self._lengths, len(row))
            for thing in self.rows:
                self.rows[thing] = b""
        return self.joined

    def part(self) -> None:
        """Have each row by itself, so that one of them can be changed."""
        if not self.joined:
            return
        at: i64 = 0
        place: i64 = 0
        for thing in self.rows:
            behind = at + self._lengths[place]
            self.rows[thing] = self.joined[at:behind]
            at = behind
            place += 1
        self.joined = b""
        self._lengths = vec[i64]()


@final
class EncodedRows:
    """Rows of one kind, encoded, in the order in which they came.

    Attributes:
        lots: What they are kept in.
    """

    def __init__(self) -> None:
        self.lots: dict[Lot, None] = {}
        self._of: ShardedDict[object, Lot] = ShardedDict()
        self._last: Lot | None = None

    def __len__(self) -> int:
        return len(self._of)

    def row(self, thing: object) -> bytes:
        """The row of something that is there."""
        lot = self._of[thing]
        lot.part()
        return lot.rows[thing]

    def put(self, thing: object, row: bytes) -> None:
        """Keep something's row, after all others or in the place of the one that it had."""
        lot = self._of.get(thing)
        if lot is None:
            lot = self._last
            if lot is None or len(lot.rows) >= LOT_ROWS:
                if lot is not None:
                    lot.join()
                lot = Lot()
                self.lots[lot] = None
                self._last = lot
            self._of[thing] = lot
        lot.part()
        lot.rows[thing] = row

    def drop(self, thing: object) -> None:
        """Forget the row of something that is no more."""
        lot = self._of.pop(thing)
        assert lot is not None, "it has a row"
        lot.part()
        del lot.rows[thing]
        if not lot.rows:
            del self.lots[lot]
            if lot is self._last:
                self._last = None

    def joined(self) -> list[bytes]:
        """All rows, lot by lot."""
        return [lot.join() for lot in self.lots]


def exchange_row(exchange: ExchangeRecord) -> bytes:
    """An exchange as one row of a snapshot, encoded; what it keeps only if there is something."""
    row: list[object] = [
        exchange.name,
        exchange.kind,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        encode_table(exchange.arguments),
    ]
    if exchange.recent:
        row.append(exchange.recent)
    return msgspec.msgpack.encode(row)


def queue_row(queue: QueueRecord) -> bytes:
    """A queue as one row of a snapshot, encoded."""
    return msgspec.msgpack.encode(
        [
            queue.name,
            queue.kind,
            queue.durable,
            queue.auto_delete,
            queue.exclusive_owner,
            encode_table(queue.arguments),
            queue.group_id,
            queue.node,
            [[member.node, member.incarnation, member.voter] for member in queue.members],
            queue.revision,
        ]
    )


def binding_row(binding: Binding) -> bytes:
    """A binding as one row of a snapshot, encoded."""
    return msgspec.msgpack.encode(
        [
            binding.source,
            binding.destination,
            binding.to_exchange,
            binding.routing_key,
            encode_table(binding.arguments),
            binding.durable,
        ]
    )


def array_head(count: i64) -> bytes:
    """What comes before so many encoded values that make up an array."""
    if count < 16:
        return bytes([0x90 | count])
    if count < 1 << 16:
        return b"\xdc" + int(count).to_bytes(2, "big")
    return b"\xdd" + int(count).to_bytes(4, "big")
