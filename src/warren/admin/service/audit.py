"""What operators change is in the log, with who did it, whichever way they came in.

A line says what is so now, and of whom: `user 'app' was created, by user 'admin'`. It has names and
patterns, and never a password, a hash or the value of a parameter, which may have one.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextvars import ContextVar
from typing import Any, Final

log = logging.getLogger("warren")

CHANGES: Final[Mapping[str, str]] = {
    "forget_node": "node '{node}' was forgotten by the cluster",
    "leave": "the node leaves its cluster",
    "reset": "the node begins anew with an empty directory",
    "join_cluster": "the node joins the cluster of '{node}'",
    "add_member": "queue '{queue}' in vhost '{vhost}' has a member on node '{node}'",
    "delete_member": "queue '{queue}' in vhost '{vhost}' has no member on node '{node}' any more",
    "grow": "queues '{queue_pattern}' of vhosts '{vhost_pattern}' got members on node '{node}'",
    "grow_to_count": "queues '{queue_pattern}' of vhosts '{vhost_pattern}' got {count} members",
    "shrink": "queues lost their members on node '{node}'",
    "rebalance": "leaders of queues '{queue_pattern}' of vhosts '{vhost_pattern}' were spread",
    "force_shrink_member_to_current_member": "queue '{queue}' in vhost '{vhost}' goes on with the "
    "member here as its only one",
    "transfer_leadership": "the lead of queue '{queue}' in vhost '{vhost}' went to '{node}'",
    "set_policy": "policy '{name}' of vhost '{vhost}' was set: pattern '{pattern}', {definition}",
    "clear_policy": "policy '{name}' of vhost '{vhost}' was deleted",
    "set_operator_policy": "operator policy '{name}' of vhost '{vhost}' was set: "
    "pattern '{pattern}', {definition}",
    "clear_operator_policy": "operator policy '{name}' of vhost '{vhost}' was deleted",
    "enable_feed": "the events feed of vhost '{vhost}' was turned on",
    "disable_feed": "the events feed of vhost '{vhost}' was turned off",
    "add_user": "user '{name}' was created",
    "delete_user": "user '{name}' was deleted",
    "change_password": "user '{name}' got another password",
    "clear_password": "user '{name}' has no password any more",
    "set_user_tags": "user '{name}' has the tags {tags}",
    "add_vhost": "vhost '{name}' was created",
    "update_vhost_metadata": "what is said of vhost '{name}' was changed",
    "delete_vhost": "vhost '{name}' was deleted",
    "set_tracing": "tracing of vhost '{vhost}' was set to {on}",
    "set_event_exchange": "the event exchange was set to {on}",
    "set_permissions": "user '{user}' has permissions in vhost '{vhost}': "
    "'{configure}', '{write}', '{read}'",
    "clear_permissions": "user '{user}' has no permissions in vhost '{vhost}' any more",
    "set_topic_permissions": "user '{user}' has topic permissions in vhost '{vhost}' at exchange "
    "'{exchange}': '{write}', '{read}'",
    "clear_topic_permissions": "user '{user}' has no topic permissions in vhost '{vhost}' any more",
    "set_user_limits": "user '{user}' has limits: {definition}",
    "clear_user_limits": "user '{user}' has no limit '{limit}' any more",
    "set_vhost_limits": "vhost '{vhost}' has limits: {definition}",
    "clear_vhost_limits": "vhost '{vhost}' has no limits any more",
    "reset_samples": "samples of rates were forgotten",
    "reset_all_samples": "samples of rates were forgotten on all nodes",
    "reset_auth_attempts": "counts of logins were forgotten",
    "move_messages": "messages of queue '{queue}' in vhost '{vhost}' were moved",
    "close_connection": "connection '{connection}' was closed: {reason}",
    "close_connections": "connections {pids} were closed: {reason}",
    "close_all_connections": "all connections of vhost '{vhost}' and user '{user}' were closed: "
    "{reason}",
    "import_definitions": "definitions were imported",
    "drain": "maintenance began",
    "stop_app": "application stopped",
    "revive": "maintenance ended",
    "enable_feature_flag": "feature flag '{name}' was enabled",
    "set_disk_free_limit": "the disk limit was set: {bytes} bytes, or {mem_relative} of the memory",
    "set_vm_memory_high_watermark": "the memory limit was set: {absolute} bytes, or {relative}",
    "stop": "the node is to stop",
    "set_parameter": "parameter '{component}' '{name}' of vhost '{vhost}' was set",
    "clear_parameter": "parameter '{component}' '{name}' of vhost '{vhost}' was deleted",
    "set_global_parameter": "global parameter '{name}' was set",
    "clear_global_parameter": "global parameter '{name}' was deleted",
    "set_cluster_name": "the cluster was called '{name}'",
    "delete_exchange": "exchange '{name}' in vhost '{vhost}' was deleted",
    "delete_queue": "queue '{name}' in vhost '{vhost}' was deleted",
    "purge_queue": "queue '{name}' in vhost '{vhost}' was purged",
    "suspend_listeners": "listeners were suspended",
    "resume_listeners": "listeners were resumed",
    "say_alarm": "the alarm for {resource} was said to be raised: {raised}",
    "set_channel_max": "clients are offered {most} channels from now on",
    "set_log_level": "the level of the log is '{level}'",
}
"""What an operation has changed, by its name, in words with its arguments."""
DETAILS: Final[Mapping[str, str]] = {
    "declare_exchange": "exchange '{name}' in vhost '{vhost}' was declared",
    "declare_queue": "queue '{name}' in vhost '{vhost}' was declared",
    "bind": "'{source}' in vhost '{vhost}' was bound to '{destination}'",
    "unbind": "'{source}' in vhost '{vhost}' was unbound from '{destination}'",
}
"""The same of what scripts do by the thousand, which only a log of level debug has."""
TEXT_MAX: Final = 400
"""Letters of a line; a pattern or a definition may be long."""

_within: ContextVar[bool] = ContextVar("within", default=False)
"""Whether an operation is under way that is told of: what it is made of is not."""


def is_told(operation: str) -> bool:
    """Whether the log is told of an operation."""
    return operation in CHANGES or operation in DETAILS


def tell(operation: str, by: str, arguments: Mapping[str, Any]) -> None:
    """Say in the log what was changed and by whom."""
    if _within.get() or arguments.get("dry_run"):
        return
    level = logging.INFO if operation in CHANGES else logging.DEBUG
    if log.isEnabledFor(level):
        text = (CHANGES.get(operation) or DETAILS[operation]).format_map(arguments)
        shown = text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."
        log.log(level, "%s, by %s", shown, by)


async def told(done: Awaitable[Any], operation: str, by: str, arguments: Mapping[str, Any]) -> Any:
    """What an operation answers; the log is told once it has come about."""
    outer = _within.get()
    _within.set(True)
    try:
        result = await done
    finally:
        _within.set(outer)
    tell(operation, by, arguments)
    return result


async def told_at_end(
    parts: AsyncGenerator[Any, None], operation: str, by: str, arguments: Mapping[str, Any]
) -> AsyncGenerator[Any, None]:
    """The parts that an operation answers; the log is told when it ends, or is ended."""
    try:
        async for part in parts:
            yield part
    finally:
        await parts.aclose()
        tell(operation, by, arguments)
