"""Consumers of a quorum queue whose nodes nobody hears: they keep what they hold for a time.

The leader has the log say whose session is suspected, so that its consumers get nothing more, and
that it is trusted again once its node is heard. When the time is over it closes the session, which
returns what they hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from warren.ids import session_of_consumer
from warren.queues.fifo import commands
from warren.queues.fifo_queue import USE_MS

if TYPE_CHECKING:
    from warren.queues.quorum import QuorumQueue

NO_WAIT: Final = -1


@final
class Silences:
    """What a leader says of the sessions whose nodes nobody hears.

    Attributes:
        timeout_ms: For how long nobody may hear a node before what its consumers hold returns.
    """

    def __init__(self) -> None:
        self.timeout_ms: i64 = 0
        self._said: dict[int, bool] = {}
        """What this node, which leads, said of sessions, and has not come back yet: whether nobody
        hears their nodes."""

    def anew(self) -> None:
        """This node begins to lead: nothing is on its way into the log."""
        self._said = {}

    def closed(self, sessions: list[int]) -> None:
        """These sessions are over."""
        for session in sessions:
            self._said.pop(session, None)

    def keeps(self, queue: QuorumQueue, session: i64) -> bool:
        """As leader, have a session's consumers keep what they hold for as long as they may."""
        since_ms = queue.fifo.suspects.get(session, -1)
        if since_ms >= 0:
            return queue.proposer().stamp_ms() - since_ms < self.timeout_ms
        if self.timeout_ms <= 0:
            return False
        if self._said.get(session, False):
            return True
        for consumer_id in queue.fifo.consumers:
            if session_of_consumer(consumer_id) == session:
                return self._say(queue, session, True)
        return False

    def heard(self, queue: QuorumQueue, sessions: list[int]) -> None:
        """As leader, have consumers go on whose nodes are heard again."""
        for session in sessions:
            if int(session) in queue.fifo.suspects and self._said.get(session, True):
                self._say(queue, session, False)

    def mind(self, queue: QuorumQueue) -> None:
        """As leader, look now and then at the sessions whose nodes nobody hears.

        The node tells at once when a link comes back, so that a look is for what that did not bring
        about, and for the end of the time. The next one comes after as much time again as the
        newest silence has lasted: some looks in all, however long it may last.
        """
        suspects = queue.fifo.suspects
        wait: i64 = NO_WAIT
        for session, suspected in self._said.items():
            if suspected and session not in suspects:
                wait = USE_MS
        if not suspects and wait == NO_WAIT:
            return
        group = queue.proposer()
        group.mind_sessions()
        now_ms = group.stamp_ms()
        for since_ms in suspects.values():
            left = since_ms + self.timeout_ms - now_ms
            if left <= 0:
                left = USE_MS
            left = min(left, max(now_ms - since_ms, USE_MS))
            if wait == NO_WAIT or left < wait:
                wait = left
        queue.host.queue_later(queue, wait)

    def _say(self, queue: QuorumQueue, session: i64, suspected: bool) -> bool:
        """Have the log say so; whether it does."""
        out = BytesWriter()
        if suspected:
            commands.suspect(out, session)
        else:
            commands.trust(out, session)
        if not queue.proposer().propose_plain(out.getvalue()):
            return False
        self._said[session] = suspected
        queue.host.queue_later(queue, USE_MS)
        return True
