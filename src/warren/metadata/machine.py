"""The cluster's tables as a deterministic machine over a log.

`apply` takes commands in log order and never fails: what a command wants is checked before it is
logged (`checks`), and a command that another one overtook, such as a bind to a queue deleted
meanwhile, changes nothing. Every member that applies the same commands has the same tables.

Commands for what does not survive a restart go through the same log in the same order; only their
replies need not wait for the disk. Without that order a replay could come to other tables: an
auto-delete exchange lives as long as its last binding, be that to a transient queue. After a
restart the node logs `NodeUp`, which drops what ended with its last process.
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import final

import msgspec
from mypy_extensions import i64

from warren.limits import BINDINGS_AT_ONCE_MAX
from warren.metadata.access import apply_access, has_room
from warren.metadata.changes import (
    Unbinding,
    add_binding,
    add_exchange,
    add_queue,
    binding_key,
    forget_incoming,
    remove_exchange,
    remove_queue,
)
from warren.metadata.commands import (
    AddNode,
    Barrier,
    BeginCluster,
    Bind,
    ClearParameter,
    ClearPolicy,
    Command,
    DeclareDelayed,
    DeclareExchange,
    DeclareQueue,
    DeclareVhost,
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
    KeepRecent,
    MoreSessions,
    NodeLabelled,
    NodeMoved,
    NodeSeen,
    NodeUp,
    RaiseVersion,
    RemoveNode,
    ReplaceNode,
    SetMembers,
    SetParameter,
    SetPolicy,
    SetVhost,
    Unbind,
)
from warren.metadata.departed import Departed
from warren.metadata.membership import (
    Passage,
    Round,
    add_node,
    first_leader,
    is_late,
    known_members,
    more_sessions,
    node_labelled,
    node_moved,
    node_seen,
    node_up,
    remove_node,
    replace_members,
    replace_node,
)
from warren.metadata.outcome import Outcome as Outcome
from warren.metadata.parameters import (
    Parameters,
    apply_parameter,
    drop_of_vhost,
    parameter_rows,
)
from warren.metadata.parts import CommandParts
from warren.metadata.places import TablePlaces
from warren.metadata.policies import PolicyAlternates, clear_policy, set_policy
from warren.metadata.reading import SNAPSHOT_VERSION, Reading
from warren.metadata.recent import keep_recent
from warren.metadata.rows import Lot, array_head
from warren.metadata.snapshots import (
    add_vhost_row,
    node_row,
    user_row,
)
from warren.metadata.tables import (
    ExchangeRecord,
    MemberRecord,
    NodeRecord,
    QueueRecord,
    UserRecord,
    VhostRecord,
)
from warren.metadata.vhosts import VhostRelease, VhostRemoval, declare_vhost, set_vhost
from warren.metadata.weights import weight_of_binding
from warren.queue_types import type_of
from warren.routing.bindings import Binding
from warren.routing.exchange_types import DELAYED_MESSAGE
from warren.routing.router import Router
from warren.sharded_dict import ShardedDict
from warren.versions import CREATION_INDEXES, OLDEST


@final
class MetadataMachine:
    """All nodes; all vhosts with what is in them, see `VhostRecord`; users.

    Group ids come from the nodes: a session, which is never given twice, and a counter in it. They
    are unique, those of a later life of a node are new ones, and they do not ascend in the log.

    Attributes:
        cluster_id: What the first command named the cluster, empty before.
        version: The cluster version in force; see `warren.versions`.
        nodes: In the order in which they joined.
        parameters: Runtime parameters, of vhosts and of the whole cluster.
        applied_index: Log index of the last command.
        node: On which node the tables are; empty where that does not matter.
        bindings_at_once: How many go in one part of a command that takes bindings out.
    """

    def __init__(self, node: str = "") -> None:
        self.node: str = node
        self.cluster_id: bytes = b""
        self.version: int = OLDEST
        self.nodes: dict[str, NodeRecord] = {}
        self.vhosts: dict[str, VhostRecord] = {}
        self.users: dict[str, UserRecord] = {}
        self.parameters: Parameters = {}
        self.applied_index: i64 = 0
        self.bindings_at_once: i64 = BINDINGS_AT_ONCE_MAX
        self._round: CommandParts | None = None
        """What the last command has yet to do."""

    # --- reading --------------------------------------------------------------------------------

    def queue(self, vhost: str, name: str) -> QueueRecord | None:
        """A queue, None where there is none."""
        tables = self.vhosts.get(vhost)
        return None if tables is None else tables.queues.get(name)

    def queue_lots(self) -> deque[Lot]:
        """The rows of all queues, for looking at them in parts; later ones are in others too."""
        lots: deque[Lot] = deque()
        for tables in self.vhosts.values():
            lots.extend(tables.queue_rows.lots)
        return lots

    def exchange(self, vhost: str, name: str) -> ExchangeRecord | None:
        """An exchange, None where there is none."""
        tables = self.vhosts.get(vhost)
        return None if tables is None else tables.exchanges.get(name)

    def owns_queues(self, vhost: str, owner: i64) -> bool:
        """Whether a connection has exclusive queues."""
        tables = self.vhosts.get(vhost)
        return tables is not None and owner in tables.owned

    def queues_of_owner(self, vhost: str, owner: i64) -> ShardedDict[QueueRecord, None]:
        """The exclusive queues of a connection, to be deleted when it ends; read only."""
        tables = self.vhosts.get(vhost)
        owned = None if tables is None else tables.owned.get(owner)
        return ShardedDict() if owned is None else owned

    def common_version(self) -> int:
        """The newest cluster version that all nodes know."""
        return min([node.version for node in self.nodes.values()], default=OLDEST)

    # --- applying -------------------------------------------------------------------------------

    def apply(self, index: i64, command: Command) -> Outcome:
        """Apply a committed command.

        Args:
            index: Its log index; commands come in the order of the log.
        """
        outcome = self.begin(index, command)
        while self.unfinished():
            self._go_on(outcome)
        return outcome

    def begin(self, index: i64, command: Command) -> Outcome:
        """The same, of which `go_on` does what one turn does not all of."""
        # Asked by a call: mypyc takes it for None until the end of the function otherwise.
        assert not self.unfinished(), "the command before is applied"
        outcome = Outcome()
        if isinstance(command, DeclareQueue):
            self._declare_queue(command, outcome)
        elif isinstance(command, DeleteQueue):
            self._delete_queue(command, outcome)
        elif isinstance(command, Bind):
            self._bind(command, outcome)
        elif isinstance(command, Unbind):
            self._unbind(command, outcome)
        elif isinstance(command, DeclareExchange):
            self._declare_exchange(command, outcome)
        elif isinstance(command, DeclareDelayed):
            self._declare_delayed(command, outcome)
        elif isinstance(command, DeleteExchange):
            self._delete_exchange(command, outcome)
        elif isinstance(command, KeepRecent):
            keep_recent(self.vhosts, command, outcome)
        elif not self._apply_about_nodes(index, command, outcome):
            self._apply_administration(index, command, outcome)
        self.applied_index = index
        if self.unfinished():
            self._go_on(outcome)
        return outcome

    def unfinished(self) -> bool:
        """Whether the last command is not all applied: not the next, and no snapshot before it."""
        return self._round is not None

    def go_on(self) -> Outcome:
        """Apply the next part of the last command; gives what that did."""
        outcome = Outcome()
        self._go_on(outcome)
        return outcome

    def _go_on(self, outcome: Outcome) -> None:
        going = self._round
        assert going is not None, "there is more to do"
        going.go_on(outcome, self.bindings_at_once)
        if going.over:
            self._round = None

    def _pass(self, passage: Passage | None) -> None:
        """Have something done to all queues."""
        if passage is not None:
            self._round = Round(self.vhosts, passage)

    def _apply_about_nodes(self, index: i64, command: Command, outcome: Outcome) -> bool:
        """Whether it was such a command."""
        if isinstance(command, NodeUp):
            self._round = node_up(self.nodes, self.vhosts, index, command, outcome)
        elif isinstance(command, SetMembers):
            self._set_members(command, outcome)
        elif isinstance(command, AddNode):
            add_node(self.nodes, command, outcome)
        elif isinstance(command, RemoveNode):
            self._round = remove_node(self.nodes, self.vhosts, command, outcome)
        elif isinstance(command, ReplaceNode):
            self._pass(replace_node(self.nodes, index, command, outcome))
        elif isinstance(command, NodeSeen):
            node_seen(self.nodes, command, outcome)
        elif isinstance(command, NodeMoved):
            node_moved(self.nodes, command, outcome)
        elif isinstance(command, NodeLabelled):
            node_labelled(self.nodes, command, outcome)
        elif isinstance(command, MoreSessions):
            more_sessions(self.nodes, index, command, outcome)
        elif isinstance(command, BeginCluster):
            if not self.cluster_id:
                self.cluster_id = command.cluster_id
                self.version = command.version
                outcome.changed = True
        elif isinstance(command, RaiseVersion):
            if self.version < command.version <= self.common_version():
                self.version = command.version
                outcome.changed = True
                # Queues may do what not all nodes knew before.
                outcome.policies_changed = True
        else:
            return isinstance(command, Barrier)
        return True

    def _apply_administration(self, index: i64, command: Command, outcome: Outcome) -> None:
        created = index if self.version >= CREATION_INDEXES else 0
        if isinstance(command, DeclareVhost):
            declare_vhost(self.vhosts, command.name, created, self.node, outcome)
        elif isinstance(command, SetVhost):
            set_vhost(self.vhosts, command, created, self.node, outcome)
        elif isinstance(command, DeleteVhost):
            tables = self.vhosts.get(command.name)
            if tables is not None:
                drop_of_vhost(self.parameters, command.name)
                self._round = VhostRemoval(self.vhosts, tables, outcome)
        elif isinstance(command, SetPolicy):
            set_policy(self.vhosts, command, outcome)
        elif isinstance(command, ClearPolicy):
            clear_policy(self.vhosts, command, outcome)
        elif isinstance(command, (SetParameter, ClearParameter)):
            if not command.vhost or command.vhost in self.vhosts:
                apply_parameter(self.parameters, command, outcome)
        else:
            known = apply_access(self.users, self.vhosts, command, created, outcome)
            assert known, command

    def _declare_exchange(self, command: DeclareExchange, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None or command.name in tables.exchanges:
            return
        add_exchange(
            tables,
            ExchangeRecord(
                command.vhost,
                command.name,
                command.kind,
                command.durable,
                command.auto_delete,
                command.internal,
                command.arguments,
            ),
        )
        outcome.changed = True

    def _declare_delayed(self, command: DeclareDelayed, outcome: Outcome) -> None:
        """Make both ends at once: neither is ever without the other."""
        tables = self.vhosts.get(command.vhost)
        store = command.store()
        if tables is None or command.name in tables.exchanges or store.name in tables.queues:
            return
        queue = self._new_queue(store)
        if queue is None:
            return
        add_exchange(
            tables,
            ExchangeRecord(
                command.vhost,
                command.name,
                DELAYED_MESSAGE,
                command.durable,
                command.auto_delete,
                command.internal,
                command.arguments,
            ),
        )
        add_queue(tables, queue)
        outcome.changed = True
        outcome.created_queue = queue

    def _delete_exchange(self, command: DeleteExchange, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None:
            return
        exchange = tables.exchanges.get(command.name)
        if exchange is None or (command.if_unused and exchange.bound):
            return
        if i64(len(exchange.bound) + len(exchange.incoming)) > self.bindings_at_once:
            self._round = Unbinding(tables, None, exchange, outcome)
            return
        outcome.changed = True
        remove_exchange(tables, exchange, outcome)

    def _declare_queue(self, command: DeclareQueue, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None or command.name in tables.queues:
            return
        if not has_room(tables):
            # Others came first; who wanted it checks once more, and is told.
            return
        queue = self._new_queue(command)
        if queue is not None:
            add_queue(tables, queue)
            outcome.changed = True
            outcome.created_queue = queue

    def _new_queue(self, command: DeclareQueue) -> QueueRecord | None:
        """The queue that is asked for; None if the nodes that it was to be on are gone."""
        if is_late(self.nodes, command):
            return None
        node = command.node
        members: list[MemberRecord] = []
        if command.members and type_of(command.kind).replicated:
            known = known_members(self.nodes, command.members)
            if known is None:
                return None
            members = known
            if node not in [member.node for member in members]:
                # Else the queue would still name this node when that is removed.
                node = first_leader(members)
        return QueueRecord(
            command.vhost,
            command.name,
            command.kind,
            command.durable,
            command.auto_delete,
            command.exclusive_owner,
            command.arguments,
            command.group_id,
            node,
            members,
        )

    def _delete_queue(self, command: DeleteQueue, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None:
            return
        queue = tables.queues.get(command.name)
        if queue is None or queue.group_id != command.group_id:
            return
        if i64(len(queue.incoming)) > self.bindings_at_once:
            self._round = Unbinding(tables, queue, None, outcome)
            return
        outcome.changed = True
        remove_queue(tables, queue, outcome)

    def _bind(self, command: Bind, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None:
            return
        source = tables.exchanges.get(command.source)
        if source is None:
            return
        if command.to_exchange:
            exchange = tables.exchanges.get(command.destination)
            if exchange is None:
                return
            durable = source.durable and exchange.durable
        else:
            queue = tables.queues.get(command.destination)
            if queue is None:
                return
            durable = source.durable and queue.durable
        key = binding_key(
            command.destination, command.to_exchange, command.routing_key, command.arguments
        )
        if key in source.bound:
            return
        binding = Binding(
            command.source,
            command.destination,
            command.to_exchange,
            command.routing_key,
            command.arguments,
            durable,
        )
        add_binding(tables, source, key, binding)
        outcome.changed = True

    def _unbind(self, command: Unbind, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None:
            return
        source = tables.exchanges.get(command.source)
        if source is None:
            return
        key = binding_key(
            command.destination, command.to_exchange, command.routing_key, command.arguments
        )
        binding = source.bound.pop(key, None)
        if binding is None:
            return
        source.binding_rows.drop(binding)
        tables.weight -= weight_of_binding(binding)
        outcome.changed = True
        tables.router.remove_binding(binding)
        forget_incoming(tables, binding)
        if source.auto_delete and not source.bound:
            remove_exchange(tables, source, outcome)

    def _set_members(self, command: SetMembers, outcome: Outcome) -> None:
        queue = self.queue(command.vhost, command.name)
        if (
            queue is None
            or not queue.type.replicated
            or queue.group_id != command.group_id
            or queue.revision != command.revision
        ):
            return
        members = known_members(self.nodes, command.members)
        if members is not None:
            replace_members(self.vhosts[queue.vhost], queue, members, outcome)

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state, in the layout of `docs/formats/metadata.md`."""
        values = [
            SNAPSHOT_VERSION,
            self.applied_index,
            self.version,
            self.cluster_id,
            [node_row(node) for node in self.nodes.values()],
            [user_row(user) for user in self.users.values()],
        ]
        # Only where there are some: older releases know none.
        further = [parameter_rows(self.parameters)] if self.parameters else []
        parts = [array_head(len(values) + 1 + len(further))]
        parts.extend(msgspec.msgpack.encode(value) for value in values)
        parts.append(array_head(len(self.vhosts)))
        for tables in self.vhosts.values():
            add_vhost_row(parts, tables)
        parts.extend(msgspec.msgpack.encode(value) for value in further)
        return b"".join(parts)

    def restore(self, data: bytes) -> None:
        """Take over a snapshot; what was here before is void.

        Routers of vhosts that stay do so, with other routes: sessions of clients have them.

        Raises:
            StorageError: A later version of Warren wrote it.
        """
        reading = Reading(data)
        while not reading.go_on():
            pass
        self.take(reading)

    def take(self, reading: Reading) -> VhostRelease:
        """Take over the tables of a snapshot that was read; gives what lets go of those before."""
        assert self._round is None, "the last command is applied"
        assert reading.over, "all of it was read"
        before = self.vhosts
        departed = Departed(before, self.users, reading.vhosts, reading.users)
        self.applied_index = reading.applied_index
        self.version = reading.version
        self.cluster_id = reading.cluster_id
        self.nodes = reading.nodes
        self.users = reading.users
        self.vhosts = reading.vhosts
        self.parameters = reading.parameters
        for tables in self.vhosts.values():
            known = before.get(tables.name)
            if known is not None and known.name not in departed.vhosts:
                router = tables.router
                known.router.swap(router)
                tables.router = known.router
                known.router = router
            tables.router.alternates = PolicyAlternates(tables)
            tables.router.places = TablePlaces(tables, self.node)
            tables.router.policies_changed()
        for name in departed.vhosts:
            # Clients that are on their way out may ask for routes yet.
            gone = before[name]
            router = Router(name)
            gone.router.swap(router)
            gone.router.retire()
            gone.router = router
        return VhostRelease(before, departed)

    def state_hash(self) -> str:
        """A digest of the state: equal on all members that applied the same commands."""
        return hashlib.sha256(self.snapshot()).hexdigest()
