"""Columns of lists: which there are, which are shown at first, and which a browser has chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from warren.admin.ui.asking import Act, PageRequest, WentOn
from warren.admin.ui.lists import link_of

COOKIE: Final = "warren-columns"
COOKIE_SECONDS: Final = 365 * 86_400
LISTS_END, NAME_END, BETWEEN = "|", ":", "."
"""What stands between lists, behind a list's name, and between its columns."""
NUMBER_ORDERS: Final = ("lowest first", "highest first")
TEXT_ORDERS: Final = ("a to z", "z to a")
"""Words for the order of a column, and for its reverse."""


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
HEADS: Final[Mapping[str, ListColumn]] = {
    "queues": ListColumn("name", "Name", "name", "name"),
    "connections": ListColumn(
        "name", "Name", "user_provided_name", "the name that the client gives"
    ),
    "channels": ListColumn("name", "Channel", "name", "the client's address"),
}
"""The column that stands before all of each list."""
LISTS: Final[Mapping[str, tuple[ListColumn, ...]]] = {
    "queues": QUEUES,
    "connections": CONNECTIONS,
    "channels": CHANNELS,
}


class ShownColumns:
    """The columns of one list as a browser is shown them.

    Attributes:
        head: The one that is always there.
        all: Those that can be chosen.
        shown: Those that are, in order.
    """

    def __init__(self, name: str, chosen: str, several_vhosts: bool) -> None:
        """Decide what is shown.

        Args:
            chosen: The browser's cookie.
            several_vhosts: Whether there is more than one vhost to be told apart.
        """
        self.head = HEADS[name]
        self.all = [each for each in LISTS[name] if each.name != "vhost" or several_vhosts]
        names = parsed(chosen).get(name)
        self.shown = [
            each for each in self.all if (each.usual if names is None else each.name in names)
        ]

    def has(self, name: str) -> bool:
        """Whether a column is shown."""
        return any(each.name == name for each in self.shown)

    def sorted_words(self, sort: str, reverse: bool) -> str:
        """By what rows are sorted, in words; empty if by nothing that has any."""
        if not sort:
            several = any(each.name == "vhost" for each in self.all)
            return f"Sorted by {'virtual host and ' if several else ''}name, a to z."
        for each in (self.head, *self.all):
            if each.sort == sort:
                order = NUMBER_ORDERS if each.number else TEXT_ORDERS
                return f"Sorted by {each.words}, {order[reverse]}."
        return ""


def parsed(cookie: str) -> dict[str, frozenset[str]]:
    """The columns that a cookie chooses, by list; what it says of other lists says nothing."""
    chosen: dict[str, frozenset[str]] = {}
    for part in cookie.split(LISTS_END):
        name, _, columns = part.partition(NAME_END)
        if name in LISTS:
            known = {each.name for each in LISTS[name]}
            chosen[name] = frozenset(columns.split(BETWEEN)) & known
    return chosen


def cookie_of(before: str, name: str, columns: list[str]) -> str:
    """The cookie that chooses columns of a list, and of other lists what was chosen before."""
    chosen = {**parsed(before), name: frozenset(columns)}
    text = LISTS_END.join(
        name + NAME_END + BETWEEN.join(each.name for each in LISTS[name] if each.name in kept)
        for name, kept in chosen.items()
    )
    return f"{COOKIE}={text}; Path=/; HttpOnly; SameSite=Strict; Max-Age={COOKIE_SECONDS}"


def chooser(name: str) -> Act:
    """What the form does that chooses the columns of a list."""

    async def choose(asked: PageRequest) -> WentOn:
        columns = [] if asked.form.truth("usual") else asked.form.all("column")
        if asked.form.truth("usual"):
            columns = [each.name for each in LISTS[name] if each.usual]
        return WentOn(link_of(asked), cookie=cookie_of(asked.columns, name, columns))

    return choose
