"""Patterns of operators match what Python's match, and take a bounded time, whatever they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren.errors import Refusal
from warren.metadata import commands
from warren.metadata.access_checks import check_set_permissions
from warren.metadata.machine import MetadataMachine
from warren.metadata.passwords import SHA256
from warren.metadata.pattern_steps import STEPS_MAX, MatchedName
from warren.metadata.patterns import REMEMBERED_MAX, WORK, Pattern, PatternError, new_pattern
from warren.metadata.permissions import Authority

LETTERS = "ab.1_ \nA"

CHARACTERS = st.sampled_from(LETTERS).map(re.escape) | st.sampled_from(
    [".", r"\d", r"\w", r"\s", r"\W", r"\S", r"\D", "[ab]", "[^a]", "[a-c1]", r"[^\d.]"]
)
PLACES = st.sampled_from(["^", "$", r"\b", r"\B", r"\A", r"\Z"])
TIMES = st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,3}", "*?", "+?"])


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        some.map("".join),
        some.map(lambda choices: "(" + "|".join(choices) + ")"),
        st.tuples(parts, TIMES).map(lambda both: f"(?:{both[0]}){both[1]}"),
        st.tuples(st.sampled_from(["(?=", "(?!", "(?i:", "(?m:", "(?s:"]), parts).map(
            lambda both: "".join(both) + ")"
        ),
        st.tuples(st.sampled_from(["(?<=", "(?<!"]), CHARACTERS).map(
            lambda both: "".join(both) + ")"
        ),
    )


PATTERNS = st.recursive(CHARACTERS | PLACES, larger, max_leaves=8)


@given(PATTERNS, st.text(alphabet=LETTERS, max_size=8))
def test_all_ways_at_once_find_what_trying_finds(text: str, name: str) -> None:
    expected = re.search(text, name) is not None
    pattern = Pattern(text)
    assert pattern.followed_in(name) == expected
    assert pattern.found_in(name) == expected


@pytest.mark.parametrize(
    "text",
    [
        "^(a+)+$",
        "^((((a+)+)+)+)+$",
        "^(a|aa)+$",
        "(a*)*(a*)*(a*)*b",
        "((a{1,100}){1,100}){1,100}b",
        "^(?:a?){255}a{255}$",
        r"(\b|a)*b",
        ".*.*.*.*.*b",
        r"(?=(?=(?=.*a).*a).*a).*b",
    ],
)
def test_a_pattern_that_takes_for_ever_elsewhere_is_answered(text: str) -> None:
    """The first takes `re` seconds for 26 letters, and twice as long for each further one."""
    before = WORK.steps
    assert not Pattern(text).found_in("a" * 254 + "!")
    assert WORK.steps - before <= STEPS_MAX + 10


def test_what_takes_too_many_steps_is_not_matched() -> None:
    """The same way on every node: steps are counted, and no time."""
    pattern = Pattern("^(?:(?=(?:aa?|b)*!)[ab])*!$")
    assert pattern.found_in("ab" * 10 + "!")
    name = "ab" * 120 + "!"
    assert not pattern.found_in(name)
    places = MatchedName(name)
    assert Pattern("^(?:a|b)+!$")._followed.ends(places, places.all)
    assert places.steps < STEPS_MAX


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        (r"^(?!amq\.).*", "orders", True),
        (r"^(?!amq\.).*", "amq.gen-1", False),
        (r"^(orders|payments)\.(eu|us)\..*$", "payments.us.1", True),
        (r"^(?:q\d+|x)*(?:q\d+|y)*$", "q1q22xyq3", True),
        ("(?i)^Orders", "oRDERS.1", True),
        ("(?i)^(?:Q+)+$", "qQqQ", True),
        ("^(?:[Á-Ü]+)+ß$", "ÁÉß", True),
        ("", "anything", True),
        ("(" * 50 + "a" + ")" * 50, "a", True),
        ("^$", "", True),
        (r"^(a+)\1$", "aaaa", True),
        (r"^(?>a+)b$", "aab", True),
        (r"^a++b$", "aab", True),
    ],
)
def test_what_operators_write_is_found(text: str, name: str, found: bool) -> None:
    assert Pattern(text).found_in(name) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "missing ), unterminated subpattern at position 0"),
        (r"(a+)+\1", "a reference to a group beside so many repetitions may take too long"),
        ("(" * 51 + "a" + ")" * 51, "more than 50 groups within each other"),
        ("(" * 400 + "a" + ")" * 400, ""),
    ],
)
def test_what_cannot_be_matched_is_refused(text: str, why: str) -> None:
    with pytest.raises(PatternError) as raised:
        Pattern(text)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        ("^[[:alpha:]]+$", ["abc", "XyZ"], ["a1", "a]", "[:alph", "", "\u00e9"]),
        ("^[[:digit:][:upper:]._-]+$", ["A1", "X.2-_"], ["a", ":", "[1"]),
        ("^[^[:space:]]+$", ["a:b"], ["a b", "a\tb"]),
        ("^[[:punct:]]$", ["!", "]", "[", "\\\\"[:1], "`", "~", ":"], ["a", " ", "1"]),
        ("^[][:blank:]]+$", ["]", " ]", "\t"], ["[", "b"]),
        (r"^\[[:alpha:]\]$", ["[a]", "[:]", "[h]"], ["a"]),
        ("^[a[:xdigit:]z]$", ["F", "z", "9"], ["g", "["]),
        ("^[[:word:]]([[:print:]])$", ["a~", "_ "], ["-a", "a\x00"]),
        ("[:alpha:]", ["a", ":", "h"], ["b", "x"]),
    ],
)
def test_sets_name_classes_of_characters(text: str, found: list[str], missed: list[str]) -> None:
    pattern = Pattern(text)
    for name in found:
        assert pattern.found_in(name) and pattern.followed_in(name), name
    for name in missed:
        assert not pattern.found_in(name) and not pattern.followed_in(name), name


@pytest.mark.parametrize(
    ("text", "found", "missed"),
    [
        ("^keda(?i)-x$", ["keda-x", "keda-X"], ["KEDA-x", "Keda-X"]),
        ("^(a(?i)b)c$", ["abc", "aBc"], ["Abc", "abC"]),
        ("^(a(?i)b|c)$", ["ab", "aB", "c", "C"], ["Ab", "d"]),
        ("(?i)^a(?-i)b", ["Ab", "ab"], ["aB", "AB"]),
        ("^a(?s).b", ["a\nb", "axb"], ["ab"]),
        (r"^\Qa.b\E(?i)c", ["a.bc", "a.bC"], ["axbc", "A.bc"]),
        ("^(?<tenant>t[0-9])[.]", ["t1."], ["t."]),
        ("^[[:alpha:]]+(?i)x$", ["ax", "aX"], ["1x"]),
        # Too many ways to be tried.
        ("^(a+)+(?i)b+$", ["aab", "aaB"], ["Ab", "a" * 200 + "c"]),
    ],
)
def test_flags_count_from_where_they_stand(text: str, found: list[str], missed: list[str]) -> None:
    """As with RabbitMQ, whose definitions have such patterns of policies and permissions."""
    pattern = new_pattern(text)
    assert [name for name in [*found, *missed] if pattern.found_in(name)] == found
    machine = MetadataMachine()
    machine.apply(1, commands.DeclareVhost("/"))
    machine.apply(2, commands.SetUser("u", b"", SHA256, [], False))
    machine.apply(3, check_set_permissions(machine, "u", "/", text, "", ""))
    authority = Authority(machine)
    for name in found:
        authority.check_resource("u", "/", "configure", "queue", name)
    for name in missed:
        with pytest.raises(Refusal):
            authority.check_resource("u", "/", "configure", "queue", name)


@pytest.mark.parametrize("text", ["[[:letter:]]", "[[:^alpha:]]", "[[::]]", "[a[:b:]"])
def test_classes_that_there_are_not_are_refused(text: str) -> None:
    """Tables that have them already can be read."""
    with pytest.raises(PatternError, match="there is no class"):
        new_pattern(text)
    assert Pattern(text).found_in(":]")
    new_pattern("[[:alpha:]]")


HEAVY = "^((?=(a{1,250}){1,250}x)a|aa)+y"


def steps_of(pattern: Pattern, name: str) -> int:
    """What it costs to see whether a pattern is found in a name."""
    before = WORK.steps
    pattern.found_in(name)
    return int(WORK.steps - before)


def test_what_a_pattern_said_of_a_name_is_remembered() -> None:
    pattern = Pattern(HEAVY)
    name = "a" * 250
    assert steps_of(pattern, name) > STEPS_MAX
    assert steps_of(pattern, name) == 0
    for number in range(REMEMBERED_MAX):
        pattern.found_in(f"n{number}")
    assert steps_of(pattern, name) > STEPS_MAX, "so many names and no more"
    assert len(pattern._said or {}) <= REMEMBERED_MAX


@pytest.mark.parametrize("text", [HEAVY, HEAVY.replace("^", "")])
def test_one_that_takes_too_many_steps_is_refused_where_it_is_set(text: str) -> None:
    """Tables that have it already can be read."""
    Pattern(text)
    with pytest.raises(PatternError, match=f"more than {STEPS_MAX} steps for names such as '"):
        new_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        ".*orders.*",
        "^.*orders.*$",
        "^([a-z]+\\.)+[a-z]+$",
        "(?!.*tmp)orders",
        "^(?=.*eu)(?=.*prod)",
        "^(orders|payments)-.*-(eu|us)-.*$",
        ".*.*.*",
        "^(a+)+$",
    ],
)
def test_what_operators_write_is_let_in_and_costs_little(text: str) -> None:
    pattern = new_pattern(text)
    for name in ("orders.eu.prod", "a" * 250, "orders-x-eu-" * 20, "tmp.orders"):
        assert steps_of(pattern, name) < 1_600, name


@pytest.mark.parametrize("text", ["(?=.*b)a", "(?!.*b)a", "(?![^b]*b)a", "(?=a*b)a", "(?!b*a)."])
@pytest.mark.parametrize("name", ["aab", "ba", "a\nb", "", "b", "aaa", "bba"])
def test_looking_ahead_through_the_rest_of_a_name(text: str, name: str) -> None:
    assert Pattern(text).followed_in(name) == (re.search(text, name) is not None)
