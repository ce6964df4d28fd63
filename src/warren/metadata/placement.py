"""Which nodes get the members of a new quorum queue, and which one leads first.

As in RabbitMQ: the declaring node always votes; the other voters are running nodes first, those
with the fewest voters first. In a cluster of many queues counting would cost more than it gives,
so chance decides, as it does between equals. Before that, labels of nodes count: members share no
host unless there is no other, and are in as many zones as may be. Other nodes hold nothing of the
queue.

Source: REP-01 to REP-05, LEAD-02 to LEAD-04; `rabbit_queue_location` of RabbitMQ 4.3.
"""

from __future__ import annotations

import hashlib
from typing import Final, final

from mypy_extensions import i64

from warren.metadata.commands import DeclareQueue
from warren.metadata.machine import MetadataMachine
from warren.metadata.policies import EffectiveSettings
from warren.metadata.spread import Spread
from warren.metadata.tables import MemberRecord, QueueRecord, VhostRecord
from warren.queue_types import QUEUE_LEADER_LOCATOR, TARGET_GROUP_SIZE, type_of
from warren.wire.amqp091.table import Table

GROUP_SIZE: Final = "x-quorum-initial-group-size"
LEADER_LOCATOR: Final = "x-queue-leader-locator"

DEFAULT_GROUP_SIZE: Final = 3
CLIENT_LOCAL: Final = "client-local"
BALANCED: Final = "balanced"

QUEUES_FOR_CHANCE: Final = 1_000
"""From this many queues of all types on, placement goes by chance and not by load."""

SEED_BYTES: Final = 16


@final
class Loads:
    """What the nodes have to do already.

    Attributes:
        queues: How many queues of all types there are.
        leaders: Quorum queues that a node leads. May be empty from `QUEUES_FOR_CHANCE` queues on,
            and where there is one node.
        voters: Quorum queues that it votes in; the same.
    """

    def __init__(self, queues: int) -> None:
        self.queues: int = queues
        self.leaders: dict[str, int] = {}
        self.voters: dict[str, int] = {}


def queue_count(machine: MetadataMachine) -> int:
    """How many queues of all types there are."""
    total = 0
    for tables in machine.vhosts.values():
        total += len(tables.queues)
    return total


def counts(machine: MetadataMachine) -> bool:
    """Whether it matters who leads and votes in how many queues, and counting is worth it."""
    return len(machine.nodes) > 1 and queue_count(machine) < QUEUES_FOR_CHANCE


def count_loads(machine: MetadataMachine, leaders: dict[int, str]) -> Loads:
    """What every node leads and votes in.

    Args:
        machine: The tables.
        leaders: Who leads which group now, as far as that is known; else it counts for the node
            that its leader began on.
    """
    total = queue_count(machine)
    loads = Loads(total)
    if not counts(machine):
        return loads
    for tables in machine.vhosts.values():
        for queue in tables.queues.values():
            if not queue.members:
                continue
            leader = leaders.get(int(queue.group_id), queue.node)
            loads.leaders[leader] = loads.leaders.get(leader, 0) + 1
            for member in queue.members:
                if member.voter:
                    loads.voters[member.node] = loads.voters.get(member.node, 0) + 1
    return loads


def group_size(arguments: Table, default: int) -> int:
    """How many members of a quorum queue are to vote (REP-03).

    Args:
        arguments: As `checks.declare_queue` let them through.
        default: What the node's configuration says.
    """
    value = arguments.get(GROUP_SIZE)
    return value if isinstance(value, int) else default


def target_size(tables: VhostRecord, queue: QueueRecord, configured: int) -> int:
    """How many members a queue is to have in the long run; 0 if nothing says so (CMR-06, CMR-10).

    The largest figure counts, wherever it is from, as in RabbitMQ (CMR-11).

    Args:
        tables: The queue's vhost.
        queue: A quorum queue.
        configured: What the node's configuration says, 0 for nothing.
    """
    effective = EffectiveSettings(tables, queue.name, queue.kind, queue.arguments)
    return max(configured, int(effective.number(TARGET_GROUP_SIZE, 0)))


def leader_locator(tables: VhostRecord, command: DeclareQueue, default: str) -> str:
    """`CLIENT_LOCAL` or `BALANCED`, which has other names too (LEAD-02).

    A policy comes before the argument, and that before the configuration, as in RabbitMQ.

    Args:
        tables: The queue's vhost.
        command: As `checks.declare_queue` let it through.
        default: What the node's configuration says.
    """
    effective = EffectiveSettings(tables, command.name, command.kind, command.arguments)
    value = effective.text(QUEUE_LEADER_LOCATOR) or default
    return CLIENT_LOCAL if value == CLIENT_LOCAL else BALANCED


def choose_members(
    nodes: list[str],
    running: list[str],
    declaring: str,
    size: int,
    locator: str,
    loads: Loads,
    seed: bytes,
    spread: Spread,
) -> tuple[str, list[str]]:
    """The node that is to lead first, and all that hold the queue.

    Args:
        nodes: All of the cluster; members come in their order.
        running: Those of them that are up, as far as the declaring one knows.
        declaring: The node whose client declares; one of `nodes`.
        size: How many members there are to be; as many as nodes if there are fewer.
        locator: `CLIENT_LOCAL` or `BALANCED`.
        seed: `SEED_BYTES` random bytes, for what is left to chance.
        spread: Of the nodes, without members.
    """
    assert declaring in nodes and size > 0
    by_chance = loads.queues >= QUEUES_FOR_CHANCE
    voters = [declaring]
    spread.add(declaring)
    left = [node for node in nodes if node != declaring]
    while left and len(voters) < size:
        others: list[tuple[bool, bool, int, int, bytes, str]] = []
        for node in left:
            load = 0 if by_chance else loads.voters.get(node, 0)
            away = node not in running
            lot = _lot(seed, b"voter", node)
            others.append((spread.shares_host(node), away, spread.in_zone(node), load, lot, node))
        chosen = min(others)[5]
        voters.append(chosen)
        left.remove(chosen)
        spread.add(chosen)
    leader = declaring
    if locator == BALANCED:
        able: list[tuple[int, bytes, str]] = []
        for node in voters:
            if node == declaring or node in running:
                load = 0 if by_chance else loads.leaders.get(node, 0)
                able.append((load, _lot(seed, b"leader", node), node))
        leader = min(able)[2]
    return leader, [node for node in nodes if node in voters]


def place(
    command: DeclareQueue,
    machine: MetadataMachine,
    running: list[str],
    declaring: str,
    default_size: int,
    default_locator: str,
    incarnation: i64,
    seed: bytes,
    leaders: dict[int, str],
) -> None:
    """Say in a declare where the queue will live.

    What is not replicated is used from the node that has it, so it lives where it is declared.
    So does everything on a node that knows no cluster.

    Args:
        command: From `checks.declare_queue`.
        running, declaring, seed: See `choose_members`.
        default_size, default_locator: What holds where neither arguments nor policies say more.
        incarnation: Of each member; the queue is new, so that its group id may serve.
        leaders: See `count_loads`; of no use unless `counts` says so.
    """
    command.node = declaring
    if not type_of(command.kind).replicated or not machine.nodes:
        return
    command.node, members = choose_members(
        list(machine.nodes),
        running,
        declaring,
        group_size(command.arguments, default_size),
        leader_locator(machine.vhosts[command.vhost], command, default_locator),
        count_loads(machine, leaders),
        seed,
        Spread(machine.nodes, []),
    )
    command.members = [MemberRecord(node, incarnation, True) for node in members]


def _lot(seed: bytes, purpose: bytes, node: str) -> bytes:
    """A node's lot: who has the smallest one is drawn."""
    return hashlib.sha256(seed + purpose + node.encode("utf-8", "surrogateescape")).digest()
