"""A memory alarm that goes by what waits for its end is ended by the node itself.

A client that an alarm holds back in the middle of a transaction, or of a message, can neither
commit nor end it, and what it has so far is memory that is missing. Where that alone is what is too
much the alarm would stay for as long as the client does. So, a while later, the largest of these go
one by one until the rest is not too much.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.node.loop import Loop

KEPT_MS_MAX: Final = 30_000
"""How long the alarm is up before: who is not held back commits meanwhile, and queues drain."""
SHORT_OF_MEMORY: Final = 0
"""Why that is shed."""


@final
class Relief:
    """Of one node."""

    def __init__(self, node: Loop) -> None:
        self._node: Loop = node
        self._since_ms: i64 = -1

    def tick(self, now_ms: i64, memory_bytes: i64) -> None:
        """Look at it once a second; this process uses so much memory."""
        node = self._node
        limit: i64 = node.settings.memory_limit_bytes
        if limit == 0 or memory_bytes <= limit:
            self._since_ms = -1
            return
        if self._since_ms < 0:
            self._since_ms = now_ms
        held = node.assembled_bytes
        late = now_ms - self._since_ms >= KEPT_MS_MAX
        if late and held > 0 and memory_bytes - held <= limit:
            node.shed_assembly(SHORT_OF_MEMORY)
