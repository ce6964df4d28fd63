"""Whether rows that came back to a sink's queue are where they belong already.

A broker node may die when a chunk's rows are in their queue and before the chunk is acked. The
chunk comes back then, and the driver that gets it cannot tell it from one that was never moved,
except by a look at the target for the ids that the sink has given its rows. A quorum queue's log
has messages for some time after they were consumed; and it is read behind an entry of the reader's
own, so that nothing of what the dead node sent comes in later. What was in the queue before the
chunk was made is not looked at: its rows cannot be there, and it may be the backlog of a year.
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
from warren.spark.staging import UNREADABLE, QueueMark, RowChunk

#: Rows that are looked at in one go.
_ROWS: Final = 65_536


class MovedRows:
    """Looks for rows of a sink in the queues that they are for."""

    def __init__(self, sink: str, caller: PatientCaller) -> None:
        """Remember what to look for.

        Args:
            caller: For this alone: a queue that cannot be read costs its connection.
        """
        self._prefix = f"{sink}:"
        self._caller = caller

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
            there |= self._found(queue, known_ids, chunk.marks.get(queue))
        return [row for row, known in zip(chunk.rows, ids, strict=True) if known not in there]

    def _id_of(self, row: Outgoing) -> str:
        if row.exchange:
            return ""
        known = row.message_id
        return known if known is not None and known.startswith(self._prefix) else ""

    def _found(self, queue: str, ids: list[str], mark: QueueMark | None) -> set[str]:
        """Which ids are in a queue.

        Args:
            mark: An end of it before which none of them is.
        """
        found: set[str] = set()
        schema = arrow_schema(("message_id",))
        values = pa.array(ids, pa.string())
        try:
            # What is asked for beyond the end waits for an entry behind all that is under way.
            self._caller.call(lambda tables: tables.read(queue, UNBOUNDED - 1, UNBOUNDED - 1, 1))
            last = self._caller.call(lambda tables: tables.backlog(queue)).next - 1
            incarnation = self._caller.call(lambda tables: tables.identify(queue))
            first = mark.next if mark and mark.incarnation == incarnation else 0
            if last < first:
                return found
            for rows in read_rows(self._caller, queue, [(first, last)], schema, _ROWS, False):
                ours = rows["message_id"].filter(pc.is_in(rows["message_id"], value_set=values))
                found.update(ours.to_pylist())
        except BrokerError as error:
            if refusal_code(error) not in UNREADABLE:
                raise
        return found
