"""What a start that takes long waits for, in words for the log."""

from __future__ import annotations

from warren.admin.service.service import what_it_waits_for
from warren.config.config import ServerConfig
from warren.node.node import Node


def waits_for(node: Node, config: ServerConfig) -> str:
    """What a start that takes long waits for, behind the word 'waiting'."""
    if node.membership.joining():
        where = [f"{host}:{port}" for host, port in config.join]
        where += [name for name, _, _ in config.cluster_nodes if name != config.node_name]
        if not where:
            return (
                "to be taken into its cluster, which the data directory was about to join: "
                "say where it is with --join"
            )
        return f"to be taken into the cluster of {', '.join(where)}"
    raft = node.store.member().raft
    if not raft.leader:
        return what_it_waits_for(node.queue_members.tables_majority())
    if not node.cluster.session:
        return f"for node {raft.leader}, which leads the cluster, to hear of this start"
    if not node.hosting.furnished():
        return "for copies of all quorum queues to be entered for this node"
    return "for the first user to be written down"
