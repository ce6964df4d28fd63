"""The scripts about messages of quorum queues that wait for a time before they come again.

Source: POI-01 and POI-02; 2.3 of the acceptance (`rabbit_fifo` of RabbitMQ 4.3).
"""

from __future__ import annotations

import time
from typing import Any

from tests.clients.raw import Typed
from tests.oracle.registry import scenario
from tests.oracle.session import Session

MIN_MS = 1_500
TYPES = ("all", "failed", "returned", "disabled")
WAYS = ("reject", "nack", "recover", "channel", "timeout")
SHORT_MS = 700


def _queue(s: Session, name: str, kind: Any, least: Any = MIN_MS, most: Any = None) -> str:
    """A queue with a delay; `name` is made a name of its own."""
    return _queue_with(s, name, _delay(kind, least, most))


def _delay(kind: Any, least: Any = MIN_MS, most: Any = None) -> dict[str, Any]:
    given = {"type": kind, "min": least, "max": most}
    return {f"x-delayed-retry-{name}": value for name, value in given.items() if value is not None}


def _queue_with(s: Session, name: str, arguments: dict[str, Any]) -> str:
    queue = f"o.delayed.{name}"
    s.queue(queue, {"x-queue-type": "quorum", **arguments})
    return queue


def _returns(s: Session, queue: str, tag: int, channel: int = 2) -> None:
    s.send(channel, "basic.reject", delivery_tag=tag, requeue=True)
    s.until_settled(queue)


def _rest(s: Session, queue: str, ready: int, bound_s: float = 20.0) -> None:
    """Wait until so many messages are ready, however long they are delayed, and get all."""
    end = time.monotonic() + bound_s
    client = s.clients["watch"]
    while time.monotonic() < end:
        reply = client.ask(9, "queue.declare", queue=queue, passive=True)
        if reply.args["message_count"] == ready:
            break
        time.sleep(0.02)
    s.drain(queue)


@scenario(cases={f"{kind}, {way}": (kind, way) for kind in TYPES for way in WAYS}, waits=True)
def delayed_by_type(s: Session, case: tuple[str, str]) -> None:
    """What waits, of what comes back in each way: the second message is next then."""
    kind, way = case
    s.open("a", 1, 2, 3)
    queue = _queue_with(s, f"{kind}.{way}", {**_delay(kind), "x-consumer-timeout": SHORT_MS})
    s.put(queue, b"1", b"2")
    s.get(queue, 2)
    if way in ("reject", "nack"):
        s.send(2, f"basic.{way}", delivery_tag=1, requeue=True)
    elif way == "recover":
        s.call(2, "basic.recover", requeue=True)
    elif way == "channel":
        s.call(2, "channel.close", reply_code=200, reply_text="")
    else:
        s.clients["a"].expect(2, "channel.close")
        s.clients["a"].send(2, "channel.close-ok")
    s.until_settled(queue)
    s.call(1, "queue.declare", queue=queue, passive=True)
    _rest(s, queue, 2)


DELAYS: dict[str, tuple[Any, Any]] = {
    "grows": (400, 100_000), "no most": (1_000, None), "most": (500, 700), "most below": (900, 300),
}  # fmt: skip


@scenario(cases=list(DELAYS), waits=True)
def delayed_for(s: Session, case: str) -> None:
    """How long a message waits that is rejected again and again: at least so long."""
    least, most = DELAYS[case]
    s.open("a", 1, 2)
    queue = _queue(s, case.replace(" ", "."), "all", least, most)
    s.put(queue, b"1")
    for tag in range(1, 4):
        s.get(queue, 2)
        since = time.monotonic()
        s.send(2, "basic.reject", delivery_tag=tag, requeue=True)
        s.until(queue, 0)
        s.until(queue, 1)
        wanted = min(least * tag, most if most is not None else least) / 1000
        s.note({"waited": time.monotonic() - since > wanted - 0.01, "seconds": wanted})
    s.get(queue, 2)


WRONG: dict[str, tuple[Any, Any, Any]] = {
    "no min": ("all", None, 500), "min 0": ("all", 0, None), "min -1": ("all", -1, None),
    "min text": ("all", "500", None), "no type": (None, MIN_MS, None), "type 1": (1, MIN_MS, None),
    "other": ("ALL", MIN_MS, None), "max text": ("all", MIN_MS, "x"), "max 0": ("all", MIN_MS, 0),
    "max -1": ("all", MIN_MS, -1), "min 1.5": ("all", 1500.5, None),
    "max 1.5": ("all", MIN_MS, 1.5),
    "max below": ("failed", 60_000, 1), "bytes": (Typed("x", b"all"), MIN_MS, None),
    "time": ("all", Typed("T", MIN_MS), None),
}  # fmt: skip


@scenario(cases=list(WRONG), waits=True)
def delayed_arguments(s: Session, case: str) -> None:
    """What arguments that are wrong come to."""
    s.open("a", 1, 2)
    queue = _queue(s, case.replace(" ", "."), *WRONG[case])
    s.put(queue, b"1", b"2")
    s.get(queue, 2)
    _returns(s, queue, 1)
    s.call(1, "queue.declare", queue=queue, passive=True)
    _rest(s, queue, 2)


@scenario(waits=True)
def delayed_counts(s: Session) -> None:
    """Messages that wait are not ready, and are purged and deleted with those that are."""
    s.open("a", 1, 2)
    queue = _queue(s, "counts", "all", 600_000)
    s.put(queue, b"1", b"2", b"3")
    for tag in (1, 2):
        s.get(queue, 2)
        _returns(s, queue, tag)
    s.call(1, "queue.declare", queue=queue, passive=True)
    s.call(1, "queue.purge", queue=queue)
    s.call(1, "queue.purge", queue=queue)
    s.put(queue, b"4", b"5")
    s.get(queue, 2)
    _returns(s, queue, 3)
    s.call(1, "queue.delete", queue=queue)


@scenario(waits=True)
def delayed_order(s: Session) -> None:
    """Those of one return come in their order, before what was never handed out."""
    s.open("a", 1, 2)
    queue = _queue(s, "order", "all")
    s.put(queue, b"1", b"2", b"3", b"4", b"5")
    for _ in range(4):
        s.get(queue, 2)
    s.send(2, "basic.nack", delivery_tag=3, multiple=True, requeue=True)
    _rest(s, queue, 4)


@scenario(waits=True)
def delayed_longer(s: Session) -> None:
    """One that failed more often is behind one that came back later."""
    s.open("a", 1, 2)
    queue = _queue(s, "longer", "failed", 600, 60_000)
    s.put(queue, b"1")
    for tag in (1, 2):
        s.get(queue, 2)
        s.send(2, "basic.reject", delivery_tag=tag, requeue=True)
        s.until(queue, 0)
        s.until(queue, 1)
    s.publish(1, "", queue, b"2", {"delivery_mode": 2})
    s.until(queue, 2)
    for _ in range(2):
        s.get(queue, 2)
    s.send(2, "basic.reject", delivery_tag=3, requeue=True)
    s.send(2, "basic.reject", delivery_tag=4, requeue=True)
    _rest(s, queue, 2)


@scenario(waits=True)
def delayed_priorities(s: Session) -> None:
    """What waited goes before all priorities."""
    s.open("a", 1, 2)
    queue = _queue(s, "priorities", "all")
    s.put(queue, b"low", priority=1)
    s.get(queue, 2)
    s.until(queue, 0)
    s.put(queue, b"high", priority=9)
    _returns(s, queue, 1)
    _rest(s, queue, 2)


@scenario(waits=True)
def delayed_to_a_consumer(s: Session) -> None:
    """A consumer gets the others meanwhile; a limit of one message is not used up."""
    s.open("a", 1, 2)
    queue = _queue(s, "consumer", "all")
    s.put(queue, b"1", b"2")
    s.call(2, "basic.qos", prefetch_count=1)
    s.call(2, "basic.consume", queue=queue, consumer_tag="c")
    s.take(2)
    s.send(2, "basic.nack", delivery_tag=1, requeue=True)
    s.take(2)
    s.send(2, "basic.ack", delivery_tag=2)
    s.take(2)


@scenario(waits=True)
def delayed_to_the_active_consumer(s: Session) -> None:
    """The one that is active goes on, and one that waits gets it when that is gone."""
    s.open("a", 1, 2, 3)
    queue = _queue_with(s, "single", {**_delay("all"), "x-single-active-consumer": True})
    for channel in (2, 3):
        s.call(channel, "basic.consume", queue=queue, consumer_tag=f"c{channel}")
    s.publish(1, "", queue, b"1")
    s.take(2)
    s.send(2, "basic.reject", delivery_tag=1, requeue=True)
    s.take(2)
    s.call(2, "channel.close", reply_code=200, reply_text="")
    s.publish(1, "", queue, b"2")
    s.take(3, 2)


@scenario(waits=True)
def delayed_past_the_limit(s: Session) -> None:
    """A message that has failed too often dies at once, and waits for nothing."""
    s.open("a", 1, 2)
    s.queue("o.delayed.dead")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "o.delayed.dead"}
    queue = _queue_with(s, "limit", {**_delay("all", 400), "x-delivery-limit": 1, **arguments})
    s.put(queue, b"1")
    for tag in (1, 2):
        s.get(queue, 2)
        s.send(2, "basic.reject", delivery_tag=tag, requeue=True)
        s.until(queue, 0)
        if tag == 1:
            s.until(queue, 1)
    s.until("o.delayed.dead", 1)
    s.get("o.delayed.dead", no_ack=True)


@scenario(waits=True)
def delayed_and_expired(s: Session) -> None:
    """A message expires while it waits, and dies when it has waited."""
    s.open("a", 1, 2)
    s.queue("o.delayed.expired")
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "o.delayed.expired"}
    queue = _queue_with(s, "expires", {**_delay("all", 2_500), **arguments})
    s.publish(1, "", queue, b"1", {"expiration": "700", "delivery_mode": 2})
    s.until(queue, 1)
    s.get(queue, 2)
    s.send(2, "basic.reject", delivery_tag=1, requeue=True)
    time.sleep(1.2)
    s.get("o.delayed.expired", no_ack=True)
    s.until("o.delayed.expired", 1)
    s.get("o.delayed.expired", no_ack=True)
    s.get(queue)


@scenario(cases=["drop-head", "reject-publish"], waits=True)
def delayed_and_limited(s: Session, overflow: str) -> None:
    """Messages that wait count towards a limit of length."""
    s.open("a", 1, 2)
    s.call(1, "confirm.select")
    arguments = {"x-max-length": 2, "x-overflow": overflow}
    queue = _queue_with(s, overflow, {**_delay("all"), **arguments})
    s.publish(1, "", queue, b"1", {"delivery_mode": 2})
    s.confirmed(1, 1)
    s.get(queue, 2)
    _returns(s, queue, 1)
    for body in (b"2", b"3", b"4", b"5"):
        s.publish(1, "", queue, body, {"delivery_mode": 2})
        s.confirmed(1, 1)
    s.until_settled(queue)
    s.call(2, "queue.declare", queue=queue, passive=True)
    _rest(s, queue, 2)


@scenario(waits=True)
def delayed_without_a_limit(s: Session) -> None:
    """Without a delivery limit all waits, too, and the time grows with failures alone."""
    s.open("a", 1, 2)
    queue = _queue_with(s, "unlimited", {**_delay("returned", 500, 60_000), "x-delivery-limit": -1})
    s.put(queue, b"1", b"2")
    for tag in range(1, 4):
        s.get(queue, 2)
        since = time.monotonic()
        s.send(2, "basic.nack", delivery_tag=tag, requeue=True)
        s.until(queue, 1)
        s.until(queue, 2)
        s.note({"waited": 0.49 < time.monotonic() - since})
    s.drain(queue)


@scenario(waits=True)
def delayed_purged_while_held(s: Session) -> None:
    """A purge takes what waits, and not what a consumer holds."""
    s.open("a", 1, 2)
    queue = _queue(s, "purged", "all", 500)
    s.put(queue, b"1", b"2", b"3")
    for _ in range(2):
        s.get(queue, 2)
    _returns(s, queue, 1)
    s.call(1, "queue.purge", queue=queue)
    _returns(s, queue, 2)
    _rest(s, queue, 1)
