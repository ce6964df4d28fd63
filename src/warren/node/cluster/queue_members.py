"""Members of quorum queues, as operators see and move them: who leads, how far each one is.

Every node has a copy of every quorum queue, so any node can be asked: what its own copy knows it
says, what others know it asks them for. Between nodes these are MessagePack arrays behind a kind:

    TRANSFER  group, node: whoever leads the group is to hand it over to that node
    ASK       number, group: how far is your copy?
    TOLD      number, row, as `Standing` has it
    RENEW     group, incarnation: my copy, this one, is damaged; whoever leads, give me another
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.metadata.balance import Led
from warren.metadata.member_checks import voters
from warren.metadata.tables import QueueRecord
from warren.queues.fifo.snapshot import VERSION as MACHINE_VERSION
from warren.replication.member import Member

if TYPE_CHECKING:
    from warren.node.node import Node

TRANSFER: Final = 6
ASK: Final = 7
TOLD: Final = 8
RENEW: Final = 9

STATES: Final = {"pre-candidate": "pre_vote"}
"""Raft's roles as RabbitMQ writes them, where that is another word."""


@final
class Standing:
    """How far one copy of a queue is.

    Attributes:
        state: Its role, as RabbitMQ's `quorum_status` names it; `noproc` if it does not run there,
            `nodedown` or `timeout` if its node did not say.
        numbers: Last index, last one durable, last one applied, commit index, snapshot index,
            term, version of the machine; empty if they are not known.
    """

    def __init__(self, state: str, numbers: list[int]) -> None:
        self.state: str = state
        self.numbers: list[int] = numbers


@final
class Majority:
    """The nodes of which a group needs a majority.

    Attributes:
        voters: Those that vote, by name.
        missing: Those of them that this node does not reach.
    """

    def __init__(self, voters: list[str], missing: list[str]) -> None:
        self.voters: list[str] = voters
        self.missing: list[str] = missing


@final
class QueueMembers:
    """See the module's head."""

    def __init__(self, node: Node) -> None:
        self._node: Node = node
        self._asked: i64 = 0
        self._told: dict[int, dict[str, Standing]] = {}

    # --- what this node knows -------------------------------------------------------------------

    def queues(self) -> list[QueueRecord]:
        """All quorum queues."""
        found: list[QueueRecord] = []
        for tables in self._node.tables.machine.vhosts.values():
            for queue in tables.queues.values():
                if queue.type.replicated:
                    found.append(queue)
        return found

    def running(self) -> list[str]:
        """The nodes that are up, as far as this one knows, in the order of the tables."""
        own = self._node.settings.node_name
        suspected = self._node.cluster.detector.suspected
        return [
            name for name in self._node.tables.machine.nodes if name == own or not suspected(name)
        ]

    def tables_leader(self) -> str:
        """The node that leads the tables; empty if none is known that runs."""
        leader = self._node.tables.member().raft.leader
        down = leader != self._node.settings.node_name and (
            self._node.cluster.detector.suspected(leader)
        )
        return "" if down else leader

    def tables_majority(self) -> Majority:
        """The nodes of which the tables need a majority."""
        node = self._node
        own = node.settings.node_name
        names = sorted(copy.node for copy in node.tables.member().raft.members if copy.voter)
        missing = [name for name in names if name != own and node.cluster.detector.suspected(name)]
        return Majority(names, missing)

    def majority_missing(self, queue: QueueRecord | None) -> str:
        """That a queue, or the tables, have no leader, in few words; empty if they have."""
        if queue is None:
            raft = self._node.tables.member().raft
            leader, names = raft.leader, [copy.node for copy in raft.members if copy.voter]
        else:
            member = self._member(queue)
            leader, names = self.leader(queue), voters(queue)
            if member is not None:
                # Those of the group itself: one that is to vote no more counts until it is out.
                names = [copy.node for copy in member.raft.members if copy.voter]
        if leader or not names:
            return ""
        running = self.running()
        missing = [name for name in sorted(names) if name not in running]
        return f"no majority without {', '.join(missing)}" if missing else "no majority"

    def leader(self, queue: QueueRecord) -> str:
        """The node that leads a queue; empty if none is known that runs."""
        member = self._member(queue)
        if member is None:
            return ""
        leader = member.raft.leader
        down = leader != self._node.settings.node_name and (
            self._node.cluster.detector.suspected(leader)
        )
        return "" if down else leader

    def voting(self, queue: QueueRecord) -> list[str]:
        """The nodes that vote in a queue by the word of this node's copy; none without one."""
        member = self._member(queue)
        return [] if member is None else [copy.node for copy in member.raft.members if copy.voter]

    def settled(self, queue: QueueRecord, without: str = "") -> bool:
        """Whether those vote that the tables say, and that is committed.

        Args:
            queue: Whose copies.
            without: A node whose copy may be on its way to a vote, or from one.
        """
        member = self._member(queue)
        if member is None:
            return False
        config = member.raft.state.config()
        if config.index > member.raft.commit_index:
            return False
        voting = [copy.node for copy in config.members if copy.voter and copy.node != without]
        return sorted(voting) == sorted(name for name in voters(queue) if name != without)

    def why_not(self, queue: QueueRecord) -> str:
        """Why the members of a queue cannot be changed now; empty if they can (MEM-06)."""
        if not self.leader(queue):
            names = voters(queue)
            running = self.running()
            down = [name for name in names if name not in running]
            text = f"it has no leader; a majority of its members {', '.join(names)} has to run"
            return f"{text}, but {', '.join(down)} do not" if down else text
        return "" if self.settled(queue) else "another change of its members is under way"

    def led(self, queues: list[QueueRecord]) -> list[Led]:
        """Those of some queues that have a leader, for `balance.moves`."""
        running = self.running()
        found: list[Led] = []
        for queue in queues:
            leader = self.leader(queue)
            if leader in running:
                able = [name for name in voters(queue) if name in running]
                found.append(Led(queue.group_id, leader, able))
        return found

    def _member(self, queue: QueueRecord) -> Member | None:
        return self._node.cluster.members.get(int(queue.group_id))

    # --- what it does ---------------------------------------------------------------------------

    def transfer(self, group_id: int, target: str) -> None:
        """Have the leader of a group hand it over. It may fail; asking again does no harm."""
        member = self._node.cluster.members.get(group_id)
        if member is None:
            return
        leader = member.raft.leader
        if leader == self._node.settings.node_name:
            self.hand_over(member, target, False)
        elif leader and leader != target:
            self._say(leader, TRANSFER, [group_id, target])

    def hand_over(self, member: Member, target: str, as_is: bool) -> None:
        """Have another member lead a group that this node leads; see `Raft.transfer`."""
        now = self._node.monotonic_ms()
        if not member.raft.transfer(target, now, as_is):
            self._node.cluster.stirred(member)

    def say_renew(self, peer: str, queue: QueueRecord, incarnation: i64) -> None:
        """Ask a node, if it leads a queue, for another copy in the place of this node's."""
        self._say(peer, RENEW, [int(queue.group_id), int(incarnation)])

    def ask(self, queue: QueueRecord) -> int:
        """Find out how far all copies of a queue are; `told` under this number has what came."""
        self._asked += 1
        number = int(self._asked)
        own = self._node.settings.node_name
        group_id = int(queue.group_id)
        self._told[number] = {own: self._standing(group_id)}
        for row in queue.members:
            if row.node != own:
                self._say(row.node, ASK, [number, group_id])
        return number

    def told(self, number: int) -> dict[str, Standing]:
        """What came so far, by node."""
        return self._told[number]

    def forget(self, number: int) -> dict[str, Standing]:
        """The same, for the last time."""
        return self._told.pop(number)

    def _standing(self, group_id: int) -> Standing:
        member = self._node.cluster.members.get(group_id)
        if member is None:
            return Standing("noproc", [])
        raft = member.raft
        state = raft.state
        role = raft.role_name
        return Standing(
            STATES.get(role, role),
            [
                int(raft.last_index),
                int(state.persisted_index),
                int(member.applied_index),
                int(raft.commit_index),
                int(state.log.snapshot_index),
                int(raft.term),
                MACHINE_VERSION,
            ],
        )

    # --- between nodes --------------------------------------------------------------------------

    def _say(self, peer: str, kind: int, content: Any) -> None:
        self._node.cluster.send(peer, [bytes([kind]), msgspec.msgpack.encode(content)])

    def received(self, peer: str, message: bytes) -> None:
        """A node asks, tells, or wants a leader moved.

        Raises:
            CorruptRecord: It cannot be understood.
        """
        kind = message[0]
        try:
            content = msgspec.msgpack.decode(message[1:])
            if kind == TRANSFER:
                group_id, target = content
                member = self._node.cluster.members.get(group_id)
                if member is not None and member.raft.is_leader:
                    self.hand_over(member, target, False)
            elif kind == ASK:
                number, group_id = content
                own = self._standing(group_id)
                self._say(peer, TOLD, [number, own.state, own.numbers])
            elif kind == TOLD:
                number, state, numbers = content
                told = self._told.get(number)
                if told is not None:
                    told[peer] = Standing(state, numbers)
            elif kind == RENEW:
                group_id, incarnation = content
                self._node.repairs.asked(peer, group_id, incarnation)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise CorruptRecord("a frame of a node", 0, f"this is no message: {error}") from error
