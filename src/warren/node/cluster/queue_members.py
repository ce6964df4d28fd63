"""Members of quorum queues, as operators see and move them: who leads, how far each one is.

Any node can be asked: it says what its own copy of a queue knows, or what it hears of a queue that
it uses; what others know it asks them for. What nodes say are MessagePack arrays behind a kind:

    TRANSFER  group, node: the leader of the group is to hand it over to that node
    ASK       number, group: how far is your copy?
    TOLD      number, row, as `Standing` has it
    RENEW     group, incarnation: my copy, this one, is damaged; if you lead, give me another
    LEAVE     group, incarnation, index: my copy, this one, is to go; does the group still count it?
              That is for the leader to say, once its newest configuration, and that of this index,
              my newest one's, are committed, and a majority follows it still.
    LEFT      group, incarnation: it does not
    WHO_LEADS number, groups: which node leads each of these, as your copies know?
    THEY_LEAD number, groups, names of nodes; empty where none is known
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from mypy_extensions import i64

from warren.errors import CorruptRecord
from warren.limits import GROUPS_ASKED_MAX
from warren.metadata.balance import Led
from warren.metadata.machine import MetadataMachine
from warren.metadata.member_checks import voters
from warren.metadata.tables import QueueRecord
from warren.node.loop import Loop
from warren.node.store import METADATA_GROUP, MetadataStore
from warren.pending import PendingAnswer, Result
from warren.queues.fifo.snapshot import VERSION as MACHINE_VERSION
from warren.replication.kinds import (
    ASK,
    LEAVE,
    LEFT,
    RENEW,
    THEY_LEAD,
    TOLD,
    TRANSFER,
    WHO_LEADS,
)
from warren.replication.member import Member

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.cluster.observers import Observers
    from warren.node.copies import Copies
    from warren.node.repairs import Repairs


STATES: Final = {"pre-candidate": "pre_vote"}
"""Raft's roles as RabbitMQ writes them, where that is another word."""


@final
class LeavingReplica(PendingAnswer):
    """A copy that is to go, while the leader that counts it no more finds out whether it leads."""

    def __init__(
        self, members: QueueMembers, peer: str, group_id: int, incarnation: int, index: int
    ) -> None:
        self._members: QueueMembers = members
        self.peer: str = peer
        self.group_id: int = group_id
        self.incarnation: int = incarnation
        self.index: int = index

    def succeeded(self, result: Result) -> None:
        """Let the copy go: this node leads its group still."""
        self._members.confirmed(self, True)

    def abandoned(self) -> None:
        """It does not."""
        self._members.confirmed(self, False)


@final
class Standing:
    """How far one copy of a queue is.

    Attributes:
        state: Its role, as RabbitMQ's `quorum_status` names it; `noproc` if it does not run there,
            `nodedown` or `timeout` if its node did not say.
        numbers: Last index, last one durable, last one applied, commit index, snapshot index,
            term, version of the machine; empty if they are not known.
        commit_ms: What an entry takes until it is committed, of a copy of this node that leads.
    """

    def __init__(self, state: str, numbers: list[int]) -> None:
        self.commit_ms: i64 = 0
        self.state: str = state
        self.numbers: list[int] = numbers

    def last_index(self) -> i64:
        """The index of the last entry in its log; the numbers have to be known."""
        return self.numbers[0]

    def applied_index(self) -> i64:
        """The index of the last entry applied."""
        return self.numbers[2]

    def term(self) -> i64:
        """The newest term that it knows."""
        return self.numbers[5]


@final
class Inquiry:
    """Who leads some queues, as other nodes say.

    Attributes:
        queues: Those, by group.
        awaited: How many messages of theirs are to come.
        leaders: What came, by group.
    """

    def __init__(self, queues: dict[int, QueueRecord]) -> None:
        self.queues: dict[int, QueueRecord] = queues
        self.awaited: i64 = 0
        self.leaders: dict[int, str] = {}

    def over(self) -> bool:
        """Whether all that is to come has come."""
        return self.awaited <= 0


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

    def __init__(
        self,
        loop: Loop,
        metadata: MetadataMachine,
        store: MetadataStore,
        cluster: Cluster,
        observers: Observers,
    ) -> None:
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._cluster: Cluster = cluster
        self._observers: Observers = observers
        self._copies: Copies | None = None
        self._repairs: Repairs | None = None
        self._node_name: str = loop.settings.node_name
        self._asked: i64 = 0
        self._told: dict[int, dict[str, Standing]] = {}
        self._leaving: dict[tuple[int, str], None] = {}
        """Groups and nodes whose copies are to go, of which a leader here is about to say so."""
        self._inquiries: dict[int, Inquiry] = {}

    def wire(self, copies: Copies, repairs: Repairs) -> None:
        """Name what other nodes have something to say to; before anything is recovered."""
        self._copies = copies
        self._repairs = repairs

    # --- what this node knows -------------------------------------------------------------------

    def queues(self) -> list[QueueRecord]:
        """All quorum queues."""
        found: list[QueueRecord] = []
        for tables in self._metadata.vhosts.values():
            for queue in tables.queues_in_order():
                if queue.type.replicated:
                    found.append(queue)
        return found

    def running(self) -> list[str]:
        """The nodes that are up, as far as this one knows, in the order of the tables."""
        return self._cluster.running()

    def tables_leader(self) -> str:
        """The node that leads the tables; empty if none is known that runs."""
        leader = self._store.member().raft.leader
        down = leader != self._node_name and (self._cluster.detector.suspected(leader))
        return "" if down else leader

    def tables_majority(self) -> Majority:
        """The nodes of which the tables need a majority."""
        own = self._node_name
        names = sorted(copy.node for copy in self._store.member().raft.members if copy.voter)
        missing = [name for name in names if name != own and self._cluster.detector.suspected(name)]
        return Majority(names, missing)

    def tables_voters(self) -> list[str]:
        """The nodes whose majority the cluster needs: all, or those that vote of a great many."""
        nodes = self._metadata.nodes
        if len(nodes) <= self._loop.settings.tables_voters:
            return list(nodes)
        return [name for name in self.tables_majority().voters if name in nodes]

    def majority_missing(self, queue: QueueRecord | None) -> str:
        """That a queue, or the tables, have no leader, in few words; empty if they have."""
        member: Member | None = None
        if queue is None:
            raft = self._store.member().raft
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
        if queue is not None and member is None and 2 * len(missing) < len(names):
            # Nothing was heard of it here.
            return ""
        return f"no majority without {', '.join(missing)}" if missing else "no majority"

    def leader(self, queue: QueueRecord) -> str:
        """The node that leads a queue; empty if none is known that runs."""
        member = self._member(queue)
        if member is not None:
            leader = member.raft.leader
        else:
            observer = self._observers.observer(queue.group_id)
            leader = "" if observer is None else observer.leader
        if queue.member_on(leader) is None:
            # It has left, or is about to, and another one has not been heard of yet.
            return ""
        down = leader != self._node_name and (self._cluster.detector.suspected(leader))
        return "" if down else leader

    def voting(self, queue: QueueRecord) -> list[str]:
        """The nodes that vote in a queue, by what this node's copy knows or else the tables."""
        member = self._member(queue)
        if member is None:
            return voters(queue)
        return [copy.node for copy in member.raft.members if copy.voter]

    def in_force(self, queue: QueueRecord, without: str = "") -> bool:
        """Whether those vote that the tables say, and that is committed.

        Args:
            queue: Whose copies.
            without: A node whose copy may be on its way to a vote, or from one.
        """
        member = self._member(queue)
        if member is not None:
            config = member.raft.state.config()
            if config.index > member.raft.commit_index:
                return False
            members = config.members
        else:
            observer = self._observers.observer(queue.group_id)
            if observer is None or not observer.fed():
                return False
            members = observer.members
        voting = {copy.node: copy.incarnation for copy in members if copy.voter}
        wanted = {row.node: row.incarnation for row in queue.members if row.voter}
        # A copy that another one takes the place of is not the one that the tables say.
        voting.pop(without, None)
        wanted.pop(without, None)
        return voting == wanted

    def why_not(self, queue: QueueRecord) -> str:
        """Why the members of a queue cannot be changed now; empty if they can (MEM-06)."""
        self._observers.listen(queue)
        if not self.leader(queue):
            names = voters(queue)
            running = self.running()
            down = [name for name in names if name not in running]
            text = f"it has no leader; a majority of its members {', '.join(names)} has to run"
            return f"{text}, but {', '.join(down)} do not" if down else text
        return "" if self.in_force(queue) else "another change of its members is under way"

    def led(self, queues: list[QueueRecord], leaders: dict[int, str]) -> list[Led]:
        """Those of some queues that have a leader, for `balance.moves`.

        Args:
            leaders: Who leads them, by group.
        """
        running = self.running()
        found: list[Led] = []
        for queue in queues:
            leader = leaders.get(int(queue.group_id), "")
            if leader in running:
                able = [name for name in voters(queue) if name in running]
                found.append(Led(queue.group_id, leader, able))
        return found

    def _member(self, queue: QueueRecord) -> Member | None:
        return self._cluster.members.get(int(queue.group_id))

    # --- what it does ---------------------------------------------------------------------------

    def transfer(self, group_id: int, target: str) -> None:
        """Have the leader of a group hand it over. It may fail; asking again does no harm."""
        member = self._cluster.members.get(group_id)
        if member is None:
            observer = self._observers.observer(group_id)
            if observer is not None and observer.leader not in ("", target):
                self._say(observer.leader, TRANSFER, [group_id, target])
            return
        leader = member.raft.leader
        if leader == self._node_name:
            self.hand_over(member, target, False)
        elif leader and leader != target:
            self._say(leader, TRANSFER, [group_id, target])

    def hand_over(self, member: Member, target: str, as_is: bool) -> None:
        """Have another member lead a group that this node leads; see `Raft.transfer`."""
        now = self._loop.monotonic_ms()
        if not member.raft.transfer(target, now, as_is):
            self._cluster.stirred(member)

    def say_renew(self, peer: str, queue: QueueRecord, incarnation: i64) -> None:
        """Ask a node, if it leads a queue, for another copy in the place of this node's."""
        self._say(peer, RENEW, [int(queue.group_id), int(incarnation)])

    def ask_to_leave(self, queue: QueueRecord, member: Member) -> None:
        """Ask the other nodes whether they count this node's copy of a queue, which is to go.

        All of them: the leader may be about to go as well, so that the tables name it no more,
        and may lead by a configuration that this copy has not heard of.
        """
        content = [
            int(queue.group_id),
            int(member.hard_state.incarnation),
            int(member.raft.state.config().index),
        ]
        for node in self._metadata.nodes:
            if node != self._node_name:
                self._say(node, LEAVE, content)

    def _leaves(self, peer: str, group_id: int, incarnation: int, index: int) -> None:
        """A node's copy is to go: say so if it counts no more, which the leader knows.

        Others may not know yet that the copy came to count, nor may the copy itself; and until its
        newest members are committed, the leader may need the vote of any of them.
        """
        if (group_id, peer) not in self._leaving and self._counts_out(
            peer, group_id, incarnation, index
        ):
            # It may lead no more without knowing it, and the next leader count the copy.
            self._leaving[group_id, peer] = None
            member = self._cluster.members[group_id]
            member.confirm_lead(LeavingReplica(self, peer, group_id, incarnation, index))

    def _counts_out(self, peer: str, group_id: int, incarnation: int, index: int) -> bool:
        """Whether a leader here counts a copy no more, as far as it knows."""
        member = self._cluster.members.get(group_id)
        if member is None or not member.raft.is_leader:
            return False
        raft = member.raft
        newest = raft.state.config()
        if raft.commit_index < max(i64(index), newest.index, 1):
            return False
        return not newest.has_voter(peer, incarnation)

    def confirmed(self, leaving: LeavingReplica, leads: bool) -> None:
        """Whether the leader that was asked leads still: if so, tell the copy that it may go."""
        self._leaving.pop((leaving.group_id, leaving.peer), None)
        if leads and self._counts_out(
            leaving.peer, leaving.group_id, leaving.incarnation, leaving.index
        ):
            self._say(leaving.peer, LEFT, [leaving.group_id, leaving.incarnation])

    def ask(self, queue: QueueRecord) -> int:
        """Find out how far all copies of a queue are; `told` under this number has what came."""
        return self._ask(int(queue.group_id), [row.node for row in queue.members])

    def ask_tables(self, queue: QueueRecord) -> int:
        """Find out how far the tables are on the nodes that have copies of a queue, likewise."""
        return self._ask(METADATA_GROUP, [row.node for row in queue.members])

    def _ask(self, group_id: int, nodes: list[str]) -> int:
        self._asked += 1
        number = int(self._asked)
        own = self._node_name
        self._told[number] = {own: self._standing(group_id)}
        for node in nodes:
            if node != own:
                self._say(node, ASK, [number, group_id])
        return number

    def told(self, number: int) -> dict[str, Standing]:
        """What came so far, by node."""
        return self._told[number]

    def forget(self, number: int) -> dict[str, Standing]:
        """The same, for the last time."""
        return self._told.pop(number)

    def leader_told(self, queue: QueueRecord, number: int) -> str:
        """The node that led a queue when its copies were asked; empty if that is not known yet.

        One copy may go by what was long ago. Of a majority, one has heard of every newer term.
        """
        names = voters(queue)
        told = self._told[number]
        heard = [name for name in names if name in told and told[name].numbers]
        if 2 * len(heard) <= len(names):
            return ""
        newest = max(told[name].term() for name in heard)
        for name in heard:
            if told[name].state == "leader" and told[name].term() == newest:
                return name
        return ""

    def stays_in_force(
        self, queue: QueueRecord, copies: int, tables: int, tables_index: i64
    ) -> bool:
        """Whether a group has the members that the tables say, by the word of who leads it.

        What this node has of the queue may lag, and a leader whose tables lag may yet propose what
        they said before.

        Args:
            queue: Whose group.
            copies, tables: Numbers under which its copies, and the tables of their nodes, were
                asked.
            tables_index: An entry of the tables by which they said so.
        """
        leader = self.leader_told(queue, copies)
        if not leader:
            return False
        of_tables = self._told[tables].get(leader)
        if of_tables is None or not of_tables.numbers or of_tables.applied_index() < tables_index:
            return False
        # What was in the leader's log when it answered has to be committed, and known here.
        last_index = self._told[copies][leader].last_index()
        member = self._member(queue)
        if member is not None:
            known, members = member.raft.commit_index, member.raft.members
        else:
            observer = self._observers.observer(queue.group_id)
            if observer is None:
                return False
            known, members = observer.applied_index, observer.members
        nodes = sorted(copy.node for copy in members)
        return (
            known >= last_index
            and self.in_force(queue)
            and nodes == sorted(row.node for row in queue.members)
        )

    def holds(self, queue: QueueRecord) -> bool:
        """Whether a copy of a queue is here, which knows who leads it if any does."""
        return self._member(queue) is not None

    def listen(self, queue: QueueRecord) -> None:
        """Hear of a queue from now on and for a while, even if other nodes hold it."""
        self._observers.listen(queue)

    def inquire(self, queues: list[QueueRecord], turn: int) -> int:
        """Ask who leads queues that other nodes hold.

        Args:
            turn: How often those were asked for in vain: further members may know more.

        Returns:
            A number by which `inquired` has what came.
        """
        self._asked += 1
        number = int(self._asked)
        inquiry = Inquiry({int(queue.group_id): queue for queue in queues})
        self._inquiries[number] = inquiry
        own = self._node_name
        running = self.running()
        groups: dict[str, list[int]] = {}
        for queue in queues:
            nodes = [row.node for row in queue.members if row.node != own and row.node in running]
            if nodes:
                groups.setdefault(nodes[turn % len(nodes)], []).append(int(queue.group_id))
        for node, wanted in groups.items():
            for at in range(0, len(wanted), GROUPS_ASKED_MAX):
                part = wanted[at : at + GROUPS_ASKED_MAX]
                if self._say(node, WHO_LEADS, [number, part]):
                    inquiry.awaited += 1
        return number

    def inquired(self, number: int) -> Inquiry:
        """What came so far."""
        return self._inquiries[number]

    def end_inquiry(self, number: int) -> None:
        """What comes from now on is not wanted any more."""
        del self._inquiries[number]

    def _tell_leaders(self, peer: str, number: int, groups: list[int]) -> None:
        """Answer an inquiry.

        Raises:
            ValueError: No node asks for so many at once.
        """
        if len(groups) > GROUPS_ASKED_MAX:
            raise ValueError(f"{len(groups)} groups are asked for at once")
        names: list[str] = []
        for group_id in groups:
            member = self._cluster.members.get(group_id)
            names.append("" if member is None else member.raft.leader)
        self._say(peer, THEY_LEAD, [number, groups, names])

    def _heard_leaders(self, number: int, groups: list[int], names: list[str]) -> None:
        """Take an answer to an inquiry."""
        inquiry = self._inquiries.get(number)
        if inquiry is None:
            return
        inquiry.awaited -= 1
        running = self.running()
        for group_id, name in zip(groups, names, strict=True):
            queue = inquiry.queues.get(group_id)
            # One that is no member any more has left, and the others have not all noticed.
            if name in running and queue is not None and queue.member_on(name) is not None:
                inquiry.leaders[group_id] = name

    def standing(self, queue: QueueRecord | None) -> Standing:
        """How far this node's copy of a queue is, or of the tables; `noproc` if there is none."""
        return self._standing(METADATA_GROUP if queue is None else int(queue.group_id))

    def _standing(self, group_id: int) -> Standing:
        member = self._cluster.members.get(group_id)
        if member is None:
            return Standing("noproc", [])
        raft = member.raft
        state = raft.state
        role = raft.role_name
        standing = Standing(
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
        standing.commit_ms = member.commit_ms
        return standing

    # --- between nodes --------------------------------------------------------------------------

    def _say(self, peer: str, kind: int, content: Any) -> bool:
        return self._cluster.send(peer, [bytes([kind]), msgspec.msgpack.encode(content)])

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
                member = self._cluster.members.get(group_id)
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
            elif kind == LEAVE:
                group_id, incarnation, index = content
                self._leaves(peer, group_id, incarnation, index)
            elif kind == WHO_LEADS:
                number, groups = content
                self._tell_leaders(peer, number, groups)
            elif kind == THEY_LEAD:
                number, groups, names = content
                self._heard_leaders(number, groups, names)
            elif kind == LEFT:
                group_id, incarnation = content
                copies = self._copies
                assert copies is not None, "the node wires its parts first"
                copies.may_leave(group_id, incarnation)
            elif kind == RENEW:
                group_id, incarnation = content
                repairs = self._repairs
                assert repairs is not None, "the node wires its parts first"
                repairs.asked(peer, group_id, incarnation)
        except (msgspec.DecodeError, ValueError, TypeError) as error:
            raise CorruptRecord("a frame of a node", 0, f"this is no message: {error}") from error
