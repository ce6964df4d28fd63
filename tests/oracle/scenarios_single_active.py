"""The scripts about queues that serve one consumer at a time.

Source: QQ-18, QQ-19.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.registry import scenario
from tests.oracle.session import Session

SINGLE = {"x-single-active-consumer": True}
KINDS: dict[str, dict[str, Any]] = {
    "classic": SINGLE, "transient": SINGLE, "quorum": {"x-queue-type": "quorum", **SINGLE},
}  # fmt: skip


def _begin(s: Session, kind: str, *channels: int) -> None:
    """A queue, and channels for its consumers beside channel 1."""
    s.open("a", 1, *channels)
    exclusive = {"exclusive": True, "durable": False} if kind == "transient" else {}
    s.queue("o.q", KINDS[kind], **exclusive)


def _consume(s: Session, channel: int, priority: int = 0, prefetch: int = 0, **flags: bool) -> None:
    """The consumer of a channel, `c` and its number."""
    if prefetch:
        s.call(channel, "basic.qos", prefetch_count=prefetch)
    arguments = {"x-priority": priority} if priority else {}
    tag = f"c{channel}"
    s.call(channel, "basic.consume", queue="o.q", consumer_tag=tag, arguments=arguments, **flags)


@scenario(cases=list(KINDS))
def single_active_priorities(s: Session, kind: str) -> None:
    """Of those that wait the higher priority is next, and among equals the first."""
    _begin(s, kind, 2, 3, 4, 5)
    _consume(s, 2, 9)
    _consume(s, 3, 1)
    _consume(s, 4, 5)
    _consume(s, 5, 5)
    for channel in (2, 4, 5, 3):
        s.publish(1, "", "o.q", b"%d" % channel)
        s.take(channel)
        s.send(channel, "basic.ack", delivery_tag=1)
        s.call(channel, "basic.cancel", consumer_tag=f"c{channel}")


@scenario(cases=list(KINDS))
def single_active_outranked(s: Session, kind: str) -> None:
    """A consumer of a higher priority comes while the active one has nothing to do."""
    _begin(s, kind, 2, 3)
    _consume(s, 2)
    _consume(s, 3, 5)
    s.publish(1, "", "o.q", b"1")
    s.take(2 if kind != "quorum" else 3)
    s.quiet(3 if kind != "quorum" else 2)


@scenario(cases=list(KINDS))
def single_active_outranked_at_work(s: Session, kind: str) -> None:
    """The same while the active one holds messages, which it settles one by one."""
    _begin(s, kind, 2, 3)
    _consume(s, 2)
    for body in (b"1", b"2"):
        s.publish(1, "", "o.q", body)
    s.take(2, 2)
    _consume(s, 3, 5)
    s.publish(1, "", "o.q", b"3")
    s.quiet(3)
    s.send(2, "basic.ack", delivery_tag=1)
    s.quiet(3)
    s.send(2, "basic.ack", delivery_tag=2)
    s.quiet(3)
    s.quiet(2)


@scenario(cases=list(KINDS))
def single_active_outranked_for_nothing(s: Session, kind: str) -> None:
    """The higher one is gone again before the active one has settled what it holds."""
    _begin(s, kind, 2, 3, 4)
    _consume(s, 2)
    s.publish(1, "", "o.q", b"1")
    s.take(2)
    _consume(s, 3, 5)
    _consume(s, 4)
    s.call(3, "basic.cancel", consumer_tag="c3")
    s.publish(1, "", "o.q", b"2")
    s.quiet(4)
    s.send(2, "basic.nack", delivery_tag=1, requeue=False)
    s.quiet(4)
    s.quiet(2)


@scenario(cases=list(KINDS))
def single_active_back_in_line(s: Session, kind: str) -> None:
    """One that was outranked waits before those that came behind it."""
    _begin(s, kind, 2, 3, 4)
    _consume(s, 2)
    s.publish(1, "", "o.q", b"1")
    s.take(2)
    _consume(s, 4)
    _consume(s, 3, 5)
    s.send(2, "basic.ack", delivery_tag=1)
    s.call(3, "basic.cancel", consumer_tag="c3")
    s.publish(1, "", "o.q", b"2")
    s.quiet(2)
    s.quiet(4)


@scenario(cases=list(KINDS))
def single_active_prefetch(s: Session, kind: str) -> None:
    """Equals that wait with different prefetch limits; the active one's is used up."""
    _begin(s, kind, 2, 3, 4)
    _consume(s, 2, prefetch=1)
    _consume(s, 3, prefetch=1)
    _consume(s, 4, prefetch=10)
    for body in (b"1", b"2", b"3"):
        s.publish(1, "", "o.q", body)
    s.take(2)
    s.quiet(3)
    s.quiet(4)
    s.call(2, "basic.cancel", consumer_tag="c2")
    s.quiet(3)
    s.quiet(4)


@scenario(cases=list(KINDS))
def single_active_cancelled_at_work(s: Session, kind: str) -> None:
    """A consumer is cancelled and holds messages: another is active, and what comes back is its."""
    _begin(s, kind, 2, 3)
    _consume(s, 2)
    _consume(s, 3)
    for body in (b"1", b"2"):
        s.publish(1, "", "o.q", body)
    s.take(2, 2)
    s.call(2, "basic.cancel", consumer_tag="c2")
    s.publish(1, "", "o.q", b"3")
    s.take(3)
    s.send(2, "basic.ack", delivery_tag=1)
    s.send(2, "basic.nack", delivery_tag=2, requeue=True)
    s.take(3)


@scenario(cases=list(KINDS))
def single_active_gone(s: Session, kind: str) -> None:
    """The active one's channel closes, and then the next one's."""
    _begin(s, kind, 2, 3, 4)
    for channel in (2, 3, 4):
        _consume(s, channel)
    for body in (b"1", b"2"):
        s.publish(1, "", "o.q", body)
    s.take(2, 2)
    s.call(2, "channel.close", reply_code=200)
    s.take(3, 2)
    s.send(3, "basic.ack", delivery_tag=1)
    s.call(3, "channel.close", reply_code=200)
    s.take(4)
    s.quiet(4)


@scenario(cases=list(KINDS))
def single_active_requeued(s: Session, kind: str) -> None:
    """What the active one gives back comes to it again."""
    _begin(s, kind, 2, 3)
    _consume(s, 2)
    _consume(s, 3)
    s.publish(1, "", "o.q", b"1")
    s.take(2)
    s.send(2, "basic.nack", delivery_tag=1, requeue=True)
    s.take(2)
    s.quiet(3)


@scenario(cases=list(KINDS))
def single_active_automatic(s: Session, kind: str) -> None:
    """Consumers with automatic acknowledgement, one of which waits."""
    _begin(s, kind, 2, 3)
    _consume(s, 2, no_ack=True)
    _consume(s, 3, no_ack=True)
    for body in (b"1", b"2", b"3"):
        s.publish(1, "", "o.q", body)
    s.take(2, 3)
    s.call(2, "basic.cancel", consumer_tag="c2")
    s.publish(1, "", "o.q", b"4")
    s.take(3)


@scenario(cases=list(KINDS))
def single_active_exclusive(s: Session, kind: str) -> None:
    """A consumer that wants to be alone: the first one, and the second one."""
    _begin(s, kind, 2, 3)
    _consume(s, 2, exclusive=True)
    _consume(s, 3)
    _consume(s, 2, exclusive=True)
    s.publish(1, "", "o.q", b"1")
    s.quiet(2)
    s.quiet(3)


@scenario(cases=["classic"])
def single_active_get_beside(s: Session, kind: str) -> None:
    """A get beside an active consumer that has room, and beside one that has none."""
    _begin(s, kind, 2, 3)
    _consume(s, 2, prefetch=1)
    _consume(s, 3)
    for body in (b"1", b"2"):
        s.publish(1, "", "o.q", body)
    s.take(2)
    s.until("o.q", 1)
    s.get()
    s.quiet(3)


@scenario(cases=list(KINDS))
def single_active_counts(s: Session, kind: str) -> None:
    """Those that wait count as consumers; a queue with some is in use."""
    _begin(s, kind, 2, 3)
    _consume(s, 2)
    _consume(s, 3)
    s.call(1, "queue.declare", queue="o.q", passive=True)
    s.call(2, "basic.cancel", consumer_tag="c2")
    s.call(1, "queue.declare", queue="o.q", passive=True)


@scenario(cases=["classic", "quorum"])
def single_active_declared_again(s: Session, kind: str) -> None:
    """Whether one consumer is served is part of what makes two declares the same."""
    s.open()
    more = {"x-queue-type": kind}
    s.queue("o.with", {**SINGLE, **more})
    s.queue("o.with", more)
    s.queue("o.with", {"x-single-active-consumer": False, **more})
    s.queue("o.without", more)
    s.queue("o.without", {**SINGLE, **more})
    s.queue("o.without", {"x-single-active-consumer": False, **more})
