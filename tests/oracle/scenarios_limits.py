"""The scripts about time to live, lengths, priorities and single active consumers.

Source: CQ-01, CQ-08, QL-02, QL-03, QQ-11 to QQ-13, QQ-18, DUR-08, CT-04, CT-05.
"""

from __future__ import annotations

from typing import Any

from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}
KINDS: dict[str, dict[str, Any]] = {"classic": {}, "quorum": QUORUM}


@scenario(cases=KINDS, waits=True)
def queue_expires(s: Session, arguments: dict[str, Any]) -> None:
    """A queue that nobody uses goes."""
    name = f"o.expires.{'quorum' if arguments else 'classic'}"
    s.open()
    s.queue(name, {"x-expires": 300, **arguments})
    s.until_unused(name, 9.0)
    s.queue(name, passive=True)


@scenario(cases=KINDS, waits=True)
def messages_expire(s: Session, arguments: dict[str, Any]) -> None:
    """Messages older than the queue's time to live go; those that are out stay out."""
    name = f"o.messages.{'quorum' if arguments else 'classic'}"
    s.open()
    s.queue(name, {"x-message-ttl": 1000, **arguments})
    s.publish(1, "", name, b"1")
    s.publish(1, "", name, b"2")
    s.until(name, 2)
    tag = s.get(name)
    s.until(name, 0)
    s.get(name)
    s.send(1, "basic.ack", delivery_tag=tag)


@scenario(cases=KINDS)
def messages_expire_at_once(s: Session, arguments: dict[str, Any]) -> None:
    """Without any time to live, what a consumer waits for gets to it, and nothing else stays."""
    s.open("a", 1, 2)
    s.queue("o.q", {"x-message-ttl": 0, **arguments})
    s.publish(1, "", "o.q", b"lost")
    s.until_settled("o.q")
    s.get()
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.publish(1, "", "o.q", b"taken")
    s.take(2)


LIMITS: dict[str, dict[str, Any]] = {
    "length": {"x-max-length": 3},
    "bytes": {"x-max-length-bytes": 6},
    "both": {"x-max-length": 4, "x-max-length-bytes": 4},
    "drop-head": {"x-max-length": 3, "x-overflow": "drop-head"},
    "reject-publish": {"x-max-length": 3, "x-overflow": "reject-publish"},
    "reject-publish, bytes": {"x-max-length-bytes": 6, "x-overflow": "reject-publish"},
    "reject-publish-dlx": {"x-max-length": 3, "x-overflow": "reject-publish-dlx"},
    "nothing": {"x-max-length": 0},
}


@scenario(cases=LIMITS)
def classic_limit(s: Session, arguments: dict[str, Any]) -> None:
    """What is left, and confirmed, of six messages of two bytes in a classic queue."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q", arguments)
    for number in range(6):
        s.publish(1, "", "o.q", b"%02d" % number)
        s.confirmed(1, 1)
    s.queue("o.q", passive=True)
    s.drain("o.q")
    s.publish(1, "", "o.q", b"again")
    s.confirmed(1, 1)


@scenario(cases=[name for name in LIMITS if "reject" not in name])
def quorum_limit(s: Session, case: str) -> None:
    """The same of a quorum queue that drops its head."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q", {**LIMITS[case], **QUORUM})
    for number in range(6):
        s.publish(1, "", "o.q", b"%02d" % number)
        s.confirmed(1, 1)
    s.until_settled("o.q")
    s.drain("o.q")


@scenario(cases=["reject-publish", "reject-publish, bytes", "reject-publish-dlx"])
def quorum_limit_rejects(s: Session, case: str) -> None:
    """One more than there may be is taken, then publishes are rejected until four fifths are left.

    What is out to a consumer counts no more; what it gives back does.
    """
    s.open("a", 1, 2)
    s.call(1, "confirm.select")
    s.queue("o.q", {**LIMITS[case], **QUORUM})
    for number in range(6):
        s.publish(1, "", "o.q", b"%02d" % number)
        s.confirmed(1, 1)
        s.until_settled("o.q")
    tag = s.get("o.q", 2)
    s.until_settled("o.q")
    s.publish(1, "", "o.q", b"not yet")
    s.confirmed(1, 1)
    tags = [tag, s.get("o.q", 2)]
    s.until_settled("o.q")
    s.publish(1, "", "o.q", b"")
    s.confirmed(1, 1)
    for tag in tags:
        s.send(2, "basic.reject", delivery_tag=tag, requeue=True)
    s.until_settled("o.q")
    s.publish(1, "", "o.q", b"full again")
    s.confirmed(1, 1)
    s.until_settled("o.q")
    s.drain("o.q")


@scenario
def quorum_limit_tells_who_begins(s: Session) -> None:
    """A publisher that begins at a full queue is told at once; without confirms, it loses it."""
    s.open("a", 1, 2)
    s.open("b")
    s.queue("o.q", {"x-max-length": 1, "x-overflow": "reject-publish", **QUORUM})
    s.call(1, "confirm.select")
    for body in (b"1", b"2"):
        s.publish(1, "", "o.q", body)
        s.confirmed(1, 1)
        s.until_settled("o.q")
    s.call(1, "confirm.select", "b")
    s.publish(1, "", "o.q", b"3", who="b")
    s.confirmed(1, 1, "b")
    s.publish(2, "", "o.q", b"4")
    s.until_settled("o.q")
    s.call(1, "queue.purge", queue="o.q")
    s.until_settled("o.q")
    s.publish(1, "", "o.q", b"5", who="b")
    s.confirmed(1, 1, "b")
    s.drain("o.q")


@scenario
def quorum_limit_between(s: Session) -> None:
    """Between four fifths and the limit, who was told goes on being rejected."""
    s.open("a")
    s.open("b")
    s.queue("o.q", {"x-max-length": 5, "x-overflow": "reject-publish", **QUORUM})
    s.call(1, "confirm.select")
    s.call(1, "confirm.select", "b")
    for number in range(7):
        s.publish(1, "", "o.q", b"%d" % number)
        s.confirmed(1, 1)
        s.until_settled("o.q")
    s.get(no_ack=True)
    s.until_settled("o.q")
    s.publish(1, "", "o.q", b"told")
    s.confirmed(1, 1)
    s.publish(1, "", "o.q", b"not told", who="b")
    s.confirmed(1, 1, "b")
    s.get(no_ack=True)
    s.get(no_ack=True)
    s.until_settled("o.q")
    s.publish(1, "", "o.q", b"free")
    s.confirmed(1, 1)


FULL = {"x-max-length": 1, "x-overflow": "reject-publish"}


@scenario
def rejected_by_one_of_several(s: Session) -> None:
    """A message that one queue has no room for is nacked, and others keep it."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.full", FULL)
    s.queue("o.other")
    s.publish(1, "", "o.full", b"1")
    s.confirmed(1, 1)
    s.publish(1, "", "o.full", b"2", {"headers": {"CC": ["o.other"]}})
    s.confirmed(1, 1)
    s.publish(1, "", "o.other", b"3", {"headers": {"CC": ["o.full"]}}, mandatory=True)
    s.confirmed(1, 1)
    s.drain("o.full", "o.other")


@scenario(cases=KINDS)
def rejected_without_confirms(s: Session, arguments: dict[str, Any]) -> None:
    """Who awaits no confirm is not told; a transaction ends with what could be done of it."""
    s.open("a", 1, 2)
    s.queue("o.full", {**FULL, **arguments})
    s.queue("o.other")
    for body in (b"1", b"2"):
        s.publish(1, "", "o.full", body)
        s.until_settled("o.full")
    s.publish(1, "", "o.full", b"3")
    s.call(2, "tx.select")
    s.publish(2, "", "o.other", b"4")
    s.publish(2, "", "o.full", b"5")
    s.publish(2, "", "o.other", b"6")
    s.call(2, "tx.commit")
    s.until_settled("o.full")
    s.until("o.other", 2)
    s.drain("o.full", "o.other")


@scenario
def rejected_while_a_consumer_waits(s: Session) -> None:
    """What goes to a consumer at once leaves room for more; without any there is never room."""
    s.open("a", 1, 2)
    s.call(1, "confirm.select")
    s.queue("o.full", FULL)
    s.queue("o.none", {"x-max-length": 0, "x-overflow": "reject-publish"})
    s.call(2, "basic.consume", queue="o.full", consumer_tag="c")
    s.call(2, "basic.consume", queue="o.none", consumer_tag="d")
    for body in (b"1", b"2", b"3"):
        s.publish(1, "", "o.full", body)
        s.confirmed(1, 1)
    s.publish(1, "", "o.none", b"4")
    s.confirmed(1, 1)
    s.take(2, 3)


@scenario
def rejected_by_its_size(s: Session) -> None:
    """A message that is too large for what is left is rejected, and a smaller one is not."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q", {"x-max-length-bytes": 10, "x-overflow": "reject-publish"})
    for size in (6, 5, 4, 0, 1):
        s.publish(1, "", "o.q", b"x" * size)
        s.confirmed(1, 1)
    s.queue("o.q", passive=True)


@scenario(cases=KINDS)
def bytes_of_bodies(s: Session, arguments: dict[str, Any]) -> None:
    """What counts of messages of several sizes: each by itself, and not what is out."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q", {"x-max-length-bytes": 10, **arguments})
    for size in (1, 8, 0, 3, 4, 2, 0, 1):
        s.publish(1, "", "o.q", b"x" * size, {"headers": {"long": "y" * 50}})
        s.confirmed(1, 1)
    s.until_settled("o.q")
    s.get()
    s.publish(1, "", "o.q", b"x" * 5)
    s.confirmed(1, 1)
    s.until_settled("o.q")
    s.queue("o.q", passive=True)
    s.publish(1, "", "o.q", b"x" * 11)
    s.confirmed(1, 1)
    s.until_settled("o.q")
    s.queue("o.q", passive=True)


@scenario
def quorum_limit_with_deliveries(s: Session) -> None:
    """Messages that are out do not count towards the length of a quorum queue."""
    s.open()
    s.queue("o.q", {"x-max-length": 2, **QUORUM})
    s.put("o.q", b"1", b"2")
    s.get()
    s.get()
    s.put("o.q", b"3", b"4")
    s.queue("o.q", passive=True)
    s.drain("o.q")


@scenario(cases={"1": 1, "5": 5, "10": 10, "255": 255})
def classic_priorities(s: Session, most: int) -> None:
    """The order of messages in a classic queue with priorities; more than it has are its most."""
    s.open()
    s.queue("o.q", {"x-max-priority": most})
    for number, priority in enumerate((0, 5, 1, 200, 5, None, most)):
        properties = {} if priority is None else {"priority": priority}
        s.publish(1, "", "o.q", b"%d" % number, properties)
    s.until("o.q", 7)
    s.drain("o.q")


@scenario
def quorum_priorities(s: Session) -> None:
    """The order of messages in a quorum queue: 32 priorities, none is the fifth, higher is most."""
    s.open()
    s.queue("o.q", QUORUM)
    for number, priority in enumerate((0, 3, None, 200, 31, 5, 4, 30, 32)):
        properties = {} if priority is None else {"priority": priority}
        s.publish(1, "", "o.q", b"%d" % number, properties)
    s.until("o.q", 9)
    s.drain("o.q")


@scenario
def quorum_priorities_returned(s: Session) -> None:
    """A returned message goes before all others, whatever its priority."""
    s.open()
    s.queue("o.q", QUORUM)
    for number, priority in enumerate((1, 1, 4, 4)):
        s.publish(1, "", "o.q", b"%d" % number, {"priority": priority})
    s.until("o.q", 4)
    tags = [s.get() for _ in range(3)]
    s.publish(1, "", "o.q", b"urgent", {"priority": 9})
    s.until("o.q", 2)
    s.send(1, "basic.reject", delivery_tag=tags[2], requeue=True)
    s.until("o.q", 3)
    s.send(1, "basic.reject", delivery_tag=tags[0], requeue=True)
    s.until("o.q", 4)
    s.drain("o.q")


@scenario
def quorum_priorities_limited(s: Session) -> None:
    """Which messages a limit drops of those with priorities."""
    s.open()
    s.queue("o.q", {"x-max-length": 3, **QUORUM})
    for number, priority in enumerate((1, 5, 3, 0, 5, 2)):
        s.publish(1, "", "o.q", b"%d" % number, {"priority": priority})
    s.until_settled("o.q")
    s.drain("o.q")


@scenario(waits=True)
def quorum_priorities_expire(s: Session) -> None:
    """Messages expire that are the first of their priority."""
    name = "o.priorities.quorum"
    s.open()
    s.queue(name, QUORUM)
    s.publish(1, "", name, b"low", {"priority": 1, "expiration": "300"})
    s.publish(1, "", name, b"lower", {"priority": 0})
    s.publish(1, "", name, b"behind", {"priority": 0, "expiration": "300"})
    s.publish(1, "", name, b"high", {"priority": 5})
    s.until(name, 3)
    s.drain(name)


@scenario
def classic_priorities_consumed(s: Session) -> None:
    """A consumer with little room gets the highest there is each time; a purge takes all."""
    s.open("a", 1, 2)
    s.queue("o.q", {"x-max-priority": 9})
    for number, priority in enumerate((3, 9, 3, 0, 7)):
        s.publish(1, "", "o.q", b"%d" % number, {"priority": priority})
    s.until("o.q", 5)
    s.call(2, "basic.qos", prefetch_count=1)
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(2)
    s.publish(1, "", "o.q", b"urgent", {"priority": 8})
    s.until("o.q", 5)
    for tag in (1, 2, 3):
        s.send(2, "basic.ack", delivery_tag=tag)
        s.take(2)
    s.call(1, "queue.purge", queue="o.q")


@scenario(cases={"length": {"x-max-length": 3}, "bytes": {"x-max-length-bytes": 3}})
def classic_priorities_limited(s: Session, limit: dict[str, Any]) -> None:
    """Which messages a limit drops of those with priorities."""
    s.open()
    s.queue("o.q", {"x-max-priority": 5, **limit})
    for number, priority in enumerate((1, 5, 3, 0, 5, 2)):
        s.publish(1, "", "o.q", b"%d" % number, {"priority": priority})
    s.until_settled("o.q")
    s.drain("o.q")


@scenario
def classic_priorities_rejected(s: Session) -> None:
    """A full queue rejects whatever the priority is."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q", {"x-max-priority": 5, "x-max-length": 2, "x-overflow": "reject-publish"})
    for number, priority in enumerate((1, 2, 5)):
        s.publish(1, "", "o.q", b"%d" % number, {"priority": priority})
        s.confirmed(1, 1)
    s.drain("o.q")


@scenario(waits=True)
def classic_priorities_expire(s: Session) -> None:
    """What has expired behind a message of a higher priority waits, and goes behind it."""
    name = "o.priorities.expire"
    s.open()
    s.queue(name, {"x-max-priority": 5})
    s.publish(1, "", name, b"low", {"priority": 1, "expiration": "300"})
    s.publish(1, "", name, b"lower", {"priority": 0})
    s.publish(1, "", name, b"high", {"priority": 5})
    s.until(name, 3)
    # What has a longer time, at the head of a queue of its own, is gone after that.
    s.queue("o.priorities.gone")
    s.publish(1, "", "o.priorities.gone", b"", {"expiration": "900"})
    s.until("o.priorities.gone", 1)
    s.until("o.priorities.gone", 0)
    s.queue(name, passive=True)
    tag = s.get(name)
    s.until(name, 1)
    s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    s.until(name, 2)
    s.drain(name)


@scenario
def classic_priorities_returned(s: Session) -> None:
    """A returned message keeps its priority."""
    s.open()
    s.queue("o.q", {"x-max-priority": 5})
    s.publish(1, "", "o.q", b"low", {"priority": 1})
    s.publish(1, "", "o.q", b"high", {"priority": 4})
    s.until("o.q", 2)
    tags = [s.get(), s.get()]
    for tag in tags:
        s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    s.until("o.q", 2)
    s.drain("o.q")


@scenario(cases=KINDS)
def single_active_consumer(s: Session, arguments: dict[str, Any]) -> None:
    """One consumer gets everything; the next takes over when it goes."""
    s.open("a", 1, 2, 3)
    s.queue("o.q", {"x-single-active-consumer": True, **arguments})
    s.call(2, "basic.consume", queue="o.q", consumer_tag="first")
    s.call(3, "basic.consume", queue="o.q", consumer_tag="second")
    s.publish(1, "", "o.q", b"1")
    s.publish(1, "", "o.q", b"2")
    s.take(2, 2)
    s.send(2, "basic.ack", delivery_tag=2, multiple=True)
    s.call(2, "basic.cancel", consumer_tag="first")
    s.publish(1, "", "o.q", b"3")
    s.take(3)
    s.call(3, "basic.consume", queue="o.q", consumer_tag="third", exclusive=True)


@scenario(cases=KINDS)
def single_active_get(s: Session, arguments: dict[str, Any]) -> None:
    """A get from a queue with a single active consumer."""
    s.open()
    s.queue("o.q", {"x-single-active-consumer": True, **arguments})
    s.publish(1, "", "o.q", b"1")
    s.until("o.q", 1)
    s.get()


@scenario(cases=["unlimited", "1", "0"])
def delivery_limit_argument(s: Session, case: str) -> None:
    """Where a quorum queue's own limit drops a message, and where one that comes back stands."""
    s.open()
    s.queue("o.q", {"x-delivery-limit": -1 if case == "unlimited" else int(case), **QUORUM})
    s.put("o.q", b"1", b"2", b"3")
    for _ in range(5):
        tag = s.get()
        if not tag:
            break
        s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        s.until_settled("o.q")
    s.drain("o.q")
