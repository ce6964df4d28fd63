"""The cluster's tables as a deterministic machine over a log.

`apply` takes commands in log order and never fails: what a command wants is checked before it is
logged (`checks`), and a command that another one overtook, such as a bind to a queue deleted
meanwhile, changes nothing. Every member that applies the same commands has the same tables.

Commands for what does not survive a restart go through the same log in the same order; only their
replies need not wait for the disk. Without that order a replay could come to other tables: an
auto-delete exchange lives as long as its last binding, be that to a transient queue. After a
restart the node logs `DropTransient`.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final, final

import msgspec
from mypy_extensions import i64

from warren.errors import StorageError
from warren.metadata.commands import (
    Bind,
    ClearPermissions,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeclareVhost,
    DeleteExchange,
    DeleteQueue,
    DeleteUser,
    DeleteVhost,
    DropTransient,
    SetPermissions,
    SetUser,
    Unbind,
)
from warren.metadata.tables import (
    NO_OWNER,
    BindingKey,
    ExchangeRecord,
    PermissionRecord,
    QueueRecord,
    UserRecord,
    VhostRecord,
)
from warren.routing.bindings import Binding
from warren.wire.amqp091.table import Table, decode_table, encode_table

SNAPSHOT_VERSION: Final = 1

#: Exchanges of every vhost: name, type, whether internal. The default one has no name.
PREDECLARED_EXCHANGES: Final = (
    ("", "direct", False),
    ("amq.direct", "direct", False),
    ("amq.fanout", "fanout", False),
    ("amq.headers", "headers", False),
    ("amq.match", "headers", False),
    ("amq.rabbitmq.trace", "topic", True),
    ("amq.topic", "topic", False),
)


@final
class Outcome:
    """What a command did: the node acts on it.

    Attributes:
        changed: Whether the tables differ from before. A declare that changed nothing met an entity
            that came first: check its equivalence again.
        created_queue: Needs its machine started.
        deleted_queues, deleted_exchanges: All that are gone, by cascade too.
    """

    def __init__(self) -> None:
        self.changed: bool = False
        self.created_queue: QueueRecord | None = None
        self.deleted_queues: list[QueueRecord] = []
        self.deleted_exchanges: list[ExchangeRecord] = []


def binding_key(
    destination: str, to_exchange: bool, routing_key: str, arguments: Table
) -> BindingKey:
    """What makes a binding the same as another one of its exchange.

    The order of arguments does not matter, the types of their values do.
    """
    if not arguments:
        return (destination, to_exchange, routing_key, b"")
    ordered: Table = {name: arguments[name] for name in sorted(arguments)}
    return (destination, to_exchange, routing_key, encode_table(ordered))


@final
class MetadataMachine:
    """All vhosts with their exchanges, queues and bindings; users and permissions.

    Attributes:
        applied_index: Log index of the last command.
        highest_group_id: The highest queue incarnation there ever was; a new one must be higher.
    """

    def __init__(self) -> None:
        self.vhosts: dict[str, VhostRecord] = {}
        self.users: dict[str, UserRecord] = {}
        self.applied_index: i64 = 0
        self.highest_group_id: i64 = 0

    # --- reading --------------------------------------------------------------------------------

    def queue(self, vhost: str, name: str) -> QueueRecord | None:
        """A queue, None where there is none."""
        tables = self.vhosts.get(vhost)
        return None if tables is None else tables.queues.get(name)

    def exchange(self, vhost: str, name: str) -> ExchangeRecord | None:
        """An exchange, None where there is none."""
        tables = self.vhosts.get(vhost)
        return None if tables is None else tables.exchanges.get(name)

    def queues_of_owner(self, vhost: str, owner: i64) -> list[QueueRecord]:
        """The exclusive queues of a connection, to be deleted when it ends."""
        tables = self.vhosts.get(vhost)
        if tables is None:
            return []
        owned = tables.owned.get(owner)
        return [] if owned is None else list(owned)

    # --- applying -------------------------------------------------------------------------------

    def apply(self, index: i64, command: Command) -> Outcome:
        """Apply a committed command.

        Args:
            index: Its log index; commands come in the order of the log.
        """
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
        elif isinstance(command, DeleteExchange):
            self._delete_exchange(command, outcome)
        elif isinstance(command, DropTransient):
            self._drop_transient(outcome)
        else:
            self._apply_administration(command, outcome)
        self.applied_index = index
        return outcome

    def _apply_administration(self, command: Command, outcome: Outcome) -> None:
        if isinstance(command, DeclareVhost):
            self._declare_vhost(command.name, outcome)
        elif isinstance(command, DeleteVhost):
            tables = self.vhosts.pop(command.name, None)
            if tables is not None:
                outcome.changed = True
                outcome.deleted_queues.extend(tables.queues.values())
                outcome.deleted_exchanges.extend(tables.exchanges.values())
        elif isinstance(command, SetUser):
            self.users[command.name] = UserRecord(
                command.name,
                command.password_hash,
                command.hash_scheme,
                command.tags,
                command.loopback_only,
            )
            outcome.changed = True
        elif isinstance(command, DeleteUser):
            if self.users.pop(command.name, None) is not None:
                outcome.changed = True
            for tables in self.vhosts.values():
                tables.permissions.pop(command.name, None)
        elif isinstance(command, SetPermissions):
            granted = self.vhosts.get(command.vhost)
            if granted is not None and command.user in self.users:
                granted.permissions[command.user] = PermissionRecord(
                    command.user, command.vhost, command.configure, command.write, command.read
                )
                outcome.changed = True
        else:
            assert isinstance(command, ClearPermissions), command
            cleared = self.vhosts.get(command.vhost)
            if cleared is not None and cleared.permissions.pop(command.user, None) is not None:
                outcome.changed = True

    def _declare_vhost(self, name: str, outcome: Outcome) -> None:
        if name in self.vhosts:
            return
        tables = VhostRecord(name)
        for exchange, kind, internal in PREDECLARED_EXCHANGES:
            _add_exchange(tables, ExchangeRecord(name, exchange, kind, True, False, internal, {}))
        self.vhosts[name] = tables
        outcome.changed = True

    def _declare_exchange(self, command: DeclareExchange, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None or command.name in tables.exchanges:
            return
        _add_exchange(
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

    def _delete_exchange(self, command: DeleteExchange, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None:
            return
        exchange = tables.exchanges.get(command.name)
        if exchange is None or (command.if_unused and exchange.bound):
            return
        outcome.changed = True
        _remove_exchange(tables, exchange, outcome)

    def _declare_queue(self, command: DeclareQueue, outcome: Outcome) -> None:
        if command.group_id > self.highest_group_id:
            self.highest_group_id = command.group_id
        tables = self.vhosts.get(command.vhost)
        if tables is None or command.name in tables.queues:
            return
        queue = QueueRecord(
            command.vhost,
            command.name,
            command.kind,
            command.durable,
            command.auto_delete,
            command.exclusive_owner,
            command.arguments,
            command.group_id,
        )
        _add_queue(tables, queue)
        outcome.changed = True
        outcome.created_queue = queue

    def _delete_queue(self, command: DeleteQueue, outcome: Outcome) -> None:
        tables = self.vhosts.get(command.vhost)
        if tables is None:
            return
        queue = tables.queues.get(command.name)
        if queue is None or queue.group_id != command.group_id:
            return
        outcome.changed = True
        _remove_queue(tables, queue, outcome)

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
        _add_binding(tables, source, key, binding)
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
        outcome.changed = True
        tables.router.remove_binding(binding)
        _forget_incoming(tables, binding)
        if source.auto_delete and not source.bound:
            _remove_exchange(tables, source, outcome)

    def _drop_transient(self, outcome: Outcome) -> None:
        for tables in self.vhosts.values():
            for queue in [queue for queue in tables.queues.values() if not queue.durable]:
                outcome.changed = True
                _remove_queue(tables, queue, outcome)
            for exchange in [row for row in tables.exchanges.values() if not row.durable]:
                if exchange.name in tables.exchanges:
                    outcome.changed = True
                    _remove_exchange(tables, exchange, outcome)

    # --- snapshots ------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """The whole state, in the layout of `docs/formats/metadata.md`."""
        rows = [_vhost_row(tables) for tables in self.vhosts.values()]
        users = [
            [user.name, user.password_hash, user.hash_scheme, user.tags, user.loopback_only]
            for user in self.users.values()
        ]
        state = [SNAPSHOT_VERSION, self.applied_index, self.highest_group_id, users, rows]
        return msgspec.msgpack.encode(state)

    def restore(self, data: bytes) -> None:
        """Take over a snapshot; this machine is new.

        Raises:
            StorageError: A later version of Warren wrote it.
        """
        assert not self.vhosts and not self.users
        state: list[Any] = msgspec.msgpack.decode(data)
        if state[0] != SNAPSHOT_VERSION:
            raise StorageError(
                f"metadata snapshot of version {state[0]}, "
                f"this node knows version {SNAPSHOT_VERSION}"
            )
        self.applied_index = state[1]
        self.highest_group_id = state[2]
        for row in state[3]:
            self.users[row[0]] = UserRecord(row[0], row[1], row[2], row[3], row[4])
        for row in state[4]:
            tables = _read_vhost(row)
            self.vhosts[tables.name] = tables

    def state_hash(self) -> str:
        """A digest of the state: equal on all members that applied the same commands."""
        return hashlib.sha256(self.snapshot()).hexdigest()


# --- changes ------------------------------------------------------------------------------------


def _add_exchange(tables: VhostRecord, exchange: ExchangeRecord) -> None:
    tables.exchanges[exchange.name] = exchange
    if exchange.name:
        tables.router.add_exchange(
            exchange.name, exchange.kind, exchange.internal, exchange.alternate()
        )


def _add_queue(tables: VhostRecord, queue: QueueRecord) -> None:
    tables.queues[queue.name] = queue
    tables.router.add_queue(queue.name)
    if queue.exclusive_owner != NO_OWNER:
        owned = tables.owned.get(queue.exclusive_owner)
        if owned is None:
            owned = {}
            tables.owned[queue.exclusive_owner] = owned
        owned[queue] = None


def _add_binding(
    tables: VhostRecord, source: ExchangeRecord, key: BindingKey, binding: Binding
) -> None:
    """Both ends exist."""
    source.bound[key] = binding
    if binding.to_exchange:
        tables.exchanges[binding.destination].incoming[binding] = None
    else:
        tables.queues[binding.destination].incoming[binding] = None
    tables.router.add_binding(binding)


def _forget_incoming(tables: VhostRecord, binding: Binding) -> None:
    """Take a binding out of the row it leads to, which may be gone already."""
    if binding.to_exchange:
        exchange = tables.exchanges.get(binding.destination)
        if exchange is not None:
            del exchange.incoming[binding]
    else:
        queue = tables.queues.get(binding.destination)
        if queue is not None:
            del queue.incoming[binding]


def _remove_queue(tables: VhostRecord, queue: QueueRecord, outcome: Outcome) -> None:
    """Delete a queue, the bindings to it, and auto-delete exchanges that have none left."""
    del tables.queues[queue.name]
    tables.router.remove_queue(queue.name)
    if queue.exclusive_owner != NO_OWNER:
        owned = tables.owned[queue.exclusive_owner]
        del owned[queue]
        if not owned:
            del tables.owned[queue.exclusive_owner]
    outcome.deleted_queues.append(queue)
    for name in _drop_incoming(tables, queue.incoming):
        exchange = tables.exchanges.get(name)
        if exchange is not None:
            _remove_exchange(tables, exchange, outcome)


def _remove_exchange(tables: VhostRecord, exchange: ExchangeRecord, outcome: Outcome) -> None:
    """Delete an exchange, the bindings at both ends, and auto-delete exchanges left unbound.

    A chain of auto-delete exchanges can be long, so it is followed in a loop.
    """
    waiting = [exchange]
    for row in waiting:
        if tables.exchanges.pop(row.name, None) is None:
            continue
        outcome.deleted_exchanges.append(row)
        for binding in row.bound.values():
            tables.router.remove_binding(binding)
            _forget_incoming(tables, binding)
        row.bound = {}
        for name in _drop_incoming(tables, row.incoming):
            unbound = tables.exchanges.get(name)
            if unbound is not None:
                waiting.append(unbound)
        tables.router.remove_exchange(row.name)


def _drop_incoming(tables: VhostRecord, incoming: dict[Binding, None]) -> list[str]:
    """Remove the bindings to a deleted row; names the auto-delete exchanges left unbound."""
    unbound: list[str] = []
    for binding in incoming:
        source = tables.exchanges.get(binding.source)
        if source is None:
            # The source is the deleted exchange itself: bound to itself, and already taken apart.
            continue
        key = binding_key(
            binding.destination, binding.to_exchange, binding.routing_key, binding.arguments
        )
        del source.bound[key]
        tables.router.remove_binding(binding)
        if source.auto_delete and not source.bound:
            unbound.append(source.name)
    return unbound


# --- rows of a snapshot -------------------------------------------------------------------------


def _vhost_row(tables: VhostRecord) -> list[Any]:
    exchanges: list[Any] = []
    bindings: list[Any] = []
    for exchange in tables.exchanges.values():
        exchanges.append(
            [
                exchange.name,
                exchange.kind,
                exchange.durable,
                exchange.auto_delete,
                exchange.internal,
                encode_table(exchange.arguments),
            ]
        )
        for binding in exchange.bound.values():
            bindings.append(
                [
                    binding.source,
                    binding.destination,
                    binding.to_exchange,
                    binding.routing_key,
                    encode_table(binding.arguments),
                    binding.durable,
                ]
            )
    queues = [
        [
            queue.name,
            queue.kind,
            queue.durable,
            queue.auto_delete,
            queue.exclusive_owner,
            encode_table(queue.arguments),
            queue.group_id,
        ]
        for queue in tables.queues.values()
    ]
    permissions = [
        [row.user, row.configure, row.write, row.read] for row in tables.permissions.values()
    ]
    return [tables.name, exchanges, queues, bindings, permissions]


def _read_vhost(row: list[Any]) -> VhostRecord:
    name: str = row[0]
    tables = VhostRecord(name)
    for e in row[1]:
        _add_exchange(tables, ExchangeRecord(name, e[0], e[1], e[2], e[3], e[4], _table(e[5])))
    for q in row[2]:
        queue = QueueRecord(name, q[0], q[1], q[2], q[3], q[4], _table(q[5]), q[6])
        _add_queue(tables, queue)
    for b in row[3]:
        binding = Binding(b[0], b[1], b[2], b[3], _table(b[4]), b[5])
        key = binding_key(
            binding.destination, binding.to_exchange, binding.routing_key, binding.arguments
        )
        _add_binding(tables, tables.exchanges[binding.source], key, binding)
    for p in row[4]:
        tables.permissions[p[0]] = PermissionRecord(p[0], name, p[1], p[2], p[3])
    return tables


def _table(data: bytes) -> Table:
    return decode_table(data, 0, len(data))
