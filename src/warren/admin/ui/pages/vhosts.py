"""Vhosts: their list, and the page of each."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources import access, vhosts
from warren.admin.ui import known
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.charts import RANGES, asking, lengths_chart, rates_chart
from warren.admin.ui.collected import with_samples
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listing
from warren.admin.ui.names import path
from warren.admin.ui.wrong import Wrong


async def index(asked: PageRequest) -> Shown:
    """All vhosts that the user sees."""
    rows = await listing(asked, vhosts.all_vhosts, sort="name")
    columns = ShownColumns("vhosts", asked.columns, True)
    return Shown("vhosts.html", list=rows, columns=columns, types=known.QUEUE_TYPES)


def document(asked: PageRequest) -> dict[str, Any]:
    """What a form says of a vhost."""
    form = asked.form
    said: dict[str, Any] = {
        "description": form.text("description"),
        "tags": [tag.strip() for tag in form.text("tags").split(",") if tag.strip()],
    }
    if form.text("default_queue_type"):
        said["default_queue_type"] = form.text("default_queue_type")
    return said


async def create(asked: PageRequest) -> WentOn:
    """Create a vhost."""
    name = asked.form.text("name")
    if not name:
        raise Wrong(400, "A virtual host needs a name.")
    await asked.api(vhosts.put_vhost, {"vhost": name}, document=document(asked))
    return WentOn(
        path("vhosts", name), f"There is the virtual host “{name}” now; you may enter it."
    )


async def show(asked: PageRequest) -> Shown:
    """One vhost."""
    wanted = asking(asked.query, asked.since)
    vhost = {"vhost": asked["name"]}
    found = await asked.api(vhosts.one_vhost, vhost, wanted.query)
    collected = asked.session.collected
    lengths = {name: found[name] for name in found if name.startswith("messages")}
    lengths = with_samples(collected, f"vhost lengths\0{asked['name']}", lengths, wanted)
    stats = found.get("message_stats") or {"publish": 0}
    rates = with_samples(collected, f"vhost rates\0{asked['name']}", stats, wanted)
    permissions: list[dict[str, Any]] = []
    if asked.administers:
        permissions = await asked.api(access.permissions_of_vhost, vhost)
    return Shown(
        "vhost.html",
        found=found,
        permissions=permissions,
        types=known.QUEUE_TYPES,
        charts=[lengths_chart(lengths, wanted), rates_chart(rates, wanted)],
        ranges=RANGES,
        wanted=wanted,
    )


async def change(asked: PageRequest) -> WentOn:
    """Describe a vhost anew."""
    await asked.api(vhosts.put_vhost, {"vhost": asked["name"]}, document=document(asked))
    return WentOn(asked.path, "The virtual host is changed.")


async def delete(asked: PageRequest) -> WentOn:
    """Delete a vhost with all that is in it; its name has to be typed."""
    asked.make_sure(
        f"The virtual host “{asked['name']}” would go for good, with all its queues, exchanges, "
        "messages, policies and permissions.",
        "Delete virtual host",
        asked["name"],
    )
    await asked.api(vhosts.delete_vhost, {"vhost": asked["name"]})
    return WentOn(
        "/vhosts", f"The virtual host “{asked['name']}” is gone, with all that was in it."
    )


async def protect(asked: PageRequest) -> WentOn:
    """Have it not be deleted."""
    await asked.api(vhosts.protect, {"vhost": asked["name"]})
    return WentOn(asked.path, "The virtual host cannot be deleted now.")


async def unprotect(asked: PageRequest) -> WentOn:
    """Have it that it can be deleted."""
    await asked.api(vhosts.unprotect, {"vhost": asked["name"]})
    return WentOn(asked.path, "The virtual host can be deleted now.")


PAGES = [
    WebPage("/vhosts", index, {"create": create, "columns": chooser("vhosts")}),
    WebPage(
        "/vhosts/{name}",
        show,
        {"change": change, "delete": delete, "protect": protect, "unprotect": unprotect},
    ),
]
