"""How long tests wait for what has to come: longer where the machine has much else to do.

A bound is there so that a test ends that would hang. It never decides whether something is fast
enough.
"""

from __future__ import annotations

import os

FACTOR_MIN = 2.0
FACTOR_MAX = 12.0


def patient(seconds: float) -> float:
    """Scale a bound, in seconds, that is ample on a machine with nothing else to do.

    The factor follows the load that each processor has as this process begins, or will have by the
    workers of this run; `WARREN_PATIENCE` in the environment sets another.
    """
    chosen = os.environ.get("WARREN_PATIENCE")
    if chosen:
        return seconds * float(chosen)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    load = max(os.getloadavg()[0], workers) / (os.cpu_count() or 1)
    return seconds * min(FACTOR_MAX, max(1.0, load) * FACTOR_MIN)
