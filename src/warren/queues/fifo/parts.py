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
    READERS 11 the highest epoch or checkout of a deleted group i64, and for each group that
               remembers checkouts whose lease ran out, or would: size i32 and name, and i32 and so
               many of these: number i64, i32 and so many runs like those of a queue
    OPENED 12  for each group that keeps since when its checkouts are open: size i32 and name, and
               i32 and for each of them, in their order: opened_ms i64

A build that does not know a tag refuses the snapshot, as it does one of another version.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.message.dead_letters import REASONS
from warren.queues.fifo.consumers import SERVED, TIMED_OUT
from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.groups import Checkout, Group
from warren.queues.fifo.locks import read_locks
from warren.queues.fifo.pieces import Piece, count_of
from warren.queues.fifo.runs import RUN_BYTES, Run, as_run, read_run
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
READERS: Final = 11
OPENED: Final = 12

LATE_HEAD_BYTES: Final = 12
LATE_RUN_BYTES: Final = 16
DEAD_RUN_BYTES: Final = 32
DELAYED_HEAD_BYTES: Final = 12
LAPSED_HEAD_BYTES: Final = 12


@final
class Parts:
    """The parts of a machine's state, as it is when this is made.

    Attributes:
        late: Consumers and what each has in `LATE`, in lists that do not change.
        dead: For each reason the messages that died for it and are kept, likewise; nothing at all
            where none ever were.
        delayed: When messages are due that wait, and which, likewise.
        scheduled: Runs of messages that wait for their time, likewise.
        readers: What `READERS` has of each group before its checkouts, and of each of those the
            number and what was in it, likewise.
    """

    def __init__(self, fifo: Fifo, durable: bool = False) -> None:
        """
        Args:
            durable: What a classic queue's restart needs to know, and no more: of its groups.
        """
        self.late: list[tuple[int, list[list[Piece]]]] = []
        self.dead: list[list[list[Piece]]] = []
        self.delayed: list[tuple[int, list[list[Piece]]]] = fifo.delayed.by_time()
        self.scheduled: ScheduledRuns = fifo.schedule.frozen()
        self.readers: list[tuple[bytes, list[tuple[int, list[list[Piece]]]]]] = []
        self._used: i64 = fifo.readers.used
        for group in fifo.groups.values():
            if group.keeps:
                self.readers.append(_lapsed(group))
        self._next_death: i64 = fifo.discards.next_death
        if self._next_death > 0:
            self.dead = fifo.discards.by_reason()
        self._count: i64 = 0
        self._short: BytesWriter = BytesWriter()
        if not durable:
            self._note_consumers(fifo)
        opened = BytesWriter()
        for group in fifo.groups.values():
            if group.oldest_ms() > 0:
                _write_opened(opened, group)
        if len(opened) > 0:
            self._add(OPENED, opened.getvalue())

    def _note_consumers(self, fifo: Fifo) -> None:
        """Take what there is of consumers, and of whether there is room."""
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
        long = len(self.dead) > 0 or len(self.delayed) > 0 or scheduled
        return self._count > 0 or long or self._remembers()

    def _remembers(self) -> bool:
        """Whether there is something to say of groups of readers."""
        return self._used > 0 or len(self.readers) > 0

    def write(self, out: BytesWriter) -> None:
        """Append all of them, but for what is long; see `late`, `dead` and the others."""
        long = (1 if self.late else 0) + (1 if self.dead else 0) + (1 if self.delayed else 0)
        long += (1 if self.scheduled.size > 0 else 0) + (1 if self._remembers() else 0)
        out.append(self._count + long)
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

    def write_readers(self, out: BytesWriter) -> None:
        """Append the beginning of `READERS`, if there is such."""
        if self._remembers():
            size: i64 = 8
            for head, checkouts in self.readers:
                size += len(head)
                for _, lists in checkouts:
                    size += LAPSED_HEAD_BYTES + RUN_BYTES * count_of(lists)
            out.append(READERS)
            write_i32_be(out, i32(size))
            write_i64_be(out, self._used)

    def _add(self, tag: i64, data: bytes) -> None:
        self._count += 1
        self._short.append(tag)
        write_i32_be(self._short, i32(len(data)))
        self._short.write(data)


def _write_opened(out: BytesWriter, group: Group) -> None:
    """Append what `OPENED` has of a group."""
    name = group.name.encode()
    write_i32_be(out, i32(len(name)))
    out.write(name)
    write_i32_be(out, i32(len(group.open)))
    for checkout in group.open:
        write_i64_be(out, checkout.opened_ms)


def _lapsed(group: Group) -> tuple[bytes, list[tuple[int, list[list[Piece]]]]]:
    """What `READERS` has of a group."""
    head = BytesWriter()
    name = group.name.encode()
    write_i32_be(head, i32(len(name)))
    head.write(name)
    write_i32_be(head, i32(len(group.lapsed)))
    checkouts: list[tuple[int, list[list[Piece]]]] = []
    for checkout in group.lapsed:
        checkouts.append((int(checkout.number), checkout.messages.freeze()))
    return head.getvalue(), checkouts


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


def read_parts(fifo: Fifo, cursor: Cursor) -> Iterator[None]:
    """Fill a machine, which has all else, with what its snapshot has here, in parts.

    Raises:
        ValueError: A part that this build does not know.
    """
    for _ in range(cursor.octet()):
        tag = cursor.octet()
        size = cursor.count()
        end = cursor.at + size
        if tag == SINGLE:
            _read_standings(fifo, cursor, end)
        elif tag == BLOCKED:
            fifo.blocked = True
        elif tag == TURN:
            fifo.ready.turn = cursor.octet()
        elif tag == LOCKS:
            _read_locks(fifo, cursor, end)
        elif tag == LATE:
            yield from _read_late(fifo, cursor, end)
        elif tag == DEAD:
            yield from _read_dead(fifo, cursor)
        elif tag == PURGED:
            while cursor.at < end:
                session = cursor.long()
                fifo.purged[session] = cursor.long()
        elif tag == SUSPECTS:
            while cursor.at < end:
                session = cursor.long()
                fifo.suspects[session] = cursor.long()
        elif tag == DELAYED:
            yield from _read_delayed(fifo, cursor, end)
        elif tag == READERS:
            yield from _read_readers(fifo, cursor, end)
        elif tag == OPENED:
            yield from _read_opened(fifo, cursor, end)
        elif tag == SCHEDULE:
            yield from fifo.schedule.read(cursor)
        else:
            raise ValueError(f"queue snapshot with part {tag}, which this build does not know")
        cursor.at = end


def _standings(fifo: Fifo) -> bytes:
    out = BytesWriter()
    for consumer in fifo.consumers.values():
        if consumer.active and consumer.standing != SERVED and consumer.standing != TIMED_OUT:
            write_i64_be(out, consumer.id)
            out.append(consumer.standing)
    return out.getvalue()


def _read_standings(fifo: Fifo, cursor: Cursor, end: i64) -> None:
    while cursor.at < end:
        consumer = fifo.consumers[cursor.long()]
        consumer.standing = cursor.octet()


def _read_locks(fifo: Fifo, cursor: Cursor, end: i64) -> None:
    while cursor.at < end:
        consumer = fifo.consumers[cursor.long()]
        consumer.locks = read_locks(cursor)


def _read_late(fifo: Fifo, cursor: Cursor, end: i64) -> Iterator[None]:
    while cursor.at < end:
        consumer = fifo.consumers[cursor.long()]
        locks = consumer.locks
        assert locks is not None, "who was late had a time"
        left = cursor.count()
        while left > 0:
            if cursor.room <= 0:
                yield
            some = cursor.take(left)
            left -= some
            for _ in range(some):
                first = cursor.long()
                locks.late.push(Run(first, first, cursor.long()))
        consumer.standing = TIMED_OUT


def _read_dead(fifo: Fifo, cursor: Cursor) -> Iterator[None]:
    discards = fifo.discards
    next_death = cursor.long()
    for reason in range(len(REASONS)):
        left = cursor.count()
        while left > 0:
            if cursor.room <= 0:
                yield
            some = cursor.take(left)
            left -= some
            for _ in range(some):
                discards.restore(_read_dead_run(cursor), i64(reason))
    discards.next_death = next_death


def _read_dead_run(cursor: Cursor) -> Run:
    death = cursor.long()
    first = cursor.long()
    count = cursor.long()
    acquired = cursor.count()
    return Run(death, first, count, acquired, cursor.count())


def _read_delayed(fifo: Fifo, cursor: Cursor, end: i64) -> Iterator[None]:
    while cursor.at < end:
        due_ms = cursor.long()
        left = cursor.count()
        # A time is as much as a run.
        cursor.room -= 1
        while left > 0:
            if cursor.room <= 0:
                yield
            some = cursor.take(left)
            left -= some
            for _ in range(some):
                fifo.delayed.restore(read_run(cursor), due_ms)


def _read_readers(fifo: Fifo, cursor: Cursor, end: i64) -> Iterator[None]:
    fifo.readers.used = cursor.long()
    while cursor.at < end:
        # A group is as much as a run.
        cursor.room -= 1
        if cursor.room <= 0:
            yield
        size = cursor.count()
        at = cursor.at
        cursor.at = at + size
        group = fifo.groups[cursor.data[at : at + size].decode()]
        group.keeps = True
        for _ in range(cursor.count()):
            checkout = Checkout(cursor.long())
            yield from checkout.messages.read(cursor)
            group.lapsed.append(checkout)


def _read_opened(fifo: Fifo, cursor: Cursor, end: i64) -> Iterator[None]:
    while cursor.at < end:
        size = cursor.count()
        at = cursor.at
        cursor.at = at + size
        group = fifo.groups[cursor.data[at : at + size].decode()]
        count = cursor.count()
        # A time is as much as a run, and so is a group.
        cursor.room -= 1
        for place in range(count):
            if cursor.room <= 0:
                yield
            cursor.room -= 1
            group.open[place].opened_ms = cursor.long()
