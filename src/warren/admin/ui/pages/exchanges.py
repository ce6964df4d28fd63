"""Exchanges: their list, and the page of each, with its bindings."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources import exchanges, overview
from warren.admin.ui import known
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.charts import RANGES, asking, exchange_chart
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listing, vhost_names
from warren.admin.ui.names import path
from warren.admin.ui.pages import bindings, publishing
from warren.admin.ui.wrong import Wrong

DELAYED = "x-delayed-message"


async def index(asked: PageRequest) -> Shown:
    """All exchanges that the user sees."""
    rows = await listing(asked, exchanges.all_exchanges, exchanges.exchanges_of_vhost, sort="name")
    found = await asked.api(overview.show)
    vhosts = await vhost_names(asked)
    return Shown(
        "exchanges.html",
        list=rows,
        columns=ShownColumns("exchanges", asked.columns, len(vhosts) > 1),
        vhosts=vhosts,
        types=found["exchange_types"],
        groups=(*known.EXCHANGE_GROUPS, *known.DELAYED_GROUPS),
    )


async def declare(asked: PageRequest) -> WentOn:
    """Have an exchange."""
    form = asked.form
    vhost, name = form.name("vhost"), form.text("name")
    if not name:
        raise Wrong(400, "An exchange needs a name.")
    await asked.api(
        exchanges.put_exchange,
        {"vhost": vhost, "exchange": name},
        document={
            "type": form.text("type", "direct"),
            "durable": form.text("durable", "true") == "true",
            "auto_delete": form.truth("auto_delete"),
            "internal": form.truth("internal"),
            "arguments": form.table(),
        },
    )
    return WentOn(path("exchanges", vhost, name), f"There is the exchange “{name}” now.")


def variables(asked: PageRequest) -> dict[str, str]:
    """What names the exchange of a page to the API."""
    return {"vhost": asked["vhost"], "exchange": asked["name"]}


async def show(asked: PageRequest) -> Shown:
    """One exchange."""
    wanted = asking(asked.query, asked.since)
    found: dict[str, Any] = await asked.api(exchanges.one_exchange, variables(asked), wanted.query)
    stats = found.get("message_stats")
    return Shown(
        "exchange.html",
        found=found,
        sources=await asked.api(exchanges.bindings_to, variables(asked)),
        bound=await asked.api(exchanges.bindings_from, variables(asked)),
        charts=[exchange_chart(stats, wanted)] if stats else [],
        ranges=RANGES,
        wanted=wanted,
        path_of=bindings.path_of,
    )


async def delete(asked: PageRequest) -> WentOn:
    """Delete the exchange; its name has to be typed where something is bound to it."""
    leading = len(await asked.api(exchanges.bindings_from, variables(asked)))
    coming = len(await asked.api(exchanges.bindings_to, variables(asked)))
    unused_only = asked.form.truth("if_unused")
    asked.make_sure(
        f"The exchange “{asked['name']}” would go, with {leading} binding"
        f"{'' if leading == 1 else 's'} from it and {coming} to it.",
        "Delete exchange",
        asked["name"] if coming or (leading and not unused_only) else "",
    )
    query = {"if-unused": "true"} if asked.form.truth("if_unused") else {}
    await asked.api(exchanges.delete_exchange, variables(asked), query)
    return WentOn("/exchanges", f"The exchange “{asked['name']}” is gone.")


async def bind(asked: PageRequest) -> WentOn:
    """Bind something to the exchange, or the exchange to another one."""
    form = asked.form
    other = form.text("other")
    if form.text("direction") == "to":
        await bindings.add(asked, asked["vhost"], other, asked["name"], bindings.TO_EXCHANGE)
    else:
        await bindings.add(asked, asked["vhost"], asked["name"], other, form.text("kind", "queue"))
    return WentOn(asked.path, "The binding is there.")


async def unbind(asked: PageRequest) -> WentOn:
    """Have a binding no more."""
    await bindings.remove(asked)
    return WentOn(asked.path, "The binding is gone.")


async def publish(asked: PageRequest) -> WentOn:
    """Publish a message."""
    text = await publishing.publish(asked, asked["name"], asked.form.text("routing_key"))
    return WentOn(asked.path, text)


PAGES = [
    WebPage("/exchanges", index, {"declare": declare, "columns": chooser("exchanges")}),
    WebPage(
        "/exchanges/{vhost}/{name}",
        show,
        {"delete": delete, "bind": bind, "unbind": unbind, "publish": publish},
        body_bytes_max=exchanges.PUBLISH_BYTES_MAX,
    ),
]
