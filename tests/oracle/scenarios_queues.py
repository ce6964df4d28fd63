"""The scripts about queues as such: properties, names, owners, ends, counts.

Source: NAME-01 to NAME-05, PROP-01 to PROP-08, DUR-08 to DUR-12, QQ-04 to QQ-08.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.clients.raw import METHOD, RawClient, encode_method
from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}
KINDS: dict[str, dict[str, Any]] = {"classic": {}, "quorum": QUORUM}
FLAGS = ("durable", "exclusive", "auto_delete")
PROPERTIES = {
    f"{kind}{'-'.join(['', *(flag for flag, on in zip(FLAGS, values, strict=True) if on)])}": (
        kind,
        dict(zip(FLAGS, values, strict=True)),
    )
    for kind in KINDS
    for values in product((False, True), repeat=len(FLAGS))
}


@scenario(cases=PROPERTIES)
def queue_properties(s: Session, case: tuple[str, dict[str, bool]]) -> None:
    """Each combination: declared, again, with one property after the other changed, passively."""
    kind, flags = case
    s.open()
    s.queue("o.q", KINDS[kind], **flags)
    for flag in FLAGS:
        s.given = f"not {flag}" if flags[flag] else flag
        s.queue("o.q", KINDS[kind], **{**flags, flag: not flags[flag]})
    s.given = "the same"
    s.queue("o.q", KINDS[kind], **flags)
    s.given = "passive"
    s.queue("o.q", {"x-queue-type": "stream", "x-expires": "x"}, passive=True, exclusive=True)
    s.given = None
    s.call(1, "queue.delete", queue="o.q")
    s.call(1, "queue.declare", queue="o.q", passive=True)


NAMES: dict[str, Any] = {
    "255 bytes": "o." + "n" * 253,
    "255 bytes of UTF-8": "o.n" + "\u20ac" * 84,
    "a space": " ",
    "a slash": "o./%2F",
    "quotes": "o.'\"\\",
    "a tilde": "o.~s~p",
    "a null": "o.\x00",
    "a tab": "o.\t",
    "an emoji": "o.\U0001f407",
    "right to left": "o.\u05d0\u202e",
    "a star": "o.*.#",
    "case": "O.Q",
}


@scenario(cases=NAMES)
def queue_name(s: Session, name: str) -> None:
    """A name that may be one, in every method that takes it."""
    s.open()
    s.queue(name)
    s.queue(name, passive=True)
    s.call(1, "queue.bind", queue=name, exchange="amq.direct", routing_key="o.k")
    s.publish(1, "amq.direct", "o.k", b"1")
    s.publish(1, "", name, b"2")
    s.until(name, 2)
    s.drain(name)
    s.call(1, "basic.consume", queue=name, consumer_tag="c")
    s.call(1, "basic.cancel", consumer_tag="c")
    s.call(1, "queue.unbind", queue=name, exchange="amq.direct", routing_key="o.k")
    s.call(1, "queue.purge", queue=name)
    s.call(1, "queue.delete", queue=name)


RESERVED = (
    "amq.", "amq.q", "amq.gen-abcdefghijklmnopqrstuv", "amq", "AMQ.q", " amq.q", "amq.ctag",
    "amq.rabbitmq.reply", "amq.rabbitmq.trace",
)  # fmt: skip


@scenario(cases=RESERVED)
def queue_name_reserved(s: Session, name: str) -> None:
    """A name that is the server's, or only looks so."""
    s.open()
    s.queue(name, passive=True)
    s.queue(name)
    s.queue(name, QUORUM)
    s.call(1, "queue.delete", queue=name)


@scenario(cases=["queue.declare", "queue.delete", "queue.purge", "basic.get", "basic.consume"])
def queue_name_not_utf8(s: Session, method: str) -> None:
    """Bytes that are no text, where a queue's name stands."""
    client = s.open()
    payload = encode_method(method, {"queue": "o.??"}).replace(b"??", b"\xff\xfe")
    client.send_bytes(RawClient.frame(METHOD, 1, payload))
    s.take(1)


@scenario
def queue_name_empty_everywhere(s: Session) -> None:
    """The last name that the channel was given stands for an empty one; another channel's not."""
    s.open("a", 1, 2)
    s.queue("o.q")
    for method, args in (
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "o.k"}),
        ("queue.unbind", {"exchange": "amq.direct", "routing_key": "o.k"}),
        ("queue.purge", {}),
        ("basic.get", {}),
        ("queue.delete", {}),
        ("queue.delete", {}),
        ("basic.get", {}),
        ("basic.consume", {"consumer_tag": "c"}),
    ):
        s.given = method
        s.call(1, method, queue="", **args)
        s.call(2, method, queue="", **args)


@scenario
def queue_name_remembered(s: Session) -> None:
    """Which declares are remembered: those that failed, were passive, or made up a name."""
    s.open()
    s.queue("o.first")
    s.queue("o.second")
    s.queue("o.first", passive=True)
    s.call(1, "basic.consume", queue="", consumer_tag="c")
    s.call(1, "queue.declare", queue="", exclusive=True, auto_delete=True)
    s.call(1, "queue.delete", queue="")
    s.call(1, "queue.purge", queue="")
    s.queue("o.second", auto_delete=True)
    s.call(1, "queue.purge", queue="")


@scenario(cases=["classic", "quorum"])
def queue_counts(s: Session, kind: str) -> None:
    """What a passive declare counts: ready messages and consumers."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1", b"2", b"3")
    s.queue("o.q", passive=True)
    tag = s.get("o.q")
    s.queue("o.q", passive=True)
    s.queue("o.q", KINDS[kind])
    s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    s.until("o.q", 3)
    s.call(2, "basic.qos", prefetch_count=1)
    for number in range(2):
        s.call(2, "basic.consume", queue="o.q", consumer_tag=f"c{number}")
        s.take(2)
    s.until("o.q", 1)
    s.queue("o.q", passive=True)
    s.call(2, "basic.cancel", consumer_tag="c0")
    s.call(2, "channel.close", reply_code=200)
    s.until("o.q", 3)
    s.queue("o.q", passive=True)
    s.call(1, "queue.delete", queue="o.q")


@scenario(cases=["classic", "quorum"])
def queue_nowait(s: Session, kind: str) -> None:
    """Nothing is answered, but for errors."""
    s.open()
    s.send(1, "queue.declare", queue="o.q", durable=True, nowait=True, arguments=KINDS[kind])
    s.send(1, "queue.bind", queue="o.q", exchange="amq.direct", routing_key="o.k", nowait=True)
    s.publish(1, "amq.direct", "o.k", b"1")
    s.until("o.q", 1)
    s.send(1, "queue.purge", queue="o.q", nowait=True)
    s.send(1, "queue.declare", queue="o.q", passive=True, nowait=True)
    s.queue("o.q", passive=True)
    s.send(1, "queue.delete", queue="o.q", nowait=True)
    s.queue("o.q", passive=True)
    s.call(1, "queue.declare", queue="o.none", passive=True, nowait=True)
    s.call(1, "queue.purge", queue="o.none", nowait=True)
    s.send(1, "queue.delete", queue="o.none", nowait=True)
    s.call(1, "queue.bind", queue="o.none", exchange="amq.direct", nowait=True)
    s.call(1, "basic.consume", queue="o.none", consumer_tag="c", nowait=True)


@scenario(cases=["classic", "quorum"])
def queue_purge_counts(s: Session, kind: str) -> None:
    """Ready messages go, those that are out stay, and may come back."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1", b"2", b"3", b"4")
    s.call(2, "basic.qos", prefetch_count=1)
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(2)
    tag = s.get("o.q")
    s.until("o.q", 2)
    s.call(1, "queue.purge", queue="o.q")
    s.send(1, "basic.reject", delivery_tag=tag, requeue=True)
    s.until("o.q", 1)
    s.call(2, "channel.close", reply_code=200)
    s.until("o.q", 2)
    s.call(1, "queue.purge", queue="o.q")
    s.call(1, "queue.purge", queue="o.q")


DELETES: dict[str, dict[str, bool]] = {
    "plainly": {},
    "if unused": {"if_unused": True},
    "if empty": {"if_empty": True},
    "if both": {"if_unused": True, "if_empty": True},
}


@scenario(cases=DELETES)
def queue_delete(s: Session, flags: dict[str, bool]) -> None:
    """A classic queue with messages, one that is out, a consumer, and nothing."""
    s.open("a", 1, 2)
    for state in ("ready", "out", "consumed", "idle", "missing"):
        s.given = state
        if state != "missing":
            s.queue("o.q")
        if state in ("ready", "out"):
            s.put("o.q", b"1")
        if state == "out":
            s.get("o.q", channel=2)
        if state == "consumed":
            s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
        s.call(1, "queue.delete", queue="o.q", **flags)
        s.call(1, "queue.delete", queue="o.q")
        if state == "consumed":
            s.take(2)
        s.call(2, "channel.close", reply_code=200)
        s.call(2, "channel.open")


@scenario(cases=DELETES)
def queue_delete_quorum(s: Session, flags: dict[str, bool]) -> None:
    """The same words about a quorum queue, each on a connection of its own."""
    s.open()
    s.queue("o.q", QUORUM)
    s.put("o.q", b"1", b"2")
    s.call(1, "queue.delete", queue="o.q", **flags)
    s.call(1, "queue.delete", queue="o.q", **flags)
    s.call(1, "queue.delete", queue="o.none", **flags)


OWNED: dict[str, tuple[str, dict[str, Any]]] = {
    "declare": ("queue.declare", {"exclusive": True}),
    "declare with other flags": ("queue.declare", {"durable": True, "auto_delete": True}),
    "declare passively": ("queue.declare", {"passive": True}),
    "bind": ("queue.bind", {"exchange": "amq.direct", "routing_key": "o.k"}),
    "bind to a missing exchange": ("queue.bind", {"exchange": "o.none", "routing_key": "o.k"}),
    "unbind": ("queue.unbind", {"exchange": "amq.direct", "routing_key": "o.bound"}),
    "unbind what is not bound": ("queue.unbind", {"exchange": "amq.direct", "routing_key": "z"}),
    "purge": ("queue.purge", {}),
    "delete": ("queue.delete", {}),
    "delete if empty": ("queue.delete", {"if_empty": True}),
    "get": ("basic.get", {}),
    "consume": ("basic.consume", {"consumer_tag": "b"}),
    "consume exclusively": ("basic.consume", {"consumer_tag": "b", "exclusive": True}),
}


@scenario(cases=OWNED)
def queue_of_another(s: Session, case: tuple[str, dict[str, Any]]) -> None:
    """What another connection asks of an exclusive queue, then its owner on another channel."""
    method, args = case
    s.open("a", 1, 2)
    s.open("b")
    s.queue("o.mine", exclusive=True, durable=False)
    s.call(1, "queue.bind", queue="o.mine", exchange="amq.direct", routing_key="o.bound")
    s.call(1, method, "b", queue="o.mine", **args)
    s.call(2, method, queue="o.mine", **args)


@scenario(cases=["close", "cut", "channel close"])
def queue_exclusive_ends(s: Session, how: str) -> None:
    """An exclusive queue goes with its connection, however that ends, and not with a channel."""
    s.open("a")
    s.open("b")
    s.queue("o.mine", exclusive=True, durable=True)
    s.publish(1, "", "o.mine", b"lost", {"delivery_mode": 2}, who="b")
    if how == "close":
        s.leave("a")
    elif how == "cut":
        s.cut("a")
        s.until_gone("o.mine")
    else:
        s.call(1, "channel.close", reply_code=200)
    s.call(1, "queue.declare", "b", queue="o.mine", passive=True)
    s.call(1, "queue.declare", "b", queue="o.mine", exclusive=True)


@scenario(cases=["cancel", "channel", "connection", "cut", "error", "delete"])
def queue_auto_delete_ends(s: Session, how: str) -> None:
    """An auto-delete queue goes with its last consumer, however that ends."""
    s.open("a", 1, 2)
    s.open("b")
    s.queue("o.q", auto_delete=True)
    s.get("o.q")
    s.call(1, "basic.consume", queue="o.q", consumer_tag="first")
    s.call(2, "basic.consume", queue="o.q", consumer_tag="second")
    s.call(1, "basic.cancel", consumer_tag="first")
    s.queue("o.q", who="b", passive=True)
    if how == "cancel":
        s.call(2, "basic.cancel", consumer_tag="second")
    elif how == "channel":
        s.call(2, "channel.close", reply_code=200)
    elif how == "connection":
        s.leave("a")
    elif how == "cut":
        s.cut("a")
        s.until_gone("o.q")
    elif how == "error":
        s.call(2, "basic.ack", delivery_tag=9)
        s.until_gone("o.q")
    else:
        s.call(1, "queue.delete", queue="o.q")
        s.take(2)
    s.queue("o.q", who="b", passive=True)


@scenario
def queue_auto_delete_deliveries(s: Session) -> None:
    """Messages that are out when an auto-delete queue goes may still be answered."""
    s.open("a", 1, 2)
    s.queue("o.q", auto_delete=True)
    s.put("o.q", b"1", b"2")
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(1, 2)
    s.call(1, "basic.cancel", consumer_tag="c")
    s.send(1, "basic.ack", delivery_tag=1)
    s.send(1, "basic.nack", delivery_tag=2, requeue=True)
    s.queue("o.q", passive=True)


@scenario(cases=["classic", "quorum"])
def queue_deleted_with_deliveries(s: Session, kind: str) -> None:
    """Tags of a queue that is gone are settled without a word, and once."""
    s.open("a", 1, 2)
    s.queue("o.q", KINDS[kind])
    s.put("o.q", b"1", b"2", b"3")
    for _ in range(3):
        s.get("o.q", channel=2)
    s.call(1, "queue.delete", queue="o.q")
    s.send(2, "basic.ack", delivery_tag=1)
    s.send(2, "basic.nack", delivery_tag=2, requeue=True)
    s.send(2, "basic.reject", delivery_tag=3)
    s.call(2, "basic.qos", prefetch_count=1)
    s.queue("o.q", KINDS[kind])
    s.call(2, "basic.ack", delivery_tag=1)


@scenario(cases=["classic", "quorum"])
def queue_again_with_bindings(s: Session, kind: str) -> None:
    """Bindings go with their queue, and do not come back with its name."""
    s.open()
    s.queue("o.q", KINDS[kind])
    s.call(1, "queue.bind", queue="o.q", exchange="amq.direct", routing_key="o.k")
    s.call(1, "queue.delete", queue="o.q")
    s.queue("o.q", KINDS[kind])
    s.publish(1, "amq.direct", "o.k", b"1", mandatory=True)
    s.take(1)
    s.queue("o.q", passive=True)


@scenario
def queue_of_another_type(s: Session) -> None:
    """What is declared with another type than it has."""
    s.open()
    for name, kind in (("o.c", "classic"), ("o.q", "quorum")):
        s.queue(name, {"x-queue-type": kind})
        for other in ("classic", "quorum", "stream", "sideways", "", 5):
            s.given = f"{kind} as {other!r}"
            s.queue(name, {"x-queue-type": other})
        s.queue(name)


@scenario
def queue_declare_ticket(s: Session) -> None:
    """A ticket of old versions is passed over."""
    s.open()
    s.call(1, "queue.declare", ticket=77, queue="o.q", durable=True)
    s.call(1, "basic.get", ticket=1, queue="o.q")
