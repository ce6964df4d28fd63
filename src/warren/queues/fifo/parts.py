"""What a snapshot has of a queue's machine only where it is made use of: parts, each with a tag.

    parts   count u8, and for each: tag u8, size i32, and so many octets
    SINGLE  1  for each consumer that is not served, where one is at a time:
               id i64, standing u8 (1 it waits, 2 it has to settle what it holds first)
    BLOCKED 2  nothing more: publishes are rejected until there is room
    TURN    3  how many messages of the higher one of two levels went since one of the lower did: u8
    LOCKS   4  for each consumer that may hold messages for so long only:
               id i64, timeout_ms i64, i32 and so many marks: message id i64, time_ms i64
    LATE    5  for each of these that has held messages for too long, and not settled them:
               id i64, i32 and so many runs of message ids: first i64, count i64
    DEAD    6  where dead letters are kept, or were: the number of the next death i64, and for each
               reason, in the order of their numbers, i32 and so many runs:
               death i64, first i64, count i64, acquired i32, failed i32
    PURGED  7  for each session that purged the queue, and is not closed:
               session i64, how many messages in all i64
    DELAYED 8  for each time at which messages are due that wait: due_ms i64, i32 and so many runs
               like those of a queue
    SCHEDULE 9 where messages wait for their time: i32 and so many runs, in the order of a heap:
               due_ms i64, first i64, count i32
    SUSPECTS 10 for each session whose node nobody hears: session i64, since when i64

A build that does not know a tag refuses the snapshot, as it does one of another version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.message.dead_letters import REASONS
from warren.queues.fifo.consumers import SERVED, TIMED_OUT
from warren.queues.fifo.locks import decode_locks
from warren.queues.fifo.pieces import Piece, count_of
from warren.queues.fifo.runs import RUN_BYTES, Run, as_run, decode_run
from warren.queues.fifo.schedule import SCHEDULED_BYTES, ScheduledRuns

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo

SINGLE: Final = 1
BLOCKED: Final = 2
TURN: Final = 3
LOCKS: Final = 4
LATE: Final = 5
DEAD: Final = 6
PURGED: Final = 7
DELAYED: Final = 8
SCHEDULE: Final = 9
SUSPECTS: Final = 10

LATE_HEAD_BYTES: Final = 12
LATE_RUN_BYTES: Final = 16
DEAD_RUN_BYTES: Final = 32
DELAYED_HEAD_BYTES: Final = 12


@final
class Parts:
    """The parts of a machine's state, as it is when this is made.

    Attributes:
        late: Consumers and what each has in `LATE`, in lists that do not change.
        dead: For each reason the messages that died for it and are kept, likewise; nothing at all
            where none ever were.
        delayed: When messages are due that wait, and which, likewise.
        scheduled: Runs of messages that wait for their time, likewise.
    """

    def __init__(self, fifo: Fifo) -> None:
        self.late: list[tuple[int, list[list[Piece]]]] = []
        self.dead: list[list[list[Piece]]] = []
        self.delayed: list[tuple[int, list[list[Piece]]]] = fifo.delayed.by_time()
        self.scheduled: ScheduledRuns = fifo.schedule.frozen()
        self._next_death: i64 = fifo.discards.next_death
        if self._next_death > 0:
            self.dead = fifo.discards.by_reason()
        self._count: i64 = 0
        self._short: BytesWriter = BytesWriter()
        if fifo.single is not None:
            self._add(SINGLE, _standings(fifo))
        if fifo.blocked:
            self._add(BLOCKED, b"")
        if fifo.ready.turn > 0:
            self._add(TURN, bytes([int(fifo.ready.turn)]))
        locks = BytesWriter()
        for consumer in fifo.consumers.values():
            if consumer.locks is not None:
                write_i64_be(locks, consumer.id)
                consumer.locks.encode(locks)
                if consumer.locks.late.count > 0:
                    self.late.append((int(consumer.id), consumer.locks.late.freeze()))
        if len(locks) > 0:
            self._add(LOCKS, locks.getvalue())
        if fifo.purged:
            purged = BytesWriter()
            for session, total in fifo.purged.items():
                write_i64_be(purged, i64(session))
                write_i64_be(purged, i64(total))
            self._add(PURGED, purged.getvalue())
        if fifo.suspects:
            suspects = BytesWriter()
            for session, since_ms in fifo.suspects.items():
                write_i64_be(suspects, i64(session))
                write_i64_be(suspects, i64(since_ms))
            self._add(SUSPECTS, suspects.getvalue())

    def any(self) -> bool:
        """Whether there is one."""
        scheduled = self.scheduled.size > 0
        return self._count > 0 or len(self.dead) > 0 or len(self.delayed) > 0 or scheduled

    def write(self, out: BytesWriter) -> None:
        """Append all of them, but for what is long; see `late`, `dead` and the others."""
        long = (1 if self.late else 0) + (1 if self.dead else 0) + (1 if self.delayed else 0)
        out.append(self._count + long + (1 if self.scheduled.size > 0 else 0))
        out.write(self._short.getvalue())
        if self.dead:
            size: i64 = 8
            for lists in self.dead:
                size += 4 + DEAD_RUN_BYTES * count_of(lists)
            out.append(DEAD)
            write_i32_be(out, i32(size))
            write_i64_be(out, self._next_death)

    def write_schedule(self, out: BytesWriter) -> None:
        """Append the beginning of `SCHEDULE`, if there is such."""
        count = self.scheduled.size
        if count > 0:
            out.append(SCHEDULE)
            write_i32_be(out, i32(4 + SCHEDULED_BYTES * count))
            write_i32_be(out, i32(count))

    def write_late(self, out: BytesWriter) -> None:
        """Append the beginning of `LATE`, if there is such."""
        if self.late:
            size: i64 = 0
            for _, lists in self.late:
                size += LATE_HEAD_BYTES + LATE_RUN_BYTES * count_of(lists)
            out.append(LATE)
            write_i32_be(out, i32(size))

    def write_delayed(self, out: BytesWriter) -> None:
        """Append the beginning of `DELAYED`, if there is such."""
        if self.delayed:
            size: i64 = 0
            for _, lists in self.delayed:
                size += DELAYED_HEAD_BYTES + RUN_BYTES * count_of(lists)
            out.append(DELAYED)
            write_i32_be(out, i32(size))

    def _add(self, tag: i64, data: bytes) -> None:
        self._count += 1
        self._short.append(tag)
        write_i32_be(self._short, i32(len(data)))
        self._short.write(data)


def encode_late(out: BytesWriter, pieces: list[Piece]) -> None:
    """Append runs of message ids."""
    for piece in pieces:
        write_i64_be(out, piece.key)
        write_i64_be(out, piece.count)


def encode_dead(out: BytesWriter, pieces: list[Piece]) -> None:
    """Append runs of dead letters."""
    for piece in pieces:
        run = as_run(piece)
        write_i64_be(out, run.key)
        write_i64_be(out, run.first)
        write_i64_be(out, run.count)
        write_i32_be(out, i32(run.acquired))
        write_i32_be(out, i32(run.failed))


def restore_parts(fifo: Fifo, data: bytes, at: i64) -> i64:
    """Fill a machine, which has all else, with what its snapshot has here.

    Returns:
        The offset behind it.

    Raises:
        ValueError: A part that this build does not know.
    """
    count: i64 = data[at]
    at += 1
    for _ in range(count):
        tag: i64 = data[at]
        size = i64(read_i32_be(data, at + 1))
        at += 5
        if tag == SINGLE:
            _restore_standings(fifo, data, at, at + size)
        elif tag == BLOCKED:
            fifo.blocked = True
        elif tag == TURN:
            fifo.ready.turn = data[at]
        elif tag == LOCKS:
            _restore_locks(fifo, data, at, at + size)
        elif tag == LATE:
            _restore_late(fifo, data, at, at + size)
        elif tag == DEAD:
            _restore_dead(fifo, data, at)
        elif tag == PURGED:
            _restore_purged(fifo, data, at, at + size)
        elif tag == SUSPECTS:
            _restore_suspects(fifo, data, at, at + size)
        elif tag == DELAYED:
            _restore_delayed(fifo, data, at, at + size)
        elif tag == SCHEDULE:
            fifo.schedule.decode(data, at)
        else:
            raise ValueError(f"queue snapshot with part {tag}, which this build does not know")
        at += size
    return at


def _standings(fifo: Fifo) -> bytes:
    out = BytesWriter()
    for consumer in fifo.consumers.values():
        if consumer.active and consumer.standing != SERVED and consumer.standing != TIMED_OUT:
            write_i64_be(out, consumer.id)
            out.append(consumer.standing)
    return out.getvalue()


def _restore_standings(fifo: Fifo, data: bytes, at: i64, end: i64) -> None:
    while at < end:
        fifo.consumers[read_i64_be(data, at)].standing = data[at + 8]
        at += 9


def _restore_locks(fifo: Fifo, data: bytes, at: i64, end: i64) -> None:
    while at < end:
        consumer = fifo.consumers[read_i64_be(data, at)]
        consumer.locks, at = decode_locks(data, at + 8)


def _restore_late(fifo: Fifo, data: bytes, at: i64, end: i64) -> None:
    while at < end:
        consumer = fifo.consumers[read_i64_be(data, at)]
        locks = consumer.locks
        assert locks is not None, "who was late had a time"
        count: i64 = i64(read_i32_be(data, at + 8))
        at += LATE_HEAD_BYTES
        for _ in range(count):
            first = read_i64_be(data, at)
            locks.late.push(Run(first, first, read_i64_be(data, at + 8)))
            at += LATE_RUN_BYTES
        consumer.standing = TIMED_OUT


def _restore_purged(fifo: Fifo, data: bytes, at: i64, end: i64) -> None:
    while at < end:
        fifo.purged[read_i64_be(data, at)] = read_i64_be(data, at + 8)
        at += 16


def _restore_dead(fifo: Fifo, data: bytes, at: i64) -> None:
    next_death = read_i64_be(data, at)
    at += 8
    for reason in range(len(REASONS)):
        count: i64 = i64(read_i32_be(data, at))
        at += 4
        for _ in range(count):
            run = Run(
                read_i64_be(data, at),
                read_i64_be(data, at + 8),
                read_i64_be(data, at + 16),
                i64(read_i32_be(data, at + 24)),
                i64(read_i32_be(data, at + 28)),
            )
            fifo.discards.restore(run, i64(reason))
            at += DEAD_RUN_BYTES
    fifo.discards.next_death = next_death


def _restore_suspects(fifo: Fifo, data: bytes, at: i64, end: i64) -> None:
    while at < end:
        fifo.suspects[read_i64_be(data, at)] = read_i64_be(data, at + 8)
        at += 16


def _restore_delayed(fifo: Fifo, data: bytes, at: i64, end: i64) -> None:
    while at < end:
        due_ms = read_i64_be(data, at)
        count: i64 = i64(read_i32_be(data, at + 8))
        at += DELAYED_HEAD_BYTES
        for _ in range(count):
            run, at = decode_run(data, at)
            fifo.delayed.restore(run, due_ms)
