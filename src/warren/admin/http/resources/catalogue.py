"""All resources, in the order in which paths are compared: literal segments before variables."""

from __future__ import annotations

import asyncio

from warren.admin.http.answers import HttpAnswer, ok
from warren.admin.http.asked import HttpRequest, Resource
from warren.admin.http.resources import (
    access,
    clients,
    definitions,
    exchanges,
    health,
    looking,
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
    *looking.RESOURCES,
    *exchanges.RESOURCES,
]


async def openapi(asked: HttpRequest) -> HttpAnswer:
    """This description."""
    # Found anew each time, which takes some 10 ms on a thread: few ask for it.
    from warren.admin.http.openapi import document

    return ok(await asyncio.to_thread(document, RESOURCES))


RESOURCES.insert(0, Resource("/api/openapi.json", get=openapi))
