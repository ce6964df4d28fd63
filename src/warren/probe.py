"""Whether a node answers, for health checks that run every few seconds.

    python -m warren.probe [PORT]      0: it does, 1: it does not

The node's loop has to answer a request to its metrics, of which it reads none. A command of
`rabbitmq-diagnostics` says more, and takes ten times the processor time to start.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence

PORT = 15_692
SECONDS = 5.0
REQUEST = b"HEAD /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
ANSWERS = (b"HTTP/1.1 2", b"HTTP/1.1 4")
"""A node that wants to know who asks, or has another path, answers as well."""


def answers(port: int) -> bool:
    """Whether a node answers at a port of this machine."""
    try:
        with socket.create_connection(("localhost", port), SECONDS) as link:
            link.sendall(REQUEST)
            got = b""
            while len(got) < len(ANSWERS[0]) and (more := link.recv(64)):
                got += more
            return got.startswith(ANSWERS)
    except OSError:
        return False


def main(arguments: Sequence[str]) -> int:
    """Ask; returns the exit status."""
    return 0 if answers(int(arguments[0]) if arguments else PORT) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
