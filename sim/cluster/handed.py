"""What the committed entries of a quorum queue say of its messages, for who tells of them.

Told by the effects of entries that are applied to a machine of the simulator's own, and not by what
tells a feed.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final, final

from warren.node.replay import Witness
from warren.queues.fifo.effects import Effects

if TYPE_CHECKING:
    from warren.log.batch import Batch

MARK: Final = re.compile(rb"m(\d{8})\|")
"""What bodies of the simulator's messages are made of; see `sim.model.body_of`."""
MANY: Final = 1 << 30
ONCE: Final = ("published", "confirmed")


@final
class Handed(Witness):
    """See the module's head.

    Attributes:
        ids: The simulator's messages by their numbers in the queue, where they can be told.
        sizes: What the records of messages take, by their numbers.
        times: When messages came by the log, in ms, likewise.
    """

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.times: dict[int, int] = {}
        self._now_ms = 0
        self._published: set[int] = set()
        self._handed: Counter[tuple[int, int]] = Counter()
        self._subscribed: set[int] = set()

    def applied(self, batch: Batch, commanded: Effects, dispatched: Effects) -> None:
        """An entry is committed."""
        first, count = int(batch.first), int(batch.count)
        # A leader whose clock is behind that of the one before does not turn time back.
        self._now_ms = max(self._now_ms, int(batch.stamp_ms))
        if count > 0:
            self._published.update(range(first, first + count))
            self.sizes.update((first + at, int(batch.length(at))) for at in range(count))
            self.times.update(dict.fromkeys(range(first, first + count), self._now_ms))
            found = list(dict.fromkeys(int(each) for each in MARK.findall(batch.body())))
            if len(found) == count:
                self.ids.update(zip(range(first, first + count), found, strict=True))
        for effects in (commanded, dispatched):
            for delivery in effects.deliveries:
                consumer = int(delivery.consumer.id)
                self._subscribed.add(consumer)
                for number in range(int(delivery.first), int(delivery.first + delivery.count)):
                    self._handed[number, consumer] += 1

    def most(self, event: str, number: int, consumer: int) -> int:
        """How often this may have happened to a message.

        Args:
            consumer: Who had it; negative for nobody.
        """
        if number not in self._published:
            return 0
        if event in ONCE:
            return 1
        # Polls and groups of readers are answered, which is no effect.
        return self._handed[number, consumer] if consumer in self._subscribed else MANY
