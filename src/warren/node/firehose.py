"""Tells of messages that passed on this node, of vhosts that are traced, in later turns."""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import read_i32_le
from mypy_extensions import i64

from warren.message.flavours import envelope_of, is_known
from warren.message.properties import MessageProperties
from warren.node.loop import Loop
from warren.node.own_messages import TURN_COPIES, OwnMessages
from warren.ports import Work
from warren.vhost.tracing import TRACE_EXCHANGE, TracedRun

TURN_MESSAGES: Final = 2_048
TURN_BYTES: Final = 2_097_152
"""No more is told of in one turn: some milliseconds."""
BACKLOG_BYTES_MAX: Final = 67_108_864
"""Of what passes beyond that, before it was told of, nothing is told."""
RUN_OVERHEAD_BYTES: Final = 512


@final
class Firehose(Work):
    """Of one node.

    Attributes:
        missed: Messages that were not told of, because too many passed.
    """

    def __init__(self, loop: Loop, messages: OwnMessages) -> None:
        self._loop: Loop = loop
        self._messages: OwnMessages = messages
        self._runs: deque[TracedRun] = deque()
        self._bytes: i64 = 0
        self._at: i64 = 0
        """How many messages of the first run were told of,"""
        self._offset: i64 = 0
        """and where in its records the next one begins."""
        self._at_work: bool = False
        self._says_missed: bool = False
        self.missed: i64 = 0

    def add(self, run: TracedRun) -> None:
        """Have messages that passed told of in a later turn."""
        size = len(run.records) + RUN_OVERHEAD_BYTES
        if self._bytes + size > BACKLOG_BYTES_MAX and self._runs:
            self.missed += len(run.lengths) // 4
            if not self._says_missed:
                self._says_missed = True
                self._loop.log_warning(
                    "more messages pass than can be traced: some are left out of "
                    f"{TRACE_EXCHANGE} of vhost '{run.vhost}'"
                )
            return
        self._runs.append(run)
        self._bytes += size
        if not self._at_work:
            self._at_work = True
            self._loop.do_in_parts(self)

    def go_on(self) -> bool:
        """Tell of some; whether these were the last."""
        if not self._messages.go_on():
            return False
        left: i64 = TURN_MESSAGES
        size: i64 = 0
        most = self._messages.copies + TURN_COPIES
        while (
            self._runs
            and left > 0
            and size < TURN_BYTES
            and self._messages.copies < most
            and self._messages.takes()
        ):
            run = self._runs[0]
            end = self._offset + i64(read_i32_le(run.lengths, 4 * self._at))
            self._tell(run, self._offset, end)
            left -= 1
            size += end - self._offset
            self._at += 1
            self._offset = end
            if 4 * self._at >= len(run.lengths):
                self._runs.popleft()
                self._bytes -= len(run.records) + RUN_OVERHEAD_BYTES
                self._at = 0
                self._offset = 0
        if self._runs or not self._messages.takes():
            return False
        self._at_work = False
        self._says_missed = False
        return True

    def _tell(self, run: TracedRun, at: i64, end: i64) -> None:
        """Tell of one message."""
        if not is_known(run.flavour):
            return
        message = envelope_of(run.flavour, run.records, at, end)
        if message.exchange() == TRACE_EXCHANGE:
            return
        routing_key = run.routing_key()
        if not self._messages.wanted(run.vhost, TRACE_EXCHANGE, routing_key):
            return
        headers = run.headers(message, self._loop.settings.node_name)
        body = b"".join(message.body())
        properties = MessageProperties(headers=headers)
        if not self._messages.publish(run.vhost, TRACE_EXCHANGE, routing_key, properties, body):
            # With its headers, it is larger than headers may be.
            said = headers["properties"]
            assert isinstance(said, dict)
            said.pop("headers", None)
            self._messages.publish(run.vhost, TRACE_EXCHANGE, routing_key, properties, body)
