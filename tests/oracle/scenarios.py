"""The scripts played to RabbitMQ and to Warren: declaring, routing, and every error there.

Queue names begin with `o.` so that they meet no other test's. What a scenario is: `registry.py`.

Source: B-07 lists the errors; the recorded answers are RabbitMQ 4.3's.
"""

from __future__ import annotations

import time
from contextlib import suppress

from tests.clients.raw import (
    BODY,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    WAIT_S,
    Closed,
    RawClient,
    Typed,
    encode_method,
    encode_properties,
)
from tests.oracle.registry import scenario
from tests.oracle.session import Session

QUORUM = {"x-queue-type": "quorum"}


# Connections


@scenario
def handshake_start(s: Session) -> None:
    """What the broker says of itself; values that name a product or machine are left out."""
    client = s.bare()
    client.send_bytes(PROTOCOL_HEADER)
    event = client.next(0)
    said = event.args.pop("server_properties")
    s.note({"server_properties": sorted(said), "capabilities": said["capabilities"].value})
    event.args["mechanisms"] = b" ".join(sorted(event.args["mechanisms"].split()))
    s.note({key: repr(value) for key, value in event.args.items()})


@scenario
def handshake_tune(s: Session) -> None:
    """The limits offered."""
    client = s.bare()
    s.note(client.start().args)


@scenario
def handshake_wrong_protocol_header(s: Session) -> None:
    """Another protocol's first bytes get ours back and the socket closed."""
    client = s.bare()
    client.send_bytes(b"HTTP\x01\x01\x00\x0a")
    s.note(client.read_exactly(8, time.monotonic() + WAIT_S).hex())
    s.gone()


@scenario
def handshake_wrong_version(s: Session) -> None:
    """AMQP 0-8 is answered with the version that is spoken."""
    client = s.bare()
    client.send_bytes(b"AMQP\x01\x01\x08\x00")
    s.note(client.read_exactly(8, time.monotonic() + WAIT_S).hex())
    s.gone()


def _login(s: Session, capable: bool, **start: object) -> None:
    client = s.bare()
    capabilities = {"authentication_failure_close": True} if capable else {}
    client.send_bytes(PROTOCOL_HEADER)
    client.expect(0, "connection.start")
    client.send(
        0, "connection.start-ok", client_properties={"capabilities": capabilities}, locale="en_US",
        **start,
    )  # fmt: skip
    s.take(0)


@scenario
def login_refused(s: Session) -> None:
    """A wrong password, told by a close to a client that says it understands one."""
    _login(s, True, mechanism="PLAIN", response=b"\0guest\0wrong")


@scenario
def login_refused_unknown_user(s: Session) -> None:
    """An unknown user gets the same answer as a wrong password."""
    _login(s, True, mechanism="PLAIN", response=b"\0nobody\0wrong")


@scenario(waits=True)
def login_refused_old_client(s: Session) -> None:
    """A client without the capability is cut off."""
    _login(s, False, mechanism="PLAIN", response=b"\0guest\0wrong")


@scenario(waits=True)
def login_unknown_mechanism(s: Session) -> None:
    """A mechanism that was not offered."""
    _login(s, True, mechanism="NONE", response=b"")


@scenario
def login_amqplain(s: Session) -> None:
    """AMQPLAIN works and refuses alike."""
    client = s.bare()
    s.note(client.start(mechanism="AMQPLAIN").name)
    client.socket.close()
    client = s.bare("b")
    event = client.start(mechanism="AMQPLAIN", password="wrong")
    s.note(event.args)


@scenario
def open_unknown_vhost(s: Session) -> None:
    """A vhost that does not exist."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **tune)
    s.call(0, "connection.open", virtual_host="nowhere")


@scenario
def tune_frame_max_too_small(s: Session) -> None:
    """A client that asks for smaller frames than the protocol's minimum."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **{**tune, "frame_max": 100})
    s.take(0)


@scenario
def tune_frame_max_too_large(s: Session) -> None:
    """A client that takes more than was offered."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **{**tune, "frame_max": 1 << 20})
    s.take(0)


@scenario
def tune_channel_max_too_large(s: Session) -> None:
    """A client that takes more channels than were offered."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **{**tune, "channel_max": 60000})
    s.take(0)


@scenario
def tune_frame_max_zero(s: Session) -> None:
    """A client that wants no limit to frames."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **{**tune, "frame_max": 0})
    s.take(0)


@scenario
def tune_channel_max_zero(s: Session) -> None:
    """A client that wants no limit to its channels."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **{**tune, "channel_max": 0})
    s.take(0)


@scenario
def tune_heartbeat_zero(s: Session) -> None:
    """A client that wants no heartbeats."""
    client = s.bare()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **{**tune, "heartbeat": 0})
    s.call(0, "connection.open", virtual_host="/")


@scenario(waits=True)
def heartbeats_to_the_end(s: Session) -> None:
    """A client that does not answer a close hears heartbeats, until it is given up."""
    client = s.open(heartbeat=2)
    begun = time.monotonic()
    s.send(0, "channel.open")
    client.expect(0, "connection.close")
    with suppress(Closed):
        client.read_event()
    s.note({"heard": client.heartbeats > 0, "early": time.monotonic() - begun < 1.9})


@scenario
def channel_max_exceeded(s: Session) -> None:
    """One channel more than negotiated."""
    s.open("a", 1, 2, channel_max=2)
    s.call(3, "channel.open")


@scenario
def channel_numbers_above_max(s: Session) -> None:
    """How many channels is limited, not which."""
    s.open("a", 60000, channel_max=2)
    s.call(7, "channel.open")
    s.call(9, "channel.open")


@scenario(waits=True)
def handshake_frame_too_large(s: Session) -> None:
    """A stranger's frame above 8 KiB."""
    client = s.bare()
    client.send_bytes(PROTOCOL_HEADER)
    client.expect(0, "connection.start")
    client.send_bytes(RawClient.frame(METHOD, 0, bytes(100_000))[:100])
    s.take(0)


@scenario
def connection_close(s: Session) -> None:
    """A polite end: the socket is the client's to close, and it may close once more."""
    client = s.open()
    s.call(0, "connection.close", reply_code=200, reply_text="bye")
    client.send_bytes(client.publish_bytes(1, "", "o.q", b"late"))
    client.send(1, "queue.declare", queue="o.late")
    client.send(2, "channel.open")
    client.send(0, "connection.close", reply_code=200, reply_text="bye")
    s.take(0)
    s.quiet(0)


@scenario
def connection_close_answered(s: Session) -> None:
    """A client that answers its own close ends it."""
    s.open()
    s.call(0, "connection.close", reply_code=200, reply_text="bye")
    s.send(0, "connection.close-ok")
    s.gone()


@scenario(waits=True)
def connection_close_unfinished(s: Session) -> None:
    """A client that closes and leaves its socket open hears heartbeats, until it is given up."""
    client = s.open(heartbeat=2)
    s.call(0, "connection.close", reply_code=200, reply_text="bye")
    begun = time.monotonic()
    with suppress(Closed):
        client.read_event()
    s.note({"heard": client.heartbeats > 0, "early": time.monotonic() - begun < 1.9})


@scenario(waits=True)
def connection_close_garbled(s: Session) -> None:
    """After a close, what is no frame ends the connection sooner than silence would."""
    s.open("a")
    s.open("b")
    s.call(0, "connection.close", reply_code=200, reply_text="bye")
    s.send(7, "queue.declare", "b", queue="o.q")
    s.quiet(0, "b")
    for client in s.clients.values():
        client.send_bytes(RawClient.frame(9, 1, b"ignored"))
        client.send_bytes(RawClient.frame(HEADER, 0, b"ignored"))
        client.send_bytes(RawClient.frame(METHOD, 1, b"hello", end=0x41))
    s.gone()
    s.gone("b")


@scenario
def connection_update_secret(s: Session) -> None:
    """Credentials renewed on a running connection."""
    s.open()
    s.call(0, "connection.update-secret", new_secret="guest", reason="renewed")


# Channels and frames


@scenario
def channel_open_twice(s: Session) -> None:
    """A second open of an open channel."""
    s.open()
    s.call(1, "channel.open")


@scenario
def channel_not_open(s: Session) -> None:
    """A method on a channel never opened."""
    s.open()
    s.call(7, "queue.declare", queue="o.q")


@scenario
def channel_reused_after_error(s: Session) -> None:
    """After an error and its close-ok the number is free again."""
    s.open()
    s.call(1, "queue.declare", queue="o.none", passive=True)
    s.call(1, "channel.open")
    s.call(1, "queue.declare", queue="", exclusive=True)


@scenario
def channel_ignores_methods_while_closing(s: Session) -> None:
    """What was sent before the client saw the close is dropped."""
    client = s.open()
    client.send(1, "queue.declare", queue="o.none", passive=True)
    client.send(1, "queue.declare", queue="o.late")
    client.send(1, "queue.declare", queue="o.late2")
    s.queues += ["o.late", "o.late2"]
    s.take(1)
    s.call(1, "channel.open")
    s.call(1, "queue.declare", queue="o.late", passive=True)


@scenario
def channel_close_and_flow(s: Session) -> None:
    """Closing, and flow switched on, which it always is."""
    s.open()
    s.call(1, "channel.flow", active=True)
    s.call(1, "channel.close", reply_code=200, reply_text="bye")
    s.call(1, "channel.open")


@scenario
def channel_flow_off(s: Session) -> None:
    """Clients may not stop the broker."""
    s.open()
    s.call(1, "channel.flow", active=False)


@scenario
def access_request(s: Session) -> None:
    """A class of older versions that is still answered."""
    s.open()
    s.call(1, "access.request", realm="/data", active=True, write=True, read=True)


@scenario
def channel_method_on_zero(s: Session) -> None:
    """Channel 0 takes only class connection."""
    s.open()
    s.call(0, "queue.declare", queue="o.q")


@scenario
def unknown_method(s: Session) -> None:
    """A method number that no class has."""
    client = s.open()
    client.send_bytes(RawClient.frame(METHOD, 1, b"\x00\x32\x03\xe7"))
    s.take(1)


@scenario
def unknown_class(s: Session) -> None:
    """A class that does not exist."""
    client = s.open()
    client.send_bytes(RawClient.frame(METHOD, 1, b"\x03\xe7\x00\x0a"))
    s.take(1)


@scenario
def method_cut_short(s: Session) -> None:
    """Arguments that end too soon."""
    client = s.open()
    payload = encode_method("queue.declare", {"queue": "o.q"})
    client.send_bytes(RawClient.frame(METHOD, 1, payload[:6]))
    s.take(1)


@scenario
def header_before_method(s: Session) -> None:
    """Content that no method announced."""
    client = s.open()
    client.send_bytes(RawClient.frame(HEADER, 1, b"\x00\x3c" + bytes(12)))
    s.take(1)


@scenario
def method_before_body(s: Session) -> None:
    """Another method where the content's header has to come."""
    client = s.open()
    client.send(1, "basic.publish", exchange="", routing_key="o.q")
    s.call(1, "queue.declare", queue="o.q")


@scenario
def content_without_channel(s: Session) -> None:
    """Content on a channel that is not open."""
    client = s.open()
    client.send_bytes(RawClient.frame(BODY, 2, b"abc"))
    s.take(0)


@scenario
def header_with_weight(s: Session) -> None:
    """A content header of old times."""
    client = s.open()
    client.send(1, "basic.publish", exchange="", routing_key="o.q")
    header = bytearray(encode_properties(3, {}))
    header[3] = 1
    client.send_bytes(RawClient.frame(HEADER, 1, bytes(header)))
    s.take(0)


@scenario
def body_above_hard_limit(s: Session) -> None:
    """A body of which no broker takes as much, refused at its header."""
    client = s.open()
    client.send(1, "basic.publish", exchange="", routing_key="o.q")
    client.send_bytes(RawClient.frame(HEADER, 1, encode_properties(536_870_913, {})))
    s.take(0)


@scenario
def body_frame_empty(s: Session) -> None:
    """A body frame without a body, before the one that has it."""
    client = s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    client.send(1, "basic.publish", exchange="", routing_key="o.q")
    client.send_bytes(RawClient.frame(HEADER, 1, encode_properties(3, {})))
    client.send_bytes(RawClient.frame(BODY, 1, b"") + RawClient.frame(BODY, 1, b"abc"))
    s.call(1, "basic.get", queue="o.q", no_ack=True)


@scenario(waits=True)
def frame_end_wrong(s: Session) -> None:
    """A frame whose last octet is not 0xCE."""
    client = s.open()
    payload = encode_method("queue.declare", {"queue": "o.q"})
    client.send_bytes(RawClient.frame(METHOD, 1, payload, end=0))
    s.take(1)


@scenario(waits=True)
def frame_too_large(s: Session) -> None:
    """A frame above the negotiated limit."""
    client = s.open(frame_max=8192)
    client.send_bytes(RawClient.frame(METHOD, 1, bytes(8193)))
    s.take(1)


@scenario
def frame_type_unknown(s: Session) -> None:
    """A frame type nobody defined."""
    client = s.open()
    client.send_bytes(RawClient.frame(77, 1, b"abc"))
    s.take(1)


# Exchanges


@scenario
def exchange_declare_and_delete(s: Session) -> None:
    """Every built-in type; deleting twice is no error."""
    s.open()
    for kind in ("direct", "fanout", "topic", "headers"):
        s.call(1, "exchange.declare", exchange=f"o.{kind}", type=kind, durable=True)
        s.call(1, "exchange.declare", exchange=f"o.{kind}", type=kind, durable=True)
        s.call(1, "exchange.declare", exchange=f"o.{kind}", type="", passive=True)
        s.call(1, "exchange.delete", exchange=f"o.{kind}")
        s.call(1, "exchange.delete", exchange=f"o.{kind}")


@scenario
def exchange_passive_missing(s: Session) -> None:
    """Looking for an exchange that is not there."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.none", type="direct", passive=True)


@scenario
def exchange_predeclared(s: Session) -> None:
    """The exchanges every vhost has."""
    s.open()
    for name, kind in (
        ("amq.direct", "direct"), ("amq.fanout", "fanout"), ("amq.topic", "topic"),
        ("amq.headers", "headers"), ("amq.match", "headers"),
    ):  # fmt: skip
        s.call(1, "exchange.declare", exchange=name, type=kind, durable=True)


@scenario
def exchange_reserved_name(s: Session) -> None:
    """The prefix amq. is the broker's."""
    s.open()
    s.call(1, "exchange.declare", exchange="amq.mine", type="direct")


@scenario
def exchange_default_declared(s: Session) -> None:
    """The default exchange cannot be declared."""
    s.open()
    s.call(1, "exchange.declare", exchange="", type="direct")


@scenario
def exchange_default_deleted(s: Session) -> None:
    """Nor deleted."""
    s.open()
    s.call(1, "exchange.delete", exchange="")


@scenario
def exchange_system_deleted(s: Session) -> None:
    """Nor can the predeclared ones."""
    s.open()
    s.call(1, "exchange.delete", exchange="amq.direct")


@scenario
def exchange_unknown_type(s: Session) -> None:
    """A type nobody registered, and none at all."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="sideways")
    s.call(1, "exchange.declare", exchange="o.x", type="")


@scenario
def exchange_inequivalent(s: Session) -> None:
    """Each property that differs is named."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="direct", durable=True)
    for args in (
        {"type": "fanout", "durable": True},
        {"type": "direct"},
        {"type": "direct", "durable": True, "auto_delete": True},
        {"type": "direct", "durable": True, "internal": True},
    ):
        s.call(1, "exchange.declare", exchange="o.x", **args)


@scenario
def exchange_if_unused(s: Session) -> None:
    """An exchange with a binding is in use."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="direct")
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="k")
    s.call(1, "exchange.delete", exchange="o.x", if_unused=True)
    s.call(1, "queue.unbind", queue="o.q", exchange="o.x", routing_key="k")
    s.call(1, "exchange.delete", exchange="o.x", if_unused=True)


@scenario
def exchange_auto_delete(s: Session) -> None:
    """It goes with its last binding."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="direct", auto_delete=True)
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="k")
    s.call(1, "queue.unbind", queue="o.q", exchange="o.x", routing_key="k")
    s.call(1, "exchange.declare", exchange="o.x", type="direct", passive=True)


@scenario
def exchange_internal(s: Session) -> None:
    """Clients may not publish to an internal exchange."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="fanout", internal=True)
    s.publish(1, "o.x", "k", b"no")
    s.take(1)


# Queues


@scenario
def queue_declare_both_types(s: Session) -> None:
    """Declare, declare again, look passively."""
    s.open()
    for name, arguments in (("o.classic", {}), ("o.quorum", QUORUM)):
        s.call(1, "queue.declare", queue=name, durable=True, arguments=arguments)
        s.call(1, "queue.declare", queue=name, durable=True, arguments=arguments)
        s.call(1, "queue.declare", queue=name, passive=True)


@scenario
def queue_type_spelt_out(s: Session) -> None:
    """A classic queue may be declared with its type named or not."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "queue.declare", queue="o.q", durable=True, arguments={"x-queue-type": "classic"})
    s.call(1, "queue.declare", queue="o.q", durable=True)


@scenario
def queue_server_named(s: Session) -> None:
    """The channel remembers the last name given."""
    s.open()
    s.call(1, "queue.declare", queue="", exclusive=True)
    s.call(1, "queue.bind", queue="", exchange="amq.fanout", routing_key="")
    s.call(1, "queue.declare", queue="", exclusive=True)
    s.call(1, "queue.purge", queue="")
    s.call(1, "queue.delete", queue="")


@scenario
def queue_no_previous_name(s: Session) -> None:
    """The empty name before any was given."""
    s.open()
    s.call(1, "queue.purge", queue="")
    s.call(1, "basic.consume", queue="")
    s.call(1, "queue.bind", queue="", exchange="amq.fanout", routing_key="")


@scenario
def queue_server_named_of_any_type(s: Session) -> None:
    """Types that make up no names, or that nobody knows."""
    s.open()
    for kind in ("", "undefined", "classic", None, "sideways", "quorum", "stream"):
        s.call(1, "queue.declare", queue="", exclusive=True, arguments={"x-queue-type": kind})


@scenario
def queue_names_with_line_breaks(s: Session) -> None:
    """Cut from the names of topology, and part of the name where a queue or exchange is used."""
    s.open()
    queue, exchange, key = "o.a\nb\rc", "o.x\ny", "k\nl"
    s.queues.append("o.abc")
    s.exchanges.append("o.xy")
    s.call(1, "queue.declare", queue=queue, durable=True)
    s.call(1, "queue.declare", queue=queue, passive=True)
    s.call(1, "exchange.declare", exchange=exchange, type="direct")
    s.call(1, "exchange.declare", exchange=exchange, type="direct", passive=True)
    s.call(1, "queue.bind", queue=queue, exchange=exchange, routing_key=key)
    s.call(1, "exchange.bind", destination=exchange, source="amq.fan\nout", routing_key=key)
    for method in ("basic.get", "basic.consume", "queue.purge"):
        for name in (queue, "o.abc\r", "\n"):
            s.call(1, method, queue=name)
    for to, with_key in (("o.xy", key), ("o.xy", "kl"), (exchange, key), ("", queue)):
        s.publish(1, to, with_key, b"1", mandatory=True)
        s.call(1, "basic.qos")
    s.until("o.abc", 1)
    s.call(1, "queue.unbind", queue=queue, exchange=exchange, routing_key=key)
    s.call(1, "exchange.unbind", destination=exchange, source="amq.fan\nout", routing_key=key)
    s.call(1, "queue.declare", queue="am\nq.o", durable=True)
    s.call(1, "exchange.declare", exchange="am\nq.o", type="direct")
    s.call(1, "queue.delete", queue=queue)
    s.call(1, "exchange.delete", exchange=exchange)
    s.call(1, "queue.declare", queue="\n", exclusive=True)


@scenario
def queue_passive_without_name(s: Session) -> None:
    """Who looks for a queue names it: the last name given does not count."""
    s.open()
    s.call(1, "queue.declare", queue="", passive=True)
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "queue.declare", queue="", passive=True)


@scenario
def queue_bind_last_name(s: Session) -> None:
    """With queue and routing key both empty, the key is the queue's name too."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "queue.bind", queue="", exchange="amq.direct", routing_key="")
    s.publish(1, "amq.direct", "o.q", b"found")
    s.until("o.q", 1)
    s.call(1, "basic.get", queue="", no_ack=True)


@scenario
def queue_missing(s: Session) -> None:
    """Every operation on a queue that is not there."""
    s.open()
    for method, args in (
        ("queue.declare", {"passive": True}),
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.purge", {}),
        ("basic.consume", {}),
        ("basic.get", {}),
    ):
        s.call(1, method, queue="o.none", **args)
    s.call(1, "queue.delete", queue="o.none")
    s.call(1, "queue.unbind", queue="o.none", exchange="amq.direct", routing_key="k")


@scenario
def queue_reserved_name(s: Session) -> None:
    """The prefix amq. is the broker's."""
    s.open()
    s.call(1, "queue.declare", queue="amq.mine", durable=True)
    s.call(1, "queue.declare", queue="amq.mine", passive=True)


@scenario
def queue_inequivalent(s: Session) -> None:
    """Each property and argument that differs is named."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    for args in (
        {"durable": False},
        {"durable": True, "auto_delete": True},
        {"durable": True, "exclusive": True},
        {"durable": True, "arguments": QUORUM},
    ):
        s.call(1, "queue.declare", queue="o.q", **args)


@scenario
def queue_inequivalent_quorum(s: Session) -> None:
    """The same for a quorum queue."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True, arguments=QUORUM)
    for arguments in ({}, {"x-queue-type": "classic"}, {**QUORUM, "x-custom": 2}):
        s.call(1, "queue.declare", queue="o.q", durable=True, arguments=arguments)


@scenario
def queue_type_invalid(s: Session) -> None:
    """A type nobody knows, and one that is no string."""
    s.open()
    for kind in ("sideways", 5):
        s.call(1, "queue.declare", queue="o.q", durable=True, arguments={"x-queue-type": kind})


@scenario
def queue_inequivalent_void(s: Session) -> None:
    """A void in an argument, before and after."""
    s.open()
    for queue, kind in (("o.plain", None), ("o.word", "undefined"), ("o.quorum", "quorum")):
        arguments = {} if kind is None else {"x-queue-type": kind}
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        for other in (None, "undefined", "", "classic"):
            arguments = {"x-queue-type": other}
            s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
    for name in ("x-queue-leader-locator", "x-queue-mode", "x-custom"):
        for value in (None, "client-local", None):
            s.call(1, "queue.declare", queue="o.q", durable=True, arguments={name: value})
        s.call(1, "queue.delete", queue="o.q")


@scenario
def queue_locators(s: Session) -> None:
    """The old name of the argument, on types that know it and on ones that do not."""
    s.open()
    old = {"x-queue-master-locator": "client-local"}
    s.call(1, "queue.declare", queue="o.plain", durable=True)
    s.call(1, "queue.declare", queue="o.plain", durable=True, arguments=old)
    for kind in ("quorum", "stream"):
        arguments = {"x-queue-type": kind, **old}
        s.call(1, "queue.declare", queue="o.q", durable=True, arguments=arguments)
    for value in ("min-masters", "random", "sideways"):
        arguments = {"x-queue-leader-locator": value}
        s.call(1, "queue.declare", queue=f"o.{value}", durable=True, arguments=arguments)
    s.call(1, "queue.declare", queue="o.old", durable=True, arguments=old)


@scenario
def quorum_queue_refuses(s: Session) -> None:
    """What a quorum queue cannot be."""
    s.open()
    for args in (
        {"queue": "o.q", "durable": False},
        {"queue": "o.q", "durable": True, "exclusive": True},
        {"queue": "o.q", "durable": True, "auto_delete": True},
        {"queue": "", "durable": True},
    ):
        s.call(1, "queue.declare", arguments=QUORUM, **args)


@scenario
def quorum_queue_max_priority(s: Session) -> None:
    """An argument quorum queues do not have."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True, arguments={**QUORUM, "x-max-priority": 5})


@scenario
def quorum_queue_delete_conditions(s: Session) -> None:
    """Conditions on deletion are not supported there."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True, arguments=QUORUM)
    s.call(1, "queue.delete", queue="o.q", if_empty=True)
    s.open("b")
    s.call(1, "queue.delete", queue="o.q", if_unused=True, who="b")


@scenario
def exclusive_queue_locked(s: Session) -> None:
    """Everything another connection may not do with an exclusive queue."""
    s.open()
    s.call(1, "queue.declare", queue="o.mine", exclusive=True)
    s.open("b")
    for method, args in (
        ("queue.declare", {"exclusive": True}),
        ("queue.declare", {"passive": True}),
        ("queue.bind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.unbind", {"exchange": "amq.direct", "routing_key": "k"}),
        ("queue.purge", {}),
        ("queue.delete", {}),
        ("basic.consume", {}),
        ("basic.get", {}),
    ):
        s.call(1, method, queue="o.mine", who="b", **args)
    s.publish(1, "", "o.mine", b"anyone may publish", who="b")


@scenario
def exclusive_queue_goes_with_connection(s: Session) -> None:
    """It is gone when its connection is."""
    s.open()
    s.call(1, "queue.declare", queue="o.mine", exclusive=True)
    s.leave()
    s.open("b")
    s.call(1, "queue.declare", queue="o.mine", passive=True, who="b")


@scenario
def auto_delete_queue(s: Session) -> None:
    """It goes with its last consumer, not with a get."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", auto_delete=True, exclusive=True)
    s.call(1, "basic.get", queue="o.q")
    s.call(1, "queue.declare", queue="o.q", passive=True)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.call(1, "basic.cancel", consumer_tag="c")
    s.call(1, "queue.declare", queue="o.q", passive=True)


@scenario
def queue_delete_conditions(s: Session) -> None:
    """Classic queues honour if-empty and if-unused."""
    s.open("a", 1, 2)
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.publish(1, "", "o.q", b"x")
    s.until("o.q", 1)
    s.call(1, "queue.delete", queue="o.q", if_empty=True)
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.take(2)
    s.call(1, "queue.delete", queue="o.q", if_unused=True)
    s.send(2, "basic.ack", delivery_tag=1)
    s.call(2, "basic.cancel", consumer_tag="c")
    s.call(1, "queue.delete", queue="o.q", if_unused=True, if_empty=True)


@scenario
def queue_purge(s: Session) -> None:
    """Only ready messages are purged, and counted."""
    s.open()
    for name, arguments in (("o.classic", {}), ("o.quorum", QUORUM)):
        s.call(1, "queue.declare", queue=name, durable=True, arguments=arguments)
        for number in range(5):
            s.publish(1, "", name, b"%d" % number)
        s.until(name, 5)
        s.call(1, "basic.get", queue=name)
        s.call(1, "queue.purge", queue=name)
        s.call(1, "queue.purge", queue=name)
        s.call(1, "queue.delete", queue=name)


@scenario
def name_with_unicode(s: Session) -> None:
    """255 bytes of UTF-8 in every name."""
    name = "o." + "é" * 126 + "x"
    s.open()
    s.call(1, "queue.declare", queue=name, durable=True)
    s.call(1, "exchange.declare", exchange=name, type="topic")
    s.call(1, "queue.bind", queue=name, exchange=name, routing_key=name)
    s.publish(1, name, name, b"x")
    s.call(1, "basic.consume", queue=name, consumer_tag=name)
    s.take(1)


@scenario
def name_in_normal_forms(s: Session) -> None:
    """What looks the same and is not the same text is another name."""
    names = ("o.caf\u00e9", "o.cafe\u0301")
    s.open()
    for name in names:
        s.call(1, "queue.declare", queue=name, durable=True)
        s.publish(1, "", name, name.encode())
    for name in names:
        s.until(name, 1)
        s.call(1, "basic.get", queue=name, no_ack=True)


@scenario
def reply_text_too_long(s: Session) -> None:
    """A reply text is a shortstr: what does not fit into 255 bytes is cut."""
    s.open()
    for name in ("n" * 255, "é" * 127, "a" + "é" * 127):
        s.call(1, "queue.declare", queue=name, passive=True)
    s.call(1, "exchange.declare", exchange="n" * 255, type="direct", passive=True)


# Bindings


@scenario
def bind_errors(s: Session) -> None:
    """Missing ends, and the default exchange."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    for method, args in (
        ("queue.bind", {"queue": "o.q", "exchange": "o.none", "routing_key": "k"}),
        ("queue.unbind", {"queue": "o.q", "exchange": "o.none", "routing_key": "k"}),
        ("queue.bind", {"queue": "o.q", "exchange": "", "routing_key": "k"}),
        ("queue.unbind", {"queue": "o.q", "exchange": "", "routing_key": "k"}),
        ("exchange.bind", {"destination": "o.none", "source": "amq.topic"}),
        ("exchange.bind", {"destination": "amq.topic", "source": "o.none"}),
        ("exchange.bind", {"destination": "", "source": "amq.topic"}),
    ):
        s.call(1, method, **args)


@scenario
def bind_headers_invalid(s: Session) -> None:
    """x-match takes four words."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    for arguments in ({"x-match": "some"}, {"x-match": 1}):
        s.call(
            1, "queue.bind", queue="o.q", exchange="amq.headers", routing_key="",
            arguments=arguments,
        )  # fmt: skip


@scenario
def bind_twice(s: Session) -> None:
    """A binding exists once; arguments make another."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "exchange.declare", exchange="o.x", type="direct")
    for arguments in ({}, {}, {"a": Typed("I", 1)}):
        s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="k", arguments=arguments)
    s.call(1, "confirm.select")
    s.publish(1, "o.x", "k", b"once")
    s.confirmed(1, 1)
    s.call(1, "queue.declare", queue="o.q", passive=True)
    s.call(1, "queue.unbind", queue="o.q", exchange="o.x", routing_key="k")
    s.publish(1, "o.x", "k", b"still")
    s.confirmed(1, 1)
    s.call(1, "queue.declare", queue="o.q", passive=True)


def _routed(s: Session, exchange: str, cases: tuple[tuple[str, dict[str, object]], ...]) -> None:
    """Publish each case with mandatory set and record who got it or that it came back."""
    s.call(1, "confirm.select")
    for number, (key, headers) in enumerate(cases):
        properties = {"headers": headers} if headers else {}
        s.publish(1, exchange, key, b"%d" % number, properties, mandatory=True)
        s.confirmed(1, 1)
    for queue in list(dict.fromkeys(s.queues)):
        while True:
            event = s.call(1, "basic.get", queue=queue, no_ack=True)
            if event is None or event.name != "basic.get-ok":
                break


@scenario
def route_topic(s: Session) -> None:
    """Words, stars and hashes."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="topic")
    for pattern in ("a.b", "a.*", "a.#", "#", "*.b", "#.c", "a.*.c", ""):
        queue = f"o.q[{pattern}]"
        s.call(1, "queue.declare", queue=queue, durable=True)
        s.call(1, "queue.bind", queue=queue, exchange="o.x", routing_key=pattern)
    s.call(1, "queue.unbind", queue="o.q[#]", exchange="o.x", routing_key="#")
    keys = ("a.b", "a", "a.b.c", "a..c", "b", "x.b", "c", "", ".", "a.")
    _routed(s, "o.x", tuple((key, {}) for key in keys))


@scenario
def route_headers(s: Session) -> None:
    """All, any, and both with the x- headers."""
    s.open()
    s.call(1, "exchange.declare", exchange="o.x", type="headers")
    for name, arguments in (
        ("all", {"x-match": "all", "a": 1, "b": "two"}),
        ("any", {"x-match": "any", "a": 1, "b": "two"}),
        ("default", {"a": 1}),
        ("present", {"x-match": "all", "c": None}),
        ("all-with-x", {"x-match": "all-with-x", "x-h": "1", "a": 1}),
        ("any-with-x", {"x-match": "any-with-x", "x-h": "1"}),
        ("all-x-ignored", {"x-match": "all", "x-h": "1", "d": True}),
        ("nothing-all", {"x-match": "all", "never": 1}),
    ):
        s.call(1, "queue.declare", queue=f"o.{name}", durable=True)
        s.call(
            1, "queue.bind", queue=f"o.{name}", exchange="o.x", routing_key="", arguments=arguments
        )
    cases: tuple[tuple[str, dict[str, object]], ...] = (
        ("", {"a": 1, "b": "two"}), ("", {"a": 1}), ("", {"b": "two"}), ("", {"a": "1"}),
        ("", {"c": "any value"}), ("", {"x-h": "1"}), ("", {"x-h": "1", "a": 1}), ("", {"d": True}),
        ("", {}), ("", {"a": Typed("l", 1)}), ("", {"a": 1.0}),
    )  # fmt: skip
    _routed(s, "o.x", cases)


@scenario
def route_exchange_to_exchange(s: Session) -> None:
    """A message reaches a queue once, whatever the paths."""
    s.open()
    for name in ("o.first", "o.second", "o.third"):
        s.call(1, "exchange.declare", exchange=name, type="fanout")
    s.call(1, "exchange.bind", destination="o.second", source="o.first")
    s.call(1, "exchange.bind", destination="o.third", source="o.first")
    s.call(1, "exchange.bind", destination="o.third", source="o.second")
    s.call(1, "exchange.bind", destination="o.first", source="o.third")
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "queue.bind", queue="o.q", exchange="o.third", routing_key="")
    s.call(1, "queue.bind", queue="o.q", exchange="o.second", routing_key="")
    _routed(s, "o.first", (("k", {}),))
    s.call(1, "exchange.unbind", destination="o.second", source="o.first")
    s.call(1, "exchange.unbind", destination="o.third", source="o.first")
    _routed(s, "o.first", (("k", {}),))


@scenario
def route_default_and_direct(s: Session) -> None:
    """The queue's own name, and exact keys."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "exchange.declare", exchange="o.x", type="direct")
    s.call(1, "queue.bind", queue="o.q", exchange="o.x", routing_key="k")
    _routed(s, "", (("o.q", {}), ("o.q.", {}), ("", {})))
    _routed(s, "o.x", (("k", {}), ("K", {}), ("", {})))


@scenario
def route_cc_and_bcc(s: Session) -> None:
    """Sender-selected keys; BCC is taken out."""
    s.open()
    for name in ("o.to", "o.cc", "o.bcc"):
        s.call(1, "queue.declare", queue=name, durable=True)
    _routed(s, "", (("o.to", {"CC": ["o.cc"], "BCC": ["o.bcc"]}), ("o.to", {"CC": ["o.to"]})))


@scenario
def route_cc_and_bcc_again(s: Session) -> None:
    """Several messages with the same properties, one behind the other."""
    client = s.open()
    for name in ("o.to", "o.cc", "o.bcc"):
        s.call(1, "queue.declare", queue=name, durable=True)
    headers = {"headers": {"CC": ["o.cc"], "BCC": ["o.bcc"]}}
    client.send_bytes(b"".join(client.publish_bytes(1, "", "o.to", b"x", headers) for _ in "abc"))
    for name in ("o.to", "o.cc", "o.bcc"):
        s.until(name, 3)
        for _ in range(4):
            s.call(1, "basic.get", queue=name, no_ack=True)


@scenario
def direct_replies_again(s: Session) -> None:
    """Requests with the same properties, one behind the other; each gets its reply."""
    client = s.open()
    s.call(1, "queue.declare", queue="o.rpc", durable=True)
    s.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True)
    asks = {"reply_to": "amq.rabbitmq.reply-to"}
    client.send_bytes(b"".join(client.publish_bytes(1, "", "o.rpc", b"?", asks) for _ in "abc"))
    s.until("o.rpc", 3)
    s.open("b")
    for _ in range(3):
        request = s.call(1, "basic.get", "b", queue="o.rpc", no_ack=True)
        assert request is not None
        s.publish(1, "", request.properties["reply_to"], b"!", who="b")
    s.take(1, 3)


@scenario
def route_cc_invalid(s: Session) -> None:
    """CC has to be a list."""
    s.open()
    s.publish(1, "", "o.q", b"x", {"headers": {"CC": "o.q"}})
    s.take(1)
