"""Filters by name say what RabbitMQ's say; `tests/http` compares some with it."""

from __future__ import annotations

import pytest

from warren.admin.service.name_filters import name_filter
from warren.metadata.pattern_signs import with_python_flags
from warren.metadata.patterns import PatternError


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("keda", "keda"),
        ("keda(?i)-1", "keda(?i:-1)"),
        ("a(?i)b|c", "a(?i:b)|(?i:c)"),
        ("(a(?i)b|c)d", "(a(?i:b)|(?i:c))d"),
        ("(?i)a(?-i)b", "(?i:a(?-i:b))"),
        ("(?)a", "a"),
        ("(?i:a)b", "(?i:a)b"),
        ("(?<name>a)(?<!b)(?<=c)", "(?P<name>a)(?<!b)(?<=c)"),
        (r"\Qa.b\E.", r"a\.b."),
        (r"\Qa|b", r"a\|b"),
        (r"[(?i)]\(?i)"[:-1], r"[(?i)]\(?i"),
        ("[]|)]", "[]|)]"),
        ("[[:alpha:]|]", "[[:alpha:]|]"),
        ("a(?#|))b"[:-3] + ")b", "a(?#|)b"),
    ],
)
def test_flags_become_those_of_groups(text: str, python: str) -> None:
    assert with_python_flags(text) == python


@pytest.mark.parametrize("text", ["a)|(b", "[a", "(?#a", "(a", "a(?i", "*", "(?i)" * 60, "(" * 60])
def test_what_is_no_expression_fits_no_name(text: str) -> None:
    wanted = name_filter(text, True)
    assert wanted is not None
    assert not any(wanted(name) for name in ("a", "b", text, ""))


@pytest.mark.parametrize("piece", ["[", "(?#", "(?i)", "|(?i)", "(", ")", "\\Q", "(?<a>", "\\"])
def test_an_expression_of_any_length_takes_time_by_its_length(piece: str) -> None:
    """What comes of one is at most some times as long, whoever makes it up."""
    try:
        found = with_python_flags(piece * 10_000)
    except PatternError:
        return
    assert len(found) <= 2 * len(piece) * 10_000


def test_case_does_not_matter_unless_it_is_said_to() -> None:
    names = ["keda", "KEDA", "other"]
    for text, fitting in (("ked", names[:2]), ("", names)):
        wanted = name_filter(text, False)
        assert [name for name in names if wanted is None or wanted(name)] == fitting
    for text, fitting in (("^Keda$", names[:2]), ("(?-i)K", names[1:2])):
        wanted = name_filter(text, True)
        assert wanted is not None and [name for name in names if wanted(name)] == fitting
