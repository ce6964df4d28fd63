"""A short run of the fuzzer; `python -m tests.wire.fuzz` is the long one."""

from __future__ import annotations

import random

import pytest

from tests.wire.fuzz import TAKERS, fuzz, mutate, valid_inputs


def test_valid_inputs_are_accepted() -> None:
    """Mutations start from something that reaches deep into the codec."""
    for take, inputs in zip(TAKERS, valid_inputs(), strict=True):
        for data in inputs:
            take(data)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_fuzz(seed: int) -> None:
    ends = fuzz(10_000, seed)
    usual = {"accepted", "501", "502", "503"}
    # A frame that is whole and not expected is rare among bytes that were drawn.
    assert set(ends) <= usual | {"505"}
    assert min(ends[end] for end in usual) > 10, "inputs of every kind were tried"


def test_mutations_differ() -> None:
    source = random.Random(1)
    data = bytes(range(60))
    assert len({mutate(source, data) for _ in range(100)}) > 90
