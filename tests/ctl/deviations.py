"""Where Warren's tools say something else than RabbitMQ's on purpose, by step, with the reason.

What they say there is in `answers/warren.json`, and compared as strictly.
"""

from __future__ import annotations

DEVIATIONS: dict[str, str] = {}
