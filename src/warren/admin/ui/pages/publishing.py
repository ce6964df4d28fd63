"""The form that publishes a message, on the pages of exchanges and queues."""

from __future__ import annotations

from typing import Any

from warren.admin.http.resources import exchanges
from warren.admin.ui.asking import PageRequest
from warren.admin.ui.wrong import Wrong

TEXTS = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
)
NUMBERS = ("priority", "timestamp")


async def publish(asked: PageRequest, exchange: str, routing_key: str) -> str:
    """Publish what the form says, and say what became of it.

    Raises:
        Wrong: It cannot be, or no queue has taken it.
    """
    form = asked.form
    properties: dict[str, Any] = {
        name: value for name in TEXTS if (value := form.text(f"p-{name}").strip())
    }
    for name in NUMBERS:
        if form.text(f"p-{name}").strip():
            properties[name] = form.number(f"p-{name}", name)
    properties["delivery_mode"] = 2 if form.text("persistent", "true") == "true" else 1
    headers = form.table("header")
    if headers:
        properties["headers"] = headers
    encoding = "base64" if form.text("encoding") == "base64" else "string"
    payload = form.text("payload")
    # Browsers send each end of a line as two characters.
    payload = "".join(payload.split()) if encoding == "base64" else payload.replace("\r\n", "\n")
    answer = await asked.api(
        exchanges.publish,
        {"vhost": asked["vhost"], "exchange": exchange or exchanges.DEFAULT_ALIAS},
        document={
            "routing_key": routing_key,
            "properties": properties,
            "payload": payload,
            "payload_encoding": encoding,
        },
    )
    if not answer["routed"]:
        raise Wrong(400, "No queue takes a message with this routing key: it was dropped.")
    return "The message is published, and safe in its queues."
