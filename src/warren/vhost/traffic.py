"""What clients published to a vhost on this node, and what became of it, for metrics.

Counted once for each run of publishes or confirms, never for a message by itself.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class VhostTraffic:
    """Messages so far.

    Attributes:
        published: Those that came, whether or not they went to any queue.
        confirmed: Those of them of which publishers were told that they are safe.
        returned: Those that went to no queue, and were mandatory.
        dropped: Those that went to none, and were not.
    """

    def __init__(self) -> None:
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0
