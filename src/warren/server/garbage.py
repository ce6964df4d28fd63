"""When cyclic garbage is looked for, so that it never holds up the loop for long.

Python looks through all objects whenever a quarter more of them have come to live long. A node with
100,000 queues has millions, and its loop would stand for seconds. So what has come since the last
look is looked through in small lots, and what lives then is frozen: it is not looked at again.
Objects go when nothing refers to them, frozen or not. Only those that refer to each other in a
circle would have to be found, and queues, channels and connections let go of each other when they
are over (`tests/node/test_circles.py`). Requests of HTTP do not: a page that was drawn is in
circles. So nothing is frozen while one is answered, for some looks. Should anything else leave
circles, they are looked for when memory has run short: publishers are held up then anyway.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from warren.node.node import Node
from warren.protocols.broker import ALARM_MEMORY

YOUNG_MAX = 2_500
"""Objects that have to be new before Python looks through the newest: some 0.7 ms."""
PASSED_OVER_MAX = 10
"""Times that what is new is not counted, since it would take longer than that to be too much."""
LOTS_MAX = 8
"""Lots that Python has looked through itself, up to which freezing waits for requests of HTTP."""
NEVER = 1_000_000_000
"""Looks of which Python itself makes none through what is older."""


class Garbage:
    """The collector's pace for one node. The collector is the process's: there is one of these."""

    def __init__(self, node: Node, answering: Callable[[], bool]) -> None:
        """
        Args:
            answering: Tells whether a request of HTTP is being answered.
        """
        self._node = node
        self._answering = answering
        self._short = False
        self._new = 0
        """How much was new when that was last counted."""
        self._pass_over = 0
        """For how many more looks it is not counted."""
        gc.set_threshold(YOUNG_MAX, NEVER, NEVER)

    def begin(self) -> None:
        """Look through all there is. Takes its time."""
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._new = 0

    def look(self) -> None:
        """Do what is due; to be called some times a second."""
        short = int(self._node.own_alarms()) & ALARM_MEMORY != 0
        if short and not self._short:
            self.begin()
        elif (lots := gc.get_count()[1]) > 0 or self._is_much_new():
            if lots < LOTS_MAX and self._answering():
                # What it is made of would be frozen, and is in circles when it is over.
                return
            # What lived when Python looked at it may have ended since then.
            gc.collect(1)
            gc.freeze()
            self._new = 0
        self._short = short

    def _is_much_new(self) -> bool:
        """Whether there is more that is new than Python looks through at a time.

        It counts what comes less what goes, and goes on waiting while the one makes up for the
        other, however much that is. What it would have to look through in the end takes long. To
        count takes up to half a millisecond, so that it is done when what is new can have become
        too much, as fast as it grew before.
        """
        if self._pass_over > 0:
            self._pass_over -= 1
            return False
        before = self._new
        self._new = len(gc.get_objects(generation=0))
        growth = max(self._new - before, 1)
        self._pass_over = min((YOUNG_MAX - self._new) // growth, PASSED_OVER_MAX)
        return self._new > YOUNG_MAX
