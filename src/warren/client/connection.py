"""A connection: the handshake, its channels, and its end."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Final, final

from warren import __version__
from warren.client.channel import Channel
from warren.client.link import Link, Sink
from warren.client.messages import close_error_text, known_code
from warren.client.uri import Address, parse_uri
from warren.limits import FRAME_BYTES_MAX
from warren.wire import sasl
from warren.wire.amqp091 import spec
from warren.wire.amqp091.errors import ConnectionException
from warren.wire.amqp091.frame import FRAME_METHOD, PROTOCOL_HEADER
from warren.wire.amqp091.spec import Method, decode_method
from warren.wire.amqp091.table import Table

_CAPABILITIES: Final = (
    "authentication_failure_close",
    "basic.nack",
    "connection.blocked",
    "consumer_cancel_notify",
    "publisher_confirms",
)


def connect(uri: str, name: str = "") -> Connection:
    """Connect to the broker that an AMQP URI names.

    Args:
        name: What the broker's tools call this connection; empty for none.

    Raises:
        ConfigError: The URI is wrong.
        ConnectionException: The broker refuses: 403 wrong user or password, 530 no such vhost or
            no permission for it.
        OSError: No broker answers.
    """
    return Connection(parse_uri(uri), name)


@final
class Connection(Sink):
    """One connection; not for use by several threads at once.

    Without a heartbeat (the default: nothing here runs while no call is being made) a dead broker
    is noticed by the operating system's keep-alive or the next call's timeout.

    Attributes:
        server_properties: What the broker says about itself.
        blocked: Why the broker takes no publishes at the moment; empty if it does.
    """

    def __init__(self, address: Address, name: str = "") -> None:
        """Connect and shake hands; see `connect`."""
        self.server_properties: Table = {}
        self.blocked: str = ""
        self._replies: deque[Method] = deque()
        self._channels: dict[int, Channel] = {}
        self._link = Link(address.host, address.port, address.timeout_seconds, address.tls)
        self._link.attach(0, self)
        self._channel_max: int = address.channel_max
        try:
            self._shake_hands(address, name)
        except BaseException as error:
            self._link.fail(error)
            raise

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self.close()

    def fileno(self) -> int:
        """The socket's descriptor, for a caller that waits on several things."""
        return self._link.fileno()

    def is_open(self) -> bool:
        """Whether neither side has ended it, as far as is known."""
        return self._link.error is None

    def channel(self) -> Channel:
        """Open a channel.

        Raises:
            ConnectionException: 530, as many as were negotiated are open.
        """
        self._link.check()
        number = 1
        while number in self._channels and self._channels[number].error is None:
            number += 1
        if number > self._channel_max:
            raise ConnectionException(530, f"all {self._channel_max} channels are open")
        channel = Channel(self._link, number)
        self._channels[number] = channel
        channel.open()
        return channel

    def close(self) -> None:
        """Close it in order: what was written is sent, and the broker agrees. Never raises."""
        link = self._link
        if link.error is not None:
            return
        try:
            link.send(0, spec.ConnectionClose(reply_code=200))
            self._await(spec.ConnectionCloseOk.NAME)
        except (OSError, ConnectionException):
            # Closed either way; whoever needs to know has waited for confirms before.
            pass
        link.fail(ConnectionError("the connection was closed by its owner"))

    # --- handshake ------------------------------------------------------------------------------

    def _shake_hands(self, address: Address, name: str) -> None:
        link = self._link
        link.out.write(PROTOCOL_HEADER)
        start = self._await(spec.ConnectionStart.NAME)
        assert isinstance(start, spec.ConnectionStart)
        self.server_properties = start.server_properties
        if b"PLAIN" not in start.mechanisms.split(b" "):
            raise ConnectionException(530, "the broker does not offer SASL PLAIN")
        properties: Table = {
            "product": "Warren client",
            "version": __version__,
            "platform": "Python",
            "capabilities": dict.fromkeys(_CAPABILITIES, True),
        }
        if name:
            properties["connection_name"] = name
        response = sasl.encode_plain(address.user, address.password)
        link.send(0, spec.ConnectionStartOk(properties, "PLAIN", response, "en_US"))
        tune = self._await(spec.ConnectionTune.NAME)
        assert isinstance(tune, spec.ConnectionTune)
        frame_bytes_max = min(tune.frame_max or FRAME_BYTES_MAX, FRAME_BYTES_MAX)
        self._channel_max = min(tune.channel_max or self._channel_max, self._channel_max)
        heartbeat = address.heartbeat_seconds
        link.send(0, spec.ConnectionTuneOk(self._channel_max, frame_bytes_max, heartbeat))
        link.tune(frame_bytes_max, heartbeat)
        link.send(0, spec.ConnectionOpen(virtual_host=address.vhost))
        self._await(spec.ConnectionOpenOk.NAME)

    def _await(self, name: str) -> Method:
        """Send what was written, then wait for one method on channel 0."""
        link = self._link
        link.flush()
        deadline = monotonic() + link.timeout_seconds
        while not self._replies:
            link.check()
            if not link.pump(deadline):
                link.fail(TimeoutError(f"no {name} from the broker"))
        reply = self._replies.popleft()
        if reply.NAME != name:
            raise ConnectionException(505, f"expected {name}, got {reply.NAME}")
        return reply

    # --- what comes on channel 0 ----------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Forget the channels: the connection is gone, and its link has told them."""
        self._channels.clear()

    def take_frame(self, kind: int, data: bytes, start: int, end: int) -> None:
        """Act on a method of channel 0; other frames of that channel are passed over."""
        if kind != FRAME_METHOD:
            return
        method = decode_method(data, start, end)
        link = self._link
        if isinstance(method, spec.ConnectionBlocked):
            self.blocked = method.reason or "blocked"
        elif isinstance(method, spec.ConnectionUnblocked):
            self.blocked = ""
        elif isinstance(method, spec.ConnectionClose):
            link.send(0, spec.ConnectionCloseOk())
            link.flush()
            text = close_error_text(method.reply_code, method.reply_text)
            code = known_code(method.reply_code)
            raise ConnectionException(code, text, method.class_id, method.method_id)
        else:
            self._replies.append(method)
