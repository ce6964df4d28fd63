"""What clients publish here to exchanges that keep recent messages, on its way to the tables.

The messages of a turn go as one command for each exchange, and the next one only when that is in
force: what comes meanwhile waits here, the newest of it, so that tables without a leader cost no
more than that. Before a binding of such an exchange is logged, all that waits goes.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from warren.limits import (
    RECENT_BYTES_MAX,
    RECENT_MESSAGE_BYTES_MAX,
    RECENT_TOTAL_BYTES_MAX,
)
from warren.message.flavours import AMQP091
from warren.metadata.commands import KeepRecent
from warren.metadata.machine import MetadataMachine
from warren.metadata.recent import recent_count
from warren.node.loop import Loop
from warren.node.store import MetadataStore
from warren.pending import PendingResult, Result
from warren.ports import Work

UNDER_WAY_MAX: Final = 8
"""Commands for one exchange that are submitted and not in force."""


@final
class History(PendingResult):
    """One exchange's messages that are not in the tables yet.

    Attributes:
        waiting: Those that have not been submitted, the newest last.
        waiting_bytes: Of those together.
        under_way: The bytes of each command that is submitted and not in force.
    """

    def __init__(self, histories: Histories, vhost: str, exchange: str) -> None:
        self.vhost: str = vhost
        self.exchange: str = exchange
        self.waiting: list[bytes] = []
        self.waiting_bytes: i64 = 0
        self.under_way: deque[int] = deque()
        self._histories: Histories = histories

    def succeeded(self, result: Result) -> None:
        """A command is in force: what came meanwhile may follow."""
        self._histories.in_force(self)


@final
class Histories(Work):
    """Of one node."""

    def __init__(self, loop: Loop, metadata: MetadataMachine, store: MetadataStore) -> None:
        self._loop: Loop = loop
        self._metadata: MetadataMachine = metadata
        self._store: MetadataStore = store
        self._known: dict[tuple[str, str], History] = {}
        self._bytes: i64 = 0
        """Of all that waits or is under way."""
        self._ready: dict[History, None] = {}
        """Those with messages to submit in the next turn."""

    def keep(self, vhost: str, exchange: str, records: list[bytes]) -> None:
        """Messages were published to an exchange that keeps them, in this order."""
        row = self._metadata.exchange(vhost, exchange)
        if row is None:
            return
        most = recent_count(row.arguments)
        history = self._known.get((vhost, exchange))
        if history is None:
            history = History(self, vhost, exchange)
            self._known[(vhost, exchange)] = history
        before = history.waiting_bytes
        for record in records:
            if len(record) <= RECENT_MESSAGE_BYTES_MAX:
                history.waiting.append(record)
                history.waiting_bytes += i64(len(record))
        # What the tables would not keep does not wait either.
        elsewhere = self._bytes - before
        bound = min(RECENT_BYTES_MAX, max(0, RECENT_TOTAL_BYTES_MAX - elsewhere))
        gone: i64 = 0
        while i64(len(history.waiting)) - gone > most or history.waiting_bytes > bound:
            history.waiting_bytes -= i64(len(history.waiting[gone]))
            gone += 1
        if gone > 0:
            history.waiting = history.waiting[gone:]
        self._bytes += history.waiting_bytes - before
        self.go_on_with(history)

    def in_force(self, history: History) -> None:
        """The first command of an exchange that was under way is in force."""
        self._bytes -= i64(history.under_way.popleft())
        self.go_on_with(history)

    def go_on_with(self, history: History) -> None:
        """Have what an exchange has waiting submitted in the next turn, if it is its turn."""
        if history.under_way:
            return
        if not history.waiting:
            self._known.pop((history.vhost, history.exchange), None)
        elif history not in self._ready:
            if not self._ready:
                self._loop.do_in_parts(self)
            self._ready[history] = None

    def flush(self, vhost: str, exchange: str) -> None:
        """Submit all that waits for an exchange: something is about to be bound to it.

        Not while much is under way: the tables take nothing then.
        """
        history = self._known.get((vhost, exchange))
        if history is not None and history.waiting and len(history.under_way) < UNDER_WAY_MAX:
            self._submit(history)

    def go_on(self) -> bool:
        """Submit what waits for exchanges that have nothing under way."""
        ready = list(self._ready)
        self._ready = {}
        for history in ready:
            if history.waiting and not history.under_way:
                self._submit(history)
        return True

    def _submit(self, history: History) -> None:
        records = history.waiting
        history.under_way.append(int(history.waiting_bytes))
        history.waiting = []
        history.waiting_bytes = 0
        command = KeepRecent(history.vhost, history.exchange, records, int(AMQP091))
        self._store.submit(command, history)
