"""The consumers of a channel that has ended, on their way out of their queues.

A client may have a hundred thousand of them, on one channel or on many, and one connection that
breaks is hundreds of channels that end. So they leave as long as the turn has steps left, and the
others in later turns. Nothing is handed to any of them from the first moment on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.limits import CONSUMER_STEPS
from warren.ports import Work
from warren.protocols.amqp091.consuming import ConsumerLink
from warren.queues.queue import Queue
from warren.vhost.pending import Resumable

if TYPE_CHECKING:
    from warren.protocols.amqp091.channel import Channel

PART_MIN: Final = 64
"""So many leave in each turn in any case, that clients' input cannot keep them for ever."""


@final
class ConsumersLeaving(Work):
    """Takes the consumers of one channel out of their queues.

    Attributes:
        answer: Goes on when all have left, if anybody waits for that.
    """

    def __init__(
        self,
        channel: Channel,
        links: list[ConsumerLink],
        holders: dict[tuple[int, int], Queue],
    ) -> None:
        """Begin with the first.

        Args:
            links: Consumers that operators are told of.
            holders: The queues that know a consumer, under their identity and its id there.
        """
        self.answer: Resumable | None = None
        self._channel: Channel = channel
        self._links: list[ConsumerLink] = links
        self._queues: list[Queue] = list(holders.values())
        self._ids: list[int] = [key[1] for key in holders]
        self._at: i64 = 0
        self._begun: bool = False
        for link in links:
            link.closed = True

    def go_on(self) -> bool:
        """Have some leave; whether these were the last."""
        links = self._links
        queues = self._queues
        last = max(len(links), len(queues))
        budget = self._channel.connection.broker.budget
        left: i64 = PART_MIN if self._begun else 0
        self._begun = True
        while self._at < last and (left > 0 or not budget.over()):
            at = self._at
            self._at += 1
            left -= 1
            budget.spent += CONSUMER_STEPS
            if at < len(links):
                self._channel.consumer_gone(links[at])
            if at < len(queues) and not queues[at].deleted:
                queues[at].down(self._ids[at])
        if self._at < last:
            return False
        self._channel.leaving = None
        answer = self.answer
        self.answer = None
        if answer is not None:
            answer.go_on()
        return True

    def failed(self, error: Exception) -> None:
        """End the connection."""
        self._channel.failed(error)
