"""From an exchange and a routing key to queues: the routes of one vhost, and a cache of them.

A message leaves its exchange through the bindings it passes; through exchanges bound to the
exchange, each visited once, so that cycles end; and, where an exchange has nothing for it, through
that exchange's alternate. The default exchange leads to the queue that the key names.

Routes are cached by exchange and key until the topology changes. Keys are chosen by clients, so the
cache is bounded, in entries and in destinations: when the newer half is full it becomes the older
one, which is dropped at the next turn; what is still in use is found there and kept.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.limits import ROUTE_STEPS_MAX
from warren.message.delays import delay_of
from warren.message.properties import MessageProperties
from warren.routing.alternates import ALTERNATE_EXCHANGE, Alternates
from warren.routing.binding_index import BindingIndex
from warren.routing.bindings import Binding
from warren.routing.exchange_types import (
    DELAYED_MESSAGE,
    RECENT_HISTORY,
    STORE_PREFIX,
    new_index,
    routing_type,
)
from warren.routing.places import Places
from warren.routing.spreading import LocalIndex
from warren.routing.terms import readable, text_term, type_name
from warren.sharded_dict import ShardedDict
from warren.wire.amqp091.table import Table

CACHED_ROUTES_MAX: Final = 16_384
"""Routes in each half of the cache. A busy topic exchange has some thousand keys in use; at up to
255 bytes a key this is a few megabytes."""

CACHED_DESTINATIONS_MAX: Final = 262_144
"""Destinations in each half of the cache, which are 8 bytes each."""


@final
class ExchangeNode:
    """One exchange as the router sees it."""

    def __init__(
        self, name: str, kind: str, internal: bool, alternate: str, arguments: Table
    ) -> None:
        self.name: str = name
        self.internal: bool = internal
        self.alternate: str = alternate
        self.declared_alternate: bool = alternate != "" or ALTERNATE_EXCHANGE in arguments
        self.asked: i64 = 0
        """As of which change of policies `alternate` is known, if it was not declared."""
        self.store: str = STORE_PREFIX + name if kind == DELAYED_MESSAGE else ""
        """What messages wait in that are to be delayed; empty where none are."""
        self.keeps: bool = kind == RECENT_HISTORY
        self.index: BindingIndex = new_index(routing_type(kind, arguments), arguments)
        self.local: LocalIndex | None = self.index if isinstance(self.index, LocalIndex) else None
        self.to_exchanges: dict[Binding, None] = {}
        self.changed: i64 = 0
        """Since which generation it is there and has the bindings that it has."""


@final
class Reach:
    """What the routes from an exchange depend on, those of exchanges that it leads to included."""

    def __init__(self) -> None:
        self.by_key: bool = False
        self.by_headers: bool = False
        self.by_properties: bool = False
        self.at_random: bool = False
        self.keeps: bool = False

    def by_message(self) -> bool:
        """Whether each message has a route of its own, by more than its routing key."""
        return self.by_headers or self.by_properties or self.at_random


@final
class Router:
    """The routes of one vhost.

    Attributes:
        generation: Grows with every change of the topology; what was computed from an older one
            may be wrong.
        alternates: Knows the alternates of exchanges that were declared without.
        places: Knows which queues live on this node.
        bounds_keys: Whether there are users here who may not use any routing key; which, the
            metadata says.
        steps: What all searches for routes have cost so far.
        gave_up: Whether the newest search took too many steps. It led nowhere then.
    """

    def __init__(
        self,
        vhost: str,
        routes_max: i64 = CACHED_ROUTES_MAX,
        destinations_max: i64 = CACHED_DESTINATIONS_MAX,
    ) -> None:
        self.generation: i64 = 1
        self.bounds_keys: bool = False
        self.steps: i64 = 0
        self.gave_up: bool = False
        self.alternates: Alternates = Alternates()
        self.places: Places = Places()
        self._policies: i64 = 1
        """Grows whenever `alternates` may say something else."""
        self._all_changed: i64 = 1
        """Since which generation that is so, or all exchanges are others."""
        self._queues_changed: i64 = 1
        """Since which generation there are the queues that there are."""
        self._routes_max: i64 = routes_max
        self._destinations_max: i64 = destinations_max
        self._vhost: str = vhost
        self._exchanges: dict[str, ExchangeNode] = {}
        self._queues: ShardedDict[str, list[str]] = ShardedDict()
        self._none: list[str] = []
        self._newer: dict[str, dict[str, list[str]]] = {}
        self._older: dict[str, dict[str, list[str]]] = {}
        self._newer_routes: i64 = 0
        self._newer_destinations: i64 = 0
        self._reaches: dict[str, Reach] = {}

    # --- topology -------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all exchanges, queues and bindings."""
        self._exchanges = {}
        self._queues = ShardedDict()
        self._changed()
        self._all_changed = self.generation

    def retire(self) -> None:
        """Lead nowhere from now on: the vhost is gone, and nothing here refers to its tables."""
        self.alternates = Alternates()
        self.places = Places()
        self.clear()

    def swap(self, other: Router) -> None:
        """Route as another one does, which has the routes of this one from now on."""
        exchanges, queues = self._exchanges, self._queues
        self._exchanges = other._exchanges
        self._queues = other._queues
        other._exchanges = exchanges
        other._queues = queues
        self.bounds_keys = other.bounds_keys
        self._changed()
        self._all_changed = self.generation

    def add_queue(self, name: str) -> None:
        """A queue was declared: the default exchange leads to it."""
        self._queues[name] = [name]
        self.generation += 1
        self._queues_changed = self.generation

    def remove_queue(self, name: str) -> None:
        """A queue was deleted; its bindings are removed by themselves."""
        del self._queues[name]
        self.generation += 1
        self._queues_changed = self.generation

    def add_exchange(
        self,
        name: str,
        kind: str,
        internal: bool,
        alternate: str,
        arguments: Table | None = None,
    ) -> None:
        """Take in an exchange that was declared.

        Args:
            kind: One of `EXCHANGE_TYPES`.
            alternate: Where to send what it cannot route; empty for nowhere.
            arguments: What it was declared with.
        """
        assert name not in self._exchanges
        given: Table = {} if arguments is None else arguments
        node = ExchangeNode(name, kind, internal, alternate, given)
        self._exchanges[name] = node
        self._changed()
        node.changed = self.generation

    def remove_exchange(self, name: str) -> None:
        """An exchange was deleted: bindings from it go with it, those to it are removed before."""
        del self._exchanges[name]
        self._changed()

    def add_binding(self, binding: Binding) -> None:
        """Take in a new binding between an exchange and a queue or exchange that exist."""
        node = self._exchanges[binding.source]
        node.index.add(binding)
        if binding.to_exchange:
            node.to_exchanges[binding] = None
        self._changed()
        node.changed = self.generation

    def remove_binding(self, binding: Binding) -> None:
        """Drop a binding that was added: the same object."""
        node = self._exchanges[binding.source]
        node.index.remove(binding)
        if binding.to_exchange:
            del node.to_exchanges[binding]
        self._changed()
        node.changed = self.generation

    def policies_changed(self) -> None:
        """What `alternates` says may be something else now."""
        self._policies += 1
        self._changed()
        self._all_changed = self.generation

    def changed(self, exchange: str) -> i64:
        """Since which generation an exchange leads to where it leads, for messages of any kind.

        Exchanges that it leads to count with it. It looks at each of these, and no binding to a
        queue.
        """
        newest = self._all_changed
        if not exchange:
            return max(newest, self._queues_changed)
        seen: dict[str, None] = {exchange: None}
        left = [exchange]
        while left:
            node = self._exchanges.get(left.pop())
            if node is None:
                continue
            newest = max(newest, node.changed)
            leads_to = [binding.destination for binding in node.to_exchanges]
            leads_to.append(self._alternate(node))
            for name in leads_to:
                if name and name not in seen:
                    seen[name] = None
                    left.append(name)
        return newest

    def _alternate(self, node: ExchangeNode) -> str:
        """The alternate exchange of one; what it was declared with counts before policies."""
        if not node.declared_alternate and node.asked != self._policies:
            node.asked = self._policies
            node.alternate = self.alternates.alternate(node.name)
        return node.alternate

    def _changed(self) -> None:
        self.generation += 1
        if self._newer or self._older:
            self._newer = {}
            self._older = {}
            self._newer_routes = 0
            self._newer_destinations = 0
        if self._reaches:
            self._reaches = {}

    # --- publishing -----------------------------------------------------------------------------

    def check_publish(self, exchange: str) -> None:
        """Refuse a publish to an exchange that is not there or not for clients.

        Raises:
            Refusal: `NOT_FOUND` or `ACCESS_REFUSED`.
        """
        if not exchange:
            return
        node = self._exchanges.get(exchange)
        if node is None:
            name = readable(exchange.encode("utf-8", "surrogateescape"))
            raise Refusal(NOT_FOUND, f"no exchange '{name}' in vhost '{self._vhost}'")
        if node.internal:
            raise Refusal(
                ACCESS_REFUSED,
                f"cannot publish to internal exchange '{exchange}' in vhost '{self._vhost}'",
            )

    def by_message(self, exchange: str) -> bool:
        """Whether messages with one routing key may have different routes from this exchange."""
        return self._reach(exchange).by_message()

    def needs_properties(self, exchange: str) -> bool:
        """Whether a route from this exchange may depend on properties that are no headers."""
        return self._reach(exchange).by_properties

    def route(
        self,
        exchange: str,
        routing_key: str,
        headers: Table | None = None,
        properties: MessageProperties | None = None,
    ) -> list[str]:
        """The queues that a message goes to, each once, in an order that is stable.

        Args:
            exchange: One that `check_publish` let pass; an unknown one leads nowhere.
            headers: The message's headers; only looked at where `by_message`.
            properties: All of its properties; only looked at where `needs_properties`.

        Returns:
            Names of existing queues. The list is shared: do not change it.
        """
        if not exchange:
            found = self._queues.get(routing_key)
            return self._none if found is None else found
        routes = self._newer.get(exchange)
        if routes is not None:
            found = routes.get(routing_key)
            if found is not None:
                return found
        return self._find(exchange, routing_key, headers, properties)

    def route_keys(
        self,
        exchange: str,
        routing_keys: list[str],
        headers: Table | None = None,
        properties: MessageProperties | None = None,
    ) -> list[str]:
        """`route` for a message with several routing keys, as `CC` and `BCC` headers give it.

        The keys go together: an alternate exchange only gets what no key of them could route.
        """
        if exchange:
            return self._search(exchange, routing_keys, headers, properties)
        names: dict[str, None] = {}
        for routing_key in routing_keys:
            if routing_key in self._queues:
                names[routing_key] = None
        return list(names)

    def keeps(self, exchange: str) -> bool:
        """Whether a message may come from this exchange to one that keeps recent messages."""
        return self._reach(exchange).keeps

    def route_kept(
        self,
        exchange: str,
        routing_keys: list[str],
        headers: Table | None,
        properties: MessageProperties | None,
        keepers: list[str],
    ) -> list[str]:
        """`route_keys` from an exchange that `keeps`, and which exchanges keep the message.

        Args:
            keepers: The names of those are appended, each once.
        """
        return self._search(exchange, routing_keys, headers, properties, keepers)

    def _find(
        self,
        exchange: str,
        routing_key: str,
        headers: Table | None,
        properties: MessageProperties | None,
    ) -> list[str]:
        """`route` where the newer half of the cache has no answer."""
        reach = self._reach(exchange)
        if reach.by_message():
            return self._search(exchange, [routing_key], headers, properties)
        if not reach.by_key:
            # One entry serves all keys. It is found at the cost of one more look.
            routing_key = ""
            routes = self._newer.get(exchange)
            if routes is not None and "" in routes:
                return routes[""]
        found: list[str] | None = None
        older = self._older.get(exchange)
        if older is not None:
            found = older.get(routing_key)
        if found is None:
            found = self._search(exchange, [routing_key], None, None)
            if self.gave_up:
                return found
        self._remember(exchange, routing_key, found)
        return found

    def _remember(self, exchange: str, routing_key: str, found: list[str]) -> None:
        if (
            self._newer_routes >= self._routes_max
            or self._newer_destinations >= self._destinations_max
        ):
            self._older = self._newer
            self._newer = {}
            self._newer_routes = 0
            self._newer_destinations = 0
        routes = self._newer.get(exchange)
        if routes is None:
            if exchange not in self._exchanges:
                return
            routes = {}
            self._newer[exchange] = routes
        routes[routing_key] = found
        self._newer_routes += 1
        self._newer_destinations += len(found)

    def _search(
        self,
        exchange: str,
        routing_keys: list[str],
        headers: Table | None,
        properties: MessageProperties | None,
        keepers: list[str] | None = None,
    ) -> list[str]:
        """Follow bindings from an exchange, breadth first; note exchanges that keep messages.

        A message that would take more than `ROUTE_STEPS_MAX` steps leads nowhere: `gave_up`. Queues
        that are found count, but not towards that: an exchange may have as many as it likes.
        """
        names: dict[str, None] = {}
        seen: dict[str, None] = {exchange: None}
        waiting = [exchange]
        left: i64 = ROUTE_STEPS_MAX
        self.gave_up = False
        for name in waiting:
            node = self._exchanges.get(name)
            if node is None:
                continue
            if node.store and delay_of(headers) > 0:
                # It goes through the exchange when its time has come.
                names[node.store] = None
                continue
            if node.keeps and keepers is not None:
                keepers.append(name)
            found: list[Binding] = []
            if node.local is not None:
                node.local.left = left
                node.local.match_here(self.places, found)
                left = node.local.left - 1
            else:
                index = node.index
                index.left = left
                index.select(routing_keys, headers, properties, found)
                left = index.left - 1
            if left < 0:
                self.gave_up = True
                break
            left -= len(found)
            known: i64 = len(names)
            for binding in found:
                if not binding.to_exchange:
                    names[binding.destination] = None
                elif binding.destination not in seen:
                    seen[binding.destination] = None
                    waiting.append(binding.destination)
            left += len(names) - known
            if not found:
                alternate = self._alternate(node)
                if alternate and alternate not in seen:
                    seen[alternate] = None
                    waiting.append(alternate)
        self.steps += ROUTE_STEPS_MAX - left + len(names)
        if self.gave_up or not names:
            return self._none
        return list(names)

    def _reach(self, exchange: str) -> Reach:
        known = self._reaches.get(exchange)
        if known is not None:
            return known
        reach = Reach()
        self.gave_up = False
        seen: dict[str, None] = {exchange: None}
        waiting = [exchange]
        for name in waiting:
            node = self._exchanges.get(name)
            if node is None:
                continue
            self.steps += len(node.to_exchanges) + 1
            if node.index.by_key:
                reach.by_key = True
            if node.index.by_headers or node.store:
                reach.by_headers = True
            if node.index.by_properties:
                reach.by_properties = True
            if node.index.at_random:
                reach.at_random = True
            if node.keeps:
                reach.keeps = True
            for binding in node.to_exchanges:
                if binding.destination not in seen:
                    seen[binding.destination] = None
                    waiting.append(binding.destination)
            alternate = self._alternate(node)
            if alternate and alternate not in seen:
                seen[alternate] = None
                waiting.append(alternate)
        if exchange in self._exchanges:
            self._reaches[exchange] = reach
        return reach


def routing_keys(routing_key: str, headers: Table) -> list[str]:
    """The routing key of a message and those its `CC` and `BCC` headers add.

    Raises:
        Refusal: `PRECONDITION_FAILED`, one of the headers is not an array.

    Source: RabbitMQ's sender-selected distribution.
    """
    keys = [routing_key]
    for name in ("CC", "BCC"):
        if name in headers:
            values = headers[name]
            if not isinstance(values, list):
                raise Refusal(
                    PRECONDITION_FAILED,
                    "invalid message: {unacceptable_type_in_header,"
                    f"{text_term(name)},{type_name(values)}}}",
                )
            keys.extend([value for value in values if isinstance(value, str)])
    return keys
