"""Connections and channels of clients."""

from __future__ import annotations

import time

from warren.admin.http.resources import clients
from warren.admin.ui import figures
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn, told
from warren.admin.ui.charts import (
    RANGES,
    asking,
    octets_chart,
    rate_spark,
    rates_chart,
    spark_query,
)
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listing, vhost_names
from warren.admin.ui.wrong import Wrong

OCTETS = ("recv_oct", "send_oct")
MESSAGES = ("publish", "deliver_get")
"""What the small lines of connections and channels show together."""


async def connections(asked: PageRequest) -> Shown:
    """All connections that the user sees."""
    vhosts = await vhost_names(asked)
    columns = ShownColumns("connections", asked.columns, len(vhosts) > 1)
    samples = spark_query("data_rates") if columns.has("spark") else {}
    rows = await listing(
        asked, clients.all_connections, clients.connections_of_vhost, "name", samples
    )
    for row in rows.rows:
        row["spark"] = rate_spark(row, OCTETS, "byte rate", asked.since)
        row["open_seconds"] = time.time() - row["connected_at"] / 1_000
    return Shown("connections.html", list=rows, columns=columns, vhosts=vhosts)


async def connection(asked: PageRequest) -> Shown:
    """One connection, with its channels."""
    name = {"connection": asked["name"]}
    wanted = asking(asked.query, asked.since)
    found = await asked.api(clients.one_connection, name, wanted.query)
    return Shown(
        "connection.html",
        found=found,
        channels=await asked.api(clients.channels_of_connection, name),
        charts=[octets_chart(found, wanted)],
        ranges=RANGES,
        wanted=wanted,
    )


async def close(asked: PageRequest) -> WentOn:
    """Close a connection; its name has to be typed where it consumes or holds messages."""
    name = {"connection": asked["name"]}
    found = await asked.api(clients.one_connection, name)
    since = asked.form.text("since", str(found["connected_at"]))
    if since != str(found["connected_at"]):
        raise Wrong(404, "The connection is gone. Another one has come from its address since.")
    opened = await asked.api(clients.channels_of_connection, name)
    consumers = sum(row.get("consumer_count") or 0 for row in opened)
    held = sum(row.get("messages_unacknowledged") or 0 for row in opened)
    shown = found.get("user_provided_name") or asked["name"]
    asked.make_sure(
        f"The connection “{shown}” would be closed, with {figures.count(consumers)} "
        f"consumer{'' if consumers == 1 else 's'}; {figures.count(held)} "
        f"message{'' if held == 1 else 's'} would go back to the queues.",
        "Close connection",
        shown if consumers or held else "",
    )
    request = asked.request({"connection": asked["name"]})
    request.headers["x-reason"] = asked.form.text("reason") or "Closed via the web UI"
    await told(clients.close_connection(request))
    return WentOn("/connections", f"The connection {asked['name']} is closed.")


async def channels(asked: PageRequest) -> Shown:
    """All channels that the user sees."""
    vhosts = await vhost_names(asked)
    columns = ShownColumns("channels", asked.columns, len(vhosts) > 1)
    samples = spark_query("msg_rates") if columns.has("spark") else {}
    rows = await listing(
        asked, clients.all_named_channels, clients.named_channels_of_vhost, "name", samples
    )
    for row in rows.rows:
        stats = row.get("message_stats") or {}
        row["spark"] = rate_spark(stats, MESSAGES, "rate", asked.since)
    return Shown("channels.html", list=rows, columns=columns, vhosts=vhosts)


async def channel(asked: PageRequest) -> Shown:
    """One channel, with its consumers."""
    wanted = asking(asked.query, asked.since)
    found = await asked.api(clients.one_channel, {"channel": asked["name"]}, wanted.query)
    connection = {"connection": found["connection_details"]["name"]}
    opened = await asked.api(clients.one_connection, connection)
    return Shown(
        "channel.html",
        found=found,
        client=opened.get("user_provided_name", ""),
        consumers=found["consumer_details"],
        charts=[rates_chart(found.get("message_stats") or {}, wanted)],
        ranges=RANGES,
        wanted=wanted,
    )


PAGES = [
    WebPage("/connections", connections, {"columns": chooser("connections")}),
    WebPage("/connections/{name}", connection, {"close": close}),
    WebPage("/channels", channels, {"columns": chooser("channels")}),
    WebPage("/channels/{name}", channel),
]
