"""Polls of a quorum queue whose answers may lie within a snapshot.

A node that takes over a state has not seen what came of the commands before it. Of a poll the state
itself says it: the message that it was given is held by the channel that polled, and is not the one
that the channel was given last. Where there is no such message there was none. Where the node's
session was closed meanwhile, all that it held returned: the poll is made anew. So it is where it
was submitted in a session that was closed before it was applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import Refusal
from warren.ids import session_of_consumer
from warren.pending import PendingRequest, Result
from warren.queues.fifo.config import Config
from warren.queues.fifo.consumers import Consumer
from warren.queues.fifo.effects import Delivery, PollReply

if TYPE_CHECKING:
    from warren.queues.fifo.machine import Fifo


@final
class Polls:
    """What the channels of one node that poll a queue were given last."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int, int]] = {}
        """By consumer: id within the consumer, number, and how often it had come back."""
        self._missed: list[Poll] = []
        """Polls that were applied within a state."""

    def given(self, delivery: Delivery) -> None:
        """A poll is answered with a message."""
        self._last[int(delivery.consumer.id)] = _mark(delivery)

    def forget(self, consumer_id: i64) -> None:
        """A channel polls no more under this id."""
        self._last.pop(int(consumer_id), None)

    def clear(self) -> None:
        """All ids are void."""
        self._last.clear()

    def miss(self, poll: Poll) -> None:
        """A poll was applied, and nobody here has seen it, or in vain, in another session."""
        self._missed.append(poll)

    def any_missed(self) -> bool:
        """Whether some were."""
        return len(self._missed) > 0

    def answer_missed(self, fifo: Fifo, session: i64) -> None:
        """Answer those from the machine's state, once that is as far as it comes in this turn.

        Args:
            fifo: The machine.
            session: This node's, now.
        """
        missed = self._missed
        self._missed = []
        for poll in missed:
            if session_of_consumer(poll.consumer_id) != session:
                poll.waiter.missed()
                continue
            consumer = fifo.consumers.get(int(poll.consumer_id))
            news = None if consumer is None else self._news(consumer, fifo.config)
            poll.succeeded(PollReply(news))

    def abandon_missed(self) -> None:
        """The queue is gone."""
        missed = self._missed
        self._missed = []
        for poll in missed:
            poll.waiter.abandoned()

    def _news(self, consumer: Consumer, config: Config) -> Delivery | None:
        """What a channel holds that it was not told of; it has one poll under way at most."""
        run = consumer.newest()
        if run is None:
            return None
        behind = run.count - 1
        newest = Delivery(
            consumer,
            run.key + behind,
            run.first + behind,
            1,
            run.acquired,
            config.counted(run.acquired, run.failed),
        )
        last = self._last.get(int(consumer.id))
        if last is not None and consumer.next_mid == last[0] + 1:
            # No id was given since. Or one that had settled all was forgotten by the machine, and
            # its ids began anew: then it holds this one alone.
            if newest.mid != last[0] or last == _mark(newest):
                return None
        return newest


def began_anew(was: Consumer, now: Consumer) -> bool:
    """Whether a poller had settled all, so that its ids began anew, between two states.

    It has one poll under way at most, so that it holds one message then.
    """
    if now.next_mid != 1 or was.next_mid != 1:
        return now.next_mid < was.next_mid
    before, after = was.newest(), now.newest()
    if before is None or after is None:
        return True
    return before.first != after.first or before.acquired != after.acquired


def gave_up_to(was: Consumer, now: Consumer | None) -> i64:
    """Up to which of its message ids somebody holds nothing any more, of two states in the later.

    What is held for too long goes back from the first one on; some may have been settled instead.

    Args:
        was: As of the earlier state, when it held something.
        now: As of the later one; None if it holds nothing.

    Returns:
        The number behind the last of them.
    """
    if now is None or now.held == 0 or began_anew(was, now):
        return was.next_mid
    return now.lowest()


@final
class Poll(PendingRequest):
    """A poll that is under way.

    Attributes:
        consumer_id: Who polls.
        waiter: Who is told.
    """

    def __init__(self, polls: Polls, consumer_id: i64, waiter: PendingRequest) -> None:
        self._polls: Polls = polls
        self.consumer_id: i64 = consumer_id
        self.waiter: PendingRequest = waiter

    def succeeded(self, result: Result) -> None:
        """It is answered."""
        if isinstance(result, PollReply) and result.delivery is not None:
            self._polls.given(result.delivery)
        self.waiter.succeeded(result)

    def abandoned(self) -> None:
        """The queue went away before."""
        self.waiter.abandoned()

    def refused(self, refusal: Refusal) -> None:
        """It cannot be made."""
        self.waiter.refused(refusal)

    def missed(self) -> None:
        """It was applied, and is answered at the end of the turn."""
        self._polls.miss(self)


def _mark(delivery: Delivery) -> tuple[int, int, int]:
    """What tells one message that a consumer was given from all others that it ever holds."""
    return (int(delivery.mid), int(delivery.first), int(delivery.acquired))
