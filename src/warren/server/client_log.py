"""Log lines about clients that come and go, as RabbitMQ has them, in bounded number.

A few connections are told one by one. Where many come, every line would cost the node more than the
connection does, and would push all else out of the log: beyond a budget they are counted, and the
counts are told once a second.

    accepting AMQP connection 10.0.0.7:41022
    connection 10.0.0.7:41022: user 'app' authenticated and granted access to vhost '/'
    closing AMQP connection 10.0.0.7:41022 (vhost '/', user 'app', after 4 s)

A connection of which no byte came, such as a load balancer's look, is told at level debug only.
"""

from __future__ import annotations

import logging

from warren.admin.printable import escaped
from warren.protocols.amqp091.connection import Connection

LINE_FORMAT = "%(asctime)s.%(msecs)03d [%(levelname)s] %(message)s"
LINE_DATE_FORMAT = "%Y-%m-%d %H:%M:%S"
LINES_BURST = 100
"""Lines that may be written at once."""
LINES_PER_SECOND = 20
"""Lines that may be written in the long run."""
STACKS_BURST = 20
"""Errors whose stacks may be written at once."""
STACKS_PER_SECOND = 1
"""Errors whose stacks may be written in the long run."""
NAME_MAX = 100
"""Characters of a client's own name that are told."""

ACCEPTED = "accepted"
OPENED = "opened"
CLOSED = "closed"
LOST = "lost without a close"
WARNINGS = "warnings"
FAILURES = "connections ended by errors of the broker's own"
"""What is counted where it is not told one by one."""


class Budget:
    """So many lines at once and so many a second; what goes beyond is counted.

    Attributes:
        left: Lines that may be written now.
        counts: What was not written since the last look, by kind.
    """

    def __init__(self, burst: int, per_second: int) -> None:
        self.left = burst
        self.counts: dict[str, int] = {}
        self._burst = burst
        self._per_second = per_second

    def take(self, kind: str) -> bool:
        """Whether a line may be written; if not, it counts."""
        if self.left > 0:
            self.left -= 1
            return True
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return False

    def refill(self) -> dict[str, int]:
        """A second is over: give some lines back, and return what was not written."""
        self.left = min(self._burst, self.left + self._per_second)
        counts, self.counts = self.counts, {}
        return counts


class LineFormatter(logging.Formatter):
    """Lays out one line for each message: what clients call themselves, or users, ends none."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Write a message with what moves the cursor escaped; a traceback follows it as it is."""
        return escaped(super().formatMessage(record))


class ClientLog:
    """Writes the lines of one node."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._info = Budget(LINES_BURST, LINES_PER_SECOND)
        self._warnings = Budget(LINES_BURST, LINES_PER_SECOND)
        self._failures = Budget(STACKS_BURST, STACKS_PER_SECOND)
        self.debugs = log.isEnabledFor(logging.DEBUG)
        """Whether lines of level debug are wanted: what they say is not put together otherwise."""

    def accepted(self, connection: Connection) -> None:
        """The first bytes of a client came."""
        if self._info.take(ACCEPTED):
            self._log.info("accepting AMQP connection %s", connection.peer)

    def opened(self, connection: Connection) -> None:
        """A client logged in and has its vhost."""
        if self._info.take(OPENED):
            name = connection.agreement.client_properties.get("connection_name")
            self._log.info(
                "connection %s: user '%s' authenticated and granted access to vhost '%s'%s",
                connection.peer,
                connection.user,
                connection.vhost,
                f", calls itself {name[:NAME_MAX]!r}" if isinstance(name, str) and name else "",
            )
        if self.debugs:
            self._log.debug(
                "connection %s: %.2000r", connection.peer, connection.agreement.client_properties
            )

    def closed(self, connection: Connection, heard: bool, orderly: bool, seconds: float) -> None:
        """A client's socket is gone.

        Args:
            heard: Whether a byte of it came.
            orderly: Whether one side had closed the connection before.
            seconds: How long it was there.
        """
        if not heard:
            self._log.debug("%s came and went without a word", connection.peer)
        elif orderly:
            if self._info.take(CLOSED):
                self._log.info("closing AMQP connection %s", self._described(connection, seconds))
        elif self._info.take(LOST):
            self._log.warning(
                "closing AMQP connection %s: client unexpectedly closed TCP connection",
                self._described(connection, seconds),
            )

    def _described(self, connection: Connection, seconds: float) -> str:
        who = f"vhost '{connection.vhost}', user '{connection.user}', " if connection.vhost else ""
        return f"{connection.peer} ({who}after {seconds:.0f} s)"

    def warn(self, text: str) -> None:
        """Write a warning of the node, or count it: clients can cause as many as they like."""
        if self._warnings.take(WARNINGS):
            self._log.warning("%s", text)

    def contain(self, text: str, error: Exception) -> None:
        """Write an error of the node's own that ends one connection, with its stack, or count it.

        Args:
            text: What ends because of it.
        """
        if self._failures.take(FAILURES):
            self._log.error("%s: the broker met an error of its own", text, exc_info=error)

    def tick(self) -> None:
        """A second is over: say what was not written one by one."""
        counts = self._info.refill()
        if counts:
            said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            self._log.info("AMQP connections in the last second, besides those above: %s", said)
        for kind, count in self._warnings.refill().items():
            self._log.warning("%d more %s in the last second", count, kind)
        for kind, count in self._failures.refill().items():
            self._log.error("%d more %s in the last second", count, kind)
