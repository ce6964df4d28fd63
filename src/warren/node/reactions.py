"""What follows on this node from a change of the cluster's metadata, once that is in force here."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mypy_extensions import i64

from warren.ids import LIFE_MAX, LIVES_FEW
from warren.metadata import commands
from warren.metadata.departed import Departed
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome
from warren.metadata.passwords import SALT_BYTES
from warren.metadata.permissions import first_commands
from warren.metadata.tables import QueueRecord
from warren.node.announcing import Announcer
from warren.node.evictions import Evictions
from warren.node.hosting import QueueHosting
from warren.node.loop import Loop
from warren.node.policies import QueuePolicies
from warren.node.queues import LocalQueues
from warren.node.store import MetadataStore
from warren.node.usage import Usage
from warren.node.vhosts import NodeVhosts
from warren.ports import Random

if TYPE_CHECKING:
    from warren.node.cluster.dispatch import Cluster
    from warren.node.cluster.membership import Membership
    from warren.node.cluster.reconcile import Reconciler


@final
class Reactions:
    """Of one node."""

    def __init__(
        self,
        loop: Loop,
        random: Random,
        nonce: bytes,
        metadata: MetadataMachine,
        store: MetadataStore,
        queues: LocalQueues,
        hosting: QueueHosting,
        policies: QueuePolicies,
        cluster: Cluster,
        membership: Membership,
        reconciler: Reconciler,
        announcer: Announcer,
        evictions: Evictions,
        usage: Usage,
        vhosts: NodeVhosts,
    ) -> None:
        self._loop: Loop = loop
        self._random: Random = random
        self._nonce: bytes = nonce
        self._node_name: str = loop.settings.node_name
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._queues: LocalQueues = queues
        self._hosting: QueueHosting = hosting
        self._policies: QueuePolicies = policies
        self._cluster: Cluster = cluster
        self._membership: Membership = membership
        self._reconciler: Reconciler = reconciler
        self._announcer: Announcer = announcer
        self._evictions: Evictions = evictions
        self._usage: Usage = usage
        self._vhosts: NodeVhosts = vhosts

    def note_pending(self, command: commands.Command) -> None:
        """Heed what an entry says of a node, though it is not known to be committed.

        It takes those nodes to tell, and each life that was announced has begun.
        """
        if isinstance(command, (commands.AddNode, commands.NodeMoved)):
            self._cluster.know(command.name, command.host, command.port)
        self._membership.note_pending(command)

    def act(self, outcome: Outcome, index: i64) -> None:
        """A change is in force: start and stop queues, and tell those whom it concerns."""
        created = outcome.created_queue
        if created is not None:
            self._hosting.created(created)
            if self._counts(created):
                self._loop.traffic.queues_created += 1
            if created.type.replicated:
                self._reconciler.trigger()
        for record in outcome.deleted_queues:
            self._hosting.deleted(record)
            if self._counts(record):
                self._loop.traffic.queues_deleted += 1
        for exchange in outcome.deleted_exchanges:
            self._loop.traffic.forget_exchange(exchange.vhost, exchange.name)
        if outcome.vhosts_changed:
            self._queues.keep_vhosts(self._evictions.vhosts_in_use())
        if outcome.deleted_vhost is not None:
            self._loop.traffic.forget_vhost(outcome.deleted_vhost.name)
            self._vhosts.forget_traffic(outcome.deleted_vhost.name)
            self._evictions.vhost_deleted(outcome.deleted_vhost.name)
        if outcome.deleted_user is not None:
            self._evictions.user_deleted(outcome.deleted_user)
        if outcome.limits_changed:
            self._usage.limits_changed()
        if outcome.nodes_changed:
            self._cluster.watch_nodes()
            self._membership.nodes_changed()
            self._reconciler.nodes_changed()
            self._announcer.announce()
            self._announcer.raise_version()
        for record in outcome.members_changed:
            self._membership.unsettle(int(record.group_id))
            self._hosting.members_set(record)
        if outcome.policies_changed:
            self._policies.changed(self._queues)
            self._reconciler.trigger()
        up = outcome.node_up
        if up is not None:
            if up.name == self._node_name and up.nonce == self._nonce:
                self._begin_session(index)
            self._cluster.close_sessions()
            self._announcer.raise_version()
        given = outcome.more_sessions
        if given is not None:
            if given.name == self._node_name:
                self._cluster.sessions_given(index)
            # What it was given before the last time is over, except what began its life.
            self._cluster.close_sessions()

    def _counts(self, record: QueueRecord) -> bool:
        """Whether a queue that begins or ends is counted here: at its home, and once it serves."""
        return record.node == self._node_name and self._cluster.session > 0

    def take_over(self, departed: Departed) -> None:
        """Metadata came as a whole from another node: act on all that may differ.

        What follows for each queue is left to `take_over_more`, and what takes all of them as the
        metadata says is done behind that.

        Args:
            departed: Which vhosts and users are gone.
        """
        self._hosting.take_over()
        self._evictions.take_over(departed)
        for vhost in departed.vhosts:
            self._vhosts.forget_traffic(vhost)
        traffic = self._loop.traffic
        for vhost, exchange in list(traffic.exchanges):
            if vhost in departed.vhosts or self._metadata.exchange(vhost, exchange) is None:
                traffic.forget_exchange(vhost, exchange)
        self._usage.limits_changed()
        self._policies.feeds_changed()
        self._cluster.tables_anew()
        self._cluster.watch_nodes()
        own = self._metadata.nodes.get(self._node_name)
        if own is not None and own.nonce == self._nonce and self._cluster.session:
            self._cluster.sessions_given(own.newest)
        self._membership.nodes_changed()
        self._reconciler.nodes_changed()
        self._reconciler.trigger()

    def take_over_more(self, room: i64) -> bool:
        """Act on what such metadata says of so many queues; whether these were the last."""
        if not self._hosting.take_over_more(room):
            return False
        own = self._metadata.nodes.get(self._node_name)
        if own is not None and own.nonce == self._nonce and not self._cluster.session:
            self._begin_session(own.session)
            self._cluster.sessions_given(own.newest)
        self._cluster.close_sessions()
        self._announcer.announce()
        return True

    def _begin_session(self, session: i64) -> None:
        """The cluster knows this life of the node."""
        if self._cluster.session:
            return
        self._cluster.session_begun(session)
        self._policies.begin(self._queues)
        if session > LIVES_FEW:
            self._loop.log_warning(
                f"the cluster's tables have had {session} changes of {LIFE_MAX}; behind the last "
                "no node can start any more: plan to begin a new cluster, with empty data "
                "directories"
            )
        self._hosting.begin_life()
        if not self._metadata.vhosts and not self._metadata.users:
            settings = self._loop.settings
            for command in first_commands(
                self._random.bytes(SALT_BYTES),
                settings.default_vhost,
                settings.default_user,
                settings.default_password,
                settings.default_user in settings.loopback_users,
            ):
                self._store.submit(command, None)
