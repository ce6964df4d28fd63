"""When cyclic garbage is looked for, so that it never holds up the loop for long.

Python looks through all objects whenever a quarter more of them have come to live long. A node with
100,000 queues has millions, and its loop would stand for a second. So what has come since the last
look is looked through in small lots, and what lives then is frozen: it is not looked at again.
Objects go when nothing refers to them, frozen or not; only those that refer to each other in a
circle, as parts of queues and of connections do, have to be found. Therefore all of them are looked
at after all, once queues and connections have gone that are a quarter of those that are there.
"""

from __future__ import annotations

import gc

from warren.node.node import Node

YOUNG_MAX = 10_000
"""Objects that have to be new before Python looks through the newest: a millisecond."""
OLDER = 5
"""Such looks before the next lot is frozen: 50,000 objects that live on, some 5 ms."""
NEVER = 1_000_000_000
"""Looks of which Python itself makes none through all objects."""
GONE_MIN = 2_000
"""Queues and connections that have gone before all objects are looked at: some MB."""


class Garbage:
    """The collector's pace for one node. The collector is the process's: there is one of these."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._gone = 0
        gc.set_threshold(YOUNG_MAX, OLDER, NEVER)

    def begin(self) -> None:
        """Look through all there is. Takes its time."""
        self._gone = int(self._node.gone)
        gc.unfreeze()
        gc.collect()
        gc.freeze()

    def look(self) -> None:
        """Do what is due; to be called some times a second."""
        present = self._node.present()
        if int(self._node.gone) - self._gone >= max(GONE_MIN, present // 4):
            self.begin()
        elif gc.get_count()[2] > 0:
            gc.collect()
            gc.freeze()
