"""How members of a queue are spread, by the labels of nodes.

Two members never share a host unless there is no other; then they are in as many zones as may be.
"""

from __future__ import annotations

from typing import final

from warren.metadata.tables import NodeRecord


@final
class Spread:
    """Where the members of one queue are.

    Attributes:
        nodes: All of the cluster, by name.
    """

    def __init__(self, nodes: dict[str, NodeRecord], held: list[str]) -> None:
        """
        Args:
            held: The nodes with a member.
        """
        self.nodes = nodes
        self._hosts: dict[str, None] = {}
        self._zones: dict[str, int] = {}
        for name in held:
            self.add(name)

    def add(self, name: str) -> None:
        """A node gets a member."""
        node = self.nodes.get(name)
        if node is None:
            return
        if node.host_label:
            self._hosts[node.host_label] = None
        if node.zone:
            self._zones[node.zone] = self._zones.get(node.zone, 0) + 1

    def shares_host(self, name: str) -> bool:
        """Whether a node is on a machine where a member is already."""
        node = self.nodes.get(name)
        return node is not None and node.host_label in self._hosts

    def in_zone(self, name: str) -> int:
        """How many members are in a node's zone already."""
        node = self.nodes.get(name)
        return 0 if node is None else self._zones.get(node.zone, 0)

    def best(self, names: list[str]) -> list[str]:
        """Those of some nodes on which another member is spread best."""
        if not names:
            return []
        least = min((self.shares_host(name), self.in_zone(name)) for name in names)
        return [name for name in names if (self.shares_host(name), self.in_zone(name)) == least]
