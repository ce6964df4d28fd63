"""The scripts about messages: publish, confirm, return, consume, settle, requeue, transact.

See `registry.py` for what a scenario is.
"""

from __future__ import annotations

from tests.clients.raw import BODY, HEADER, RawClient, Typed, encode_properties
from tests.oracle.registry import scenario
from tests.oracle.scenarios import QUORUM
from tests.oracle.session import AGAIN_S, Session

KINDS = (("o.classic", {}), ("o.quorum", QUORUM))
EVERY_TYPE = {
    "bool": True,
    "byte": Typed("b", -128),
    "unsigned byte": Typed("B", 255),
    "short": Typed("s", -32768),
    "unsigned short": Typed("u", 65535),
    "int": Typed("I", -(2**31)),
    "unsigned int": Typed("i", 2**32 - 1),
    "long": Typed("l", -(2**63)),
    "float": Typed("f", 1.5),
    "double": Typed("d", 0.1),
    "decimal": Typed("D", (2, 314)),
    "string": "über",
    "empty": "",
    "bytes": Typed("x", b"\x00\x01"),
    "timestamp": Typed("T", 1700000000),
    "void": None,
    "table": {"deep": {"deeper": [1, "two", {"three": 3}]}},
    "array": [True, 2, "three", None, []],
}
EVERY_PROPERTY = {
    "content_type": "text/plain", "content_encoding": "utf-8", "headers": {"h": 1},
    "delivery_mode": 2, "priority": 4, "correlation_id": "c", "reply_to": "r",
    "message_id": "m", "timestamp": 1700000000, "type": "t",
    "user_id": "guest", "app_id": "a", "cluster_id": "cl",
}  # fmt: skip


def _fill(s: Session, queue: str, count: int, arguments: dict[str, object] | None = None) -> None:
    """Declare a queue and put messages 0..count-1 into it."""
    s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments or {})
    _put(s, queue, count)


def _put(s: Session, queue: str, count: int) -> None:
    """Put messages 0..count-1 into an empty queue."""
    for number in range(count):
        s.publish(1, "", queue, b"%d" % number, {"delivery_mode": 2})
    s.until(queue, count)


@scenario
def every_property_and_type(s: Session) -> None:
    """What is published comes back as it was."""
    s.open()
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        s.publish(1, "", queue, b"p", EVERY_PROPERTY)
        s.publish(1, "", queue, b"", {"headers": EVERY_TYPE})
        s.until(queue, 2)
        s.call(1, "basic.get", queue=queue)
        s.call(1, "basic.get", queue=queue)


@scenario
def get_and_empty(s: Session) -> None:
    """One by one, counted down."""
    s.open()
    for queue, arguments in KINDS:
        _fill(s, queue, 2, arguments)
        for _ in range(3):
            s.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def confirms_and_returns(s: Session) -> None:
    """Unroutable messages are confirmed; a return comes before its confirm."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "confirm.select")
    s.call(1, "confirm.select")
    s.publish(1, "", "o.q", b"1")
    s.publish(1, "", "o.none", b"2")
    s.confirmed(1, 2)
    s.publish(1, "", "o.none", b"3", {"message_id": "m"}, mandatory=True)
    s.confirmed(1, 1)
    s.publish(1, "amq.topic", "no.one", b"4", mandatory=True)
    s.confirmed(1, 1)
    s.quiet(1)


@scenario
def confirm_body_sizes(s: Session) -> None:
    """Bodies around the border of a frame."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "confirm.select")
    sizes = (0, 1, 4096, 131063, 131064, 131065, 262128, 1048576)
    for size in sizes:
        s.publish(1, "", "o.q", b"x" * size)
        s.confirmed(1, 1)
    for _ in sizes:
        s.call(1, "basic.get", queue="o.q", no_ack=True)


@scenario
def publish_to_missing_exchange(s: Session) -> None:
    """The channel is closed."""
    s.open()
    s.publish(1, "o.none", "k", b"x")
    s.take(1)


@scenario
def publish_immediate(s: Session) -> None:
    """Removed from the protocol's use."""
    s.open()
    s.publish(1, "", "o.q", b"x", immediate=True)
    s.take(1)


@scenario
def publish_wrong_user_id(s: Session) -> None:
    """A user may not publish in another's name."""
    s.open()
    s.publish(1, "", "o.q", b"x", {"user_id": "someone"})
    s.take(1)


@scenario
def publish_with_expiration(s: Session) -> None:
    """A message's own time to live comes back with it."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.publish(1, "", "o.q", b"p", {"expiration": "100000"})
    s.take(1)


@scenario
def publish_bad_expiration(s: Session) -> None:
    """An expiration is a number of milliseconds."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    for bad in ("soon", "-1", "1.5", "", "99999999999999"):
        s.publish(1, "", "o.q", b"x", {"expiration": bad})
        s.take(1)


@scenario
def publish_too_large(s: Session) -> None:
    """The limit is 16 MiB; one byte more closes the channel."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "confirm.select")
    s.publish(1, "", "o.q", bytes(16 * 2**20))
    s.confirmed(1, 1)
    s.publish(1, "", "o.q", bytes(16 * 2**20 + 1))
    s.take(1)


@scenario
def publish_longer_body_than_said(s: Session) -> None:
    """More body than the header announced."""
    client = s.open()
    client.send(1, "basic.publish", exchange="", routing_key="o.q")
    client.send_bytes(RawClient.frame(HEADER, 1, encode_properties(3, {})))
    client.send_bytes(RawClient.frame(BODY, 1, b"12345"))
    s.take(1)


@scenario
def publish_header_of_other_class(s: Session) -> None:
    """The header's class has to be the method's."""
    client = s.open()
    client.send(1, "basic.publish", exchange="", routing_key="o.q")
    client.send_bytes(RawClient.frame(HEADER, 1, b"\x00\x32" + encode_properties(0, {})[2:]))
    s.take(1)


@scenario
def consume_and_ack(s: Session) -> None:
    """Deliveries in order, acknowledged one by one and together."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        _fill(s, queue, 6, arguments)
        s.call(2, "basic.consume", queue=queue, consumer_tag=f"c-{queue}")
        event = s.take(2, 6)
        assert event is not None
        last = event.args["delivery_tag"]
        s.send(2, "basic.ack", delivery_tag=last - 5)
        s.send(2, "basic.ack", delivery_tag=last - 1, multiple=True)
        s.call(2, "basic.cancel", consumer_tag=f"c-{queue}")
        s.send(2, "basic.ack", delivery_tag=0, multiple=True)
        s.call(2, "basic.qos", prefetch_count=0)
        s.until(queue, 0)


@scenario
def consume_generated_tag(s: Session) -> None:
    """The broker names a consumer that has no name."""
    s.open()
    _fill(s, "o.q", 1)
    s.call(1, "basic.consume", queue="o.q", no_ack=True)
    s.take(1)


@scenario
def consume_tag_reused(s: Session) -> None:
    """A tag is used once on a channel."""
    s.open("a", 1, 2)
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="c")
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.call(2, "basic.consume", queue="", consumer_tag="c")
    s.call(1, "basic.consume", queue="o.none", consumer_tag="c")


@scenario
def consume_exclusive(s: Session) -> None:
    """Exclusive access shuts others out, and is refused beside others."""
    s.open("a", 1, 2)
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "basic.consume", queue="o.q", consumer_tag="first", exclusive=True)
    s.call(2, "basic.consume", queue="o.q", consumer_tag="second")
    s.call(1, "basic.cancel", consumer_tag="first")
    s.call(1, "basic.consume", queue="o.q", consumer_tag="third")
    s.call(2, "basic.consume", queue="o.q", consumer_tag="fourth", exclusive=True)


@scenario
def consume_queue_deleted(s: Session) -> None:
    """A client that can be told is told."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        s.call(2, "basic.consume", queue=queue, consumer_tag=f"c-{queue}")
        s.call(1, "queue.delete", queue=queue)
        s.take(2)


@scenario
def consume_queue_deleted_old_client(s: Session) -> None:
    """One that cannot, is not."""
    s.open("a", 1, 2, properties={})
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(2, "basic.consume", queue="o.q", consumer_tag="c")
    s.call(1, "queue.delete", queue="o.q")
    s.quiet(2)


@scenario
def cancel_unknown_tag(s: Session) -> None:
    """Cancelling nothing is no error."""
    s.open()
    s.call(1, "basic.cancel", consumer_tag="never")


@scenario
def consumer_priorities(s: Session) -> None:
    """The higher gets everything until its prefetch is full."""
    s.open("a", 1, 2, 3)
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        for channel, priority in ((2, 1), (3, 10)):
            s.call(channel, "basic.qos", prefetch_count=3)
            s.call(
                channel, "basic.consume", queue=queue, consumer_tag=f"{queue}-{priority}",
                arguments={"x-priority": priority},
            )  # fmt: skip
        for number in range(4):
            s.publish(1, "", queue, b"%d" % number)
        s.take(3, 3)
        s.take(2, 1)
        for channel in (2, 3):
            s.send(channel, "basic.ack", delivery_tag=0, multiple=True)


@scenario
def consumer_priority_types(s: Session) -> None:
    """A priority is an integer of any width; what it is instead is said."""
    s.open()
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        for value in (
            "high", True, None, [1], {}, Typed("T", 5), Typed("d", 1.0), Typed("D", (0, 1)),
            Typed("x", b"a"), Typed("b", -1), Typed("u", 7), Typed("l", 2**40),
        ):  # fmt: skip
            s.call(
                1, "basic.consume", queue=queue, consumer_tag=f"{queue}-{value}",
                arguments={"x-priority": value},
            )  # fmt: skip


@scenario
def qos_per_consumer(s: Session) -> None:
    """A prefetch counts for consumers that come after it."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        _fill(s, queue, 5, arguments)
        s.call(2, "basic.qos", prefetch_count=2)
        s.call(2, "basic.consume", queue=queue, consumer_tag=f"c-{queue}")
        event = s.take(2, 2)
        s.quiet(2)
        assert event is not None
        s.send(2, "basic.ack", delivery_tag=event.args["delivery_tag"], multiple=True)
        event = s.take(2, 2)
        assert event is not None
        s.quiet(2)
        s.send(2, "basic.ack", delivery_tag=event.args["delivery_tag"], multiple=True)
        s.take(2, 1)
        s.call(2, "basic.cancel", consumer_tag=f"c-{queue}")


@scenario
def qos_global_on_quorum(s: Session) -> None:
    """A limit over the channel is one for each consumer that begins after; the last word counts."""
    s.open()
    _fill(s, "o.quorum", 12, QUORUM)
    for number, (count, over_all) in enumerate(((2, True), (1, False), (3, True), (0, True))):
        s.call(1, "basic.qos", prefetch_count=count, **{"global": over_all})
        s.call(1, "basic.consume", queue="o.quorum", consumer_tag=f"c{number}")
        s.take(1, count or 6)
        s.quiet(1)


@scenario
def qos_prefetch_size(s: Session) -> None:
    """A limit in bytes is not implemented."""
    s.open()
    s.call(1, "basic.qos", prefetch_size=10)


@scenario
def settle_unknown_tag(s: Session) -> None:
    """Every way to settle what was not delivered."""
    s.open()
    for method, args in (
        ("basic.ack", {}), ("basic.ack", {"multiple": True}), ("basic.nack", {}),
        ("basic.reject", {}),
    ):  # fmt: skip
        s.call(1, method, delivery_tag=5, **args)
    s.send(1, "basic.ack", delivery_tag=0, multiple=True)
    s.call(1, "basic.ack", delivery_tag=0)


@scenario
def settle_twice(s: Session) -> None:
    """A tag is settled once."""
    s.open()
    _fill(s, "o.q", 1)
    s.call(1, "basic.get", queue="o.q")
    s.send(1, "basic.ack", delivery_tag=1)
    s.call(1, "basic.ack", delivery_tag=1)


@scenario
def nack_requeue(s: Session) -> None:
    """Requeued messages come again, marked."""
    s.open()
    for queue, arguments in KINDS:
        _fill(s, queue, 3, arguments)
        event = None
        for _ in range(3):
            event = s.call(1, "basic.get", queue=queue)
        assert event is not None
        tag = event.args["delivery_tag"]
        s.send(1, "basic.nack", delivery_tag=tag, multiple=True, requeue=True)
        s.until(queue, 3)
        for _ in range(3):
            s.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def reject_requeue_and_drop(s: Session) -> None:
    """Reject with and without requeue; counters of quorum queues in the headers."""
    s.open()
    for queue, arguments in KINDS:
        _fill(s, queue, 2, arguments)
        event = s.call(1, "basic.get", queue=queue)
        assert event is not None
        s.send(1, "basic.reject", delivery_tag=event.args["delivery_tag"], requeue=True)
        s.until(queue, 2)
        event = s.call(1, "basic.get", queue=queue)
        assert event is not None
        s.send(1, "basic.reject", delivery_tag=event.args["delivery_tag"], requeue=False)
        s.call(1, "basic.get", queue=queue, no_ack=True)
        s.call(1, "basic.get", queue=queue, no_ack=True)


@scenario(waits=True)
def delivery_limit(s: Session) -> None:
    """A quorum queue drops what failed more than 20 times; nack does not count."""
    s.open("a", 1, 2)
    _fill(s, "o.quorum", 1, QUORUM)
    s.call(2, "basic.consume", queue="o.quorum", consumer_tag="c")
    for _ in range(3):
        event = s.take(2)
        assert event is not None
        s.send(2, "basic.nack", delivery_tag=event.args["delivery_tag"], requeue=True)
    for _ in range(21):
        event = s.take(2, wait_s=AGAIN_S)
        if event is None:
            break
        s.send(2, "basic.reject", delivery_tag=event.args["delivery_tag"], requeue=True)
    s.quiet(2)
    s.call(1, "queue.declare", queue="o.quorum", passive=True)


@scenario
def requeue_on_channel_close(s: Session) -> None:
    """Unsettled deliveries return in order and marked."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        _fill(s, queue, 3, arguments)
        s.call(2, "basic.consume", queue=queue, consumer_tag=f"c-{queue}")
        s.take(2, 3)
        s.call(2, "channel.close", reply_code=200)
        s.call(2, "channel.open")
        s.until(queue, 3)
        for _ in range(3):
            s.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def recover(s: Session) -> None:
    """Everything unsettled is requeued."""
    s.open()
    for queue, arguments in KINDS:
        _fill(s, queue, 2, arguments)
        s.call(1, "basic.get", queue=queue)
        s.call(1, "basic.get", queue=queue)
        s.call(1, "basic.recover", requeue=True)
        s.until(queue, 2)
        s.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def recover_async(s: Session) -> None:
    """The older form has no answer."""
    s.open()
    _fill(s, "o.q", 1)
    s.call(1, "basic.get", queue="o.q")
    s.send(1, "basic.recover-async", requeue=True)
    s.until("o.q", 1)
    s.call(1, "basic.get", queue="o.q", no_ack=True)


@scenario
def recover_without_requeue(s: Session) -> None:
    """Not implemented."""
    s.open()
    s.call(1, "basic.recover", requeue=False)


@scenario
def ack_of_no_ack_delivery(s: Session) -> None:
    """Automatic acknowledgement leaves nothing to settle."""
    s.open()
    _fill(s, "o.q", 1)
    s.call(1, "basic.get", queue="o.q", no_ack=True)
    s.call(1, "basic.ack", delivery_tag=1)


@scenario
def tx_commit_and_rollback(s: Session) -> None:
    """Publishes appear at the commit or never."""
    s.open()
    s.call(1, "tx.select")
    s.call(1, "tx.select")
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.publish(1, "", "o.q", b"kept")
    s.call(1, "queue.declare", queue="o.q", passive=True)
    s.call(1, "tx.commit")
    s.until("o.q", 1)
    s.publish(1, "", "o.q", b"dropped")
    s.call(1, "tx.rollback")
    s.call(1, "queue.declare", queue="o.q", passive=True)
    s.publish(1, "", "o.none", b"returned", mandatory=True)
    s.call(1, "tx.commit")
    s.take(1)


@scenario
def tx_acks(s: Session) -> None:
    """Acknowledgements wait for the commit; a rollback leaves them with the client."""
    s.open()
    _fill(s, "o.q", 2)
    s.call(1, "tx.select")
    s.call(1, "basic.get", queue="o.q")
    s.send(1, "basic.ack", delivery_tag=1)
    s.call(1, "tx.rollback")
    s.send(1, "basic.ack", delivery_tag=1)
    s.call(1, "tx.commit")
    s.call(1, "basic.get", queue="o.q")
    s.send(1, "basic.nack", delivery_tag=2, requeue=True)
    s.call(1, "tx.commit")
    s.until("o.q", 1)
    s.call(1, "basic.get", queue="o.q")


@scenario
def tx_errors(s: Session) -> None:
    """Commit without a transaction; the two modes exclude each other."""
    s.open()
    s.call(1, "tx.commit")
    s.call(1, "tx.rollback")
    s.call(1, "confirm.select")
    s.call(1, "tx.select")
    s.call(1, "tx.select")
    s.call(1, "confirm.select")


@scenario
def tx_targets(s: Session) -> None:
    """Where a publish goes is settled when it comes; a missing exchange is told at once."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
    s.call(1, "tx.select")
    s.publish(1, "", "o.classic", b"lost with the channel")
    s.publish(1, "o.none", "k", b"x")
    s.take(1)
    s.call(1, "tx.commit")
    s.call(1, "tx.select")
    s.call(2, "exchange.declare", exchange="o.x", type="fanout")
    s.publish(1, "o.x", "", b"unbound when it came", mandatory=True)
    s.call(1, "queue.bind", queue="o.classic", exchange="o.x")
    s.publish(1, "o.x", "", b"bound when it came", mandatory=True)
    s.call(1, "queue.unbind", queue="o.classic", exchange="o.x")
    s.call(1, "exchange.delete", exchange="o.x")
    s.call(1, "tx.commit")
    s.take(1)
    s.until("o.classic", 1)
    s.call(1, "basic.get", queue="o.classic", no_ack=True)


@scenario
def tx_returns(s: Session) -> None:
    """Returns come at the commit, before its answer, in the order of the publishes."""
    s.open()
    s.call(1, "queue.declare", queue="o.q", durable=True)
    s.call(1, "tx.select")
    s.publish(1, "", "o.none", b"1", {"message_id": "m"}, mandatory=True)
    s.publish(1, "", "o.q", b"2", mandatory=True)
    s.publish(1, "amq.topic", "k", b"3", mandatory=True)
    s.publish(1, "", "o.none", b"4")
    s.quiet(1)
    s.call(1, "tx.commit")
    s.take(1, 2)
    s.publish(1, "", "o.none", b"5", mandatory=True)
    s.call(1, "tx.rollback")
    s.call(1, "tx.commit")
    s.quiet(1)


@scenario
def tx_queue_gone(s: Session) -> None:
    """A queue that is deleted between a publish and its commit."""
    s.open()
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        s.call(1, "tx.select")
        s.publish(1, "", queue, b"1", mandatory=True)
        s.call(1, "queue.delete", queue=queue)
        s.call(1, "tx.commit")
        s.quiet(1)
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)


@scenario
def tx_unknown_tags(s: Session) -> None:
    """Told when they are sent, not at the commit; what waited for it is undone."""
    s.open()
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        for method in ("basic.ack", "basic.nack", "basic.reject"):
            _put(s, queue, 1)
            s.call(1, "tx.select")
            event = s.call(1, "basic.get", queue=queue)
            assert event is not None
            tag = event.args["delivery_tag"]
            s.send(1, "basic.ack", delivery_tag=tag)
            s.call(1, method, delivery_tag=tag)
            s.until(queue, 1)
            s.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def tx_every_answer(s: Session) -> None:
    """Acks, nacks and rejects with and without requeue, done in their order or undone."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        s.call(1, "queue.declare", queue=queue, durable=True, arguments=arguments)
        for end in ("tx.rollback", "tx.commit"):
            _put(s, queue, 7)
            s.call(2, "tx.select")
            tags = []
            for _ in range(7):
                event = s.call(2, "basic.get", queue=queue)
                assert event is not None
                tags.append(event.args["delivery_tag"])
            s.send(2, "basic.reject", delivery_tag=tags[6], requeue=True)
            s.send(2, "basic.ack", delivery_tag=tags[3])
            s.send(2, "basic.nack", delivery_tag=tags[1], multiple=True, requeue=True)
            s.send(2, "basic.nack", delivery_tag=tags[2], multiple=True, requeue=False)
            s.send(2, "basic.reject", delivery_tag=tags[5], requeue=False)
            s.quiet(2)
            s.call(2, end)
            if end == "tx.rollback":
                s.send(2, "basic.nack", delivery_tag=0, multiple=True, requeue=False)
                s.call(2, "tx.commit")
            else:
                s.until(queue, 3)
                for _ in range(3):
                    s.call(2, "basic.get", queue=queue)
                s.send(2, "basic.ack", delivery_tag=0, multiple=True)
                s.call(2, "tx.commit")


@scenario
def tx_deliveries(s: Session) -> None:
    """Acks that wait for a commit count as unsettled: a prefetch stays used up until then."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        _fill(s, queue, 4, arguments)
        s.call(2, "tx.select")
        s.call(2, "basic.qos", prefetch_count=2)
        s.call(2, "basic.consume", queue=queue, consumer_tag=f"c-{queue}")
        event = s.take(2, 2)
        assert event is not None
        s.send(2, "basic.ack", delivery_tag=event.args["delivery_tag"], multiple=True)
        s.quiet(2)
        s.call(2, "tx.rollback")
        s.quiet(2)
        s.send(2, "basic.ack", delivery_tag=event.args["delivery_tag"], multiple=True)
        s.send(2, "tx.commit")
        s.take_any(2, 3)
        s.quiet(2)
        s.call(2, "basic.cancel", consumer_tag=f"c-{queue}")
        s.send(2, "basic.ack", delivery_tag=0, multiple=True)
        s.call(2, "tx.commit")
        s.call(2, "channel.close", reply_code=200)
        s.call(2, "channel.open")


@scenario
def tx_channel_closed(s: Session) -> None:
    """A channel that ends undoes what was not committed."""
    s.open("a", 1, 2)
    for queue, arguments in KINDS:
        _fill(s, queue, 2, arguments)
        s.call(2, "tx.select")
        for number in range(2):
            s.call(2, "basic.get", queue=queue)
            s.send(2, "basic.ack", delivery_tag=number + 1)
        s.publish(2, "", queue, b"dropped")
        s.call(2, "channel.close", reply_code=200)
        s.until(queue, 2)
        s.call(2, "channel.open")
        s.call(2, "tx.commit")
        s.call(1, "basic.get", queue=queue, no_ack=True)
        s.call(1, "basic.get", queue=queue, no_ack=True)


@scenario
def tx_recover(s: Session) -> None:
    """Recover leaves to the commit what was answered within the transaction."""
    s.open()
    for queue, arguments in KINDS:
        _fill(s, queue, 2, arguments)
        s.call(1, "tx.select")
        event = s.call(1, "basic.get", queue=queue)
        s.call(1, "basic.get", queue=queue)
        assert event is not None
        s.send(1, "basic.ack", delivery_tag=event.args["delivery_tag"])
        s.call(1, "basic.recover", requeue=True)
        s.until(queue, 1)
        s.call(1, "tx.commit")
        s.call(1, "basic.get", queue=queue)
        s.call(1, "channel.close", reply_code=200)
        s.call(1, "channel.open")


@scenario
def tx_refuses(s: Session) -> None:
    """What a publish is refused for outside of a transaction it is refused for within one."""
    s.open()
    s.call(1, "tx.select")
    s.publish(1, "", "o.q", b"x", {"user_id": "someone"}, mandatory=True)
    s.take(1)
    s.call(1, "tx.select")
    s.publish(1, "", "o.q", b"x", {"expiration": "soon"})
    s.take(1)
    s.call(1, "tx.select")
    s.publish(1, "", "o.q", b"x", immediate=True)
    s.take(1)
    s.call(1, "tx.rollback")


@scenario
def tx_and_confirms(s: Session) -> None:
    """Modes exclude each other, without an answer asked for, too."""
    s.open()
    s.send(1, "confirm.select", nowait=True)
    s.call(1, "tx.select")
    s.call(1, "tx.select")
    s.send(1, "confirm.select", nowait=True)
    s.take(1)
    s.call(1, "confirm.select")
    s.publish(1, "", "o.none", b"x", mandatory=True)
    s.confirmed(1, 1)
    s.call(1, "tx.commit")


@scenario
def direct_reply_to(s: Session) -> None:
    """A request is answered without a queue."""
    s.open("a", 1, 2)
    s.call(2, "queue.declare", queue="o.server", durable=True)
    s.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")
    s.publish(1, "", "o.server", b"ask", {"reply_to": "amq.rabbitmq.reply-to"})
    s.until("o.server", 1)
    event = s.call(2, "basic.get", queue="o.server", no_ack=True)
    assert event is not None
    address = event.properties["reply_to"]
    s.call(2, "queue.declare", queue=address, passive=True)
    s.publish(2, "", address, b"answer", {"correlation_id": "1"})
    s.take(1)


@scenario
def direct_reply_to_declared(s: Session) -> None:
    """The name of direct replies is there for whoever declares it, in whatever way."""
    s.open()
    name = "amq.rabbitmq.reply-to"
    s.call(1, "queue.declare", queue=name, passive=True)
    s.call(1, "queue.declare", queue=name)
    s.call(1, "queue.declare", queue=f"{name}\n", exclusive=True, arguments={"x-queue-type": 5})
    s.call(1, "queue.purge", queue="")
    for method in ("basic.get", "queue.purge", "queue.bind"):
        s.call(1, method, queue=name)
    s.call(1, "basic.consume", queue=f"{name}\n", no_ack=True)
    s.call(1, "queue.delete", queue=name)


@scenario
def direct_reply_to_errors(s: Session) -> None:
    """Its consumer acknowledges nothing, is one, and comes first."""
    s.open("a", 1)
    s.call(1, "basic.consume", queue="amq.rabbitmq.reply-to")
    s.publish(1, "", "o.server", b"ask", {"reply_to": "amq.rabbitmq.reply-to"})
    s.take(1)
    s.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r")
    s.call(1, "basic.consume", queue="amq.rabbitmq.reply-to", no_ack=True, consumer_tag="r2")
