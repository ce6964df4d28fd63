"""Repair of groups by hand: what a query that has ended for good left open, or all of the group.

It needs neither Spark nor Arrow.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final, NamedTuple

from warren.client import connect as connect_client
from warren.client.table import GroupState, Held, HeldCheckout, Tables
from warren.errors import BrokerError, ConfigError
from warren.spark.broker import Connect, Fenced, connect, is_unknown_method
from warren.spark.calling import PatientCaller
from warren.spark.checkpoint import committed
from warren.spark.group import GroupReader
from warren.spark.leases import LeaseKeeper
from warren.spark.options import UNBOUNDED, one_queue, read_options

#: A group that called so short a time ago has a query that runs. One that is idle calls every few
#: seconds; one with a long batch may be silent for longer.
ACTIVE_SECONDS: Final = 60


class Reset(NamedTuple):
    """What setting a group back comes to; afterwards it holds nothing.

    Attributes:
        settled: The last checkout that is settled before: what was in those has left the queue.
        settle: Open checkouts that are taken for processed: their messages leave the queue.
        give_back: Open checkouts whose messages go back to the queue, and are read again.
    """

    settled: int
    settle: list[HeldCheckout]
    give_back: list[HeldCheckout]


def plan_reset(held: Held, number: int | None, since_age_ms: int | None) -> Reset:
    """What is to be settled and what to be given back.

    Args:
        number: The last checkout that is taken for processed; None for none beyond those settled.
        since_age_ms: In its place: checkouts that have been open for longer are taken for
            processed.

    Raises:
        ConfigError: The group cannot be set there.
    """
    if since_age_ms is not None:
        if any(each.age_ms < 0 for each in held.open):
            raise ConfigError(
                "some of its checkouts are of nodes of 0.1.0, and it is not known when they were "
                "opened: give the number of a checkout"
            )
        settle = [each for each in held.open if each.age_ms > since_age_ms]
    elif number is None:
        settle = []
    else:
        newest = max((each.number for each in held.open), default=held.settled)
        if number < held.settled:
            raise ConfigError(
                f"checkout {held.settled} is settled: what was in it and in those before has left "
                "the queue, and no group gets it again"
            )
        if number > newest:
            raise ConfigError(f"it has no checkout {number}; the newest is {newest}")
        settle = [each for each in held.open if each.number <= number]
    return Reset(held.settled, settle, held.open[len(settle) :])


def reset_group(
    queue: str,
    group: str,
    uri: str,
    number: int | None = None,
    since_ms: int | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> Reset:
    """Have a group hold nothing: what is taken for processed is settled, all else given back.

    Args:
        number: As for `plan_reset`.
        since_ms: In its place a time, in milliseconds since 1970.
        dry_run: Only see what would come of it.
        force: Whether a query of the group that runs is ended by it.

    Raises:
        ConfigError: There is no such group, or it cannot be set there.
        Fenced: A query of the group runs.
    """
    options = read_options({"amqp.uri": uri, **one_queue(queue)}, streaming=False)
    with connect_client(options.uris[0], "warren groups") as connection:
        tables = Tables(connection.channel())
        found = _found(tables, queue, group)
        now_ms = tables.backlog(queue, group).now_ms
        age_ms = None if since_ms is None else now_ms - since_ms
        plan = plan_reset(tables.held(queue, group), number, age_ms)
        if dry_run:
            return plan
        # The time of a log that nothing comes to stands still.
        silent_ms = max(now_ms, int(time.time() * 1000)) - found.called_ms
        if silent_ms < ACTIVE_SECONDS * 1000 and not force:
            raise Fenced(
                f"group '{group}' called {max(silent_ms, 0) // 1000} s ago, so a query of it may "
                f"run: stop that and wait until it has been silent for {ACTIVE_SECONDS} s, or end "
                "it by --force"
            )
        epoch = tables.acquire(queue, group, found.lease_ms).epoch
        if plan.settle:
            tables.settle(queue, group, epoch, plan.settle[-1].number)
        tables.release(queue, group, epoch)
        return plan


def group_state(queue: str, group: str, uri: str, connect: Connect = connect) -> Held:
    """What a group has settled and what it holds; nothing is touched."""
    options = read_options({"amqp.uri": uri, **one_queue(queue)}, streaming=False)
    caller = PatientCaller(options.uris, 0.0, connect, seeks=False)
    try:
        try:
            return caller.call(lambda tables: tables.held(queue, group))
        except BrokerError as error:
            if not is_unknown_method(error):
                raise
        # A node of 0.1.0 tells all but the ages.
        settled = caller.call(lambda tables: tables.status(queue, group)).settled
        open_ = caller.call(lambda tables: tables.checkouts(queue, group, 0, UNBOUNDED))
        held = [(each.number, sum(last - first + 1 for first, last in each.runs)) for each in open_]
        return Held(settled, [HeldCheckout(number, count, -1) for number, count in held])
    finally:
        caller.close()


def groups_of(queue: str, uri: str) -> list[GroupState]:
    """All groups of a queue; nothing is touched."""
    options = read_options({"amqp.uri": uri, **one_queue(queue)}, streaming=False)
    with connect_client(options.uris[0], "warren groups") as connection:
        return Tables(connection.channel()).groups(queue)


def delete_group(queue: str, group: str, uri: str) -> GroupState:
    """Have a group be gone, with what it held back in the queue; gives what it was like.

    A query of the group that runs is ended by this, with nothing settled.

    Raises:
        ConfigError: The queue has no such group.
    """
    options = read_options({"amqp.uri": uri, **one_queue(queue)}, streaming=False)
    with connect_client(options.uris[0], "warren groups") as connection:
        tables = Tables(connection.channel())
        found = _found(tables, queue, group)
        tables.delete(queue, group)
        return found


def release_group(queue: str, group: str, uri: str) -> GroupState:
    """Have a group give all back that it holds, with nothing settled; gives what it was like.

    A query of the group that runs is ended by this.

    Raises:
        ConfigError: The queue has no such group.
    """
    options = read_options({"amqp.uri": uri, **one_queue(queue)}, streaming=False)
    with connect_client(options.uris[0], "warren groups") as connection:
        tables = Tables(connection.channel())
        found = _found(tables, queue, group)
        epoch = tables.acquire(queue, group, found.lease_ms).epoch
        tables.release(queue, group, epoch)
        return found


def _found(tables: Tables, queue: str, group: str) -> GroupState:
    for each in tables.groups(queue):
        if each.name == group:
            return each
    raise ConfigError(f"queue '{queue}' has no group '{group}'")


def settle_by_checkpoint(
    queue: str, group: str, checkpoint: Path, uri: str, connect: Connect = connect
) -> int:
    """Settle what a query has committed that will not run again; the last checkout it has settled.

    A query of the group that runs is ended by this.

    Raises:
        ConfigError: The folder is no checkpoint of a query of this queue, or has no commit.
        RowsLost: The checkpoint and the group do not fit each other; nothing was settled.
    """
    place = committed(checkpoint, queue)
    if place is None:
        raise ConfigError(f"{checkpoint} has no batch that is committed")
    given = {"amqp.uri": uri, **one_queue(queue), "groupId": group, "retryTimeout": "0"}
    options = read_options(given, streaming=True)
    caller = PatientCaller(options.uris, options.retry_seconds, connect, seeks=False)
    try:
        GroupReader(options, queue, caller, LeaseKeeper(options, connect)).settle(place)
    finally:
        caller.close()
    return place.number
