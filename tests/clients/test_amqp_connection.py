"""Connections and channels: handshakes, limits, logins, heartbeats, life cycles."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pytest
from pika.exceptions import (
    ChannelClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.clients.fixtures import Connect, Raw
from tests.clients.raw import HEARTBEAT, METHOD, PROTOCOL_HEADER, RawClient, encode_method, plain
from tests.clients.support import UNICODE, eventually, refused
from tests.support.broker import Broker


def test_server_properties(raw: Raw) -> None:
    client = raw().open()
    said = plain(client.server_properties)
    assert set(said) == {
        "capabilities", "cluster_name", "copyright", "information", "platform", "product",
        "version",
    }  # fmt: skip
    assert said["capabilities"] == dict.fromkeys(
        (
            "publisher_confirms", "exchange_exchange_bindings", "basic.nack",
            "consumer_cancel_notify", "connection.blocked", "consumer_priorities",
            "authentication_failure_close", "per_consumer_qos", "direct_reply_to",
        ),
        True,
    )  # fmt: skip
    assert client.tune == {"channel_max": 2047, "frame_max": 131072, "heartbeat": 60}


@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_login(raw: Raw, mechanism: str) -> None:
    raw().open(mechanism=mechanism, channels=[1])
    reply = raw().start(mechanism=mechanism, password="wrong").args
    assert reply["reply_code"] == 403
    assert reply["reply_text"] == (
        f"ACCESS_REFUSED - Login was refused using authentication mechanism {mechanism}. "
        "For details see the broker logfile."
    )


def test_pika_understands_the_refusal(connect: Connect) -> None:
    with pytest.raises(ProbableAuthenticationError):
        connect(credentials=pika.PlainCredentials("guest", "wrong"))


def test_malformed_plain_response(raw: Raw) -> None:
    """Hung up on, each some seconds later; all at the same time, so that the test waits once."""
    responses = [b"", b"guest", b"\0guest", b"\xff\0\xff", b"\0" * 300]
    clients = [raw() for _ in responses]
    for client, response in zip(clients, responses, strict=True):
        client.send_bytes(PROTOCOL_HEADER)
        client.expect(0, "connection.start")
        client.send(0, "connection.start-ok", mechanism="PLAIN", response=response, locale="en_US")
    for client in clients:
        client.wait_closed()


def test_unknown_vhost(connect: Connect) -> None:
    with pytest.raises(ProbableAccessDeniedError, match="530.*vhost nowhere not found"):
        connect(virtual_host="nowhere")


def test_smaller_limits_are_taken(raw: Raw) -> None:
    client = raw().open(channel_max=5, frame_max=8192, channels=range(1, 6))
    reply = client.call(6, "channel.open")
    assert reply.name == "connection.close"
    assert reply.args["reply_code"] == 530
    assert (
        "number of channels opened (5) has reached the negotiated channel_max (5)"
        in (reply.args["reply_text"])
    )


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"channel_max": 2048}, "negotiated channel_max = 2048 is higher than the maximum"),
        ({"frame_max": 131073}, "negotiated frame_max = 131073 is higher than the maximum"),
        ({"frame_max": 8191}, "negotiated frame_max = 8191 is lower than the minimum"),
        ({"channel_max": 0}, "negotiated channel_max = 0 (no limit) is higher than the maximum"),
        ({"frame_max": 0}, "negotiated frame_max = 0 is higher than the maximum"),
    ],
)
def test_limits_beyond_the_offer(
    raw: Raw, limits: dict[str, int], text: str, is_warren: bool
) -> None:
    """No client may take more than was offered."""
    client = raw()
    tune = client.start().args
    client.send(0, "connection.tune-ok", **{**tune, **limits})
    if is_warren:  # RabbitMQ says it in its log only
        reply = client.expect(0, "connection.close").args
        assert (reply["reply_code"], text in reply["reply_text"]) == (530, True), reply
        client.send(0, "connection.close-ok")
    client.wait_closed()


def test_two_thousand_channels(connect: Connect) -> None:
    """As many channels as were negotiated, all working, then closed and opened again."""
    connection = connect(channel_max=2047)
    channels = [connection.channel() for _ in range(2047)]
    queue = channels[0].queue_declare("", exclusive=True).method.queue
    for channel in channels[::50]:
        channel.basic_publish("", queue, b"x")
    count = len(channels[::50])
    eventually(
        lambda: channels[-1].queue_declare(queue, passive=True).method.message_count == count
    )
    for channel in channels[1::100]:
        number = channel.channel_number
        channel.close()
        assert connection.channel(number).channel_number == number


def test_channel_number_is_free_after_an_error(connect: Connect) -> None:
    connection = connect()
    for _ in range(20):
        channel = connection.channel(7)
        with refused(404):
            channel.queue_declare("nothing of this name", passive=True)
    assert connection.channel(7).queue_declare("", exclusive=True).method.queue


def test_other_channels_survive_an_error(connect: Connect) -> None:
    connection = connect()
    good, bad = connection.channel(), connection.channel()
    queue = good.queue_declare("", exclusive=True).method.queue
    with pytest.raises(ChannelClosedByBroker):
        bad.exchange_declare("amq.fanout", "direct")
    good.queue_declare(queue, passive=True)


def test_unicode_in_every_short_string(raw: Raw) -> None:
    client = raw().open(channels=[1])
    client.ask(1, "channel.close", reply_code=200, reply_text=UNICODE)
    client.send(0, "connection.close", reply_code=200, reply_text=UNICODE)
    client.expect(0, "connection.close-ok")


def test_pipelined_handshake_and_work(raw: Raw) -> None:
    """A client may send everything at once without waiting for answers."""
    client = raw()
    work = RawClient.frame
    script = PROTOCOL_HEADER
    for channel, method, args in (
        (0, "connection.start-ok", {"mechanism": "PLAIN", "response": b"\0guest\0guest",
                                    "locale": "en_US"}),
        (0, "connection.tune-ok", {"channel_max": 10, "frame_max": 131072, "heartbeat": 0}),
        (0, "connection.open", {"virtual_host": "/"}),
        (1, "channel.open", {}),
        (1, "queue.declare", {"exclusive": True}),
    ):  # fmt: skip
        script += work(METHOD, channel, encode_method(method, args))
    client.send_bytes(script)
    seen = [client.next().name for _ in range(5)]
    assert seen == [
        "connection.start", "connection.tune", "connection.open-ok", "channel.open-ok",
        "queue.declare-ok",
    ]  # fmt: skip


def test_bytes_one_by_one(raw: Raw) -> None:
    """The cuts that TCP makes mean nothing."""
    client = raw().open(channels=[1])
    queue = client.ask(1, "queue.declare", queue="", exclusive=True).args["queue"]
    for byte in client.publish_bytes(1, "", queue, b"hello", {"content_type": "a/b"}):
        client.send_bytes(bytes([byte]))
    eventually(
        lambda: client.ask(1, "queue.declare", queue=queue, passive=True).args["message_count"]
    )
    got = client.call(1, "basic.get", queue=queue, no_ack=True)
    assert (got.body, got.properties) == (b"hello", {"content_type": "a/b"})


def test_server_sends_heartbeats(raw: Raw) -> None:
    """With 1 s negotiated something comes at least every second (RabbitMQ: twice as often)."""
    client = raw().open(heartbeat=1)
    begin = time.monotonic()
    while client.heartbeats < 2:
        client.send_bytes(RawClient.frame(HEARTBEAT, 0, b""))
        with pytest.raises(TimeoutError):
            client.read_event(0.3)
        assert time.monotonic() - begin < 4


def test_silent_client_is_closed(raw: Raw) -> None:
    """Two missed heartbeats end the connection; anything sent counts as one."""
    client = raw().open(heartbeat=1, channels=[1])
    begin = time.monotonic()
    while time.monotonic() - begin < 2.5:  # alive by ordinary methods, no heartbeat sent
        client.ask(1, "basic.qos", prefetch_count=1)
        with pytest.raises(TimeoutError):
            client.read_event(0.2)
    begin = time.monotonic()
    client.wait_closed()
    assert 1.5 < time.monotonic() - begin < 5


def test_connection_that_is_given_up_is_reset(raw: Raw) -> None:
    """With a mere end, the next publish of its client would still look sent."""
    client = raw().open(heartbeat=1, channels=[1])
    with pytest.raises(ConnectionResetError):
        client.socket.settimeout(10)
        while client.socket.recv(4096):
            pass
    with pytest.raises(OSError):
        client.publish(1, "", "anywhere")


def test_no_heartbeats_when_switched_off(raw: Raw) -> None:
    client = raw().open(heartbeat=0, channels=[1])
    assert client.quiet(2.2)
    assert client.heartbeats == 0
    client.ask(1, "basic.qos", prefetch_count=1)


def test_consumed_deliveries_do_not_replace_client_heartbeats(raw: Raw) -> None:
    """A client that only receives is silent."""
    consumer, publisher = raw().open(heartbeat=1, channels=[1]), raw().open(channels=[1])
    queue = publisher.ask(1, "queue.declare", queue="", auto_delete=True).args["queue"]
    consumer.ask(1, "basic.consume", queue=queue, no_ack=True)
    begin = time.monotonic()

    def closed() -> bool:
        publisher.publish(1, "", queue, b"x")
        try:
            while True:
                consumer.read_event(0.1)
        except TimeoutError:
            return False
        except Exception:
            return True

    eventually(closed)
    assert time.monotonic() - begin < 6


def test_handshake_timeout(make_broker: Callable[..., Broker]) -> None:
    """A client that connects and says nothing, or half of it, is cut off."""
    broker = make_broker("--config", "/dev/null")
    assert broker.data_dir is not None
    config = broker.data_dir.with_name("short.conf")
    config.write_text("handshake_timeout = 1000\n")
    broker.options = ["--config", str(config)]
    broker.start()
    clients = [RawClient((broker.host, broker.port)) for _ in range(3)]
    clients[1].send_bytes(PROTOCOL_HEADER[:4])
    clients[2].send_bytes(PROTOCOL_HEADER)
    open_one = RawClient((broker.host, broker.port)).open(channels=[1])
    begin = time.monotonic()
    for client in clients:
        client.wait_closed(8)
    assert time.monotonic() - begin < 8
    open_one.ask(1, "basic.qos", prefetch_count=1)
