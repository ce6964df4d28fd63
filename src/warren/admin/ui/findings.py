"""Who is slow and why: what rows of the API say of consumers, connections, queues and nodes.

Each finding is a sentence with the figures that it rests on, and one on what helps. Nothing is
asked for here: the rows are those of lists, in the names that the API has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from warren.admin.ui import figures
from warren.admin.ui.names import path

UNSENT_BYTES: Final = 1_048_576
"""Bytes for a client that wait to be sent, from which on it is one that does not read."""
HELD_MANY: Final = 1_000
"""Messages that consumers without a prefetch hold, from which on that is worth a word."""
SETTLE_SECONDS: Final = 30.0
"""For what a channel holds to be settled at its pace, from which on it is slow."""
ONE_BY_ONE_SECONDS: Final = 0.05
"""For each message of a prefetch of 1, from which on that is what slows it down."""
GROWTH: Final = 0.1
"""Messages a second more than leave, from which on a queue grows."""
BACKLOG: Final = 1
NAMED_MAX: Final = 3
"""Queues of a channel that are named."""
FOUND_MAX: Final = 50
"""Findings of one kind that are shown."""

Row = Mapping[str, Any]


class Finding(NamedTuple):
    """Something that is slow.

    Attributes:
        what: What it is about: `Queue`, `Channel`, `Connection` or `Node`.
        name: Its name.
        link: The path of its page.
        reason: Why it is slow, with figures.
        advice: What helps.
        about: Whose it is and what for, such as the queues of a channel; empty where the name says
            all.
    """

    what: str
    name: str
    link: str
    reason: str
    advice: str
    about: str = ""


def rate_of(row: Row, counter: str) -> float | None:
    """How fast a counter of a row grows a second; None if that is not known."""
    stats = row.get("message_stats") or {}
    details = stats.get(f"{counter}_details") or {}
    rate = details.get("rate")
    return max(float(rate), 0.0) if isinstance(rate, (int, float)) else None


def of_nodes(rows: Iterable[Row]) -> list[Finding]:
    """Nodes that have publishers wait."""
    found: list[Finding] = []
    for row in rows:
        place = path("nodes", row["name"])
        if row.get("mem_alarm"):
            used, limit = figures.size(row.get("mem_used")), figures.size(row.get("mem_limit"))
            found.append(
                Finding(
                    "Node",
                    row["name"],
                    place,
                    f"It is short of memory, {used} of {limit} used, so all publishers wait.",
                    "Have backlogs consumed or purged, or raise vm_memory_high_watermark.",
                )
            )
        if row.get("disk_free_alarm"):
            found.append(
                Finding(
                    "Node",
                    row["name"],
                    place,
                    f"It is short of disk space ({disk_words(row)}), so all publishers wait.",
                    "Make room on its disk, have backlogs consumed, or lower disk_free_limit.",
                )
            )
    return found


def disk_words(row: Row) -> str:
    """How much of a node's disk is free, and how much is needed: more than the limit is not enough
    where the space is not free that the log reserves ahead."""
    free, limit = row.get("disk_free"), row.get("disk_free_limit")
    words = f"{figures.size(free)} free, {figures.size(limit)} needed"
    if isinstance(free, int) and isinstance(limit, int) and free >= limit:
        words += " beside what the log reserves for its next file, which does not fit"
    return words


def of_connections(rows: Iterable[Row]) -> list[Finding]:
    """Connections that are held back, and those whose clients do not read."""
    found: list[Finding] = []
    for row in rows:
        place = path("connections", row["name"])
        name = row.get("user_provided_name") or row["name"]
        about = _joined(row, row["name"] if name != row["name"] else "")
        if row.get("state") == "blocked":
            found.append(
                Finding(
                    "Connection",
                    name,
                    place,
                    "It publishes, and is not read from while a node is short of memory or disk "
                    "space.",
                    "See to the node's alarm: this client cannot do anything about it.",
                    about,
                )
            )
        elif row.get("state") == "flow":
            found.append(
                Finding(
                    "Connection",
                    name,
                    place,
                    "It publishes faster than its queues take messages: the disk or their "
                    "consumers are behind.",
                    "Look for growing queues below; publish less at a time, or add consumers.",
                    about,
                )
            )
        unsent = row.get("send_pend") or 0
        if unsent >= UNSENT_BYTES:
            found.append(
                Finding(
                    "Connection",
                    name,
                    place,
                    f"Its client does not read: {figures.size(unsent)} wait to be sent to it.",
                    "See what its application does meanwhile, or give it a smaller prefetch.",
                    about,
                )
            )
    return found


def _joined(row: Row, *words: str) -> str:
    """Whose a connection or channel is, and what for."""
    user = f"user {row['user']}" if row.get("user") else ""
    return ", ".join(word for word in (*words, user) if word)


def _names(what: str, names: list[str]) -> str:
    """Some names, the first few of them in full."""
    if not names:
        return ""
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{what}{'s' if len(names) > 1 else ''} {', '.join(names[:NAMED_MAX])}{more}"


def of_channels(channels: Iterable[Row], consumers: Iterable[Row]) -> list[Finding]:
    """Channels whose consumers hold messages and settle them slowly, or not at all."""
    limits: dict[str, list[int]] = {}
    for row in consumers:
        if row.get("ack_required"):
            name = row["channel_details"]["name"]
            limits.setdefault(name, []).append(row.get("prefetch_count") or 0)
    found: list[Finding] = []
    for row in channels:
        held = row.get("messages_unacknowledged") or 0
        if held > 0:
            said = _held(held, limits.get(row["name"], []), rate_of(row, "ack"))
            if said is not None:
                place = path("channels", row["name"])
                name = row.get("client") or row["name"]
                about = _joined(
                    row,
                    row["name"] if name != row["name"] else "",
                    _names("queue", row.get("queues") or []),
                )
                found.append(Finding("Channel", name, place, *said, about))
    return found


def _held(held: int, limits: list[int], acks: float | None) -> tuple[str, str] | None:
    """What is slow about what a channel holds, and what helps; None if nothing is.

    Args:
        limits: The prefetch of each of its consumers; 0 for any number.
        acks: Messages that it settles a second; None before that is known.
    """
    messages = f"{held:,} message{'s' if held != 1 else ''}"
    full = 0 not in limits and held >= sum(limits) > 0
    if acks is None or acks == 0:
        if full:
            return (
                f"It holds {messages}, as many as its prefetch lets it, and has settled none "
                "lately: it gets no more.",
                "See what the application does with them: it may be stuck, or have forgotten "
                "to acknowledge.",
            )
        if not limits:
            return (
                f"It holds {messages} of basic.get or of consumers that are gone, and has settled "
                "none lately.",
                "Acknowledge them, or close the channel: then they go back.",
            )
    elif full and max(limits) == 1 and len(limits) / acks >= ONE_BY_ONE_SECONDS:
        each = len(limits) / acks
        return (
            f"Its prefetch is 1 and it takes {seconds(each)} for each message, "
            f"{figures.rate(acks)} in all.",
            "If the work itself is short, the way to and fro is what takes the time: raise the "
            "prefetch to 10 or more. If it is long, run more consumers.",
        )
    elif held / acks >= SETTLE_SECONDS:
        return (
            f"It holds {messages} and settles {figures.rate(acks)}: what it holds takes it "
            f"{figures.duration(held / acks)}.",
            "Lower its prefetch, so that other consumers get some of them, or run more consumers.",
        )
    if 0 in limits and held >= HELD_MANY:
        return (
            f"It has no prefetch, and holds {messages} at once.",
            "Give it a prefetch, such as 100: what it holds takes its memory, and no other "
            "consumer gets it.",
        )
    return None


def of_queues(rows: Iterable[Row]) -> list[Finding]:
    """Queues that grow, and those that have no consumer."""
    found: list[Finding] = []
    for row in rows:
        said = _queue(row)
        if said is not None:
            place = path("queues", row["vhost"], row["name"])
            found.append(Finding("Queue", row["name"], place, *said))
    return found


def _queue(row: Row) -> tuple[str, str] | None:
    """What is slow about a queue, and what helps; None if nothing is."""
    ready = row.get("messages_ready") or 0
    consumers = row.get("consumers") or 0
    if ready < BACKLOG:
        return None
    came, left = rate_of(row, "publish") or 0.0, rate_of(row, "deliver_get") or 0.0
    grows = came - left
    messages = f"{ready:,} message{'s' if ready != 1 else ''}"
    if consumers == 0 and left == 0:
        growing = f", and {figures.rate(came)} come" if came > GROWTH else ""
        return (
            f"It has no consumer: {messages} wait{'s' if ready == 1 else ''}{growing}.",
            "Start a consumer; or give the queue a length or a time to live, or delete it, if "
            "nobody needs them.",
        )
    if grows <= GROWTH:
        return None
    held = row.get("messages_unacknowledged") or 0
    said = (
        f"It grows: {figures.rate(came)} come and {figures.rate(left)} go, with {consumers:,} "
        f"consumer{'s' if consumers != 1 else ''}; {messages} wait."
    )
    if left == 0 and held > 0:
        return said, f"Its consumers hold {held:,} and settle none: see their channels above."
    return said, "Run more consumers, or see above why those that there are go slowly."


def seconds(value: float) -> str:
    """A short time as people read it."""
    return f"{value * 1_000:,.0f} ms" if value < 1 else f"{value:,.1f} s"
