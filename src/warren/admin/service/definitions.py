"""Definitions: all that operators and applications have declared, as RabbitMQ writes it in JSON.

What RabbitMQ exports can be imported, and the other way round. Messages are no part of it, nor what
ends with a connection. An import changes nothing before all of it was looked at; then it makes what
is not there, and replaces users, rights, policies and parameters of the same name.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from warren import __version__
from warren.admin.compatible import RABBITMQ_VERSION
from warren.admin.service.caller import LOCAL, Caller
from warren.admin.service.definition_items import read_items
from warren.admin.service.importing import OPERATOR_POLICY, Importing, is_declared
from warren.admin.service.operation import operation
from warren.admin.service.parameters import LIMITS_NAME, VHOST_LIMITS
from warren.admin.service.rows import Imported
from warren.admin.service.service import AdminService
from warren.admin.service.slices import Slices
from warren.admin.service.status import cluster_name
from warren.metadata import access_checks
from warren.metadata.plain_tables import plain
from warren.metadata.tables import (
    NO_OWNER,
    BindingRecord,
    ExchangeRecord,
    PermissionRecord,
    PolicyRecord,
    QueueRecord,
    TopicPermissionRecord,
    UserRecord,
    VhostRecord,
)

FORMAT = "cluster"


@operation()
async def export_definitions(
    service: AdminService, caller: Caller, *, vhost: str = ""
) -> dict[str, Any]:
    """Write down all definitions, or those of one vhost.

    Raises:
        Refusal: There is no such vhost.
    """
    machine = service.machine
    if vhost:
        return await _of_vhost(access_checks.check_vhost(machine, vhost))
    slices = Slices()
    users = await slices.each(list(machine.users.values()), user_definition)
    found: dict[str, Any] = {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Warren",
        "product_version": __version__,
        "rabbitmq_definition_format": FORMAT,
        "original_cluster_name": cluster_name(service),
        "explanation": f"Definitions of cluster '{cluster_name(service)}'",
        "users": users,
        "vhosts": [],
        "permissions": [],
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [
            {"name": name, "value": msgspec.json.decode(value)}
            for (_, component, name), value in machine.parameters.items()
            if not component
        ],
        "policies": [],
        "queues": [],
        "exchanges": [],
        "bindings": [],
    }
    for tables in list(machine.vhosts.values()):
        found["vhosts"].append(vhost_definition(tables))
        for right in list(tables.permissions.values()):
            found["permissions"].append(permission_definition(tables, right))
            await slices.breathe()
        for bounds in list(tables.topic_permissions.values()):
            for bound in bounds.values():
                found["topic_permissions"].append(topic_permission_definition(tables, bound))
            await slices.breathe()
        found["parameters"] += [
            {
                "vhost": of_vhost,
                "component": component,
                "name": name,
                "value": msgspec.json.decode(value),
            }
            for (of_vhost, component, name), value in machine.parameters.items()
            if component and of_vhost == tables.name
        ]
        own = await _of_vhost(tables)
        for kind in ("parameters", "policies", "queues", "exchanges", "bindings"):
            for row in own[kind]:
                found[kind].append({"vhost": tables.name, **row})
                await slices.breathe()
    return found


@operation()
async def import_definitions(
    service: AdminService, caller: Caller, *, definitions: dict[str, Any], vhost: str = ""
) -> Imported:
    """Have all that definitions say.

    Args:
        vhost: Where all belongs that they say, if they are those of one vhost; what is of no vhost,
            such as users, is passed over then.

    Raises:
        Refusal: Some of it cannot be, and it says what; all else is there. Or there is no majority.
    """
    await service.catch_up()
    if vhost:
        access_checks.check_vhost(service.machine, vhost)
    given = await read_items(definitions, vhost)
    own = caller is not LOCAL and caller.name in service.machine.users
    importing = Importing(service, given, caller.name if own else "")
    await importing.all()
    return Imported(counts=given.counts(), skipped=importing.skipped)


def hash_text(password_hash: bytes) -> str:
    """A hash of a password as definitions have it, in Base64."""
    return base64.b64encode(password_hash).decode()


def user_definition(user: UserRecord) -> dict[str, Any]:
    """A user, with the hash of its password."""
    return {
        "name": user.name,
        "password_hash": hash_text(user.password_hash),
        "hashing_algorithm": user.hash_scheme,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def permission_definition(tables: VhostRecord, row: PermissionRecord) -> dict[str, Any]:
    """What a user may do in a vhost."""
    return {
        "user": row.user,
        "vhost": tables.name,
        "configure": row.configure,
        "write": row.write,
        "read": row.read,
    }


def topic_permission_definition(tables: VhostRecord, row: TopicPermissionRecord) -> dict[str, Any]:
    """What routing keys a user may publish with to a topic exchange, and bind with."""
    return {
        "user": row.user,
        "vhost": tables.name,
        "exchange": row.exchange,
        "write": row.write,
        "read": row.read,
    }


def vhost_definition(tables: VhostRecord) -> dict[str, Any]:
    """A vhost with its properties."""
    properties: dict[str, Any] = {"description": tables.description, "tags": list(tables.tags)}
    if tables.default_queue_type:
        properties["default_queue_type"] = tables.default_queue_type
    if tables.protected:
        properties["protected_from_deletion"] = True
    limits = dict(tables.limits)
    return {"name": tables.name, **properties, "metadata": properties, "limits": limits}


def policy_definition(policy: PolicyRecord) -> dict[str, Any]:
    """A policy but for its name."""
    return {
        "pattern": policy.pattern,
        "apply-to": policy.apply_to,
        "definition": policy.definition,
        "priority": int(policy.priority),
    }


async def _of_vhost(tables: VhostRecord) -> dict[str, Any]:
    """What one vhost has, without its name."""
    slices = Slices()
    parameters: list[dict[str, Any]] = []
    if tables.limits:
        parameters.append(
            {"component": VHOST_LIMITS, "name": LIMITS_NAME, "value": dict(tables.limits)}
        )
    for policy in tables.operator_policies.values():
        parameters.append(
            {
                "component": OPERATOR_POLICY,
                "name": policy.name,
                "value": policy_definition(policy),
            }
        )
    queues: list[dict[str, Any]] = []
    for queue in tables.queues_in_order():
        if _is_kept(queue):
            queues.append(
                {
                    "name": queue.name,
                    "type": queue.kind,
                    "durable": queue.durable,
                    "auto_delete": queue.auto_delete,
                    "arguments": plain(queue.arguments),
                }
            )
        await slices.breathe()
    exchanges: list[dict[str, Any]] = []
    bindings: list[dict[str, Any]] = []
    for exchange in list(tables.exchanges.values()):
        if is_declared(exchange.name) and not exchange.internal:
            exchanges.append(
                {
                    "name": exchange.name,
                    "type": exchange.kind,
                    "durable": exchange.durable,
                    "auto_delete": exchange.auto_delete,
                    "arguments": plain(exchange.arguments),
                }
            )
        for binding in list(exchange.bound.values()):
            if not _hidden(exchange) and _is_importable(tables, binding):
                bindings.append(
                    {
                        "source": binding.source,
                        "destination": binding.destination,
                        "destination_type": "exchange" if binding.to_exchange else "queue",
                        "routing_key": binding.routing_key,
                        "arguments": plain(binding.arguments),
                    }
                )
            await slices.breathe()
        await slices.breathe()
    return {
        "parameters": parameters,
        "policies": [
            {"name": policy.name, **policy_definition(policy)}
            for policy in tables.policies.values()
        ],
        "queues": queues,
        "exchanges": exchanges,
        "bindings": bindings,
    }


def _is_kept(queue: QueueRecord) -> bool:
    """Whether a queue can be declared again: those of connections go with them."""
    return not queue.type.delays and queue.exclusive_owner == NO_OWNER


def _hidden(exchange: ExchangeRecord) -> bool:
    """Whether an exchange is left out, as RabbitMQ leaves out those that no client may publish to.

    Those of every vhost are not: they are there wherever definitions go.
    """
    return exchange.internal and is_declared(exchange.name)


def _is_importable(tables: VhostRecord, binding: BindingRecord) -> bool:
    """Whether what a binding leads to is in the definitions, too."""
    if binding.to_exchange:
        exchange = tables.exchanges.get(binding.destination)
        return exchange is not None and not _hidden(exchange)
    queue = tables.queues.get(binding.destination)
    return queue is not None and _is_kept(queue)
