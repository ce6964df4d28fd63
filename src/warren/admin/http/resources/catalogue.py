"""All resources, in the order in which paths are compared: literal segments before variables."""

from __future__ import annotations

from warren.admin.http.asked import Resource
from warren.admin.http.resources import access, exchanges, overview, policies, queues, vhosts

RESOURCES: list[Resource] = [
    *overview.RESOURCES,
    *policies.RESOURCES,
    *access.RESOURCES,
    *vhosts.RESOURCES,
    *queues.RESOURCES,
    *exchanges.RESOURCES,
]
