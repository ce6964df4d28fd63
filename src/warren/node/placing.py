"""Where copies are to live: of queues about to be declared, and who has members of each group."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.errors import NO_MAJORITY, Refusal
from warren.metadata import commands, placement
from warren.metadata.machine import MetadataMachine
from warren.metadata.spread import Spread
from warren.node.identities import Counter
from warren.node.loop import Loop
from warren.node.queues import LocalQueues
from warren.node.store import METADATA_GROUP, MetadataStore
from warren.ports import Random
from warren.queue_types import type_of
from warren.raft.members import Replica

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster


@final
class Placing:
    """As one node sees it."""

    def __init__(
        self,
        loop: Loop,
        random: Random,
        metadata: MetadataMachine,
        store: MetadataStore,
        queues: LocalQueues,
        cluster: Cluster,
    ) -> None:
        self._loop: Loop = loop
        self._random: Random = random
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._queues: LocalQueues = queues
        self._cluster: Cluster = cluster
        self._groups: Counter = Counter("declarations of queues")
        self._said_spent: bool = False

    def new_group(self) -> i64:
        """The incarnation of a queue that is about to be declared, or of a copy.

        Raises:
            Refusal: `EXHAUSTED`, this life of the node has no more; `NO_MAJORITY`, the cluster does
                not know of this life yet, and an incarnation of none may be another group's.
        """
        if self._cluster.session == 0:
            raise Refusal(
                NO_MAJORITY,
                "the cluster does not know of this start of the node yet: nothing can be declared",
            )
        return self._groups.take(self._cluster.session)

    def spent(self) -> bool:
        """Whether there are none to give out, yet or any more; the latter the log tells."""
        if self._cluster.session == 0:
            return True
        if not self._groups.spent():
            return False
        if not self._said_spent:
            self._said_spent = True
            self._loop.log_warning(
                "no queue gets another member or copy by this node, which has given out all the "
                "incarnations that it has between two starts: it has to be started again"
            )
        return True

    def place(self, command: commands.DeclareQueue) -> None:
        """Say where a queue about to be declared will live."""
        settings = self._loop.settings
        by_load = type_of(command.kind).replicated and placement.counts(self._metadata)
        placement.place(
            command,
            self._metadata,
            self._cluster.running(),
            settings.node_name,
            settings.quorum_size,
            settings.leader_locator,
            command.group_id,
            self._random.bytes(placement.SEED_BYTES),
            self._cluster.leaders() if by_load else {},
        )

    def desired(self, group_id: int) -> list[Replica]:
        """The members a group should have; empty if it is gone."""
        if group_id == METADATA_GROUP:
            voting = self._metadata_voters()
            nodes = self._metadata.nodes.values()
            return [
                Replica(record.name, record.incarnation, record.name in voting) for record in nodes
            ]
        record = self._queues.record_of(group_id)
        if record is None:
            return []
        return [Replica(row.node, row.incarnation, row.voter) for row in record.members]

    def _metadata_voters(self) -> dict[str, None]:
        """The nodes that are to vote in the metadata's group; those that do go on if they may.

        Of others those come first that run, and that share no host and few zones with voters.
        """
        nodes = self._metadata.nodes
        voting: dict[str, None] = {}
        most = self._loop.settings.tables_voters
        if len(nodes) <= most:
            for name in nodes:
                voting[name] = None
            return voting
        own = self._loop.settings.node_name
        if own in nodes:
            # It leads, and need not hand that over.
            voting[own] = None
        for copy in self._store.member().raft.members:
            record = nodes.get(copy.node)
            if copy.voter and record is not None and len(voting) < most:
                voting[copy.node] = None
        running = self._cluster.running()
        spread = Spread(nodes, list(voting))
        while len(voting) < most:
            left = [name for name in nodes if name not in voting]
            chosen = spread.best([name for name in left if name in running] or left)[0]
            voting[chosen] = None
            spread.add(chosen)
        return voting
