"""What the kernel is told of the sockets that clients connect to.

Options of a socket that is listened on are those of the connections that come to it, so that none
is set for each of these.
"""

from __future__ import annotations

import socket
from typing import NamedTuple

from warren.config.config import ServerConfig

BACKLOG = 4_096
"""Connections that the kernel keeps until they are accepted, of clients that nobody counted."""
WEB_BACKLOG = 256
"""The same of clients of HTTP."""
KEEPALIVE_IDLE_SECONDS = 60
KEEPALIVE_PROBE_SECONDS = 10
KEEPALIVE_PROBES = 6
"""A machine that has said nothing for so long is asked so often: it is missed after two minutes."""


class SocketOptions(NamedTuple):
    """Of one listener.

    Attributes:
        backlog: Connections that the kernel keeps until they are accepted.
        no_delay: Whether what is sent leaves at once, and does not wait to be more.
        keepalive: Whether the other machine is asked for now and then, to miss it when it is gone.
        receive_bytes, send_bytes: Of the kernel's buffers; 0 for what it finds by itself.
        send_timeout_ms: How long a client may take nothing of what it is sent; 0 for as long as the
            kernel has it. Short times end slow readers, too.
    """

    backlog: int = BACKLOG
    no_delay: bool = True
    keepalive: bool = True
    receive_bytes: int = 0
    send_bytes: int = 0
    send_timeout_ms: int = 0

    def apply(self, listening: socket.socket) -> None:
        """Set them, before anybody connects.

        Raises:
            OSError: The system does not let them be.
        """
        tcp = socket.IPPROTO_TCP
        listening.setsockopt(tcp, socket.TCP_NODELAY, int(self.no_delay))
        if self.keepalive:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listening.setsockopt(tcp, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)
            listening.setsockopt(tcp, socket.TCP_KEEPINTVL, KEEPALIVE_PROBE_SECONDS)
            listening.setsockopt(tcp, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        if self.receive_bytes:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_bytes)
        if self.send_bytes:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.send_bytes)
        if self.send_timeout_ms:
            listening.setsockopt(tcp, socket.TCP_USER_TIMEOUT, self.send_timeout_ms)


def client_sockets(config: ServerConfig) -> SocketOptions:
    """Those of listeners for clients, with TLS and without."""
    return SocketOptions(
        config.tcp_backlog,
        config.tcp_nodelay,
        config.tcp_keepalive,
        config.tcp_recbuf,
        config.tcp_sndbuf,
        config.tcp_send_timeout,
    )


def web_sockets(backlog: int = WEB_BACKLOG) -> SocketOptions:
    """Those of listeners for HTTP."""
    return SocketOptions(backlog)
