"""Nodes that come, go and start again, and what that does to queues."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from typing import Final, final

from mypy_extensions import i64, trait

from warren.ids import life_of, may_begin, of_life
from warren.metadata.changes import QUEUE_COST, remove_exchange, take_queue
from warren.metadata.commands import (
    AddNode,
    DeclareQueue,
    MoreSessions,
    NodeLabelled,
    NodeMoved,
    NodeSeen,
    NodeUp,
    RemoveNode,
    ReplaceNode,
)
from warren.metadata.outcome import Outcome
from warren.metadata.parts import CommandParts
from warren.metadata.rows import Lot, queue_row
from warren.metadata.tables import (
    NO_OWNER,
    MemberRecord,
    NodeRecord,
    QueueRecord,
    VhostRecord,
    queues_of,
)
from warren.queue_types import type_of

LOT_COST: Final = 16
"""Bindings that cost as much as a look at the queues of a lot does: 16,000 queues in a part."""


def add_node(nodes: dict[str, NodeRecord], command: AddNode, outcome: Outcome) -> None:
    """Apply `AddNode`: a node joins the cluster, or is known under another address."""
    node = nodes.get(command.name)
    if node is None:
        if node_with(nodes, command.uid) is not None:
            return
        nodes[command.name] = NodeRecord(
            command.name, command.uid, command.host, command.port, command.incarnation
        )
    elif node.uid != command.uid or (
        node.host == command.host
        and node.port == command.port
        and node.incarnation == command.incarnation
    ):
        return
    else:
        node.host = command.host
        node.port = command.port
        node.incarnation = command.incarnation
    outcome.changed = True
    outcome.nodes_changed = True


def node_with(nodes: dict[str, NodeRecord], uid: bytes) -> NodeRecord | None:
    """The node with a uid, None where there is none."""
    for node in nodes.values():
        if node.uid == uid:
            return node
    return None


@trait
class Passage:
    """What a command about a node does to queues, one after the other: there may be very many."""

    @abstractmethod
    def treat(self, tables: VhostRecord, queue: QueueRecord, outcome: Outcome, room: i64) -> i64:
        """Do it to one queue of a vhost.

        Args:
            room: How many bindings may go, at least 1; a queue is `QUEUE_COST` of them.

        Returns:
            The room that is left; negative if there is more to do about this queue.
        """


@final
class Round(CommandParts):
    """A passage through all queues there were when it began, in the order of the tables."""

    def __init__(self, vhosts: dict[str, VhostRecord], passage: Passage) -> None:
        super().__init__()
        self._passage: Passage = passage
        self._vhosts: list[VhostRecord] = list(vhosts.values())
        self._vhosts.reverse()
        self._lots: deque[Lot] = deque()
        """Rows of the vhost under way,"""
        self._queues: list[QueueRecord] = []
        """and queues of the last lot that was taken of these, in reverse order."""
        self._tables: VhostRecord | None = None

    def go_on(self, outcome: Outcome, room: i64) -> None:
        """Treat some more queues."""
        while room > 0:
            tables = self._tables
            if tables is None or not self._queues:
                if not self._lots:
                    if not self._vhosts:
                        self.over = True
                        return
                    tables = self._vhosts.pop()
                    self._tables = tables
                    self._lots = deque(tables.queue_rows.lots)
                    room -= QUEUE_COST
                    continue
                self._queues = queues_of(self._lots.popleft())
                self._queues.reverse()
                continue
            room = self._passage.treat(tables, self._queues[-1], outcome, room)
            if room >= 0:
                self._queues.pop()
        self.over = not self._queues and not self._lots and not self._vhosts


@final
class Renewal(Passage):
    """Gives the copies on a node new incarnations.

    Each is another one from now on, which begins with nothing, so that what the old one
    acknowledged is not counted on. Of a queue that has its only voter there, the others begin anew:
    they may be ahead of the one that counts.
    """

    def __init__(self, name: str, index: i64) -> None:
        self._name: str = name
        self._index: i64 = index
        self._copies: i64 = 0

    def treat(self, tables: VhostRecord, queue: QueueRecord, outcome: Outcome, room: i64) -> i64:
        """Renew the copy of one queue, or the others."""
        if queue.member_on(self._name) is None:
            return max(room - QUEUE_COST, 0)
        alone = _votes_only_on(queue, self._name)
        members: list[MemberRecord] = []
        for member in queue.members:
            if (member.node == self._name) != alone:
                self._copies += 1
                # No life of a node begins at this index, so that nobody else gives such numbers.
                incarnation = of_life(self._index, self._copies)
                member = MemberRecord(member.node, incarnation, member.voter)
            members.append(member)
        replace_members(tables, queue, members, outcome)
        return max(room - QUEUE_COST, 0)


@final
class Removal(Passage):
    """Takes a node out of the queues, and deletes those that no other node could lead."""

    def __init__(self, name: str) -> None:
        self._name: str = name

    def treat(self, tables: VhostRecord, queue: QueueRecord, outcome: Outcome, room: i64) -> i64:
        """Take it out of one queue."""
        left = [member for member in queue.members if member.node != self._name]
        if votes_somewhere(left):
            if len(left) < len(queue.members):
                replace_members(tables, queue, left, outcome)
        elif queue.members or queue.node == self._name:
            # Nobody could ever lead it again.
            return take_queue(tables, queue, outcome, room)
        return max(room - QUEUE_COST, 0)


def replace_node(
    nodes: dict[str, NodeRecord], index: i64, command: ReplaceNode, outcome: Outcome
) -> Passage | None:
    """Apply `ReplaceNode`; gives what it does to queues, if anything."""
    node = nodes.get(command.name)
    if node is None or node.uid != command.former_uid or node_with(nodes, command.uid) is not None:
        return None
    if not may_begin(index):
        # Its copies could get no new incarnations.
        return None
    nodes[command.name] = NodeRecord(
        command.name, command.uid, command.host, command.port, command.incarnation
    )
    outcome.changed = True
    outcome.nodes_changed = True
    return Renewal(command.name, index)


def node_seen(nodes: dict[str, NodeRecord], command: NodeSeen, outcome: Outcome) -> None:
    """Apply `NodeSeen`: remember the newest round of its log that a node said is durable."""
    node = nodes.get(command.name)
    if node is not None and node.nonce == command.nonce and node.round < command.round:
        node.round = command.round
        outcome.changed = True


def node_moved(nodes: dict[str, NodeRecord], command: NodeMoved, outcome: Outcome) -> None:
    """Apply `NodeMoved`: a node is reached at another address from now on."""
    node = nodes.get(command.name)
    if node is None or (node.host == command.host and node.port == command.port):
        return
    node.host = command.host
    node.port = command.port
    outcome.changed = True
    outcome.nodes_changed = True


def node_labelled(nodes: dict[str, NodeRecord], command: NodeLabelled, outcome: Outcome) -> None:
    """Apply `NodeLabelled`; members of queues stay where they are."""
    node = nodes.get(command.name)
    if node is None or (node.host_label == command.host_label and node.zone == command.zone):
        return
    node.host_label = command.host_label
    node.zone = command.zone
    outcome.changed = True


def node_up(
    nodes: dict[str, NodeRecord],
    vhosts: dict[str, VhostRecord],
    index: i64,
    command: NodeUp,
    outcome: Outcome,
) -> CommandParts | None:
    """Apply `NodeUp`; gives what it does to queues, if anything."""
    node = nodes.get(command.name)
    if node is None or node.uid != command.uid or node.nonce == command.nonce:
        return None
    if not may_begin(index):
        return None
    node.session = index
    node.newest = index
    node.nonce = command.nonce
    node.boot = command.boot
    node.round = command.round
    node.version = command.version
    outcome.changed = True
    return LifeBegins(vhosts, node, len(nodes) == 1)


@final
class LifeBegins(CommandParts):
    """A node is up with nothing of what ended with its last process; only then others hear of it.

    Exchanges that are not durable belong to no node: they go when the only node starts again, and
    stay while there are others, whose clients use them.
    """

    def __init__(self, vhosts: dict[str, VhostRecord], node: NodeRecord, alone: bool) -> None:
        super().__init__()
        self._vhosts: list[VhostRecord] = list(vhosts.values())
        self._vhosts.reverse()
        self._node: NodeRecord = node
        self._alone: bool = alone
        self._tables: VhostRecord | None = None
        self._queues: list[QueueRecord] = []
        """Those that may go of a vhost, in reverse order."""

    def go_on(self, outcome: Outcome, room: i64) -> None:
        """Delete some queues."""
        while room > 0:
            tables = self._tables
            if tables is None:
                if not self._vhosts:
                    outcome.node_up = self._node
                    self.over = True
                    return
                tables = self._vhosts.pop()
                self._tables = tables
                self._queues = tables.in_memory.keys()
                self._queues.reverse()
            elif not self._queues:
                if self._alone:
                    drop_transient_exchanges(tables, outcome)
                self._tables = None
            elif self._queues[-1].node != self._node.name:
                self._queues.pop()
                room -= 1
            else:
                room = take_queue(tables, self._queues[-1], outcome, room)
                if room >= 0:
                    self._queues.pop()


def more_sessions(
    nodes: dict[str, NodeRecord], index: i64, command: MoreSessions, outcome: Outcome
) -> None:
    """Apply `MoreSessions`: a life of a node gets the sessions that this index stands for."""
    node = nodes.get(command.name)
    known = node is not None and node.nonce == command.nonce and node.newest == command.newest
    if node is not None and known and may_begin(index):
        node.newest = index
        outcome.changed = True
        outcome.more_sessions = node


def drop_transient_exchanges(tables: VhostRecord, outcome: Outcome) -> None:
    """Delete the exchanges of a vhost that are not durable."""
    for exchange in [row for row in tables.exchanges.values() if not row.durable]:
        if exchange.name in tables.exchanges:
            outcome.changed = True
            remove_exchange(tables, exchange, outcome)


def remove_node(
    nodes: dict[str, NodeRecord],
    vhosts: dict[str, VhostRecord],
    command: RemoveNode,
    outcome: Outcome,
) -> CommandParts | None:
    """Apply `RemoveNode`: a node goes, unless it is needed; gives what there is to do."""
    name = command.name
    if name not in nodes or len(nodes) == 1:
        return None
    if command.uid and command.uid != nodes[name].uid:
        # Decided when another one bore the name, and long on its way.
        return None
    return NodeRemoval(nodes, vhosts, command, outcome)


@final
class NodeRemoval(CommandParts):
    """Finds out whether any queue needs a node; takes it out of the tables if none does."""

    def __init__(
        self,
        nodes: dict[str, NodeRecord],
        vhosts: dict[str, VhostRecord],
        command: RemoveNode,
        outcome: Outcome,
    ) -> None:
        super().__init__()
        self._nodes: dict[str, NodeRecord] = nodes
        self._vhosts: dict[str, VhostRecord] = vhosts
        self._name: str = command.name
        self._first: Outcome = outcome
        """What who asked for it is told."""
        self._lots: deque[Lot] = deque()
        """Rows of queues that may need it."""
        self._round: Round | None = None
        if not command.force:
            for tables in vhosts.values():
                self._lots.extend(tables.queue_rows.lots)

    def go_on(self, outcome: Outcome, room: i64) -> None:
        """Look at some queues, or do to some what its going calls for."""
        while self._lots and room > 0:
            for queue in queues_of(self._lots.popleft()):
                if is_last_voter(queue, self._name):
                    self.over = True
                    return
            room -= LOT_COST
        if self._lots:
            return
        going = self._round
        if going is None:
            del self._nodes[self._name]
            for each in (self._first, outcome):
                each.changed = True
                each.nodes_changed = True
            going = Round(self._vhosts, Removal(self._name))
            self._round = going
        going.go_on(outcome, max(room, 1))
        self.over = going.over


def is_last_voter(queue: QueueRecord, name: str) -> bool:
    """Whether it is a quorum queue that has no voter but the one on this node."""
    return queue.type.replicated and _votes_only_on(queue, name)


def _votes_only_on(queue: QueueRecord, name: str) -> bool:
    if not queue.members:
        return queue.node == name
    here = False
    for member in queue.members:
        if member.voter:
            if member.node != name:
                return False
            here = True
    return here


def replace_members(
    tables: VhostRecord, queue: QueueRecord, members: list[MemberRecord], outcome: Outcome
) -> None:
    """Give a queue other members, and a node to lead first that is one of them."""
    queue.members = members
    queue.revision += 1
    if queue.member_on(queue.node) is None:
        queue.node = first_leader(members)
    tables.queue_rows.put(queue, queue_row(queue))
    outcome.changed = True
    outcome.members_changed.append(queue)


def first_leader(members: list[MemberRecord]) -> str:
    """The node of the first voter; of the first member where there is no voter."""
    for member in members:
        if member.voter:
            return member.node
    return members[0].node


def known_members(
    nodes: dict[str, NodeRecord], members: list[MemberRecord]
) -> list[MemberRecord] | None:
    """Those on nodes that are still there; None if none of them votes."""
    known = [member for member in members if member.node in nodes]
    return known if votes_somewhere(known) else None


def votes_somewhere(members: list[MemberRecord]) -> bool:
    """Whether there is a voter among some members."""
    for member in members:
        if member.voter:
            return True
    return False


def is_late(nodes: dict[str, NodeRecord], command: DeclareQueue) -> bool:
    """Whether the node that a queue is for is gone, or its process if the queue lives in that.

    Group ids without a session are those of a node that knows no cluster.
    """
    if not command.node:
        return False
    node = nodes.get(command.node)
    if node is None:
        return not command.members or not type_of(command.kind).replicated
    session = life_of(command.group_id)
    in_memory = not command.durable or command.exclusive_owner != NO_OWNER
    return in_memory and session != 0 and session != node.session
