"""Rows that are read in a thread of their own, some ahead of what asks for them."""

from __future__ import annotations

import queue as queues
import threading
from collections.abc import Generator, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

#: Record batches that are read ahead of who asks for them.
_AHEAD: Final = 2


def read_ahead(rows: Generator[T, None, None]) -> Iterator[T]:
    """Hand on what a generator gives, or fails with, while it goes on with the next.

    It is closed in its thread, also when what asks for rows stops early.
    """
    ready: queues.Queue[T | _Ended] = queues.Queue(_AHEAD)
    stopped = threading.Event()

    def put(item: T | _Ended) -> None:
        while not stopped.is_set():
            try:
                return ready.put(item, timeout=0.1)
            except queues.Full:
                continue

    def read() -> None:
        try:
            for item in rows:
                put(item)
                if stopped.is_set():
                    break
            rows.close()
            put(_Ended(None))
        except BaseException as error:
            put(_Ended(error))

    threading.Thread(target=read, name="warren rows", daemon=True).start()
    try:
        while not isinstance(item := ready.get(), _Ended):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stopped.set()


class _Ended:
    """Comes behind the last row.

    Attributes:
        error: What the generator failed with, if it did.
    """

    def __init__(self, error: BaseException | None) -> None:
        self.error = error
