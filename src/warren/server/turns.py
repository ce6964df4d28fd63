"""When the node has its turn: once behind the events of each round of the loop, and when jobs end.

What fails there ends the process, since nothing may be confirmed or written after that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import final

from warren.node.node import Node
from warren.server.lingering import LOOK_NS, Lingering

log = logging.getLogger("warren")

DEFER_SECONDS = 0.005
"""How long what no client waits for may keep out of the log, to share the next write."""
SLOW_TURN_SECONDS = 0.05
"""A turn of the node that takes longer is told at log level debug."""


@final
class NodeTurns:
    """The clockwork of one node. Belongs to the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        stop: Callable[[int], None],
        heed: Callable[[], bool],
        working: Callable[[], bool],
        busy_wait: bool = True,
    ) -> None:
        """Prepare; there are no turns before `serve`.

        Args:
            loop: The node's event loop.
            stop: Ends the process, with this exit status.
            heed: Called after each turn until it is True.
            working: Whether threads do jobs of the node.
            busy_wait: Whether the loop may look for events before it sleeps.
        """
        self._call_soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self._loop: asyncio.AbstractEventLoop = loop
        self._stop: Callable[[int], None] = stop
        self._heed: Callable[[], bool] = heed
        self._heeded: bool = False
        self._lingering: Lingering = Lingering(
            loop.call_soon, working, time.perf_counter_ns, LOOK_NS if busy_wait else 0
        )
        self._node: Node | None = None
        self._planned: bool = False
        """Whether the node's turn follows the events of this round of the loop."""
        self._flush_planned: bool = False
        self._quiet: bool = True
        """Whether nothing but the clock has brought a turn since `rest` was asked."""
        self._rouse: Callable[[], None] | None = None
        """Called before the next turn that something else brings."""
        self._timed: bool = False
        self._over: bool = False

    def serve(self, node: Node) -> None:
        """Give this node its turns from now on."""
        self._node = node
        self._timed = log.isEnabledFor(logging.DEBUG)

    def end(self) -> None:
        """Give it no more, but for the jobs that it waits for: it is being closed."""
        self._over = True

    def messages_wait(self) -> bool:
        """Whether a turn that passes on messages follows the events of this round of the loop."""
        node = self._node
        return self._planned and node is not None and node.messages_wait()

    def after_event(self) -> None:
        """Plan the node's turn behind the events of this round, if it needs one."""
        if self._planned:
            return
        node = self._node
        if node is not None and node.needs_turn:
            self._planned = True
            self._call_soon(self._turn)

    def after_jobs(self) -> None:
        """Give the node its turn now: jobs have ended, and others may be waiting for a round."""
        node = self._node
        if node is not None:
            self._note_event()
            self._run_turn(node)
            self.after_event()
            self._lingering.turn_ended()

    def after_tick(self) -> None:
        """Give the node its turn now, because time has passed."""
        node = self._node
        if node is not None and not self._over:
            self._whole_turn(node)

    def rest(self, rouse: Callable[[], None]) -> bool:
        """Whether nothing happened since this was asked last: then tell when something does.

        Args:
            rouse: Called once, with the next turn that not the clock alone brings.
        """
        quiet = self._quiet
        self._quiet = True
        self._rouse = rouse if quiet else None
        return quiet

    def guarded(self, step: Callable[[], None]) -> None:
        """Run a step of the node; a broken invariant or a failed disk ends the process."""
        try:
            step()
        except BaseException:
            self.give_up()
        self._look_for_failure()

    def _turn(self) -> None:
        self._planned = False
        node = self._node
        if node is None or self._over:
            return
        self._note_event()
        self._whole_turn(node)
        self._lingering.turn_ended()

    def _whole_turn(self, node: Node) -> None:
        self._run_turn(node)
        if not self._heeded:
            self._heeded = self._heed()
        self.after_event()

    def _note_event(self) -> None:
        self._quiet = False
        rouse = self._rouse
        if rouse is not None:
            self._rouse = None
            rouse()

    def _run_turn(self, node: Node) -> None:
        began = time.perf_counter() if self._timed else 0.0
        try:
            node.turn()
        except BaseException:
            self.give_up()
        self._look_for_failure()
        if self._timed:
            seconds = time.perf_counter() - began
            if seconds > SLOW_TURN_SECONDS:
                log.debug("a turn took %.0f ms", seconds * 1_000)
        if node.deferring and not self._flush_planned:
            self._flush_planned = True
            self._loop.call_later(DEFER_SECONDS, self._flush_deferred)

    def _flush_deferred(self) -> None:
        self._flush_planned = False
        node = self._node
        if node is not None and not self._over:
            self.guarded(node.flush_deferred)
            self.after_event()

    def give_up(self) -> None:
        """End the process for the error that is being handled."""
        log.critical("the node cannot go on and stops", exc_info=True)
        self._stop(1)

    def _look_for_failure(self) -> None:
        node = self._node
        if node is not None and node.failure is not None:
            log.critical("the node cannot go on and stops: %s", node.failure)
            self._stop(1)
