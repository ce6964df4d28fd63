"""Exchange types as indexes over bindings: which of an exchange's bindings does a message pass?

Those that choose one binding for a message are in `spreading`.
"""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar, final

from mypy_extensions import i64

from warren.routing.binding_index import BindingIndex
from warren.routing.bindings import Binding
from warren.routing.headers import HeaderMatch, MatchValue, match_values
from warren.routing.spreading import HashIndex, LocalIndex, ModulusIndex, RandomIndex
from warren.routing.topic import TopicTrie
from warren.wire.amqp091.table import Table

LOCAL_RANDOM: Final = "x-local-random"
"""Passes a message to one of the queues that live on the node that it came to."""

DELAYED_MESSAGE: Final = "x-delayed-message"
"""Routes as an exchange of another type does, but keeps messages that are to wait until then."""
DELAYED_TYPE: Final = "x-delayed-type"
"""The argument that says of which type."""
STORE_PREFIX: Final = "amq.delayed."
"""What such an exchange keeps messages in is named after it; no client can declare such a name."""

RECENT_HISTORY: Final = "x-recent-history"
"""Routes as a fanout exchange does, and keeps what it routed for those that are bound later."""

PLAIN_TYPES: Final = (
    "direct",
    "fanout",
    "topic",
    "headers",
    "x-consistent-hash",
    "x-modulus-hash",
    "x-random",
    LOCAL_RANDOM,
    RECENT_HISTORY,
)
"""Those whose exchanges keep no messages that wait."""

#: Names clients may declare an exchange with.
EXCHANGE_TYPES: Final = (*PLAIN_TYPES, DELAYED_MESSAGE)

OLDEST_TYPES: Final = ("direct", "fanout", "topic", "headers")
"""Those that every release knows."""

#: A header that a binding demands, and the value that it is to have.
HeaderValue: TypeAlias = tuple[str, MatchValue]
Place = TypeVar("Place")

NONE_BOUND: Final[dict[Binding, HeaderMatch]] = {}

STEPS_A_CONDITION: Final = 4
"""What it counts for to see whether a message's headers are all that a binding demands."""


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
        self.left -= 1
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
        self.left = self._trie.match(routing_key, found, self.left)


@final
class HeadersIndex(BindingIndex):
    """The message's headers pass the binding's arguments.

    A message asks only bindings that one of its headers is a reason for: each binding stands under
    what it demands of headers, or, if it demands all of that, under one part of it, which it has in
    common with as few others as can be.
    """

    def __init__(self) -> None:
        super().__init__(False, True)
        self._bound: dict[Binding, HeaderMatch] = {}
        self._by_value: dict[HeaderValue, dict[Binding, HeaderMatch]] = {}
        self._by_name: dict[str, dict[Binding, HeaderMatch]] = {}
        """Those that ask for no value."""
        self._always: dict[Binding, HeaderMatch] = {}
        """Those that ask for nothing."""

    def add(self, binding: Binding) -> None:
        """Take in a binding with the condition that its arguments make."""
        condition = HeaderMatch(binding.arguments)
        self._bound[binding] = condition
        if condition.any:
            for name in condition.present:
                self._by_name.setdefault(name, {})[binding] = condition
            for demanded in condition.equal.items():
                self._by_value.setdefault(demanded, {})[binding] = condition
        elif condition.equal:
            chosen: HeaderValue | None = None
            fewest: i64 = 0
            for demanded in condition.equal.items():
                others: i64 = len(self._by_value.get(demanded, NONE_BOUND))
                if chosen is None or others < fewest:
                    chosen = demanded
                    fewest = others
            assert chosen is not None, "something is demanded"
            condition.chosen = chosen
            self._by_value.setdefault(chosen, {})[binding] = condition
        elif condition.present:
            self._by_name.setdefault(condition.present[0], {})[binding] = condition
        else:
            self._always[binding] = condition

    def remove(self, binding: Binding) -> None:
        """Drop a binding with its condition."""
        condition = self._bound.pop(binding)
        if condition.any:
            for name in condition.present:
                _drop(self._by_name, name, binding)
            for demanded in condition.equal.items():
                _drop(self._by_value, demanded, binding)
        elif condition.chosen is not None:
            _drop(self._by_value, condition.chosen, binding)
        elif condition.present:
            _drop(self._by_name, condition.present[0], binding)
        else:
            del self._always[binding]

    def match(self, routing_key: str, headers: Table | None, found: list[Binding]) -> None:
        """Append the bindings whose condition the message's headers meet."""
        values = match_values(headers)
        found.extend(self._always)
        several: dict[Binding, None] = {}
        """Those that one header is enough for: another may be so, too."""
        self.left -= len(values) + 1
        for given in values.items():
            for reasons in (self._by_value.get(given), self._by_name.get(given[0])):
                if reasons is None:
                    continue
                for binding, condition in reasons.items():
                    if condition.any:
                        if binding in several:
                            self.left -= 1
                        else:
                            # It is found, and no step of the search.
                            several[binding] = None
                    else:
                        self.left -= STEPS_A_CONDITION
                        if condition.passes(values):
                            found.append(binding)
                    if self.left < 0:
                        return
        found.extend(several)


def _drop(places: dict[Place, dict[Binding, HeaderMatch]], place: Place, binding: Binding) -> None:
    """Have a binding stand in one place no more."""
    bound = places[place]
    del bound[binding]
    if not bound:
        del places[place]


def new_index(kind: str, arguments: Table) -> BindingIndex:
    """An empty index for an exchange of a type, one of `EXCHANGE_TYPES`.

    Args:
        arguments: The exchange's, which were checked when it was declared.
    """
    if kind == "direct":
        return DirectIndex()
    if kind in ("fanout", RECENT_HISTORY):
        return FanoutIndex()
    if kind == "topic":
        return TopicIndex()
    if kind == "x-consistent-hash":
        return HashIndex(arguments)
    if kind == "x-modulus-hash":
        return ModulusIndex()
    if kind == "x-random":
        return RandomIndex()
    if kind == LOCAL_RANDOM:
        return LocalIndex()
    assert kind == "headers", kind
    return HeadersIndex()


def routing_type(kind: str, arguments: Table) -> str:
    """The type by whose rules an exchange routes: mostly its own.

    Args:
        arguments: The exchange's, which were checked when it was declared.
    """
    if kind != DELAYED_MESSAGE:
        return kind
    named = arguments[DELAYED_TYPE]
    assert isinstance(named, str), "it was checked"
    return named
