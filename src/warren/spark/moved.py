"""Whether rows that came back to a sink's queue are where they belong already.

A broker node may die when a chunk's rows are in their queue and before the chunk is acked. The
chunk comes back then, and the driver that gets it cannot tell it from one that was never moved,
except by a look at the target for the ids that the sink has given its rows. A quorum queue's log
has messages for some time after they were consumed; and it is read behind an entry of the reader's
own, so that nothing of what the dead node sent comes in later.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from warren.errors import BrokerError
from warren.spark.broker import refusal_code
from warren.spark.calling import PatientCaller
from warren.spark.options import UNBOUNDED
from warren.spark.outgoing import Outgoing
from warren.spark.reading import read_rows
from warren.spark.schema import arrow_schema
from warren.spark.staging import RowChunk

#: Rows that are looked at in one go.
_ROWS: Final = 65_536

#: By these a queue says that it cannot be read: it is gone, of another type, or not for this user.
_UNREADABLE: Final = (403, 404, 405, 406)


class MovedRows:
    """Looks for rows of one batch, and of those before it, in the queues that they are for."""

    def __init__(self, sink: str, batch: int, caller: PatientCaller) -> None:
        """Remember what to look for.

        Args:
            batch: The one that is being moved.
            caller: For this alone: a queue that cannot be read costs its connection.
        """
        self._prefix = f"{sink}:"
        self._batch = batch
        self._caller = caller
        self._first: dict[str, int] = {}

    def begin(self, queue: str) -> None:
        """Rows of the batch are about to be moved to a queue by the driver that decided on it.

        None of them is there before, which makes for a short look.
        """
        if queue not in self._first:
            try:
                self._first[queue] = self._caller.call(lambda tables: tables.backlog(queue)).next
            except BrokerError as error:
                if refusal_code(error) not in _UNREADABLE:
                    raise
                self._first[queue] = 0

    def left(self, chunk: RowChunk) -> list[Outgoing]:
        """The rows of a chunk that came back which are not in the queue that they name.

        Those are among them whose queue cannot be told: they go to an exchange, or have an id that
        the sink has not given them.
        """
        ids = [self._id_of(row) for row in chunk.rows]
        wanted: dict[str, list[str]] = {}
        for row, known in zip(chunk.rows, ids, strict=True):
            if known:
                wanted.setdefault(row.key, []).append(known)
        there: set[str] = set()
        for queue, known_ids in wanted.items():
            there |= self._found(queue, known_ids, chunk.batch)
        return [row for row, known in zip(chunk.rows, ids, strict=True) if known not in there]

    def _id_of(self, row: Outgoing) -> str:
        if row.exchange:
            return ""
        known = row.message_id
        return known if known is not None and known.startswith(self._prefix) else ""

    def _found(self, queue: str, ids: list[str], batch: int) -> set[str]:
        first = self._first.get(queue, 0) if batch == self._batch else 0
        found: set[str] = set()
        schema = arrow_schema(("message_id",))
        values = pa.array(ids, pa.string())
        try:
            # What is asked for beyond the end waits for an entry behind all that is under way.
            self._caller.call(lambda tables: tables.read(queue, UNBOUNDED - 1, UNBOUNDED - 1, 1))
            last = self._caller.call(lambda tables: tables.backlog(queue)).next - 1
            if last < first:
                return found
            for rows in read_rows(self._caller, queue, [(first, last)], schema, _ROWS, False):
                ours = rows["message_id"].filter(pc.is_in(rows["message_id"], value_set=values))
                found.update(ours.to_pylist())
        except BrokerError as error:
            if refusal_code(error) not in _UNREADABLE:
                raise
        return found
