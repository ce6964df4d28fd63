"""Exchange types as indexes over bindings: which of an exchange's bindings does a message pass?

An index finds bindings, it does not follow them: exchanges bound to exchanges, alternate exchanges
and the removal of duplicate destinations are the router's part.
"""

from __future__ import annotations

from typing import Final, final

from warren.routing.bindings import Binding
from warren.routing.headers import HeaderMatch, match_values
from warren.routing.topic import TopicTrie
from warren.wire.amqp091.table import Table

#: Names clients may declare an exchange with.
EXCHANGE_TYPES: Final = ("direct", "fanout", "topic", "headers")


class BindingIndex:
    """The bindings of one exchange, arranged for one type's way to match.

    Attributes:
        by_key: Whether the routing key matters.
        by_headers: Whether the message's headers matter.
    """

    def __init__(self, by_key: bool, by_headers: bool) -> None:
        self.by_key: bool = by_key
        self.by_headers: bool = by_headers

    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there yet."""
        raise AssertionError("an index defines add")

    def remove(self, binding: Binding) -> None:
        """Drop a binding that was added: the same object."""
        raise AssertionError("an index defines remove")

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the bindings that a message passes; an index may give one twice.

        Args:
            headers: The message's headers, None where it has none.
        """
        raise AssertionError("an index defines match")


@final
class DirectIndex(BindingIndex):
    """Routing key equals binding key."""

    def __init__(self) -> None:
        super().__init__(True, False)
        # Dicts as ordered sets: removal must not cost a search.
        self._by_key: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        bound = self._by_key.get(binding.routing_key)
        if bound is None:
            bound = {}
            self._by_key[binding.routing_key] = bound
        bound[binding] = None

    def remove(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        bound = self._by_key[binding.routing_key]
        del bound[binding]
        if not bound:
            del self._by_key[binding.routing_key]

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """See `BindingIndex`."""
        bound = self._by_key.get(routing_key)
        if bound is not None:
            found.extend(bound)


@final
class FanoutIndex(BindingIndex):
    """Everything passes."""

    def __init__(self) -> None:
        super().__init__(False, False)
        self._bound: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        self._bound[binding] = None

    def remove(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        del self._bound[binding]

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """See `BindingIndex`."""
        found.extend(self._bound)


@final
class TopicIndex(BindingIndex):
    """Routing key matches the binding key's words and wildcards."""

    def __init__(self) -> None:
        super().__init__(True, False)
        self._trie: TopicTrie = TopicTrie()

    def add(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        self._trie.add(binding)

    def remove(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        self._trie.remove(binding)

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """See `BindingIndex`."""
        self._trie.match(routing_key, found)


@final
class HeadersIndex(BindingIndex):
    """The message's headers pass the binding's arguments. Costs a look at every binding."""

    def __init__(self) -> None:
        super().__init__(False, True)
        self._bound: dict[Binding, HeaderMatch] = {}

    def add(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        self._bound[binding] = HeaderMatch(binding.arguments)

    def remove(self, binding: Binding) -> None:
        """See `BindingIndex`."""
        del self._bound[binding]

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """See `BindingIndex`."""
        values = match_values(headers)
        for binding, condition in self._bound.items():
            if condition.passes(values):
                found.append(binding)


def new_index(kind: str) -> BindingIndex:
    """An empty index for an exchange type, one of `EXCHANGE_TYPES`."""
    if kind == "direct":
        return DirectIndex()
    if kind == "fanout":
        return FanoutIndex()
    if kind == "topic":
        return TopicIndex()
    assert kind == "headers", kind
    return HeadersIndex()
