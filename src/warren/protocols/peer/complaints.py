"""Which complaints are worth a line in the log: each once in a while, and not too many in all."""

from __future__ import annotations

from typing import Final, final

INTERVAL_MS: Final = 30_000
KEYS_MAX: Final = 64
"""Different complaints in one interval; a stranger with many addresses gets no more lines."""


@final
class Complaints:
    """Remembers what was said of late."""

    def __init__(self, interval_ms: int = INTERVAL_MS, keys_max: int = KEYS_MAX) -> None:
        self._interval_ms: int = interval_ms
        self._keys_max: int = keys_max
        self._said: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def due(self, key: str, now_ms: int) -> bool:
        """Whether this complaint is to be logged now; then it counts as logged."""
        said_ms = self._said.get(key)
        if said_ms is not None and now_ms - said_ms < self._interval_ms:
            self._left_out[key] = self._left_out.get(key, 0) + 1
            return False
        if said_ms is None and len(self._said) >= self._keys_max:
            self._drop(now_ms)
            if len(self._said) >= self._keys_max:
                return False
        self._said[key] = now_ms
        return True

    def take_left_out(self, key: str) -> int:
        """How often this complaint was left out since it was logged before."""
        return self._left_out.pop(key, 0)

    def forget(self, prefix: str) -> None:
        """Log complaints with this beginning anew: what they were about is over."""
        for key in [key for key in self._said if key.startswith(prefix)]:
            del self._said[key]
            self._left_out.pop(key, None)

    def _drop(self, now_ms: int) -> None:
        for key, said_ms in list(self._said.items()):
            if now_ms - said_ms >= self._interval_ms:
                del self._said[key]
                self._left_out.pop(key, None)
