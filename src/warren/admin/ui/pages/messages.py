"""What is in a queue: a look at messages, the triage of dead letters, and moves of messages."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from warren.admin.http.resources import exchanges, looking, queues
from warren.admin.service.moving import WAYS, Choice, Death, Destination, death_of
from warren.admin.ui import figures
from warren.admin.ui.asking import PageRequest, Shown, WebPage, WentOn
from warren.admin.ui.columns import ShownColumns, chooser
from warren.admin.ui.lists import listed_rows, vhost_names
from warren.admin.ui.moves import Move, may_stop
from warren.admin.ui.names import in_query, path, unpacked
from warren.admin.ui.pages.queues import variables
from warren.admin.ui.wrong import Again, Wrong

LOOK_MAX: Final = 200
TRIAGE_MAX: Final = 1_000
PAYLOAD_BYTES: Final = 4_096
COUNT_MAX: Final = 10_000_000
FATES: Final = (
    ("ack_requeue_true", "Put them back"),
    ("ack_requeue_false", "Take them out for good"),
    ("reject_requeue_false", "Reject them (dead-letter, or drop)"),
)
LOSING: Final = ("ack_requeue_false", "reject_requeue_false")
"""Fates of which no message stays in its queue."""


async def look(asked: PageRequest) -> Shown:
    """Messages of a queue as they lie there; or those that a form has taken."""
    found = await asked.api(queues.one_queue, variables(asked))
    if asked.form.text("do") == "get" and not asked.error:
        rows = await taken(asked, LOOK_MAX, PAYLOAD_BYTES, asked.form.text("fate"))
        found = await asked.api(queues.one_queue, variables(asked))
        return _messages(asked, found, rows, True, 0, 0, "")
    position = within(asked.query.get("position", ""), 1, 1, COUNT_MAX * 1_000)
    count = within(asked.query.get("count", ""), 10, 1, LOOK_MAX)
    rows, problem = [], ""
    try:
        rows = await looked_at(asked, position, count, PAYLOAD_BYTES)
    except Wrong as wrong:
        problem = wrong.text
    return _messages(asked, found, rows, False, position, count, problem)


def _messages(
    asked: PageRequest,
    found: dict[str, Any],
    rows: list[dict[str, Any]],
    were_taken: bool,
    position: int,
    count: int,
    problem: str,
) -> Shown:
    return Shown(
        "messages.html",
        found=found,
        rows=rows,
        were_taken=were_taken,
        position=position,
        count=count,
        problem=problem,
        as_base64=asked.query.get("base64") == "true",
        oldest=oldest(rows),
        fates=FATES,
        most=LOOK_MAX,
    )


def within(text: str, default: int, least: int, most: int) -> int:
    """A number of a query, or what it is where that says nothing of use."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else default
    return max(least, min(most, number))


async def looked_at(
    asked: PageRequest, position: int, count: int, payload: int
) -> list[dict[str, Any]]:
    """Messages of the queue from a place on, which stay as they are.

    Raises:
        Wrong: They cannot be looked at.
    """
    as_base64 = asked.query.get("base64") == "true"
    document = {
        "position": position,
        "count": count,
        "truncate": payload,
        "encoding": "base64" if as_base64 else "auto",
    }
    found = await asked.api(looking.look, variables(asked), document=document)
    return with_deaths(found["messages"])


def with_deaths(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages of the API as pages show them: headers apart, and why each died last."""
    for row in rows:
        row["properties"] = dict(row["properties"] or {})
        row["headers"] = row["properties"].pop("headers", {})
        row["death"] = death_of(row.get("dead_letter", False), row["headers"])
    return rows


async def taken(asked: PageRequest, most: int, payload: int, fate: str) -> list[dict[str, Any]]:
    """Messages from the head of the queue.

    Raises:
        Wrong: They cannot be taken.
    """
    if fate not in {mode for mode, _ in FATES}:
        raise Wrong(400, "Say what is to become of the messages.")
    count = asked.form.number("count", "Messages", 10)
    if not 1 <= count <= most:
        raise Wrong(400, f"Messages: 1 to {most} can be looked at at once, not {count}.")
    rows: list[dict[str, Any]] = await asked.api(
        queues.get,
        variables(asked),
        document={
            "count": count,
            "ackmode": fate,
            "encoding": "base64" if asked.form.truth("base64") else "auto",
            "truncate": payload,
        },
    )
    return with_deaths(rows)


def oldest(rows: list[dict[str, Any]]) -> float | None:
    """The age of the oldest of some messages in seconds; None if none says when it was made."""
    times = [row["properties"]["timestamp"] for row in rows if "timestamp" in row["properties"]]
    return max(time.time() - min(times), 0.0) if times else None


async def take(asked: PageRequest) -> WentOn:
    """Take messages, which the page that is drawn then shows."""
    fate = asked.form.text("fate")
    if fate in LOSING:
        count = asked.form.number("count", "Messages", 10)
        asked.make_sure(
            f"Up to {figures.count(count)} messages from the head of “{asked['name']}” would leave "
            "the queue for good.",
            "Take messages",
        )
    raise Again


async def drawn_again(asked: PageRequest) -> WentOn:
    """A form that only looks: its page is drawn with what is found."""
    raise Again


# --- dead letters -------------------------------------------------------------------------------


async def triage(asked: PageRequest) -> Shown:
    """Dead letters of a queue by reason, queue and exchange, when the form asks for it."""
    found = await asked.api(queues.one_queue, variables(asked))
    groups: list[dict[str, Any]] | None = None
    looked = 0
    if asked.form.text("do") == "look" and not asked.error:
        count = asked.form.number("count", "Messages", 200)
        if not 1 <= count <= TRIAGE_MAX:
            raise Wrong(400, f"Messages: 1 to {TRIAGE_MAX:,} can be looked at, not {count}.")
        rows = await looked_at(asked, 1, count, 0)
        looked = len(rows)
        groups = grouped(asked, rows)
    return Shown("triage.html", found=found, groups=groups, looked=looked, most=TRIAGE_MAX)


def grouped(asked: PageRequest, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages by why and where they died, the largest group first."""
    deaths: Counter[tuple[str, str, str]] = Counter()
    ages: dict[tuple[str, str, str], float] = {}
    for row in rows:
        death: Death = row["death"]
        key = (death.reason, death.queue, death.exchange)
        deaths[key] += 1
        age = oldest([row])
        if age is not None:
            ages[key] = max(age, ages.get(key, 0.0))
    place = path("queues", asked["vhost"], asked["name"]) + "/move"
    return [
        {
            "reason": reason,
            "queue": queue,
            "exchange": exchange,
            "count": count,
            "share": figures.percent(count, len(rows)),
            "oldest": ages.get((reason, queue, exchange)),
            "link": f"{place}?reason={in_query(reason)}&died_in={in_query(queue)}"
            f"&from={in_query(exchange)}&way=died_in",
        }
        for (reason, queue, exchange), count in deaths.most_common()
    ]


# --- moves --------------------------------------------------------------------------------------


async def move(asked: PageRequest) -> Shown:
    """The form that has messages go on elsewhere."""
    found = await asked.api(queues.one_queue, variables(asked))
    query = asked.query
    choice = {
        name: unpacked(query[name]) for name in ("reason", "died_in", "from") if name in query
    }
    return Shown(
        "move.html", found=found, choice=choice, way=query.get("way", "queue"), most=COUNT_MAX
    )


async def begin_move(asked: PageRequest) -> WentOn:
    """Begin a move, or try one."""
    form = asked.form
    way = WAYS.get(form.text("way", "queue"))
    name = form.text("target")
    found = await asked.api(queues.one_queue, variables(asked))
    ready = found.get("messages_ready") or 0
    count = form.number("count", "Messages", max(ready, 1))
    if not 1 <= count <= COUNT_MAX:
        raise Wrong(400, f"Messages: 1 to {COUNT_MAX:,} can be moved, not {count}.")
    rate = form.number("rate", "Messages a second", 0)
    if not 0 <= rate <= 1_000_000:
        raise Wrong(400, "Messages a second: 0 for as fast as it goes, or up to 1,000,000.")
    if way is None:
        raise Wrong(400, "Say where the messages are to go.")
    if way == "queue":
        await asked.api(queues.one_queue, {"vhost": asked["vhost"], "queue": name})
        if name == asked["name"]:
            raise Wrong(400, "The messages are in this queue already.")
    if way == "exchange":
        name = exchanges.exchange_name(name)
        await asked.api(exchanges.one_exchange, {"vhost": asked["vhost"], "exchange": name})
    key = form.text("routing_key")
    # Where each goes is shown before, unless the form says it.
    tries = form.text("do") == "try" or way in ("died_in", "published_to")
    started = asked.moves.begin(
        asked.service,
        asked.caller,
        asked["vhost"],
        asked["name"],
        Destination(way=way, name=name, routing_key=key or None),
        Choice(
            reason=_chosen(asked, "reason"),
            queue=_chosen(asked, "died_in"),
            exchange=_chosen(asked, "from"),
        ),
        # What comes behind these does not go round in circles.
        min(count, max(ready, 1)),
        float(rate),
        tries,
    )
    return WentOn(path("moves", str(started.number)))


def _chosen(asked: PageRequest, name: str) -> str | None:
    """What messages are chosen by; None if it is not said."""
    return asked.form.name(name) if asked.form.text(name) else None


async def moves(asked: PageRequest) -> Shown:
    """All moves that the user sees."""
    rows = [row_of(each) for each in asked.moves.seen_by(asked.caller)]
    shown = await listed_rows(asked, rows, "number", reverse=True)
    columns = ShownColumns("moves", asked.columns, len(await vhost_names(asked)) > 1)
    return Shown("moves.html", list=shown, columns=columns)


def row_of(move: Move) -> dict[str, Any]:
    """A move as lists have it."""
    return {
        "name": f"{move.vhost} {move.queue}",
        "number": move.number,
        "vhost": move.vhost,
        "queue": move.queue,
        "user": move.user,
        "state": move.state,
        "dry_run": move.dry_run,
        "moved": move.progress.moved,
        "begun": move.begun * 1_000,
        "to": destination_words(move.destination),
    }


def destination_words(destination: Destination) -> str:
    """Where messages go, in words."""
    if destination.way == "queue":
        return f"queue {destination.name}"
    if destination.way == "exchange":
        key = destination.routing_key
        with_key = "their own routing keys" if key is None else f"routing key {key}"
        return f"exchange {destination.name or '(default)'}, {with_key}"
    if destination.way == "died_in":
        return "the queue that each died in"
    return "the exchange that each was published to before it died"


async def one_move(asked: PageRequest) -> Shown:
    """How far a move is."""
    found = asked.moves.find(asked.caller, asked["number"])
    targets = [
        (exchange, key, count)
        for exchange, keys in found.progress.targets.items()
        for key, count in keys.items()
    ]
    targets.sort(key=lambda target: -target[2])
    return Shown(
        "one-move.html",
        move=found,
        may_stop=may_stop(asked.caller, found),
        to=destination_words(found.destination),
        targets=targets[:100],
        seconds=(found.ended or time.time()) - found.begun,
    )


async def stop_move(asked: PageRequest) -> WentOn:
    """Stop a move."""
    asked.moves.stop(asked.caller, asked["number"])
    return WentOn(asked.path, "The move stops behind the message that is under way.")


async def run_tried(asked: PageRequest) -> WentOn:
    """Do what was tried."""
    tried = asked.moves.find(asked.caller, asked["number"])
    started = asked.moves.begin(
        asked.service,
        asked.caller,
        tried.vhost,
        tried.queue,
        tried.destination,
        tried.choice,
        tried.count,
        tried.rate,
        False,
    )
    return WentOn(path("moves", str(started.number)))


PAGES = [
    WebPage("/queues/{vhost}/{name}/messages", look, {"get": take}),
    WebPage("/queues/{vhost}/{name}/dead-letters", triage, {"look": drawn_again}),
    WebPage("/queues/{vhost}/{name}/move", move, {"try": begin_move, "move": begin_move}),
    WebPage("/moves", moves, {"columns": chooser("moves")}),
    WebPage("/moves/{number}", one_move, {"stop": stop_move, "run": run_tried}),
]
