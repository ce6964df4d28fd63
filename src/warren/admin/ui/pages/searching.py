"""Messages that are searched for, and the story of one: nothing here takes any."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from warren.admin.http.resources import looking, queues
from warren.admin.service import story
from warren.admin.service.story import MessageCopies, MessageStanding, deaths_of
from warren.admin.ui.asking import PageRequest, Shown, WebPage, told
from warren.admin.ui.names import path
from warren.admin.ui.pages.messages import with_deaths, within
from warren.admin.ui.pages.queues import variables
from warren.admin.ui.wrong import Wrong

FOUND_MAX: Final = 50
PAYLOAD_BYTES: Final = 1_024
STORY_BYTES: Final = 65_536
PLACES: Final = (
    ("body", "Body has the text"),
    ("header", "Header is"),
    ("property", "Property is"),
)
PROPERTIES: Final = (
    "message_id",
    "correlation_id",
    "routing_key",
    "exchange",
    "content_type",
    "type",
    "app_id",
    "user_id",
    "reply_to",
    "priority",
    "timestamp",
    "expiration",
)
NUMBER_MAX: Final = 1 << 62


async def search(asked: PageRequest) -> Shown:
    """One part of a search, and the way to the next."""
    found = await asked.api(queues.one_queue, variables(asked))
    query = asked.query
    where, name, text = query.get("where", ""), query.get("name", ""), query.get("text", "")
    part: dict[str, Any] | None = None
    problem, onward = "", ""
    looked = within(query.get("looked", ""), 0, 0, NUMBER_MAX)
    seen_before = within(query.get("found", ""), 0, 0, NUMBER_MAX)
    if where:
        document: dict[str, Any] = {"where": where, "name": name.strip(), "text": text}
        document |= {"count": FOUND_MAX, "truncate": PAYLOAD_BYTES}
        if "behind" in query:
            document["behind"] = within(query["behind"], 0, 0, NUMBER_MAX)
        try:
            part = await asked.api(looking.search, variables(asked), document=document)
        except Wrong as wrong:
            problem = wrong.text
    if part is not None:
        with_deaths(part["messages"])
        looked += part["looked"]
        seen_before += len(part["messages"])
        if part["behind"] is not None:
            further = {"where": where, "name": name, "text": text, "behind": part["behind"]}
            further |= {"looked": looked, "found": seen_before}
            onward = f"{asked.path}?{urlencode(further, errors='surrogateescape')}"
    return Shown(
        "search.html",
        found=found,
        where=where or "body",
        name=name,
        text=text,
        part=part,
        looked=looked,
        found_so_far=seen_before,
        onward=onward,
        problem=problem,
        places=PLACES,
        properties=PROPERTIES,
        story_path=path("queues", asked["vhost"], asked["name"]) + "/messages/",
    )


async def one_message(asked: PageRequest) -> Shown:
    """The story of one message; other queues are searched only when that is asked for."""
    found = await asked.api(queues.one_queue, variables(asked))
    number = asked["number"]
    if not number.isascii() or not number.isdecimal() or int(number[:20]) > NUMBER_MAX:
        raise Wrong(404, "There is no such message.")
    vhost, name = asked["vhost"], asked["name"]
    standing: MessageStanding = await told(
        story.look_at(
            asked.service,
            asked.caller,
            vhost=vhost,
            queue=name,
            number=int(number),
            body_bytes=STORY_BYTES,
        ),
        False,
    )
    message = standing.message
    route: list[str] = []
    no_route = ""
    try:
        route = await told(
            story.route_now(
                asked.service,
                asked.caller,
                vhost=vhost,
                exchange=message.exchange,
                routing_key=message.routing_key,
                properties=message.properties,
            ),
            False,
        )
    except Wrong as wrong:
        no_route = wrong.text
    copies: list[MessageCopies] | None = None
    message_id = message.properties.message_id
    if message_id and asked.query.get("elsewhere") == "true":
        copies = await told(
            story.copies_of(
                asked.service, asked.caller, vhost=vhost, message_id=message_id, but=name
            ),
            False,
        )
    (row,) = with_deaths(await looking.shown([message], {}))
    headers = row["headers"] or {}
    return Shown(
        "message.html",
        found=found,
        state=standing.state,
        row=row,
        deaths=deaths_of(message.dead_letter, headers),
        marks={key: headers[key] for key in sorted(headers) if is_mark(key)},
        route=route,
        no_route=no_route,
        message_id=message_id or "",
        copies=copies,
    )


def is_mark(header: str) -> bool:
    """Whether brokers write a header to say where a message died first and last."""
    return header.startswith(("x-first-death-", "x-last-death-"))


PAGES = [
    WebPage("/queues/{vhost}/{name}/search", search),
    WebPage("/queues/{vhost}/{name}/messages/{number}", one_message),
]
