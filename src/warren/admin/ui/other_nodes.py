"""What pages know of the cluster's other nodes: where their pages are, and since when they run.

It is for when this node does not answer any more, and for charts, which begin with the first node.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple

from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.rows import Listener, Status
from warren.admin.service.service import AdminService
from warren.admin.service.statistics import SAMPLE_SECONDS

FRESH_SECONDS: Final = 30.0
"""Other nodes are asked again when their answers are older."""
FIRST_SECONDS: Final = 0.5
"""The first page waits so long for answers; those that come later are on the next one."""
EVERY_INTERFACE: Final = ("", "0.0.0.0", "::")
SCHEMES: Final = ("https", "http")


class NodeAddress(NamedTuple):
    """Where one node's pages are."""

    name: str
    base: str


class OtherNodes:
    """The other nodes, as they said last."""

    def __init__(self, service: AdminService) -> None:
        self._service = service
        self._known: dict[str, NodeAddress] = {}
        self._begun: dict[str, float] = {}
        self._asking: asyncio.Task[None] | None = None
        self._asked = float("-inf")

    async def addresses(self) -> list[NodeAddress]:
        """Where the pages of all are that are known."""
        await self._look()
        nodes = self._service.machine.nodes
        return [address for name, address in sorted(self._known.items()) if name in nodes]

    async def since(self) -> float:
        """When the first node of those that run had samples, in seconds since 1970.

        Its first two looks at itself begin with zeros.
        """
        await self._look()
        up = set(others(self._service))
        own = time.time() - self._service.host.state().uptime_seconds
        begun = [own, *(moment for name, moment in self._begun.items() if name in up)]
        return min(begun) + 2 * SAMPLE_SECONDS

    async def _look(self) -> None:
        """Ask again in the background if that was long ago."""
        now = time.monotonic()
        if self._asking is None and now - self._asked > FRESH_SECONDS:
            first = self._asked == float("-inf")
            self._asked = now
            self._asking = asyncio.get_running_loop().create_task(self._ask())
            if first:
                await asyncio.wait({self._asking}, timeout=FIRST_SECONDS)

    async def _ask(self) -> None:
        try:
            service = self._service
            answers = await ask_all(service, others(service), "status", {}, Status)
            for name, status in answers.by_node.items():
                self._begun[name] = time.time() - status.uptime_seconds
                record = service.machine.nodes.get(name)
                base = "" if record is None else base_of(status.addresses, record.host)
                if base:
                    self._known[name] = NodeAddress(name, base)
                else:
                    self._known.pop(name, None)
        finally:
            self._asking = None


def base_of(addresses: list[Listener], host: str) -> str:
    """Where a node's pages begin; empty if it has none.

    Args:
        addresses: All that it listens on.
        host: Where the cluster reaches it, for a listener on every interface.
    """
    for scheme in SCHEMES:
        for row in addresses:
            if row.protocol == scheme:
                given = row.interface.removeprefix("[").removesuffix("]")
                place = (
                    host.removeprefix("[").removesuffix("]") if given in EVERY_INTERFACE else given
                )
                return f"{scheme}://{f'[{place}]' if ':' in place else place}:{row.port}"
    return ""
