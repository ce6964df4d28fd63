"""The scripts about exchanges that spread messages, by a hash or at random, and of all in between.

The oracle has to have the plugins `rabbitmq_consistent_hash_exchange`, `rabbitmq_random_exchange`.

Source: `rabbit_exchange_type_*` of RabbitMQ 4.3.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.clients.raw import Typed
from tests.oracle.registry import scenario
from tests.oracle.session import Session

HASH = "x-consistent-hash"
KINDS = ("direct", "fanout", "topic", "headers", HASH, "x-modulus-hash", "x-random")


def where(s: Session, *queues: str) -> None:
    """Note which messages came to which queue."""
    client = s.clients["a"]
    found: dict[str, list[str]] = {}
    for queue in queues:
        while True:
            client.send(1, "basic.get", queue=queue, no_ack=True)
            event = client.next(1)
            if event.name != "basic.get-ok":
                break
            found.setdefault(queue, []).append(event.body.decode())
    s.note(found)


def _bound(s: Session, kind: str, arguments: dict[str, Any], *weights: str) -> None:
    """An exchange with queues o.q1, o.q2, ... bound by these keys."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type=kind, arguments=arguments)
    for number, weight in enumerate(weights, 1):
        s.queue(f"o.q{number}")
        s.call(1, "queue.bind", queue=f"o.q{number}", exchange="o.x", routing_key=weight)


PLACES = [
    f"{kind}{' internal' * internal}{' auto-delete' * auto_delete}{' with alternate' * alternate}"
    for kind, internal, auto_delete, alternate in product(KINDS, (0, 1), (0, 1), (0, 1))
]


@scenario(cases=PLACES)
def exchange_in_between(s: Session, case: str) -> None:
    """An exchange bound to another, with a queue, without one, and gone, in each combination."""
    kind = case.split(" ")[0]
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    s.queue("o.rest")
    s.call(1, "exchange.declare", exchange="o.first", type="fanout")
    s.call(1, "exchange.declare", exchange="o.other", type="direct", internal=True)
    s.call(1, "queue.bind", queue="o.rest", exchange="o.other", routing_key="2")
    declared = {
        "exchange": "o.x", "type": kind, "internal": "internal" in case,
        "auto_delete": "auto-delete" in case,
        "arguments": {"alternate-exchange": "o.other"} if "alternate" in case else {},
    }  # fmt: skip
    s.call(1, "exchange.declare", **declared)
    s.call(1, "exchange.bind", destination="o.x", source="o.first")
    for step in ("unbound", "bound", "unbound again"):
        s.given = step
        if step == "bound":
            s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="2")
        if step == "unbound again":
            s.call(1, "queue.unbind", queue="o.q", exchange="o.x", routing_key="2")
        s.publish(1, "o.first", "2", step.encode(), mandatory=True)
        s.confirmed(1, 1)
    s.call(1, "exchange.declare", exchange="o.x", passive=True)
    s.call(1, "confirm.select")
    s.publish(1, "o.x", "2", b"to it", mandatory=True)
    s.take(1)
    s.drain("o.q", "o.rest")


ARGUMENTS: dict[str, dict[str, Any]] = {
    "none": {},
    "header": {"hash-header": "h"},
    "empty header": {"hash-header": ""},
    "correlation_id": {"hash-property": "correlation_id"},
    "message_id": {"hash-property": "message_id"},
    "timestamp": {"hash-property": "timestamp"},
    "app_id": {"hash-property": "app_id"},
    "empty property": {"hash-property": ""},
    "both": {"hash-header": "h", "hash-property": "message_id"},
    "both, wrong": {"hash-header": "h", "hash-property": "none"},
    "alternate of a wrong type": {"hash-property": "none", "alternate-exchange": 5},
}


@scenario(cases=ARGUMENTS)
def hash_arguments(s: Session, arguments: dict[str, Any]) -> None:
    """By what an exchange spreads; it is not compared when it is declared again."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type=HASH, arguments=arguments)
    s.call(1, "exchange.declare", exchange="o.x", type=HASH, arguments=arguments)
    s.call(1, "exchange.declare", exchange="o.x", type=HASH)
    s.call(1, "exchange.declare", exchange="o.x", type="x-modulus-hash")
    s.call(1, "exchange.declare", exchange="o.x", type=HASH, arguments={"hash-property": "none"})


WEIGHTS = (
    "1", "10", "10000", "0", "-1", "10001", "+2", "007", "", " 1", "1 ", "1.5", "a", "\u00e9",
)  # fmt: skip


@scenario(cases=WEIGHTS)
def hash_weight(s: Session, weight: str) -> None:
    """What a binding's key may be."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type=HASH)
    for method in ("queue.bind", "queue.bind", "queue.unbind"):
        s.call(1, method, queue="o.q", exchange="o.x", routing_key=weight)
    s.call(1, "exchange.bind", destination="amq.fanout", source="o.x", routing_key=weight)
    s.call(1, "exchange.unbind", destination="amq.fanout", source="o.x", routing_key=weight)


BY: dict[str, dict[str, Any]] = {
    "key": {},
    "header": {"hash-header": "h"},
    "message_id": {"hash-property": "message_id"},
    "correlation_id": {"hash-property": "correlation_id"},
    "timestamp": {"hash-property": "timestamp"},
}


@scenario(cases=BY)
def hash_spread(s: Session, arguments: dict[str, Any]) -> None:
    """To which of four queues a message goes, as places are taken, by what is alike."""
    _bound(s, HASH, arguments, "1", "2", "3", "10")
    for number in range(60):
        text = f"{number:03} \u20ac"
        properties = {
            "headers": {"h": text}, "message_id": text, "correlation_id": text,
            "timestamp": 1_800_000_000 + number,
        }  # fmt: skip
        s.publish(1, "o.x", text, text.encode(), properties, mandatory=True)
    where(s, "o.q1", "o.q2", "o.q3", "o.q4")


VALUES: dict[str, Any] = {
    "zero": 0, "one": 1, "minus one": -1, "large": Typed("l", 2**62 + 1), "byte": Typed("b", 5),
    "long five": Typed("l", 5), "true": True, "false": False, "void": None, "double": 1.5,
    "minus zero": -0.0, "float": Typed("f", 0.1), "time": Typed("T", 1_800_000_000),
    "text": "text", "bytes": Typed("x", b"text"), "empty": "", "five": "5",
}  # fmt: skip


@scenario
def hash_header_values(s: Session) -> None:
    """Where headers of each type send a message, one that is missing, and no headers at all."""
    _bound(s, HASH, {"hash-header": "x-h"}, "10", "10", "10")
    for name, value in VALUES.items():
        s.publish(1, "o.x", "k", name.encode(), {"headers": {"x-h": value}})
    s.publish(1, "o.x", "k", b"other", {"headers": {"h": "text"}})
    s.publish(1, "o.x", "k", b"none")
    for name in ("message_id", "timestamp"):
        s.call(1, "exchange.declare", exchange=f"o.{name}", type=HASH,
               arguments={"hash-property": name})  # fmt: skip
        for number in (1, 2, 3):
            s.call(1, "queue.bind", queue=f"o.q{number}", exchange=f"o.{name}", routing_key="10")
        s.publish(1, f"o.{name}", "k", f"no {name}".encode())
    where(s, "o.q1", "o.q2", "o.q3")


@scenario
def hash_carbon_copies(s: Session) -> None:
    """A message with further keys still goes to one queue, by its own key."""
    _bound(s, HASH, {}, "1", "1", "1", "1")
    for number in range(12):
        copies = {"headers": {"CC": ["a", f"b{number}"], "BCC": ["c"]}}
        s.publish(1, "o.x", f"k{number}", b"%d" % number, copies)
    where(s, "o.q1", "o.q2", "o.q3", "o.q4")


@scenario
def hash_bindings_change(s: Session) -> None:
    """Those behind a binding that goes move up; one that comes is last."""
    _bound(s, HASH, {}, "5", "5", "5", "5")
    for step in ("all", "two gone", "two again", "one deleted"):
        if step == "two gone":
            s.call(1, "queue.unbind", queue="o.q2", exchange="o.x", routing_key="5")
        if step == "two again":
            s.call(1, "queue.bind", queue="o.q2", exchange="o.x", routing_key="7")
        if step == "one deleted":
            s.call(1, "queue.delete", queue="o.q1")
            s.queue("o.q1")
        for number in range(30):
            s.publish(1, "o.x", f"k{number}", b"%d" % number, mandatory=True)
        where(s, "o.q1", "o.q2", "o.q3", "o.q4")


@scenario
def hash_bound_twice(s: Session) -> None:
    """The first binding of a queue counts."""
    _bound(s, HASH, {}, "1", "1")
    s.call(1, "queue.bind", queue="o.q1", exchange="o.x", routing_key="100")
    for number in range(30):
        s.publish(1, "o.x", f"k{number}", b"%d" % number)
    where(s, "o.q1", "o.q2")


@scenario(cases=["one", "another", "one with CC"])
def modulus_spread(s: Session, case: str) -> None:
    """To which of three queues and an exchange a message goes; names count, not their order."""
    order = "2", "1", "3"
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="x-modulus-hash")
    s.call(1, "exchange.declare", exchange="o.y", type="fanout")
    for number in order if case == "another" else sorted(order):
        s.queue(f"o.q{number}")
        s.call(1, "queue.bind", queue=f"o.q{number}", exchange="o.x", routing_key="any")
    s.queue("o.q4")
    s.call(1, "queue.bind", queue="o.q4", exchange="o.y")
    s.call(1, "exchange.bind", destination="o.y", source="o.x")
    for number in range(40):
        copies = {"headers": {"CC": ["c", f"d{number}"], "BCC": ["b"]}} if "CC" in case else {}
        s.publish(1, "o.x", f"k{number}", b"%d" % number, copies)
    where(s, "o.q1", "o.q2", "o.q3", "o.q4")


@scenario
def random_spread(s: Session) -> None:
    """Each message comes to one queue; sooner or later each queue has some."""
    _bound(s, "x-random", {}, "a", "b", "c")
    for number in range(90):
        s.publish(1, "o.x", "k", b"%d" % number, mandatory=True)
    client, counts = s.clients["a"], []
    for queue in ("o.q1", "o.q2", "o.q3"):
        client.send(1, "queue.purge", queue=queue)
        counts.append(client.next(1).args["message_count"])
    s.note({"sum": sum(counts), "each": min(counts) > 0})


LOCAL = "x-local-random"


@scenario(cases=["", "k", "two words"])
def local_random_key(s: Session, key: str) -> None:
    """What a binding's key may be, to a queue and to an exchange."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type=LOCAL)
    for method in ("queue.bind", "queue.bind", "queue.unbind"):
        s.call(1, method, queue="o.q", exchange="o.x", routing_key=key)
    s.call(1, "queue.bind", queue="o.none", exchange="o.x", routing_key=key)
    s.call(1, "exchange.bind", destination="amq.fanout", source="o.x", routing_key=key)
    s.call(1, "exchange.bind", destination="o.none", source="o.x", routing_key=key)
    s.call(1, "exchange.unbind", destination="amq.fanout", source="o.x", routing_key=key)


@scenario(cases=["classic", "quorum"])
def local_random_queue_type(s: Session, kind: str) -> None:
    """It leads to queues of one type only."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type=LOCAL, arguments={"x-any": 1})
    s.call(1, "exchange.declare", exchange="o.x", type=LOCAL)
    s.call(1, "exchange.declare", exchange="o.x", type="fanout")
    arguments = {"x-queue-type": kind}
    s.call(1, "queue.declare", queue="o.q", durable=True, arguments=arguments)
    s.call(1, "queue.bind", queue="o.q", exchange="o.x")
    s.publish(1, "o.x", "k", b"1", mandatory=True)
    if kind == "classic":
        s.quiet(1)
    else:
        s.take(1)
    s.drain("o.q")


@scenario(cases=["alone", "with alternate"])
def local_random_spread(s: Session, case: str) -> None:
    """Each message comes to one queue, whatever its key; without queues to the alternate."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.rest")
    s.call(1, "exchange.declare", exchange="o.other", type="fanout")
    s.call(1, "queue.bind", queue="o.rest", exchange="o.other")
    arguments = {"alternate-exchange": "o.other"} if "alternate" in case else {}
    s.call(1, "exchange.declare", exchange="o.x", type=LOCAL, arguments=arguments)
    s.publish(1, "o.x", "k", b"unbound", mandatory=True)
    s.confirmed(1, 1)
    for number in (1, 2, 3):
        s.queue(f"o.q{number}")
        s.call(1, "queue.bind", queue=f"o.q{number}", exchange="o.x")
    for number in range(90):
        s.publish(1, "o.x", "k", b"%d" % number, mandatory=True)
    s.confirmed(1, 90)
    client, counts = s.clients["a"], []
    for queue in ("o.q1", "o.q2", "o.q3"):
        client.send(1, "queue.purge", queue=queue)
        counts.append(client.next(1).args["message_count"])
    s.note({"sum": sum(counts), "each": min(counts) > 0})
    s.drain("o.rest")
