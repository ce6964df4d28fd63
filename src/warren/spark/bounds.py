"""Where a batch query begins and ends: message numbers, or times that are looked up in the log.

The broker stamps messages in the order of their numbers, and time does not go back in a queue's
log. So the first message of a time is found by halves, with a look at some twenty messages.
"""

from __future__ import annotations

from functools import cache

from warren.client.table import Kept
from warren.errors import BrokerError, ConfigError, CorruptRecord
from warren.spark.broker import Reads, Runs, is_unknown_method
from warren.spark.calling import PatientCaller
from warren.spark.filters import constants_of, overlap, possible_ranges
from warren.spark.options import UNBOUNDED, Bound, ReadOptions
from warren.spark.records import parse
from warren.spark.where import may_be_true


def messages_within(caller: PatientCaller, options: ReadOptions, queue: str) -> Runs:
    """The messages of a queue that a batch query sees now, between its bounds.

    Those that its `where` does not keep for their queue, number or time are left out; a queue all
    of whose messages it does not keep is not even asked for.

    Raises:
        ConfigError: It is to see those that consumers hold, too, and the broker is too old.
    """
    where, constants = options.where, constants_of(queue)
    if where is not None and not may_be_true(where, constants):
        return []
    if options.follows:
        runs = kept_messages(caller, queue, 0, UNBOUNDED).runs
    else:
        runs = caller.call(lambda tables: tables.status(queue)).runs
    first = first_beyond(caller, queue, runs, options.start.of(queue))
    runs = cut_runs(runs, first, first_beyond(caller, queue, runs, options.end.of(queue)))
    if where is None:
        return runs

    @cache
    def first_at(stamp_ms: int) -> int:
        """The number of the first message of a time, or that behind the last one."""
        return first_beyond(caller, queue, runs, Bound(-1, stamp_ms)) if runs else 0

    return overlap(runs, possible_ranges(where, constants, first_at))


def kept_messages(
    caller: PatientCaller, queue: str, first: int, last: int, rows_max: int = 0, bytes_max: int = 0
) -> Kept:
    """What `warren.client.table.Tables.messages` says.

    Raises:
        ConfigError: The broker is too old to say it.
    """
    try:
        return caller.call(lambda tables: tables.messages(queue, first, last, rows_max, bytes_max))
    except BrokerError as error:
        if not is_unknown_method(error):
            raise
        raise ConfigError("mode 'log' needs a broker of 0.2.0 or later") from error


def cut_runs(runs: Runs, first: int, behind: int) -> Runs:
    """The parts of runs from one message on, up to that before another."""
    cut = [(max(low, first), min(high, behind - 1)) for low, high in runs]
    return [(low, high) for low, high in cut if low <= high]


def first_beyond(tables: Reads, queue: str, runs: Runs, bound: Bound) -> int:
    """The number from which on messages are beyond a bound.

    Args:
        runs: The messages that are looked at.
    """
    if bound.number >= 0 or not runs:
        return bound.number
    low, high = min(runs)[0], max(runs)[1] + 1
    while low < high:
        middle = (low + high) // 2
        found, stamp = next_stamp(tables, queue, middle, high - 1)
        if found >= 0 and stamp < bound.stamp_ms:
            low = found + 1
        else:
            high = middle  # Between that and what was found there is nothing.
    return low


def next_stamp(tables: Reads, queue: str, first: int, last: int) -> tuple[int, int]:
    """The first message of a range that there still is, and when the broker took it.

    Returns:
        Its number, -1 for none, and milliseconds since 1970.
    """
    while first <= last:
        following, data = tables.read(queue, first, last, 1)
        for stored in parse(data):
            for number, stamp in zip(stored.numbers, stored.stamps_ms, strict=True):
                if first <= number <= last:
                    return int(number), int(stamp)
        if following <= first:
            raise CorruptRecord("table.read", 0, f"no way on from message {first}")
        first = following
    return -1, 0
