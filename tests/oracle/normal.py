"""What differs between two runs without meaning, and what is written in its place.

All such rules stand here; a session applies them to whatever it records:

- Names that a broker makes up, of queues, of consumers and of direct replies, are numbered in the
  order in which they come: `<queue 1>`, `<tag 1>`, `<reply-to 1>`.
- Times of this day, as in `x-death`, are `<now>`.
- Connections that a table names are numbered in the same way; its `node` is `<node>`, and its
  `routed_queues` are sorted.
- Long bodies and strings are told by their size.
- Values of tables keep their type letter, where Python's type does not say it: `["l", 5]`.

The order of events is that of their channel. None is recorded between channels, and runs of
confirms are the set of what was confirmed (`Session.confirmed`): brokers merge them as they like.
"""

from __future__ import annotations

import re
import time
from typing import Any

from tests.clients.raw import Typed

DAY_S = 86_400
SHOWN_BYTES_MAX = 200
SHOWN_CHARACTERS_MAX = 1_000
_MADE_UP = (
    ("queue", re.compile(r"amq\.gen-[A-Za-z0-9_\-]{16,}")),
    ("tag", re.compile(r"amq\.ctag-[A-Za-z0-9_\-]{16,}")),
    ("reply-to", re.compile(r"amq\.rabbitmq\.reply-to\.[^'\s]+")),
    ("connection", re.compile(r"127\.0\.0\.1:\d+ -> 127\.0\.0\.1:\d+")),
)


class Normal:
    """Rewrites what one run of a scenario saw, so that another run's can be compared."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def clean(self, value: Any) -> Any:
        """The value as the transcript has it."""
        if isinstance(value, Typed):
            if value.tag == "T" and abs(value.value - time.time()) < DAY_S:
                return [value.tag, "<now>"]
            return [value.tag, self.clean(value.value)]
        if isinstance(value, bytes):
            if len(value) > SHOWN_BYTES_MAX:
                return f"<{len(value)} bytes>"
            return self.clean(value.decode("utf-8", "backslashreplace"))
        if isinstance(value, str):
            # Bytes that are no text come from the codec as lone surrogates.
            value = value.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if len(value) > SHOWN_CHARACTERS_MAX:
                return f"<{len(value)} characters>"
            for kind, pattern in _MADE_UP:
                value = pattern.sub(lambda found, kind=kind: self._numbered(kind, found[0]), value)
            return value
        if isinstance(value, dict):
            cleaned = {key: self.clean(item) for key, item in value.items()}
            if "node" in cleaned:
                cleaned["node"] = "<node>"
            if "routed_queues" in cleaned:
                cleaned["routed_queues"][1].sort()
            return cleaned
        if isinstance(value, (list, tuple)):
            return [self.clean(item) for item in value]
        return value

    def _numbered(self, kind: str, made_up: str) -> str:
        if made_up not in self._names:
            number = sum(name.startswith(f"<{kind} ") for name in self._names.values()) + 1
            self._names[made_up] = f"<{kind} {number}>"
        return self._names[made_up]
