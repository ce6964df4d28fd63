"""Decides once which attempts of a batch count, and moves their rows to where they belong.

A sink has two queues. `warren.sink.<sink>` holds chunks of rows (`staging`), and
`warren.sink.<sink>.batches` its last decisions: which attempts of which batch count. What becomes
of a chunk follows from the decisions alone:

- its batch is not decided: it waits;
- its attempt counts: its rows are published and the chunk is acked by one transaction;
- its attempt does not count: it is dropped.

The broker carries out a transaction that has come, whatever becomes of the client, and returns the
chunk of one that has not. So rows are moved once, whenever the driver is killed, and by however
many drivers at the same time. A node that dies may leave a transaction half done: of a chunk that
comes back, the rows are left out that are in their queue (`moved`). The decision of a batch is
never changed: each has a number, and of two with the same number the first in the queue counts. A
batch up to the newest decided one is known already, and the attempts that come with it are dropped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from warren.client import PERSISTENT, Channel
from warren.errors import BrokerError
from warren.queue_types import QUORUM, X_DELIVERY_LIMIT, X_MAX_LENGTH
from warren.spark.broker import Connect, Session, Unconfirmed
from warren.spark.calling import PatientCaller, is_passing
from warren.spark.moved import MovedRows
from warren.spark.options import WriteOptions
from warren.spark.outgoing import Outgoing
from warren.spark.reading import read_rows
from warren.spark.schema import arrow_schema
from warren.spark.staging import (
    RowChunk,
    Staged,
    declare_stage,
    decode_chunk,
    encode_chunk,
    stage_queue,
)

#: Decisions that the broker keeps, so that one which comes late finds what it lost against.
_KEPT: Final = 4

#: Decided batches whose attempts a decision names, for chunks that come back late.
_RECENT: Final = 16

#: Chunks that one driver holds.
_PREFETCH: Final = 4

#: So long nothing comes of what another driver may have moved, before it counts as moved.
_QUIET_SECONDS: Final = 2.0

#: So long chunks are waited for that have to be there: another driver may be about to return them.
_MISSING_SECONDS: Final = 30.0

#: So long chunks are waited for that a node had when it died: they return when it is given up.
_RETURN_SECONDS: Final = 120.0


class Decision(NamedTuple):
    """Which attempts count.

    Attributes:
        number: Its number among the sink's; 0 for none yet.
        batch: The newest batch that is decided; -1 for none.
        recent: Attempts of that and of the batches before it.
    """

    number: int
    batch: int
    recent: list[list[bytes]]

    def encode(self) -> bytes:
        """The body of its message."""
        recent = [[attempt.hex() for attempt in attempts] for attempts in self.recent]
        return json.dumps({"number": self.number, "batch": self.batch, "recent": recent}).encode()

    def counts(self, attempt: bytes) -> bool:
        """Whether an attempt's rows are to be published."""
        return any(attempt in attempts for attempts in self.recent)


def decode_decision(body: bytes) -> Decision:
    """What `Decision.encode` wrote."""
    known = json.loads(body)
    recent = [[bytes.fromhex(one) for one in attempts] for attempts in known["recent"]]
    return Decision(known["number"], known["batch"], recent)


def ledger_queue(sink: str) -> str:
    """The queue with the decisions of a sink."""
    return f"{stage_queue(sink)}.batches"


def finalise(
    attempts: Sequence[Staged],
    sink: str,
    batch: int,
    lasting: bool,
    options: WriteOptions,
    connect: Connect,
) -> None:
    """Have the rows of a batch published once: those of these attempts, if it was not decided yet.

    Args:
        attempts: One of each task.
        lasting: As for `declare_stage`.

    Raises:
        Unconfirmed: Rows reached no queue; they are staged again.
        BrokerError: The broker refused, or was away for as long as there was leave to try.
    """
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    looking = PatientCaller(options.uris, options.retry_seconds, connect, seeks=False)
    moved = MovedRows(sink, looking)
    missing: set[tuple[bytes, int]] = set()
    try:
        while True:
            mover: _Mover | None = None
            try:
                session = caller.connected()
                declare_stage(session.open(), sink, lasting)
                decision, ours = decide(caller, session, attempts, sink, batch)
                quiet = _QUIET_SECONDS
                if ours:
                    for one in attempts:
                        missing |= {(one.attempt, number) for number in range(one.chunks)}
                    quiet = min(options.retry_seconds, _MISSING_SECONDS)
                elif missing:
                    quiet = min(options.retry_seconds, _RETURN_SECONDS)
                mover = _Mover(session, sink, decision, moved, options)
                mover.move(missing, ours, quiet)
                if missing and ours:
                    raise BrokerError(
                        f"{len(missing)} chunks of batch {batch} are not in queue "
                        f"{stage_queue(sink)!r}: another driver, or something else, took them"
                    )
                return
            except (BrokerError, OSError) as error:
                if not is_passing(error):
                    raise
                if mover is not None:
                    # It may have been moved; the others have to come.
                    missing.discard(mover.under_way)
                caller.disconnect()
    finally:
        looking.close()
        caller.close()


def forget(sink: str, options: WriteOptions, connect: Connect) -> None:
    """Delete what a sink without further batches has at the broker."""
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    try:
        channel = caller.connected().open()
        channel.queue_delete(stage_queue(sink))
        channel.queue_delete(ledger_queue(sink))
    finally:
        caller.close()


def decide(
    caller: PatientCaller, session: Session, attempts: Sequence[Staged], sink: str, batch: int
) -> tuple[Decision, bool]:
    """The newest decision, which is at least that of this batch.

    Returns:
        The decision, and whether it was made here: nothing of these attempts was moved before.
    """
    queue = ledger_queue(sink)
    channel = session.open()
    channel.queue_declare(
        queue,
        durable=True,
        arguments={"x-queue-type": QUORUM.name, X_DELIVERY_LIMIT: -1, X_MAX_LENGTH: _KEPT},
    )
    mine = [one.attempt for one in attempts]
    made = False
    while True:
        newest = _newest(caller, queue)
        if newest.batch >= batch:
            return newest, made and newest.batch == batch and newest.recent[0] == mine
        decision = Decision(newest.number + 1, batch, [mine, *newest.recent][:_RECENT])
        if channel.publish_many("", queue, [decision.encode()], PERSISTENT):
            raise Unconfirmed(f"the broker refused a message for {queue!r}; its log says why")
        made = True


def _newest(caller: PatientCaller, queue: str) -> Decision:
    """The decision that counts: the first of those with the highest number."""
    newest = Decision(0, -1, [])
    runs = caller.call(lambda tables: tables.status(queue)).runs
    for rows in read_rows(caller, queue, runs, arrow_schema(("value",)), _KEPT, False):
        for body in rows["value"].to_pylist():
            decision = decode_decision(body)
            if decision.number > newest.number:
                newest = decision
    return newest


class _Mover:
    """Moves chunks, each by one transaction, on a connection that is its own.

    Attributes:
        under_way: The chunk whose transaction was begun last.
    """

    def __init__(
        self,
        session: Session,
        sink: str,
        decision: Decision,
        moved: MovedRows,
        options: WriteOptions,
    ) -> None:
        self._session = session
        self._moved = moved
        self.under_way: tuple[bytes, int] = (b"", 0)
        self._queue = stage_queue(sink)
        self._decision = decision
        self._mandatory = options.mandatory
        self._channel: Channel = session.open()

    def move(self, missing: set[tuple[bytes, int]], known: bool, quiet_seconds: float) -> None:
        """Move what counts and drop what does not, until nothing is missing or left.

        Args:
            missing: Chunks that have to come; those that came are taken out.
            known: Whether these are all; else there is nothing left when nothing came for long.
            quiet_seconds: How long nothing may come before those that are missing are given up.
        """
        channel = self._channel
        channel.tx_select()
        channel.qos(_PREFETCH)
        tag = channel.consume(self._queue)
        last = time.monotonic()
        while True:
            waiting = not known or bool(missing)
            deliveries = channel.receive(1, 0.2 if waiting else 0.0)
            if not deliveries:
                if not waiting and self._is_empty():
                    break
                if time.monotonic() - last > (quiet_seconds if missing else _QUIET_SECONDS):
                    break
                continue
            (delivery,) = deliveries
            chunk = decode_chunk(delivery.body)
            if chunk.batch > self._decision.batch:
                break  # Another driver is further; it returns, and is for that one.
            self.under_way = (chunk.attempt, chunk.number)
            if self._decision.counts(chunk.attempt):
                rows = self._moved.left(chunk) if delivery.redelivered else chunk.rows
                for row in rows:
                    channel.publish(
                        row.exchange, row.key, row.body, row.properties, self._mandatory
                    )
            channel.ack(delivery.delivery_tag)
            channel.tx_commit()
            if channel.returned:
                self._stage_again(chunk)
            missing.discard((chunk.attempt, chunk.number))
            last = time.monotonic()
        channel.cancel(tag)
        channel.close()

    def _is_empty(self) -> bool:
        """Whether nothing is left to be delivered, but for what is here already."""
        return self._channel.queue_declare(self._queue, passive=True).messages == 0

    def _stage_again(self, chunk: RowChunk) -> None:
        """Keep rows that reached no queue; raises `Unconfirmed`."""
        returned = self._channel.returned
        rows = [
            Outgoing(one.exchange, one.routing_key, one.properties, one.body) for one in returned
        ]
        again = encode_chunk(chunk._replace(rows=rows))
        staging = self._session.open()
        refused = staging.publish_many("", self._queue, [again], PERSISTENT, True)
        one = returned[0]
        unrouted = (
            f"{len(returned)} messages reached no queue, the first by exchange "
            f"{one.exchange!r} and key {one.routing_key!r}: {one.code} {one.text}"
        )
        if staging.returned:
            raise Unconfirmed(
                f"{unrouted}. They are lost: {self._queue!r}, where they were staged, was deleted"
            )
        if refused:
            raise Unconfirmed(f"{unrouted}. They are lost: the broker refused {self._queue!r} them")
        raise Unconfirmed(
            f"{unrouted}. They are staged "
            f"in {self._queue!r}, and the same batch goes on with them once there is a queue; "
            "option mandatory=false drops them"
        )
