"""Sockets that are left alone: whether the clients behind them are still there.

A connection that has to wait, for an alarm or a queue that is behind, is not read, and the loop
tells nothing of a socket that is not read. A client without heartbeats could die then and never be
missed, with all that its connection holds. So the kernel is asked about some of these sockets each
second.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from typing import Final, final

from mypy_extensions import i64

LOOKED_AT_MAX: Final = 2_048
"""Sockets that one look asks about: some milliseconds."""
GONE: Final = select.POLLERR | select.POLLHUP
POLLED_FOR: Final = select.POLLRDHUP | GONE
UNANSWERED_MAX: Final = 8
UNANSWERED_MS_MAX: Final = 60_000
"""What was sent was repeated, or room for it asked for, as often and nothing has answered for so
long: the other machine is gone, or the way to it. One that is there answers whether its client
reads or not."""
TCP_RETRANSMITS: Final = 2
TCP_PROBES: Final = 3
TCP_LAST_ACK: Final = 56
"""Where the kernel's `struct tcp_info` counts these, each a byte, and the milliseconds, four."""
TCP_INFO_BYTES: Final = 60


@final
class HeldSockets:
    """Those of one node that are not read now."""

    def __init__(self, most: int = LOOKED_AT_MAX) -> None:
        """Begin with none; one look asks about `most`."""
        self._most: i64 = most
        self._streams: dict[asyncio.Transport, None] = {}

    def add(self, stream: asyncio.Transport) -> None:
        """It is not read from now on."""
        self._streams[stream] = None

    def drop(self, stream: asyncio.Transport) -> None:
        """It is read again, or is gone."""
        self._streams.pop(stream, None)

    def look(self) -> list[tuple[asyncio.Transport, bool]]:
        """The sockets whose clients have sent their last, of some that are the next in turn.

        Returns:
            Each with whether its client only sends no more, and may still read.
        """
        streams = self._streams
        by_descriptor: dict[int, asyncio.Transport] = {}
        poll = select.poll()
        left: i64 = min(self._most, len(streams))
        while left > 0:
            left -= 1
            stream = next(iter(streams))
            del streams[stream]
            streams[stream] = None
            client = stream.get_extra_info("socket")
            descriptor = -1 if client is None or stream.is_closing() else client.fileno()
            if descriptor >= 0:
                by_descriptor[descriptor] = stream
                poll.register(descriptor, POLLED_FOR)
        ended: list[tuple[asyncio.Transport, bool]] = []
        for descriptor, events in poll.poll(0):
            stream = by_descriptor.pop(descriptor)
            if events & POLLED_FOR:
                ended.append((stream, events & GONE == 0))
        for stream in by_descriptor.values():
            if is_unanswered(stream.get_extra_info("socket")):
                ended.append((stream, False))
        return ended


def is_unanswered(client: socket.socket) -> bool:
    """Whether nobody has answered what was sent to this socket, for so long that nobody will."""
    info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_BYTES)
    if max(info[TCP_RETRANSMITS], info[TCP_PROBES]) < UNANSWERED_MAX:
        return False
    return int.from_bytes(info[TCP_LAST_ACK:], sys.byteorder) >= UNANSWERED_MS_MAX
