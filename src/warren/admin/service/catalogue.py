"""All operations by name, for ways in that look them up."""

from __future__ import annotations

from typing import Any

from warren.admin.service import cluster, leaders, members, policies, queues, status
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
    )
}
