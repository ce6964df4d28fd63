"""Rows of a snapshot, in the layout of `docs/formats/metadata.md`."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from mypy_extensions import i64

from warren.metadata.access import note_bounds
from warren.metadata.changes import add_binding, add_exchange, add_queue, binding_key
from warren.metadata.encoding import read_members
from warren.metadata.recent import restore_recent
from warren.metadata.rows import array_head
from warren.metadata.tables import (
    ExchangeRecord,
    NodeRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)
from warren.metadata.vhosts import properties_of, set_properties
from warren.routing.bindings import Binding
from warren.wire.amqp091.table import Table, decode_table

VHOST_VALUES: Final = 7

EXCHANGES_AT: Final = 1
QUEUES_AT: Final = 2
BINDINGS_AT: Final = 3
REST_AT: Final = 4
"""Where they are among what there is of a vhost."""


def node_row(node: NodeRecord) -> list[Any]:
    """A node as a snapshot has it; labels only where it has some, which older releases know not."""
    row: list[Any] = [
        node.name,
        node.uid,
        node.host,
        node.port,
        node.incarnation,
        node.session,
        node.nonce,
        node.newest,
        node.boot,
        node.round,
        node.version,
    ]
    if node.host_label or node.zone:
        row += [node.host_label, node.zone]
    return row


def read_node(row: list[Any]) -> NodeRecord:
    """The node of a row that `node_row` made."""
    node = NodeRecord(row[0], row[1], row[2], row[3], row[4])
    node.session = row[5]
    node.nonce = row[6]
    # Older snapshots have only what began the life.
    node.newest = row[7] if len(row) > 7 else row[5]
    if len(row) > 8:
        node.boot = row[8]
        node.round = row[9]
    if len(row) > 10:
        node.version = row[10]
    if len(row) > 11:
        node.host_label = row[11]
        node.zone = row[12]
    return node


def user_row(user: UserRecord) -> list[Any]:
    """A user as a snapshot has it, without what older releases do not know where it has none."""
    row: list[Any] = [
        user.name,
        user.password_hash,
        user.hash_scheme,
        user.tags,
        user.loopback_only,
    ]
    if user.limits or user.created:
        row.append(user.limits)
    if user.created:
        row.append(user.created)
    return row


def read_user(row: list[Any]) -> UserRecord:
    """The user of a row that `user_row` made."""
    user = UserRecord(row[0], row[1], row[2], row[3], row[4])
    if len(row) > 5:
        user.limits = row[5]
    if len(row) > 6:
        user.created = row[6]
    return user


def add_vhost_row(parts: list[bytes], tables: VhostRecord) -> None:
    """A vhost with all that is in it, encoded, after what there is already."""
    topics = _topic_rows(tables)
    properties = properties_of(tables)
    added: list[Any] = []
    # Only where there are some: older releases know none.
    if topics or properties or tables.limits or tables.created:
        added = [properties, tables.limits, topics]
    if tables.created:
        added.append(tables.created)
    parts.append(array_head(VHOST_VALUES + len(added)))
    parts.append(msgspec.msgpack.encode(tables.name))
    parts.append(array_head(len(tables.exchange_rows)))
    parts.extend(tables.exchange_rows.joined())
    parts.append(array_head(len(tables.queue_rows)))
    parts.extend(tables.queue_rows.joined())
    bound: i64 = 0
    for exchange in tables.exchanges.values():
        bound += len(exchange.binding_rows)
    parts.append(array_head(bound))
    for exchange in tables.exchanges.values():
        if exchange.bound:
            parts.extend(exchange.binding_rows.joined())
    permissions = [
        [row.user, row.configure, row.write, row.read] for row in tables.permissions.values()
    ]
    parts.append(msgspec.msgpack.encode(permissions))
    parts.append(msgspec.msgpack.encode(_policy_rows(tables.policies)))
    parts.append(msgspec.msgpack.encode(_policy_rows(tables.operator_policies)))
    parts.extend(msgspec.msgpack.encode(value) for value in added)


def add_row(tables: VhostRecord, part: i64, row: list[Any]) -> None:
    """Enter a row of one of the first parts of what `add_vhost_row` made."""
    if part == EXCHANGES_AT:
        exchange = ExchangeRecord(
            tables.name, row[0], row[1], row[2], row[3], row[4], _table(row[5])
        )
        if len(row) > 6:
            restore_recent(exchange, row[6])
        add_exchange(tables, exchange)
    elif part == QUEUES_AT:
        queue = QueueRecord(
            tables.name,
            row[0],
            row[1],
            row[2],
            row[3],
            row[4],
            _table(row[5]),
            row[6],
            row[7],
            read_members(row[8]),
        )
        queue.revision = row[9]
        add_queue(tables, queue)
    else:
        binding = Binding(row[0], row[1], row[2], row[3], _table(row[4]), row[5])
        key = binding_key(
            binding.destination, binding.to_exchange, binding.routing_key, binding.arguments
        )
        add_binding(tables, tables.exchanges[binding.source], key, binding)


def add_rest(tables: VhostRecord, rest: list[Any]) -> None:
    """Enter the parts behind those."""
    for p in rest[0]:
        tables.permissions[p[0]] = PermissionRecord(p[0], tables.name, p[1], p[2], p[3])
    if len(rest) > 1:
        # Older snapshots have no policies.
        _read_policies(tables.policies, rest[1])
        _read_policies(tables.operator_policies, rest[2])
    if len(rest) > 3:
        set_properties(tables, rest[3])
        tables.limits = rest[4]
        for t in rest[5]:
            bounds = tables.topic_permissions.get(t[0])
            if bounds is None:
                bounds = tables.topic_permissions[t[0]] = {}
            bounds[t[1]] = TopicPermissionRecord(t[0], t[1], t[2], t[3])
    if len(rest) > 6:
        tables.created = rest[6]
    note_bounds(tables)


def _topic_rows(tables: VhostRecord) -> list[Any]:
    return [
        [row.user, row.exchange, row.write, row.read]
        for bounds in tables.topic_permissions.values()
        for row in bounds.values()
    ]


def _policy_rows(policies: dict[str, PolicyRecord]) -> list[Any]:
    return [
        [row.name, row.pattern, row.apply_to, row.priority, row.definition]
        for row in policies.values()
    ]


def _read_policies(policies: dict[str, PolicyRecord], rows: list[Any]) -> None:
    for row in rows:
        policies[row[0]] = PolicyRecord(row[0], row[1], row[2], row[3], row[4])


def _table(data: bytes) -> Table:
    return decode_table(data, 0, len(data))
