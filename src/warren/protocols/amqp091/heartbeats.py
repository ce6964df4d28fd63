"""When a client was heard last, and when it was last told something.

Source: AMQP 0-9-1, 4.2.7; RabbitMQ sends after half a time-out and gives up after two.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

PULSE_MS_MAX: Final = 30_000
"""A connection's heartbeats are looked after at least as often, so that it is soon forgotten."""


@final
class Heartbeats:
    """The heartbeats of one connection.

    Attributes:
        timeout_ms: What was agreed with the client; 0 while there are none.
        heard: Whether it sent anything since the last `listen`.
        due_ms: When one may have to be sent next.
    """

    def __init__(self, now_ms: i64) -> None:
        self.timeout_ms: i64 = 0
        self.heard: bool = True
        self.due_ms: i64 = 0
        self._heard_ms: i64 = now_ms
        self._sent_ms: i64 = now_ms
        self._sent_bytes: i64 = -1

    def begin(self, timeout_ms: i64, now_ms: i64) -> None:
        """Begin to send them; nothing was sent since now."""
        self.timeout_ms = timeout_ms
        self._sent_ms = now_ms
        self._plan(now_ms)

    def listen(self, now_ms: i64) -> None:
        """Note whether the client was heard since the last call."""
        if self.heard:
            self.heard = False
            self._heard_ms = now_ms

    def missed(self, now_ms: i64) -> bool:
        """Whether the client was silent for too long."""
        return self.timeout_ms > 0 and now_ms - self._heard_ms >= 2 * self.timeout_ms

    def is_due(self, now_ms: i64) -> bool:
        """Whether it is time to look whether one has to be sent."""
        return self.timeout_ms > 0 and now_ms >= self.due_ms

    def was_silent(self, now_ms: i64, sent_bytes: i64) -> bool:
        """Whether the client was told nothing for half of the time-out; if so, it is told now.

        Args:
            sent_bytes: All that was sent to it so far.
        """
        if sent_bytes != self._sent_bytes and self._sent_bytes >= 0:
            self._sent_ms = now_ms
            return False
        if now_ms - self._sent_ms < self.timeout_ms // 2:
            return False
        self._sent_ms = now_ms
        return True

    def sent(self, now_ms: i64, sent_bytes: i64) -> None:
        """Note what was sent so far, and when to look again."""
        self._sent_bytes = sent_bytes
        self._plan(now_ms)

    def _plan(self, now_ms: i64) -> None:
        self.due_ms = min(self._sent_ms + self.timeout_ms // 2, now_ms + PULSE_MS_MAX)
