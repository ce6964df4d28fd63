"""All operations by name, for ways in that look them up."""

from __future__ import annotations

from typing import Any

from warren.admin.service import (
    cluster,
    leaders,
    limits,
    members,
    permissions,
    policies,
    queues,
    status,
    users,
    vhosts,
)
from warren.admin.service.operation import Operation

OPERATIONS: dict[str, Operation[Any, Any]] = {
    operation.name: operation
    for operation in (
        status.status,
        cluster.forget_node,
        cluster.leave,
        queues.list_queues,
        members.add_member,
        members.delete_member,
        members.grow,
        members.grow_to_count,
        members.shrink,
        leaders.quorum_status,
        leaders.rebalance,
        leaders.transfer_leadership,
        policies.set_policy,
        policies.clear_policy,
        policies.list_policies,
        policies.set_operator_policy,
        policies.clear_operator_policy,
        policies.list_operator_policies,
        users.add_user,
        users.delete_user,
        users.change_password,
        users.clear_password,
        users.set_user_tags,
        users.list_users,
        users.authenticate_user,
        vhosts.add_vhost,
        vhosts.update_vhost_metadata,
        vhosts.delete_vhost,
        vhosts.list_vhosts,
        permissions.set_permissions,
        permissions.clear_permissions,
        permissions.list_permissions,
        permissions.list_user_permissions,
        permissions.set_topic_permissions,
        permissions.clear_topic_permissions,
        permissions.list_topic_permissions,
        permissions.list_user_topic_permissions,
        limits.set_user_limits,
        limits.clear_user_limits,
        limits.list_user_limits,
        limits.set_vhost_limits,
        limits.clear_vhost_limits,
        limits.list_vhost_limits,
    )
}
