"""What a query's checkpoint says: which batch Spark has committed, and where that ends in a queue.

Spark keeps two logs in a checkpoint, a file for each batch, named by the batch's id::

    offsets/7    a line with the log's version, one of settings, then one offset for each source
    commits/7    there once the batch is done for good

A file gets its name when all of it is there. The source's offset is drawn in `warren.spark.stream`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from warren.errors import BrokerError, ConfigError

#: How long a look for a commit waits before the next, at first and at most.
_PAUSE: Final = 0.02
_PAUSE_MAX: Final = 0.5


class Place(NamedTuple):
    """How far a checkpoint has come.

    Attributes:
        number: The last checkout.
        incarnation: Which queue of this name it is of; 0 if the checkpoint does not say.
    """

    number: int
    incarnation: int


def place_in(offset: dict[str, Any], queue: str) -> Place | None:
    """What a source's offset says of a queue; None if it is of another one."""
    number = offset.get(queue)
    if not isinstance(number, int):
        return None
    incarnation = offset.get(f"{queue}#incarnation", 0)
    return Place(number, incarnation if isinstance(incarnation, int) else 0)


def committed(checkpoint: Path, queue: str) -> Place | None:
    """Where the newest batch ends that a checkpoint has committed; None before the first.

    Raises:
        ConfigError: The folder is no checkpoint of a query of this queue.
    """
    if not (checkpoint / "offsets").is_dir():
        raise ConfigError(f"{checkpoint} is no checkpoint of a query: it has no folder 'offsets'")
    batch = _newest(checkpoint / "commits")
    return None if batch is None else _end_of(checkpoint, batch, queue)


def _newest(log: Path) -> int | None:
    """The highest batch id in one of the logs; None for an empty one."""
    try:
        names = [path.name for path in log.iterdir()]
    except FileNotFoundError:
        return None
    return max((int(name) for name in names if name.isascii() and name.isdigit()), default=None)


def _end_of(checkpoint: Path, batch: int, queue: str) -> Place:
    file = checkpoint / "offsets" / str(batch)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    found = []
    for line in lines[2:]:
        try:
            offset = json.loads(line)
        except ValueError:
            continue
        place = place_in(offset, queue) if isinstance(offset, dict) else None
        if place is not None:
            found.append(place)
    if not found:
        raise ConfigError(f"{checkpoint} is no checkpoint of a query of queue {queue!r}")
    return min(found)


class CommitWatch:
    """Has a batch settled as soon as Spark has committed it, which no call tells a source of.

    One thread looks into the checkpoint, while a batch is under way and not else.
    """

    def __init__(self, checkpoint: Path, queue: str, settle: Callable[[Place], None]) -> None:
        """Remember what to do; nothing is looked at yet.

        Args:
            settle: Called in the thread that looks. What it cannot do now is done at the query's
                next trigger.
        """
        self._checkpoint = checkpoint
        self._queue = queue
        self._settle = settle
        self._changed = threading.Condition()
        self._awaited: Place | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def expect(self, end: Place) -> None:
        """A batch that ends here was planned: settle it when it is committed."""
        with self._changed:
            self._awaited = end
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="warren commits")
                self._thread.daemon = True
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """Look no more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._awaited is not None)
                awaited = self._awaited
            if self._stopped or awaited is None:
                return
            try:
                if self._is_committed(awaited):
                    self._settle(awaited)
            except (BrokerError, OSError) as error:
                print(
                    f"warren: checkout {awaited.number} of queue {self._queue!r} is settled at the "
                    f"query's next trigger only: {error}",
                    file=sys.stderr,
                    flush=True,
                )
            with self._changed:
                if self._awaited == awaited:
                    self._awaited = None

    def _is_committed(self, awaited: Place) -> bool:
        """Wait for the commit of the batch that is under way; false if it is none to wait for.

        Spark logs a batch's offset before it plans it, so in the query's own checkpoint it is the
        newest one, and its commit is yet to come. In another one it most likely is not.

        Raises:
            ConfigError: This is not the query's own checkpoint.
        """
        batch = _newest(self._checkpoint / "offsets")
        if batch is None or _end_of(self._checkpoint, batch, self._queue) != awaited:
            raise ConfigError(f"option checkpointLocation is not of this query: {self._checkpoint}")
        commit = self._checkpoint / "commits" / str(batch)
        pause = _PAUSE
        while not commit.exists():
            with self._changed:
                self._changed.wait_for(lambda: self._moved_on(awaited), pause)
                if self._moved_on(awaited):
                    return False
            pause = min(pause * 2, _PAUSE_MAX)
        return True

    def _moved_on(self, awaited: Place) -> bool:
        return self._stopped or self._awaited != awaited
