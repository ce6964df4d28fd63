"""Changes of a vhost's rows that keep rows, their indexes and the routes in step."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final, TypeVar, final

from mypy_extensions import i64

from warren.limits import BINDINGS_AT_ONCE_MAX, QUEUES_AT_ONCE_MAX
from warren.metadata.outcome import Outcome
from warren.metadata.parts import CommandParts
from warren.metadata.rows import EncodedRows, binding_row, exchange_row, queue_row
from warren.metadata.tables import (
    NO_OWNER,
    BindingKey,
    ExchangeRecord,
    QueueRecord,
    VhostRecord,
)
from warren.metadata.weights import weight_of_binding, weight_of_exchange, weight_of_queue
from warren.routing.bindings import Binding
from warren.routing.exchange_types import DELAYED_MESSAGE, RECENT_HISTORY, STORE_PREFIX
from warren.sharded_dict import ShardedDict
from warren.wire.amqp091.table import Table, encode_table

QUEUE_COST: Final = BINDINGS_AT_ONCE_MAX // QUEUES_AT_ONCE_MAX
"""Bindings that cost as much as a queue does by itself."""

T = TypeVar("T")
V = TypeVar("V")


def binding_key(
    destination: str, to_exchange: bool, routing_key: str, arguments: Table
) -> BindingKey:
    """What makes a binding the same as another one of its exchange.

    The order of arguments does not matter, the types of their values do.
    """
    if not arguments:
        return (destination, to_exchange, routing_key, b"")
    ordered: Table = {name: arguments[name] for name in sorted(arguments)}
    return (destination, to_exchange, routing_key, encode_table(ordered))


def add_exchange(tables: VhostRecord, exchange: ExchangeRecord) -> None:
    """Enter a new exchange, whose name is free, in a vhost."""
    tables.weight += weight_of_exchange(exchange)
    tables.exchange_rows.put(exchange, exchange_row(exchange))
    tables.exchanges[exchange.name] = exchange
    if exchange.kind == RECENT_HISTORY:
        tables.keepers[exchange.name] = exchange
    if exchange.name:
        tables.router.add_exchange(
            exchange.name,
            exchange.kind,
            exchange.internal,
            exchange.alternate(),
            exchange.arguments,
        )


def add_queue(tables: VhostRecord, queue: QueueRecord) -> None:
    """Enter a new queue, whose name is free, in a vhost."""
    tables.weight += weight_of_queue(queue)
    tables.queue_rows.put(queue, queue_row(queue))
    tables.queues[queue.name] = queue
    if queue.type.delays:
        tables.stores += 1
    else:
        tables.router.add_queue(queue.name)
    if queue.in_memory():
        tables.in_memory[queue] = None
    if queue.exclusive_owner != NO_OWNER:
        owned = tables.owned.get(queue.exclusive_owner)
        if owned is None:
            owned = ShardedDict()
            tables.owned[queue.exclusive_owner] = owned
        owned[queue] = None


def add_binding(
    tables: VhostRecord, source: ExchangeRecord, key: BindingKey, binding: Binding
) -> None:
    """Enter a new binding in a vhost; both of its ends exist."""
    tables.weight += weight_of_binding(binding)
    source.binding_rows.put(binding, binding_row(binding))
    source.bound[key] = binding
    if binding.to_exchange:
        tables.exchanges[binding.destination].incoming[binding] = None
    else:
        tables.queues[binding.destination].incoming[binding] = None
    tables.router.add_binding(binding)


def forget_incoming(tables: VhostRecord, binding: Binding) -> None:
    """Take a binding out of the row it leads to, which may be gone already."""
    if binding.to_exchange:
        exchange = tables.exchanges.get(binding.destination)
        if exchange is not None:
            del exchange.incoming[binding]
    else:
        queue = tables.queues.get(binding.destination)
        if queue is not None:
            del queue.incoming[binding]


def remove_queue(tables: VhostRecord, queue: QueueRecord, outcome: Outcome) -> None:
    """Delete a queue, the bindings to it, and auto-delete exchanges that have none left.

    What an exchange keeps messages in takes the exchange along.
    """
    del tables.queues[queue.name]
    tables.queue_rows.drop(queue)
    tables.weight -= weight_of_queue(queue)
    if queue.type.delays:
        tables.stores -= 1
    else:
        tables.router.remove_queue(queue.name)
    tables.in_memory.pop(queue)
    if queue.exclusive_owner != NO_OWNER:
        owned = tables.owned[queue.exclusive_owner]
        del owned[queue]
        if len(owned) == 0:
            del tables.owned[queue.exclusive_owner]
    outcome.deleted_queues.append(queue)
    if queue.type.delays:
        of = tables.exchanges.get(queue.name.removeprefix(STORE_PREFIX))
        if of is not None:
            remove_exchange(tables, of, outcome)
        return
    for name in _drop_incoming(tables, queue.incoming, outcome):
        exchange = tables.exchanges.get(name)
        if exchange is not None:
            remove_exchange(tables, exchange, outcome)


def remove_exchange(tables: VhostRecord, exchange: ExchangeRecord, outcome: Outcome) -> None:
    """Delete an exchange, the bindings at both ends, and auto-delete exchanges left unbound.

    A chain of auto-delete exchanges can be long, so it is followed in a loop.
    """
    waiting = [exchange]
    for row in waiting:
        if tables.exchanges.pop(row.name, None) is None:
            continue
        tables.keepers.pop(row.name, None)
        tables.exchange_rows.drop(row)
        tables.weight -= weight_of_exchange(row)
        outcome.deleted_exchanges.append(row)
        for binding in row.bound.values():
            # The router drops them with the exchange, all at once.
            tables.weight -= weight_of_binding(binding)
            forget_incoming(tables, binding)
            outcome.deleted_bindings.append((tables.name, binding))
        row.bound = {}
        row.binding_rows = EncodedRows()
        for name in _drop_incoming(tables, row.incoming, outcome):
            unbound = tables.exchanges.get(name)
            if unbound is not None:
                waiting.append(unbound)
        tables.router.remove_exchange(row.name)
        if row.kind == DELAYED_MESSAGE:
            store = tables.queues.get(STORE_PREFIX + row.name)
            if store is not None:
                remove_queue(tables, store, outcome)


@final
class Unbinding(CommandParts):
    """Takes very many bindings of a queue or an exchange out, then what they were of.

    Meanwhile it is there with fewer and fewer of them, and no other command is applied.
    """

    def __init__(
        self,
        tables: VhostRecord,
        queue: QueueRecord | None,
        exchange: ExchangeRecord | None,
        outcome: Outcome,
    ) -> None:
        """Begin with a queue, or else with an exchange."""
        super().__init__()
        self._tables: VhostRecord = tables
        self._queue: QueueRecord | None = queue
        self._exchange: ExchangeRecord | None = exchange
        outcome.changed = True

    def go_on(self, outcome: Outcome, room: i64) -> None:
        """Take so many bindings out, and with the last ones what they are of."""
        if room <= 0:
            return
        queue = self._queue
        if queue is not None:
            self.over = take_queue(self._tables, queue, outcome, room) >= 0
            return
        exchange = self._exchange
        assert exchange is not None, "it is of a queue or of an exchange"
        self.over = take_exchange(self._tables, exchange, outcome, room) >= 0


def take_queue(tables: VhostRecord, queue: QueueRecord, outcome: Outcome, room: i64) -> i64:
    """Delete a queue, or as many of its bindings as there is room for, if it has more.

    Args:
        room: How many bindings may go, at least 1; a queue is `QUEUE_COST` of them.

    Returns:
        The room that is left; negative if the queue is still there.
    """
    if tables.queues.get(queue.name) is not queue:
        # It went with its exchange.
        return room
    if queue.type.delays:
        of = tables.exchanges.get(queue.name.removeprefix(STORE_PREFIX))
        if of is not None:
            return take_exchange(tables, of, outcome, room)
    count = i64(len(queue.incoming))
    if count > room:
        _drop_some(tables, queue.incoming, outcome, room)
        return -1
    remove_queue(tables, queue, outcome)
    return max(room - count - QUEUE_COST, 0)


def take_exchange(
    tables: VhostRecord, exchange: ExchangeRecord, outcome: Outcome, room: i64
) -> i64:
    """Likewise an exchange, with the bindings at both of its ends."""
    count = i64(len(exchange.bound) + len(exchange.incoming))
    if count > room:
        keys = _first(exchange.bound, room)
        for key in keys:
            binding = exchange.bound.pop(key)
            exchange.binding_rows.drop(binding)
            tables.weight -= weight_of_binding(binding)
            tables.router.remove_binding(binding)
            forget_incoming(tables, binding)
            outcome.deleted_bindings.append((tables.name, binding))
        _drop_some(tables, exchange.incoming, outcome, room - i64(len(keys)))
        return -1
    remove_exchange(tables, exchange, outcome)
    return max(room - count - QUEUE_COST, 0)


def _drop_some(
    tables: VhostRecord, incoming: dict[Binding, None], outcome: Outcome, count: i64
) -> None:
    """Take out so many bindings that lead to what goes."""
    part = _first(incoming, count)
    for binding in part:
        del incoming[binding]
    for name in _drop_incoming(tables, part, outcome):
        unbound = tables.exchanges.get(name)
        if unbound is not None:
            remove_exchange(tables, unbound, outcome)


def _first(entries: dict[T, V], count: i64) -> list[T]:
    """The first keys of a dict, at most so many."""
    return list(islice(entries, int(count)))


def _drop_incoming(tables: VhostRecord, incoming: Iterable[Binding], outcome: Outcome) -> list[str]:
    """Remove the bindings to a deleted row; names the auto-delete exchanges left unbound."""
    unbound: list[str] = []
    for binding in incoming:
        source = tables.exchanges.get(binding.source)
        if source is None:
            # The source is the deleted exchange itself: bound to itself, and already taken apart.
            continue
        key = binding_key(
            binding.destination, binding.to_exchange, binding.routing_key, binding.arguments
        )
        del source.bound[key]
        source.binding_rows.drop(binding)
        tables.weight -= weight_of_binding(binding)
        tables.router.remove_binding(binding)
        outcome.deleted_bindings.append((tables.name, binding))
        if source.auto_delete and not source.bound:
            unbound.append(source.name)
    return unbound
