"""Topic patterns as a trie over words, matched in bounded time.

A binding key is words between dots; `*` stands for one word, `#` for any number of words, none
included. An empty key has no words.

Matching runs the trie as a nondeterministic automaton: after each word of the routing key there is
a set of nodes that the words so far can lead to. A node is put in the set once, however many ways
lead there, so one match looks at no more than words * nodes, whatever the patterns; a recursion
over `#.#.#` would take exponentially many.

The node of a `#` stays in the set until the last word. It is not looked at again for each: by which
words the trie goes on after any `#` is kept apart, so that a word asks only the nodes that know it.
A node that nothing follows is put in the set for the last word alone. What is left of words * nodes
is counted, and a match ends when it has taken as many steps as it may.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.limits import ROUTE_STEPS_MAX
from warren.routing.bindings import Binding

ANY_WORD: Final = "*"
ANY_WORDS: Final = "#"


@final
class TrieNode:
    """The place that one prefix of a pattern leads to.

    Attributes:
        children: By the next word, where that is not a wildcard.
        any_word: Where `*` leads.
        any_words: Where `#` leads; that node keeps itself whatever word follows.
        repeats: Whether this is the node of a `#`.
        bindings: Those whose pattern ends here.
        leads_on: Whether any pattern goes on from here.
        mark: The last step of a match that put this node in its set, if it is that of a `#`.
    """

    def __init__(self, repeats: bool) -> None:
        self.children: dict[str, TrieNode] = {}
        self.any_word: TrieNode | None = None
        self.any_words: TrieNode | None = None
        self.repeats: bool = repeats
        self.bindings: dict[Binding, None] = {}
        self.leads_on: bool = False
        self.mark: i64 = 0

    def look_ahead(self) -> None:
        """See whether any pattern goes on from here still."""
        self.leads_on = (
            len(self.children) > 0 or self.any_word is not None or self.any_words is not None
        )


def split_words(key: str) -> list[str]:
    """A key's words; neighbouring dots have an empty word between them."""
    return key.split(".") if key else []


@final
class TopicTrie:
    """The binding keys of one topic exchange, as a tree of their words."""

    def __init__(self) -> None:
        self._root: TrieNode = TrieNode(False)
        self._step: i64 = 0
        self._first: i64 = 0
        """The first step of the match under way."""
        self._after_any: dict[str, dict[TrieNode, TrieNode]] = {}
        """By word, or `*`: the nodes of `#` that know it, and where it leads from each."""

    def add(self, binding: Binding) -> None:
        """Take in a binding that is not there yet."""
        node = self._root
        for word in split_words(binding.routing_key):
            node = self._child(node, word)
        node.bindings[binding] = None

    def remove(self, binding: Binding) -> None:
        """Drop a binding that was added, and the nodes that nothing needs any more."""
        node = self._root
        words = split_words(binding.routing_key)
        path: list[TrieNode] = []
        for word in words:
            path.append(node)
            node = self._child(node, word)
        del node.bindings[binding]
        while path and not node.bindings and not node.leads_on:
            node = path.pop()
            word = words.pop()
            if word == ANY_WORDS:
                node.any_words = None
            elif word == ANY_WORD:
                node.any_word = None
            else:
                del node.children[word]
            node.look_ahead()
            if node.repeats and word != ANY_WORDS:
                known = self._after_any[word]
                del known[node]
                if not known:
                    del self._after_any[word]

    def match(self, routing_key: str, found: list[Binding], most: i64 = ROUTE_STEPS_MAX) -> i64:
        """Append the bindings whose pattern matches, each once.

        Args:
            most: Steps that it may take; a step looks at one node.

        Returns:
            How many of them are left. A negative number says that it gave up.
        """
        root = self._root
        states: list[TrieNode] = [root]
        staying: list[TrieNode] = []
        self._step += 1
        self._first = self._step
        if root.any_words is not None:
            self._stay(staying, root.any_words)
        words = split_words(routing_key)
        left = most - 1
        ahead: i64 = len(words)
        for word in words:
            ahead -= 1
            # What a word adds to these is for the next word.
            stayed: i64 = len(staying)
            left -= len(states)
            self._step += 1
            after: list[TrieNode] = []
            for node in states:
                # A node has one parent, so that nothing is put in the set twice.
                child = node.children.get(word)
                if child is not None and (ahead == 0 or child.leads_on):
                    after.append(child)
                    if child.any_words is not None:
                        self._stay(staying, child.any_words)
                child = node.any_word
                if child is not None and (ahead == 0 or child.leads_on):
                    after.append(child)
                    if child.any_words is not None:
                        self._stay(staying, child.any_words)
            if stayed > 0:
                if word != ANY_WORD:
                    left -= self._go_on(word, ahead, staying, stayed, after)
                left -= self._go_on(ANY_WORD, ahead, staying, stayed, after)
            elif not after and not staying:
                return left
            if left < 0:
                return left
            states = after
        left -= len(states) + len(staying)
        for node in states:
            found.extend(node.bindings)
        for node in staying:
            found.extend(node.bindings)
        return left

    def _go_on(
        self,
        word: str,
        ahead: i64,
        staying: list[TrieNode],
        stayed: i64,
        after: list[TrieNode],
    ) -> i64:
        """Put in the set where a word leads from the nodes of `#`; gives the steps that took.

        Args:
            ahead: How many words follow.
            stayed: How many of `staying` were there before this word.
        """
        known = self._after_any.get(word)
        if known is None:
            return 1
        led: list[TrieNode] = []
        asked = stayed
        if len(known) < stayed:
            asked = len(known)
            for node, child in known.items():
                if self._first <= node.mark < self._step and (ahead == 0 or child.leads_on):
                    led.append(child)
        else:
            for index in range(stayed):
                node = staying[index]
                next_node = node.any_word if word == ANY_WORD else node.children.get(word)
                if next_node is not None and (ahead == 0 or next_node.leads_on):
                    led.append(next_node)
        after.extend(led)
        for child in led:
            if child.any_words is not None:
                self._stay(staying, child.any_words)
        return asked

    def _stay(self, staying: list[TrieNode], node: TrieNode | None) -> None:
        """Put the node of a `#` in the set, for all words that follow; once."""
        while node is not None and node.mark < self._first:
            node.mark = self._step
            staying.append(node)
            node = node.any_words

    def _child(self, node: TrieNode, word: str) -> TrieNode:
        """Where a pattern's next word leads; made if it is not there."""
        child: TrieNode | None
        node.leads_on = True
        if word == ANY_WORDS:
            child = node.any_words
            if child is None:
                child = TrieNode(True)
                node.any_words = child
            return child
        if word == ANY_WORD:
            child = node.any_word
            if child is None:
                child = TrieNode(False)
                node.any_word = child
        else:
            child = node.children.get(word)
            if child is None:
                child = TrieNode(False)
                node.children[word] = child
        if node.repeats:
            self._after_any.setdefault(word, {})[node] = child
        return child
