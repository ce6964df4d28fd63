"""Which nodes the cluster takes in and lets go of: one function a command, as in `checks`."""

from __future__ import annotations

from mypy_extensions import i64

from warren.errors import NOT_FOUND, PRECONDITION_FAILED, ClusterError, Refusal
from warren.metadata.commands import AddNode, RemoveNode, ReplaceNode
from warren.metadata.machine import MetadataMachine
from warren.metadata.member_checks import majority_lost, voters
from warren.metadata.membership import last_voters, node_with


def check_add_node(
    machine: MetadataMachine, name: str, uid: bytes, host: str, port: int, incarnation: i64
) -> AddNode | None:
    """A node that wants to join. None where it is a member as it says.

    One that is a member already renews its address and its incarnation.

    Raises:
        ClusterError: Its name or its data directory is another node's.
    """
    node = machine.nodes.get(name)
    if node is None:
        other = node_with(machine.nodes, uid)
        if other is not None:
            raise ClusterError(
                f"the data directory of node '{name}' is that of node '{other.name}', which is in "
                "the cluster: a node cannot change its name"
            )
    elif node.uid != uid:
        raise ClusterError(
            f"a node '{name}' with another data directory is in the cluster already: forget that "
            "one first, or give this one another name"
        )
    elif node.host == host and node.port == port and node.incarnation == incarnation:
        return None
    return AddNode(name, uid, host, port, incarnation)


def check_node_that_joins(
    machine: MetadataMachine, command: ReplaceNode
) -> AddNode | ReplaceNode | None:
    """A node that wants to join, or to take its own place again with an empty disk.

    None where it is a member as it says.

    Raises:
        ClusterError: Its name or its data directory is another node's.
    """
    node = machine.nodes.get(command.name)
    if command.former_uid and node is not None and node.uid == command.former_uid:
        return command
    return check_add_node(
        machine, command.name, command.uid, command.host, command.port, command.incarnation
    )


def check_majorities(machine: MetadataMachine, name: str, running: list[str]) -> None:
    """What is left has to work without a node, as far as it works with it.

    Args:
        name: The node that is to go.
        running: The nodes that are up.

    Raises:
        Refusal: Quorum queues would have no majority of voters that are up.
    """
    lost = ""
    count = 0
    for tables in machine.vhosts.values():
        for queue in tables.queues_in_order():
            voting = voters(queue)
            # Its members take a majority with the node to have it removed, and one without it then.
            if voting not in ([], [name]) and (
                majority_lost(queue, "", running) or majority_lost(queue, name, running)
            ):
                count += 1
                lost = lost or f"'{queue.name}' in vhost '{queue.vhost}'"
    if count:
        raise Refusal(
            PRECONDITION_FAILED,
            f"to go on without node '{name}', {count} quorum queue(s) have no majority of running "
            f"nodes, among them {lost}: start the nodes that are down; by force the node goes all "
            "the same, and these queues answer with 541 until they are deleted",
        )


def check_remove_node(
    machine: MetadataMachine, name: str, running: bool, leaving: bool = False, force: bool = False
) -> RemoveNode:
    """A node that leaves, or that is to be forgotten.

    Args:
        running: Whether it is up.
        leaving: Whether it asks for it itself.
        force: Delete quorum queues that have their last voter there.

    Raises:
        Refusal: It is not in the cluster, the last one, needed, or running and not leaving.
    """
    if name not in machine.nodes:
        raise Refusal(NOT_FOUND, f"node '{name}' is not in the cluster")
    if len(machine.nodes) == 1:
        raise Refusal(
            PRECONDITION_FAILED,
            f"node '{name}' is the only one of the cluster and cannot be removed",
        )
    if running and not leaving:
        raise Refusal(
            PRECONDITION_FAILED, f"node '{name}' is running: stop it before it is forgotten"
        )
    if not force:
        needed = last_voters(machine.vhosts, name)
        if needed:
            first = needed[0]
            raise Refusal(
                PRECONDITION_FAILED,
                f"node '{name}' has the only voting member of {len(needed)} quorum queue(s), among "
                f"them '{first.name}' in vhost '{first.vhost}': give them other members first, or "
                "remove the node by force, which deletes them with their messages",
            )
    return RemoveNode(name, force, machine.nodes[name].uid)
