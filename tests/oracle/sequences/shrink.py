"""Makes a sequence that two brokers answer otherwise smaller, as long as they still do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from tests.oracle.sequences.steps import Sequence

TRIES_MAX = 250


def smaller(sequence: Sequence) -> Iterator[Sequence]:
    """Sequences a little smaller, the boldest first."""
    size = len(sequence) // 2
    while size:
        for at in range(0, len(sequence), size):
            yield sequence[:at] + sequence[at + size :]
        size //= 2
    for at, step in enumerate(sequence):
        for place, part in enumerate(step):
            if place < 2:
                continue
            if isinstance(part, list) and len(part) > 1:
                yield _with(sequence, at, place, part[:1])
            if isinstance(part, dict):
                for key in part:
                    rest = {name: value for name, value in part.items() if name != key}
                    if key not in ("queue", "exchange", "routing_key", "pick", "type"):
                        yield _with(sequence, at, place, rest)
                    inner = part[key]
                    if isinstance(inner, dict) and "~" not in inner:
                        for name in inner:
                            fewer = {k: v for k, v in inner.items() if k != name}
                            yield _with(sequence, at, place, {**part, key: fewer})
        if step[0] not in ("a", "b", "a/1"):
            yield _with(sequence, at, 0, "a/1")


def _with(sequence: Sequence, at: int, place: int, value: object) -> Sequence:
    found = copy.deepcopy(sequence)
    found[at][place] = value
    return found


def shrink(sequence: Sequence, differs: Callable[[Sequence], bool]) -> Sequence:
    """The smallest sequence that is found which still differs."""
    tries, improved = 0, True
    while improved and tries < TRIES_MAX:
        improved = False
        for candidate in smaller(sequence):
            tries += 1
            if tries > TRIES_MAX:
                break
            if candidate and differs(candidate):
                sequence, improved = candidate, True
                break
    return sequence
