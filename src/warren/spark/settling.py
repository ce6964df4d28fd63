"""Repair of groups by hand: what a query that has ended for good left open, or all of the group.

It needs neither Spark nor Arrow.
"""

from __future__ import annotations

from pathlib import Path

from warren.client import connect as connect_client
from warren.client.table import GroupState, Held, HeldCheckout, Tables
from warren.errors import BrokerError, ConfigError
from warren.spark.broker import Connect, connect, is_unknown_method
from warren.spark.calling import PatientCaller
from warren.spark.checkpoint import committed
from warren.spark.group import GroupReader
from warren.spark.leases import LeaseKeeper
from warren.spark.options import UNBOUNDED, one_queue, read_options


def group_state(queue: str, group: str, uri: str, connect: Connect = connect) -> Held:
    """What a group has settled and what it holds; nothing is touched."""
    options = read_options({"amqp.uri": uri, **one_queue(queue)}, streaming=False)
    caller = PatientCaller(options.uris, 0.0, connect)
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
    caller = PatientCaller(options.uris, options.retry_seconds, connect)
    try:
        GroupReader(options, queue, caller, LeaseKeeper(options, connect)).settle(place)
    finally:
        caller.close()
    return place.number
