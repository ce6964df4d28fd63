"""Works that may be very many and pay for their steps: several have their parts in one turn.

Of works that are long by themselves one has a part in each turn. What a thousand channels leave
behind that end at once are a thousand works; one by one they would keep those waiting.
"""

from __future__ import annotations

from collections import deque
from typing import final

from warren.node.loop import Loop
from warren.ports import Work


@final
class SmallWorks(Work):
    """All such works of one node."""

    def __init__(self, loop: Loop) -> None:
        self._loop: Loop = loop
        self._works: deque[Work] = deque()

    def add(self, work: Work) -> None:
        """Have one more done, from the next turn on. It spends from the turn's budget."""
        if not self._works:
            self._loop.do_in_parts(self)
        self._works.append(work)

    def go_on(self) -> bool:
        """Have some go on, as long as the turn has steps left; whether all are done."""
        works = self._works
        budget = self._loop.budget
        while True:
            work = works[0]
            try:
                done = work.go_on()
            except Exception as error:
                work.failed(error)
                done = True
            # It is the first one still: what is added meanwhile comes behind it.
            works.popleft()
            if not done:
                works.append(work)
            if not works:
                return True
            if budget.over():
                return False
