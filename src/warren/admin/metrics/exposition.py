"""Prometheus' text format, written in parts, so that no turn of the loop takes long.

Source: prometheus.io, exposition formats, text format 0.0.4.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import Final

from warren.admin.service.metrics.samples import Series
from warren.admin.service.slices import Slices

CONTENT_TYPE: Final = "text/plain; version=0.0.4"
PART_ROWS: Final = 128
"""Samples that are written at a time: about a tenth of a millisecond."""


async def written(series: Iterable[Series]) -> AsyncGenerator[bytes, None]:
    """Families as text, in parts. None comes twice."""
    slices = Slices()
    for one in series:
        family, labels, values = one.family, one.labels, one.values
        name = one.prefix + family.name
        yield f"# TYPE {name} {family.type}\n# HELP {name} {family.help}\n".encode()
        for at in range(0, len(values), PART_ROWS):
            rows = range(at, min(at + PART_ROWS, len(values)))
            names = (
                [name] * len(rows)
                if one.suffixes is None
                else [name + one.suffixes[row] for row in rows]
            )
            yield "".join(
                f"{sample}{{{labels[row]}}} {number(values[row])}\n"
                if labels[row]
                else f"{sample} {number(values[row])}\n"
                for sample, row in zip(names, rows, strict=True)
            ).encode()
            await slices.breathe()


def number(value: float) -> str:
    """A value; whole ones, such as most are, without a fraction."""
    return str(int(value)) if value == int(value) else repr(value)
