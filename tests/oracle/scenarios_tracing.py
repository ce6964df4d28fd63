"""The scripts about the firehose: what is told of messages that pass in a vhost that is traced.

The oracle has to trace its default vhost (`rabbitmqctl trace_on`). Names of connections and of the
node are written by kind.

Source: `rabbit_trace` of RabbitMQ 4.3 and its guide to the firehose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.clients.raw import Typed
from tests.oracle.registry import scenario
from tests.oracle.session import Session

TRACES = "o.traces"
ALL: dict[str, Any] = {
    "content_type": "text/plain", "content_encoding": "utf-8", "delivery_mode": 2, "priority": 3,
    "correlation_id": "c", "reply_to": "r", "expiration": "60000", "message_id": "m",
    "timestamp": 12_345, "type": "t", "user_id": "guest", "app_id": "a",
    "headers": {
        "text": "x", "int": 5, "long": Typed("l", 2**40), "yes": True, "void": None,
        "list": [1, "a", {"b": 2}], "bytes": Typed("x", b"\x00\xff"), "double": Typed("d", 0.5),
    },
}  # fmt: skip


def _traced(s: Session) -> None:
    """A queue that is told of all, and two that are bound."""
    s.open()
    s.queue(TRACES)
    s.queue("o.q")
    s.queue("o.p")
    s.call(1, "queue.bind", queue=TRACES, exchange="amq.rabbitmq.trace", routing_key="#")
    for queue in ("o.q", "o.p"):
        s.call(1, "exchange.declare", exchange="o.x", type="fanout")
        s.call(1, "queue.bind", queue=queue, exchange="o.x")
    s.call(1, "queue.bind", queue="o.q", exchange="amq.topic", routing_key="a.#")


def _told(s: Session) -> None:
    """Take what was told of so far."""
    s.until_settled(TRACES)
    s.drain(TRACES)


def _copies(s: Session) -> None:
    s.publish(1, "amq.topic", "a.b", b"x", {"headers": {"CC": ["c", "o.q"], "BCC": ["hidden"]}})
    s.until("o.q", 1)
    s.get("o.q", no_ack=True)


def _default_copies(s: Session) -> None:
    s.publish(1, "", "o.q", b"x", {"headers": {"CC": ["o.p"]}})
    s.until("o.q", 1)


def _confirmed(s: Session) -> None:
    s.call(1, "confirm.select")
    for number in range(3):
        s.publish(1, "o.x", f"k{number}", b"%d" % number)
    s.confirmed(1, 3)


def _committed(s: Session) -> None:
    s.call(1, "tx.select")
    s.publish(1, "amq.topic", "a", b"x")
    s.call(1, "tx.commit")


def _unroutable(s: Session) -> None:
    s.publish(1, "amq.direct", "nowhere", b"x", {"message_id": "m"}, mandatory=True)
    s.take(1)


def _alternate(s: Session) -> None:
    arguments = {"alternate-exchange": "o.x"}
    s.call(1, "exchange.declare", exchange="o.y", type="direct", arguments=arguments)
    s.publish(1, "o.y", "k", b"x")
    s.until("o.p", 1)
    s.get("o.p", no_ack=True)


def _through(s: Session) -> None:
    s.call(1, "exchange.declare", exchange="o.y", type="direct")
    s.call(1, "exchange.bind", destination="o.x", source="o.y", routing_key="k")
    s.publish(1, "o.y", "k", b"x")


PUBLISHES: dict[str, Callable[[Session], None]] = {
    "nothing said": lambda s: s.publish(1, "amq.topic", "a", b""),
    "all properties": lambda s: s.publish(1, "amq.topic", "a.b.c", b"body", ALL),
    "two queues": lambda s: s.publish(1, "o.x", "k", b"x" * 300_000, {"delivery_mode": 1}),
    "no queue": lambda s: s.publish(1, "amq.direct", "nowhere", b"x"),
    "unroutable, mandatory": _unroutable,
    "default exchange": lambda s: s.publish(1, "", "o.q", b"x"),
    "default exchange, no queue": lambda s: s.publish(1, "", "o.none", b"x"),
    "default exchange, copies": _default_copies,
    "copies": _copies,
    "confirmed": _confirmed,
    "committed": _committed,
    "alternate exchange": _alternate,
    "through an exchange": _through,
    "large timestamp": lambda s: s.publish(1, "amq.topic", "a", b"x", {"timestamp": 2**31 + 5}),
    "headers of 120,000 bytes": lambda s: s.publish(
        1, "amq.topic", "a", b"x", {"headers": {"much": "x" * 120_000}}
    ),
}


@scenario(cases=PUBLISHES)
def traced_publish(s: Session, publish: Callable[[Session], None]) -> None:
    """What is told of what is published."""
    _traced(s)
    publish(s)
    _told(s)


def _got(s: Session, flags: dict[str, bool]) -> None:
    s.get("o.q", no_ack=True)
    tag = s.get("o.q", **flags)
    s.send(1, "basic.nack", delivery_tag=tag, multiple=False, requeue=True)
    s.until("o.q", 2)
    s.get("o.q", no_ack=True)
    s.get("o.q", no_ack=True)
    s.get("o.q", no_ack=True)


def _consumed(s: Session, no_ack: bool) -> None:
    s.open("b", 3)
    s.call(3, "basic.consume", "b", queue="o.q", consumer_tag="t", no_ack=no_ack)
    s.take(3, 3, "b")


def _came_back(s: Session) -> None:
    _consumed(s, no_ack=False)
    s.leave("b")
    s.until("o.q", 3)
    s.get("o.q", no_ack=True)


DELIVERIES: dict[str, Callable[[Session], None]] = {
    "got": lambda s: _got(s, {}),
    "consumed": lambda s: _consumed(s, no_ack=False),
    "consumed, acked by itself": lambda s: _consumed(s, no_ack=True),
    "came back": _came_back,
}
KINDS = {
    f"{how}, {kind}": (take, kind)
    for how, take in DELIVERIES.items()
    for kind in ("classic", "quorum")
}


@scenario(cases=KINDS)
def traced_delivery(s: Session, case: tuple[Callable[[Session], None], str]) -> None:
    """What is told of what a client is given."""
    take, kind = case
    s.open()
    s.queue("o.q", {"x-queue-type": kind})
    s.put("o.q", b"1", b"2", b"3", message_id="m")
    s.queue(TRACES)
    s.call(1, "queue.bind", queue=TRACES, exchange="amq.rabbitmq.trace", routing_key="#")
    take(s)
    _told(s)


@scenario
def traced_dead_letter(s: Session) -> None:
    """A dead letter is published by no client, and told of when one is given it."""
    _traced(s)
    arguments = {"x-dead-letter-exchange": "o.x", "x-dead-letter-routing-key": "dead"}
    s.queue("o.d", arguments)
    s.put("o.d", b"x")
    s.send(1, "basic.reject", delivery_tag=s.get("o.d"), requeue=False)
    s.until("o.q", 1)
    s.get("o.q", no_ack=True)
    _told(s)


@scenario
def traced_direct_reply(s: Session) -> None:
    """A request, and its reply."""
    _traced(s)
    s.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", consumer_tag="r", no_ack=True)
    s.publish(1, "", "o.q", b"request", {"reply_to": "amq.rabbitmq.reply-to"})
    s.until("o.q", 1)
    client = s.open("b")
    request = client.call(1, "basic.get", queue="o.q", no_ack=True)
    address = request.properties["reply_to"]
    s.publish(1, "", address, b"reply", who="b")
    s.take(1)
    _told(s)


@scenario(cases=["publish.#", "publish.o.x", "deliver.#", "deliver.o.q", "*.o.x", "#.p"])
def traced_keys(s: Session, key: str) -> None:
    """What a queue is told of that binds with one key."""
    s.open()
    s.queue(TRACES)
    s.call(1, "exchange.declare", exchange="o.x", type="fanout")
    for queue in ("o.q", "o.p"):
        s.queue(queue)
        s.call(1, "queue.bind", queue=queue, exchange="o.x")
    s.call(1, "queue.bind", queue=TRACES, exchange="amq.rabbitmq.trace", routing_key=key)
    s.publish(1, "o.x", "k", b"x")
    for queue in ("o.q", "o.p"):
        s.until(queue, 1)
        s.get(queue, no_ack=True)
    _told(s)


@scenario
def traced_told_of_again(s: Session) -> None:
    """What came from the exchange of traces is not told of; what one publishes to it is not."""
    _traced(s)
    s.publish(1, "amq.topic", "a", b"x")
    _told(s)
    s.publish(1, "amq.rabbitmq.trace", "publish.x", b"by hand")
    s.until_settled(TRACES)
    s.drain(TRACES)
    s.drain(TRACES)
