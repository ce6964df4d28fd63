"""Topic patterns: the trie against a matcher that follows the definition word by word."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.limits import ROUTE_STEPS_MAX
from warren.routing.bindings import Binding
from warren.routing.topic import TopicTrie

WORDS = st.sampled_from(["a", "b", "", "*", "#"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)


def matches(pattern: list[str], key: list[str]) -> bool:
    """The definition of `*` and `#`, without any cleverness."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return matches(pattern[1:], key) or (bool(key) and matches(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def words(key: str) -> list[str]:
    return key.split(".") if key else []


def binding(pattern: str) -> Binding:
    return Binding("x", pattern, False, pattern, {}, True)


def found(trie: TopicTrie, key: str) -> list[str]:
    result: list[Binding] = []
    trie.match(key, result)
    return [one.destination for one in result]


@given(st.lists(KEYS, unique=True, max_size=12), st.data())
def test_trie_agrees_with_definition_through_adds_and_removes(
    patterns: list[str], data: st.DataObject
) -> None:
    trie = TopicTrie()
    bindings = {pattern: binding(pattern) for pattern in patterns}
    for one in bindings.values():
        trie.add(one)
    removed = data.draw(st.sets(st.sampled_from(patterns))) if patterns else set()
    for pattern in removed:
        trie.remove(bindings[pattern])
    key = data.draw(KEYS)
    expected = [
        pattern
        for pattern in patterns
        if pattern not in removed and matches(words(pattern), words(key))
    ]
    assert sorted(found(trie, key)) == sorted(expected)


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("#", "", True),
        ("#", "a.b.c", True),
        ("*", "", False),
        ("*", "a", True),
        ("", "", True),
        ("", "a", False),
        ("a.#", "a", True),
        ("a.*", "a", False),
        ("#.b", "b", True),
        ("*.#.b", "b", False),
        ("#.#", "", True),
        ("#.#", "a", True),
        ("#.#.#", "a.b", True),
        ("a.#.#", "a", True),
        ("#.#.a", "a", True),
        ("a.#.#.b", "a.b", True),
        ("*.#.#", "", False),
        ("a..b", "a..b", True),
        ("a.*.b", "a..b", True),
        ("a#", "ab", False),
    ],
)
def test_examples(pattern: str, key: str, expected: bool) -> None:
    trie = TopicTrie()
    trie.add(binding(pattern))
    assert found(trie, key) == ([pattern] if expected else [])


def steps(trie: TopicTrie, key: str) -> int:
    """What it takes to match a key."""
    return int(ROUTE_STEPS_MAX - trie.match(key, []))


def test_work_is_bounded_for_many_wildcards() -> None:
    # A recursion needs about 10**14 steps here.
    trie = TopicTrie()
    pattern = ".".join(["#", "a"] * 20)
    trie.add(binding(pattern))
    key = ".".join(["a"] * 200)
    assert found(trie, key) == [pattern]
    assert steps(trie, key) < 201 * 41 + 2 * 201


def prefixes(depth: int) -> list[str]:
    """All patterns of so many words, each of which is `a` or `*`."""
    return [".".join(words) for words in product("a*", repeat=depth)]


def test_any_words_cost_nothing_for_words_that_no_pattern_goes_on_with() -> None:
    """1,024 patterns each wait behind their `#` for the rest of the key, which is long."""
    trie = TopicTrie()
    for prefix in prefixes(10):
        trie.add(binding(f"{prefix}.#.z"))
    short, long = ".".join(["a"] * 12), ".".join(["a"] * 125)
    assert steps(trie, long) - steps(trie, short) < 3 * 113
    assert len(found(trie, long + ".z.z")) == 1_024


def test_one_pattern_of_many_behind_one_any_words_costs_one_step() -> None:
    trie = TopicTrie()
    for number in range(1_000):
        trie.add(binding(f"#.w{number}.x"))
        trie.add(binding(f"p{number}.#.z.x"))
    assert steps(trie, "p5.a.w7.z.x") < 40
    assert sorted(found(trie, "p5.a.w7.x")) == ["#.w7.x"]


def test_a_match_gives_up_when_it_has_taken_its_steps() -> None:
    trie = TopicTrie()
    for prefix in prefixes(8):
        trie.add(binding(f"{prefix}.#.z.z"))
    key = ".".join(["a"] * 8 + ["z"] * 100)
    assert steps(trie, key) > 256 * 100
    most = 10_000
    left = trie.match(key, [], most)
    assert -2 * 256 <= left < 0


def test_remove_leaves_nothing_behind() -> None:
    trie = TopicTrie()
    bindings = [binding(pattern) for pattern in ("a.b.c", "a.*.#", "#", "a.b", "", "#.b.*.#.*")]
    for one in bindings:
        trie.add(one)
    for one in bindings:
        trie.remove(one)
    root = trie._root
    assert (root.children, root.any_word, root.any_words, root.bindings) == ({}, None, None, {})
    assert trie._after_any == {}
