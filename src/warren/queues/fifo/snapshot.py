"""What a queue's machine is at one moment, written down in parts; `restoring` reads it.

docs/formats/queue-state.md has it field by field. What is long is taken as the lists that it lies
in, which are not changed any more; the rest is taken at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.ports import Work
from warren.queues.fifo.groups import Checkout
from warren.queues.fifo.live import Gathering
from warren.queues.fifo.parts import Parts, encode_dead, encode_late
from warren.queues.fifo.pieces import Piece, count_of, opened, size_of
from warren.queues.fifo.retaking import counted_runs
from warren.queues.fifo.runs import (
    RUN_BYTES,
    Run,
    RunQueue,
    as_run,
    common,
    encode_runs,
    merge_pairs,
)
from warren.queues.fifo.sizes import encode_stretches

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo

VERSION: Final = 3
VERSION_DOUBTED: Final = 4
"""The same with a bound below which messages may have been delivered before: after a crash."""
VERSION_EXPIRING: Final = 5
"""The same with that bound, which may be 0, with when the queue was last used, and of messages when
they expire, and their sizes where these vary."""
VERSION_PARTS: Final = 6
"""The same with parts at the end, for what is made use of by some queues only (`parts`)."""
ACTIVE: Final = 1
AUTOMATIC: Final = 2

CONSUMER_BYTES: Final = 33
"""What a state has of a consumer before what it holds."""


def write_head(fifo: Fifo, flags: i64, doubted: i64, parted: bool, out: BytesWriter) -> bool:
    """Append what comes before the runs; whether sizes are to say more than they did once."""
    expires = fifo.config.expires_ms >= 0
    timed = (
        expires
        or fifo.sizes.expiring > 0
        or fifo.sizes.varied > 0
        or fifo.sizes.ranked > 0
        or parted
    )
    if parted:
        out.append(VERSION_PARTS)
    elif timed:
        out.append(VERSION_EXPIRING)
    else:
        out.append(VERSION if doubted == 0 else VERSION_DOUBTED)
    out.append(flags)
    settings = BytesWriter()
    fifo.config.encode(settings)
    write_i32_be(out, i32(len(settings)))
    out.write(settings.getvalue())
    write_i64_be(out, fifo.next_message)
    write_i64_be(out, fifo.dropped)
    if doubted > 0 or timed:
        write_i64_be(out, doubted)
    if timed:
        write_i64_be(out, fifo.used_ms if expires else 0)
    return timed


class PartedWriter(Work):
    """Writes a state in parts: what is so long of it that it takes some.

    Of what the others write this has the groups of readers, which outlive all consumers.
    """

    def __init__(self, fifo: Fifo, out: BytesWriter, more: Parts) -> None:
        self._out: BytesWriter = out
        self._part_runs: i64 = fifo.part_runs
        self._done: i64 = 0
        """Runs written in this part."""
        self._more: Parts = more
        self._groups: list[tuple[bytes, list[Checkout]]] = []
        for group in fifo.groups.values():
            head = BytesWriter()
            group.encode(head)
            self._groups.append((head.getvalue(), list(group.open)))
        self._parts: Iterator[None] | None = None

    def go_on(self) -> bool:
        """Write the next part; whether it was the last."""
        parts = self._parts
        self._done = 0
        if parts is not None and next(parts, self) is not self:
            return False
        self._parts = None
        return True

    def _write_groups(self) -> Iterator[None]:
        """Write the groups and what each has open."""
        out = self._out
        write_i32_be(out, i32(len(self._groups)))
        for head, checkouts in self._groups:
            out.write(head)
            for checkout in checkouts:
                write_i64_be(out, checkout.number)
                lists = checkout.messages.freeze()
                self._begin(lists)
                while lists:
                    if self._enough():
                        yield
                    self._runs(lists)

    def _write_readers(self) -> Iterator[None]:
        """Write what groups remember, as the last of the parts of the state."""
        out = self._out
        self._more.write_readers(out)
        for head, lapsed in self._more.readers:
            if self._enough():
                yield
            out.write(head)
            self._done += 1
            for number, lists in lapsed:
                write_i64_be(out, i64(number))
                self._begin(lists)
                while lists:
                    if self._enough():
                        yield
                    self._runs(lists)

    def _enough(self) -> bool:
        """Whether this part has come to its end."""
        return self._done >= self._part_runs

    def _begin(self, lists: list[list[Piece]]) -> None:
        """Write how many runs follow; then the lists can be taken from the end."""
        write_i32_be(self._out, i32(count_of(lists)))
        lists.reverse()

    def _runs(self, lists: list[list[Piece]]) -> None:
        pieces = lists.pop()
        self._done += size_of(pieces)
        encode_runs(self._out, pieces)


@final
class StateWriter(PartedWriter):
    """Writes all of a machine's state, as it is when this is made."""

    def __init__(self, fifo: Fifo, flags: i64, out: BytesWriter) -> None:
        """
        Args:
            fifo: It may go on meanwhile.
            flags: The owner's.
            out: What the state is appended to, and nothing else meanwhile.
        """
        super().__init__(fifo, out, Parts(fifo))
        self._timed: bool = write_head(fifo, flags, fifo.ready.doubted, self._more.any(), out)
        self._next_message: i64 = fifo.next_message
        self._sizes: list[list[Piece]] = fifo.sizes.freeze()
        self._queues = [*fifo.ready.parts(), fifo.transient.freeze()]
        heads = BytesWriter()
        self._held: list[list[list[Piece]]] = []
        for consumer_id, consumer in fifo.consumers.items():
            write_i64_be(heads, i64(consumer_id))
            write_i64_be(heads, consumer.credit)
            write_i64_be(heads, consumer.priority)
            heads.append(
                (ACTIVE if consumer.active else 0) + (AUTOMATIC if consumer.automatic else 0)
            )
            write_i64_be(heads, consumer.next_mid)
            self._held.append(consumer.freeze())
        self._heads: bytes = heads.getvalue()
        line = fifo.service.order()
        turns = BytesWriter()
        write_i32_be(turns, i32(len(line)))
        for consumer in line:
            write_i64_be(turns, consumer.id)
        self._turns: bytes = turns.getvalue()
        self._returns: list[tuple[bytes, list[list[list[Piece]]]]] = []
        for work in fifo.coming.works():
            head = BytesWriter()
            work.encode(head)
            self._returns.append((head.getvalue(), work.strands()))
        self._leaving: list[list[Piece]] = fifo.leaving.lists()
        self._parts = self._write()

    def _write(self) -> Iterator[None]:
        out = self._out
        self._begin(self._sizes)
        while self._sizes:
            if self._enough():
                yield
            self._stretches(self._sizes)
        for lists in self._queues:
            self._begin(lists)
            while lists:
                if self._enough():
                    yield
                self._runs(lists)
        write_i32_be(out, i32(len(self._held)))
        at: i64 = 0
        for lists in self._held:
            out.write(self._heads[at : at + CONSUMER_BYTES])
            at += CONSUMER_BYTES
            self._begin(lists)
            while lists:
                if self._enough():
                    yield
                self._holding(lists)
        out.write(self._turns)
        yield from self._write_groups()
        write_i32_be(out, i32(len(self._returns)))
        for head, strands in self._returns:
            out.write(head)
            write_i32_be(out, i32(len(strands)))
            for lists in strands:
                self._begin(lists)
                while lists:
                    if self._enough():
                        yield
                    self._runs(lists)
        self._begin(self._leaving)
        while self._leaving:
            if self._enough():
                yield
            self._runs(self._leaving)
        if self._more.any():
            self._more.write(out)
            for lists in self._more.dead:
                self._begin(lists)
                while lists:
                    if self._enough():
                        yield
                    pieces = lists.pop()
                    self._done += len(pieces)
                    encode_dead(out, pieces)
            self._more.write_schedule(out)
            scheduled = self._more.scheduled
            written: i64 = 0
            while written < scheduled.size:
                if self._enough():
                    yield
                end = min(written + self._part_runs, scheduled.size)
                scheduled.encode(out, written, end)
                self._done += end - written
                written = end
            self._more.write_late(out)
            for consumer_id, lists in self._more.late:
                write_i64_be(out, i64(consumer_id))
                self._begin(lists)
                while lists:
                    if self._enough():
                        yield
                    pieces = lists.pop()
                    self._done += len(pieces)
                    encode_late(out, pieces)
            self._more.write_delayed(out)
            for due_ms, lists in self._more.delayed:
                write_i64_be(out, i64(due_ms))
                self._begin(lists)
                self._done += 1
                while lists:
                    if self._enough():
                        yield
                    self._runs(lists)
            yield from self._write_readers()

    def _stretches(self, lists: list[list[Piece]]) -> None:
        """Write the next of the messages' sizes."""
        pieces = lists.pop()
        self._done += encode_stretches(self._out, pieces, self._next_message, self._timed)

    def _holding(self, lists: list[list[Piece]]) -> None:
        """Write the next of what a consumer holds."""
        out = self._out
        pieces = lists.pop()
        self._done += len(pieces)
        for piece in pieces:
            run = as_run(piece)
            write_i64_be(out, run.key)
            write_i64_be(out, run.first)
            write_i64_be(out, run.count)
            write_i32_be(out, i32(run.acquired))
            write_i32_be(out, i32(run.failed))


@final
class DurableWriter(PartedWriter):
    """Writes the state of a machine without consumers: all that no group of readers has is ready.

    That is how a restart sees a classic queue. Numbers of transient messages that are not live any
    more are forgotten by the machine itself, too.
    """

    def __init__(self, fifo: Fifo, out: BytesWriter) -> None:
        """
        Args:
            fifo: It may go on meanwhile.
            out: What the state is appended to, and nothing else meanwhile.
        """
        super().__init__(fifo, out, Parts(fifo, True))
        self._fifo: Fifo = fifo
        self._live: Gathering = fifo.gather_live([], [])
        self._unread: Gathering | None = None
        """What no group has, where that is not all."""
        if fifo.readers.any_open():
            self._unread = fifo.gather_unread()
        self._counted: list[Run] = counted_runs(fifo)
        """What is ready and a group may take again, which goes by its counters."""
        self._next: i64 = 0
        """The first of these that was not written."""
        self.kept: list[tuple[int, int]] = []
        """Messages that survive a restart since this was made, whatever they were sent as."""
        self._next_message: i64 = fifo.next_message
        self._sizes: list[list[Piece]] = fifo.sizes.freeze()
        self._transient: Gathering = Gathering(fifo.transient.take_all(), [], [], self._part_runs)
        self._timed: bool = write_head(fifo, 0, 0, self._more.any(), out)
        self._parts = self._write()

    def _write(self) -> Iterator[None]:
        while not self._live.go_on():
            yield
        unread = self._unread
        while unread is not None and not unread.go_on():
            yield
        while not self._transient.go_on():
            yield
        out = self._out
        live = self._live.runs
        transient = self._transient.runs
        done: i64 = 0
        sizes: list[bytes] = []
        stretches: i64 = 0
        at: i64 = 0
        for pieces in self._sizes:
            needed: list[Piece] = []
            for piece in pieces:
                if at < live.size and live.last(at) < piece.key:
                    # Mostly it is the next one.
                    at += 1
                    if at < live.size and live.last(at) < piece.key:
                        at = live.find(piece.key)
                if at < live.size and live.first(at) < piece.key + piece.count:
                    needed.append(piece)
            some = BytesWriter()
            done += len(pieces)
            done += encode_stretches(some, needed, self._next_message, self._timed)
            sizes.append(some.getvalue())
            stretches += len(needed)
            if done >= self._part_runs:
                done = 0
                yield
        self._sizes = []
        write_i32_be(out, i32(stretches))
        sizes.reverse()
        while sizes:
            written = sizes.pop()
            out.write(written)
            done += len(written) // RUN_BYTES
            if done >= self._part_runs:
                done = 0
                yield
        # Nothing that returned: all is ready, as if it had never been handed out.
        write_i32_be(out, 0)
        ready = live if unread is None else unread.runs
        if self._counted:
            some = BytesWriter()
            for number in range(ready.size):
                done += self._write_counted(some, ready.first(number), ready.last(number))
                if done >= self._part_runs:
                    done = 0
                    yield
            write_i32_be(out, i32(len(some) // RUN_BYTES))
            out.write(some.getvalue())
        else:
            write_i32_be(out, i32(ready.size))
            for number in range(ready.size):
                write_run(out, ready.first(number), ready.last(number))
                done += 1
                if done >= self._part_runs:
                    done = 0
                    yield
        kept = RunQueue()
        both = BytesWriter()
        at = 0
        for turn in range(transient.size):
            first = transient.first(turn)
            last = transient.last(turn)
            at = max(at, live.find(first))
            while at < live.size and live.first(at) <= last:
                low = max(first, live.first(at))
                high = min(last, live.last(at))
                kept.push(low, high)
                write_run(both, low, high)
                if live.last(at) > last:
                    break
                at += 1
                done += 1
                if done >= self._part_runs:
                    done = 0
                    yield
            done += 1
            if done >= self._part_runs:
                done = 0
                yield
        write_i32_be(out, i32(len(both) // RUN_BYTES))
        out.write(both.getvalue())
        # Those that came meanwhile.
        for pieces in self._fifo.transient.take_all():
            for piece in opened(pieces):
                kept.push(piece.key, piece.key + piece.count - 1)
        self._fifo.transient = kept
        for first, last in self.kept:
            kept.remove(first, last)
        # No consumers, and none of them in line.
        write_i32_be(out, 0)
        write_i32_be(out, 0)
        yield from self._write_groups()
        # Nothing on its way back or out.
        write_i32_be(out, 0)
        write_i32_be(out, 0)
        if self._more.any():
            self._more.write(out)
            yield from self._write_readers()

    def _write_counted(self, out: BytesWriter, first: i64, last: i64) -> i64:
        """Append ready messages, some with counters; returns how many runs these are."""
        counted = self._counted
        written: i64 = 0
        while self._next < len(counted):
            run = counted[self._next]
            if run.first > last:
                break
            assert run.first >= first and run.first + run.count - 1 <= last, "it is ready"
            self._next += 1
            if run.first > first:
                write_run(out, first, run.first - 1)
                written += 1
            encode_runs(out, [run])
            written += 1
            first = run.first + run.count
        if first <= last:
            write_run(out, first, last)
            written += 1
        return written


def write_run(out: BytesWriter, first: i64, last: i64) -> None:
    """Append a run that nobody was handed yet."""
    write_i64_be(out, first)
    write_i64_be(out, last)
    write_i64_be(out, 0)


def trim_transient(fifo: Fifo) -> None:
    """Have a machine forget the numbers of transient messages that are no longer live."""
    if fifo.transient.count == 0:
        return
    pairs = merge_pairs(fifo.transient.pairs())
    fifo.transient.clear()
    for first, last in common(fifo.live(), pairs):
        fifo.transient.push(first, last)
