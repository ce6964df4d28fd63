"""Nodes of the cluster, and what all of them may use."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources import nodes, overview, quorum
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.charts import RANGES, asking, node_charts
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listed_rows


async def index(asked: PageRequest) -> Shown:
    """All nodes."""
    rows = await asked.api(nodes.all_nodes)
    found = await asked.api(overview.show)
    shown = await listed_rows(asked, rows, sort="name")
    columns = ShownColumns("nodes", asked.columns, True)
    return Shown("nodes.html", list=shown, columns=columns, found=found)


async def show(asked: PageRequest) -> Shown:
    """One node: the figures of its process."""
    wanted = asking(asked.query, asked.since)
    found = await asked.api(nodes.one_node, {"node": asked["name"]}, wanted.query)
    shown = await asked.api(overview.show)
    listeners = [row for row in shown.get("listeners", []) if row["node"] == found["name"]]
    return Shown(
        "node.html",
        found=found,
        listeners=listeners,
        charts=node_charts(found, wanted) if found["running"] else [],
        ranges=RANGES,
        wanted=wanted,
    )


async def rename(asked: PageRequest) -> WentOn:
    """Call the cluster something else."""
    await asked.api(overview.put_cluster_name, document={"name": asked.form.text("name")})
    return WentOn("/nodes", "The cluster has a new name.")


async def rebalance(asked: PageRequest) -> WentOn:
    """Spread the leaders of queues over the nodes."""
    await asked.api(quorum.rebalance)
    return WentOn("/nodes", "Leaders of quorum queues are being spread over the nodes.")


async def flags(asked: PageRequest) -> Shown:
    """What not every release knows."""
    found: list[dict[str, Any]] = await asked.api(nodes.feature_flags)
    # RabbitMQ's are for tools: here they are all there always.
    rows = [row for row in found if row["stability"] != "required"]
    shown = await listed_rows(asked, rows, sort="name")
    columns = ShownColumns("flags", asked.columns, True)
    return Shown("feature-flags.html", list=shown, columns=columns)


async def enable(asked: PageRequest) -> WentOn:
    """Let the whole cluster use something."""
    name = asked.form.name("name")
    await asked.api(nodes.enable_feature_flag, {"name": name})
    return WentOn("/feature-flags", f"The feature flag {name} is enabled.")


ACTS = {"rename": rename, "rebalance": rebalance, "columns": chooser("nodes")}

PAGES = [
    WebPage("/nodes", index, ACTS),
    WebPage("/nodes/{name}", show),
    WebPage("/feature-flags", flags, {"enable": enable, "columns": chooser("flags")}),
]
