"""All resources, in the order in which paths are compared: literal segments before variables."""

from __future__ import annotations

from warren.admin.http.asked import Resource
from warren.admin.http.resources import (
    access,
    clients,
    definitions,
    exchanges,
    health,
    nodes,
    overview,
    policies,
    queues,
    quorum,
    vhosts,
)

RESOURCES: list[Resource] = [
    *overview.RESOURCES,
    *policies.RESOURCES,
    *access.RESOURCES,
    *vhosts.RESOURCES,
    *clients.RESOURCES,
    *health.RESOURCES,
    *nodes.RESOURCES,
    *definitions.RESOURCES,
    *quorum.RESOURCES,
    *queues.RESOURCES,
    *exchanges.RESOURCES,
]
