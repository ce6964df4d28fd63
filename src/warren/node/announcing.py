"""What this node has the metadata's leader log by itself: that its life has begun, above all.

Each of these may get lost on the way. They belong to no client session, which a node only has once
the first of them is in force; so they are said again until what they ask for is so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from mypy_extensions import i64

from warren.ids import LIFE_MAX, may_begin
from warren.metadata import commands, encoding
from warren.metadata.machine import MetadataMachine
from warren.node.loop import Loop
from warren.node.store import MetadataStore
from warren.ports import Random
from warren.replication.kinds import COMMAND

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster

COMMAND_KIND: Final = bytes([COMMAND])
"""Before a command that belongs to no session, between nodes; see `membership`."""


@final
class Announcer:
    """Of one life of a node.

    Attributes:
        first_round: Number of the newest durable round of the log when this life began.
    """

    def __init__(
        self,
        loop: Loop,
        random: Random,
        node_uid: bytes,
        nonce: bytes,
        metadata: MetadataMachine,
        store: MetadataStore,
        cluster: Cluster,
    ) -> None:
        self.first_round: i64 = 0
        self._loop: Loop = loop
        self._random: Random = random
        self._node_uid: bytes = node_uid
        self._nonce: bytes = nonce
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._cluster: Cluster = cluster
        self._announcing: bool = False
        self._said_last: bool = False

    def again(self) -> None:
        """Say again what may have got lost: time has passed, or another node leads."""
        self._announcing = False
        self.announce()
        self._ask_for_sessions()
        self.raise_version()

    def announce(self) -> None:
        """Until the cluster knows this life of the node: say that it has begun."""
        member = self._store.member()
        metadata = self._metadata
        settings = self._loop.settings
        if not self._cluster.session and not may_begin(metadata.applied_index + 1):
            self._say_last()
            return
        if self._cluster.session or self._announcing or not member.raft.leader:
            return
        if member.raft.is_leader and not metadata.cluster_id and not metadata.nodes:
            if not member.raft.can_propose():
                return
            member.propose_plain(
                encoding.encode(
                    commands.BeginCluster(self._random.bytes(16), settings.cluster_version_max)
                )
            )
            add = commands.AddNode(
                settings.node_name,
                self._node_uid,
                settings.cluster_host,
                settings.cluster_port,
                member.hard_state.incarnation,
            )
            member.propose_plain(encoding.encode(add))
        if member.raft.is_leader or settings.node_name in metadata.nodes:
            up = commands.NodeUp(
                settings.node_name,
                self._node_uid,
                self._nonce,
                settings.boot,
                int(self.first_round),
                settings.cluster_version_max,
            )
            self._announcing = self._have_done(up)

    def _say_last(self) -> None:
        """Tell the operator, once, that no life can begin in this cluster any more."""
        if not self._said_last:
            self._said_last = True
            self._loop.log_warning(
                f"the cluster's tables have had {LIFE_MAX} changes, which are the most: no node "
                "that starts can take part any more. Nodes that run go on: empty their queues, "
                "then begin a new cluster, with empty data directories"
            )

    def raise_version(self) -> None:
        """As leader: have the cluster move up to the newest version that all its nodes know."""
        member = self._store.member()
        common = self._metadata.common_version()
        if common > self._metadata.version and member.raft.can_propose():
            member.propose_plain(encoding.encode(commands.RaiseVersion(common)))

    def _ask_for_sessions(self) -> None:
        """Until the metadata gives this life of the node more sessions: ask, if it needs some."""
        if self._cluster.wants_sessions and may_begin(self._metadata.applied_index + 1):
            name = self._loop.settings.node_name
            self._have_done(commands.MoreSessions(name, self._nonce, self._cluster.newest))

    def _have_done(self, command: commands.Command) -> bool:
        """Have the leader log a command, which may get lost; whether it was sent off."""
        member = self._store.member()
        payload = encoding.encode(command)
        if member.raft.is_leader:
            return member.propose_plain(payload)
        leader = member.raft.leader
        return leader != "" and self._cluster.send(leader, [COMMAND_KIND, payload])
