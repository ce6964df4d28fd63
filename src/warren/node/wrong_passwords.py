"""How long strangers wait who give wrong passwords: the longer, the more of them came from there.

Some are answered at once. Beyond that, answers to wrong passwords go out at a steady pace for each
address, however many connections ask at a time, and none is later than a client waits for it. Who
gives the right one is let in at once, also from there. Of IPv6 addresses the first 64 bits count,
which are one network: a stranger has all addresses of it.
"""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address
from typing import Final, final

from mypy_extensions import i64

FREE: Final = 10
"""Wrong passwords that are answered at once: a person's, or those of an application that starts."""
PACE_MS: Final = 200
"""Between two answers beyond that."""
DELAY_MS_MAX: Final = 5_000
"""Half of the time in which clients have to be let in."""
NETWORKS_MAX: Final = 10_000
"""So many are remembered; those from where a wrong password came longest ago are forgotten."""
NETWORK_BYTES: Final = 8


def network_of(host: str) -> str:
    """What addresses have in common that one stranger may have."""
    if ":" not in host:
        return host
    try:
        address = IPv6Address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host
    mapped = address.ipv4_mapped
    return address.packed[:NETWORK_BYTES].hex() if mapped is None else str(mapped)


@final
class WrongPasswords:
    """Those that came to one node."""

    def __init__(self) -> None:
        self._paid_ms: OrderedDict[str, int] = OrderedDict()
        """Of each network, until when the pace allows for what came from there."""

    def delay_ms(self, network: str, now_ms: i64) -> i64:
        """Count a wrong password; for how long its answer has to wait.

        Args:
            network: From where it came.
            now_ms: Monotonic time.
        """
        before: i64 = self._paid_ms.get(network, 0)
        paid_ms = max(before, now_ms - FREE * PACE_MS) + PACE_MS
        delay_ms: i64 = min(max(paid_ms - now_ms, 0), DELAY_MS_MAX)
        self._paid_ms[network] = int(min(paid_ms, now_ms + DELAY_MS_MAX))
        self._paid_ms.move_to_end(network)
        if len(self._paid_ms) > NETWORKS_MAX:
            self._paid_ms.popitem(last=False)
        return delay_ms
