"""Prometheus' text format, read strictly: families with their type, help, and samples.

Source: prometheus.io, exposition formats, text format 0.0.4.
"""

from __future__ import annotations

import re
from typing import NamedTuple

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf"({NAME})(?:\{{(.*)\}})? (\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)')
ESCAPED = re.compile(r"\\(.)")
TYPES = ("counter", "gauge", "histogram", "summary", "untyped")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}
KEEPS = {"n": "\n"}


class Sample(NamedTuple):
    """One value."""

    name: str
    labels: dict[str, str]
    value: float


class Family(NamedTuple):
    """What stands under one TYPE line."""

    name: str
    type: str
    help: str
    samples: list[Sample]

    def labels(self) -> list[list[str]]:
        """The names of labels that samples have together, each combination once."""
        return sorted(list(each) for each in {tuple(sorted(one.labels)) for one in self.samples})

    def value(self, **labels: str) -> float:
        """The sum of all samples that have these labels."""
        return sum(
            sample.value for sample in self.samples if labels.items() <= sample.labels.items()
        )


def families(text: str) -> dict[str, Family]:
    """The families of a scrape by name.

    Raises:
        ValueError: The text is not as the format wants it: a line that is none, a family twice, a
            sample outside of its family, or the same sample twice.
    """
    found: dict[str, Family] = {}
    current = Family("", "", "", [])
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    helps: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split(" ", 3)
        if not line:
            continue
        if words[:2] == ["#", "HELP"]:
            helps[words[2]] = words[3]
        elif words[:2] == ["#", "TYPE"]:
            name, kind = words[2:]
            if name in found or kind not in TYPES:
                raise ValueError(line)
            current = found[name] = Family(name, kind, "", [])
        else:
            sample = sample_of(line)
            allowed = [current.name + end for end in SUFFIXES.get(current.type, ("",))]
            key = (sample.name, tuple(sorted(sample.labels.items())))
            if sample.name not in allowed or key in seen:
                raise ValueError(line)
            seen.add(key)
            current.samples.append(sample)
    return {name: family._replace(help=helps[name]) for name, family in found.items()}


def sample_of(line: str) -> Sample:
    """One line with a value.

    Raises:
        ValueError: It is none.
    """
    parts = SAMPLE.fullmatch(line)
    if parts is None:
        raise ValueError(line)
    labels: dict[str, str] = {}
    text, at = parts[2] or "", 0
    while at < len(text):
        label = LABEL.match(text, at)
        if label is None or label[1] in labels:
            raise ValueError(line)
        labels[label[1]] = ESCAPED.sub(lambda found: KEEPS.get(found[1], found[1]), label[2])
        at = label.end()
    return Sample(parts[1], labels, float(parts[3]))
