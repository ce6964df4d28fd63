"""What the cluster has, who asks, and which broker this is."""

from __future__ import annotations

import asyncio
import platform
from typing import Any

import msgspec

from warren.admin.compatible import PRODUCT, RABBITMQ_VERSION, RUNTIME
from warren.admin.http.answers import NO_CONTENT, HttpAnswer, ok
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import bad_request
from warren.admin.http.fields import counted
from warren.admin.http.paging import narrowed_one
from warren.admin.http.ranges import Ranges
from warren.admin.service import overview, parameters
from warren.admin.service.caller import ADMINISTRATOR, MONITORING
from warren.admin.service.everywhere import ask_all, others
from warren.admin.service.rows import Listener, Status
from warren.admin.service.service import AdminService
from warren.admin.service.statistics import CHURN, LENGTHS, VHOST_COUNTERS

RETENTION = {"global": [600, 3_600, 28_800, 86_400], "basic": [600, 3_600], "detailed": [600]}
"""How far back charts go, in seconds; `service.history` keeps samples for so long."""


async def show(asked: HttpRequest) -> HttpAnswer:
    """The overview."""
    ranges = Ranges(asked.query)
    monitors = bool(asked.caller.tags & {ADMINISTRATOR, MONITORING})
    found, listeners = await asyncio.gather(
        overview.overview(asked.service, asked.caller, spans=ranges.spans),
        listeners_of_others(asked.service if monitors else None),
    )
    listeners[found.node] = found.listeners
    places = [(node, row) for node in sorted(listeners) for row in listeners[node]]
    figures = found.figures
    counters, lengths = len(VHOST_COUNTERS), (figures.ready, figures.unacknowledged)
    samples = figures.samples
    shown: dict[str, Any] = {
        "management_version": RABBITMQ_VERSION,
        "rates_mode": "basic",
        "exchange_types": msgspec.to_builtins(found.exchange_types),
        "product_name": PRODUCT,
        "product_version": found.version,
        "rabbitmq_version": RABBITMQ_VERSION,
        "erlang_version": RUNTIME,
        "erlang_full_version": f"{RUNTIME} [{platform.machine()}]",
        "cluster_name": found.cluster,
        "cluster_tags": {},
        "node_tags": {},
        "sample_retention_policies": RETENTION,
        # RabbitMQ's processes send their counters; here they are looked at.
        "statistics_db_event_queue": 0,
        "disable_stats": False,
        "enable_queue_totals": False,
        "default_queue_type": found.default_queue_type,
        "is_op_policy_updating_enabled": True,
        "require_definition_json_extension": False,
        "queue_totals": counted(
            LENGTHS,
            (*lengths, sum(lengths)),
            figures.length_rates,
            ranges.samples("lengths", samples, counters),
        ),
        "message_stats": counted(
            VHOST_COUNTERS, figures.counters, figures.rates, ranges.samples("msg_rates", samples)
        ),
        "churn_rates": counted(
            CHURN,
            figures.churn,
            figures.churn_rates,
            ranges.samples("msg_rates", samples, counters + len(LENGTHS)),
        ),
        "object_totals": {
            "channels": figures.channels,
            "consumers": figures.consumers,
            "connections": figures.connections,
            "exchanges": found.exchanges,
            "queues": found.queues,
        },
    }
    if monitors:
        shown |= {
            "node": found.node,
            "listeners": [listener(node, row) for node, row in places],
            "contexts": [
                {
                    "node": node,
                    "description": "Warren's HTTP API",
                    "path": "/",
                    "ip": address(row),
                    "port": str(row.port),
                }
                for node, row in places
                if row.protocol in ("http", "https")
            ],
        }
    return ok(narrowed_one(asked, shown))


async def listeners_of_others(service: AdminService | None) -> dict[str, list[Listener]]:
    """Where the other nodes listen that answer; of no service nothing is asked."""
    if service is None:
        return {}
    answers = await ask_all(service, others(service), "status", {}, Status)
    return {name: status.addresses for name, status in answers.by_node.items()}


def listener(node: str, row: Listener) -> dict[str, Any]:
    """One address at which a node listens."""
    return {
        "node": node,
        "protocol": row.protocol,
        "ip_address": address(row),
        "port": row.port,
        "tls": row.tls,
    }


def address(row: Listener) -> str:
    """The address itself; in the place of none that of every interface."""
    return row.interface.removeprefix("[").removesuffix("]")


async def whoami(asked: HttpRequest) -> HttpAnswer:
    """The user who asks."""
    user = asked.caller
    shown = {"name": user.name, "tags": sorted(user.tags), "is_internal_user": user.grants is None}
    return ok(narrowed_one(asked, shown))


async def version(asked: HttpRequest) -> HttpAnswer:
    """Which RabbitMQ this API is like."""
    return ok(RABBITMQ_VERSION)


async def extensions(asked: HttpRequest) -> HttpAnswer:
    """Extensions of the pages, of which there are none."""
    return ok([])


async def cluster_name(asked: HttpRequest) -> HttpAnswer:
    """What the cluster is called."""
    found = await overview.overview(asked.service, asked.caller)
    return ok(narrowed_one(asked, {"name": found.cluster}))


async def put_cluster_name(asked: HttpRequest) -> HttpAnswer:
    """Name the cluster."""
    (name,) = needed(asked.document(), "name")
    if not isinstance(name, str):
        raise bad_request("name should be a text")
    await parameters.set_cluster_name(asked.service, asked.caller, name=name)
    return NO_CONTENT


RESOURCES = [
    Resource("/api/cluster-name", get=cluster_name, put=put_cluster_name),
    Resource("/api/overview", get=show),
    Resource("/api/whoami", get=whoami),
    Resource("/api/version", get=version),
    Resource("/api/extensions", get=extensions),
]
