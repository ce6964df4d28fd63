"""The scripts about which queues a message comes to.

Source: ORD-04, B-07; `rabbit_exchange_type_*` and `rabbit_exchange:route` of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Any

from tests.clients.raw import Typed
from tests.oracle.registry import scenario
from tests.oracle.session import Session

TOPIC_KEYS = (
    "", ".", "..", "a", "a.b", "a.b.c", "a.b.c.d", "b", "b.c", "a..c", ".a", "a.", "A", "*", "#",
    "a.*", "a.#", "\u00e9.b", "a b", "c", "a.c",
)  # fmt: skip
TOPIC_PATTERNS = (
    "", ".", "a", "a.b", "*", "*.*", "*.b", "a.*", "a.*.c", "#", "#.#", "#.b", "a.#", "a.#.c",
    "#.b.#", "*.#", "#.*", "*.#.*", "a.#.#", "**", "a*", "##", "#a", "\u00e9.*", ".#", "#.",
)  # fmt: skip


@scenario(cases=TOPIC_PATTERNS)
def topic(s: Session, pattern: str) -> None:
    """Which of many keys a pattern matches: what it does not comes back."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type="topic")
    s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key=pattern)
    _matched(s, "o.x", {key: (key, {}) for key in TOPIC_KEYS})


def _matched(s: Session, exchange: str, cases: dict[str, tuple[str, dict[str, Any]]]) -> None:
    """Note the cases that come to a queue: returns of the others come in order."""
    client = s.clients["a"]
    for case, (key, table) in cases.items():
        s.publish(1, exchange, key, case.encode(), {"headers": table}, mandatory=True)
    client.send(1, "basic.qos")
    returned = set()
    while (event := client.next(1)).name == "basic.return":
        returned.add(event.body.decode())
    assert event.name == "basic.qos-ok", event
    s.note({"matched": [case for case in cases if case not in returned]})


HEADERS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a=1": {"a": 1},
    "a=1 as long": {"a": Typed("l", 1)},
    "a=1 as byte": {"a": Typed("b", 1)},
    "a=1 as time": {"a": Typed("T", 1)},
    "a=1000": {"a": 1000},
    "a=1000 as time": {"a": Typed("T", 1000)},
    "a=1.0": {"a": 1.0},
    "a=1.0 as float": {"a": Typed("f", 1.0)},
    "a='1'": {"a": "1"},
    "a=b'1'": {"a": Typed("x", b"1")},
    "a=true": {"a": True},
    "a=void": {"a": None},
    "a=[1]": {"a": [1]},
    "a={}": {"a": {}},
    "a=0.10": {"a": Typed("D", (1, 1))},
    "A=1": {"A": 1},
    "b=2": {"b": 2},
    "a=1 b=2": {"a": 1, "b": 2},
    "a=1 b=3": {"a": 1, "b": 3},
    "a=1 x-h=1": {"a": 1, "x-h": 1},
    "x-h=1": {"x-h": 1},
    "x-match=all": {"x-match": "all"},
}
MATCHES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "all nothing": {"x-match": "all"},
    "any nothing": {"x-match": "any"},
    "all-with-x nothing": {"x-match": "all-with-x"},
    "any-with-x nothing": {"x-match": "any-with-x"},
    "a=1": {"a": 1},
    "a=1 as long": {"a": Typed("l", 1)},
    "a=1 as time": {"a": Typed("T", 1)},
    "a=1000": {"a": 1000},
    "a=1000 as time": {"a": Typed("T", 1000)},
    "a=1.0": {"a": 1.0},
    "a='1'": {"a": "1"},
    "a=b'1'": {"a": Typed("x", b"1")},
    "a=true": {"a": True},
    "a=void": {"a": None},
    "a=[1]": {"a": [1]},
    "a={}": {"a": {}},
    "a=0.10": {"a": Typed("D", (1, 1))},
    "all a=1 b=2": {"x-match": "all", "a": 1, "b": 2},
    "any a=1 b=2": {"x-match": "any", "a": 1, "b": 2},
    "all a=1 x-h=1": {"x-match": "all", "a": 1, "x-h": 1},
    "any a=5 x-h=1": {"x-match": "any", "a": 5, "x-h": 1},
    "all-with-x a=1 x-h=1": {"x-match": "all-with-x", "a": 1, "x-h": 1},
    "any-with-x a=5 x-h=1": {"x-match": "any-with-x", "a": 5, "x-h": 1},
    "any a=void b=9": {"x-match": "any", "a": None, "b": 9},
    "all x-h=1 alone": {"x-match": "all", "x-h": 1},
}


@scenario(cases=MATCHES)
def headers(s: Session, arguments: dict[str, Any]) -> None:
    """Which headers a binding of a headers exchange matches."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type="headers")
    s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="k", arguments=arguments)
    _matched(s, "o.x", {case: ("any key", table) for case, table in HEADERS.items()})


@scenario
def headers_without_table(s: Session) -> None:
    """A message without headers at all, to bindings that ask for something and for nothing."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="headers")
    for name, arguments in (("all", {}), ("any", {"x-match": "any"}), ("a", {"a": 1})):
        s.queue(f"o.{name}")
        s.call(1, "queue.bind", queue=f"o.{name}", exchange="o.x", arguments=arguments)
    s.call(1, "confirm.select")
    s.publish(1, "o.x", "", b"none", mandatory=True)
    s.confirmed(1, 1)
    s.publish(1, "o.x", "", b"empty", {"headers": {}}, mandatory=True)
    s.confirmed(1, 1)
    s.drain("o.all", "o.any", "o.a")


@scenario(cases=["direct", "fanout", "topic", "headers"])
def several_bindings(s: Session, kind: str) -> None:
    """A queue that is bound in several ways gets a message once."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type=kind)
    for key in ("k", "#", "*", "other"):
        for arguments in ({}, {"n": 1}):
            s.call(
                1, "queue.bind", queue="o.q", exchange="o.x", routing_key=key, arguments=arguments
            )
    s.publish(1, "o.x", "k", b"1", {"headers": {"n": 1, "CC": ["other", "k"]}}, mandatory=True)
    s.confirmed(1, 1)
    s.drain("o.q")


CARBON_COPIES: dict[str, Any] = {
    "a list": ["o.cc"],
    "a string": "o.cc",
    "a number": 5,
    "void": None,
    "a table": {"o.cc": 1},
    "an empty list": [],
    "a list with others": ["o.cc", 5, None, ["o.cc2"]],
    "twice the same": ["o.cc", "o.cc", "o.q"],
    "nobody": ["o.none"],
    "an empty string": [""],
    "bytes": [Typed("x", b"o.cc")],
    "a long one": ["k" * 300, "o.cc"],
    "many": [f"o.none{number}" for number in range(50)] + ["o.cc"],
}


@scenario(cases=CARBON_COPIES)
def cc(s: Session, value: Any) -> None:
    """What the header CC may hold; who gets the message, and with which headers."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    s.queue("o.cc")
    s.publish(1, "", "o.q", b"cc", {"headers": {"CC": value, "h": 1}}, mandatory=True)
    s.confirmed(1, 1)
    s.drain("o.q", "o.cc")


@scenario(cases=CARBON_COPIES)
def bcc(s: Session, value: Any) -> None:
    """The same of the header BCC, which is taken out."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    s.queue("o.cc")
    s.publish(1, "", "o.q", b"bcc", {"headers": {"BCC": value, "h": 1}}, mandatory=True)
    s.confirmed(1, 1)
    s.drain("o.q", "o.cc")


@scenario(cases=["direct", "fanout", "topic", "headers"])
def cc_of_type(s: Session, kind: str) -> None:
    """Keys of CC and BCC are looked up in the exchange, and go on to those bound to it."""
    s.open()
    s.call(1, "confirm.select")
    for name in ("o.q", "o.cc", "o.bcc"):
        s.queue(name)
    s.call(1, "exchange.declare", exchange="o.x", type=kind)
    s.call(1, "exchange.declare", exchange="o.y", type="direct")
    s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="k")
    s.call(1, "exchange.bind", destination="o.y", source="o.x", routing_key="c")
    s.call(1, "queue.bind", queue="o.cc", exchange="o.y", routing_key="c")
    s.call(1, "queue.bind", queue="o.bcc", exchange="o.y", routing_key="b")
    for key in ("k", "c", "none"):
        copies = {"headers": {"CC": ["c"], "BCC": ["b", "k"]}}
        s.publish(1, "o.x", key, key.encode(), copies, mandatory=True)
        s.confirmed(1, 1)
    s.drain("o.q", "o.cc", "o.bcc")


@scenario
def cc_names_no_letters(s: Session) -> None:
    """The headers are called CC and BCC, and nothing like it."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    s.queue("o.cc")
    for name in ("cc", "Cc", "bcc", "CC ", "x-cc"):
        s.publish(1, "", "o.q", name.encode(), {"headers": {name: ["o.cc"]}}, mandatory=True)
        s.confirmed(1, 1)
    s.drain("o.q", "o.cc")


DIRECT_KEYS = ("", "k", "K", " k", "k.k", "*", "#", "\u00e9", "k" * 255)


@scenario(cases=["direct", "fanout"])
def keys(s: Session, kind: str) -> None:
    """Keys are compared as they are, or not at all."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type=kind)
    for number, bound in enumerate(DIRECT_KEYS):
        s.queue(f"o.q{number}")
        s.call(1, "queue.bind", queue=f"o.q{number}", exchange="o.x", routing_key=bound)
    for key in DIRECT_KEYS:
        s.publish(1, "o.x", key, key.encode())
    if kind == "fanout":
        s.until("o.q0", len(DIRECT_KEYS))
    for number in range(len(DIRECT_KEYS)):
        s.until(f"o.q{number}", 1 if kind == "direct" else len(DIRECT_KEYS))
        s.get(f"o.q{number}", no_ack=True)


@scenario
def default_exchange_keys(s: Session) -> None:
    """The default exchange knows queues by their whole names, and nothing else."""
    s.open()
    s.queue("o.q")
    _matched(s, "", {key: (key, {}) for key in ("o.q", "o.Q", "o.q ", "o.*", "#", "", "o")})


@scenario(cases=["direct", "fanout", "topic", "headers"])
def exchanges_bound(s: Session, kind: str) -> None:
    """An exchange bound to another gets what its binding matches, and looks for itself."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type=kind)
    s.call(1, "exchange.declare", exchange="o.y", type="topic")
    s.call(1, "exchange.bind", destination="o.y", source="o.x", routing_key="a.b")
    s.call(1, "exchange.bind", destination="o.y", source="o.x", routing_key="#", arguments={"h": 1})
    s.call(1, "queue.bind", queue="o.q", exchange="o.y", routing_key="a.*")
    cases = {key: (key, {}) for key in ("a.b", "a.c", "b.a", "#")}
    _matched(s, "o.x", {**cases, "with a header": ("a.z", {"h": 1})})
    s.call(1, "exchange.delete", exchange="o.y")
    _matched(s, "o.x", cases)
