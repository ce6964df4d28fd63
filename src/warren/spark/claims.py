"""Messages that say who published them, in `user_id`: whether the broker takes them of this user.

A broker lets a message name the user who publishes it and no other, unless that one has the tag
`impersonator`. No method asks for that. So a message with the same claim is published to a queue
that is not there: it is refused, or it comes back.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Final

from warren.client import Channel
from warren.client.uri import parse_uri
from warren.errors import BrokerError
from warren.spark.broker import refusal_code
from warren.spark.options import WriteOptions
from warren.wire.amqp091.properties import Properties, decode_properties

#: The flag of `user_id` in the second octet of encoded properties.
_USER_ID: Final = 0x10

#: What is to be done where a claim is refused, as the end of a sentence.
REMEDY: Final = (
    "a broker takes these of that user, or of one with the tag 'impersonator'; without 'user_id' "
    "anybody may send them"
)


def claimed_user(properties: bytes) -> str | None:
    """The user whom encoded properties name; None for no one."""
    if len(properties) < 2 or not properties[1] & _USER_ID:
        return None
    return decode_properties(properties, 0, len(properties)).user_id


class Claims:
    """Which users the messages of one connection may name."""

    def __init__(self, options: WriteOptions, open_channel: Callable[[], Channel]) -> None:
        """
        Args:
            open_channel: Opens one for each question: a refusal closes it.
        """
        self.user = parse_uri(options.uris[0]).user
        self._open = open_channel
        self._known = {self.user: True}

    def allows(self, claimed: str) -> bool:
        """Whether a message may say that it is of this user."""
        if claimed not in self._known:
            self._known[claimed] = self._ask(claimed)
        return self._known[claimed]

    def _ask(self, claimed: str) -> bool:
        channel = self._open()
        channel.confirm_select()
        nowhere = f"warren.no-such-queue.{uuid.uuid4().hex}"
        try:
            channel.publish("", nowhere, b"", Properties(user_id=claimed).encode(), True)
            channel.wait_for_confirms()
        except BrokerError as error:
            if refusal_code(error) != 406:
                raise
            return False
        channel.close()
        return True
