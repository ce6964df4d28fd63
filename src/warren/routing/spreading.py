"""Exchange types that spread messages: each message passes one binding, none where there is none.

`x-consistent-hash` gives a binding as many places on a ring as its key says, and a message one of
them by its routing key, a header or a property: what is alike comes to the same destination, and
most of it still does when another is bound. `x-modulus-hash` counts destinations and takes the one
that the routing keys' hash says. `x-random` draws one, and `x-local-random` one that leads to a
queue of this node. Hashes and draws are Erlang's (`term_hash`), so that the same message comes to
the same destination as with RabbitMQ, if those were bound in the same order.

Of several bindings of a consistent-hash exchange to one destination the oldest counts, and when it
goes the next oldest: RabbitMQ takes the destination off its ring then, until it is started again.

Source: `rabbit_exchange_type_consistent_hash`, `rabbit_exchange_type_modulus_hash`,
`rabbit_exchange_type_random` and `rabbit_exchange_type_local_random` of RabbitMQ 4.3.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, final

from mypy_extensions import i64

from warren.message.properties import MessageProperties
from warren.routing.binding_index import BindingIndex
from warren.routing.bindings import Binding
from warren.routing.places import Places
from warren.routing.term_hash import (
    FALSE,
    TRUE,
    UNDEFINED,
    hash_binaries,
    hash_binary,
    hash_float,
    jump,
)
from warren.wire.amqp091.table import Table, Timestamp, Value, encode_entry

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
HASH_PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")
WEIGHT_MAX: Final = 10_000
"""Places on the ring that one binding may have, RabbitMQ's bound."""

DRAWS_MAX: Final = 8
"""So often a binding is drawn that leads to another node, before all of them are looked at."""

STEPS_A_PLACE: Final = 8
"""What a binding counts for, in steps, where all of them are put in order anew."""

INTEGER: Final = re.compile(r"[+-]?[0-9]+")
"""A number as Erlang reads it from text."""


def _places(routing_key: str) -> int:
    """How many places a binding has by its key.

    A key that is wrong gives none: it was checked for another exchange, in whose place this one is.
    """
    if INTEGER.fullmatch(routing_key) is None:
        return 0
    return min(max(0, int(routing_key)), WEIGHT_MAX)


def _bytes_of(text: str) -> bytes:
    """A name or a key as it came."""
    return text.encode("utf-8", "surrogateescape")


def _hash_value(value: Value) -> int:
    """What Erlang makes of a header's value: a number stands for itself, all else for its hash.

    Arrays, tables and decimals go by their bytes on the wire, which is not what RabbitMQ does.
    """
    typed: object = value
    if value is None:
        return UNDEFINED
    if isinstance(value, str):
        return int(hash_binary(_bytes_of(value)))
    if isinstance(value, bool):
        return TRUE if value else FALSE
    if isinstance(value, int):
        return 1_000 * value if isinstance(typed, Timestamp) else value
    if isinstance(value, float):
        return int(hash_float(value))
    if isinstance(value, bytes):
        return int(hash_binary(value))
    return int(hash_binary(encode_entry("", value)))


@final
class HashIndex(BindingIndex):
    """Bindings of an `x-consistent-hash` exchange: places on a ring, as many as their keys say."""

    def __init__(self, arguments: Table) -> None:
        header = arguments.get(HASH_HEADER)
        self._header: str = header if isinstance(header, str) else ""
        by_header = isinstance(header, str)
        named = arguments.get(HASH_PROPERTY)
        self._property: str = named if isinstance(named, str) and not by_header else ""
        self._by_header: bool = by_header
        super().__init__(not by_header and not self._property, by_header, self._property != "")
        self._bound: dict[Binding, None] = {}
        self._ends: list[int] = []
        """Where the places of each destination end, ascending."""
        self._owners: list[Binding] = []
        """Which binding has the places up to the end at the same index."""
        self._known: dict[tuple[bool, str], None] = {}
        """The destinations that have places."""
        self._stale: bool = False
        """Whether a binding went, so that the ring has to be laid out anew."""

    def add(self, binding: Binding) -> None:
        """Take in a binding, at the end of the ring."""
        self._bound[binding] = None
        if not self._stale:
            self._place(binding)

    def remove(self, binding: Binding) -> None:
        """Drop a binding; those after it move up."""
        del self._bound[binding]
        self._stale = True

    def _place(self, binding: Binding) -> None:
        destination = (binding.to_exchange, binding.destination)
        if destination not in self._known:
            self._known[destination] = None
            end = self._ends[-1] if self._ends else 0
            self._ends.append(end + _places(binding.routing_key))
            self._owners.append(binding)

    def select(
        self,
        routing_keys: list[str],
        headers: Table | None,
        properties: MessageProperties | None,
        found: list[Binding],
    ) -> None:
        """Append the binding that has the message's place; of its routing keys its own counts."""
        if self._property:
            assert properties is not None, "a message that is routed by its properties has some"
            self._pick(self._hash_property(properties), found)
        else:
            self.match(routing_keys[0], headers, found)

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the binding of the place that the key has, or the header."""
        if self._by_header:
            value = None if headers is None else headers.get(self._header)
            self._pick(_hash_value(value), found)
        else:
            self._pick(int(hash_binary(_bytes_of(routing_key))), found)

    def _hash_property(self, properties: MessageProperties) -> int:
        if self._property == "timestamp":
            stamp_ms = properties.timestamp_ms
            if stamp_ms is None:
                return UNDEFINED
            return int(hash_binary(str(stamp_ms // 1_000).encode()))
        named = properties.message_id
        if self._property == "correlation_id":
            named = properties.correlation_id
        return UNDEFINED if named is None else int(hash_binary(_bytes_of(named)))

    def _pick(self, key: int, found: list[Binding]) -> None:
        if self._stale:
            self._stale = False
            self._ends = []
            self._owners = []
            self._known = {}
            self.pay(STEPS_A_PLACE * len(self._bound))
            for binding in self._bound:
                self._place(binding)
        if self._ends and self._ends[-1]:
            place = int(jump(key, self._ends[-1]))
            found.append(self._owners[bisect_right(self._ends, place)])


@final
class ModulusIndex(BindingIndex):
    """Bindings of an `x-modulus-hash` exchange: its destinations in order, counted off."""

    def __init__(self) -> None:
        super().__init__(True, False)
        self._bound: dict[Binding, None] = {}
        self._ordered: list[Binding] = []
        self._stale: bool = False

    def add(self, binding: Binding) -> None:
        """Take in a binding, whatever its key."""
        self._bound[binding] = None
        self._stale = True

    def remove(self, binding: Binding) -> None:
        """Drop a binding."""
        del self._bound[binding]
        self._stale = True

    def select(
        self,
        routing_keys: list[str],
        headers: Table | None,
        properties: MessageProperties | None,
        found: list[Binding],
    ) -> None:
        """Append the binding that all of the message's routing keys lead to together."""
        if self._stale:
            self._stale = False
            self.pay(STEPS_A_PLACE * len(self._bound))
            self._ordered = sorted(self._bound, key=_in_order)
        if self._ordered:
            drawn = hash_binaries([_bytes_of(key) for key in routing_keys])
            found.append(self._ordered[drawn % i64(len(self._ordered))])

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the binding that one routing key leads to."""
        self.select([routing_key], headers, None, found)


def _in_order(binding: Binding) -> tuple[bool, bytes]:
    """Exchanges before queues, by name: Erlang's order."""
    return not binding.to_exchange, _bytes_of(binding.destination)


@final
class Draws:
    """Numbers that are as good as random (SplitMix64).

    What is drawn decides how load is spread and nothing else, so that it begins alike on every
    node.
    """

    def __init__(self) -> None:
        self._state: int = 0

    def draw(self, count: int) -> int:
        """A number from 0 on, below a count."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed = self._state
        mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        return (mixed ^ mixed >> 31) % count


class DrawnIndex(BindingIndex):
    """Bindings of which one is drawn for each message."""

    def __init__(self) -> None:
        super().__init__(False, False, at_random=True)
        self._bound: list[Binding] = []
        self._at: dict[Binding, int] = {}
        self._draws: Draws = Draws()

    def add(self, binding: Binding) -> None:
        """Take in a binding, whatever its key."""
        self._at[binding] = len(self._bound)
        self._bound.append(binding)

    def remove(self, binding: Binding) -> None:
        """Drop a binding; the last one takes its place."""
        at = self._at.pop(binding)
        last = self._bound.pop()
        if last is not binding:
            self._bound[at] = last
            self._at[last] = at

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append one of the bindings: each is as likely as any other."""
        count = len(self._bound)
        if count:
            found.append(self._bound[self._draws.draw(count)])


@final
class RandomIndex(DrawnIndex):
    """Bindings of an `x-random` exchange."""


@final
class LocalIndex(DrawnIndex):
    """Bindings of an `x-local-random` exchange: only those to queues of this node are drawn."""

    def match_here(self, places: Places, found: list[Binding]) -> None:
        """Append one of the bindings to queues that live here: each is as likely as any other."""
        count = len(self._bound)
        for _ in range(min(count, DRAWS_MAX)):
            binding = self._bound[self._draws.draw(count)]
            if places.here(binding.destination):
                found.append(binding)
                return
        self.pay(count)
        local = [binding for binding in self._bound if places.here(binding.destination)]
        if local:
            found.append(local[self._draws.draw(len(local))])
