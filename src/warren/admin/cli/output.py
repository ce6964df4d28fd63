"""Standard output of commands, for readers that may go: `warren queues list | head`.

A reader that goes ends the command quietly. Commands catch the errors of their connections, so a
write without a reader raises an exception of its own.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class ReaderGone(BaseException):
    """The reader of the output has gone. This is no error, so handlers of errors pass it on."""


class _Watched(io.FileIO):
    """The standard output of the process."""

    def write(self, data: Any) -> int:
        """Write data to the descriptor; return the count of bytes written.

        Raises:
            ReaderGone: The reader has gone.
        """
        try:
            return super().write(data)
        except BrokenPipeError:
            raise ReaderGone from None


def while_read(run: Callable[[], Result], gone: Result) -> Result:
    """Call a function that writes, and end it when the reader of its output goes.

    Only the standard output of the process is watched.

    Args:
        gone: The result if the reader has gone.
    """
    plain = sys.stdout
    if plain is not sys.__stdout__ or plain is None:
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
