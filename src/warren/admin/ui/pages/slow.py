"""Who is slow and why: one page over what lists of clients, queues and nodes say."""

from __future__ import annotations

import time
from typing import Any, Final

from warren.admin.http.resources import clients, nodes, queues
from warren.admin.service import looking
from warren.admin.ui import findings
from warren.admin.ui.asking import PageRequest, Shown, WebPage, told
from warren.admin.ui.findings import FOUND_MAX, Finding
from warren.admin.ui.names import path
from warren.admin.ui.wrong import Wrong

ROWS_MAX: Final = "500"
"""Rows of a list that are looked at: those that have most."""
AGES_MAX: Final = 20
"""Queues of which the first message is looked at."""


async def show(asked: PageRequest) -> Shown:
    """All that is slow now."""
    alarms = findings.of_nodes(await asked.api(nodes.all_nodes)) if asked.monitors else []
    connections = await _most(asked, clients.all_connections, "send_pend")
    channels = await _most(asked, clients.all_named_channels, "messages_unacknowledged")
    consumers = await _most(asked, clients.all_consumers, "")
    rows = await _most(asked, queues.all_queues, "messages_ready")
    found = findings.of_queues(rows)
    groups = [
        ("nodes", "Alarms", alarms),
        ("connections", "Connections that wait", findings.of_connections(connections)),
        ("channels", "Slow consumers", findings.of_channels(channels, consumers)),
        ("queues", "Queues with a backlog", found),
    ]
    return Shown(
        "slow.html",
        groups=[(key, title, each[:FOUND_MAX], len(each)) for key, title, each in groups],
        ages=await _ages(asked, found, rows),
        any=any(each for _, _, each in groups),
    )


async def _most(asked: PageRequest, handler: Any, sort: str) -> list[dict[str, Any]]:
    """The rows of a list that have most of something."""
    query = {"page": "1", "page_size": ROWS_MAX}
    if sort:
        query |= {"sort": sort, "sort_reverse": "true"}
    found = await asked.api(handler, query=query)
    rows: list[dict[str, Any]] = found["items"]
    return rows


async def _ages(
    asked: PageRequest, found: list[Finding], rows: list[dict[str, Any]]
) -> dict[str, float]:
    """How old the next message of queues is, by their pages, where its timestamp says so."""
    shown = {each.link for each in found[:AGES_MAX]}
    ages: dict[str, float] = {}
    for row in rows:
        link = path("queues", row["vhost"], row["name"])
        if link not in shown:
            continue
        look = looking.look(
            asked.service,
            asked.caller,
            vhost=row["vhost"],
            queue=row["name"],
            count=1,
            body_bytes=0,
        )
        try:
            messages = (await told(look, False)).messages
        except Wrong:
            # The user may not read it, or it has no leader now.
            continue
        made = messages[0].properties.timestamp if messages else None
        if made is not None:
            ages[link] = max(time.time() - made, 0.0)
    return ages


PAGES = [WebPage("/slow", show)]
