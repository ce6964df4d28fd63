"""Every exception Warren raises, with the AMQP reply code it ends in.

The tree follows who has to act on an error: a client (`ProtocolError`), the operator
(`StorageError`, `ClusterError`, `ConfigError`), or a peer that should retry elsewhere
(`ConsensusError`). A broken invariant of our own is an `AssertionError` and stops the node.

Source: AMQP 0-9-1 constants (`amqp-rabbitmq-0.9.1.json`); reply texts in B-07.
"""

from __future__ import annotations

from typing import Final

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


class BrokerError(Exception):
    """Root of all errors raised on purpose."""


class ProtocolError(BrokerError):
    """A client broke a rule; its channel or its connection is closed with this code and text.

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


class ConnectionException(ProtocolError):
    """Ends the connection: 320, 402, 501 to 506, 530, 540, 541 (and 403 for a failed login)."""


class ChannelException(ProtocolError):
    """Ends the channel only: 311, 312, 313, 403 to 406."""


class StorageError(BrokerError):
    """Something on disk is not as it has to be."""


class CorruptRecord(StorageError):
    """Bytes on disk fail their checksum or contradict their neighbours.

    Attributes:
        path: The file, or what else the bytes came from.
        offset_bytes: Where in it.
        reason: What is wrong there.
        group_id: The group that was read, 0 if it was none in particular.
        lost: Ascending pairs (first, last), both included: messages that the group cannot be given
            from what was read.
    """

    def __init__(self, path: str, offset_bytes: int, reason: str) -> None:
        super().__init__(f"{path}: damaged at byte {offset_bytes}: {reason}")
        self.path = path
        self.offset_bytes = offset_bytes
        self.reason = reason
        self.group_id: int = 0
        self.lost: list[tuple[int, int]] = []


class Compacted(StorageError):
    """The messages asked for were settled and their place in the log is gone."""


class DiskFull(StorageError):
    """No space is left for the log."""


class ConsensusError(BrokerError):
    """A Raft group cannot take this request here and now."""


class ClusterError(BrokerError):
    """The cluster does not take a node in, let it go, or let it go on; the operator has to act."""


class ConfigError(BrokerError):
    """An option, a configuration file or an environment variable is wrong."""
