"""Exchange types as indexes over bindings: which of an exchange's bindings does a message pass?

An index finds bindings, it does not follow them: exchanges bound to exchanges, alternate exchanges
and the removal of duplicate destinations are the router's part.
"""

from __future__ import annotations

from abc import abstractmethod
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

    @abstractmethod
    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there yet."""

    @abstractmethod
    def remove(self, binding: Binding) -> None:
        """Drop a binding that was added: the same object."""

    @abstractmethod
    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the bindings that a message passes; an index may give one twice.

        Args:
            headers: The message's headers, None where it has none.
        """


@final
class DirectIndex(BindingIndex):
    """Bindings of a direct exchange: the routing key has to equal the binding key."""

    def __init__(self) -> None:
        super().__init__(True, False)
        # Dicts as ordered sets: removal must not cost a search.
        self._by_key: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        """Take in a binding under its binding key."""
        bound = self._by_key.get(binding.routing_key)
        if bound is None:
            bound = {}
            self._by_key[binding.routing_key] = bound
        bound[binding] = None

    def remove(self, binding: Binding) -> None:
        """Drop a binding, and its key with the last one."""
        bound = self._by_key[binding.routing_key]
        del bound[binding]
        if not bound:
            del self._by_key[binding.routing_key]

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the bindings whose key is the routing key."""
        bound = self._by_key.get(routing_key)
        if bound is not None:
            found.extend(bound)


@final
class FanoutIndex(BindingIndex):
    """Bindings of a fanout exchange: every message passes all of them."""

    def __init__(self) -> None:
        super().__init__(False, False)
        self._bound: dict[Binding, None] = {}

    def add(self, binding: Binding) -> None:
        """Take in a binding, whatever its key."""
        self._bound[binding] = None

    def remove(self, binding: Binding) -> None:
        """Drop a binding that was added."""
        del self._bound[binding]

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append all bindings, whatever the message."""
        found.extend(self._bound)


@final
class TopicIndex(BindingIndex):
    """Bindings of a topic exchange: words and wildcards of their keys match the routing key."""

    def __init__(self) -> None:
        super().__init__(True, False)
        self._trie: TopicTrie = TopicTrie()

    def add(self, binding: Binding) -> None:
        """Take in a binding under the pattern that is its key."""
        self._trie.add(binding)

    def remove(self, binding: Binding) -> None:
        """Drop a binding, and what no other pattern needs."""
        self._trie.remove(binding)

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the bindings whose pattern matches the routing key."""
        self._trie.match(routing_key, found)


@final
class HeadersIndex(BindingIndex):
    """The message's headers pass the binding's arguments. Costs a look at every binding."""

    def __init__(self) -> None:
        super().__init__(False, True)
        self._bound: dict[Binding, HeaderMatch] = {}

    def add(self, binding: Binding) -> None:
        """Take in a binding with the condition that its arguments make."""
        self._bound[binding] = HeaderMatch(binding.arguments)

    def remove(self, binding: Binding) -> None:
        """Drop a binding with its condition."""
        del self._bound[binding]

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the bindings whose condition the message's headers meet."""
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
