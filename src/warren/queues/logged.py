"""Queues whose messages lie in the node's log: quorum queues and durable classic queues."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, final

from mypy_extensions import i64

from warren.errors import CorruptRecord, UnknownFlavour
from warren.log.batch import KIND_MESSAGES, Batch
from warren.log.listener import BatchReader
from warren.log.runlist import LiveRuns, RunList
from warren.log.salvage import gaps
from warren.log.source import MessageSource
from warren.message.flavours import AMQP091, is_known
from warren.ports import Work
from warren.queue_types import QueueType
from warren.queues.fifo.machine import Fifo
from warren.queues.gathering import Gathered
from warren.queues.links import Fetching
from warren.queues.lossy import LossyQueue
from warren.queues.lost import Matching
from warren.queues.publishing import PublishRun
from warren.queues.queue import Host

FLOW_BYTES: Final = 33_554_432
"""With more than this on its way to disk, a queue's publishers wait for the disk."""

CATCH_UP_READS: Final = 4
"""So many reads for consumers come before the next input of publishers to the same queue."""

CATCH_UP_MS_MAX: Final = 100
"""Publishers wait no longer for them."""

READ_AHEAD_BYTES: Final = 1_048_576
"""How much of a backlog one read brings into memory at most: some thousand small messages."""

READ_AHEAD_BYTES_MIN: Final = 65_536
"""How much it does at first, and when what was read before was gone before it was used."""


class LoggedQueue(LossyQueue):
    """A queue with a group in the log; see `quorum` and `classic` for when things apply.

    Attributes:
        messages: Where its messages are read from.
        unwritten_bytes: Messages that were submitted and are not known to be safe.
        seen_bytes, seen_messages: What came in this life, for the mean size of a message.
    """

    def __init__(
        self,
        host: Host,
        vhost: str,
        name: str,
        queue_type: QueueType,
        fifo: Fifo,
        messages: MessageSource,
        group_id: i64,
    ) -> None:
        super().__init__(host, vhost, name, queue_type, fifo)
        fifo.part_runs = host.part_runs
        self.messages: MessageSource = messages
        self.group_id = group_id
        self.unwritten_bytes: i64 = 0
        self.seen_bytes: i64 = 0
        self.seen_messages: i64 = 0
        self._readers: list[Fetching] | None = None
        self._wanted: i64 = 0
        self._reading: bool = False
        self._reads: i64 = 0
        """Reads that came back."""
        self._catch_up: i64 = -1
        """How many of them publishers wait for; -1 if they wait for none."""
        self._catch_up_ms: i64 = 0
        """Since when they do, in wall time."""
        self._window: i64 = READ_AHEAD_BYTES_MIN
        self._read_first: i64 = 0
        self._read_behind: i64 = -1
        """What the read before brought: its first message, and the one behind its last."""
        self._stalled: bool = False
        """Whether what readers wait for cannot be had now, so that only `retry` reads again."""
        self._barred: list[Fetching] | None = None
        """What waits for messages of a flavour that this release does not know."""
        self._barred_by: i64 = AMQP091
        """The flavour that was told last."""
        self._look: GapCheck | None = None
        """The look for messages that no file has, while it is not over."""

    def batch_of(self, number: i64) -> Batch | None:
        """The batch that holds a message, if the log has it in memory and it can be read."""
        batch = self.messages.cached(number)
        return None if batch is None or not is_known(batch.flavour) else batch

    def fetch(self, number: i64, link: Fetching) -> None:
        """Read ahead from a message on; every link that waits is resumed after each read."""
        batch = self.messages.cached(number)
        if batch is not None and not is_known(batch.flavour):
            self._wait_for_release(batch, link)
            return
        readers = self._readers
        if readers is None:
            self._readers = [link]
            self._wanted = number
        else:
            readers.append(link)
            self._wanted = min(self._wanted, number)
        self._read()

    def _wait_for_release(self, batch: Batch, link: Fetching) -> None:
        """Have a link wait for messages that only a later release of Warren can read.

        Links that want other messages go on. This one tries again with each `retry`, since it may
        want something else by then.
        """
        if self._barred is None:
            self._barred = []
        self._barred.append(link)
        self.host.queue_stalled(self)
        if self._barred_by != batch.flavour:
            self._barred_by = batch.flavour
            which = f"messages {batch.first} to {batch.first + batch.count - 1}"
            self.host.queue_damaged(self, UnknownFlavour(int(batch.flavour), which))

    def batches_read(self, first: i64, behind: i64, error: BaseException | None) -> None:
        """A read came back.

        Args:
            first: The number of the first message that it brought.
            behind: The number behind the last one; -1 if it brought nothing.
            error: Why not all that was looked for; the node goes on without it.
        """
        self._reading = False
        self._reads += 1
        self._read_first = first
        self._read_behind = behind
        if self.deleted:
            return
        if error is not None:
            self.damaged(error)
        elif behind < 0:
            # A copy that is being brought up does not have it yet.
            self._stall()
        self._resume_readers()
        self._read()

    def damaged(self, error: BaseException) -> None:
        """Messages cannot be read from this node's disk: wait until they can."""
        self._stall()
        self.host.queue_damaged(self, error)

    def _stall(self) -> None:
        self._stalled = True
        self.host.queue_stalled(self)

    def retry(self) -> None:
        """Time has passed: read again what could not be read."""
        if self._stalled:
            self._stalled = False
            self._read()
        barred = self._barred
        if barred is not None:
            self._barred = None
            for link in barred:
                link.resume()
        if self._look is not None and self._look.halted:
            self._look.go_on()

    def check(self, first: int, last: int) -> None:
        """Read some messages, to find out which of them are lost."""
        self.messages.read(first, last, READ_AHEAD_BYTES, LossCheck(self))

    def brings_back(self) -> bool:
        """Whether messages are on their way back into the queue, for some turns more."""
        return self.fifo.returning()

    def look_for_gaps(self) -> None:
        """Read all that is live, to find out which of it no file has."""
        look = GapCheck(self)
        self._look = look
        search = GapSearch(self.gather_live(), look)
        if not search.go_on():
            self.host.do_in_parts(search)

    def looking(self) -> bool:
        """Whether that is not over, or what it found to be lost is still counted."""
        if self._look is None or self.deleted:
            return False
        if not self._look.over() or self._dropping is not None:
            return True
        lost = self._losses.pairs()
        left_over = self._left_over
        if not lost or (left_over is not None and left_over.over and not left_over.found):
            return False
        if left_over is None or left_over.over:
            left_over = Matching(self.fifo.gather_live([], []), lost)
            self._left_over = left_over
            self.host.do_in_parts(left_over)
        return True

    def close(self) -> None:
        """The queue was deleted: nobody gets what they wait for."""
        super().close()
        barred = self._barred
        self._barred = None
        self._resume_readers()
        for link in barred or []:
            link.resume()

    def _resume_readers(self) -> None:
        links = self._readers
        self._readers = None
        for link in links or []:
            link.resume()

    @abstractmethod
    def snapshot(self) -> i64:
        """Write the machine's state into the log, so that older entries can go; gives its size."""

    @abstractmethod
    def snapshot_part(self) -> i64:
        """The same in parts, of the state at the first; -1 if there is more to do."""

    def gather_live(self) -> LiveRuns:
        """Finds out the messages whose bodies the log must keep, as of now."""
        return self.fifo.gather_live([], [])

    def snapshot_clean(self) -> None:
        """Write down, at an orderly stop, what only this process knows; most know nothing."""

    def mind_leases(self) -> None:
        """Tell the host where there are groups of readers, or more to hand out in a while."""
        if self._leased():
            self.host.queue_leased(self)

    def _leased(self) -> bool:
        return len(self.fifo.groups) > 0 or self.fifo.unfinished()

    def expire_leases(self, now_ms: i64) -> bool:
        """Give back what is held beyond its lease; whether there are leases still, or more to do.

        Args:
            now_ms: Monotonic time.
        """
        self.expire_groups(now_ms)
        return self._leased()

    def expire_groups(self, now_ms: i64) -> None:
        """Give back what readers hold beyond their leases.

        Args:
            now_ms: Monotonic time.
        """

    def congested(self) -> bool:
        """Whether the disk is behind, with this queue or altogether, or its consumers are."""
        return (
            self.unwritten_bytes > FLOW_BYTES
            or self.host.disk_behind
            or self._rejected_too_much()
            or (self._readers is not None and self._catching_up())
        )

    def _catching_up(self) -> bool:
        """Whether publishers wait for consumers that wait for the disk; some reads, and some time.

        What is published faster than consumed has left memory when its turn comes, and then costs
        a read more: a queue that once fell behind would never catch up.
        """
        if self._stalled:
            return False
        now_ms: i64 = self.host.now_ms()
        if self._catch_up < 0:
            self._catch_up = self._reads + CATCH_UP_READS
            self._catch_up_ms = now_ms
            return True
        if self._reads < self._catch_up and 0 <= now_ms - self._catch_up_ms < CATCH_UP_MS_MAX:
            return True
        self._catch_up = -1
        return False

    def mean_message_bytes(self) -> i64:
        """Mean size of the records seen so far, frames included; 0 before the first."""
        return 0 if self.seen_messages == 0 else self.seen_bytes // self.seen_messages

    def _read(self) -> None:
        if (
            self._readers is not None
            and not self._reading
            and not self._stalled
            and not self.deleted
        ):
            self._reading = True
            newest = self.messages.messages_end() - 1
            self.messages.read(self._wanted, newest, self._read_ahead(), ReadAhead(self))

    def _read_ahead(self) -> i64:
        """How much to read: more each time it was used up, less when it was gone before."""
        window = self._window
        if self._wanted == self._read_behind:
            window = min(2 * window, READ_AHEAD_BYTES)
        elif self._read_first <= self._wanted < self._read_behind:
            window = max(window // 2, READ_AHEAD_BYTES_MIN)
        else:
            window = READ_AHEAD_BYTES_MIN
        self._window = window
        return min(window, self.messages.read_share_bytes())

    def _take_messages(self) -> Gathered:
        """All messages gathered, as one record batch that is about to be logged."""
        gathered = super()._take_messages()
        if not self.fifo.config.keeps_place:
            # A quorum queue persists every message, whatever its publisher asked for (QQ-09).
            gathered.kind = KIND_MESSAGES
        size: i64 = len(gathered.payload)
        self.published += gathered.count
        self.unwritten_bytes += size
        self.host.appended(self._starts_write(gathered))
        self.seen_messages += gathered.count
        self.seen_bytes += size
        return gathered

    def _starts_write(self, gathered: Gathered) -> bool:
        """Whether these messages are to be written at once; else a moment later, with others."""
        return True

    def _confirm(self, size: i64, runs: list[PublishRun]) -> None:
        """Messages of this size are durable: their publishers are told, if they still wait."""
        self.unwritten_bytes -= size
        for run in runs:
            run.safe()


@final
class ReadAhead(BatchReader):
    """A read of a queue's backlog that is under way."""

    def __init__(self, queue: LoggedQueue) -> None:
        self._queue: LoggedQueue = queue

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """Hand the answer on."""
        first: i64 = 0
        behind: i64 = -1
        if batches:
            first = batches[0].first
            behind = batches[-1].first + batches[-1].count
        self._queue.batches_read(first, behind, error)


@final
class GapCheck(BatchReader):
    """Reads of all live messages, where some may be in no file and in no index.

    Attributes:
        halted: Whether the disk failed, so that only `go_on` reads again.
    """

    def __init__(self, queue: LoggedQueue) -> None:
        self.halted: bool = False
        self._queue: LoggedQueue = queue
        self._runs: RunList | None = None
        """What is live, once that is known."""
        self._next: i64 = 0
        """The first message that was not looked at."""

    def begin(self, runs: RunList) -> None:
        """This is what is live: look at it."""
        self._runs = runs
        self.go_on()

    def over(self) -> bool:
        """Whether everything was looked at that is still there."""
        if self._queue.deleted or self._queue.messages.given_up():
            return True
        return self._runs is not None and not self._runs.reaches(self._next)

    def go_on(self) -> None:
        """Read the next part."""
        self.halted = False
        runs = self._runs
        if runs is not None and not self.over():
            at = runs.find(self._next)
            first = max(runs.first(at), self._next)
            last = runs.last(at)
            self._queue.messages.read(first, last, READ_AHEAD_BYTES, self)

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """What no batch has up to where they end is lost."""
        queue = self._queue
        runs = self._runs
        if runs is None or self.over():
            return
        if error is not None and not isinstance(error, CorruptRecord):
            self.halted = True
            queue.host.queue_stalled(queue)
            return
        at = runs.find(self._next)
        first = int(max(runs.first(at), self._next))
        last = int(runs.last(at))
        if error is not None and error.lost:
            last_read = error.lost[-1][1]
            lost = error.lost
        else:
            last_read = last if not batches else int(batches[-1].first + batches[-1].count) - 1
            lost = gaps(batches, first, min(last, last_read))
        if batches:
            last_read = max(last_read, int(batches[-1].first + batches[-1].count) - 1)
        if lost:
            damage = CorruptRecord(f"group {queue.group_id}", 0, "no file has these messages")
            damage.group_id = int(queue.group_id)
            damage.lost = lost
            queue.damaged(damage)
        # What a read brought of later runs is looked at with them.
        self._next = min(last_read, last) + 1
        self.go_on()


@final
class GapSearch(Work):
    """Finds out what is live, for a look at all of it."""

    def __init__(self, live: LiveRuns, look: GapCheck) -> None:
        self._live: LiveRuns = live
        self._look: GapCheck = look

    def go_on(self) -> bool:
        """Do the next part; whether it was the last."""
        if not self._live.go_on():
            return False
        self._look.begin(self._live.runs)
        return True


@final
class LossCheck(BatchReader):
    """A read that looks for damage only."""

    def __init__(self, queue: LoggedQueue) -> None:
        self._queue: LoggedQueue = queue

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        """Tell the queue what is lost."""
        if error is not None and not self._queue.deleted:
            self._queue.damaged(error)
