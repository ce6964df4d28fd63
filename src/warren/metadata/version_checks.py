"""Whether the cluster has come as far as a change needs; see `warren.versions`."""

from __future__ import annotations

from warren.errors import PRECONDITION_FAILED, Refusal
from warren.metadata.commands import Command
from warren.metadata.machine import MetadataMachine


def check_version(machine: MetadataMachine, command: Command) -> None:
    """Refuse a change that some node of the cluster would not understand.

    Raises:
        Refusal: `PRECONDITION_FAILED`, it needs a later cluster version; says who keeps it back.
    """
    check_known(machine, command.cluster_version())


def check_known(machine: MetadataMachine, needed: int) -> None:
    """Refuse something that takes a cluster version which the cluster has not come to.

    Raises:
        Refusal: As above.
    """
    if needed <= machine.version:
        return
    behind = [node.name for node in machine.nodes.values() if node.version < needed]
    what = f"this needs cluster version {needed}, and the cluster is at {machine.version}: "
    if behind:
        what += (
            f"start a newer release, or let cluster.version_max be {needed}, on {', '.join(behind)}"
        )
    else:
        what += "all nodes know it, and it moves up in a moment; try again"
    raise Refusal(PRECONDITION_FAILED, what)
