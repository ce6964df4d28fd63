"""Bytes that are written in parts and are many: had in one piece without one long copy."""

from __future__ import annotations

from io import BytesIO
from typing import final

from librt.strings import BytesWriter

from warren.ports import Work


@final
class Growing(Work):
    """Some work that writes, and what it has written.

    Attributes:
        value: All of it, once the work is done.
    """

    def __init__(self, out: BytesWriter, work: Work) -> None:
        """
        Args:
            out: What the work appends to; what is there already comes first.
            work: What appends to it.
        """
        self.value: bytes = b""
        self._out: BytesWriter = out
        self._work: Work = work
        self._all: BytesIO = BytesIO()
        """It grows in place, and gives what it has without a copy."""

    def go_on(self) -> bool:
        """Write the next part; whether it was the last."""
        over = self._work.go_on()
        self._all.write(self._out.getvalue())
        self._out.truncate(0)
        if over:
            self.value = self._all.getvalue()
            self._all = BytesIO()
        return over
