"""The ends of links as a node's cluster has them: what it sends by, and what tells it of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from warren.ports import PeerHello, PeerListener

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster


class NoPeers:
    """The links of a node that is alone."""

    def send(self, peer: str, message: list[bytes]) -> bool:
        """Send nothing: there is no other node."""
        return False

    def backlog_bytes(self, peer: str) -> int:
        """Say that nothing waits for another node."""
        return 0

    def dial(self, peer: str, host: str, port: int) -> None:
        """Without a listener of its own, a node has no links."""

    def forget(self, peer: str) -> None:
        """End nothing: there is no link."""

    def refuse(self, peer: str, reason: str) -> None:
        """Refuse nothing: no link brings messages."""

    def flush(self) -> None:
        """Send nothing, for nothing waits."""


@final
class ClusterListener(PeerListener):
    """The links' way to their node's cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster: Cluster = cluster

    def judge(self, hello: PeerHello) -> int:
        """Whether a link with a node is wanted."""
        return self._cluster.judge(hello)

    def linked(self, peer: str, hello: PeerHello) -> None:
        """The link to a node is up."""
        self._cluster.linked(peer, hello)

    def unlinked(self, peer: str) -> None:
        """The link to a node is gone."""
        self._cluster.broken(peer)

    def incoming(self, peer: str, hello: PeerHello) -> None:
        """A node has a link to this one."""
        self._cluster.greeted(peer, hello)

    def incoming_lost(self, peer: str) -> None:
        """A node's link to this one is gone."""
        self._cluster.cut_off(peer)

    def gone(self, peer: str) -> None:
        """A node's process has ended."""
        self._cluster.gone(peer)

    def received(self, peer: str, message: bytes) -> None:
        """A message came."""
        self._cluster.received(peer, message)

    def received_in_parts(self, peer: str, message: bytes, body: bytes, checksum: int) -> None:
        """A long message came."""
        self._cluster.received(peer, message, body, checksum)

    def refused(self, peer_or_address: str, reason: str) -> None:
        """A link did not come about."""
        self._cluster.refused(peer_or_address, reason)
