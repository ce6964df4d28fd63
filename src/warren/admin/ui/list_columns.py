"""Columns of lists: which each list has, by what it sorts them, and which are shown at first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class ListColumn(NamedTuple):
    """A column of a list, beside that of its names.

    Attributes:
        name: As forms and templates have it.
        title: Its heading.
        sort: By what the API sorts it; empty where it does not.
        words: What that is, for "sorted by ...".
        number: Whether it has numbers: they stand at the right, and the highest come first.
        usual: Whether it is shown until a user chooses.
    """

    name: str
    title: str
    sort: str = ""
    words: str = ""
    number: bool = False
    usual: bool = True


def number(name: str, title: str, sort: str, words: str, usual: bool = True) -> ListColumn:
    """A column of numbers."""
    return ListColumn(name, title, sort, words, True, usual)


def rate(name: str, title: str, words: str, usual: bool = True) -> ListColumn:
    """A column of how fast a counter of messages grows."""
    return number(name, title, f"message_stats.{name}_details.rate", words, usual)


QUEUES: Final = (
    ListColumn("vhost", "Virtual host", "vhost", "virtual host"),
    ListColumn("type", "Type", "type", "type"),
    ListColumn("features", "Features"),
    ListColumn("state", "State", "state", "state"),
    ListColumn("spark", "10 minutes"),
    number("ready", "Ready", "messages_ready", "messages that are ready"),
    number("unacked", "Unacked", "messages_unacknowledged", "messages with consumers"),
    number("total", "Total", "messages", "messages"),
    number("bytes", "Bytes", "message_bytes", "bytes of bodies", False),
    rate("publish", "In", "messages in a second"),
    rate("deliver_get", "Out", "messages delivered or got a second"),
    rate("ack", "Acked", "messages acknowledged a second"),
    rate("redeliver", "Redelivered", "messages redelivered a second", False),
    number("consumers", "Consumers", "consumers", "number of consumers"),
    number("capacity", "Capacity", "consumer_capacity", "consumer capacity", False),
    ListColumn("node", "Node", "node", "node", usual=False),
)
CONNECTIONS: Final = (
    ListColumn("address", "Client", "name", "the client's address"),
    ListColumn("vhost", "Virtual host", "vhost", "virtual host"),
    ListColumn("user", "User", "user", "user"),
    ListColumn("state", "State", "state", "state"),
    ListColumn("tls", "TLS", "ssl", "whether it is encrypted", usual=False),
    ListColumn("protocol", "Protocol", "protocol", "protocol", usual=False),
    number("channels", "Channels", "channels", "number of channels"),
    ListColumn("spark", "10 minutes"),
    number("received_rate", "From client", "recv_oct_details.rate", "bytes received a second"),
    number("sent_rate", "To client", "send_oct_details.rate", "bytes sent a second"),
    number("received", "Received", "recv_oct", "bytes received", False),
    number("sent", "Sent", "send_oct", "bytes sent", False),
    ListColumn("node", "Node", "node", "node"),
    number("since", "Open for", "connected_at", "when it was opened"),
)
CHANNELS: Final = (
    ListColumn("client", "Client", "client", "name of the client"),
    ListColumn("vhost", "Virtual host", "vhost", "virtual host"),
    ListColumn("user", "User", "user", "user"),
    ListColumn("uses", "Queues, exchanges"),
    ListColumn("mode", "Mode", "confirm", "whether publishes are confirmed", usual=False),
    number("prefetch", "Prefetch", "prefetch_count", "prefetch"),
    number("unacked", "Unacked", "messages_unacknowledged", "messages that it holds"),
    number("unconfirmed", "Unconfirmed", "messages_unconfirmed", "messages to confirm", False),
    number("uncommitted", "Uncommitted", "messages_uncommitted", "messages to commit", False),
    ListColumn("spark", "10 minutes"),
    rate("publish", "In", "messages published a second"),
    rate("deliver_get", "Out", "messages delivered or got a second"),
    rate("ack", "Acked", "messages acknowledged a second"),
    number("consumers", "Consumers", "consumer_count", "number of consumers", False),
    ListColumn("node", "Node", "node", "node", usual=False),
)
EXCHANGES: Final = (
    ListColumn("vhost", "Virtual host", "vhost", "virtual host"),
    ListColumn("type", "Type", "type", "type"),
    ListColumn("features", "Features"),
    rate("publish_in", "In", "messages in a second"),
    rate("publish_out", "Out", "messages passed on a second"),
    number("published", "Messages in", "message_stats.publish_in", "messages that came in", False),
    number("passed", "Messages out", "message_stats.publish_out", "messages passed on", False),
)
BINDINGS: Final = (
    ListColumn("key", "Routing key", "routing_key", "routing key"),
    ListColumn("destination", "To", "destination", "what it leads to"),
    ListColumn("kind", "Kind", "destination_type", "whether it leads to a queue"),
    ListColumn("arguments", "Arguments"),
    ListColumn("vhost", "Virtual host", "vhost", "virtual host"),
)
POLICIES: Final = (
    ListColumn("vhost", "Virtual host", "vhost", "virtual host"),
    ListColumn("pattern", "Pattern", "pattern", "pattern"),
    ListColumn("apply_to", "Applies to", "apply-to", "what it applies to"),
    ListColumn("definition", "Definition"),
    number("priority", "Priority", "priority", "priority"),
)
USERS: Final = (
    ListColumn("tags", "Tags"),
    ListColumn("vhosts", "May enter"),
    ListColumn("password", "Password"),
    ListColumn("limits", "Limits", usual=False),
)
VHOSTS: Final = (
    ListColumn("description", "Description", "description", "description"),
    ListColumn("tags", "Tags"),
    ListColumn("type", "Default queue type", "default_queue_type", "default queue type"),
    ListColumn("state", "State"),
    number("ready", "Ready", "messages_ready", "messages that are ready"),
    number("unacked", "Unacked", "messages_unacknowledged", "messages with consumers"),
    number("total", "Total", "messages", "messages"),
    rate("publish", "In", "messages in a second"),
    rate("deliver_get", "Out", "messages delivered or got a second"),
    number("received", "From clients", "recv_oct_details.rate", "bytes received a second", False),
    number("sent", "To clients", "send_oct_details.rate", "bytes sent a second", False),
)
NODES: Final = (
    ListColumn("state", "State"),
    number("memory", "Memory", "mem_used", "memory that it uses"),
    number("disk", "Disk free", "disk_free", "disk that is free"),
    number("descriptors", "File descriptors", "fd_used", "open file descriptors"),
    number("sockets", "Sockets", "sockets_used", "open sockets"),
    number("process", "Process", "os_pid", "process"),
    number("uptime", "Uptime", "uptime", "uptime"),
    number("processors", "Processors", "processors", "number of processors", False),
)
FLAGS: Final = (
    ListColumn("state", "State", "state", "state"),
    ListColumn("since", "Since", "desc", "the release that it is of"),
)
MOVES: Final = (
    ListColumn("vhost", "Virtual host", "vhost", "virtual host"),
    ListColumn("queue", "From queue", "queue", "the queue that messages left"),
    ListColumn("to", "To", "to", "where messages went"),
    ListColumn("state", "State", "state", "state"),
    number("moved", "Messages", "moved", "messages moved"),
    ListColumn("user", "User", "user", "user"),
    number("begun", "Begun", "begun", "when it was begun"),
)
NAMED: Final = ListColumn("name", "Name", "name", "name")
HEADS: Final[Mapping[str, ListColumn]] = {
    "queues": NAMED,
    "connections": ListColumn(
        "name", "Name", "user_provided_name", "the name that the client gives"
    ),
    "channels": ListColumn("name", "Channel", "name", "the client's address"),
    "exchanges": NAMED,
    "bindings": ListColumn("source", "From", "source", "the source exchange"),
    "policies": NAMED,
    "users": NAMED,
    "vhosts": NAMED,
    "nodes": NAMED,
    "flags": NAMED,
    "moves": number("number", "Number", "number", "number"),
}
"""The column that stands before all of each list."""
LISTS: Final[Mapping[str, tuple[ListColumn, ...]]] = {
    "queues": QUEUES,
    "connections": CONNECTIONS,
    "channels": CHANNELS,
    "exchanges": EXCHANGES,
    "bindings": BINDINGS,
    "policies": POLICIES,
    "users": USERS,
    "vhosts": VHOSTS,
    "nodes": NODES,
    "flags": FLAGS,
    "moves": MOVES,
}
