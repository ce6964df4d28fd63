"""Nodes that go: one that will not come back, and the one that is asked."""

from __future__ import annotations

import asyncio
import logging
import time

import msgspec

from warren.admin.service.caller import Caller
from warren.admin.service.changes import give_up_votes
from warren.admin.service.everywhere import ask_all
from warren.admin.service.operation import operation
from warren.admin.service.rows import Status
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.waiting import Awaited, until
from warren.errors import PRECONDITION_FAILED, TIMED_OUT, Refusal
from warren.metadata.commands import RemoveNode
from warren.metadata.node_checks import Needs, check_remove_node
from warren.metadata.tables import NodeRecord, queues_of

log = logging.getLogger("warren")

LEAVE_SECONDS = 5.0
"""How long a node that leaves waits to hear that it is out of the tables."""
RESET_SECONDS = 30.0
"""For a node that is to be forgotten to leave: it gives up its votes, one queue after the other."""
BEGUN_POLL_SECONDS = 0.1
"""Between two questions to a node that begins anew."""
ASK_SECONDS = 10.0
"""For a node of another cluster to answer."""


@operation()
async def forget_node(
    service: AdminService, caller: Caller, *, node: str, force: bool = False
) -> None:
    """Remove a node that will not come back from the cluster.

    One that runs has to be stopped before, or be in maintenance: that one leaves by itself, as by
    `reset`, and has an empty data directory then.

    Args:
        force: Even where quorum queues lose their last voting member or their majority.

    Raises:
        Refusal: It cannot go, or is needed.
    """
    if node == service.own_name:
        raise Refusal(
            PRECONDITION_FAILED, f"node '{node}' is this one, which runs: it may leave instead"
        )
    if await in_maintenance(service, node):
        nodes = service.machine.nodes
        record = nodes[node]
        await service.host.ask(node, "reset", {"force": True} if force else {}, RESET_SECONDS)
        await until(lambda: node not in nodes, LEAVE_SECONDS)
        await begun_anew(service, record)
    else:
        command = await removal(service, node, force, leaving=False)
        say_removed(node)
        await service.change(command)
    if node in service.machine.nodes:
        raise needed_again(node)


async def begun_anew(service: AdminService, record: NodeRecord) -> None:
    """Wait until a node that was forgotten answers in a cluster of its own, but not for ever."""
    over = time.monotonic() + ASK_SECONDS
    while time.monotonic() < over:
        await asyncio.sleep(BEGUN_POLL_SECONDS)
        try:
            answer = await service.host.ask_at(
                record.name, record.host, record.port, "status", {}, ASK_SECONDS
            )
            if msgspec.convert(answer, Status).cluster != service.machine.cluster_id.hex():
                return
        except (Refusal, msgspec.ValidationError):
            # It does not listen yet.
            continue


async def in_maintenance(service: AdminService, node: str) -> bool:
    """Whether another node of the cluster runs, but takes no clients."""
    if node not in service.machine.nodes or node not in service.members.running():
        return False
    answers = await ask_all(service, [node], "status", {}, Status)
    status = answers.by_node.get(node)
    return isinstance(status, Status) and status.drained


@operation()
async def leave(service: AdminService, caller: Caller, *, force: bool = False) -> None:
    """Hand the lead over, give up all votes, have this node removed, and end its process.

    A group that counts this node when it ends could be left without a majority.

    Args:
        force: Even where quorum queues lose their last voting member or their majority.

    Raises:
        Refusal: It cannot go, or is needed.
    """
    await leave_cluster(service, force)
    service.host.left()


@operation()
async def reset(service: AdminService, caller: Caller, *, force: bool = False) -> None:
    """Leave the cluster as `leave` does, and begin with an empty data directory, soon after this.

    The node takes no clients: it has to be in maintenance, and stays in it.

    Args:
        force: Even where quorum queues lose their last voting member or their majority.

    Raises:
        Refusal: It is not in maintenance, cannot go, or is needed.
    """
    if not service.host.state().drained:
        raise Refusal(PRECONDITION_FAILED, "the node takes clients: have it drained first")
    if len(service.machine.nodes) > 1:
        await leave_cluster(service, force)
    service.host.reset(None)


@operation()
async def join_cluster(
    service: AdminService, caller: Caller, *, node: str, host: str, port: int
) -> str:
    """Begin with an empty data directory and join a cluster, soon after the answer.

    What this node has is gone then. So all that would keep the cluster from taking it in is looked
    for before. Its clients are let go; if it is in maintenance it stays in it.

    Args:
        node: A node of that cluster.
        host, port: Where its cluster listener is.

    Returns:
        The cluster's id; empty if this node is in it already.

    Raises:
        Refusal: It is in a cluster with others, or that one cannot take it in.
    """
    own = service.own_name
    if node == own:
        raise Refusal(PRECONDITION_FAILED, f"Error: cannot cluster node with itself: {own}")
    if node in service.machine.nodes:
        return ""
    if len(service.machine.nodes) > 1:
        raise Refusal(
            PRECONDITION_FAILED, f"node '{own}' is in a cluster with others: reset it first"
        )
    answer = await service.host.ask_at(node, host, port, "status", {}, ASK_SECONDS)
    try:
        there = msgspec.convert(answer, Status)
    except msgspec.ValidationError:
        raise Refusal(PRECONDITION_FAILED, f"node '{node}' is of another version") from None
    check_takes(there, node, own, int(service.node.settings.cluster_version_max))
    service.host.reset((host, port))
    return there.cluster


def check_takes(there: Status, node: str, own: str, known: int) -> None:
    """Refuse what a cluster would not take in.

    Args:
        there: What its node says.
        node: The name of that one, as it was given.
        own: The name of this one.
        known: The newest cluster version that this one knows.

    Raises:
        Refusal: It would not.
    """
    problem = ""
    if there.node != node:
        problem = f"there is node '{there.node}' and not '{node}' at this address"
    elif own in [row.name for row in there.nodes]:
        problem = (
            f"the cluster of node '{node}' counts a node '{own}' of another data directory: "
            f"have it forgotten there first, with 'rabbitmqctl forget_cluster_node {own}'"
        )
    elif not there.leader:
        problem = f"the cluster of node '{node}' cannot take a node in now: it {there.problem}"
    elif there.cluster_version > known:
        problem = (
            f"the cluster of node '{node}' is at version {there.cluster_version}, and this node "
            f"knows versions up to {known}: start a newer release here"
        )
    if problem:
        raise Refusal(PRECONDITION_FAILED, problem)


async def leave_cluster(service: AdminService, force: bool) -> None:
    """Hand the lead over, give up all votes, and have this node removed.

    Raises:
        Refusal: It cannot go, or is needed.
    """
    own = service.own_name
    members = service.members

    def led() -> bool:
        return members.tables_leader() != ""

    await removal(service, own, force, leaving=True)
    await service.host.hand_over()
    # The next leader of the tables may not be known yet; each step needs one.
    await until(led, LEAVE_SECONDS)
    await give_up_votes(service, own, force)
    await until(led, LEAVE_SECONDS)
    command = await removal(service, own, force, leaving=True)
    say_removed(own)
    pending = Awaited()
    service.submit(command, pending)
    nodes = service.machine.nodes
    await until(lambda: own not in nodes or pending.result is not None, LEAVE_SECONDS)
    if own in service.machine.nodes:
        if pending.result is not None:
            raise needed_again(own)
        raise Refusal(TIMED_OUT, f"the cluster has not let node '{own}' go yet; ask once more")


async def removal(service: AdminService, name: str, force: bool, leaving: bool) -> RemoveNode:
    """The command that removes a node.

    Raises:
        Refusal: It cannot go, or is needed.
    """
    machine = service.machine
    up = service.members.running()
    command = check_remove_node(machine, name, name in up, leaving, force)
    needs = Needs(name, up)
    await look_at_all(service, needs)
    if not force:
        needs.check_last()
        up = service.members.running()
        command = check_remove_node(machine, name, name in up, leaving, force)
    left = [other for other in service.members.tables_voters() if other != name]
    still_up = [other for other in left if other in up]
    service.check_majority()
    if 2 * len(still_up) <= len(left):
        raise Refusal(
            PRECONDITION_FAILED,
            f"without node '{name}' the cluster has no majority of running nodes "
            f"({', '.join(still_up)} of {', '.join(left)}): start the others first",
        )
    if not force:
        needs.check_majorities()
    elif said := needs.said_by_force():
        log.warning("node %s goes by force: %s", name, said)
    return command


async def look_at_all(service: AdminService, needs: Needs) -> None:
    """Look at all queues; some may come or change meanwhile, and the node is asked for again."""
    slices = Slices()
    for lot in service.machine.queue_lots():
        for queue in queues_of(lot):
            needs.look(queue)
            await slices.breathe()


def say_removed(name: str) -> None:
    """Say in the log what is about to be done."""
    log.warning("node %s is removed from the cluster, as an operator asked", name)


def needed_again(name: str) -> Refusal:
    """The refusal where something came between the check and the removal."""
    return Refusal(PRECONDITION_FAILED, f"node '{name}' is needed again; ask once more")
