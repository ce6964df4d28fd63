"""Queues: their list, and the page of each, with its figures, members, consumers and bindings."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources import exchanges, nodes, queues, quorum
from warren.admin.ui import figures, known
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.charts import (
    RANGES,
    asking,
    lengths_chart,
    rates_chart,
    spark_of,
    spark_query,
)
from warren.admin.ui.collected import with_samples
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listing, vhost_names
from warren.admin.ui.names import path
from warren.admin.ui.pages import bindings, publishing
from warren.admin.ui.wrong import Wrong

LENGTHS = ("messages", "messages_ready", "messages_unacknowledged")


async def index(asked: PageRequest) -> Shown:
    """All queues that the user sees."""
    vhosts = await vhost_names(asked)
    columns = ShownColumns("queues", asked.columns, len(vhosts) > 1)
    samples = spark_query("lengths") if columns.has("spark") else {}
    rows = await listing(asked, queues.all_queues, queues.queues_of_vhost, samples=samples)
    for row in rows.rows:
        row["spark"] = spark_of(row, "messages", asked.since)
    return Shown(
        "queues.html",
        list=rows,
        columns=columns,
        vhosts=vhosts,
        types=known.QUEUE_TYPES,
        groups=known.QUEUE_GROUPS,
    )


async def declare(asked: PageRequest) -> WentOn:
    """Have a queue."""
    form = asked.form
    vhost, name = form.name("vhost"), form.text("name")
    if not name:
        raise Wrong(400, "A queue needs a name.")
    arguments = form.table()
    if form.text("type"):
        arguments["x-queue-type"] = form.text("type")
    await asked.api(
        queues.put_queue,
        {"vhost": vhost, "queue": name},
        document={
            "durable": form.text("durable", "true") == "true",
            "auto_delete": form.truth("auto_delete"),
            "arguments": arguments,
        },
    )
    return WentOn(path("queues", vhost, name), f"There is the queue “{name}” now.")


def variables(asked: PageRequest) -> dict[str, str]:
    """What names the queue of a page to the API."""
    return {"vhost": asked["vhost"], "queue": asked["name"]}


async def show(asked: PageRequest) -> Shown:
    """One queue."""
    wanted = asking(asked.query, asked.since)
    found: dict[str, Any] = await asked.api(queues.one_queue, variables(asked), wanted.query)
    place = f"{asked['vhost']}\0{asked['name']}"
    collected = asked.session.collected
    lengths = {name: value for name, value in found.items() if name.startswith(LENGTHS)}
    lengths = with_samples(collected, f"lengths\0{place}", lengths, wanted)
    stats = with_samples(
        collected, f"rates\0{place}", found.get("message_stats") or {"publish": 0}, wanted
    )
    members = await asked.api(quorum.status, variables(asked)) if "members" in found else []
    others: list[str] = []
    if asked.administers and "members" in found:
        rows = await asked.api(nodes.all_nodes)
        others = [row["name"] for row in rows if row["name"] not in found["members"]]
    return Shown(
        "queue.html",
        found=found,
        bound=await asked.api(queues.bindings, variables(asked)),
        members=members,
        others=others,
        charts=[lengths_chart(lengths, wanted), rates_chart(stats, wanted)],
        ranges=RANGES,
        wanted=wanted,
    )


def in_use(found: dict[str, Any], messages: bool = True, consumers: bool = True) -> bool:
    """Whether a queue has messages or consumers, or a node that could tell is away.

    Args:
        messages, consumers: Which of both count.
    """
    looked = [key for key, counts in (("messages", messages), ("consumers", consumers)) if counts]
    return any(found.get(key) != 0 for key in looked)


def held_words(found: dict[str, Any]) -> str:
    """How many messages and consumers a queue has, in words."""
    messages, consumers = found.get("messages"), found.get("consumers")
    return (
        f"{figures.count(messages)} message{'' if messages == 1 else 's'}, "
        f"{figures.count(consumers)} consumer{'' if consumers == 1 else 's'}"
    )


async def delete(asked: PageRequest) -> WentOn:
    """Delete the queue; its name has to be typed where it holds messages or has consumers."""
    form, name = asked.form, asked["name"]
    found = await asked.api(queues.one_queue, variables(asked))
    lost = in_use(found, messages=not form.truth("if-empty"), consumers=not form.truth("if-unused"))
    asked.make_sure(
        f"The queue “{name}” would go for good, with {held_words(found)} and its bindings.",
        "Delete queue",
        name if lost else "",
    )
    query = {name: "true" for name in ("if-unused", "if-empty") if asked.form.truth(name)}
    await asked.api(queues.delete_queue, variables(asked), query)
    return WentOn("/queues", f"The queue “{asked['name']}” is gone, with its messages.")


async def purge(asked: PageRequest) -> WentOn:
    """Drop what is ready in the queue; its name has to be typed where that is anything."""
    found = await asked.api(queues.one_queue, variables(asked))
    ready = found.get("messages_ready")
    asked.make_sure(
        f"{figures.count(ready)} messages that are ready in “{asked['name']}” would go for good.",
        "Purge messages",
        "" if ready == 0 else asked["name"],
    )
    await asked.api(queues.purge, variables(asked))
    return WentOn(asked.path, "The messages that were ready are gone.")


async def bind(asked: PageRequest) -> WentOn:
    """Bind the queue to an exchange."""
    source = asked.form.text("other")
    await bindings.add(asked, asked["vhost"], source, asked["name"], bindings.TO_QUEUE)
    return WentOn(asked.path, f"The queue is bound to “{source}” now.")


async def unbind(asked: PageRequest) -> WentOn:
    """Have a binding no more."""
    await bindings.remove(asked)
    return WentOn(asked.path, "The binding is gone.")


async def publish(asked: PageRequest) -> WentOn:
    """Publish a message to the queue, through the default exchange."""
    text = await publishing.publish(asked, exchanges.DEFAULT_ALIAS, asked["name"])
    return WentOn(asked.path, text)


async def add_member(asked: PageRequest) -> WentOn:
    """Have a node hold a copy of the queue."""
    node = asked.form.name("node")
    await asked.api(quorum.add, variables(asked), document={"node": node})
    return WentOn(asked.path, f"The node {node} has a member of the queue now.")


async def delete_member(asked: PageRequest) -> WentOn:
    """Have a node hold no copy of the queue any more."""
    node = asked.form.name("node")
    asked.make_sure(f"The copy of the queue on {node} would go.", "Remove member")
    await asked.api(quorum.delete, variables(asked), document={"node": node})
    return WentOn(asked.path, f"The node {node} has no member of the queue any more.")


ACTS = {
    "delete": delete,
    "purge": purge,
    "bind": bind,
    "unbind": unbind,
    "publish": publish,
    "add-member": add_member,
    "delete-member": delete_member,
}

PAGES = [
    WebPage("/queues", index, {"declare": declare, "columns": chooser("queues")}),
    WebPage("/queues/{vhost}/{name}", show, ACTS, body_bytes_max=exchanges.PUBLISH_BYTES_MAX),
]
