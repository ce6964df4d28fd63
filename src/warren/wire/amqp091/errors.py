"""The two errors of AMQP 0-9-1: one ends a channel, the other one its connection.

Source: AMQP 0-9-1 constants (`amqp-rabbitmq-0.9.1.json`).
"""

from __future__ import annotations

from typing import Final

from warren.errors import ProtocolError

REPLY_NAMES: Final[dict[int, str]] = {
    200: "OK",
    311: "CONTENT_TOO_LARGE",
    312: "NO_ROUTE",
    313: "NO_CONSUMERS",
    320: "CONNECTION_FORCED",
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    501: "FRAME_ERROR",
    502: "SYNTAX_ERROR",
    503: "COMMAND_INVALID",
    504: "CHANNEL_ERROR",
    505: "UNEXPECTED_FRAME",
    506: "RESOURCE_ERROR",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}


class AmqpError(ProtocolError):
    """A channel or a connection is closed with this code and text.

    Attributes:
        code: AMQP reply code, a key of `REPLY_NAMES`.
        text: The reply text without the `CODE_NAME - ` prefix.
        class_id, method_id: The method that failed, 0 where none did.
    """

    def __init__(self, code: int, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id

    def __str__(self) -> str:
        return f"{REPLY_NAMES[self.code]} - {self.text}"


class ConnectionException(AmqpError):
    """Ends the connection: 320, 402, 501 to 506, 530, 540, 541 (and 403 for a failed login)."""


class ChannelException(AmqpError):
    """Ends the channel only: 311, 312, 313, 403 to 406."""
