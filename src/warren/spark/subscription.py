"""Which queues a query reads: those that it names, or those that its pattern finds at any time."""

from __future__ import annotations

import re
import time
from typing import Final

from warren.errors import BrokerError, ConfigError
from warren.spark.broker import is_unknown_method
from warren.spark.calling import PatientCaller
from warren.spark.options import INCARNATION, ReadOptions

#: Seconds between two looks for queues that are new or gone. A look costs a broker next to nothing
#: while none came or went, but a trip.
_LOOK_SECONDS: Final = 1.0

#: Queues that no pattern finds: what sinks stage their rows in.
_INTERNAL: Final = "warren.sink."


class Subscription:
    """The queues of one query, by name."""

    def __init__(self, options: ReadOptions, caller: PatientCaller) -> None:
        """Remember what is wanted; nothing is asked yet."""
        self._pattern = re.compile(options.pattern)
        self._follows = bool(options.pattern)
        self._caller = caller
        self._names = list(options.queues)
        self._version = 0
        self._look_at = 0.0

    def names(self) -> list[str]:
        """The queues that there are now, as of a second ago at most; not to be changed.

        Raises:
            ConfigError: The broker is too old to name its queues.
        """
        if not self._follows or time.monotonic() < self._look_at:
            return self._names
        try:
            found = self._caller.call(lambda tables: tables.queues(self._version))
        except BrokerError as error:
            if not is_unknown_method(error):
                raise
            raise ConfigError(
                "option 'subscribePattern' needs a broker of 0.2.0 or later; name the queues by "
                "'subscribe'"
            ) from error
        if found.names is not None:
            self._names = sorted(filter(self._is_wanted, found.names))
        self._version = found.version
        self._look_at = time.monotonic() + _LOOK_SECONDS
        return self._names

    def _is_wanted(self, name: str) -> bool:
        if name.startswith(_INTERNAL) or name.endswith(INCARNATION):
            return False
        return self._pattern.fullmatch(name) is not None
