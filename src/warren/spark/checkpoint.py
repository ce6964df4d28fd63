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
from warren.spark.options import INCARNATION

#: How long a look for a commit waits before the next, at first and at most.
_PAUSE: Final = 0.02
_PAUSE_MAX: Final = 0.5

#: Queues that a text names.
_SHOWN_MAX: Final = 5


Offset = dict[str, Any]
"""A source's offset, as Spark's checkpoint has it."""


class Place(NamedTuple):
    """How far a checkpoint has come.

    Attributes:
        number: The last checkout.
        incarnation: Which queue of this name it is of; 0 if the checkpoint does not say.
    """

    number: int
    incarnation: int


Places = dict[str, Place]
"""How far a checkpoint has come in each queue."""


def offset_of(places: Places) -> Offset:
    """The offset that says so."""
    offset: Offset = {}
    for queue, place in places.items():
        offset[queue] = place.number
        if place.incarnation:
            offset[queue + INCARNATION] = place.incarnation
    return offset


def places_in(offset: Offset) -> Places:
    """What an offset says of all its queues."""
    incarnations = {
        name
        for name in offset
        if name.endswith(INCARNATION) and name[: -len(INCARNATION)] in offset
    }
    found = {name: place_in(offset, name) for name in offset if name not in incarnations}
    return {name: place for name, place in found.items() if place is not None}


def place_in(offset: Offset, queue: str) -> Place | None:
    """What an offset says of one queue; None if it is of others."""
    number = offset.get(queue)
    if not isinstance(number, int):
        return None
    incarnation = offset.get(queue + INCARNATION, 0)
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
    """Where a batch ends in a queue: by the first of its sources, if several read that."""
    places = [place_in(offset, queue) for offset in _offsets_of(checkpoint, batch)]
    found = [place for place in places if place is not None]
    if not found:
        raise ConfigError(f"{checkpoint} is no checkpoint of a query of queue {queue!r}")
    return min(found)


def _offsets_of(checkpoint: Path, batch: int) -> list[Offset]:
    """The offsets at which a batch ends, of each source."""
    file = checkpoint / "offsets" / str(batch)
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    found: list[Offset] = []
    for line in lines[2:]:
        try:
            offset = json.loads(line)
        except ValueError:
            continue
        if isinstance(offset, dict):
            found.append(offset)
    return found


def shown(offset: Offset) -> str:
    """An offset in words, as the subject of a sentence whose verb is to follow."""
    named = [f"{place.number} of queue {name!r}" for name, place in places_in(offset).items()]
    more = f" and of {len(named) - _SHOWN_MAX} queues more" if len(named) > _SHOWN_MAX else ""
    if len(named) == 1:
        return f"checkout {named[0]} is"
    return f"checkouts {', '.join(named[:_SHOWN_MAX])}{more} are"


class CommitWatch:
    """Has a batch settled as soon as Spark has committed it, which no call tells a source of.

    One thread looks into the checkpoint, while a batch is under way and not else.
    """

    def __init__(self, checkpoint: Path, settle: Callable[[Offset], None]) -> None:
        """Remember what to do; nothing is looked at yet.

        Args:
            settle: Called in the thread that looks. What it cannot do now is done at the query's
                next trigger.
        """
        self._checkpoint = checkpoint
        self._settle = settle
        self._changed = threading.Condition()
        self._awaited: Offset | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def expect(self, end: Offset) -> None:
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
                    f"warren: {shown(awaited)} settled at the query's next trigger only: {error}",
                    file=sys.stderr,
                    flush=True,
                )
            with self._changed:
                if self._awaited == awaited:
                    self._awaited = None

    def _is_committed(self, awaited: Offset) -> bool:
        """Wait for the commit of the batch that is under way; false if it is none to wait for.

        Spark logs a batch's offset before it plans it, so in the query's own checkpoint it is the
        newest one, and its commit is yet to come. In another one it most likely is not.

        Raises:
            ConfigError: This is not the query's own checkpoint.
        """
        batch = _newest(self._checkpoint / "offsets")
        if batch is None or awaited not in _offsets_of(self._checkpoint, batch):
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

    def _moved_on(self, awaited: Offset) -> bool:
        return self._stopped or self._awaited != awaited
