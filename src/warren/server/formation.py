"""How a node without a cluster comes by one: it begins one, joins one, or waits.

    nothing said                   it begins a cluster of its own
    --join                         it asks there to be taken in, again and again
    a list, and it is the first    it begins one when all others have said that they have none, or
                                   if it is told to (`cluster_formation.begin`); it joins if one has
    a list, and it is not          it asks the others to be taken in, and never begins one
    it was reset                   it begins one of its own, or joins the one that it was told of,
                                   whatever else is said

So no two nodes with the same list ever begin one each, and one that lost its disk begins none
beside the cluster it was in, also when it is the first to start. A directory that belongs to a
cluster, or whose node once asked to join, never begins another one, whatever is said.
"""

from __future__ import annotations

import asyncio
import logging

from warren.config.config import ServerConfig
from warren.ports import Deaf, PeerHello
from warren.protocols.peer.hello import NO_CLUSTER
from warren.server.peers import PeerNetwork

log = logging.getLogger("warren")

LOOK_SECONDS = 5.0
"""How often the first node of a list says for whose word it waits."""


class Lookout(Deaf):
    """Sees which nodes answer, and whether they have a cluster."""

    def __init__(self, network: PeerNetwork, names: list[str]) -> None:
        """Prepare.

        Args:
            network: Its dialled nodes are looked at.
            names: Nodes that have no cluster once they all said so.

        Attributes:
            found: Whether one has a cluster.
            missing: Those that have not said anything yet.
        """
        self.found = False
        self.missing = set(names)
        self.done = asyncio.Event()
        self._network = network

    def linked(self, peer: str, hello: PeerHello) -> None:
        """A node answers."""
        self._seen(peer, hello)

    def refused(self, peer_or_address: str, reason: str) -> None:
        """It may be starting itself; or it has a cluster, which has another node of this name."""
        hello = self._network.refused_by.get(peer_or_address)
        if hello is not None:
            log.warning("link with %s: %s", peer_or_address, reason)
            self._seen(peer_or_address, hello)

    def _seen(self, peer: str, hello: PeerHello) -> None:
        self.missing.discard(peer)
        self.found = self.found or hello.cluster_id != NO_CLUSTER
        if self.found or not self.missing:
            self.done.set()


def dial_contacts(config: ServerConfig, network: PeerNetwork) -> None:
    """Dial the nodes that may take this one in."""
    for host, port in config.join:
        network.dial_contact(host, port)
    for name, host, port in config.cluster_nodes:
        if name != config.node_name:
            network.dial(name, host, port)


async def has_to_join(config: ServerConfig, network: PeerNetwork) -> bool:
    """Whether a node with an empty directory waits to be taken in; its contacts are dialled."""
    dial_contacts(config, network)
    if not config.cluster_nodes:
        return len(config.join) > 0
    if config.cluster_nodes[0][0] != config.node_name:
        return True
    names = [name for name, _, _ in config.cluster_nodes if name != config.node_name]
    if not names or config.cluster_begin:
        return False
    lookout = Lookout(network, names)
    network.listener = lookout
    while not lookout.done.is_set():
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await lookout.done.wait()
        except TimeoutError:
            log.warning(
                "waiting to hear from %s whether there is a cluster already; if there is none, and "
                "they are not to be waited for, start with cluster_formation.begin = true",
                ", ".join(sorted(lookout.missing)),
            )
    return lookout.found
