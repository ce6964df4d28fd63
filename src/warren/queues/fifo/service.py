"""Whose turn it is to be handed messages: the service queue.

Consumers that can take more stand in line, by priority and then in turns. Those that share a limit
which is used up stand aside until there is room in it.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from warren.queues.fifo.consumers import Consumer, Limiter


@final
class ServiceQueue:
    """The consumers of a queue that wait for messages."""

    def __init__(self) -> None:
        self._made: Turns | None = None
        """Those that stand in line; None if nobody ever did."""
        self._limited: dict[int, dict[Consumer, None]] | None = None
        """By the identity of a shared limit that was used up: whose turn it was, in that order.
        None if none ever was.
        """

    @property
    def _turns(self) -> Turns:
        """The line, to stand in it or to leave it."""
        turns = self._made
        if turns is None:
            turns = self._made = Turns()
        return turns

    def wake(self, consumer: Consumer) -> None:
        """A consumer may have room again, and so may those that share its limit."""
        if consumer.limiter is not None:
            self._wake_limited(consumer.limiter)
        if not consumer.limited and consumer.willing():
            self._turns.add(consumer)

    def next(self) -> Consumer | None:
        """The next consumer with room, which is the first in its line until it was `served`."""
        turns = self._made
        if turns is None:
            return None
        while True:
            consumer = turns.first()
            if consumer is None or consumer.room() > 0:
                return consumer
            turns.remove(consumer)
            if consumer.willing():
                self.stand_aside(consumer)

    def served(self, consumer: Consumer) -> None:
        """The next consumer goes to the end of its line, or out of it if it can take no more."""
        if consumer.willing():
            self._turns.rotate()
        else:
            self._turns.remove(consumer)

    def wait(self, consumer: Consumer) -> None:
        """A consumer stands in line, if it can take more."""
        if consumer.willing():
            self._turns.add(consumer)

    def alone(self) -> bool:
        """Whether the next consumer is the only one of the highest priority."""
        return self._made is None or self._made.alone()

    def any(self) -> bool:
        """Whether a consumer stands in line."""
        return self._made is not None and self._made.any()

    def order(self) -> list[Consumer]:
        """All that stand in line, in the order of their turns."""
        return [] if self._made is None else self._made.order()

    def leave(self, consumer: Consumer) -> None:
        """A consumer that goes gives up its place in line."""
        self._turns.remove(consumer)
        if consumer.limited:
            consumer.limited = False
            limited = self._limited
            assert limited is not None, "it waits there"
            key = id(consumer.limiter)
            line = limited[key]
            del line[consumer]
            if not line:
                del limited[key]

    def disband(self) -> None:
        """Nobody waits any more: the queue is gone.

        Consumers that stand in line refer to each other, and would stay in memory together.
        """
        for consumer in self.order():
            self._turns.remove(consumer)
        limited = self._limited
        self._limited = None
        if limited is not None:
            for line in limited.values():
                for consumer in line:
                    consumer.limited = False

    def gave_up(self, consumer: Consumer, count: i64) -> None:
        """A consumer gave up so many messages, and has credit for as many more."""
        limiter = consumer.limiter
        if not consumer.active:
            if limiter is not None:
                self._wake_limited(limiter)
            return
        consumer.credit += count
        if limiter is None or limiter.limit == 0:
            self.wake(consumer)
        elif consumer.line is None and not consumer.limited and consumer.willing():
            # Its channel is going to wake all that share the limit, in other queues, too.
            self.stand_aside(consumer)

    def stand_aside(self, consumer: Consumer) -> None:
        """A consumer waits until there is room in its shared limit."""
        consumer.limited = True
        limited = self._limited
        if limited is None:
            limited = self._limited = {}
        key = id(consumer.limiter)
        line = limited.get(key)
        if line is None:
            limited[key] = {consumer: None}
        else:
            line[consumer] = None

    def _wake_limited(self, limiter: Limiter) -> None:
        """Those who wait for room in a shared limit stand in line again, if there is some."""
        limited = self._limited
        if limited is not None and not limiter.used_up():
            for consumer in limited.pop(id(limiter), {}):
                consumer.limited = False
                self.wait(consumer)


@final
class Turns:
    """Whose turn it is: consumers with room, by priority, first come first served among equals."""

    def __init__(self) -> None:
        self._levels: list[Level] = []

    def add(self, consumer: Consumer) -> None:
        """Put a consumer at the end of its priority's line, unless it stands there."""
        if consumer.line is not None:
            return
        priority = consumer.priority
        levels = self._levels
        at = self._find(priority)
        if at == len(levels) or levels[at].priority != priority:
            levels.insert(at, Level(priority))
        levels[at].push(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer that leaves out of its line, wherever it stands there."""
        level = consumer.line
        if level is not None:
            level.remove(consumer)
            if level.head is None:
                del self._levels[self._find(level.priority)]

    def first(self) -> Consumer | None:
        """The consumer whose turn it is."""
        return self._levels[0].head if self._levels else None

    def rotate(self) -> None:
        """The consumer whose turn it was goes to the end of its line."""
        self._levels[0].rotate()

    def order(self) -> list[Consumer]:
        """All that stand in line, in the order of their turns."""
        line: list[Consumer] = []
        for level in self._levels:
            line.extend(level.order())
        return line

    def any(self) -> bool:
        """Whether anybody stands in line."""
        return len(self._levels) > 0

    def alone(self) -> bool:
        """Whether the consumer whose turn it is has nobody behind it in its line."""
        first = self.first()
        return first is None or first.after is first

    def _find(self, priority: i64) -> i64:
        """Where the level of a priority is, or would be; the highest comes first."""
        levels = self._levels
        low: i64 = 0
        high: i64 = len(levels)
        while low < high:
            middle = (low + high) // 2
            if levels[middle].priority > priority:
                low = middle + 1
            else:
                high = middle
        return low


@final
class Level:
    """The line of one priority: a ring, linked both ways through the consumers themselves.

    Attributes:
        head: Who is first; the one before it is the last.
    """

    def __init__(self, priority: i64) -> None:
        self.priority: i64 = priority
        self.head: Consumer | None = None

    def push(self, consumer: Consumer) -> None:
        """Append a consumer."""
        consumer.line = self
        head = self.head
        if head is None:
            self.head = consumer
            consumer.before = consumer
            consumer.after = consumer
            return
        tail = head.before
        assert tail is not None, "a ring has no end"
        tail.after = consumer
        consumer.before = tail
        consumer.after = head
        head.before = consumer

    def rotate(self) -> None:
        """The first becomes the last."""
        head = self.head
        assert head is not None, "somebody stands in line"
        self.head = head.after

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer of this line out."""
        before = consumer.before
        after = consumer.after
        assert before is not None and after is not None, "a ring has no end"
        if after is consumer:
            self.head = None
        else:
            before.after = after
            after.before = before
            if self.head is consumer:
                self.head = after
        consumer.line = None
        consumer.before = None
        consumer.after = None

    def order(self) -> list[Consumer]:
        """All of them, the first one first."""
        line: list[Consumer] = []
        consumer = self.head
        while consumer is not None:
            line.append(consumer)
            consumer = consumer.after
            if consumer is self.head:
                break
        return line
