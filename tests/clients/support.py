"""Small means that the client tests share: bounded waits, expected refusals, draining a queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker, ConnectionClosedByBroker

from tests.support.patience import patient

WAIT_S = patient(15.0)
POLL_S = 0.01
PERSISTENT = pika.BasicProperties(delivery_mode=2)

# Bodies about the borders of frames of the default frame_max (131072, 131064 of it body).
BODY_SIZES = (0, 1, 4087, 4088, 4089, 4096, 131063, 131064, 131065, 262128, 262129, 1 << 20)
BODY_MAX = 16 << 20

# 255 bytes of UTF-8: two, three and four of them a character.
UNICODE = "ü" * 30 + "日本" * 20 + "🐇" * 18 + "abc"
assert len(UNICODE.encode()) == 255


def body_of(size: int) -> bytes:
    """A body of `size` bytes in which a lost or doubled piece would show."""
    return (b"".join(b"%07d\n" % n for n in range(size // 8 + 1)))[:size]


def eventually(check: Callable[[], Any], wait_s: float = WAIT_S) -> Any:
    """Return the first true answer of `check`; fail the test when none comes in time."""
    deadline = time.monotonic() + wait_s
    while True:
        if answer := check():
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {wait_s} s"
        time.sleep(POLL_S)


@contextmanager
def refused(code: int, text: str = "") -> Iterator[None]:
    """Expect the broker to close the channel (or the connection, by the code) with this reply."""
    with pytest.raises((ChannelClosedByBroker, ConnectionClosedByBroker)) as caught:
        yield
    reply = caught.value
    assert reply.reply_code == code, reply
    assert text in reply.reply_text
    soft = code in (311, 312, 313, 403, 404, 405, 406)
    assert isinstance(reply, ChannelClosedByBroker) == soft


def depth(channel: BlockingChannel, queue: str) -> int:
    """How many messages of a queue are ready."""
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def holds(channel: BlockingChannel, queue: str, ready: int) -> None:
    """Wait until a queue has exactly so many ready messages."""
    eventually(lambda: depth(channel, queue) == ready)


def get(channel: BlockingChannel, queue: str, auto_ack: bool = True) -> tuple[Any, Any, bytes]:
    """Get one message, waiting for it to arrive."""
    reply: tuple[Any, Any, bytes] = eventually(
        lambda: (got := channel.basic_get(queue, auto_ack=auto_ack))[0] and got
    )
    return reply


class Inbox:
    """What a consumer has received, in order.

    Args:
        channel: Where to consume.
        queue: What to consume from.
        options: Given to `basic_consume`.
    """

    def __init__(self, channel: BlockingChannel, queue: str, **options: Any) -> None:
        self.channel = channel
        self.messages: list[tuple[Any, Any, bytes]] = []
        self.tag = channel.basic_consume(
            queue, lambda _, method, props, body: self.messages.append((method, props, body)),
            **options,
        )  # fmt: skip

    @property
    def bodies(self) -> list[bytes]:
        """The bodies received so far."""
        return [body for _, _, body in self.messages]

    def take(self, count: int, wait_s: float = WAIT_S) -> list[tuple[Any, Any, bytes]]:
        """Wait until so many messages are there; return them and forget them."""
        deadline = time.monotonic() + wait_s
        while len(self.messages) < count:
            left = deadline - time.monotonic()
            assert left > 0, f"{len(self.messages)} of {count} messages after {wait_s} s"
            self.channel.connection.process_data_events(left)
        taken, self.messages = self.messages[:count], self.messages[count:]
        return taken

    def quiet(self, seconds: float = 0.2) -> bool:
        """Say whether nothing comes for a while (nothing to wait for, so time has to pass)."""
        self.channel.connection.process_data_events(seconds)
        return not self.messages
