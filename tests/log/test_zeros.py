"""Unused space in a log file: told from content wherever the first other byte is."""

from __future__ import annotations

import pytest

from warren.log.scan import ZEROS, all_zeros

BLOCK = len(ZEROS)


@pytest.mark.parametrize("size", [0, 1, 511, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
@pytest.mark.parametrize("start", [0, 3, BLOCK])
def test_any_other_byte_is_seen(size: int, start: int) -> None:
    before, behind = b"\1" * start, b"\1" * 5
    assert all_zeros(before + bytes(size) + behind, start, start + size)
    assert all_zeros(before + bytes(size), start, start + size + 100)
    for at in {0, size // 2, size - 1} if size else set():
        space = bytearray(size)
        space[at] = 1
        assert not all_zeros(before + bytes(space) + behind, start, start + size)
