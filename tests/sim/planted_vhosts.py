"""Bugs put into what becomes of vhosts, to show that the simulator finds them."""

from __future__ import annotations

from typing import Any

from sim.cluster.swarm import VHOSTS
from sim.cluster.vhosts import LASTING, RENEWED
from tests.sim.planted import Undo, Where, replace
from tests.sim.planted_features import QUORUM
from warren.metadata import vhosts
from warren.node.evictions import Evictions
from warren.node.node import Node


def clients_outlive_their_vhost() -> Undo:
    """Connections to a vhost that is deleted stay."""
    return replace(Evictions, "vhost_deleted", lambda *_: None)


def another_vhost() -> Undo:
    """A client is let into another vhost than the one that it asked for."""

    def open_vhost(node: Any, login: Any, vhost: str) -> Any:
        there = LASTING in node.metadata.vhosts
        handle = original(node, login, LASTING if vhost == RENEWED and there else vhost)
        handle.name = vhost
        return handle

    original = Node.open_vhost
    return replace(Node, "open_vhost", open_vhost)


def another_vhost_goes() -> Undo:
    """A deletion takes another vhost than the one that it names."""

    def begin(removal: Any, tables: Any, record: Any, outcome: Any) -> None:
        original(removal, tables, tables.get(LASTING, record), outcome)

    original = vhosts.VhostRemoval.__init__
    return replace(vhosts.VhostRemoval, "__init__", begin)


PLANTED: dict[Any, Where] = {
    clients_outlive_their_vhost: Where(3, 200, (VHOSTS,), QUORUM),
    another_vhost: Where(5, 200, (VHOSTS,), QUORUM),
    another_vhost_goes: Where(1, 200, (VHOSTS,), QUORUM),
}
"""With each bug where it shows soon; see `hunt`."""
