"""Bytes on their way to one client, gathered over a turn and bounded.

A connection's frames are gathered in one buffer and handed to the transport once a turn. While the
transport holds too much the connection is not writable, and whoever has deliveries for it waits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64, trait

from warren.ports import Transport
from warren.queues.links import Link

STALLED_BYTES_MAX: Final = 4_194_304
"""What may be queued behind the transport's high mark before the client's input is left alone."""


TURN_BYTES_MAX: Final = 1_048_576
"""What deliveries may hand to one transport in one turn. A fast client takes all that it is given,
and a turn in which it is given a whole backlog is one in which nobody else is served."""


@trait
class OutputHost:
    """The node, which flushes outputs at the end of its turn."""

    @abstractmethod
    def output_dirty(self, output: Output) -> None:
        """There is something to flush."""

    @abstractmethod
    def output_spent(self, output: Output) -> None:
        """It has links that wait for the next turn."""


@trait
class OutputOwner:
    """The connection that an output belongs to."""

    @abstractmethod
    def stalled(self) -> None:
        """Much was written and the client does not read."""

    @abstractmethod
    def failed(self, error: Exception) -> None:
        """End the connection for an error of this program's own; see `ClientConnection`."""


@final
class NoConnection(OutputOwner):
    """Stands where a connection was that is over, so that its output refers to it no more."""

    def stalled(self) -> None:
        """Nobody sends requests."""

    def failed(self, error: Exception) -> None:
        """There is no connection to end."""
        raise error


NO_OWNER: Final = NoConnection()


@final
class Output:
    """The outgoing side of one connection.

    Attributes:
        writable: False while the transport asks to wait.
        frame_max: Largest frame this client takes, in bytes with its 8 bytes of framing.
        sent_bytes, sent_count: Handed to the transport so far, and in how many parts.
        delivered: Messages written so far.
        closed: Whether the transport takes nothing more: it was closed, aborted or lost.
        stalled_bytes: Handed to the transport since it asked to wait.
    """

    def __init__(self, owner: OutputOwner, host: OutputHost, transport: Transport) -> None:
        self._buffer: BytesWriter | None = None
        """What is gathered in this turn; one that has nothing to say for a while has none."""
        self.writable: bool = True
        self.frame_max: i64 = 4096
        self.sent_bytes: i64 = 0
        self.sent_count: i64 = 0
        self.delivered: i64 = 0
        self.closed: bool = False
        self._owner: OutputOwner = owner
        self._host: OutputHost = host
        self._write: Callable[[bytes], None] = transport.write
        self._transport: Transport = transport
        self._dirty: bool = False
        self._waiting: list[Link] | None = None
        self.stalled_bytes: i64 = 0
        self._turn_bytes: i64 = 0

    @property
    def buffer(self) -> BytesWriter:
        """Frames gathered in this turn."""
        if self._buffer is None:
            self._buffer = BytesWriter()
        return self._buffer

    def gathered_bytes(self) -> i64:
        """How much waits for the end of this turn."""
        return 0 if self._buffer is None else len(self._buffer)

    def let_go(self) -> None:
        """The connection is over: what is gathered still goes out."""
        self._waiting = None

    def close(self) -> None:
        """Close the transport behind what is gathered; nothing is written from now on."""
        if not self.closed:
            self.flush()
            self.lost()
            self._transport.close()

    def abort(self) -> None:
        """Close the transport with a reset; nothing is written from now on."""
        if not self.closed:
            self.lost()
            self._transport.abort()

    def lost(self) -> None:
        """Write nothing from now on: the transport is gone, or was told to go."""
        self.closed = True
        self._owner = NO_OWNER
        self._waiting = None
        self._buffer = None

    def takes(self) -> bool:
        """Whether deliveries may be written now."""
        return self.writable and self._turn_bytes < TURN_BYTES_MAX

    def touch(self) -> None:
        """Have the buffer flushed at the end of the turn."""
        if not self._dirty:
            self._dirty = True
            self._host.output_dirty(self)

    def flush(self) -> None:
        """Hand the buffer to the transport."""
        self._dirty = False
        buffer = self._buffer
        if buffer is None or len(buffer) == 0:
            return
        data = buffer.getvalue()
        buffer.truncate(0)
        self._hand_over(data)

    def pass_on(self, frames: bytes) -> None:
        """Hand frames to the transport as they are, after what is gathered."""
        self.flush()
        self._hand_over(frames)

    def _hand_over(self, data: bytes) -> None:
        size: i64 = len(data)
        if not self.closed:
            self.sent_bytes += size
            self.sent_count += 1
            self._turn_bytes += size
            self._write(data)
            if not self.writable:
                self.stalled_bytes += size
                if self.stalled_bytes > STALLED_BYTES_MAX:
                    self._owner.stalled()

    def failed(self, error: Exception) -> None:
        """End the connection for an error that was met while this was flushed or resumed."""
        self._owner.failed(error)

    def end_turn(self) -> None:
        """Flush; links that wait for this turn to be over go on in the next."""
        self.flush()
        if self._turn_bytes >= TURN_BYTES_MAX and self.writable and self._waiting:
            self._host.output_spent(self)
        self._turn_bytes = 0

    def wait(self, link: Link) -> None:
        """Resume a link when the transport takes bytes again, or in the next turn."""
        if self._waiting is None:
            self._waiting = []
        if link not in self._waiting:
            self._waiting.append(link)
            self.touch()

    def set_writable(self, writable: bool) -> None:
        """The transport's buffer passed its high mark (False) or drained (True)."""
        self.writable = writable
        self.stalled_bytes = 0
        if writable:
            self.go_on()

    def go_on(self) -> None:
        """Resume the links that wait, if they may write."""
        if self.takes() and self._waiting:
            waiting = self._waiting
            self._waiting = None
            for link in waiting:
                link.resume()

    def shrink(self) -> None:
        """Let the buffer go; called when the connection was idle for a while."""
        if self._buffer is not None and len(self._buffer) == 0:
            self._buffer = None
