"""When a client was heard last, and when it was last told something.

Source: AMQP 0-9-1, 4.2.7. RabbitMQ sends after half a time-out. It looks once in each time-out
whether the client sent anything, and gives up at the second look in a row that finds nothing.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

SILENT_LOOKS_MAX: Final = 1
"""A client that is silent at more looks than this, one after the other, is given up."""
PULSE_MS_MAX: Final = 30_000
"""A connection's heartbeats are looked after at least as often, so that it is soon forgotten."""


@final
class Heartbeats:
    """The heartbeats of one connection.

    Attributes:
        timeout_ms: What was agreed with the client; 0 while there are none.
        heard: Whether it sent anything since the last `listen`.
        due_ms: When one may have to be sent next.
        look_ms: When to `listen` next.
    """

    def __init__(self, now_ms: i64) -> None:
        self.timeout_ms: i64 = 0
        self.heard: bool = True
        self.due_ms: i64 = 0
        self.look_ms: i64 = 0
        self._silent_looks: i64 = 0
        self._sent_ms: i64 = now_ms
        self._sent_bytes: i64 = -1

    def begin(self, timeout_ms: i64, now_ms: i64) -> None:
        """Begin to send them; nothing was sent since now."""
        self.timeout_ms = timeout_ms
        self.heard = True
        self.look_ms = now_ms + timeout_ms
        self._sent_ms = now_ms
        self._plan(now_ms)

    def listens_at(self, now_ms: i64) -> bool:
        """Whether it is time to `listen`."""
        return self.timeout_ms > 0 and now_ms >= self.look_ms

    def listen(self, now_ms: i64) -> bool:
        """Look whether the client sent anything since the last look.

        Returns:
            Whether it was silent for too long: at this look, and at the one before.
        """
        self.look_ms = now_ms + self.timeout_ms
        if self.heard:
            self.heard = False
            self._silent_looks = 0
            return False
        self._silent_looks += 1
        return self._silent_looks > SILENT_LOOKS_MAX

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
