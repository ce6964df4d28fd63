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
        self._turns: Turns = Turns()
        self._limited: dict[int, list[Consumer]] = {}
        """By the identity of a shared limit that was used up: whose turn it was, in that order."""

    def wake(self, consumer: Consumer) -> None:
        """A consumer may have room again, and so may those that share its limit."""
        if consumer.limiter is not None:
            self._wake_limited(consumer.limiter)
        if not consumer.limited and consumer.willing():
            self._turns.add(consumer)

    def next(self) -> Consumer | None:
        """Take the next consumer with room out of its line; `wait` puts it back."""
        turns = self._turns
        while True:
            consumer = turns.next()
            if consumer is None or consumer.room() > 0:
                return consumer
            if consumer.willing():
                self.stand_aside(consumer)

    def wait(self, consumer: Consumer) -> None:
        """A consumer that was served stands in line again, if it can take more."""
        if consumer.willing():
            self._turns.add(consumer)

    def alone(self) -> bool:
        """Whether the consumer just taken is the only one of the highest priority."""
        return self._turns.alone()

    def any(self) -> bool:
        """Whether a consumer stands in line."""
        return self._turns.any()

    def order(self) -> list[Consumer]:
        """All that stand in line, in the order of their turns."""
        return self._turns.order()

    def leave(self, consumer: Consumer) -> None:
        """A consumer that goes gives up its place in line."""
        self._turns.remove(consumer)
        if consumer.limited:
            consumer.limited = False
            key = id(consumer.limiter)
            line = self._limited[key]
            line.remove(consumer)
            if not line:
                del self._limited[key]

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
        key = id(consumer.limiter)
        line = self._limited.get(key)
        if line is None:
            self._limited[key] = [consumer]
        else:
            line.append(consumer)

    def _wake_limited(self, limiter: Limiter) -> None:
        """Those who wait for room in a shared limit stand in line again, if there is some."""
        if not limiter.used_up():
            for consumer in self._limited.pop(id(limiter), []):
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

    def next(self) -> Consumer | None:
        """Take the consumer whose turn it is out of its line."""
        levels = self._levels
        while levels:
            consumer = levels[0].head
            if consumer is not None:
                levels[0].remove(consumer)
                return consumer
            del levels[0]
        return None

    def order(self) -> list[Consumer]:
        """All that stand in line, in the order of their turns."""
        line: list[Consumer] = []
        for level in self._levels:
            consumer = level.head
            while consumer is not None:
                line.append(consumer)
                consumer = consumer.after
        return line

    def any(self) -> bool:
        """Whether anybody stands in line."""
        for level in self._levels:
            if level.head is not None:
                return True
        return False

    def alone(self) -> bool:
        """Whether the consumer just taken is the only one of the highest priority."""
        return not self._levels or self._levels[0].head is None

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
    """The line of one priority, linked both ways through the consumers themselves."""

    def __init__(self, priority: i64) -> None:
        self.priority: i64 = priority
        self.head: Consumer | None = None
        self.tail: Consumer | None = None

    def push(self, consumer: Consumer) -> None:
        """Append a consumer."""
        consumer.line = self
        tail = self.tail
        if tail is None:
            self.head = consumer
        else:
            tail.after = consumer
        consumer.before = tail
        self.tail = consumer

    def remove(self, consumer: Consumer) -> None:
        """Take a consumer of this line out."""
        before = consumer.before
        after = consumer.after
        if before is None:
            self.head = after
        else:
            before.after = after
        if after is None:
            self.tail = before
        else:
            after.before = before
        consumer.line = None
        consumer.before = None
        consumer.after = None
