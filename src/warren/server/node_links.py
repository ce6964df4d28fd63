"""What the links between nodes tell this one, and the process around it."""

from __future__ import annotations

import logging
from typing import Protocol, final

from warren.node.cluster.dispatch import Cluster
from warren.node.cluster.links import ClusterListener
from warren.ports import PeerHello, PeerListener
from warren.server.turns import NodeTurns

log = logging.getLogger("warren")


class LinkHost(Protocol):
    """The process, as far as other nodes tell it whether it can go on as it is."""

    def wanted(self) -> None:
        """A node has a link with this one."""

    def begin_anew(self, peer: str) -> None:
        """Start once more with copies that have nothing: the disk lacks what it acknowledged."""

    def forgotten(self, peer: str) -> None:
        """A node with a majority says that the cluster has this one no more."""

    def behind(self, peer: str) -> None:
        """A node of the cluster says that this one's release is too old."""


@final
class NodeLinks(PeerListener):
    """What links tell the node. A broken invariant there is the node's end, not a link's."""

    def __init__(self, cluster: Cluster, host: LinkHost, turns: NodeTurns) -> None:
        self._cluster: ClusterListener = ClusterListener(cluster)
        self._host: LinkHost = host
        self._turns: NodeTurns = turns

    def judge(self, hello: PeerHello) -> int:
        """Whether a link is wanted."""
        return self._cluster.judge(hello)

    def linked(self, peer: str, hello: PeerHello) -> None:
        """The link to a node is up."""
        log.debug("link to node %s is up", peer)
        self._host.wanted()
        self._turns.guarded(lambda: self._cluster.linked(peer, hello))

    def unlinked(self, peer: str) -> None:
        """The link to a node is gone."""
        log.debug("link to node %s is gone", peer)
        self._turns.guarded(lambda: self._cluster.unlinked(peer))

    def incoming(self, peer: str, hello: PeerHello) -> None:
        """A node has a link to this one."""
        self._turns.guarded(lambda: self._cluster.incoming(peer, hello))

    def incoming_lost(self, peer: str) -> None:
        """A node's link to this one is gone."""
        self._turns.guarded(lambda: self._cluster.incoming_lost(peer))

    def gone(self, peer: str) -> None:
        """A node's process has ended."""
        self._turns.guarded(lambda: self._cluster.gone(peer))

    def outdated(self, peer: str) -> None:
        """A node says that this one's disk is an older copy."""
        self._turns.guarded(lambda: self._host.begin_anew(peer))

    def forgotten(self, peer: str) -> None:
        """A node says that the cluster has this one no more."""
        self._host.forgotten(peer)

    def behind(self, peer: str) -> None:
        """This node is of an older release than the cluster can go back to."""
        self._host.behind(peer)

    def received(self, peer: str, message: bytes) -> None:
        """A message came."""
        self._turns.guarded(lambda: self._cluster.received(peer, message))

    def received_in_parts(self, peer: str, message: bytes, body: bytes, checksum: int) -> None:
        """A long message came."""
        self._turns.guarded(lambda: self._cluster.received_in_parts(peer, message, body, checksum))

    def refused(self, peer_or_address: str, reason: str) -> None:
        """A link did not come about."""
        log.warning("link with %s: %s", peer_or_address, reason)
