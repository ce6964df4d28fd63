"""Looks into queues that leave them as they are, and searches: RabbitMQ has neither."""

from __future__ import annotations

import codecs
from typing import Any, Final

from warren.admin.http.answers import HttpAnswer, ok
from warren.admin.http.asked import HttpRequest, Resource, needed
from warren.admin.http.errors import bad_request
from warren.admin.http.resources.queues import encoded_body, properties
from warren.admin.http.values import as_integer
from warren.admin.service import looking
from warren.admin.service.looking import (
    BODY_BYTES_MAX,
    FOUND_MAX,
    LOOK_MAX,
    SeenMessage,
    SoughtMessages,
)
from warren.admin.service.slices import Slices

WHERE: Final[dict[str, looking.Where]] = {
    "body": "body",
    "header": "header",
    "property": "property",
}


async def look(asked: HttpRequest) -> HttpAnswer:
    """Show messages of a queue from a place on, and leave them as they are."""
    document = asked.document()
    found = await looking.look(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        queue=asked["queue"],
        position=number(document, "position", 1, 1, 1 << 62),
        count=number(document, "count", 10, 0, LOOK_MAX),
        body_bytes=number(document, "truncate", 4_096, 0, BODY_BYTES_MAX),
    )
    rows = await shown(found.messages, document)
    return ok({"messages_ready": found.ready, "messages": rows})


async def search(asked: HttpRequest) -> HttpAnswer:
    """Look through a queue for messages, in parts, and leave them as they are."""
    document = asked.document()
    where, text = needed(document, "where", "text")
    name = document.get("name", "")
    texts = all(isinstance(each, str) for each in (where, name, text))
    if not texts or where not in WHERE:
        raise bad_request(f"where is one of {', '.join(WHERE)}; name and text are texts")
    behind = document.get("behind")
    found = await looking.search_messages(
        asked.service,
        asked.caller,
        vhost=asked["vhost"],
        queue=asked["queue"],
        wanted=SoughtMessages(where=WHERE[where], name=name, text=text),
        behind=None if behind is None else number(document, "behind", 0, 0, 1 << 62),
        most=number(document, "count", 50, 1, FOUND_MAX),
        body_bytes=number(document, "truncate", 256, 0, BODY_BYTES_MAX),
    )
    return ok(
        {
            "messages_ready": found.ready,
            "looked": found.looked,
            "behind": found.behind,
            "messages": await shown(found.messages, document),
        }
    )


def number(document: dict[str, Any], key: str, default: int, least: int, most: int) -> int:
    """A whole number of a body, or what stands for it where it is left out.

    Raises:
        Problem: It is none, too small or too large.
    """
    value = as_integer(document[key]) if key in document else default
    if not least <= value <= most:
        raise bad_request(f"{key}: {least} to {most}, not {value}")
    return value


async def shown(messages: list[SeenMessage], document: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages as answers show them.

    Raises:
        Problem: They are to be shown in a way that there is not.
    """
    encoding = document.get("encoding", "auto")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    slices = Slices()
    rows: list[dict[str, Any]] = []
    for each in messages:
        body = each.body if len(each.body) == each.body_bytes else whole_characters(each.body)
        payload, as_what = encoded_body(body, encoding == "base64")
        rows.append(
            {
                "number": each.number,
                "position": each.position,
                "payload_bytes": each.body_bytes,
                "redelivered": each.redelivered,
                "acquired_count": each.acquired_count,
                "delivery_count": each.delivery_count,
                "dead_letter": each.dead_letter,
                "exchange": each.exchange,
                "routing_key": each.routing_key,
                "properties": properties(each.properties),
                "payload": payload,
                "payload_encoding": as_what,
            }
        )
        await slices.breathe()
    return rows


def whole_characters(body: bytes) -> bytes:
    """A text without what was cut off in the midst of its last character; other bodies as given."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(body)
    except UnicodeDecodeError:
        return body
    return text.encode()


RESOURCES = [
    Resource("/api/queues/{vhost}/{queue}/look", post=look),
    Resource("/api/queues/{vhost}/{queue}/search", post=search),
]
