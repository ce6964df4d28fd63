"""How the descriptors that the process may have are shared out: the log's files come first.

A listener that accepts whatever comes lets silent sockets take all descriptors there are; then no
log file could be opened any more. So clients get what is left when the log, the links between nodes
and everything else have their part.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from warren.server.disk import DESCRIPTORS_MAX, RESERVE

LOG_SHARE: Final = 8
"""The log's files may hold this part of all descriptors, up to `DESCRIPTORS_MAX`."""

LOG_FILES_MIN: Final = 8
"""Those that its threads use at a time, and the next one."""

OTHERS: Final = 64
"""For the event loop, listeners, operators, and two links to each of a dozen nodes."""

HTTP_SHARE: Final = 16
HTTP_MIN: Final = 4
HTTP_MAX: Final = 256
"""Connections of the HTTP API may be this part of all, within these bounds; so may scrapes'."""

CONNECTIONS_MIN: Final = 8
"""Clients that are let in even where the limit is too low for everything else."""


class DescriptorShares(NamedTuple):
    """How the descriptors that a process may have are shared out.

    Attributes:
        log_files: For files of the log.
        connections: For clients.
        http: For the HTTP API, and as many for scrapes of metrics.
    """

    log_files: int
    connections: int
    http: int


def shares(limit: int) -> DescriptorShares:
    """Share out what the process may have."""
    log_files = min(DESCRIPTORS_MAX, max(LOG_FILES_MIN, limit // LOG_SHARE))
    http = min(HTTP_MAX, max(HTTP_MIN, limit // HTTP_SHARE))
    connections = limit - log_files - RESERVE - OTHERS - 2 * http
    return DescriptorShares(log_files, max(CONNECTIONS_MIN, connections), http)
