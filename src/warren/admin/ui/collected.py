"""Samples of figures that a session has seen, for charts where the node keeps none."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from typing import Any, Final

from warren.admin.ui.charts import Asking

CHARTS_MAX: Final = 16
"""Of one session; the one that was drawn longest ago goes."""
SAMPLES_MAX: Final = 720


Sample = tuple[float, dict[str, int]]


class Collected:
    """The samples of one session."""

    def __init__(self) -> None:
        self._charts: OrderedDict[str, deque[Sample]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._charts)

    def add(self, chart: str, values: dict[str, int]) -> deque[Sample]:
        """Note what figures are now; all that was noted of this chart."""
        samples = self._charts.setdefault(chart, deque(maxlen=SAMPLES_MAX))
        self._charts.move_to_end(chart)
        while len(self._charts) > CHARTS_MAX:
            self._charts.popitem(last=False)
        samples.append((time.monotonic(), values))
        return samples


def with_samples(
    collected: Collected, chart: str, found: dict[str, Any], wanted: Asking
) -> dict[str, Any]:
    """Figures with samples: those of the node, or else those that this session has seen."""
    if any("samples" in value for value in found.values() if isinstance(value, dict)):
        return found
    names = [name for name, value in found.items() if isinstance(value, (int, float))]
    samples = collected.add(chart, {name: found[name] for name in names})
    now = time.monotonic()
    steps = wanted.age // wanted.step
    rows: list[tuple[float, dict[str, int]]] = []
    seen = list(samples)
    place = 0
    for step in range(steps, -1, -1):
        moment = now - step * wanted.step
        while place + 1 < len(seen) and seen[place + 1][0] <= moment:
            place += 1
        if seen[place][0] <= moment:
            rows.append((time.time() - step * wanted.step, seen[place][1]))
    filled = dict(found)
    for name in names:
        filled[f"{name}_details"] = {
            "samples": [
                {"sample": row.get(name, 0), "timestamp": int(when * 1_000)}
                for when, row in reversed(rows)
            ]
        }
    return filled
