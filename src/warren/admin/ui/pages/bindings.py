"""Bindings: all of them, and the forms by which exchanges and queues have some more or less."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources import exchanges, queues
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listed_rows, vhost_names
from warren.admin.ui.names import path
from warren.admin.ui.wrong import Wrong

TO_QUEUE, TO_EXCHANGE = "queue", "exchange"
KINDS = {TO_QUEUE: "q", TO_EXCHANGE: "e"}


async def show(asked: PageRequest) -> Shown:
    """All bindings that the user sees, but for those of the default exchange."""
    vhost = asked.query.get("vhost", "")
    handler = exchanges.bindings_of_vhost if vhost else exchanges.all_bindings
    rows = await asked.api(handler, {"vhost": vhost})
    found = [{**row, "name": _words(row)} for row in rows if row["source"]]
    shown = await listed_rows(asked, found, sort="source")
    vhosts = await vhost_names(asked)
    columns = ShownColumns("bindings", asked.columns, len(vhosts) > 1)
    return Shown("bindings.html", list=shown, columns=columns, vhosts=vhosts)


def _words(row: dict[str, Any]) -> str:
    """What a filter finds a binding by."""
    return f"{row['source']} {row['routing_key']} {row['destination']}"


async def bind(asked: PageRequest) -> WentOn:
    """Have a binding that the form of the list of all describes."""
    form = asked.form
    source, destination = form.text("source"), form.text("destination")
    vhost = form.name("vhost")
    await add(asked, vhost, source, destination, form.text("kind", TO_QUEUE))
    return WentOn(asked.path, f"“{destination}” is bound to “{source}” now.")


async def unbind(asked: PageRequest) -> WentOn:
    """Have one of the list of all no more."""
    await remove(asked)
    return WentOn(asked.path, "The binding is gone.")


async def add(asked: PageRequest, vhost: str, source: str, destination: str, kind: str) -> None:
    """Have a binding, with the routing key and the arguments of the form.

    Raises:
        Wrong: It cannot be.
    """
    if kind not in KINDS:
        raise Wrong(400, "A binding leads to a queue or to an exchange.")
    for name, what in ((source, "source exchange"), (destination, f"destination {kind}")):
        if not name:
            raise Wrong(400, f"The {what} needs a name.")
    await asked.api(
        exchanges.bind,
        {"vhost": vhost, "exchange": source, "kind": KINDS[kind], "destination": destination},
        document={
            "routing_key": asked.form.text("routing_key"),
            "arguments": asked.form.table(),
        },
    )


async def remove(asked: PageRequest) -> None:
    """Have the binding no more that a form names, once the user has said that it is meant.

    Where it leads to a queue that holds messages or has consumers, its name has to be typed.

    Raises:
        Question: They have not said so yet.
        Wrong: It cannot be, or there is none.
    """
    form = asked.form
    vhost, destination = form.name("vhost"), form.name("destination")
    used = ""
    if KINDS.get(form.text("kind"), "q") == "q":
        queue = await asked.api(queues.one_queue, {"vhost": vhost, "queue": destination})
        if queue.get("messages") != 0 or queue.get("consumers") != 0:
            used = destination
    asked.make_sure(
        f"“{destination}” would get nothing from “{form.name('source')}” by this binding any more.",
        "Unbind",
        used,
    )
    await asked.api(
        exchanges.unbind,
        {
            "vhost": vhost,
            "exchange": form.name("source"),
            "kind": KINDS.get(form.text("kind"), "q"),
            "destination": destination,
            "key": form.name("key"),
        },
    )


def path_of(row: dict[str, Any]) -> str:
    """The page of what a binding leads to."""
    first = "queues" if row["destination_type"] == TO_QUEUE else "exchanges"
    return path(first, row["vhost"], row["destination"])


ACTS = {"bind": bind, "unbind": unbind, "columns": chooser("bindings")}

PAGES = [WebPage("/bindings", show, ACTS)]
