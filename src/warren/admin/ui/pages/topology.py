"""The map: exchanges, bindings and queues of one vhost as a drawing."""

from __future__ import annotations

from warren.admin.http.resources import exchanges, queues
from warren.admin.ui.asking import PageRequest, Shown, WebPage
from warren.admin.ui.lists import vhost_names
from warren.admin.ui.topology_map import draw

QUEUES_MAX = 500


async def show(asked: PageRequest) -> Shown:
    """The map of the vhost that is chosen, the first one else."""
    names = await vhost_names(asked)
    vhost = asked.query.get("vhost") or (names[0] if names else "")
    if not vhost:
        return Shown("map.html", drawn=None, vhosts=names, vhost="", defaults=False)
    wanted = {"vhost": vhost}
    page = {"page": "1", "page_size": str(QUEUES_MAX)}
    defaults = asked.query.get("defaults") == "true"
    rows = await asked.api(queues.queues_of_vhost, wanted, page)
    drawn = draw(
        vhost,
        await asked.api(exchanges.exchanges_of_vhost, wanted),
        await asked.api(exchanges.bindings_of_vhost, wanted),
        rows["items"],
        rows["total_count"],
        defaults,
        asked.query.get("name", ""),
    )
    return Shown("map.html", drawn=drawn, vhosts=names, vhost=vhost, defaults=defaults)


PAGES = [WebPage("/map", show)]
