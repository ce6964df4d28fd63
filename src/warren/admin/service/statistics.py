"""Rates of messages: the counters of queues, looked at every few seconds.

Queues count as they handle batches. Here their counts are compared with those of before, in slices,
so that neither messages nor the turns of the node pay for it. A queue that never had a message is
remembered by nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from warren.admin.service.slices import Slices
from warren.node.node import Node
from warren.queues.queue import Counts, Queue
from warren.queues.traffic import PublishedTraffic

SAMPLE_SECONDS: Final = 5.0
"""RabbitMQ's `collect_statistics_interval`."""

COUNTERS: Final = (
    "publish",
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    "redeliver",
    "deliver_get",
)
"""What is counted, in RabbitMQ's words."""
LENGTHS: Final = ("messages_ready", "messages_unacknowledged", "messages")

PUBLISHED: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
"""What is counted of a vhost in the place of what its queues had published to them."""
VHOST_COUNTERS: Final = (*PUBLISHED, *COUNTERS[1:])

Values = tuple[int, ...]
Rates = tuple[float, ...]
NOTHING: Final[Values] = (0,) * len(COUNTERS)
NO_RATES: Final[Rates] = (0.0,) * len(COUNTERS)
VHOST_NOTHING: Final[Values] = (0,) * len(VHOST_COUNTERS)
VHOST_NO_RATES: Final[Rates] = (0.0,) * len(VHOST_COUNTERS)
NO_LENGTHS: Final[Values] = (0,) * len(LENGTHS)
NO_LENGTH_RATES: Final[Rates] = (0.0,) * len(LENGTHS)


def counters_of(queue: Queue) -> Values:
    """What a queue has counted, in the order of `COUNTERS`."""
    polled, polled_automatic = int(queue.polled), int(queue.polled_automatic)
    automatic = int(queue.automatic)
    delivered = int(queue.delivered)
    return (
        int(queue.published),
        delivered - automatic - polled - polled_automatic,
        automatic,
        polled,
        polled_automatic,
        int(queue.polled_empty),
        int(queue.settled) - automatic - polled_automatic,
        int(queue.redelivered),
        delivered,
    )


def lengths_of(counts: Counts | None) -> Values:
    """How long a queue is, in the order of `LENGTHS`."""
    if counts is None:
        return NO_LENGTHS
    return int(counts.ready), int(counts.held), int(counts.ready) + int(counts.held)


def traffic_of(traffic: PublishedTraffic | None) -> Values:
    """What was published to a vhost, in the order of `PUBLISHED`."""
    if traffic is None:
        return (0, 0, 0, 0)
    return (
        int(traffic.published),
        int(traffic.confirmed),
        int(traffic.returned),
        int(traffic.dropped),
    )


def rates_of(before: Values, now: Values, seconds: float) -> Rates:
    """How fast counters grew within so many seconds."""
    return tuple((new - old) / seconds for old, new in zip(before, now, strict=True))


class Figures:
    """What was seen of one thing that has counters, and how fast they grow.

    Attributes:
        counters: In the order of `COUNTERS`, or of a vhost `VHOST_COUNTERS`.
        lengths: In the order of `LENGTHS`.
        rates, length_rates: A second, of each.
    """

    def __init__(self, counters: Values = NOTHING) -> None:
        self.counters: Values = counters
        self.lengths: Values = NO_LENGTHS
        self.rates: Rates = (0.0,) * len(counters)
        self.length_rates: Rates = NO_LENGTH_RATES

    def look(self, counters: Values, lengths: Values, seconds: float) -> None:
        """Compare with what was seen so many seconds ago."""
        self.rates = rates_of(self.counters, counters, seconds)
        self.length_rates = rates_of(self.lengths, lengths, seconds)
        self.counters, self.lengths = counters, lengths


class Statistics:
    """The figures of one node.

    Attributes:
        queues: Of queues that have any, by the queue itself: one that is declared again is another.
        vhosts: Of all queues that each vhost has or had, by its name, in `VHOST_COUNTERS`.
    """

    def __init__(self, node: Node) -> None:
        self.queues: dict[Queue, Figures] = {}
        self.vhosts: dict[str, Figures] = {}
        self._node = node
        self._sampled = time.monotonic()

    async def run(self) -> None:
        """Look at all queues every few seconds, for ever."""
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            await self.sample()

    async def sample(self) -> None:
        """Look at all queues of this node."""
        now = time.monotonic()
        seconds = max(now - self._sampled, 0.001)
        self._sampled = now
        slices = Slices()
        before, self.queues = self.queues, {}
        for name, here in list(self._node.queues.vhosts.items()):
            grown = [0] * len(COUNTERS)
            lengths = [0] * len(LENGTHS)
            for queue in list(here.queues.values()):
                await slices.breathe()
                counters = counters_of(queue)
                length = lengths_of(queue.counts())
                figures = before.get(queue)
                if figures is None:
                    if counters == NOTHING and length == NO_LENGTHS:
                        continue
                    figures = Figures()
                for place, (new, old) in enumerate(zip(counters, figures.counters, strict=True)):
                    grown[place] += new - old
                for place, count in enumerate(length):
                    lengths[place] += count
                figures.look(counters, length, seconds)
                self.queues[queue] = figures
            of_vhost = self.vhosts.setdefault(name, Figures(VHOST_NOTHING))
            of_queues = of_vhost.counters[len(PUBLISHED) :]
            total = tuple(old + new for old, new in zip(of_queues, grown[1:], strict=True))
            published = traffic_of(self._node.vhosts.traffic.get(name))
            of_vhost.look(published + total, tuple(lengths), seconds)
        for name in list(self.vhosts):
            if name not in self._node.queues.vhosts:
                del self.vhosts[name]
