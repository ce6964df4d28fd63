"""Continuous membership reconciliation: queues with too few members get more by themselves.

Every node looks after the queues that it leads: at intervals, and a moment after something that
matters to their members has changed. One member is added at a time, and never to a group that has
an odd number if only one node could take it: an even group survives no more than one less.

Nothing is ever removed here: a node that leaves the cluster takes its members along at once.

Source: CMR-01 to CMR-11; `rabbit_quorum_queue_periodic_membership_reconciliation` of RabbitMQ 4.3.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.limits import TICK_GROUPS_MAX
from warren.metadata.machine import MetadataMachine
from warren.metadata.member_checks import add_member, voters
from warren.metadata.placement import target_size
from warren.metadata.spread import Spread
from warren.metadata.tables import QueueRecord
from warren.node.loop import Loop
from warren.node.placing import Placing
from warren.node.queues import LocalQueues
from warren.node.store import MetadataStore
from warren.ports import Random

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.cluster.queue_members import QueueMembers

LOT_BYTES: Final = 4


@final
class Reconciler:
    """See the module's head."""

    def __init__(
        self,
        loop: Loop,
        random: Random,
        metadata: MetadataMachine,
        store: MetadataStore,
        queues: LocalQueues,
        placing: Placing,
        cluster: Cluster,
        queue_members: QueueMembers,
    ) -> None:
        self._loop: Loop = loop
        self._random: Random = random
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._queues: LocalQueues = queues
        self._placing: Placing = placing
        self._cluster: Cluster = cluster
        self._queue_members: QueueMembers = queue_members
        self._nodes: list[str] = []
        self._due_ms: i64 = -1
        self._to_look_at: array[int] = array("q")
        """Groups of the queues that this round looks at."""
        self._at: i64 = 0
        """How many of them it has come to."""
        self._under_way = False
        """Whether this round has met a queue for which something is being done."""
        if self._loop.settings.reconciles:
            self._due_ms = self._loop.monotonic_ms() + self._loop.settings.reconcile_interval_ms

    def nodes_changed(self) -> None:
        """The tables were changed: a trigger, if nodes came or went (CMR-03)."""
        names = list(self._metadata.nodes)
        if names != self._nodes:
            self._nodes = names
            self.trigger()

    def trigger(self) -> None:
        """Something that matters to the members of queues has changed (CMR-09).

        What a node being down changes does not count (CMR-04). Triggers do not put each other off.
        """
        soon = self._loop.monotonic_ms() + self._loop.settings.reconcile_trigger_ms
        if self._due_ms > soon:
            self._due_ms = soon

    def tick(self, now_ms: i64) -> None:
        """Time has passed."""
        settings = self._loop.settings
        if self._at < len(self._to_look_at):
            self._look_at_some()
            if self._at == len(self._to_look_at) and self._under_way:
                self._due_ms = min(self._due_ms, now_ms + settings.reconcile_trigger_ms)
        elif 0 <= self._due_ms <= now_ms:
            self._under_way = not self._store.member().raft.leader
            if not self._under_way:
                self._to_look_at = array("q", self._cluster.members)
                self._at = 0
                self._look_at_some()
            self._due_ms = now_ms + (
                settings.reconcile_trigger_ms if self._under_way else settings.reconcile_interval_ms
            )

    def _look_at_some(self) -> None:
        """Look at some of the queues, if they are led here, and see to it that they grow."""
        end = min(self._at + TICK_GROUPS_MAX, i64(len(self._to_look_at)))
        while self._at < end:
            group_id = self._to_look_at[self._at]
            self._at += 1
            member = self._cluster.members.get(group_id)
            if member is not None and member.raft.is_leader:
                queue = self._queues.record_of(group_id)
                if queue is not None and self._grow(queue):
                    self._under_way = True

    def _grow(self, queue: QueueRecord) -> bool:
        """Give a queue one more member if it has too few; whether one is on its way (CMR-02)."""
        voting = voters(queue)
        tables = self._metadata.vhosts[queue.vhost]
        target = target_size(tables, queue, self._loop.settings.reconcile_target)
        if len(voting) >= target:
            return False
        if not self._queue_members.in_force(queue):
            return True
        running = self._cluster.running()
        free = [name for name in running if name not in voting]
        stays_odd = len(voting) % 2 == 0 or len(free) > 1
        if self._placing.spent():
            # Refused to clients, too, with what to do about it.
            return False
        if not free or not stays_odd or any(name not in running for name in voting):
            return False
        lot = int.from_bytes(self._random.bytes(LOT_BYTES), "little")
        best = Spread(self._metadata.nodes, voting).best(free)
        chosen = best[lot % len(best)]
        command = add_member(queue, chosen, self._placing.new_group())
        assert command is not None, "a free node has no member"
        self._loop.log_warning(
            f"queue '{queue.name}' in vhost '{queue.vhost}' has {len(voting)} of {target} members "
            f"and gets one on node {chosen}"
        )
        self._store.submit(command, None)
        return True
