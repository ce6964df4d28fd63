"""The scripts about where messages of a quorum queue stand that came back, and what they count.

Source: POI-01, POI-11, POI-12.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.registry import scenario
from tests.oracle.session import Session

LIMITS: dict[str, dict[str, Any]] = {"limited": {}, "unlimited": {"x-delivery-limit": -1}}
CASES = {
    f"{how}, {limit}": (how, limit)
    for limit in LIMITS
    for how in ("reject", "nack", "recover", "channel", "connection", "cancelled")
}
SHORT_MS = 700


def _queue(s: Session, name: str, limit: str, **more: Any) -> None:
    s.queue(name, {"x-queue-type": "quorum", **LIMITS[limit], **more})


@scenario(cases=CASES)
def returned_place(s: Session, case: tuple[str, str]) -> None:
    """Of five messages two come back, and then another one, all in the same way."""
    how, limit = case
    s.open()
    _queue(s, "o.q", limit)
    s.put("o.q", b"1", b"2", b"3", b"4", b"5")
    for who, count, ready in (("b", 2, 3), ("c", 1, 2)):
        s.open(who)
        if how == "cancelled":
            s.call(1, "basic.qos", who, prefetch_count=count)
            s.call(1, "basic.consume", who, queue="o.q", consumer_tag="c")
            s.take(1, count, who)
            s.call(1, "basic.cancel", who, consumer_tag="c")
        else:
            for _ in range(count):
                s.get("o.q", 1, who)
        s.until("o.q", ready)
    _give_back(s, how, "b", 2)
    s.until("o.q", 4)
    _give_back(s, how, "c", 1)
    s.until("o.q", 5)
    s.drain("o.q")


def _give_back(s: Session, how: str, who: str, count: int) -> None:
    """All that a channel holds."""
    if how == "reject":
        for tag in range(1, count + 1):
            s.send(1, "basic.reject", who, delivery_tag=tag, requeue=True)
    elif how in ("nack", "cancelled"):
        s.send(1, "basic.nack", who, delivery_tag=count, multiple=True, requeue=True)
    elif how == "recover":
        s.call(1, "basic.recover", who, requeue=True)
    elif how == "channel":
        s.call(1, "channel.close", who, reply_code=200, reply_text="")
    else:
        s.cut(who)


@scenario(cases=list(LIMITS))
def returned_one_by_one(s: Session, limit: str) -> None:
    """Messages come back in another order than the one that they were delivered in."""
    s.open("a", 1, 2)
    _queue(s, "o.q", limit)
    s.put("o.q", b"1", b"2", b"3", b"4", b"5", b"6")
    for _ in range(5):
        s.get("o.q", 2)
    order = [(3, "nack"), (1, "reject"), (4, "reject"), (2, "nack")]
    for ready, (tag, method) in enumerate(order, 2):
        s.send(2, f"basic.{method}", delivery_tag=tag, requeue=True)
        s.until("o.q", ready)
    s.drain("o.q")


@scenario(cases=list(LIMITS))
def returned_priorities(s: Session, limit: str) -> None:
    """Messages with priorities come back, by nack and by reject, among others that have some."""
    s.open("a", 1, 2)
    _queue(s, "o.q", limit)
    ready = 0
    for priority in (9, 9, 5, 5, 1, 1):
        s.publish(1, "", "o.q", b"%d" % priority, {"priority": priority, "delivery_mode": 2})
        ready += 1
        s.until("o.q", ready)
    for _ in range(4):
        s.get("o.q", 2)
    for tag, method in enumerate(("nack", "reject", "nack", "reject"), 1):
        s.send(2, f"basic.{method}", delivery_tag=tag, requeue=True)
        s.until("o.q", 2 + tag)
    s.publish(1, "", "o.q", b"later", {"delivery_mode": 2})
    s.publish(1, "", "o.q", b"high", {"priority": 5, "delivery_mode": 2})
    s.until("o.q", 8)
    s.drain("o.q")


@scenario(cases=list(LIMITS))
def returned_to_a_consumer(s: Session, limit: str) -> None:
    """A consumer that gives back gets what is next, which may be what it gave back."""
    s.open("a", 1, 2)
    _queue(s, "o.q", limit)
    s.put("o.q", b"1", b"2", b"3")
    s.call(2, "basic.qos", prefetch_count=1)
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(2)
    for tag, method in enumerate(("nack", "nack", "reject", "reject", "nack"), 1):
        s.send(2, f"basic.{method}", delivery_tag=tag, requeue=True)
        s.take(2)


@scenario(cases=list(LIMITS), waits=True)
def returned_by_a_timeout(s: Session, limit: str) -> None:
    """Where messages stand that a consumer held for too long."""
    queue = f"o.returns.{limit}"
    s.open("a", 1, 2)
    _queue(s, queue, limit)
    s.put(queue, b"1", b"2", b"3", b"4")
    s.call(2, "basic.qos", prefetch_count=2)
    s.call(2, "basic.consume", queue=queue, consumer_tag="c",
           arguments={"x-consumer-timeout": SHORT_MS})  # fmt: skip
    s.take(2, 3)
    s.until(queue, 4)
    s.drain(queue)
