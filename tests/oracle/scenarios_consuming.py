"""The scripts about consumers, gets, prefetch, and what is done with a delivery.

Source: ORD-06 to ORD-09, ACK-01 to ACK-05, QQ-04, QQ-20, QQ-24, POI-01 to POI-04, D-22.
"""

from __future__ import annotations

from typing import Any

from tests.clients.raw import Typed
from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}
KINDS: dict[str, dict[str, Any]] = {"classic": {}, "quorum": QUORUM}


FLAG_SETS: dict[str, dict[str, bool]] = {
    "none": {}, "no_local": {"no_local": True}, "no_ack": {"no_ack": True},
    "exclusive": {"exclusive": True},
    "all": {"no_ack": True, "exclusive": True, "no_local": True},
}  # fmt: skip


@scenario(cases=FLAG_SETS)
def consume_flags(s: Session, flags: dict[str, bool]) -> None:
    """A consumer with flags, and others beside it, on a classic queue and on a quorum queue."""
    s.open("a", 1, 2, 3)
    for kind, declared in KINDS.items():
        queue = f"o.{kind}"
        s.queue(queue, declared)
        s.call(1, "basic.consume", queue=queue, consumer_tag=kind, **flags)
        s.publish(1, "", queue, b"1")
        s.take(1)
        s.call(2, "basic.consume", queue=queue, consumer_tag=kind)
        s.call(3, "basic.consume", queue=queue, consumer_tag=kind, exclusive=True)
        s.call(1, "basic.cancel", consumer_tag=kind)
        s.call(3, "basic.consume", queue=queue, consumer_tag=f"{kind}-again", exclusive=True)


TAGS: dict[str, Any] = {
    "long": "t" * 255, "UTF-8": "\u20ac", "a blank": " ", "of the server": "amq.ctag-mine",
    "a null": "\x00",
}  # fmt: skip


@scenario(cases=TAGS)
def consume_tag(s: Session, tag: str) -> None:
    """Tags of a client's choice: used twice, on two channels, cancelled, used again."""
    s.open("a", 1, 2)
    s.queue("o.q")
    s.call(1, "basic.consume", queue="o.q", consumer_tag=tag)
    s.call(2, "basic.consume", queue="o.q", consumer_tag=tag)
    s.call(1, "basic.cancel", consumer_tag=tag)
    s.call(1, "basic.cancel", consumer_tag=tag)
    s.call(1, "basic.consume", queue="o.q", consumer_tag=tag)
    s.call(1, "basic.consume", queue="o.q", consumer_tag=tag)


ARGUMENTS: dict[str, dict[str, Any]] = {
    "unknown": {"x-mine": [1, {}]},
    "x-cancel-on-ha-failover": {"x-cancel-on-ha-failover": True},
    "x-cancel-on-ha-failover wrong": {"x-cancel-on-ha-failover": "yes"},
    "x-stream-offset": {"x-stream-offset": "first"},
    "x-stream-filter": {"x-stream-filter": "a"},
    "x-stream-match-unfiltered": {"x-stream-match-unfiltered": True},
    "x-priority low": {"x-priority": -(2**31)},
    "x-priority high": {"x-priority": Typed("l", 2**62)},
    "x-credit": {"x-credit": {"credit": 1, "drain": False}},
    "x-single-active-consumer": {"x-single-active-consumer": True},
}


@scenario(cases=ARGUMENTS)
def consume_argument(s: Session, arguments: dict[str, Any]) -> None:
    """Arguments of a consume that classic and quorum queues take, or pass over."""
    s.open("a", 1, 2)
    for kind, declared in KINDS.items():
        s.given = kind
        s.queue(f"o.{kind}", declared)
        s.call(2, "basic.consume", queue=f"o.{kind}", consumer_tag=kind, arguments=arguments)
        s.publish(1, "", f"o.{kind}", b"1")
        s.until(f"o.{kind}", 1 if ("a", 2) in s.closed else 0)
        s.quiet(2)


TIMEOUTS: tuple[Any, ...] = (
    0, -1, 1, 60_000, Typed("l", 2**40), True, None, "60000", 1.5, [1], Typed("T", 60_000),
)  # fmt: skip


@scenario(cases=["classic", "quorum"])
def consumer_timeout_argument(s: Session, kind: str) -> None:
    """Where a consumer's timeout has no meaning, every value of it."""
    s.open()
    s.queue("o.q", KINDS[kind])
    for number, value in enumerate(TIMEOUTS):
        s.given = repr(value)
        s.call(
            1, "basic.consume", queue="o.q", consumer_tag=f"c{number}",
            arguments={"x-consumer-timeout": value},
        )  # fmt: skip


@scenario(cases=["missing", "another's", "no name"])
def consume_nothing(s: Session, case: str) -> None:
    """Queues that cannot be consumed from, and the tag that it leaves free."""
    s.open()
    s.open("b")
    s.queue("o.theirs", exclusive=True, durable=False, who="b")
    s.queue("o.q")
    s.call(1, "channel.close", reply_code=200)
    s.call(1, "channel.open")
    name = {"missing": "o.none", "another's": "o.theirs", "no name": ""}[case]
    for method in ("basic.consume", "basic.get"):
        s.call(1, method, queue=name)
        s.call(1, method, queue="o.q")


@scenario(cases=["classic", "quorum"])
def consume_nowait(s: Session, kind: str) -> None:
    """Nothing is answered; deliveries come all the same; a cancel is not answered either."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.send(2, "basic.consume", queue="o.q", consumer_tag="c", nowait=True)
    s.publish(1, "", "o.q", b"1")
    s.take(2)
    s.send(2, "basic.cancel", consumer_tag="c", nowait=True)
    s.call(2, "basic.qos")
    s.publish(1, "", "o.q", b"2")
    s.until("o.q", 1)
    s.quiet(2)


@scenario(cases=["classic", "quorum"])
def consume_order(s: Session, kind: str) -> None:
    """Two consumers of one priority take turns; each sees an order."""
    s.open("a", 1, 2, 3)
    s.queue("o.q", KINDS[kind])
    for channel in (2, 3):
        s.call(channel, "basic.consume", queue="o.q", consumer_tag=f"c{channel}")
    for number in range(6):
        s.publish(1, "", "o.q", b"%d" % number)
    s.take(2, 3)
    s.take(3, 3)


@scenario(cases=["classic", "quorum"])
def get_counts(s: Session, kind: str) -> None:
    """A get tells how many are left, and marks what came before."""
    s.open()
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1", b"2", b"3")
    tags = [s.get() for _ in range(4)]
    s.send(1, "basic.reject", delivery_tag=tags[1], requeue=True)
    s.until("o.q", 1)
    s.get()
    s.send(1, "basic.reject", delivery_tag=tags[2], requeue=True)
    s.send(1, "basic.reject", delivery_tag=tags[0], requeue=True)
    s.until("o.q", 2)
    s.drain("o.q")


QOS: dict[str, dict[str, Any]] = {
    "0": {}, "1": {"prefetch_count": 1}, "65535": {"prefetch_count": 65535},
    "global 0": {"global": True}, "global 2": {"prefetch_count": 2, "global": True},
    "size": {"prefetch_size": 1}, "size and count": {"prefetch_size": 4096, "prefetch_count": 5},
    "size, global": {"prefetch_size": 2**32 - 1, "global": True},
}  # fmt: skip


@scenario(cases=QOS)
def qos(s: Session, args: dict[str, Any]) -> None:
    """How many deliveries a prefetch lets out, on a classic queue and on a quorum queue."""
    s.open("a", 1, 2, 3)
    for channel, (kind, declared) in enumerate(KINDS.items(), 2):
        s.queue(f"o.{kind}", declared)
        s.put(f"o.{kind}", b"1", b"2", b"3", b"4")
        event = s.call(channel, "basic.qos", **args)
        if event is None or event.name != "basic.qos-ok":
            continue
        s.call(channel, "basic.consume", queue=f"o.{kind}", consumer_tag="first")
        count = args.get("prefetch_count", 0)
        s.take(channel, min(count or 4, 4))
        s.quiet(channel)


@scenario
def qos_global_shared(s: Session) -> None:
    """A prefetch over the channel is shared by its consumers of classic queues, get left out."""
    s.open("a", 1, 2)
    s.queue("o.first")
    s.queue("o.second")
    s.put("o.first", b"1", b"2", b"3")
    s.put("o.second", b"a", b"b")
    s.call(2, "basic.qos", prefetch_count=2, **{"global": True})
    s.call(2, "basic.consume", queue="o.first", consumer_tag="first")
    s.take(2, 2)
    s.call(2, "basic.consume", queue="o.second", consumer_tag="second")
    s.quiet(2)
    s.get("o.second", channel=2)
    s.send(2, "basic.ack", delivery_tag=1)
    s.take(2)
    s.quiet(2)
    s.call(2, "basic.qos", prefetch_count=0, **{"global": True})


@scenario(cases=["classic", "quorum"])
def qos_and_no_ack(s: Session, kind: str) -> None:
    """Automatic acknowledgements are limited by no prefetch."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.put("o.q", *(b"%d" % number for number in range(5)))
    s.call(2, "basic.qos", prefetch_count=1)
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c", no_ack=True)
    s.take(2, 5)
    s.call(2, "basic.ack", delivery_tag=1)


SETTLEMENTS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "ack": [("basic.ack", {"delivery_tag": 2})],
    "ack up to": [("basic.ack", {"delivery_tag": 2, "multiple": True})],
    "ack all": [("basic.ack", {"delivery_tag": 0, "multiple": True})],
    "ack none": [("basic.ack", {"delivery_tag": 0})],
    "ack ahead": [("basic.ack", {"delivery_tag": 4, "multiple": True})],
    "ack twice": [("basic.ack", {"delivery_tag": 1}), ("basic.ack", {"delivery_tag": 1})],
    "ack twice up to": [
        ("basic.ack", {"delivery_tag": 2, "multiple": True}),
        ("basic.ack", {"delivery_tag": 2, "multiple": True}),
    ],
    "ack over a hole": [
        ("basic.ack", {"delivery_tag": 2}),
        ("basic.ack", {"delivery_tag": 3, "multiple": True}),
    ],
    "all twice": [
        ("basic.ack", {"delivery_tag": 0, "multiple": True}),
        ("basic.ack", {"delivery_tag": 0, "multiple": True}),
    ],
    "huge": [("basic.ack", {"delivery_tag": 2**63 - 1})],
    "negative": [("basic.ack", {"delivery_tag": 2**64 - 1, "multiple": True})],
    "nack drop": [("basic.nack", {"delivery_tag": 2})],
    "nack drop up to": [("basic.nack", {"delivery_tag": 2, "multiple": True})],
    "nack unknown": [("basic.nack", {"delivery_tag": 9, "requeue": True})],
    "nack none": [("basic.nack", {"delivery_tag": 0, "requeue": True})],
    "reject drop": [("basic.reject", {"delivery_tag": 2})],
    "reject return": [("basic.reject", {"delivery_tag": 2, "requeue": True})],
    "reject none": [("basic.reject", {"delivery_tag": 0})],
    "reject unknown": [("basic.reject", {"delivery_tag": 9, "requeue": True})],
    "ack and reject": [
        ("basic.ack", {"delivery_tag": 3}),
        ("basic.reject", {"delivery_tag": 3, "requeue": True}),
    ],
}


@scenario(cases=SETTLEMENTS)
def settle(s: Session, steps: list[tuple[str, dict[str, Any]]]) -> None:
    """What is told of a tag, and what is left in the queue, classic and quorum, after a close."""
    s.open("a", 1, 2, 3)
    for channel, (kind, declared) in enumerate(KINDS.items(), 2):
        queue = f"o.{kind}"
        s.queue(queue, declared)
        s.put(queue, b"1", b"2", b"3")
        for _ in range(3):
            s.get(queue, channel=channel)
        for method, args in steps:
            s.send(channel, method, **args)
        event = s.call(channel, "basic.qos")
        if event is not None and event.name == "basic.qos-ok":
            s.call(channel, "channel.close", reply_code=200)
        s.until_settled(queue)
        s.drain(queue)


@scenario(cases=["classic", "quorum"])
def settle_on_another_channel(s: Session, kind: str) -> None:
    """Tags are those of their channel."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1", b"2")
    s.get("o.q")
    s.call(2, "basic.ack", delivery_tag=1)
    s.get("o.q", channel=2)
    s.send(1, "basic.ack", delivery_tag=1)
    s.send(2, "basic.ack", delivery_tag=1)
    s.call(1, "basic.ack", delivery_tag=1)


@scenario(cases=["classic", "quorum"])
def settle_after_cancel(s: Session, kind: str) -> None:
    """Deliveries outlive their consumer, and may be settled after it."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1", b"2", b"3")
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(2, 3)
    s.call(2, "basic.cancel", consumer_tag="c")
    s.queue("o.q", passive=True)
    s.send(2, "basic.ack", delivery_tag=1)
    s.send(2, "basic.reject", delivery_tag=2, requeue=True)
    s.until("o.q", 1)
    s.drain("o.q")
    s.call(2, "channel.close", reply_code=200)
    s.until("o.q", 1)
    s.drain("o.q")


@scenario(cases=["classic", "quorum"])
def redelivered_order(s: Session, kind: str) -> None:
    """Where returned messages stand among others, by the order of their return."""
    s.open()
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1", b"2", b"3", b"4", b"5")
    tags = [s.get() for _ in range(4)]
    for tag in (tags[2], tags[0], tags[3]):
        s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    s.until("o.q", 4)
    s.drain("o.q")
    s.send(1, "basic.reject", delivery_tag=tags[1], requeue=True)
    s.until("o.q", 1)
    s.drain("o.q")


@scenario(cases=["classic", "quorum"])
def rejected_again_and_again(s: Session, kind: str) -> None:
    """What is counted of a message that is rejected, and comes again."""
    s.open()
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1")
    for _ in range(4):
        tag = s.get()
        s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
        s.until("o.q", 1)
    s.drain("o.q")


@scenario(cases=["classic", "quorum"])
def channel_gone_again_and_again(s: Session, kind: str) -> None:
    """The same of one whose channel ends each time."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1")
    for _ in range(3):
        s.get(channel=2)
        s.call(2, "channel.close", reply_code=200)
        s.until("o.q", 1)
        s.call(2, "channel.open")
    s.drain("o.q")


@scenario(cases={"recover": ("basic.recover", True), "no requeue": ("basic.recover", False),
                 "async no requeue": ("basic.recover-async", False)})  # fmt: skip
def recover_kinds(s: Session, case: tuple[str, bool]) -> None:
    """Recover with nothing out, and without requeueing."""
    method, requeue = case
    s.open()
    s.queue("o.q")
    s.call(1, method, requeue=requeue)
    s.call(1, "basic.qos")


@scenario(cases=["consume", "get", "publish"])
def direct_reply(s: Session, what: str) -> None:
    """The reply queue, in ways that it cannot be used."""
    s.open("a", 1, 2)
    name = "amq.rabbitmq.reply-to"
    if what == "consume":
        s.call(1, "basic.consume", queue=name, no_ack=False, consumer_tag="c")
        s.call(1, "basic.consume", queue=name, no_ack=True, exclusive=True, consumer_tag="c")
        s.call(1, "basic.cancel", consumer_tag="c")
        s.call(1, "basic.consume", queue=name, no_ack=True, consumer_tag="d")
        s.call(2, "basic.consume", queue=name, no_ack=True, consumer_tag="d")
    elif what == "get":
        s.call(1, "basic.get", queue=name, no_ack=True)
        s.call(1, "basic.consume", queue=name, no_ack=True, consumer_tag="c")
        s.call(1, "basic.get", queue=name, no_ack=True)
    else:
        s.publish(1, "", name, b"1", mandatory=True)
        s.take(1)
        s.publish(1, "", f"{name}.g1h2AA5yZXBseUAyMzQ1Njc4.abc", b"1", mandatory=True)
        s.take(1)
