"""The scripts about exchanges as such: properties, names, types, alternates, ends, bindings.

Source: PROP-09, B-07; `rabbit_exchange` and `rabbit_binding` of RabbitMQ 4.3.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.clients.raw import METHOD, RawClient, Typed, encode_method
from tests.oracle.registry import scenario
from tests.oracle.session import Session

FLAGS = ("durable", "auto_delete", "internal")
PROPERTIES = {
    "-".join([kind, *(flag for flag, on in zip(FLAGS, values, strict=True) if on)]): (
        kind,
        dict(zip(FLAGS, values, strict=True)),
    )
    for kind in ("direct", "fanout", "topic", "headers")
    for values in product((False, True), repeat=len(FLAGS))
    if kind == "direct" or len(set(values)) == 1
}


@scenario(cases=PROPERTIES)
def exchange_properties(s: Session, case: tuple[str, dict[str, bool]]) -> None:
    """Each combination: declared, again, with one property after the other changed, passively."""
    kind, flags = case
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type=kind, **flags)
    for flag in FLAGS:
        s.given = f"not {flag}" if flags[flag] else flag
        s.call(1, "exchange.declare", exchange="o.x", type=kind, **{**flags, flag: not flags[flag]})
    for other in ("direct", "fanout", "sideways"):
        s.given = other
        s.call(1, "exchange.declare", exchange="o.x", type=other, **flags)
    s.given = "the same"
    s.call(1, "exchange.declare", exchange="o.x", type=kind, **flags)
    s.given = "passive"
    s.call(1, "exchange.declare", exchange="o.x", type="sideways", passive=True)
    s.given = None
    s.call(1, "exchange.delete", exchange="o.x")
    s.call(1, "exchange.declare", exchange="o.x", passive=True)


NAMES: dict[str, Any] = {
    "255 bytes": "o." + "n" * 253,
    "UTF-8": "o.\u20ac",
    "a space": " ",
    "a null": "o.\x00",
    "a slash": "o./",
    "reserved": "amq.x",
    "nearly reserved": "amq",
    "system, another type": "amq.direct",
    "system, missing": "amq.rabbitmq.log",
}


@scenario(cases=NAMES)
def exchange_name(s: Session, name: str) -> None:
    """A name that may be one or not, in every method that takes it."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange=name, type="fanout", passive=True)
    s.call(1, "exchange.declare", exchange=name, type="fanout")
    s.call(1, "queue.bind", queue="o.q", exchange=name, routing_key="o.k")
    s.publish(1, name, "o.k", b"1", mandatory=True)
    s.call(1, "basic.qos")
    s.call(1, "queue.unbind", queue="o.q", exchange=name, routing_key="o.k")
    s.call(1, "exchange.delete", exchange=name)


@scenario(cases=["exchange.declare", "exchange.delete", "queue.bind", "basic.publish"])
def exchange_name_not_utf8(s: Session, method: str) -> None:
    """Bytes that are no text, where an exchange's name stands."""
    client = s.open()
    payload = encode_method(method, {"exchange": "o.??"}).replace(b"??", b"\xff\xfe")
    client.send_bytes(RawClient.frame(METHOD, 1, payload))
    if method == "basic.publish":
        client.send_bytes(client.publish_bytes(1, "", "")[len(RawClient.frame(1, 1, b"x" * 9)) :])
    s.take(1)


TYPES: dict[str, Any] = {
    "none": "",
    "upper case": "DIRECT",
    "with a blank": "direct ",
    "UTF-8": "dir\u00e9ct",
    "long": "t" * 255,
    "of a plugin": "x-consistent-hash",
    "of another plugin": "x-message-deduplication",
}


@scenario(cases=TYPES)
def exchange_type(s: Session, kind: str) -> None:
    """Types that there are not."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type=kind)
    s.call(1, "exchange.declare", exchange="amq.x", type=kind)
    s.call(1, "exchange.declare", exchange="", type=kind)
    s.call(1, "exchange.declare", exchange="o.none", type=kind, passive=True)


@scenario(cases=["o.none", "amq.direct", "amq.topic", "", "amq.none"])
def exchange_delete_system(s: Session, name: str) -> None:
    """Which exchanges can be deleted, and with what condition."""
    s.open()
    s.call(1, "exchange.delete", exchange=name)
    s.call(1, "exchange.delete", exchange=name, if_unused=True)
    s.send(1, "exchange.delete", exchange=name, nowait=True)
    s.call(1, "basic.qos")


ALTERNATES: dict[str, Any] = {
    "a name": "o.other", "a missing one": "o.none", "itself": "o.x", "the default": "",
    "none": None,
    "a number": 5, "a truth": True, "a list": ["o.other"], "a table": {"a": 1},
    "bytes": Typed("x", b"o.other"), "a long name": "n" * 300,
}  # fmt: skip


@scenario(cases=ALTERNATES)
def exchange_alternate(s: Session, value: Any) -> None:
    """What an alternate exchange is said to be, by type; declared again; a message it gets."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.other", type="fanout")
    s.call(1, "queue.bind", queue="o.q", exchange="o.other")
    declared = {"exchange": "o.x", "type": "direct"}
    arguments = {"alternate-exchange": value}
    s.call(1, "exchange.declare", **declared, arguments=arguments)
    s.call(1, "exchange.declare", **declared, arguments=arguments)
    s.call(1, "exchange.declare", **declared)
    s.call(1, "exchange.declare", **declared, arguments={"alternate-exchange": "amq.fanout"})
    s.publish(1, "o.x", "o.k", b"1", mandatory=True)
    s.call(1, "basic.qos")
    s.publish(1, "o.x", "o.q", b"2", mandatory=True)
    s.call(1, "basic.qos")


@scenario(cases=["direct", "fanout", "topic", "headers"])
def exchange_alternate_of_type(s: Session, kind: str) -> None:
    """What a binding takes does not go on; what none takes does, with its key."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    s.queue("o.rest")
    s.call(1, "exchange.declare", exchange="o.last", type="topic")
    second = {"alternate-exchange": "o.last"}
    s.call(1, "exchange.declare", exchange="o.other", type=kind, internal=True, arguments=second)
    first = {"alternate-exchange": "o.other"}
    s.call(1, "exchange.declare", exchange="o.x", type="direct", arguments=first)
    s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="o.k")
    for key in ("o.k", "o.z"):
        s.publish(1, "o.x", key, key.encode(), mandatory=True)
        s.confirmed(1, 1)
    s.call(
        1, "queue.bind", queue="o.q", exchange="o.other", routing_key="o.z",
        arguments={"x-match": "all", "h": 1},
    )  # fmt: skip
    s.call(1, "queue.bind", queue="o.rest", exchange="o.last", routing_key="#")
    for key, headers in (("o.z", {"h": 1}), ("o.z", {}), ("o.y", {})):
        s.publish(1, "o.x", key, key.encode(), {"headers": headers}, mandatory=True)
        s.confirmed(1, 1)
    s.drain("o.q", "o.rest")


@scenario(cases=["two", "itself", "three with CC"])
def exchange_alternate_cycle(s: Session, case: str) -> None:
    """Alternates that lead back: every exchange is asked once."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    ring = {"two": ["o.x", "o.y"], "itself": ["o.x"], "three with CC": ["o.x", "o.y", "o.z"]}[case]
    for name, then in zip(ring, ring[1:] + ring[:1], strict=True):
        s.call(
            1, "exchange.declare", exchange=name, type="direct",
            arguments={"alternate-exchange": then},
        )  # fmt: skip
    s.publish(1, "o.x", "k", b"1", mandatory=True)
    s.confirmed(1, 1)
    s.call(1, "queue.bind", queue="o.q", exchange=ring[-1], routing_key="k")
    s.publish(1, "o.x", "none", b"2", {"headers": {"CC": ["k"]}}, mandatory=True)
    s.confirmed(1, 1)
    s.drain("o.q")


@scenario
def exchange_alternate_late(s: Session) -> None:
    """An alternate exchange that comes, goes, and is of no use meanwhile."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    arguments = {"alternate-exchange": "o.other"}
    s.call(1, "exchange.declare", exchange="o.x", type="topic", arguments=arguments)
    for step in ("missing", "there", "bound", "gone"):
        s.given = step
        if step == "there":
            s.call(1, "exchange.declare", exchange="o.other", type="fanout", auto_delete=True)
        if step == "bound":
            s.call(1, "queue.bind", queue="o.q", exchange="o.other")
        if step == "gone":
            s.call(1, "queue.unbind", queue="o.q", exchange="o.other")
        s.publish(1, "o.x", "k", step.encode(), mandatory=True)
        s.confirmed(1, 1)
    s.drain("o.q")


ENDS = ("unbind", "queue", "exchange", "unbind exchange", "as target", "never bound")


@scenario(cases=ENDS)
def exchange_auto_delete_ends(s: Session, how: str) -> None:
    """An auto-delete exchange goes with the last binding of which it is the source."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type="fanout", auto_delete=True)
    s.call(1, "exchange.declare", exchange="o.y", type="fanout")
    if how in ("unbind", "queue"):
        for key in ("a", "b"):
            s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key=key)
        s.call(1, "queue.unbind", queue="o.q", exchange="o.x", routing_key="a")
        s.call(1, "exchange.declare", exchange="o.x", passive=True)
    if how in ("exchange", "unbind exchange"):
        s.call(1, "exchange.bind", destination="o.y", source="o.x", routing_key="k")
    if how == "as target":
        s.call(1, "exchange.bind", destination="o.x", source="o.y", routing_key="k")
        s.call(1, "exchange.unbind", destination="o.x", source="o.y", routing_key="k")
    if how == "unbind":
        s.call(1, "queue.unbind", queue="o.q", exchange="o.x", routing_key="b")
    elif how == "queue":
        s.call(1, "queue.delete", queue="o.q")
    elif how == "exchange":
        s.call(1, "exchange.delete", exchange="o.y")
    elif how == "unbind exchange":
        s.call(1, "exchange.unbind", destination="o.y", source="o.x", routing_key="k")
    s.call(1, "exchange.declare", exchange="o.x", passive=True)


@scenario
def exchange_auto_delete_chain(s: Session) -> None:
    """An exchange that goes takes its bindings along, and what depended on those."""
    s.open()
    s.queue("o.q")
    for name in ("o.first", "o.second", "o.third"):
        s.call(1, "exchange.declare", exchange=name, type="fanout", auto_delete=True)
    s.call(1, "exchange.bind", destination="o.second", source="o.first")
    s.call(1, "exchange.bind", destination="o.third", source="o.second")
    s.call(1, "queue.bind", queue="o.q", exchange="o.third")
    s.call(1, "queue.delete", queue="o.q")
    for name in ("o.first", "o.second", "o.third"):
        s.call(1, "exchange.declare", exchange=name, passive=True)


@scenario(cases=["queue", "source", "target", "nothing", "unbound"])
def exchange_delete_if_unused(s: Session, how: str) -> None:
    """In use is what has a binding of which it is the source."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type="fanout")
    s.call(1, "exchange.declare", exchange="o.y", type="fanout")
    if how in ("queue", "unbound"):
        s.call(1, "queue.bind", queue="o.q", exchange="o.x")
    if how == "source":
        s.call(1, "exchange.bind", destination="o.y", source="o.x")
    if how == "target":
        s.call(1, "exchange.bind", destination="o.x", source="o.y")
    if how == "unbound":
        s.call(1, "queue.unbind", queue="o.q", exchange="o.x")
    s.call(1, "exchange.delete", exchange="o.x", if_unused=True)
    s.call(1, "exchange.declare", exchange="o.x", passive=True)
    s.call(1, "exchange.delete", exchange="o.x")


@scenario
def exchange_internal_used(s: Session) -> None:
    """No client publishes to an internal exchange; messages come to it by others."""
    s.open()
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.in", type="fanout", internal=True)
    s.call(1, "exchange.declare", exchange="o.x", type="fanout")
    s.call(1, "exchange.bind", destination="o.in", source="o.x")
    s.call(1, "queue.bind", queue="o.q", exchange="o.in")
    s.publish(1, "o.x", "k", b"1", mandatory=True)
    s.until("o.q", 1)
    for flags in ({}, {"mandatory": True}):
        s.publish(1, "o.in", "k", b"2", **flags)
        s.take(1)
    s.drain("o.q")


DEFAULT: dict[str, tuple[str, dict[str, Any]]] = {
    "declare": ("exchange.declare", {"exchange": "", "type": "direct", "durable": True}),
    "declare passively": ("exchange.declare", {"exchange": "", "passive": True}),
    "declare otherwise": ("exchange.declare", {"exchange": "", "type": "fanout"}),
    "delete": ("exchange.delete", {"exchange": ""}),
    "delete if unused": ("exchange.delete", {"exchange": "", "if_unused": True}),
    "bind a queue": ("queue.bind", {"queue": "o.q", "exchange": "", "routing_key": "o.q"}),
    "bind a missing queue": ("queue.bind", {"queue": "o.none", "exchange": ""}),
    "unbind a queue": ("queue.unbind", {"queue": "o.q", "exchange": "", "routing_key": "o.q"}),
    "bind as source": ("exchange.bind", {"destination": "amq.topic", "source": ""}),
    "bind as target": ("exchange.bind", {"destination": "", "source": "amq.topic"}),
    "bind to itself": ("exchange.bind", {"destination": "", "source": ""}),
    "unbind as source": ("exchange.unbind", {"destination": "amq.topic", "source": ""}),
    "unbind as target": ("exchange.unbind", {"destination": "", "source": "amq.topic"}),
}


@scenario(cases=DEFAULT)
def exchange_default(s: Session, case: tuple[str, dict[str, Any]]) -> None:
    """What cannot be done with the default exchange."""
    method, args = case
    s.open()
    s.queue("o.q")
    s.call(1, method, **args)
    s.publish(1, "", "o.q", b"1")
    s.until("o.q", 1)


BINDINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "no queue": ("queue.bind", {"queue": "o.none", "exchange": "amq.direct"}),
    "no exchange": ("queue.bind", {"queue": "o.q", "exchange": "o.none"}),
    "neither": ("queue.bind", {"queue": "o.none", "exchange": "o.none"}),
    "unbind no queue": ("queue.unbind", {"queue": "o.none", "exchange": "amq.direct"}),
    "unbind no exchange": ("queue.unbind", {"queue": "o.q", "exchange": "o.none"}),
    "unbind what is not bound": ("queue.unbind", {"queue": "o.q", "exchange": "amq.direct"}),
    "no source": ("exchange.bind", {"destination": "amq.topic", "source": "o.none"}),
    "no target": ("exchange.bind", {"destination": "o.none", "source": "amq.topic"}),
    "neither end": ("exchange.bind", {"destination": "o.none", "source": "o.neither"}),
    "unbind no source": ("exchange.unbind", {"destination": "amq.topic", "source": "o.none"}),
    "unbind no target": ("exchange.unbind", {"destination": "o.none", "source": "amq.topic"}),
    "unbind neither": ("exchange.unbind", {"destination": "amq.topic", "source": "amq.fanout"}),
    "to itself": ("exchange.bind", {"destination": "amq.topic", "source": "amq.topic"}),
    "headers, no such match": (
        "queue.bind",
        {"queue": "o.q", "exchange": "amq.headers", "arguments": {"x-match": "none"}},
    ),
    "headers, match of a list": (
        "queue.bind",
        {"queue": "o.q", "exchange": "amq.headers", "arguments": {"x-match": ["all"]}},
    ),
    "headers, between exchanges": (
        "exchange.bind",
        {"destination": "amq.topic", "source": "amq.headers", "arguments": {"x-match": "All"}},
    ),
    "not headers": (
        "queue.bind",
        {"queue": "o.q", "exchange": "amq.direct", "arguments": {"x-match": "none", "a": None}},
    ),
    "topic, many of any": (
        "queue.bind",
        {"queue": "o.q", "exchange": "amq.topic", "routing_key": "#.a.#.b.#"},
    ),
    "topic, two of any": (
        "queue.bind",
        {"queue": "o.q", "exchange": "amq.topic", "routing_key": "#.a.#"},
    ),
    "topic, many beside": (
        "queue.bind",
        {"queue": "o.q", "exchange": "amq.topic", "routing_key": "#.#.#.#"},
    ),
    "topic, long": (
        "queue.bind",
        {"queue": "o.q", "exchange": "amq.topic", "routing_key": ".".join("a" * 128)},
    ),
    "to the reply queue": ("queue.bind", {"queue": "amq.rabbitmq.reply-to", "exchange": "a"}),
}  # fmt: skip


@scenario(cases=BINDINGS)
def bind(s: Session, case: tuple[str, dict[str, Any]]) -> None:
    """What is said of a binding, its second time, its end, and its end again."""
    method, args = case
    s.open()
    s.queue("o.q")
    s.call(1, method, **args)
    s.call(1, method, **args)
    other = (
        method.replace("unbind", "bind") if "unbind" in method else method.replace("bind", "unbind")
    )
    s.call(1, other, **args)
    s.call(1, other, **args)


@scenario
def bind_arguments_count(s: Session) -> None:
    """Bindings with other arguments are others, as to types and what has no use; not in order."""
    s.open()
    s.call(1, "confirm.select")
    s.queue("o.q")
    s.call(1, "exchange.declare", exchange="o.x", type="direct")
    many: tuple[dict[str, Any], ...] = (
        {}, {"a": 1}, {"a": Typed("l", 1)}, {"a": 1.0}, {"a": "1"}, {"a": True}, {"a": None},
        {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": [1]}, {"a": {"x": 1}},
    )  # fmt: skip
    where = {"queue": "o.q", "exchange": "o.x", "routing_key": "k"}
    for arguments in many:
        s.call(1, "queue.bind", **where, arguments=arguments)
    for number, arguments in enumerate(many):
        s.given = repr(arguments)
        s.call(1, "queue.unbind", **where, arguments=arguments)
        s.publish(1, "o.x", "k", b"%d" % number, mandatory=True)
        s.confirmed(1, 1)
    s.drain("o.q")


@scenario
def bind_nowait(s: Session) -> None:
    """Nothing is answered, but for errors."""
    s.open()
    s.queue("o.q")
    s.send(1, "exchange.declare", exchange="o.x", type="fanout", nowait=True)
    s.send(1, "exchange.declare", exchange="o.y", type="fanout", nowait=True)
    s.send(1, "exchange.bind", destination="o.y", source="o.x", nowait=True)
    s.send(1, "queue.bind", queue="o.q", exchange="o.y", nowait=True)
    s.publish(1, "o.x", "k", b"1", mandatory=True)
    s.until("o.q", 1)
    s.send(1, "exchange.unbind", destination="o.y", source="o.x", nowait=True)
    s.publish(1, "o.x", "k", b"2", mandatory=True)
    s.take(1)
    s.call(1, "exchange.declare", exchange="o.x", type="topic", nowait=True)
    s.call(1, "exchange.declare", exchange="o.none", passive=True, nowait=True)
    s.call(1, "exchange.bind", destination="o.none", source="o.x", nowait=True)
    s.call(1, "exchange.delete", exchange="amq.topic", nowait=True)
    s.call(1, "exchange.delete", exchange="o.x", if_unused=True)
