"""Runtime parameters: of vhosts by component, and of the whole cluster.

The components that can be set are `vhost-limits` and, ours, `warren-feed` (`metadata.feeds`): those
of RabbitMQ's plugins, such as shovels, are not here, and are refused in its words.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

import msgspec

from warren.admin.service.caller import POLICYMAKER, Caller, check_target, visible
from warren.admin.service.operation import operation
from warren.admin.service.rows import GlobalParameterRow, ParameterRow
from warren.admin.service.service import AdminService
from warren.errors import NOT_FOUND, PRECONDITION_FAILED, Refusal
from warren.metadata.access_checks import check_vhost, check_vhost_limits
from warren.metadata.commands import ClearParameter, SetVhostLimits
from warren.metadata.feeds import FEED_NAME, check_feed_value, feed_settings
from warren.metadata.parameters import (
    CLUSTER_ID,
    CLUSTER_NAME,
    CLUSTER_TAGS,
    FEED,
    check_clear_global,
    check_set_global,
)

VHOST_LIMITS = "vhost-limits"
LIMITS_NAME = "limits"
"""The name of the one parameter that RabbitMQ keeps the limits of a vhost in."""
CLUSTER_ID_HEAD = "rabbitmq-cluster-id-"
POLICIES = ("policy", "operator_policy")
POLICIES_ELSEWHERE = "policies may not be set using this method"


@operation(POLICYMAKER, of_vhost=True)
async def set_parameter(
    service: AdminService,
    caller: Caller,
    *,
    vhost: str,
    component: str,
    name: str,
    value: str,
) -> None:
    """Set a runtime parameter of a vhost.

    Args:
        value: JSON.

    Raises:
        Refusal: There is no such vhost or component, the value is none, or no majority.
    """
    await service.catch_up()
    check_vhost(service.machine, vhost)
    if component in POLICIES:
        raise Refusal(PRECONDITION_FAILED, POLICIES_ELSEWHERE)
    if component == FEED and name != FEED_NAME:
        raise Refusal(
            PRECONDITION_FAILED,
            f"Validation failed\n\nthe name of a {FEED} must be '{FEED_NAME}'\n",
        )
    if component == FEED:
        command = check_feed_value(service.machine.parameters, vhost, value)
        feed = feed_settings(command.value)
        assert feed is not None, "it was checked"
        check_target(service.node.store.authority, caller, vhost, feed.queue)
        await service.change(command)
        return
    if component != VHOST_LIMITS:
        raise Refusal(
            PRECONDITION_FAILED, f"Validation failed\n\ncomponent {component} not found\n"
        )
    await service.change(check_vhost_limits(service.machine, vhost, value))


@operation(POLICYMAKER, of_vhost=True)
async def clear_parameter(
    service: AdminService, caller: Caller, *, vhost: str, component: str, name: str
) -> None:
    """Remove a runtime parameter of a vhost.

    Raises:
        Refusal: There is no such vhost or parameter, or no majority.
    """
    await service.catch_up()
    tables = check_vhost(service.machine, vhost)
    if component == VHOST_LIMITS and tables.limits:
        await service.change(SetVhostLimits(vhost, {}))
    elif (vhost, component, name) in service.machine.parameters:
        await service.change(ClearParameter(vhost, component, name))
    else:
        raise Refusal(NOT_FOUND, "Parameter does not exist")


@operation(POLICYMAKER)
async def list_parameters(
    service: AdminService, caller: Caller, *, vhost: str = "", component: str = ""
) -> list[ParameterRow]:
    """List runtime parameters of a vhost, or of all that the caller may see.

    Raises:
        Refusal: There is no such vhost, or the caller may not see it.
    """
    rows: list[ParameterRow] = []
    for tables in visible(service.machine, caller, vhost):
        if tables.limits:
            limits: Any = dict(tables.limits)
            rows.append(
                ParameterRow(
                    vhost=tables.name, component=VHOST_LIMITS, name=LIMITS_NAME, value=limits
                )
            )
        for (of_vhost, of_component, name), value in service.machine.parameters.items():
            if of_vhost == tables.name and of_component:
                rows.append(
                    ParameterRow(
                        vhost=of_vhost,
                        component=of_component,
                        name=name,
                        value=msgspec.json.decode(value),
                    )
                )
    return [row for row in rows if component in ("", row.component)]


@operation()
async def set_global_parameter(
    service: AdminService, caller: Caller, *, name: str, value: str
) -> None:
    """Set a runtime parameter of the whole cluster.

    Args:
        value: JSON.

    Raises:
        Refusal: It is none, or there is no majority.
    """
    await service.catch_up()
    await service.change(check_set_global(service.machine.parameters, name, value))


@operation()
async def clear_global_parameter(service: AdminService, caller: Caller, *, name: str) -> None:
    """Remove a runtime parameter of the whole cluster.

    Raises:
        Refusal: There is none of that name, or no majority.
    """
    await service.catch_up()
    await service.change(check_clear_global(service.machine.parameters, name))


@operation(POLICYMAKER)
async def list_global_parameters(service: AdminService, caller: Caller) -> list[GlobalParameterRow]:
    """List the runtime parameters of the whole cluster, by name.

    Two are there unless somebody set them: the tags of the cluster, and what it is told by.
    """
    values: dict[str, Any] = {CLUSTER_TAGS: [], CLUSTER_ID: internal_cluster_id(service)}
    for (_, component, name), value in service.machine.parameters.items():
        if not component:
            values[name] = msgspec.json.decode(value)
    return [GlobalParameterRow(name=name, value=values[name]) for name in sorted(values)]


def internal_cluster_id(service: AdminService) -> str:
    """What tells a cluster from all others, as RabbitMQ writes it."""
    return CLUSTER_ID_HEAD + urlsafe_b64encode(service.machine.cluster_id).decode().rstrip("=")


@operation()
async def set_cluster_name(service: AdminService, caller: Caller, *, name: str) -> None:
    """Name the cluster.

    Raises:
        Refusal: It cannot be called so, or there is no majority.
    """
    if not name:
        raise Refusal(PRECONDITION_FAILED, "cluster name cannot be blank")
    await service.catch_up()
    value = msgspec.json.encode(name).decode()
    await service.change(check_set_global(service.machine.parameters, CLUSTER_NAME, value))
