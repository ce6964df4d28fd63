"""Rows on their way: what a task attempt publishes into a sink's queue before the batch is decided.

A staged message is a chunk of rows of one attempt, big-endian, which names its attempt and
batch, says from where on its rows can be in their queues, and has each row as it will be
published::

    attempt 16 bytes   batch i64   number u32   marks u32
    marks: queue size u8, queue   incarnation i64   next message i64
    rows: exchange size u8, exchange   key size u8, key   properties size u32, properties
          body size u32, body

A chunk is moved by one transaction, so it is kept within what a broker commits in one turn. Marks
are made before the chunk is: a look for its rows may leave out what was there then.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa

from warren.client import PERSISTENT, Channel
from warren.client.table import Tables
from warren.errors import BrokerError
from warren.queue_types import QUORUM, X_DELIVERY_LIMIT, X_EXPIRES
from warren.spark.broker import Connect, Session, Unconfirmed, refusal_code
from warren.spark.calling import PatientCaller
from warren.spark.claims import REMEDY, Claims, claimed_user
from warren.spark.options import WriteOptions
from warren.spark.outgoing import Outgoing, messages

#: Rows and bytes of a chunk, but for a row that is larger by itself.
CHUNK_ROWS: Final = 1_000
CHUNK_BYTES: Final = 1024 * 1024

#: Chunks of a task that wait for their confirms, so that a task does not keep all its rows.
_WINDOW: Final = 16

_HEAD: Final = struct.Struct(">16sqII")
_U32: Final = struct.Struct(">I")
_MARK: Final = struct.Struct(">qq")

#: By these a queue says that it cannot be read: it is gone, of another type, or not for this user.
UNREADABLE: Final = (403, 404, 405, 406)

#: A task of a `df.write` that begins after the write's end makes the queue again; it goes then.
_EXPIRES_MS: Final = 7 * 24 * 3_600_000


class QueueMark(NamedTuple):
    """Where the end of a queue was at some time: which queue of its name, and its next message."""

    incarnation: int
    next: int


class RowChunk(NamedTuple):
    """Rows of an attempt, and the place of these among its chunks.

    Attributes:
        marks: Ends of the queues that rows name, from before the chunk was made; without one is a
            queue that cannot be read.
    """

    attempt: bytes
    batch: int
    number: int
    rows: list[Outgoing]
    marks: dict[str, QueueMark]


class Staged(NamedTuple):
    """What an attempt has staged: all of it is confirmed by the broker."""

    sink: str
    attempt: bytes
    chunks: int
    rows: int


def stage_queue(sink: str) -> str:
    """The queue that rows of a sink are staged in."""
    return f"warren.sink.{sink}"


def declare_stage(channel: Channel, sink: str, lasting: bool) -> None:
    """Make a sink's queue, if it is not there.

    Args:
        lasting: Whether the sink has further batches; else the queue goes when it is forgotten.
    """
    expires = {} if lasting else {X_EXPIRES: _EXPIRES_MS}
    channel.queue_declare(
        stage_queue(sink),
        durable=True,
        arguments={"x-queue-type": QUORUM.name, X_DELIVERY_LIMIT: -1, **expires},
    )


def encode_chunk(chunk: RowChunk) -> bytes:
    """The body of a staged message."""
    out = [_HEAD.pack(chunk.attempt, chunk.batch, chunk.number, len(chunk.marks))]
    for queue, mark in chunk.marks.items():
        name = queue.encode()
        out += (bytes((len(name),)), name, _MARK.pack(*mark))
    for row in chunk.rows:
        for name in (row.exchange.encode(), row.key.encode()):
            if len(name) > 255:
                raise ValueError(f"{name[:32]!r}... is longer than 255 bytes")
            out += (bytes((len(name),)), name)
        for content in (row.properties, row.body):
            out += (_U32.pack(len(content)), content)
    return b"".join(out)


def decode_chunk(body: bytes) -> RowChunk:
    """The chunk that a staged message is; `ValueError` if it is none."""
    try:
        attempt, batch, number, count = _HEAD.unpack_from(body, 0)
        at = _HEAD.size
        marks: dict[str, QueueMark] = {}
        for _ in range(count):
            end = at + 1 + body[at]
            marks[body[at + 1 : end].decode()] = QueueMark(*_MARK.unpack_from(body, end))
            at = end + _MARK.size
        rows: list[Outgoing] = []
        while at < len(body):
            names: list[str] = []
            for _ in range(2):
                end = at + 1 + body[at]
                names.append(body[at + 1 : end].decode())
                at = end
            contents: list[bytes] = []
            for _ in range(2):
                begin = at + 4
                at = begin + int(_U32.unpack_from(body, at)[0])
                contents.append(body[begin:at])
            rows.append(Outgoing(names[0], names[1], contents[0], contents[1]))
        if at != len(body):
            raise ValueError("it is cut off")
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"no chunk of rows: {error}") from error
    return RowChunk(attempt, batch, number, rows, marks)


def stage_rows(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    id_prefix: str,
    sink: str,
    batch: int,
    lasting: bool,
    connect: Connect,
) -> Staged:
    """Stage all rows of a task attempt, and wait until the broker has confirmed them.

    Args:
        id_prefix: As for `messages`.
        lasting: As for `declare_stage`.

    Raises:
        Unconfirmed: The broker refused a message, or a row is for a queue that is not there.
        BrokerError, OSError: The channel or the connection is gone.
    """
    attempt = uuid.uuid4().bytes
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    try:
        session = caller.connected()
        declare_stage(session.open(), sink, lasting)
        stage = _Stage(session, options, sink, attempt, batch)
        rows = 0
        for arrow in batches:
            for row in messages(arrow, options, id_prefix, rows):
                stage.add(row)
            rows += arrow.num_rows
        return Staged(sink, attempt, stage.finish(), rows)
    finally:
        caller.close()


class _Stage:
    """Gathers the rows of one attempt and publishes them in chunks."""

    def __init__(
        self, session: Session, options: WriteOptions, sink: str, attempt: bytes, batch: int
    ) -> None:
        self._session = session
        self._channel = session.open()
        self._channel.confirm_select()
        self._queue = stage_queue(sink)
        self._mandatory = options.mandatory
        self._attempt = attempt
        self._batch = batch
        self._rows: list[Outgoing] = []
        self._size = 0
        self._chunks = 0
        self._met: dict[str, QueueMark | None] = {}
        self._claims = Claims(options, session.open)

    def add(self, row: Outgoing) -> None:
        if row.exchange == "" and row.key not in self._met:
            if self._mandatory:
                self._check(row.key)
            self._met[row.key] = self._mark(row.key)
        claimed = claimed_user(row.properties)
        if claimed is not None and not self._claims.allows(claimed):
            # Once it is decided on, nobody else's rows would get past it.
            raise Unconfirmed(
                f"a row names user {claimed!r} in 'user_id', and user {self._claims.user!r} may "
                f"not: {REMEDY}"
            )
        size = len(row.body) + len(row.properties) + len(row.key) + len(row.exchange) + 64
        if self._rows and self._size + size > CHUNK_BYTES:
            self._send()
        self._rows.append(row)
        self._size += size
        if len(self._rows) == CHUNK_ROWS:
            self._send()

    def finish(self) -> int:
        """Wait until all is confirmed; gives how many chunks these were."""
        if self._rows:
            self._send()
        self._confirmed()
        return self._chunks

    def _check(self, queue: str) -> None:
        """Find out at once that a queue is not there, and not when the batch is decided."""
        channel = self._session.open()
        try:
            channel.queue_declare(queue, passive=True)
        except BrokerError as error:
            if refusal_code(error) == 404:
                raise Unconfirmed(
                    f"there is no queue {queue!r}, so that messages reached no queue; "
                    "option mandatory=false allows that"
                ) from None
            if refusal_code(error) != 405:
                raise
        else:
            channel.close()

    def _mark(self, queue: str) -> QueueMark | None:
        """The end of a queue; None for one that cannot be read."""
        channel = self._session.open()
        tables = Tables(channel)
        try:
            mark = QueueMark(tables.identify(queue), tables.backlog(queue).next)
        except BrokerError as error:
            if refusal_code(error) not in UNREADABLE:
                raise
            return None
        channel.close()
        return mark

    def _send(self) -> None:
        named = {row.key for row in self._rows if row.exchange == ""}
        marks = {queue: mark for queue in named if (mark := self._met[queue]) is not None}
        chunk = RowChunk(self._attempt, self._batch, self._chunks, self._rows, marks)
        self._channel.publish("", self._queue, encode_chunk(chunk), PERSISTENT, True)
        self._chunks += 1
        self._rows = []
        self._size = 0
        if self._chunks % _WINDOW == 0:
            self._confirmed()

    def _confirmed(self) -> None:
        refused = self._channel.wait_for_confirms()
        if self._channel.returned:
            raise Unconfirmed(f"the queue {self._queue!r} was deleted: the write is over")
        if refused:
            raise Unconfirmed(f"the broker refused {len(refused)} messages; its log says why")
