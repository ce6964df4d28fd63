"""The client against a broker that misbehaves: it hangs up, stays silent, or talks nonsense."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.client.script import Peer, scripted
from tests.support.patience import patient
from warren.client import Channel, ConsumerCancelled, connect
from warren.client.channel import CONFIRM_WINDOW
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ChannelException, ConnectionException
from warren.wire.amqp091.frame import header_frame, method_frame

SOON = "?connection_timeout=300"


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(OSError):
        connect(f"amqp://127.0.0.1:{port}")


def test_handshake() -> None:
    seen: list[spec.ConnectionStartOk] = []

    def script(peer: Peer) -> None:
        seen.append(peer.shake_hands())
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri:
        connection = connect(uri.replace("//", "//me:secret@"), "a name")
        assert connection.is_open()
        connection.close()
        assert not connection.is_open()
        connection.close()
        with pytest.raises(ConnectionError):
            connection.channel()
    start_ok = seen[0]
    assert (start_ok.mechanism, start_ok.response) == ("PLAIN", b"\x00me\x00secret")
    assert start_ok.client_properties["connection_name"] == "a name"
    capabilities = start_ok.client_properties["capabilities"]
    assert isinstance(capabilities, dict)
    assert capabilities["consumer_cancel_notify"] is True


def test_refused_login() -> None:
    def script(peer: Peer) -> None:
        peer.stream.recv(8)
        peer.send(0, spec.ConnectionStart())
        peer.expect(spec.ConnectionStartOk)
        peer.send(0, spec.ConnectionClose(403, "ACCESS_REFUSED - not you", 10, 11))
        peer.expect(spec.ConnectionCloseOk)

    with scripted(script) as uri, pytest.raises(ConnectionException) as caught:
        connect(uri)
    error = caught.value
    assert (error.code, error.text, error.class_id, error.method_id) == (403, "not you", 10, 11)


@pytest.mark.parametrize("words", [b"AMQP\x00\x00\x09\x01", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_no_amqp(words: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.stream.recv(8)
        peer.stream.sendall(words)

    with scripted(script) as uri, pytest.raises((ConnectionException, ConnectionError)):
        connect(uri)


def test_silence_ends_in_a_timeout() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.QueueDeclare)
        with pytest.raises((EOFError, ConnectionError)):
            peer.next_frame()

    with scripted(script, SOON) as uri:
        channel = connect(uri).channel()
        with pytest.raises(TimeoutError, match="no answer to queue.declare"):
            channel.queue_declare("q")
        with pytest.raises(TimeoutError):
            channel.queue_declare("q")


def test_hanging_up_ends_every_call() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.open_channel()
        peer.expect(spec.QueueDeclare)

    with scripted(script) as uri:
        connection = connect(uri)
        one, other = connection.channel(), connection.channel()
        with pytest.raises(ConnectionError):
            one.queue_declare("q")
        with pytest.raises(ConnectionError):
            other.publish("", "q", b"")
        assert not connection.is_open()


def test_connection_close_reaches_every_channel() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.open_channel()
        peer.expect(spec.QueueDeclare)
        peer.send(0, spec.ConnectionClose(320, "CONNECTION_FORCED - shutdown"))
        peer.expect(spec.ConnectionCloseOk)

    with scripted(script) as uri:
        connection = connect(uri)
        one, other = connection.channel(), connection.channel()
        for channel in (one, other):
            with pytest.raises(ConnectionException) as caught:
                channel.queue_declare("q")
            assert (caught.value.code, caught.value.text) == (320, "shutdown")


def test_channel_close_leaves_the_rest() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.QueueDeclare)
        peer.send(1, spec.ChannelClose(404, "NOT_FOUND - no queue", 50, 10))
        peer.expect(spec.ChannelCloseOk)
        peer.open_channel()
        peer.expect(spec.QueuePurge)
        peer.send(1, spec.QueuePurgeOk(7))
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri, connect(uri) as connection:
        channel = connection.channel()
        for _ in range(2):
            with pytest.raises(ChannelException) as caught:
                channel.queue_declare("q", passive=True)
            error = caught.value
            assert (error.code, error.text) == (404, "no queue")
            assert (error.class_id, error.method_id) == (50, 10)
        assert connection.channel().queue_purge("q") == 7


def test_an_unknown_code_has_a_text() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.QueuePurge)
        peer.send(1, spec.ChannelClose(499, "SOMETHING - new"))
        peer.expect(spec.ChannelCloseOk)

    with scripted(script) as uri:
        channel = connect(uri).channel()
        with pytest.raises(ChannelException) as caught:
            channel.queue_purge("q")
        assert str(caught.value) == "INTERNAL_ERROR - SOMETHING - new"


CONTENT = method_frame(1, spec.BasicDeliver("t", 1, False, "", "q").encode())
NONSENSE = {
    "bad end": struct.pack(">BHI", 1, 1, 4) + b"\x00\x32\x00\x0b\x00",
    "oversized": struct.pack(">BHI", 1, 1, 1 << 30),
    "unknown method": method_frame(1, b"\x00\x63\x00\x01"),
    "body first": CONTENT + struct.pack(">BHI", 3, 1, 1) + b"x\xce",
    "body without method": struct.pack(">BHI", 3, 1, 1) + b"x\xce",
    "method for content": CONTENT + method_frame(1, spec.QueuePurgeOk(1).encode()),
    "two headers": CONTENT + 2 * header_frame(1, b"\x00\x00", 5),
    "wrong class": CONTENT + header_frame(1, b"\x00\x00", 5, 10),
    "long body": CONTENT
    + header_frame(1, b"\x00\x00", 1)
    + struct.pack(">BHI", 3, 1, 2)
    + b"xx\xce",
    "wrong answer": method_frame(1, spec.QueueBindOk().encode()),
}


@pytest.mark.parametrize("words", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_ends_in_a_connection_exception(words: bytes) -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.QueuePurge)
        peer.stream.sendall(words)

    with scripted(script, SOON) as uri:
        channel = connect(uri).channel()
        with pytest.raises(ConnectionException) as caught:
            channel.queue_purge("q")
        assert caught.value.code in {501, 503, 505}


def test_both_sides_write_much_at_once() -> None:
    """A broker that writes before it reads does not stop a client that writes before it reads."""
    size, count = 100_000, 300

    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.BasicPublish)
        for tag in range(1, count + 1):
            peer.send_content(1, spec.BasicDeliver("t", tag, False, "", "q"), bytes(size))
        received = 0
        while received < size * count:
            kind, _, payload = peer.next_frame()
            received += len(payload) if kind == 3 else 0
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri, connect(uri) as connection:
        channel = connection.channel()
        for _ in range(count):
            channel.publish("", "q", bytes(size))
        channel.flush()
        tags: list[int] = []
        while len(tags) < count:
            tags += [delivery.delivery_tag for delivery in channel.receive(count, 5)]
        assert tags == list(range(1, count + 1))


def test_a_broker_that_takes_nothing_ends_in_a_timeout() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        # Nothing is read until the client has given up and hung up.
        deadline = time.monotonic() + patient(10)
        with pytest.raises(OSError):
            while time.monotonic() < deadline:
                peer.send(1, spec.BasicAck(1))
                time.sleep(0.02)

    with scripted(script, SOON) as uri:
        channel = connect(uri).channel()
        with pytest.raises(TimeoutError, match="takes no data"):
            for _ in range(1000):
                channel.publish("", "q", bytes(100_000))


def test_heartbeats_go_out_while_waiting() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands(heartbeat=1)
        peer.open_channel()
        frame = peer.next_frame()
        assert frame == (8, 0, b"")
        peer.send_content(1, spec.BasicDeliver("t", 1, False, "", "q"), b"")
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script, "?heartbeat=1") as uri, connect(uri) as connection:
        assert len(connection.channel().receive(1, 5)) == 1


def test_a_broker_without_heartbeats_is_given_up() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands(heartbeat=1)
        peer.open_channel()
        with pytest.raises(EOFError):
            while peer.next_frame() == (8, 0, b""):
                pass

    with scripted(script, "?heartbeat=1") as uri:
        channel = connect(uri).channel()
        with pytest.raises(TimeoutError, match="heartbeat"):
            channel.receive(1, 10)


def test_refused_publishes_are_told_by_position() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.ConfirmSelect)
        peer.send(1, spec.ConfirmSelectOk())
        for _ in range(6):
            peer.expect(spec.BasicPublish)
            assert peer.next_frame()[0] == 2
            assert peer.next_frame()[0] == 3
        peer.send(1, spec.BasicAck(2, False), spec.BasicNack(4, False))
        peer.send(1, spec.BasicNack(3, True), spec.BasicAck(6, True))
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri, connect(uri) as connection:
        channel = connection.channel()
        channel.confirm_select()
        assert channel.publish("", "q", b"x") == 1
        assert channel.outstanding() == 1
        assert channel.publish_many("", "q", [b"x"] * 5) == [2, 1]
        assert channel.wait_for_confirms() == [1]
        assert channel.wait_for_confirms() == []


class Watched(list[bytes]):
    """Bodies that note how many messages are unanswered whenever the next one is asked for."""

    def __init__(self, bodies: list[bytes], channel: Channel) -> None:
        super().__init__(bodies)
        self.channel = channel
        self.outstanding_max = 0

    def __iter__(self) -> Iterator[bytes]:
        for body in super().__iter__():
            self.outstanding_max = max(self.outstanding_max, self.channel.outstanding())
            yield body


def test_unanswered_publishes_are_bounded() -> None:
    count = CONFIRM_WINDOW + 5_000

    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.ConfirmSelect)
        peer.send(1, spec.ConfirmSelectOk())
        for number in range(1, count + 1):
            peer.expect(spec.BasicPublish)
            assert peer.next_frame()[0] == 2
            # Nothing is confirmed before the window is full.
            if number >= CONFIRM_WINDOW and number % 1_000 == 0:
                peer.send(1, spec.BasicAck(number, True))
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri, connect(uri) as connection:
        channel = connection.channel()
        bodies = Watched([b""] * count, channel)
        assert channel.publish_many("", "q", bodies) == []
        assert bodies.outstanding_max == CONFIRM_WINDOW - 1


def test_missing_confirms_end_in_a_timeout() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.expect(spec.ConfirmSelect)
        peer.send(1, spec.ConfirmSelectOk())
        with pytest.raises((EOFError, ConnectionError)):
            while True:
                peer.next_frame()

    with scripted(script, SOON) as uri:
        channel = connect(uri).channel()
        with pytest.raises(TimeoutError, match="no confirm for 3 messages"):
            channel.publish_many("", "q", [b"x"] * 3)


def test_blocked_and_cancelled() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        peer.open_channel()
        peer.send(0, spec.ConnectionBlocked("low on disk"))
        peer.send_content(1, spec.BasicDeliver("t", 1, False, "", "q"), b"last")
        peer.send(1, spec.BasicCancel("t", True), spec.ChannelFlow(active=True))
        peer.expect(spec.ChannelFlowOk)
        peer.send(0, spec.ConnectionUnblocked())
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri, connect(uri) as connection:
        channel = connection.channel()
        assert [delivery.body for delivery in channel.receive(9, 5)] == [b"last"]
        assert connection.blocked == "low on disk"
        with pytest.raises(ConsumerCancelled, match="'t'"):
            channel.receive(9, 5)
        assert channel.receive(9, 0.1) == []
        assert connection.blocked == ""


def test_channel_numbers_are_used_again_and_bounded() -> None:
    def script(peer: Peer) -> None:
        peer.shake_hands()
        for _ in range(5):
            peer.open_channel()
        _, number, _ = peer.next_frame()
        peer.send(number, spec.ChannelCloseOk())
        peer.open_channel()
        peer.expect(spec.ConnectionClose)
        peer.send(0, spec.ConnectionCloseOk())

    with scripted(script) as uri, connect(uri) as connection:
        channels = [connection.channel() for _ in range(5)]
        assert [channel.number for channel in channels] == [1, 2, 3, 4, 5]
        with pytest.raises(ConnectionException) as caught:
            connection.channel()
        assert caught.value.code == 530
        channels[2].close()
        channels[2].close()
        with pytest.raises(ChannelException, match="closed by its owner"):
            channels[2].publish("", "q", b"")
        assert connection.channel().number == 3
