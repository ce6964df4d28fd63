"""The socket of a client connection: frames in, frames out, and waiting for either.

Everything a connection does on the network is one of two things: `flush` sends what was written,
`pump` waits for input. Both read whatever has come and hand each frame to the sink of its channel,
so that neither side can block the other for good.
"""

from __future__ import annotations

import select
import socket
from abc import abstractmethod
from time import monotonic
from typing import Final, final

from librt.strings import BytesWriter

from warren.client.body import Body, BodyReader
from warren.client.uri import Tls
from warren.errors import BrokerError, ConfigError
from warren.limits import FRAME_BYTES_MAX
from warren.wire.amqp091.frame import FRAME_METHOD, HEARTBEAT_FRAME, FrameReader, write_method_frame
from warren.wire.amqp091.spec import Method

READ_BYTES: Final = 262_144
"""How much one read takes at most."""

FLUSH_BYTES: Final = 65_536
"""How much is written before it is sent without being asked to."""

_READABLE: Final = select.POLLIN | select.POLLHUP | select.POLLERR
_LOCAL_ADDRESS_IN_USE_TRIES: Final = 3


class Sink:
    """Takes the frames of one channel."""

    @abstractmethod
    def take_frame(self, kind: int, data: bytes, start: int, end: int) -> None:
        """Take a frame that came; its payload is `data[start:end]`."""

    def large_body(self) -> Body | None:
        """The large content that this channel is in the middle of, if it is.

        A link may put the content's next bytes there itself instead of handing frames on; then it
        calls `end_body` when the last frame is whole.
        """
        return None

    def end_body(self) -> None:
        """Take note that the large body is complete; where there is none this is not called."""

    @abstractmethod
    def fail(self, error: BaseException) -> None:
        """Take note that the connection is gone and nothing comes any more; `error` says why."""


@final
class Link:
    """One socket to a broker: sends what is written, and hands frames to their channels.

    Attributes:
        out: What is to be sent; write into it, then call `written`.
        frame_bytes_max: The negotiated limit of a whole frame.
        error: Why the connection is gone; None while it is not.
    """

    def __init__(
        self, host: str, port: int, timeout_seconds: float, tls: Tls | None = None
    ) -> None:
        """Connect to a broker's port.

        Raises:
            OSError: No broker answers there, or its certificate is not good.
            ConfigError: A certificate of one's own cannot be read.
        """
        self._socket = _connect(host, port, timeout_seconds)
        # What says that nothing can be read or sent at the moment.
        self._waits: tuple[type[BaseException], ...] = (BlockingIOError,)
        self._encrypted: bool = tls is not None
        if tls is not None:
            import ssl

            self._waits = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
            self._socket = encrypted(self._socket, host, tls)
        self._socket.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._reader = FrameReader(FRAME_BYTES_MAX)
        # While there is one, it reads, and `_reader` holds nothing.
        self._body_reader: BodyReader | None = None
        self._sinks: dict[int, Sink] = {}
        self._sending = False
        self._heartbeat_seconds = 0.0
        self._sent_at = monotonic()
        self._received_at = self._sent_at
        self.timeout_seconds: float = timeout_seconds
        self.out = BytesWriter()
        self.frame_bytes_max: int = FRAME_BYTES_MAX
        self.error: BaseException | None = None

    def fileno(self) -> int:
        """The socket's descriptor, for a caller that waits on several things."""
        return self._socket.fileno()

    def tune(self, frame_bytes_max: int, heartbeat_seconds: int) -> None:
        """Apply what was negotiated."""
        self.frame_bytes_max = frame_bytes_max
        self._reader.frame_bytes_max = frame_bytes_max
        self._heartbeat_seconds = float(heartbeat_seconds)

    def attach(self, channel: int, sink: Sink) -> None:
        """Send this channel's frames there."""
        self._sinks[channel] = sink

    def detach(self, channel: int) -> None:
        """Drop this channel's frames from now on."""
        self._sinks.pop(channel, None)

    def send(self, channel: int, method: Method) -> None:
        """Write one method; `flush` sends it."""
        self.check()
        write_method_frame(self.out, channel, method.encode())

    def written(self) -> None:
        """Something was written to `out`; send it if it has become much."""
        if len(self.out) >= FLUSH_BYTES and not self._sending:
            self.flush()

    def check(self) -> None:
        """Raise if the connection is gone."""
        if self.error is not None:
            raise self.error

    def flush(self) -> None:
        """Send everything written, reading meanwhile.

        Raises:
            TimeoutError: The broker takes nothing for `timeout_seconds`.
            OSError, BrokerError: The connection is gone.
        """
        self.check()
        # A frame that comes meanwhile may be answered from within: the loop below sends that too.
        if self._sending:
            return
        self._sending = True
        try:
            while len(self.out) > 0:
                data = self.out.getvalue()
                self.out = BytesWriter()
                self._send_all(data)
        finally:
            self._sending = False

    def _send_all(self, data: bytes) -> None:
        view = memoryview(data)
        deadline = monotonic() + self.timeout_seconds
        while len(view) > 0:
            try:
                sent = self._socket.send(view)
            except self._waits:
                sent = 0
            except OSError as error:
                # The broker may have said why before it closed.
                self._read_last_words(error)
                raise
            if sent > 0:
                view = view[sent:]
                self._sent_at = monotonic()
                deadline = self._sent_at + self.timeout_seconds
                continue
            self._wait(deadline, select.POLLIN | select.POLLOUT, "the broker takes no data")

    def pump(self, deadline: float) -> bool:
        """Wait for input and hand it on.

        Args:
            deadline: `time.monotonic` at which to stop waiting.

        Returns:
            False if nothing had come by then.

        Raises:
            OSError, BrokerError: The connection is gone.
        """
        self.check()
        while True:
            now = monotonic()
            self._keep_alive(now)
            wait = deadline - now
            if self._heartbeat_seconds > 0:
                wait = min(wait, self._heartbeat_seconds / 2)
            if self._poll.poll(max(0, int(wait * 1000 + 0.999))):
                self._receive()
                return True
            if monotonic() >= deadline:
                return False

    def fail(self, error: BaseException) -> None:
        """Close the socket and tell everybody why. The first reason stands."""
        if self.error is not None:
            return
        self.error = error
        self._socket.close()
        sinks = list(self._sinks.values())
        self._sinks.clear()
        for sink in sinks:
            sink.fail(error)

    def _keep_alive(self, now: float) -> None:
        """Send a heartbeat if it is time; give up on a broker that has sent none."""
        heartbeat = self._heartbeat_seconds
        if heartbeat <= 0:
            return
        if now - self._received_at > 2 * heartbeat:
            self.fail(TimeoutError("the broker has sent no heartbeat"))
            self.check()
        if now - self._sent_at >= heartbeat / 2 and not self._sending:
            self.out.write(HEARTBEAT_FRAME)
            self.flush()

    def _wait(self, deadline: float, events: int, problem: str) -> None:
        """Wait until the socket can be written, taking input meanwhile."""
        self._poll.modify(self._socket, events)
        try:
            ready = self._poll.poll(max(0, int((deadline - monotonic()) * 1000)))
        finally:
            self._poll.modify(self._socket, select.POLLIN)
        if not ready:
            self.fail(TimeoutError(problem))
            self.check()
        if ready[0][1] & _READABLE:
            self._receive()

    def _receive(self) -> None:
        """Read what there is, once, and hand it on."""
        try:
            body_reader = self._body_reader
            if body_reader is not None:
                if not body_reader.receive(self._socket):
                    raise _hung_up()
                self._received_at = monotonic()
                self._go_on(body_reader)
            else:
                data = self._socket.recv(READ_BYTES)
                if self._encrypted:
                    data += self._rest()
                if not data:
                    raise _hung_up()
                self._received_at = monotonic()
                self._reader.feed(data)
                self._hand_on()
        except self._waits:
            return
        except (OSError, BrokerError) as error:
            # A refusal: either the broker breaks the protocol or it has closed the connection in
            # order.
            self.fail(error)
            raise

    def _rest(self) -> bytes:
        """What came encrypted beside what was read: nothing polls for that any more."""
        parts: list[bytes] = []
        while True:
            try:
                data = self._socket.recv(READ_BYTES)
            except self._waits:
                break
            if not data:
                break
            parts.append(data)
        return b"".join(parts)

    def _hand_on(self) -> None:
        """Hand on the frames that are whole; leave the rest of a large content to be read."""
        reader = self._reader
        receiving: Sink | None = None
        while reader.next():
            kind = int(reader.kind)
            sink = self._sinks.get(int(reader.channel))
            if sink is not None:
                sink.take_frame(kind, reader.buffer, int(reader.start), int(reader.end))
            # After a method the reader may be elsewhere: answering it may have read more.
            receiving = sink if kind != FRAME_METHOD else None
        # What is encrypted cannot be received in place.
        body = None if receiving is None or self._encrypted else receiving.large_body()
        if body is not None:
            begun = reader.buffer[reader.end + 1 :]
            self._reader = FrameReader(self.frame_bytes_max)
            self._go_on(BodyReader(reader.channel, body, begun))

    def _go_on(self, body_reader: BodyReader) -> None:
        """Have the next reader of frames or of a body go on where this one stopped."""
        self._body_reader = None
        if body_reader.complete:
            sink = self._sinks.get(int(body_reader.channel))
            if sink is not None:
                sink.end_body()
        elif body_reader.foreign:
            self._reader.feed(body_reader.leftover)
            self._hand_on()
        else:
            self._body_reader = body_reader

    def _read_last_words(self, error: OSError) -> None:
        """After a failed send: what the broker said before it hung up, else the failure itself."""
        try:
            while self._poll.poll(0):
                self._receive()
        finally:
            self.fail(error)


def _hung_up() -> OSError:
    return ConnectionResetError("the broker closed the connection")


def encrypted(plain: socket.socket, host: str, tls: Tls) -> socket.socket:
    """Shake hands over a connected socket, which is closed if that fails.

    Raises:
        OSError: The broker does not speak TLS, or its certificate is not good.
        ConfigError: A file that was named cannot be read.
    """
    import ssl

    try:
        try:
            context = ssl.create_default_context(cafile=tls.authorities or None)
            if not tls.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if tls.certificate:
                context.load_cert_chain(tls.certificate, tls.key or None)
        except OSError as error:
            raise ConfigError(f"a certificate or key cannot be read: {error}") from error
        return context.wrap_socket(plain, server_hostname=tls.server_name or host)
    except BaseException:
        plain.close()
        raise


def _connect(host: str, port: int, timeout_seconds: float) -> socket.socket:
    for _ in range(_LOCAL_ADDRESS_IN_USE_TRIES):
        result = socket.create_connection((host, port), timeout_seconds)
        # On loopback a connection to a free port can meet itself.
        if result.getsockname() != result.getpeername():
            result.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            result.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            return result
        result.close()
    raise ConnectionRefusedError(f"nobody listens on {host}:{port}")
