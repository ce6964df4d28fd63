"""Sequences whose answers were recorded from RabbitMQ 4.3, in one packed file.

A line has the number of a sequence, its steps as they were drawn then, and what the oracle said to
each; so that they stay what they are when others are drawn by their numbers.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import NamedTuple

from tests.oracle.sequences.play import Answers
from tests.oracle.sequences.steps import Sequence

FILE = Path(__file__).parent / "rabbitmq-4.3.jsonl.gz"


class Stored(NamedTuple):
    """A sequence and its answers."""

    number: int
    steps: Sequence
    answers: Answers


def read() -> list[Stored]:
    """All that are stored."""
    if not FILE.exists():
        return []
    lines = gzip.decompress(FILE.read_bytes()).decode().splitlines()
    return [Stored(*json.loads(line)) for line in lines]


def add(found: list[Stored]) -> None:
    """Store some beside the others, in place of those that have their numbers."""
    by_number = {each.number: each for each in read() + found}
    write(list(by_number.values()))


def write(found: list[Stored]) -> None:
    """Replace them."""
    lines = [json.dumps(each, ensure_ascii=False, separators=(",", ":")) for each in found]
    FILE.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
