"""Publishing: confirms, returns, bodies of every size, properties and headers of every type."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import UnroutableError

from tests.clients.fixtures import Names, Raw
from tests.clients.raw import CAPABILITIES, Typed, plain
from tests.clients.support import (
    BODY_MAX,
    BODY_SIZES,
    PERSISTENT,
    UNICODE,
    Inbox,
    body_of,
    eventually,
    get,
    refused,
)

EVERY_TYPE = {
    "t": True, "b": Typed("b", -128), "B": Typed("B", 255), "s": Typed("s", -32768),
    "u": Typed("u", 65535), "I": Typed("I", -(2**31)), "i": Typed("i", 2**32 - 1),
    "l": Typed("l", -(2**63)), "L": Typed("L", 2**63 - 1), "f": Typed("f", 0.5),
    "d": Typed("d", 0.1), "D": Typed("D", (3, 31415)), "S": UNICODE, "x": Typed("x", bytes(256)),
    "T": Typed("T", 2**40), "V": None, "A": [1, "two", [None, {"three": 3.0}]],
    "F": {"deep": {"deeper": {"deepest": Typed("s", -1)}}}, "": "an empty key", "ü": "its own",
}  # fmt: skip


def _typed(value: object) -> object:
    """What a value is on the wire: the letters of nested values too; L is read as l."""
    if isinstance(value, dict):
        return {key: _typed(item) for key, item in value.items()}
    if isinstance(value, Typed):
        return ("l" if value.tag == "L" else value.tag, _typed(value.value))
    return [_typed(item) for item in value] if isinstance(value, list) else value


@pytest.mark.rule("QQ-27", "BEH-09")
def test_confirms_in_any_grouping(raw: Raw, queue: str) -> None:
    """Every publish is confirmed once, in ranges or one by one, in ascending order."""
    client = raw().open(channels=[1])
    client.ask(1, "confirm.select")
    total = 1000
    client.send_bytes(
        b"".join(
            client.publish_bytes(1, "", queue, b"%d" % n, {"delivery_mode": 2})
            for n in range(total)
        )
    )
    confirmed: set[int] = set()
    while len(confirmed) < total:
        ack = client.expect(1, "basic.ack").args
        tag = ack["delivery_tag"]
        first = min(set(range(1, tag + 1)) - confirmed) if ack["multiple"] else tag
        assert tag not in confirmed and tag <= total
        confirmed |= set(range(first, tag + 1))
    assert client.quiet()
    assert client.ask(1, "queue.declare", queue=queue, passive=True).args["message_count"] == total


def test_unroutable_is_confirmed_after_its_return(raw: Raw, queue: str) -> None:
    client = raw().open(channels=[1])
    client.ask(1, "confirm.select")
    client.publish(1, "", "nobody", b"dropped")
    assert client.expect(1, "basic.ack").args["delivery_tag"] == 1
    client.publish(1, "", "nobody", b"back", {"message_id": "m"}, mandatory=True)
    returned = client.expect(1, "basic.return")
    assert (returned.args["reply_code"], returned.args["reply_text"]) == (312, "NO_ROUTE")
    assert (returned.args["exchange"], returned.args["routing_key"]) == ("", "nobody")
    assert (returned.body, returned.properties) == (b"back", {"message_id": "m"})
    assert client.expect(1, "basic.ack").args["delivery_tag"] == 2
    client.publish(1, "", queue, b"routed", mandatory=True)
    assert client.expect(1, "basic.ack").args["delivery_tag"] == 3


def test_pika_sees_returns(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"fine", PERSISTENT, mandatory=True)
    with pytest.raises(UnroutableError):
        channel.basic_publish("", "nobody", b"lost", mandatory=True)


def test_returns_without_confirms(raw: Raw) -> None:
    client = raw().open(channels=[1])
    client.publish(1, "", "nobody", body_of(300_000), mandatory=True)
    assert client.expect(1, "basic.return").body == body_of(300_000)


@pytest.mark.parametrize("size", BODY_SIZES)
def test_body_sizes(channel: BlockingChannel, queue: str, size: int) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, body_of(size), PERSISTENT)
    assert get(channel, queue)[2] == body_of(size)


def test_small_frames_both_ways(raw: Raw, queue: str) -> None:
    """Bodies are cut by each side's own frame_max."""
    small, large = raw().open(frame_max=8192, channels=[1]), raw().open(channels=[1])
    for size in (8183, 8184, 8185, 100_000):
        small.publish(1, "", queue, body_of(size))
        eventually(
            lambda: large.ask(1, "queue.declare", queue=queue, passive=True).args["message_count"]
        )
        message = large.call(1, "basic.get", queue=queue, no_ack=True)
        assert message.body == body_of(size)  # whole or as it was cut: both are fine
        large.publish(1, "", queue, body_of(size))
        eventually(
            lambda: large.ask(1, "queue.declare", queue=queue, passive=True).args["message_count"]
        )
        message = small.call(1, "basic.get", queue=queue, no_ack=True)
        assert (message.body, message.body_frames) == (body_of(size), -(-size // 8184))


def test_body_at_the_limit_and_above(channel: BlockingChannel, queue: str) -> None:
    body = body_of(BODY_MAX)
    channel.confirm_delivery()
    channel.basic_publish("", queue, body, PERSISTENT)
    assert get(channel, queue)[2] == body
    text = f"message size {BODY_MAX + 1} is larger than configured max size {BODY_MAX}"
    with refused(406, text):
        channel.basic_publish("", queue, body + b"!", PERSISTENT)
    with channel.connection.channel() as again:
        again.basic_publish("", queue, b"the connection goes on")
        assert get(again, queue)[2] == b"the connection goes on"


@pytest.mark.rule("CQ-09")
def test_every_property(channel: BlockingChannel, queue: str) -> None:
    sent = pika.BasicProperties(
        content_type="text/plain", content_encoding="gzip", headers={"h": "v"}, delivery_mode=2,
        priority=4, correlation_id=UNICODE, reply_to="r", message_id="m",
        timestamp=1_700_000_000, type="t", user_id="guest", app_id="a", cluster_id="c",
    )  # fmt: skip
    channel.basic_publish("", queue, b"x", sent)
    assert get(channel, queue)[1] == sent


def test_expiration_comes_back(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"x", pika.BasicProperties(expiration="600000"))
    assert get(channel, queue)[1].expiration == "600000"


def test_no_property(channel: BlockingChannel, queue: str) -> None:
    channel.basic_publish("", queue, b"x")
    assert get(channel, queue)[1] == pika.BasicProperties()


def test_every_header_type(raw: Raw, queue: str) -> None:
    client = raw().open(channels=[1, 2])
    client.publish(1, "", queue, b"x", {"headers": EVERY_TYPE})
    client.ask(2, "basic.consume", queue=queue, no_ack=True)
    got = client.expect(2, "basic.deliver").properties["headers"]
    assert plain(got) == plain(EVERY_TYPE) | {"D": (3, 31415)}
    for key, value in EVERY_TYPE.items():
        if isinstance(value, Typed):
            assert _typed(got[key]) == _typed(value)


def test_headers_larger_than_a_frame_are_refused(raw: Raw, queue: str) -> None:
    """A header frame is one frame: larger than frame_max it ends the connection only."""
    client = raw().open(frame_max=8192, channels=[1])
    client.publish(1, "", queue, b"x", {"headers": {"h": "v" * 9000}})
    client.wait_closed()
    other = raw().open(channels=[1])
    assert other.ask(1, "queue.declare", queue=queue, passive=True).args["message_count"] == 0


def test_user_id_has_to_be_true(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    channel.basic_publish("", queue, b"x", pika.BasicProperties(user_id="guest"))
    with refused(406, "user_id property set to 'root' but authenticated user was 'guest'"):
        channel.basic_publish("", queue, b"x", pika.BasicProperties(user_id="root"))


def test_missing_exchange(channel: BlockingChannel) -> None:
    channel.confirm_delivery()
    with refused(404, "no exchange 'nowhere' in vhost '/'"):
        channel.basic_publish("nowhere", "k", b"x")


def test_confirm_numbers_start_with_select(raw: Raw, queue: str) -> None:
    client = raw().open(channels=[1])
    client.publish(1, "", queue, b"before")
    client.ask(1, "confirm.select")
    client.ask(1, "confirm.select")
    client.publish(1, "", queue, b"first")
    assert client.expect(1, "basic.ack").args["delivery_tag"] == 1


@pytest.mark.rule("ORD-04", "ORD-01")
def test_order_of_one_channel_in_every_queue(
    channel: BlockingChannel, names: Names, raw: Raw
) -> None:
    exchange = names.exchange()
    channel.exchange_declare(exchange, "fanout")
    queues = []
    for kind in ("classic", "quorum"):
        queues.append(names.queue())
        channel.queue_declare(queues[-1], durable=True, arguments={"x-queue-type": kind})
        channel.queue_bind(queues[-1], exchange)
    sent = [b"%d" % n for n in range(2000)]
    publisher = raw().open(channels=[1], properties={"capabilities": CAPABILITIES})
    publisher.ask(1, "confirm.select")
    for start in range(0, len(sent), 500):
        publisher.send_bytes(
            b"".join(
                publisher.publish_bytes(1, exchange, "", body, {"delivery_mode": n % 2 + 1})
                for n, body in enumerate(sent[start : start + 500])
            )
        )
    for queue in queues:
        inbox = Inbox(channel, queue, auto_ack=True)
        assert [body for _, _, body in inbox.take(len(sent))] == sent
