"""Simulations are bounded by the processor time they take: a busy machine is not their fault."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

PROCESSOR_SECONDS = 300.0
WALL_SECONDS = 3_600


class Endless(BaseException):
    """A test has used up its processor time. Not an `Exception`: it is no outcome of a seed."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let no busy machine end a test that is bounded by `processor_time`."""
    for item in items:
        if item.path.parent.name == "sim":
            item.add_marker(pytest.mark.timeout(WALL_SECONDS))


@pytest.fixture(autouse=True)
def processor_time() -> Iterator[None]:
    """End a test that takes more than five minutes of a processor."""

    def over(number: int, frame: FrameType | None) -> None:
        raise Endless(f"{PROCESSOR_SECONDS:g} s of processor time")

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
