"""What random sequences found that the other scripts had not asked for (`sequences`).

Source: CQ-01, CQ-08, QL-02, QQ-11, DL-01, POI-01, ARG-01.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}
KINDS: dict[str, dict[str, Any]] = {
    "classic": {"durable": True},
    "transient": {"durable": False},
    "quorum": {"durable": True, "arguments": QUORUM},
}


@scenario(cases=KINDS)
def expired_behind_another(s: Session, kind: dict[str, Any]) -> None:
    """What expired while others stood before it goes when its turn comes, and nobody gets it."""
    s.open()
    s.queue(**kind)
    for number in range(6):
        s.publish(1, "", "o.q", b"%d" % number, {"expiration": "1"} if number % 3 else {})
    s.until_settled("o.q")
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(1, 2)
    s.quiet(1)
    s.queue("o.q", passive=True)


@scenario(cases=KINDS)
def expired_between_consumers(s: Session, kind: dict[str, Any]) -> None:
    """The same where two consumers take turns."""
    s.open("a", 1, 2)
    s.queue(**kind)
    s.call(1, "basic.qos", prefetch_count=1)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.publish(1, "", "o.q", b"held")
    s.take(1)
    for number in range(4):
        s.publish(1, "", "o.q", b"%d" % number, {"expiration": "1"} if number % 2 else {})
    s.until_settled("o.q")
    s.call(2, "basic.consume", queue="o.q", consumer_tag="d")
    s.take(2, 2)
    s.quiet(2)
    s.send(1, "basic.ack", delivery_tag=1)
    s.quiet(1)


@scenario(cases=KINDS)
def expired_behind_a_returned_one(s: Session, kind: dict[str, Any]) -> None:
    """What returned stands before what was never handed out, in a classic queue."""
    s.open()
    s.queue(**kind)
    s.put("o.q", b"1")
    s.send(1, "basic.nack", delivery_tag=s.get("o.q"), requeue=True)
    s.until("o.q", 1)
    s.publish(1, "", "o.q", b"2", {"expiration": "1"})
    s.until_settled("o.q")
    s.queue("o.q", **{**kind, "passive": True})
    s.drain("o.q")


@scenario(cases=["transient", "durable"])
def no_priority_is_one(s: Session, case: str) -> None:
    """Who asks for priorities up to 0 gets two of them."""
    s.open()
    durable = case == "durable"
    s.queue("o.q", {"x-max-priority": 0}, durable=durable)
    s.queue("o.q", {"x-max-priority": 1}, durable=durable)
    for number, priority in enumerate((0, 1, 0, 4)):
        s.publish(1, "", "o.q", b"%d" % number, {"priority": priority})
    s.until("o.q", 4)
    s.drain("o.q")


COUNTED = {
    f"{name}, {how}": (kind, how == "settled")
    for name, kind in KINDS.items()
    for how in ("held", "settled")
}


@scenario(cases=COUNTED)
def counted_before_it_expires(s: Session, case: tuple[dict[str, Any], bool]) -> None:
    """Who gets a message to hold it is told of those behind it that go next, too, if quorum."""
    kind, no_ack = case
    s.open()
    s.queue(**kind)
    s.publish(1, "", "o.q", b"1")
    s.until("o.q", 1)
    s.publish(1, "", "o.q", b"2", {"expiration": "0"})
    s.publish(1, "", "o.q", b"3")
    s.until_settled("o.q")
    s.get("o.q", no_ack=no_ack)
    s.until("o.q", 1)
    s.drain("o.q")


LIMITS: dict[str, dict[str, Any]] = {
    "length": {"x-max-length": 1},
    "bytes": {"x-max-length-bytes": 3},
    "nothing": {"x-max-length": 0},
    "reject-publish": {"x-max-length": 1, "x-overflow": "reject-publish"},
    "reject-publish-dlx": {"x-max-length": 1, "x-overflow": "reject-publish-dlx"},
    "quorum": {"x-max-length": 1, **QUORUM},
}


@scenario(cases=LIMITS)
def returned_without_room(s: Session, arguments: dict[str, Any]) -> None:
    """What comes back to a full classic queue is dropped before its consumer could have it."""
    s.open()
    s.queue("o.q", arguments)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.call(1, "confirm.select")
    for number in range(3):
        s.publish(1, "", "o.q", b"%03d" % number)
        s.take_any(1, 2)
    s.send(1, "basic.nack", delivery_tag=3, multiple=True, requeue=True)
    s.quiet(1)
    s.queue("o.q", passive=True)


@scenario(cases=["nack", "channel"])
def returned_without_room_to_another(s: Session, way: str) -> None:
    """The same where somebody else waits, who would take all."""
    s.open("a", 1, 2)
    s.queue("o.dead")
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "o.dead"}
    s.queue("o.q", {"x-max-length": 2, **letters})
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    for number in range(4):
        s.publish(1, "", "o.q", b"%d" % number)
        s.take(2)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="d", arguments={"x-priority": -1})
    if way == "nack":
        s.call(2, "basic.cancel", consumer_tag="c")
        s.send(2, "basic.nack", delivery_tag=0, multiple=True, requeue=True)
    else:
        s.call(2, "channel.close")
    s.quiet(1)
    s.until("o.dead", 2)
    s.drain("o.dead")


@scenario(cases=["rejected", "expired", "maxlen"])
def dead_letter_of_classic(s: Session, reason: str) -> None:
    """A message that failed in a classic queue is new to the next one, of whatever type."""
    s.open()
    s.queue("o.quorum", QUORUM)
    s.queue("o.classic")
    s.call(1, "exchange.declare", exchange="o.x", type="fanout")
    for queue in ("o.quorum", "o.classic"):
        s.call(1, "queue.bind", queue=queue, exchange="o.x")
    arguments: dict[str, Any] = {"x-dead-letter-exchange": "o.x"}
    if reason == "maxlen":
        arguments["x-max-length"] = 1
    s.queue("o.q", arguments)
    s.publish(1, "", "o.q", b"1", {"expiration": "2000"} if reason == "expired" else {})
    s.until("o.q", 1)
    for _ in range(2):
        s.send(1, "basic.reject", delivery_tag=s.get("o.q"), requeue=True)
    if reason == "rejected":
        s.send(1, "basic.reject", delivery_tag=s.get("o.q"))
    elif reason == "maxlen":
        s.publish(1, "", "o.q", b"2")
    s.until("o.quorum", 1)
    s.until("o.classic", 1)
    s.drain("o.classic", "o.quorum")


WAITED_FOR = {
    f"{name}, {way}": (arguments, way)
    for name, arguments in (("quorum", QUORUM), ("classic", {"x-max-priority": 9}))
    for way in ("rejected", "expired", "published")
}


@scenario(cases=WAITED_FOR)
def served_as_they_come(s: Session, case: tuple[dict[str, Any], str]) -> None:
    """Who waits has messages that come together as they came, whatever their priorities."""
    arguments, way = case
    s.open("a", 1, 2)
    s.queue("o.to", arguments)
    letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "o.to"}
    if way == "expired":
        letters["x-message-ttl"] = 0  # type: ignore[assignment]
    s.queue("o.q", letters)
    s.call(1, "basic.consume", queue="o.to", consumer_tag="c")
    s.call(2, "basic.consume", queue="o.q", consumer_tag="d")
    for number, priority in enumerate((0, 9, 1, 0, 9)):
        to = "o.to" if way == "published" else "o.q"
        s.publish(2, "", to, b"%d" % number, {"priority": priority})
    if way != "published":
        s.take(2, 5)
        s.send(2, "basic.nack", delivery_tag=5, multiple=True, requeue=way == "expired")
    s.take(1, 5)


WRONG: dict[str, dict[str, Any]] = {
    "values": {"x-single-active-consumer": [], "x-dead-letter-routing-key": "k"},
    "value and unknown": {"x-delivery-limit": 1, "x-max-length": "one"},
    "of no use": {"x-quorum-initial-group-size": 1, "x-delivery-limit": 1},
    "of no use, with a type": {
        "x-quorum-initial-group-size": 1, "x-delivery-limit": 1, "x-queue-type": "classic",
    },
    "quorum": {"x-queue-type": "quorum", "x-quorum-initial-group-size": 0, "x-overflow": "none"},
    "quorum, of no use": {"x-queue-type": "quorum", "x-queue-mode": "lazy", "x-max-priority": 1},
    "all": {
        "x-overflow": 1, "x-max-priority": 1000, "x-max-length-bytes": -1, "x-max-length": -1,
        "x-dead-letter-strategy": "none", "x-message-ttl": -1, "x-expires": 0,
    },
}  # fmt: skip


@scenario(cases=WRONG)
def arguments_wrong_together(s: Session, arguments: dict[str, Any]) -> None:
    """Of several wrong arguments one is named."""
    s.open()
    left = dict(arguments)
    while left:
        event = s.queue("o.q", left)
        text = event.args.get("reply_text", "") if event is not None else ""
        named = [name for name in left if f"'{name}'" in text]
        if not named:
            break
        del left[named[0]]
