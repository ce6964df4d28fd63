"""Quorum queues without a leader, whose voters are gone for good.

A voter's copy is gone when the tables name another copy on its node, or none: its disk was lost,
put back or given up, or its node was forgotten. It never votes again. With too many of them gone no
member that is left can be elected, and only a leader could change who votes.

Of two voters each has all that was committed, so one whose peer is gone goes on alone. Its copy has
to be whole, and the tables have to name it.

Of more members the ones that are gone may have committed what the others lack: the log says so, and
what an operator can do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.metadata.machine import MetadataMachine
from warren.metadata.node_checks import ALONE
from warren.metadata.tables import QueueRecord
from warren.node.loop import Loop
from warren.node.queues import LocalQueues
from warren.node.store import METADATA_GROUP
from warren.raft.members import Replica
from warren.replication.member import Member

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.repairs import Repairs

LOOK_MS: Final = 1_000
"""Groups are looked at so often."""
UNLED_MS: Final = 3_000
"""A group without a leader for so long has had time to elect one."""
LOOKED_AT_MAX: Final = 2_048
"""So many groups are looked at a time: less than a millisecond."""


@final
class StrandedGroups:
    """Looks after such queues on one node."""

    def __init__(
        self,
        loop: Loop,
        metadata: MetadataMachine,
        queues: LocalQueues,
        cluster: Cluster,
        repairs: Repairs,
    ) -> None:
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._queues: LocalQueues = queues
        self._cluster: Cluster = cluster
        self._repairs: Repairs = repairs
        self._node_name: str = loop.settings.node_name
        self._looked_ms: i64 = 0
        self._left: list[int] = []
        """Groups that are yet to be looked at in this round."""
        self._unled: dict[int, int] = {}
        """Groups that know no leader, and since when."""
        self._said: dict[int, str] = {}
        """What the log says of some of them."""

    def tick(self, now_ms: i64) -> None:
        """Look at some groups; called some times a second."""
        if now_ms - self._looked_ms < LOOK_MS or not self._cluster.session:
            return
        self._looked_ms = now_ms
        members = self._cluster.members
        if not self._left:
            self._left = list(members)
            for group_id in list(self._unled):
                if group_id not in members:
                    self._forget(group_id)
        part = self._left[-LOOKED_AT_MAX:]
        del self._left[-LOOKED_AT_MAX:]
        for group_id in part:
            member = members.get(group_id)
            if member is not None and group_id != METADATA_GROUP:
                self._look(group_id, member, now_ms)

    def _forget(self, group_id: int) -> None:
        self._unled.pop(group_id, None)
        self._said.pop(group_id, None)

    def _look(self, group_id: int, member: Member, now_ms: i64) -> None:
        if self._is_heard(member.raft.leader):
            if group_id in self._unled:
                self._forget(group_id)
            return
        since_ms = self._unled.setdefault(group_id, int(now_ms))
        if now_ms - since_ms < UNLED_MS:
            return
        queue = self._queues.logged.get(group_id)
        record = None if queue is None else self._metadata.queue(queue.vhost, queue.name)
        if record is None or record.group_id != group_id or not self._is_own(record, member):
            return
        if self._leader(record, member) != "":
            return
        voters = [copy for copy in member.raft.members if copy.voter]
        gone = [copy for copy in voters if is_gone(record, copy)]
        if 2 * (len(voters) - len(gone)) > len(voters):
            # Those that are left can elect one of them, once enough of them run.
            return
        names = ", ".join(copy.node for copy in gone)
        if self._repairs.is_whole(group_id) and member.is_one_of_two():
            why = member.raft.go_on_alone(self._loop.monotonic_ms())
            if not why:
                self._loop.log_warning(
                    f"{queue} goes on with the copy on this node as its only voter: that on "
                    f"{names} is gone for good, and this one has all that was confirmed"
                )
                member.work()
                return
        else:
            why = f"the copies on {names} are gone for good, and may have had what this one lacks"
        if why != self._said.get(group_id):
            self._said[group_id] = why
            self._loop.log_warning(
                f"{queue} has no leader and will get none: {why}. To go on with the copy on this "
                "node, and without what others had confirmed and it does not have, run: "
                f"{ALONE} --vhost '{record.vhost}' '{record.name}'"
            )

    # --- as an operator wants -------------------------------------------------------------------

    def is_alone(self, record: QueueRecord) -> bool:
        """Whether the copy here leads, and no other one votes."""
        member = self._cluster.members.get(int(record.group_id))
        if member is None or not member.leads_fully():
            return False
        return not any(copy.voter for copy in member.raft.members if copy.node != self._node_name)

    def others(self, record: QueueRecord) -> list[str]:
        """The nodes of the group's other members, as the copy here knows them."""
        member = self._cluster.members.get(int(record.group_id))
        copies = [] if member is None else member.raft.members
        return [copy.node for copy in copies if copy.node != self._node_name]

    def living(self, record: QueueRecord) -> list[str]:
        """The nodes of other voters that run; their copies are to begin anew."""
        member = self._cluster.members.get(int(record.group_id))
        if member is None:
            return []
        return [
            copy.node
            for copy in member.raft.members
            if copy.voter
            and copy.node != self._node_name
            and copy.node in self._metadata.nodes
            and not is_gone(record, copy)
        ]

    def why_not_alone(self, record: QueueRecord) -> str:
        """Why the copy here must not go on alone, though an operator asks; empty if it may."""
        own = record.member_on(self._node_name)
        if own is None or not own.voter:
            holders = ", ".join(row.node for row in record.members if row.voter)
            return (
                f"it has no voting member on node '{self._node_name}': ask one of {holders}, the "
                "one whose copy has most (quorum_status)"
            )
        member = self._cluster.members.get(int(record.group_id))
        if member is None or member.hard_state.incarnation != own.incarnation:
            return (
                f"its copy on node '{self._node_name}' could not be started, since it is damaged: "
                "ask another one"
            )
        leader = self._leader(record, member)
        if leader:
            return f"it is led by node '{leader}': remove its other members with delete_member"
        running = self._cluster.running()
        left = self.living(record)
        down = [node for node in left if node not in running]
        if down:
            return (
                f"it has members on nodes that are down and may come back: {', '.join(down)}. "
                "Start them; or, where they are lost, have the cluster forget them first "
                "(forget_cluster_node)"
            )
        voters = [copy for copy in member.raft.members if copy.voter]
        if 2 * (len(left) + 1) > len(voters):
            return (
                f"it has a majority of its members, on {', '.join([self._node_name, *left])}: "
                "one of them will lead"
            )
        return ""

    def _is_heard(self, leader: str) -> bool:
        """Whether there is a leader whose node is up."""
        if leader == "":
            return False
        return leader == self._node_name or not self._cluster.detector.suspected(leader)

    def _leader(self, record: QueueRecord, member: Member) -> str:
        """The node that leads a group, as far as the copy here knows; empty if none does.

        Members that cannot elect another leader never forget the last one: it leads no more if
        its node is not heard and its copy gone for good.
        """
        leader = member.raft.leader
        if leader == "" or self._is_heard(leader):
            return leader
        gone = any(copy.node == leader and is_gone(record, copy) for copy in member.raft.members)
        return "" if gone else leader

    def go_on_alone(self, record: QueueRecord) -> str:
        """Have the copy here lead as the only voter; gives why not, or nothing."""
        member = self._cluster.members.get(int(record.group_id))
        if member is None:
            return "its copy is gone"
        why = member.raft.go_on_alone(self._loop.monotonic_ms())
        member.work()
        return why

    def _is_own(self, record: QueueRecord, member: Member) -> bool:
        """Whether the tables name the copy here, as one that votes."""
        own = record.member_on(self._node_name)
        return own is not None and own.voter and own.incarnation == member.hard_state.incarnation


def is_gone(record: QueueRecord, copy: Replica) -> bool:
    """Whether a copy is none that the tables name, so that it never votes again."""
    row = record.member_on(copy.node)
    return row is None or row.incarnation != copy.incarnation
