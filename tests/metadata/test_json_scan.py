"""The end of a JSON value is found in parts of any size, where a decoder finds it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from warren.metadata.json_scan import JsonScan

VALUES: list[Any] = [
    0,
    -1.5e3,
    True,
    None,
    "",
    'a "quoted" \\ text, with ] and } in it',
    "\\",
    [],
    {},
    [[], {}, "]", [1, [2, {"a": "}"}]]],
    {"name": "q", "arguments": {"x-a": [1, "{[", None]}, '\\"': "\\"},
]


@pytest.mark.parametrize("part", [1, 2, 7, 1_000])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("behind", [b",", b"]", b"}", b" ", b"\n,1"])
def test_the_end_is_found(value: Any, part: int, behind: bytes) -> None:
    text = json.dumps(value).encode()
    scan = JsonScan(b"  " + text + behind, 2)
    while not scan.go_on(part):
        assert not scan.ended()
    assert scan.at == 2 + len(text)


@pytest.mark.parametrize("text", [b'"a', b'"\\', b"[1", b'{"a":[]', b"[[]", b'["]'])
def test_a_text_that_breaks_off_has_ended(text: bytes) -> None:
    scan = JsonScan(text, 0)
    assert not scan.go_on(1_000)
    assert scan.ended()


def test_a_part_looks_at_no_more_than_it_may() -> None:
    scan = JsonScan(b'"' + b"a" * 10_000 + b'"', 0)
    assert not scan.go_on(100)
    assert scan.at == 100
    assert not scan.ended()
