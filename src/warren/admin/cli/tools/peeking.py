"""`rabbitmq-queues peek`: one message of a quorum queue, as it lies there."""

from __future__ import annotations

from typing import Any, Final

from warren.admin.cli.tools.command import (
    QUEUES,
    REPLICATION,
    USAGE,
    AmqpTable,
    Output,
    ToolAnswer,
    ToolCommand,
    ToolRows,
    Words,
    WrongWords,
    add,
    says,
)
from warren.admin.cli.tools.session import ToolSession
from warren.admin.service.rows import Peeked

PROPERTIES: Final = (
    *("app_id", "user_id", "type", "timestamp", "message_id", "expiration", "reply_to"),
    *("correlation_id", "priority", "delivery_mode", "content_encoding", "content_type"),
)
"""In the order in which they are shown."""
BODY: Final = "payload (max 64 bytes)"
MODES: Final[dict[Any, int]] = {True: 2, False: 1}


def _check(words: Words) -> None:
    text = words.arguments[1]
    if not text.isdecimal() or int(text) < 1:
        raise WrongWords(
            'Error (argument validation): "position value must be a positive integer"', USAGE
        )


def _peek(session: ToolSession, words: Words) -> Output:
    asked = {
        "vhost": words.vhost,
        "queue": words.arguments[0],
        "position": int(words.arguments[1]),
    }
    found: Peeked = session.ask("peek", asked, Peeked)
    pairs = shown(found)
    if str(words.options.get("formatter", "")).startswith("json"):
        return ToolAnswer(value={"result": "ok", "message": dict(pairs)})
    return ToolRows(("keys", "values"), pairs, "pretty_table")


def shown(found: Peeked) -> list[tuple[str, Any]]:
    """A message as names and values."""
    properties = found.properties
    pairs: list[tuple[str, Any]] = []
    for name in PROPERTIES:
        if name == "delivery_mode":
            value = MODES.get(properties.get("persistent"))
        else:
            value = properties.get(name)
        if value is not None:
            pairs.append((name, value))
    pairs.append(("routing_keys", [found.routing_key]))
    pairs.append(("exchange", found.exchange))
    pairs.append((BODY, payload(found.body)))
    for name, value in properties.get("headers", {}).items():
        pairs.append((f"header.{name}", AmqpTable(value) if isinstance(value, dict) else value))
    pairs.append(("header.x-delivery-count", found.delivery_count))
    return pairs


def payload(body: bytes) -> str:
    """A body as text, or its bytes where it is none."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return f"<<{','.join(map(str, body))}>>"


add(
    ToolCommand(
        "peek",
        (QUEUES,),
        "[--vhost <vhost>] <queue> <position> [--timeout <timeout>]",
        REPLICATION,
        "Shows one message of a quorum queue, which stays where it is",
        _peek,
        2,
        2,
        banner=says("Peeking at quorum queue {0} at position {1} on node {node} ..."),
        check=_check,
    ),
)
