"""What a broker itself looks at in a message, whatever protocol the message came by."""

from __future__ import annotations

from mypy_extensions import i64


class MessageFacts:
    """What routing, checks and queues care about in a message's properties.

    Attributes:
        persistent: Whether it asks to survive a restart.
        priority: 0 where none is set; see `has_priority`.
        life_ms: After what time it expires, once its expiration was read; negative for never.
        expiration, user_id: As of the last message that had one; see `has_expiration`.
        copies: Whether its headers name further routing keys, in CC or BCC.
    """

    def __init__(self) -> None:
        self.persistent: bool = False
        self.priority: i64 = 0
        self.life_ms: i64 = -1
        self.expiration: bytes = b""
        self.user_id: bytes = b""
        self.has_priority: bool = False
        self.has_expiration: bool = False
        self.has_user_id: bool = False
        self.copies: bool = False
