"""The scripts about consumers that hold messages of a quorum queue for too long.

Source: CT-01 to CT-16.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}
SHORT_MS = 700
LONG_MS = 60_000


def _begin(s: Session, name: str, arguments: dict[str, Any], *channels: int) -> str:
    """A queue of this name; channel 1 and others."""
    queue = f"o.timeout.{name}"
    s.open("a", 1, *channels)
    s.queue(queue, {**QUORUM, **arguments})
    return queue


def _consume(s: Session, channel: int, queue: str, timeout_ms: int | None, tag: str = "") -> None:
    arguments = {} if timeout_ms is None else {"x-consumer-timeout": timeout_ms}
    tag = tag or f"c{channel}"
    s.call(channel, "basic.consume", queue=queue, consumer_tag=tag, arguments=arguments)


@scenario(waits=True)
def timeout_cancels_one_consumer(s: Session) -> None:
    """It is cancelled; its messages come again elsewhere; others of its channel go on."""
    queue = _begin(s, "cancels", {}, 2, 3)
    s.queue("o.timeout.other")
    _consume(s, 2, "o.timeout.other", None, "other")
    _consume(s, 2, queue, SHORT_MS)
    for body in (b"1", b"2"):
        s.publish(1, "", queue, body)
    s.take(2, 2)
    _consume(s, 3, queue, LONG_MS)
    s.take(2)
    s.take(3, 2)
    s.publish(1, "", "o.timeout.other", b"3")
    s.take(2)
    s.send(2, "basic.ack", delivery_tag=1)
    s.send(2, "basic.nack", delivery_tag=2, requeue=True)
    s.send(2, "basic.ack", delivery_tag=3)
    s.quiet(2)
    s.send(3, "basic.ack", delivery_tag=2, multiple=True)
    s.until_settled(queue)
    s.call(1, "queue.delete", queue=queue)


@scenario(waits=True)
def timeout_closes_a_channel(s: Session) -> None:
    """A client that does not know of cancelled consumers loses its channel, and what it holds."""
    queue = _begin(s, "closes", {}, 3)
    s.open("old", 2, properties={})
    s.call(2, "basic.consume", "old", queue=queue, consumer_tag="c",
           arguments={"x-consumer-timeout": SHORT_MS})  # fmt: skip
    for body in (b"1", b"2"):
        s.publish(1, "", queue, body)
    s.take(2, 2, "old")
    s.take(2, 1, "old")
    s.until(queue, 2)
    s.get(queue, 3)
    s.get(queue, 3)


@scenario(waits=True)
def timeout_of_the_queue(s: Session) -> None:
    """The queue's argument counts where the consumer has none; the consumer's may be longer."""
    queue = _begin(s, "queue", {"x-consumer-timeout": SHORT_MS}, 2, 3)
    s.call(3, "basic.qos", prefetch_count=1)
    _consume(s, 3, queue, LONG_MS)
    s.publish(1, "", queue, b"1")
    s.take(3)
    _consume(s, 2, queue, None)
    s.publish(1, "", queue, b"2")
    s.take(2, 2)
    s.quiet(3)


@scenario(waits=True)
def timeout_of_the_consumer(s: Session) -> None:
    """A consumer's own argument may be shorter than the queue's."""
    queue = _begin(s, "consumer", {"x-consumer-timeout": LONG_MS}, 2)
    _consume(s, 2, queue, SHORT_MS)
    s.publish(1, "", queue, b"1")
    s.take(2, 2)
    s.until(queue, 1)


@scenario(waits=True)
def timeout_of_a_get(s: Session) -> None:
    """What was got has to be settled in time, too; there is no consumer to be cancelled."""
    queue = _begin(s, "get", {"x-consumer-timeout": SHORT_MS}, 2)
    s.put(queue, b"1", b"2")
    s.get(queue, 2)
    s.take(2)
    s.until(queue, 2)
    s.get(queue)


@scenario(waits=True)
def timeout_after_a_cancel(s: Session) -> None:
    """A consumer that is cancelled already holds a message for too long."""
    queue = _begin(s, "after", {}, 2)
    _consume(s, 2, queue, SHORT_MS)
    s.publish(1, "", queue, b"1")
    s.take(2)
    s.call(2, "basic.cancel", consumer_tag="c2")
    s.take(2)
    s.until(queue, 1)
    s.get(queue)


@scenario(waits=True)
def timeout_of_a_tag_used_again(s: Session) -> None:
    """What is held too long was given to a consumer whose tag another one has by now."""
    queue = _begin(s, "tag", {}, 2)
    _consume(s, 2, queue, SHORT_MS, "c")
    s.publish(1, "", queue, b"1")
    s.take(2)
    s.call(2, "basic.cancel", consumer_tag="c")
    _consume(s, 2, queue, LONG_MS, "c")
    s.take(2)


@scenario(waits=True)
def timeout_not_of_automatic_acks(s: Session) -> None:
    """Who acknowledges automatically holds nothing."""
    queue = _begin(s, "automatic", {"x-consumer-timeout": SHORT_MS}, 2)
    s.call(2, "basic.consume", queue=queue, consumer_tag="c", no_ack=True)
    s.publish(1, "", queue, b"1")
    s.take(2)
    for _ in range(6):
        s.quiet(2)


@scenario(waits=True)
def timeout_settled_in_time(s: Session) -> None:
    """Whoever settles in time is left alone, however long it goes on."""
    queue = _begin(s, "in-time", {}, 2)
    _consume(s, 2, queue, SHORT_MS)
    for number in range(4):
        s.publish(1, "", queue, b"%d" % number)
        s.take(2)
        s.quiet(2)
        s.send(2, "basic.ack", delivery_tag=number + 1)
    s.quiet(2)


@scenario(waits=True)
def timeout_of_the_active_consumer(s: Session) -> None:
    """Where one consumer is served at a time the next one takes over."""
    queue = _begin(s, "active", {"x-single-active-consumer": True}, 2, 3)
    _consume(s, 2, queue, SHORT_MS)
    _consume(s, 3, queue, LONG_MS)
    s.publish(1, "", queue, b"1")
    s.take(2, 2)
    s.take(3)
    s.send(3, "basic.ack", delivery_tag=1)
    s.publish(1, "", queue, b"2")
    s.take(3)


@scenario(waits=True)
def timeout_and_consume_again(s: Session) -> None:
    """A client that is told consumes again: by another tag, and it gets its message again."""
    queue = _begin(s, "again", {}, 2)
    _consume(s, 2, queue, SHORT_MS)
    s.publish(1, "", queue, b"1")
    s.take(2, 2)
    _consume(s, 2, queue, LONG_MS, "again")
    s.take(2)
    s.send(2, "basic.ack", delivery_tag=2)
    s.until_settled(queue)
    s.call(1, "queue.delete", queue=queue)


@scenario(waits=True)
def timeout_counts(s: Session) -> None:
    """How often a message was acquired and failed, after two timeouts and a rejection."""
    queue = _begin(s, "counts", {}, 2, 3, 4)
    _consume(s, 2, queue, SHORT_MS)
    s.publish(1, "", queue, b"1")
    s.take(2, 2)
    s.until(queue, 1)
    _consume(s, 3, queue, SHORT_MS)
    s.take(3, 2)
    s.until(queue, 1)
    tag = s.get(queue, 4)
    s.send(4, "basic.reject", delivery_tag=tag, requeue=True)
    s.until(queue, 1)
    s.get(queue, 4)
