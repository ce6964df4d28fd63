"""What an exchange keeps, on its way to what has been bound to it.

A queue has at most as many messages as an exchange keeps, and gets them at once. Bound to it, an
exchange passes each of them on as it would pass on what is published to it: perhaps to very many
queues, and after a long search. So it takes as many turns as that needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.limits import FAN_OUT_QUEUES, TURN_STEPS_MAX
from warren.message.flavours import envelope_of, is_known
from warren.message.properties import stored_life
from warren.pending import DONE, PendingRequest
from warren.ports import Work
from warren.queues.fan_out import RunFanOut
from warren.vhost.requests import BindRequest

if TYPE_CHECKING:
    from warren.vhost.handle import VhostHandle


@final
class RecentGiving(Work):
    """Gives messages that an exchange keeps to a queue or an exchange."""

    def __init__(
        self,
        handle: VhostHandle,
        request: BindRequest,
        recent: Iterable[tuple[int, bytes]],
        pending: PendingRequest,
    ) -> None:
        """Begin with the oldest for a queue, and for an exchange with the newest, as RabbitMQ does.

        Args:
            recent: Flavours and records, the oldest first.
            pending: Who bound it, and is told when all of them are where they belong: RabbitMQ
                gives them before it answers.
        """
        self._handle: VhostHandle = handle
        self._request: BindRequest = request
        self._left: deque[tuple[int, bytes]] = deque(recent)
        self._pending: PendingRequest = pending
        if request.to_exchange:
            self._left.reverse()
        self._fan_out: RunFanOut | None = None

    def go_on(self) -> bool:
        """Give some; whether these were the last."""
        done = self._gave_all()
        if done:
            self._pending.succeeded(DONE)
        return done

    def _gave_all(self) -> bool:
        fan_out = self._fan_out
        if fan_out is not None:
            if fan_out.go_on():
                self._fan_out = None
            return self._fan_out is None and not self._left
        handle = self._handle
        most = handle.routing_steps() + TURN_STEPS_MAX
        queues: i64 = 0
        while self._left and queues < FAN_OUT_QUEUES and handle.routing_steps() < most:
            queues += self._give(*self._left.popleft())
        return self._fan_out is None and not self._left

    def _give(self, flavour: i64, record: bytes) -> i64:
        """Give one message; the number of its queues."""
        if not is_known(flavour):
            # Only a later release, which had the exchange keep it, can tell where it goes.
            return 0
        message = envelope_of(flavour, record, 0, len(record))
        properties = message.properties()
        targets = self._handle.kept_targets(self._request, message)
        into = RunFanOut(
            targets,
            record,
            len(record).to_bytes(4, "little"),
            1,
            bool(properties.persistent),
            None,
            flavour,
            stored_life(properties.expiration_ms),
        )
        if not into.go_on():
            self._fan_out = into
        return len(targets)
