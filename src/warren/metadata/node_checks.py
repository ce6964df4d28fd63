"""Which nodes the cluster takes in and lets go of: one function a command, as in `checks`."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.errors import NOT_FOUND, PRECONDITION_FAILED, ClusterError, Refusal
from warren.metadata.commands import AddNode, RemoveNode, ReplaceNode
from warren.metadata.machine import MetadataMachine
from warren.metadata.member_checks import majority_lost, voters
from warren.metadata.membership import is_last_voter, node_with
from warren.metadata.tables import QueueRecord


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


ALONE = "rabbitmq-queues force_shrink_member_to_current_member"
"""The command that has a queue go on with one copy, and loses what others had confirmed."""


@final
class Needs:
    """What keeps a node from going, found out queue by queue: there may be very many.

    Attributes:
        name: The node that is to go.
    """

    def __init__(self, name: str, running: list[str]) -> None:
        """
        Args:
            running: The nodes that are up.
        """
        self.name: str = name
        self._running: list[str] = running
        self._last: int = 0
        """Quorum queues that have their only voter there,"""
        self._first_of_last: str = ""
        """one of them,"""
        self._lost: int = 0
        """those that would have no majority of voters that are up,"""
        self._first_lost: str = ""
        """one of these,"""
        self._leaderless: int = 0
        """those of them that then have no leader: of two members one goes on alone,"""
        self._first_leaderless: str = ""
        """and one of these."""

    def look(self, queue: QueueRecord) -> None:
        """Look at one queue."""
        if not queue.type.replicated:
            return
        if is_last_voter(queue, self.name):
            self._last += 1
            self._first_of_last = self._first_of_last or _said(queue)
        voting = voters(queue)
        # Its members take a majority with the node to have it removed, and one without it then.
        if voting not in ([], [self.name]) and (
            majority_lost(queue, "", self._running)
            or majority_lost(queue, self.name, self._running)
        ):
            self._lost += 1
            self._first_lost = self._first_lost or _said(queue)
            left = [node for node in voting if node != self.name]
            if len(voting) != 2 or len(left) != 1 or left[0] not in self._running:
                self._leaderless += 1
                self._first_leaderless = self._first_leaderless or _said(queue)

    def check_last(self) -> None:
        """Check that no queue has its only voter there.

        Raises:
            Refusal: Some have.
        """
        if self._last:
            raise Refusal(
                PRECONDITION_FAILED,
                f"node '{self.name}' has the only voting member of {self._last} quorum queue(s), "
                f"among them {self._first_of_last}: give them other members first, or remove the "
                "node by force, which deletes them with their messages",
            )

    def check_majorities(self) -> None:
        """Check that what is left works without the node, as far as it works with it.

        Raises:
            Refusal: Quorum queues would have no majority of voters that are up.
        """
        if self._lost:
            raise Refusal(
                PRECONDITION_FAILED,
                f"to go on without node '{self.name}', {self._lost} quorum queue(s) have no "
                f"majority of running nodes, among them {self._first_lost}: start the nodes that "
                "are down; by force the node goes all the same. A queue of two members then goes "
                "on with the other one; others give errors for answers until they are deleted, or "
                f"go on with one copy by {ALONE}",
            )

    def said_by_force(self) -> str:
        """What becomes of queues when the node goes by force; empty if nothing does."""
        said: list[str] = []
        if self._last:
            said.append(
                f"{self._last} quorum queue(s) are deleted with their messages, among them "
                f"{self._first_of_last}"
            )
        if self._leaderless:
            said.append(
                f"{self._leaderless} quorum queue(s) have no majority of running nodes and no "
                f"leader, among them {self._first_leaderless}: start the nodes that are down; "
                "where they are lost, forget them, too, and have each queue go on with one copy "
                f"({ALONE})"
            )
        return "; ".join(said)


def _said(queue: QueueRecord) -> str:
    return f"'{queue.name}' in vhost '{queue.vhost}'"


def check_remove_node(
    machine: MetadataMachine, name: str, running: bool, leaving: bool = False, force: bool = False
) -> RemoveNode:
    """A node that leaves, or that is to be forgotten; which queues need it, `Needs` finds out.

    Args:
        running: Whether it is up.
        leaving: Whether it asks for it itself.
        force: Delete quorum queues that have their last voter there.

    Raises:
        Refusal: It is not in the cluster, the last one, or running and not leaving.
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
    return RemoveNode(name, force, machine.nodes[name].uid)
