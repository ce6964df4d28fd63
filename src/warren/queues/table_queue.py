"""Queues that class `table` reads: as tables, and by groups of readers that take out leases.

A group is independent of connections, so what it does are commands of the machine, in the log like
those of a quorum queue's consumers. Rows are read as record batches, as they lie in the log.
"""

from __future__ import annotations

from abc import abstractmethod

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.limits import READER_GROUPS_MAX
from warren.log.listener import RawReader
from warren.pending import PendingReply
from warren.queues.fifo import commands
from warren.queues.fifo.effects import LeaseReply, Reply
from warren.queues.fifo.groups import Checkout, Group
from warren.queues.fifo.live import Gathering
from warren.queues.fifo.pieces import Piece, opened
from warren.queues.fifo.retaking import look
from warren.queues.fifo.runs import as_run
from warren.queues.logged import LoggedQueue


class TableQueue(LoggedQueue):
    """A queue that can be read as a table."""

    def as_table(self) -> TableQueue | None:
        """The queue itself."""
        return self

    @abstractmethod
    def is_complete(self) -> bool:
        """Whether what is not found in the log here is gone, and not only on its way."""

    @abstractmethod
    def when_current(self, waiter: PendingReply) -> None:
        """Answer when the machine here has all that anybody was told of before."""

    # Rows.

    def next_message(self) -> i64:
        """The number that the next message will have."""
        return self.fifo.next_message

    def safe_messages(self) -> i64:
        """The first number that may yet be given to another message than the one that has it now.

        None below is, whatever ends this node.
        """
        return self.fifo.next_message

    def read_raw(self, first: i64, last: i64, size_bytes: i64, reader: RawReader) -> None:
        """Read record batches as they lie in the log; arguments as for `GroupLog.read_raw`."""
        self.messages.read_raw(first, last, size_bytes, reader)

    def gather_ready(self) -> Gathering:
        """Finds out the messages that are ready, as of now, in parts."""
        return self.fifo.gather_ready()

    def gather_kept(self) -> Gathering:
        """Finds out the messages that are in the queue, held or not, as of now, in parts."""
        return self.fifo.gather_kept()

    def part_runs(self) -> i64:
        """How many runs of messages one part of a long answer goes through."""
        return self.fifo.part_runs

    def rows_within(self, bytes_max: i64, rows_max: i64) -> i64:
        """How many of the messages that are ready here take so many bytes; one at least.

        Looks at as many runs as one turn has leave for. Where none is ready here, all are as the
        mean of those that were seen.
        """
        sizes = self.fifo.sizes
        rows: i64 = 0
        left = bytes_max
        runs = self.fifo.part_runs
        for pieces in self.fifo.ready.freeze():
            for piece in opened(pieces):
                run = as_run(piece)
                size = sizes.of(run.first, run.count)
                if size > left:
                    # The first so many reach what is one byte too much.
                    rows += sizes.first_of(run.first, run.count, left + 1) - 1
                    return max(1, min(rows, rows_max))
                rows += run.count
                left -= size
                runs -= 1
                if rows >= rows_max or runs <= 0:
                    return min(rows, rows_max)
        if rows == 0:
            rows = bytes_max // max(1, self.mean_message_bytes())
        return max(1, min(rows, rows_max))

    def bytes_of(self, lists: list[list[Piece]]) -> i64:
        """What messages take that have not left."""
        sizes = self.fifo.sizes
        size: i64 = 0
        for pieces in lists:
            for piece in opened(pieces):
                run = as_run(piece)
                size += sizes.of(run.first, run.count)
        return size

    def size_of(self, first: i64, count: i64) -> i64:
        """What messages take that follow each other; those that left since count as the mean."""
        sizes = self.fifo.sizes
        if sizes.has(first) and sizes.has(first + count - 1):
            return sizes.of(first, count)
        return count * self.mean_message_bytes()

    def count_within(self, first: i64, count: i64, bytes_max: i64) -> i64:
        """How many of the first of some messages take so many bytes at most, likewise."""
        low: i64 = 0
        high = count
        while low < high:
            middle = (low + high + 1) // 2
            if self.size_of(first, middle) <= bytes_max:
                low = middle
            else:
                high = middle - 1
        return low

    def catch_up(self, waiter: PendingReply) -> None:
        """Answer when this node has everything that was there before, on whatever node."""
        self.ask(b"", waiter)

    @abstractmethod
    def log_ms(self) -> i64:
        """The time of the queue's log, as far as it is known here: milliseconds since 1970."""

    def next_ready(self) -> i64:
        """The message that is handed out next; the number of the next that comes if none is."""
        ready = self.fifo.ready
        return ready.head().first if ready.count > 0 else self.fifo.next_message

    def ready_bytes(self) -> i64:
        """What the messages take that are ready."""
        return self.fifo.ready.bytes

    # Groups of readers.

    def may_acquire(self, group: str) -> bool:
        """Whether a group is there, or may be made, as far as it is known here how many there are.

        Each node looks before it asks the machine, which takes whatever a log says.
        """
        groups = self.fifo.groups
        return group in groups or len(groups) < READER_GROUPS_MAX

    def acquire(self, group: str, lease_ms: i64, kept: bool, waiter: PendingReply) -> None:
        """Have a reader take a group over; the reply has its epoch and its newest lease.

        Args:
            kept: The group may have leases again that ran out, see `retake`; all nodes know of it.
        """
        out = BytesWriter()
        commands.acquire(out, group, lease_ms, kept)
        self._ask_machine(group, out.getvalue(), waiter)

    def checkout(
        self, group: str, epoch: i64, after: i64, rows: i64, up_to: i64, waiter: PendingReply
    ) -> None:
        """Have a group take out a lease; arguments as for `Fifo.checkout`.

        A command is applied in one turn, and answered in one. So where what is ready is scattered
        over more runs than one part goes through, the lease has fewer messages than asked for.
        """
        ready = self.fifo.ready
        few = ready.count_of_first(self.fifo.part_runs)
        if few < ready.count:
            rows = min(rows, few)
        out = BytesWriter()
        commands.checkout(out, group, epoch, after, rows, up_to)
        self._ask_machine(group, out.getvalue(), waiter)

    def settle_leases(self, group: str, epoch: i64, up_to: i64, waiter: PendingReply) -> None:
        """Have the leases of a group up to a number be done with."""
        out = BytesWriter()
        commands.group_settle(out, group, epoch, up_to)
        self._ask_machine(group, out.getvalue(), waiter)

    def release_leases(self, group: str, epoch: i64, waiter: PendingReply) -> None:
        """Have what a group holds go back."""
        out = BytesWriter()
        commands.group_release(out, group, epoch)
        self._ask_machine(group, out.getvalue(), waiter)

    def retake(self, group: str, epoch: i64, number: i64, waiter: PendingReply) -> None:
        """Have a group take out a lease again that ran out, if its messages are untouched."""
        out = BytesWriter()
        commands.retake(out, group, epoch, number)
        self._ask_machine(group, out.getvalue(), waiter)

    def delete_group(self, group: str, waiter: PendingReply) -> None:
        """Have a group be gone; what it holds goes back."""
        out = BytesWriter()
        commands.group_delete(out, group)
        self._ask_machine(group, out.getvalue(), waiter)

    def _ask_machine(self, group: str, command: bytes, waiter: PendingReply) -> None:
        """Have the machine do what a reader wants of a group, and answer when it is safe."""
        self.ask(command, waiter)

    def refusal_in_state(self, group: str, epoch: i64) -> Reply | None:
        """Why a reader may not act for a group now; None if the reader has had it all the while."""
        return self.fifo.readers.refusal(group, epoch)

    def lease_in_state(self, group: str, epoch: i64, after: i64) -> Reply:
        """The answer to a checkout that was applied, from what has come of it since."""
        refusal = self.fifo.readers.refusal(group, epoch)
        if refusal is not None:
            return refusal
        checkout = self.fifo.groups[group].first_open(after)
        if checkout is None:
            return LeaseReply(after, 0, None)
        return LeaseReply(checkout.number, checkout.messages.count, checkout)

    def retake_in_state(self, group: str, epoch: i64, number: i64) -> Reply | None:
        """What a retake is answered that was done within a state; None if it is to be done yet."""
        refusal = self.fifo.readers.refusal(group, epoch)
        if refusal is not None:
            return refusal
        return look(self.fifo, self.fifo.groups[group], number)

    def settled_lease(self, group: str) -> i64:
        """The newest lease that a group has settled; 0 if there is no such group."""
        known = self.fifo.groups.get(group)
        return 0 if known is None else known.settled

    def reader_groups(self) -> list[Group]:
        """The groups of readers there are."""
        return list(self.fifo.groups.values())

    def leases(self, group: str, after: i64, up_to: i64) -> list[Checkout]:
        """The leases of a group behind one number and up to another."""
        known = self.fifo.groups.get(group)
        return [] if known is None else known.between(after, up_to)
