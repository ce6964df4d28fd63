"""All pages, in the order in which paths are compared, and the areas that the menu has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from warren.admin.ui.asking import PageRequest, WebPage
from warren.admin.ui.pages import (
    bindings,
    clients,
    definitions,
    exchanges,
    limits,
    messages,
    nodes,
    overview,
    policies,
    queues,
    searching,
    slow,
    topology,
    users,
    vhosts,
)

PAGES: list[WebPage] = [
    *overview.PAGES,
    *slow.PAGES,
    *clients.PAGES,
    *exchanges.PAGES,
    *messages.PAGES,
    *searching.PAGES,
    *queues.PAGES,
    *bindings.PAGES,
    *topology.PAGES,
    *policies.PAGES,
    *users.PAGES,
    *vhosts.PAGES,
    *limits.PAGES,
    *definitions.PAGES,
    *nodes.PAGES,
]


def everybody(asked: PageRequest) -> bool:
    """An area is for all who see pages."""
    return True


class Area(NamedTuple):
    """An entry of the menu.

    Attributes:
        path: Where it leads.
        title: What it is called.
        names: The first segments of all its pages.
        group: The heading that it stands below.
        is_for: Whether a user may see it.
    """

    path: str
    title: str
    names: tuple[str, ...]
    group: str = ""
    is_for: Callable[[PageRequest], bool] = everybody


def administers(asked: PageRequest) -> bool:
    """An area is for administrators."""
    return asked.administers


def monitors(asked: PageRequest) -> bool:
    """An area is for those who see nodes."""
    return asked.monitors


AREAS = (
    Area("/", "Overview", ("",)),
    Area("/slow", "Who is slow", ("slow",)),
    Area("/connections", "Connections", ("connections",), "Clients"),
    Area("/channels", "Channels", ("channels",), "Clients"),
    Area("/queues", "Queues", ("queues",), "Messages"),
    Area("/exchanges", "Exchanges", ("exchanges",), "Messages"),
    Area("/bindings", "Bindings", ("bindings",), "Messages"),
    Area("/map", "Map", ("map",), "Messages"),
    Area("/moves", "Moves", ("moves",), "Messages"),
    Area("/policies", "Policies", ("policies", "operator-policies"), "Rules"),
    Area("/limits", "Limits", ("limits",), "Rules", administers),
    Area("/vhosts", "Virtual hosts", ("vhosts",), "Access"),
    Area("/users", "Users", ("users",), "Access", administers),
    Area("/nodes", "Nodes", ("nodes",), "Cluster", monitors),
    Area("/feature-flags", "Feature flags", ("feature-flags",), "Cluster"),
    Area("/definitions", "Definitions", ("definitions",), "Cluster"),
)
