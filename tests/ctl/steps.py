"""The commands that transcripts consist of, in the order in which both brokers are given them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import NamedTuple

DEFINITIONS = "{definitions}"
"""Stands for the file with definitions in what a step is given."""
NODE = "{node}"
"""Stands for the name of the node."""
OUT = "{out}"
"""Stands for a file that a step writes."""
CONNECT, GONE = "@connect", "@gone"
"""Steps that are no command: a client comes; it is seen that it was told to go."""


class Step(NamedTuple):
    """One command.

    Attributes:
        words: Tool and arguments, as a shell has them.
        given: What it reads.
    """

    words: str
    given: str = ""

    def argv(self, known: dict[str, str]) -> list[str]:
        """The words, with what stands for other words put in."""
        argv = shlex.split(self.words)
        for name, value in known.items():
            argv = [word.replace(name, value) for word in argv]
        return argv


def steps(text: str) -> list[Step]:
    """A step for each line that is no comment; `<<< text` is what it reads."""
    found = []
    for line in text.splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            words, _, given = line.partition(" <<< ")
            found.append(Step(words, f"{given}\n" if given else ""))
    return found


STEPS = steps(Path(__file__).with_name("steps.txt").read_text(encoding="utf-8"))
