"""What commands write, while whoever reads it may go: `warren queues list | head`.

A reader that goes ends the command, quietly: it has what it wanted. A write that fails so is told
from all other errors, since commands catch those of their connections.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class ReaderGone(BaseException):
    """Nobody reads what the command writes. No error: what catches errors is not to catch it."""


class _Watched(io.FileIO):
    """The standard output of the process."""

    def write(self, data: Any) -> int:
        """Write some of it.

        Raises:
            ReaderGone: Nobody reads it.
        """
        try:
            return super().write(data)
        except BrokenPipeError:
            raise ReaderGone from None


def while_read(run: Callable[[], Result], gone: Result) -> Result:
    """Do something that writes, until it is done or nobody reads it; returns what comes of it.

    What goes elsewhere than to the process's own standard output is not watched.

    Args:
        gone: What comes of it where the reader has gone.
    """
    plain = sys.stdout
    if plain is not sys.__stdout__:
        return run()
    plain.flush()
    watched = io.BufferedWriter(_Watched(plain.fileno(), "wb", closefd=False))
    text = io.TextIOWrapper(
        watched, plain.encoding, plain.errors, line_buffering=plain.line_buffering
    )
    sys.stdout = text
    try:
        try:
            return run()
        finally:
            text.flush()
    except ReaderGone:
        # What is still to be written goes nowhere.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, plain.fileno())
        os.close(nowhere)
        return gone
    finally:
        sys.stdout = plain
        text.flush()
