"""Users and rights that come, change and go: what commands about them do to the tables.

Rights count at once: the routes that clients remember are computed anew, and so are checked anew.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from warren.metadata.commands import (
    ClearPermissions,
    ClearTopicPermissions,
    Command,
    DeleteUser,
    RenewHash,
    SetPassword,
    SetPermissions,
    SetTopicPermissions,
    SetUser,
    SetUserLimits,
    SetUserTags,
    SetVhostLimits,
)
from warren.metadata.outcome import Outcome
from warren.metadata.tables import (
    PermissionRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)

INTERNAL_USER: Final = "rmq-internal"
CLI_USER: Final = "rmq-cli"
"""Whom events name, as RabbitMQ does, where the broker itself or a command changed something."""

MAX_CONNECTIONS: Final = "max-connections"
MAX_CHANNELS: Final = "max-channels"
MAX_QUEUES: Final = "max-queues"
NO_LIMIT: Final = -1


def limit_of(limits: dict[str, int], name: str) -> int:
    """A limit of a user or a vhost; `NO_LIMIT` where there is none."""
    return max(limits.get(name, NO_LIMIT), NO_LIMIT)


def has_room(tables: VhostRecord) -> bool:
    """Whether a vhost may have one more queue."""
    most = limit_of(tables.limits, MAX_QUEUES)
    return most == NO_LIMIT or tables.queues_of_clients() < most


def apply_access(
    users: dict[str, UserRecord],
    vhosts: dict[str, VhostRecord],
    command: Command,
    created: i64,
    outcome: Outcome,
) -> bool:
    """Apply a command about users, rights or limits; False for any other one.

    Args:
        created: What tells a user that is created from former ones of its name.
    """
    if isinstance(command, SetUser):
        record = UserRecord(
            command.name,
            command.password_hash,
            command.hash_scheme,
            command.tags,
            command.loopback_only,
        )
        before = users.get(command.name)
        if before is None:
            record.created = created
        else:
            record.limits = before.limits
            record.created = before.created
        users[command.name] = record
        outcome.created_user = before is None
        outcome.changed = True
    elif isinstance(command, DeleteUser):
        _delete_user(users, vhosts, command.name, outcome)
    elif isinstance(command, (SetPassword, SetUserTags, SetUserLimits)):
        user = users.get(command.name)
        if user is not None:
            _change_user(user, command)
            outcome.changed = True
            outcome.limits_changed = isinstance(command, SetUserLimits)
    elif isinstance(command, RenewHash):
        user = users.get(command.name)
        if user is not None and user.password_hash == command.former_hash:
            user.former_hash = command.former_hash
            user.password_hash = command.password_hash
            user.hash_scheme = command.hash_scheme
            outcome.changed = True
    elif isinstance(command, SetVhostLimits):
        tables = vhosts.get(command.vhost)
        if tables is not None:
            outcome.repeated = tables.limits == command.limits
            tables.limits = command.limits
            outcome.changed = True
            outcome.limits_changed = True
    else:
        return _apply_permissions(users, vhosts, command, outcome)
    return True


def _change_user(user: UserRecord, command: SetPassword | SetUserTags | SetUserLimits) -> None:
    if isinstance(command, SetPassword):
        user.password_hash = command.password_hash
        user.hash_scheme = command.hash_scheme
        user.former_hash = b""
    elif isinstance(command, SetUserTags):
        user.tags = command.tags
    else:
        limits = {**user.limits, **command.limits}
        user.limits = {name: limits[name] for name in limits if name not in command.cleared}


def _delete_user(
    users: dict[str, UserRecord], vhosts: dict[str, VhostRecord], name: str, outcome: Outcome
) -> None:
    if users.pop(name, None) is None:
        return
    outcome.changed = True
    outcome.deleted_user = name
    for tables in vhosts.values():
        tables.topic_permissions.pop(name, None)
        note_bounds(tables)
        if tables.permissions.pop(name, None) is not None:
            tables.router.generation += 1


def _apply_permissions(
    users: dict[str, UserRecord],
    vhosts: dict[str, VhostRecord],
    command: Command,
    outcome: Outcome,
) -> bool:
    if not isinstance(
        command, (SetPermissions, ClearPermissions, SetTopicPermissions, ClearTopicPermissions)
    ):
        return False
    tables = vhosts.get(command.vhost)
    if tables is None or command.user not in users:
        return True
    if isinstance(command, SetPermissions):
        tables.permissions[command.user] = PermissionRecord(
            command.user, command.vhost, command.configure, command.write, command.read
        )
    elif isinstance(command, ClearPermissions):
        if tables.permissions.pop(command.user, None) is None:
            return True
    elif isinstance(command, SetTopicPermissions):
        bounds = tables.topic_permissions.get(command.user)
        if bounds is None:
            bounds = tables.topic_permissions[command.user] = {}
        bounds[command.exchange] = TopicPermissionRecord(
            command.user, command.exchange, command.write, command.read
        )
    elif not _clear_topics(tables, command):
        return True
    outcome.changed = True
    note_bounds(tables)
    tables.router.generation += 1
    return True


def note_bounds(tables: VhostRecord) -> None:
    """Have a vhost's router know whether there are topic permissions; it is asked often."""
    tables.router.bounds_keys = len(tables.topic_permissions) > 0


def _clear_topics(tables: VhostRecord, command: ClearTopicPermissions) -> bool:
    """Whether there was something to clear."""
    bounds = tables.topic_permissions.get(command.user)
    if bounds is None:
        return False
    if command.exchange:
        if bounds.pop(command.exchange, None) is None:
            return False
    if not command.exchange or not bounds:
        del tables.topic_permissions[command.user]
    return True
