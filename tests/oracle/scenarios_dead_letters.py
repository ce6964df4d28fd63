"""The scripts about dead letters: why, where to, with which headers.

Source: DL-01, DL-06, QQ-21, POI-02; `rabbit_dead_letter` and `mc` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}
KEPT = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", **QUORUM}
DROPPING: dict[str, dict[str, Any]] = {"classic": {}, "quorum": QUORUM}
KINDS: dict[str, dict[str, Any]] = {**DROPPING, "kept": KEPT}
DLX = "x-dead-letter-exchange"
KEY = "x-dead-letter-routing-key"


def _kind(arguments: dict[str, Any]) -> str:
    return next(kind for kind, given in KINDS.items() if given == arguments)


def _with_target(s: Session, name: str, arguments: dict[str, Any], *channels: int) -> None:
    """Declare `name` with dead letters to the default exchange, and the queue that gets them."""
    s.open("a", *(channels or (1,)))
    s.queue(f"{name}.dead")
    s.queue(name, {DLX: "", KEY: f"{name}.dead", **arguments})


@scenario(cases=KINDS)
def dead_rejected(s: Session, arguments: dict[str, Any]) -> None:
    """Rejected and nacked messages, one by one and together, with all their properties."""
    _with_target(s, "o.q", arguments)
    everything = {"content_type": "t", "headers": {"h": [1]}, "message_id": "m", "priority": 3}
    s.put("o.q", b"1", b"2", b"3", **everything)
    tags = [s.get() for _ in range(3)]
    s.send(1, "basic.reject", delivery_tag=tags[0])
    s.send(1, "basic.nack", delivery_tag=tags[2], multiple=True)
    s.until("o.q.dead", 3)
    s.drain("o.q.dead")


@scenario(cases=KINDS, waits=True)
def dead_expired_in_queue(s: Session, arguments: dict[str, Any]) -> None:
    """Messages that outlive the queue's time to live."""
    name = f"o.ttl.{_kind(arguments)}"
    _with_target(s, name, {"x-message-ttl": 100, **arguments})
    s.publish(1, "", name, b"1", {"headers": {"h": 1}})
    s.publish(1, "", name, b"2", {"expiration": "50"})
    s.until(f"{name}.dead", 2)
    s.drain(f"{name}.dead")


@scenario(cases=KINDS, waits=True)
def dead_expired_itself(s: Session, arguments: dict[str, Any]) -> None:
    """Messages that outlive their own; the expiration is gone from them, and told."""
    name = f"o.own.{_kind(arguments)}"
    _with_target(s, name, arguments)
    s.publish(1, "", name, b"1", {"expiration": "50"})
    s.publish(1, "", name, b"2", {"expiration": "0"})
    s.until(f"{name}.dead", 2)
    s.drain(f"{name}.dead")


@scenario(cases=DROPPING)
def dead_for_length(s: Session, arguments: dict[str, Any]) -> None:
    """The oldest messages go when there are too many."""
    _with_target(s, "o.q", {"x-max-length": 2, **arguments})
    for number in range(4):
        s.publish(1, "", "o.q", b"%d" % number)
    s.until("o.q.dead", 2)
    s.drain("o.q.dead", "o.q")


FULL: dict[str, dict[str, Any]] = {
    "length": {"x-max-length": 2},
    "bytes": {"x-max-length-bytes": 3},
    "nothing": {"x-max-length": 0},
    "priorities": {"x-max-length": 2, "x-max-priority": 3},
}


@scenario(cases=FULL)
def dead_for_want_of_room(s: Session, arguments: dict[str, Any]) -> None:
    """Publishes that a full classic queue rejects go through its exchange, and are not safe."""
    _with_target(s, "o.q", {"x-overflow": "reject-publish-dlx", **arguments})
    s.call(1, "confirm.select")
    everything = {"headers": {"h": [1], "CC": ["o.cc"]}, "message_id": "m", "priority": 3}
    s.queue("o.cc")
    for number, properties in enumerate([{}, {"expiration": "100000"}, everything, everything]):
        s.publish(1, "", "o.q", b"%d" % number, properties)
        s.confirmed(1, 1)
    s.until_settled("o.q.dead")
    s.drain("o.q.dead", "o.q", "o.cc")


@scenario
def dead_for_want_of_room_again(s: Session) -> None:
    """Where the queue for dead letters is full as well, and its own are for the first one."""
    s.open()
    s.call(1, "confirm.select")
    full = {"x-max-length": 1, "x-overflow": "reject-publish-dlx"}
    s.queue("o.last")
    s.queue("o.second", {DLX: "amq.fanout", **full})
    s.queue("o.first", {DLX: "", KEY: "o.second", **full})
    for name in ("o.first", "o.last"):
        s.call(1, "queue.bind", queue=name, exchange="amq.fanout", routing_key="")
    for number in range(4):
        s.publish(1, "", "o.first", b"%d" % number)
        s.confirmed(1, 1)
    s.until_settled("o.second")
    s.until_settled("o.last")
    s.drain("o.first", "o.second", "o.last")


@scenario(cases=["no exchange", "itself", "in a transaction"])
def dead_for_want_of_room_nowhere(s: Session, case: str) -> None:
    """Without a place to go publishes are rejected all the same; so they are at a commit."""
    s.open()
    to = {} if case == "no exchange" else {DLX: "", KEY: "o.q" if case == "itself" else "o.dead"}
    s.queue("o.dead")
    s.queue("o.q", {"x-max-length": 1, "x-overflow": "reject-publish-dlx", **to})
    s.call(1, "tx.select" if case == "in a transaction" else "confirm.select")
    for number in range(3):
        s.publish(1, "", "o.q", b"%d" % number)
        if case != "in a transaction":
            s.confirmed(1, 1)
    if case == "in a transaction":
        s.call(1, "tx.commit")
    s.until_settled("o.dead")
    s.drain("o.q", "o.dead")


@scenario
def dead_for_deliveries(s: Session) -> None:
    """Messages of a quorum queue that failed too often."""
    _with_target(s, "o.q", {"x-delivery-limit": 2, **QUORUM})
    s.put("o.q", b"1")
    for _ in range(3):
        tag = s.get()
        s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        s.until_settled("o.q")
    s.until("o.q.dead", 1)
    s.drain("o.q.dead")


@scenario(cases=["nack", "reject", "expired"])
def dead_with_counts(s: Session, way: str) -> None:
    """How often a message came back and failed, also where it died before."""
    s.open()
    s.queue("o.second", {DLX: "", KEY: "o.third", **QUORUM})
    s.queue("o.third", QUORUM)
    s.queue("o.first", {DLX: "", KEY: "o.second", **QUORUM})
    s.publish(1, "", "o.first", b"1", {"expiration": "2000"} if way == "expired" else {})
    s.until("o.first", 1)
    for again in ("nack", "reject", "nack"):
        s.send(1, f"basic.{again}", delivery_tag=s.get("o.first"), requeue=True)
        s.until("o.first", 1)
    if way != "expired":
        s.send(1, f"basic.{way}", delivery_tag=s.get("o.first"), requeue=False)
    s.until("o.second", 1)
    for again in ("nack", "reject"):
        s.send(1, f"basic.{again}", delivery_tag=s.get("o.second"), requeue=True)
        s.until("o.second", 1)
    s.send(1, "basic.nack", delivery_tag=s.get("o.second"), requeue=False)
    s.until("o.third", 1)
    s.send(1, "basic.nack", delivery_tag=s.get("o.third"), requeue=True)
    s.until("o.third", 1)
    s.drain("o.third")


@scenario(cases=KINDS)
def dead_without_a_key(s: Session, arguments: dict[str, Any]) -> None:
    """Without a key of their own dead letters keep the message's, those of CC and BCC too."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="topic")
    for key in ("o.q", "o.cc", "o.bcc"):
        s.queue(f"{key}.dead")
        s.call(1, "queue.bind", queue=f"{key}.dead", exchange="o.x", routing_key=key)
    s.queue("o.q", {DLX: "o.x", **arguments})
    s.publish(1, "", "o.q", b"1", {"headers": {"CC": ["o.cc"], "BCC": ["o.bcc"]}})
    s.until("o.q", 1)
    s.send(1, "basic.reject", delivery_tag=s.get())
    s.until("o.q.dead", 1)
    s.until_settled("o.bcc.dead")
    s.drain("o.q.dead", "o.cc.dead", "o.bcc.dead")


@scenario(cases=KINDS)
def dead_with_a_key(s: Session, arguments: dict[str, Any]) -> None:
    """With a key of their own the copies of CC and BCC are not followed."""
    s.open()
    for name in ("o.dead", "o.cc"):
        s.queue(name)
    s.queue("o.q", {DLX: "", KEY: "o.dead", **arguments})
    s.publish(1, "", "o.q", b"1", {"headers": {"CC": ["o.cc"], "BCC": ["o.none"]}})
    s.until("o.q", 1)
    s.until("o.cc", 1)
    s.send(1, "basic.reject", delivery_tag=s.get())
    s.until("o.dead", 1)
    s.drain("o.dead", "o.cc")


@scenario(cases=KINDS)
def dead_twice(s: Session, arguments: dict[str, Any]) -> None:
    """What dies in two queues, and again in the first: the deaths that are told, in order."""
    s.open()
    s.queue("o.second", {DLX: "", KEY: "o.first", **arguments})
    s.queue("o.first", {DLX: "", KEY: "o.second", **arguments})
    s.put("o.first", b"1", headers={"h": 1})
    for name in ("o.first", "o.second", "o.first", "o.second"):
        s.until(name, 1)
        s.send(1, "basic.reject", delivery_tag=s.get(name))
    s.until("o.first", 1)
    s.drain("o.first")


@scenario(cases=KINDS, waits=True)
def dead_in_a_circle(s: Session, arguments: dict[str, Any]) -> None:
    """A message that would expire in a circle for ever is dropped."""
    kind = _kind(arguments)
    s.open()
    first, second = f"o.circle.{kind}.1", f"o.circle.{kind}.2"
    for name, then in ((first, second), (second, first)):
        s.queue(name, {DLX: "", KEY: then, "x-message-ttl": 50, **arguments})
    s.publish(1, "", first, b"1")
    s.until_settled(first)
    s.until_settled(second)
    s.drain(first, second)
    for name in (first, second):
        s.call(1, "queue.purge", queue=name)


NOWHERE: dict[str, dict[str, Any]] = {
    "no such exchange": {DLX: "o.none"},
    "no such queue": {DLX: "", KEY: "o.none"},
    "no binding": {DLX: "amq.topic", KEY: "o.nowhere"},
}


@scenario(cases=NOWHERE)
def dead_nowhere(s: Session, arguments: dict[str, Any]) -> None:
    """Dead letters that nothing takes are dropped."""
    s.open()
    for kind, declared in KINDS.items():
        s.queue(f"o.{kind}", {**arguments, **declared})
        s.put(f"o.{kind}", b"1")
        s.send(1, "basic.reject", delivery_tag=s.get(f"o.{kind}"))
        s.until_settled(f"o.{kind}")
        s.queue(f"o.{kind}", passive=True)
        s.call(1, "queue.purge", queue=f"o.{kind}")


@scenario
def dead_at_least_once(s: Session) -> None:
    """A quorum queue that keeps its dead letters until they are confirmed."""
    strategy = {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    _with_target(s, "o.q", {**strategy, **QUORUM})
    s.put("o.q", b"1", b"2")
    for _ in range(2):
        s.send(1, "basic.reject", delivery_tag=s.get())
    s.until("o.q.dead", 2)
    s.drain("o.q.dead")
    s.queue("o.q", passive=True)


@scenario
def dead_kept_counts(s: Session) -> None:
    """What is kept counts for the limit, and goes with a purge; publishes are rejected by then."""
    s.open()
    s.queue("o.q", {DLX: "", KEY: "o.none", "x-max-length": 1, **KEPT})
    s.put("o.q", b"1", b"2")
    for _ in range(2):
        s.send(1, "basic.reject", delivery_tag=s.get())
    s.until_settled("o.q")
    s.queue("o.q", passive=True)
    s.call(1, "confirm.select")
    s.publish(1, "", "o.q", b"3")
    s.confirmed(1, 1)
    s.call(1, "queue.purge", queue="o.q")
    s.until_settled("o.q")
    s.publish(1, "", "o.q", b"4")
    s.confirmed(1, 1)
    s.until("o.q", 1)
    s.queue("o.q", passive=True)


@scenario
def dead_kept_by_a_full_queue(s: Session) -> None:
    """A queue that rejects publishes does not get them, and others do; they stay."""
    s.open()
    for name, most in (("o.full", 0), ("o.dead", 9)):
        s.queue(name, {"x-max-length": most, "x-overflow": "reject-publish"})
        s.call(1, "queue.bind", queue=name, exchange="amq.fanout", routing_key="")
    s.queue("o.q", {DLX: "amq.fanout", **KEPT})
    s.put("o.q", b"1")
    s.send(1, "basic.reject", delivery_tag=s.get())
    s.until("o.dead", 1)
    s.drain("o.dead")
    s.call(1, "queue.purge", queue="o.q")


@scenario
def dead_letter_strategy_without_an_exchange(s: Session) -> None:
    """A strategy for dead letters that go nowhere."""
    s.open()
    s.queue("o.q", KEPT)
    s.put("o.q", b"1")
    s.send(1, "basic.reject", delivery_tag=s.get())
    s.until_settled("o.q")
    s.call(1, "queue.purge", queue="o.q")


@scenario
def dead_letter_strategy_that_falls_back(s: Session) -> None:
    """Where the first messages are dropped, dead letters go at most once."""
    s.open()
    s.queue("o.q", {DLX: "", KEY: "o.dead", **KEPT, "x-overflow": "drop-head"})
    s.put("o.q", b"1", b"2")
    s.send(1, "basic.reject", delivery_tag=s.get())
    s.until_settled("o.q")
    s.queue("o.dead")
    s.send(1, "basic.reject", delivery_tag=s.get())
    s.until("o.dead", 1)
    s.drain("o.dead")


@scenario(cases=KINDS)
def dead_letter_key_alone(s: Session, arguments: dict[str, Any]) -> None:
    """A key for dead letters without an exchange for them."""
    s.open()
    s.queue("o.q", {KEY: "o.dead", **arguments})


@scenario
def dead_letters_of_a_deleted_queue(s: Session) -> None:
    """What is purged, or goes with its queue, is no dead letter."""
    _with_target(s, "o.q", {})
    s.put("o.q", b"1", b"2")
    s.call(1, "queue.purge", queue="o.q")
    s.publish(1, "", "o.q", b"3")
    s.until("o.q", 1)
    s.call(1, "queue.delete", queue="o.q")
    s.until_settled("o.q.dead")
    s.queue("o.q.dead", passive=True)


@scenario(cases=KINDS)
def dead_with_headers_of_a_client(s: Session, arguments: dict[str, Any]) -> None:
    """What clients write of deaths themselves counts for nothing, also if it was the broker's."""
    _with_target(s, "o.q", arguments)
    told = [{"queue": "o.q", "reason": "rejected", "count": 5}]
    for headers in (
        {"x-death": "junk"},
        {"x-death": [1, 2]},
        {"x-death": told, "x-first-death-queue": "o.other", "x-last-death-reason": 7},
    ):
        s.publish(1, "", "o.q", b"1", {"headers": headers})
        s.until("o.q", 1)
        s.send(1, "basic.nack", delivery_tag=s.get(), requeue=False)
        s.until("o.q.dead", 1)
        s.drain("o.q.dead")


@scenario(cases=KINDS)
def dead_again_without_a_key(s: Session, arguments: dict[str, Any]) -> None:
    """A key of a queue's stands alone from then on: CC does not count for the next death."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="topic")
    for key in ("o.middle", "o.cc"):
        s.queue(f"{key}.dead")
        s.call(1, "queue.bind", queue=f"{key}.dead", exchange="o.x", routing_key=key)
    s.queue("o.middle", {DLX: "o.x", **arguments})
    s.queue("o.q", {DLX: "", KEY: "o.middle", **arguments})
    s.publish(1, "", "o.q", b"1", {"headers": {"CC": ["o.cc"], "BCC": ["o.bcc"]}})
    for name in ("o.q", "o.middle"):
        s.until(name, 1)
        s.send(1, "basic.nack", delivery_tag=s.get(name), requeue=False)
    s.until("o.middle.dead", 1)
    s.drain("o.middle.dead", "o.cc.dead")


@scenario(cases=KINDS)
def dead_through_an_alternate(s: Session, arguments: dict[str, Any]) -> None:
    """An exchange that has no route for a dead letter has another one take it."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.f", type="fanout", internal=True)
    s.call(
        1,
        "exchange.declare",
        exchange="o.x",
        type="headers",
        arguments={"alternate-exchange": "o.f"},
    )
    for name, exchange in (("o.f.dead", "o.f"), ("o.x.dead", "o.x")):
        s.queue(name)
        s.call(1, "queue.bind", queue=name, exchange=exchange, arguments={"h": 1})
    s.queue("o.q", {DLX: "o.x", **arguments})
    for number in (1, 2):
        s.put("o.q", b"%d" % number, headers={"h": number})
        s.send(1, "basic.nack", delivery_tag=s.get(), requeue=False)
    s.until("o.f.dead", 1)
    s.until("o.x.dead", 1)
    s.drain("o.f.dead", "o.x.dead")


CARRIED: dict[str, tuple[int, str, list[str], dict[str, Any]]] = {
    "below": (1, "o.next", ["reject"] * 4, {}),
    "above": (4, "o.next", ["reject"], {}),
    "above, given back": (4, "o.next", ["nack", "nack"], {}),
    "given back between": (1, "o.next", ["nack", "reject", "nack", "reject", "nack"], {}),
    "through a classic queue": (2, "o.classic", ["reject"] * 2, {}),
    "kept": (1, "o.next", ["reject"] * 4, KEPT),
}


@scenario(cases=CARRIED)
def dead_failures_count_in_the_next_queue(
    s: Session, case: tuple[int, str, list[str], dict[str, Any]]
) -> None:
    """What failed in one quorum queue counts towards the delivery limit of the next one."""
    times, to, answers, arguments = case
    s.open()
    s.queue("o.last")
    s.queue("o.next", {"x-delivery-limit": 2, DLX: "", KEY: "o.last", **QUORUM})
    s.queue("o.classic", {DLX: "", KEY: "o.next"})
    s.queue("o.q", {DLX: "", KEY: to, **QUORUM, **arguments})
    s.put("o.q", b"m")
    for _ in range(times):
        s.send(1, "basic.reject", delivery_tag=s.get(), requeue=True)
        s.until("o.q", 1)
    s.send(1, "basic.nack", delivery_tag=s.get(), requeue=False)
    if to == "o.classic":
        s.until("o.classic", 1)
        s.send(1, "basic.reject", delivery_tag=s.get("o.classic"), requeue=True)
        s.until("o.classic", 1)
        s.send(1, "basic.reject", delivery_tag=s.get("o.classic"), requeue=False)
    s.until("o.next", 1)
    for answer in answers:
        tag = s.get("o.next")
        if not tag:
            break
        s.send(1, f"basic.{answer}", delivery_tag=tag, requeue=True)
        s.until_settled("o.next")
    s.drain("o.next", "o.last")


@scenario(cases={"queue": {"x-message-ttl": 0}, "own": {}})
def dead_at_once_in_a_classic_queue(s: Session, arguments: dict[str, Any]) -> None:
    """Without time to live a message is for a consumer that is ready, or for nobody."""
    _with_target(s, "o.q", arguments)
    properties = {} if arguments else {"expiration": "0"}
    for body in (b"1", b"2"):
        s.publish(1, "", "o.q", body, properties)
        s.get("o.q")
    s.until("o.q.dead", 2)
    s.call(1, "basic.qos", prefetch_count=1)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    for body in (b"3", b"4"):
        s.publish(1, "", "o.q", body, properties)
    s.take(1)
    s.until("o.q.dead", 3)
    s.drain("o.q.dead", "o.q")
