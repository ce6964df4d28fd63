"""Samples of families, as they were read: many things in columns, or all of them together."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from warren.admin.service.metrics.families import PREFIX, Family, FamilyGroup


class Series(NamedTuple):
    """The samples of one family.

    Attributes:
        labels: As between braces, of each sample.
        values: One for each.
        prefix: What its name begins with.
        suffixes: What the names of the samples end with, where they are not the family's.
    """

    family: Family
    labels: Sequence[str]
    values: Sequence[float]
    prefix: str = PREFIX
    suffixes: Sequence[str] | None = None


class SampleTable:
    """What was read of many things, in columns; or of all of them together.

    Attributes:
        labels: Of each thing; one without any where all are one.
    """

    def __init__(self, columns: Iterable[str], each: bool) -> None:
        """
        Args:
            each: Whether things are kept apart.
        """
        self.labels: list[str] = [] if each else [""]
        self._each = each
        self._values = {name: array("d", () if each else (0.0,)) for name in columns}

    def add(self, labels: str, values: Iterable[float]) -> None:
        """Take one more thing, its values in the order of the columns."""
        if self._each:
            self.labels.append(labels)
            for column, value in zip(self._values.values(), values, strict=True):
                column.append(value)
        else:
            for column, value in zip(self._values.values(), values, strict=True):
                column[0] += value

    def series(self, group: FamilyGroup, prefix: str = PREFIX) -> list[Series]:
        """The families of a group, whose columns all are here."""
        return [
            Series(family, self.labels, self._values[name], prefix)
            for name, family in group.families.items()
        ]

    def whole(self, column: str) -> float:
        """The values of a column, added up."""
        return sum(self._values[column])


def single(family: Family, value: float, labels: str = "", prefix: str = PREFIX) -> Series:
    """A family of one sample."""
    return Series(family, (labels,), (value,), prefix)


def labelled(**labels: str) -> str:
    """Labels as they stand between braces."""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())


def escaped(value: str) -> str:
    """The value of a label; what came as bytes outside UTF-8 is written with replacements."""
    if not value.isascii():
        value = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
