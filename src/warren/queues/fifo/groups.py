"""Durable checkouts: how an analytical reader drains a queue without losing or doubling a row.

A *group* takes ready messages in numbered *checkouts*, independent of any connection. A checkout
stays open, readable again and again, until the group settles it or gives it back. Acquiring a
group starts a new *epoch*, which fences whoever held it before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from warren.queues.fifo.cursor import Cursor
from warren.queues.fifo.effects import UNKNOWN_GROUP, AcquireReply, FencedReply, Reply
from warren.queues.fifo.pieces import Piece
from warren.queues.fifo.ready import Ready
from warren.queues.fifo.runs import RunQueue


@final
class Checkout:
    """One numbered checkout and the messages in it, which never change.

    Attributes:
        opened_ms: Since when it is open, by the log's time; 0 where not all nodes keep that.
    """

    def __init__(self, number: i64, opened_ms: i64 = 0) -> None:
        self.number: i64 = number
        self.opened_ms: i64 = opened_ms
        self.messages: RunQueue = RunQueue()


@final
class Group:
    """A named reader of one queue.

    Attributes:
        epoch: Grows with every acquire; calls with an older one are refused.
        settled: Number of the last settled checkout; 0 at first.
        last: Number of the last checkout made.
        lease_ms: Given back after this long without a call; 0 means never.
        seen_ms: When it last called, by the log's timestamps.
        open: Checkouts not settled yet, in order.
        keeps: Whether it remembers what it had open when its lease runs out, and since when each
            checkout is open.
        lapsed: Those, in order, until it takes new messages or gives all back: their messages are
            ready again, or were.
    """

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.epoch: i64 = 0
        self.settled: i64 = 0
        self.last: i64 = 0
        self.lease_ms: i64 = 0
        self.seen_ms: i64 = 0
        self.open: list[Checkout] = []
        self.keeps: bool = False
        self.lapsed: list[Checkout] = []

    def first_open(self, after: i64) -> Checkout | None:
        """The lowest open checkout with a number above `after`."""
        at = self._behind(after)
        return self.open[at] if at < len(self.open) else None

    def take(self, ready: Ready, rows_max: i64, up_to: i64, now_ms: i64) -> Checkout | None:
        """Make a new checkout, of what stands before all that has expired; None for nothing.

        Args:
            rows_max: Most messages in it.
            up_to: None has a higher number; negative for no bound.
            now_ms: The log's time.
        """
        checkout = Checkout(self.last + 1, now_ms if self.keeps else 0)
        messages = checkout.messages
        while ready.count > 0 and messages.count < rows_max:
            run = ready.head()
            count = min(run.count, rows_max - messages.count)
            if up_to >= 0:
                if run.first > up_to:
                    break
                # The highest number of all is a bound, too: one more is none.
                count = min(count - 1, up_to - run.first) + 1
            count = ready.living(run.first, count, now_ms)
            if count == 0:
                break
            messages.push(run.first, run.first + count - 1, run.acquired, run.failed)
            ready.take(run.first, count)
        if messages.count == 0:
            return None
        self.last = checkout.number
        self.open.append(checkout)
        self.lapsed = []
        return checkout

    def opened(self, checkout: Checkout) -> None:
        """A checkout is open that is new, or one again that the lease ran out with."""
        lapsed = self.find_lapsed(checkout.number)
        if lapsed is not None:
            self.lapsed.remove(lapsed)
        elif checkout.number > self.last:
            self.last = checkout.number
            self.lapsed = []
        self.open.insert(self._behind(checkout.number), checkout)

    def give_up(self, lapses: bool) -> list[list[Piece]]:
        """Close all open checkouts; gives what they held.

        Args:
            lapses: The lease ran out. Else their numbers are not used again.
        """
        lists: list[list[Piece]] = []
        for checkout in self.open:
            lists.extend(checkout.messages.freeze())
        if lapses and self.keeps:
            for checkout in self.open:
                at: i64 = len(self.lapsed)
                while at > 0 and self.lapsed[at - 1].number > checkout.number:
                    at -= 1
                self.lapsed.insert(at, checkout)
        else:
            self.lapsed = []
        self.open = []
        return lists

    def find_lapsed(self, number: i64) -> Checkout | None:
        """The checkout of a number that was open when the lease ran out, if it is remembered."""
        for checkout in self.lapsed:
            if checkout.number == number:
                return checkout
        return None

    def retaken(self, lapsed: Checkout, messages: RunQueue, now_ms: i64) -> Checkout:
        """A checkout is open again, of the messages that it had, with their counters of now."""
        checkout = Checkout(lapsed.number, now_ms if self.keeps else 0)
        checkout.messages = messages
        self.opened(checkout)
        return checkout

    def settle(self, up_to: i64) -> list[Checkout]:
        """All open checkouts up to a number are done with; returns them."""
        at = self._behind(up_to)
        done = self.open[:at]
        if done:
            self.settled = done[-1].number
            del self.open[:at]
            while self.lapsed and self.lapsed[0].number <= self.settled:
                del self.lapsed[0]
        return done

    def between(self, after: i64, up_to: i64) -> list[Checkout]:
        """The open checkouts with numbers above `after`, up to another one."""
        return self.open[self._behind(after) : self._behind(up_to)]

    def _behind(self, number: i64) -> i64:
        """Index of the first open checkout with a higher number."""
        low: i64 = 0
        high: i64 = len(self.open)
        while low < high:
            middle = (low + high) // 2
            if self.open[middle].number <= number:
                low = middle + 1
            else:
                high = middle
        return low

    def held(self) -> i64:
        """Messages in open checkouts."""
        total: i64 = 0
        for checkout in self.open:
            total += checkout.messages.count
        return total

    def oldest_ms(self) -> i64:
        """Since when the checkout is open that has been for longest; 0 if that is not known."""
        oldest: i64 = 0
        for checkout in self.open:
            if checkout.opened_ms > 0 and (oldest == 0 or checkout.opened_ms < oldest):
                oldest = checkout.opened_ms
        return oldest

    def encode(self, out: BytesWriter) -> None:
        """Append this group to a snapshot, but for the open checkouts, which follow."""
        name = self.name.encode()
        write_i32_be(out, i32(len(name)))
        out.write(name)
        write_i64_be(out, self.epoch)
        write_i64_be(out, self.settled)
        write_i64_be(out, self.last)
        write_i64_be(out, self.lease_ms)
        write_i64_be(out, self.seen_ms)
        write_i32_be(out, i32(len(self.open)))


@final
class Readers:
    """The groups of a queue, by name, and who may act for each.

    Attributes:
        groups: All of them.
        used: No group that was deleted had an epoch or a checkout of a higher number; a new group
            begins behind it, so that nobody takes it for one of its name that was before.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.used: i64 = 0

    def acquire(self, name: str, lease_ms: i64, now_ms: i64, keeps: bool) -> Reply:
        """A reader takes a group over; replies epoch and number of the last settled checkout."""
        group = self.groups.get(name)
        if group is None:
            group = Group(name)
            group.epoch = group.settled = group.last = self.used
            self.groups[name] = group
        group.epoch += 1
        group.keeps = keeps
        if not keeps:
            # A snapshot has nothing of what such a group remembers.
            group.lapsed = []
        group.lease_ms = lease_ms
        group.seen_ms = now_ms
        return AcquireReply(group.epoch, group.settled)

    def refusal(self, name: str, epoch: i64) -> Reply | None:
        """Why a reader may not act for a group; None if the reader is the one that has it."""
        group = self.groups.get(name)
        if group is None:
            return Reply(UNKNOWN_GROUP)
        return None if group.epoch == epoch else FencedReply(group.epoch)

    def expired(self, name: str, seen_ms: i64, now_ms: i64) -> Group | None:
        """Fence the reader of a group whose lease ran out; None if it did not.

        It did not if the group was heard of after `seen_ms`, so this may be said more than once,
        and of a lease that was renewed when the log had not got so far where it was said.
        """
        group = self.groups.get(name)
        if group is None or group.seen_ms != seen_ms:
            return None
        if not 0 < group.lease_ms < now_ms - seen_ms:
            return None
        group.epoch += 1
        group.lease_ms = 0
        return group

    def delete(self, name: str) -> Group | None:
        """A group is gone; gives it, None if there is none."""
        group = self.groups.pop(name, None)
        if group is not None:
            self.used = max(self.used, group.epoch, group.last)
        return group

    def any_open(self) -> bool:
        """Whether any group has a checkout open."""
        for group in self.groups.values():
            if group.open:
                return True
        return False

    def held(self) -> i64:
        """Messages in open checkouts of all groups."""
        total: i64 = 0
        for group in self.groups.values():
            total += group.held()
        return total


def read_group(cursor: Cursor, groups: dict[str, Group]) -> Iterator[None]:
    """Add what a snapshot has of a group, in parts."""
    size = cursor.count()
    at = cursor.at
    group = Group(cursor.data[at : at + size].decode())
    cursor.at = at + size
    group.epoch = cursor.long()
    group.settled = cursor.long()
    group.last = cursor.long()
    group.lease_ms = cursor.long()
    group.seen_ms = cursor.long()
    for _ in range(cursor.count()):
        checkout = Checkout(cursor.long())
        yield from checkout.messages.read(cursor)
        group.open.append(checkout)
    groups[group.name] = group
