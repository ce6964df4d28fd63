"""What the leader of a quorum queue sees to as time passes.

Machines have no clock but the time of the log, and only entries bring that on. So when messages
expire, or have been held for too long, or a machine has more to do than one entry may, the leader
logs an entry that says no more than that. Leases of readers it ends likewise, and a queue that
nobody uses it has deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.queues.fifo import commands
from warren.queues.fifo.sizes import NEVER
from warren.queues.fifo_queue import USE_MS
from warren.queues.lease_clock import LeaseClock
from warren.queues.waiting import Expiring

if TYPE_CHECKING:
    from warren.queues.quorum import QuorumQueue

LOOKED_AT_A_MS: Final = 64
"""So many consumers of one queue are looked at in a millisecond, on the average of a time."""


@final
class Minding:
    """When the leader of a quorum queue looks after what, and what it has logged about it.

    Attributes:
        going_on: Whether an entry is under way that only has the machine go on.
    """

    def __init__(self) -> None:
        self.going_on: bool = False
        self._locks_planned: i64 = NEVER
        """When this node, which leads, looks whether messages are held for too long, by the log's
        time; `NEVER` if it does not."""
        self._leases: LeaseClock = LeaseClock()

    def anew(self) -> None:
        """This node begins to lead: it looks at everything anew."""
        self._locks_planned = NEVER

    def due(self, queue: QuorumQueue) -> None:
        """The queue was to be called by now; as leader, see to what time brings."""
        self._locks_planned = NEVER
        if queue.proposer().leads():
            self._mind_use(queue)
            self._mind_expiry(queue)
            queue.silences.mind(queue)
            if queue.forwarding is not None:
                queue.forwarding.mind()
            if queue.fifo.locks_due != NEVER:
                self._mind_locks(queue)

    def keep_going(self, queue: QuorumQueue) -> None:
        """The leader has the machine hand out more, if the last entry did not come to the end."""
        if self.going_on or queue.deleted:
            return
        fifo = queue.fifo
        if fifo.unfinished():
            # Who leads may change before it is done.
            queue.mind_leases()
            self._go_on(queue)
        elif fifo.minds_time() and queue.proposer().leads():
            self._mind_expiry(queue)
        if fifo.discards.count > 0 and queue.forwarding is not None:
            queue.forwarding.go_on()
        due_ms = fifo.locks_due
        if (
            due_ms != NEVER
            and (self._locks_planned == NEVER or due_ms < self._locks_planned)
            and queue.proposer().leads()
        ):
            self._mind_locks(queue)

    def mind_leases(self, queue: QuorumQueue, now_ms: i64) -> None:
        """End the leases of readers that are over, as leader."""
        group = queue.proposer()
        for name, seen_ms in self._leases.over(queue.reader_groups(), now_ms, group.stamp_ms()):
            out = BytesWriter()
            commands.expire(out, name, i64(seen_ms))
            group.propose_plain(out.getvalue())

    def forget_leases(self) -> None:
        """Another node leads, and minds them."""
        self._leases.forget()

    def is_unused(self, queue: QuorumQueue) -> bool:
        """Whether nobody has used the queue for so long that it is to go."""
        return self._left_ms(queue) < 0

    def _mind_locks(self, queue: QuorumQueue) -> None:
        """As leader, have what is held for too long return, by an entry that says so.

        Until then nothing is done for a message, and at the time a look at each consumer: most
        have settled what they held by then, and the next look is as much later.
        """
        fifo = queue.fifo
        group = queue.proposer()
        left = fifo.locks_due - group.stamp_ms()
        if left <= 0:
            fifo.look_at_locks()
            if fifo.locks_due == NEVER:
                return
            left = fifo.locks_due - group.stamp_ms()
            if left <= 0:
                if not self.going_on:
                    out = BytesWriter()
                    commands.time_out(out)
                    self.going_on = group.propose_plain(out.getvalue())
                    if self.going_on:
                        return
                left = USE_MS
        self._locks_planned = fifo.locks_due
        # With very many consumers a look is not made for each of them by itself.
        queue.host.queue_later(queue, max(left, len(fifo.consumers) // LOOKED_AT_A_MS))

    def _mind_expiry(self, queue: QuorumQueue) -> None:
        """As leader, have the next messages expire or be ready, by an entry of that time."""
        expires_ms = queue.fifo.next_expiry()
        if expires_ms == NEVER or self.going_on:
            return
        left = expires_ms - queue.proposer().stamp_ms()
        if left > 0:
            queue.host.queue_later(queue, left)
        else:
            self._go_on(queue)
            if not self.going_on:
                # It is handing its lead over, and may go on leading all the same.
                queue.host.queue_later(queue, USE_MS)

    def _mind_use(self, queue: QuorumQueue) -> None:
        """As leader, have the queue go if nobody has used it for long (QQ-12).

        That is by the time of the log, which every leader of the group goes by. One that leads no
        more without knowing it learns so from an entry, before it deletes what others may use.
        """
        if queue.expires_ms < 0:
            return
        left = self._left_ms(queue)
        if left >= 0:
            queue.host.queue_later(queue, left + 1)
            return
        queue.host.queue_later(queue, max(queue.expires_ms, USE_MS))
        queue.catch_up(Expiring(queue))

    def _left_ms(self, queue: QuorumQueue) -> i64:
        """For how long the queue may go on being unused; negative if it is to go."""
        expires_ms = queue.fifo.config.expires_ms
        since_ms = queue.fifo.unused_since()
        if queue.expires_ms != expires_ms:
            # The log does not say so yet, and goes by what a policy wanted before.
            return max(queue.expires_ms, 0)
        if since_ms < 0:
            return max(expires_ms, USE_MS)
        return since_ms + expires_ms - queue.proposer().stamp_ms()

    def _go_on(self, queue: QuorumQueue) -> None:
        """Log an entry that has the machine go on, if this node leads."""
        out = BytesWriter()
        commands.go_on(out)
        self.going_on = queue.proposer().propose_plain(out.getvalue())
