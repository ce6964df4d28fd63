"""Where an exchange's unroutable messages go, if it was not declared with an alternate exchange."""

from __future__ import annotations

from typing import Final

ALTERNATE_EXCHANGE: Final = "alternate-exchange"
"""The argument of exchanges, and the key of policies."""


class Alternates:
    """Knows alternate exchanges that are set from outside; this one knows none."""

    def alternate(self, exchange: str) -> str:
        """The alternate of an exchange; empty for none."""
        return ""
