"""Connections and channels of clients."""

from __future__ import annotations

from warren.admin.http.resources import clients
from warren.admin.ui import figures
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn, told
from warren.admin.ui.lists import listing, vhost_names


async def connections(asked: PageRequest) -> Shown:
    """All connections that the user sees."""
    rows = await listing(asked, clients.all_connections, clients.connections_of_vhost, sort="name")
    return Shown("connections.html", list=rows, vhosts=await vhost_names(asked))


async def connection(asked: PageRequest) -> Shown:
    """One connection, with its channels."""
    name = {"connection": asked["name"]}
    found = await asked.api(clients.one_connection, name)
    channels = await asked.api(clients.channels_of_connection, name)
    return Shown("connection.html", found=found, channels=channels)


async def close(asked: PageRequest) -> WentOn:
    """Close a connection; its name has to be typed where it consumes or holds messages."""
    name = {"connection": asked["name"]}
    found = await asked.api(clients.one_connection, name)
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
    rows = await listing(asked, clients.all_channels, clients.channels_of_vhost, sort="name")
    return Shown("channels.html", list=rows, vhosts=await vhost_names(asked))


async def channel(asked: PageRequest) -> Shown:
    """One channel, with its consumers."""
    found = await asked.api(clients.one_channel, {"channel": asked["name"]})
    return Shown("channel.html", found=found, consumers=found["consumer_details"])


PAGES = [
    WebPage("/connections", connections),
    WebPage("/connections/{name}", connection, {"close": close}),
    WebPage("/channels", channels),
    WebPage("/channels/{name}", channel),
]
