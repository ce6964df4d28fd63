"""Topic patterns as a trie over words, matched in bounded time.

A binding key is words between dots; `*` stands for one word, `#` for any number of words, none
included. An empty key has no words.

Matching runs the trie as a nondeterministic automaton: after each word of the routing key there is
a set of nodes that the words so far can lead to. A node is put in the set once, however many ways
lead there, so one match looks at no more than words * nodes, whatever the patterns; a recursion
over `#.#.#` would take exponentially many.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.routing.bindings import Binding


@final
class TrieNode:
    """The place that one prefix of a pattern leads to.

    Attributes:
        children: By the next word, where that is not a wildcard.
        any_word: Where `*` leads.
        any_words: Where `#` leads; that node keeps itself whatever word follows.
        repeats: Whether this is the node of a `#`.
        bindings: Those whose pattern ends here.
        mark: The last step of a match that put this node in its set.
    """

    def __init__(self, repeats: bool) -> None:
        self.children: dict[str, TrieNode] = {}
        self.any_word: TrieNode | None = None
        self.any_words: TrieNode | None = None
        self.repeats: bool = repeats
        self.bindings: dict[Binding, None] = {}
        self.mark: i64 = 0


def split_words(key: str) -> list[str]:
    """A key's words; neighbouring dots have an empty word between them."""
    return key.split(".") if key else []


@final
class TopicTrie:
    """The binding keys of one topic exchange, as a tree of their words."""

    def __init__(self) -> None:
        self._root: TrieNode = TrieNode(False)
        self._step: i64 = 0

    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there yet."""
        node = self._root
        for word in split_words(binding.routing_key):
            node = _child(node, word)
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        """Drop a binding that was added, and the nodes that nothing needs any more."""
        node = self._root
        words = split_words(binding.routing_key)
        path: list[TrieNode] = []
        for word in words:
            path.append(node)
            node = _child(node, word)
        del node.bindings[binding]
        while path and _is_empty(node):
            node = path.pop()
            word = words.pop()
            if word == "*":
                node.any_word = None
            elif word == "#":
                node.any_words = None
            else:
                del node.children[word]

    def match(self, routing_key: str, found: list[Binding]) -> None:
        """Append the bindings whose pattern matches, each once."""
        states: list[TrieNode] = []
        self._step += 1
        _enter(states, self._root, self._step)
        for word in split_words(routing_key):
            self._step += 1
            after: list[TrieNode] = []
            for node in states:
                if node.repeats:
                    _enter(after, node, self._step)
                child = node.children.get(word)
                if child is not None:
                    _enter(after, child, self._step)
                if node.any_word is not None:
                    _enter(after, node.any_word, self._step)
            if not after:
                return
            states = after
        for node in states:
            found.extend(node.bindings)


def _enter(states: list[TrieNode], node: TrieNode | None, step: i64) -> None:
    """Put a node in the set of this step, and what `#` adds without taking a word."""
    while node is not None and node.mark != step:
        node.mark = step
        states.append(node)
        node = node.any_words


def _child(node: TrieNode, word: str) -> TrieNode:
    """Where a pattern's next word leads; made if it is not there."""
    child: TrieNode | None
    if word == "*":
        child = node.any_word
        if child is None:
            child = TrieNode(False)
            node.any_word = child
    elif word == "#":
        child = node.any_words
        if child is None:
            child = TrieNode(True)
            node.any_words = child
    else:
        child = node.children.get(word)
        if child is None:
            child = TrieNode(False)
            node.children[word] = child
    return child


def _is_empty(node: TrieNode) -> bool:
    return (
        not node.bindings and not node.children and node.any_word is None and node.any_words is None
    )
