"""Rates of messages, and samples of them: counters, looked at every few seconds.

Queues count as they handle batches. Here their counts are compared with those of before, in slices,
so that neither messages nor the turns of the node pay for it. A queue that never had a message is
remembered by nothing; samples are kept of `QUEUES_MAX` queues.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from warren.admin.service.client_figures import (
    CHANNEL_COUNTERS,
    PUBLISHED,
    SERVED,
    ClientFigures,
    published_values,
    served_values,
)
from warren.admin.service.history import BASIC, GLOBAL, SampleStore
from warren.admin.service.slices import Slices
from warren.node.node import Node
from warren.node.queue_tally import in_use
from warren.node.queues import VirtualHost
from warren.queues.queue import Counts, Queue
from warren.queues.traffic import PublishedTraffic, ServedTraffic, Traffic

SAMPLE_SECONDS: Final = 5.0
"""RabbitMQ's `collect_statistics_interval`."""

COUNTERS: Final = ("publish", *SERVED)
"""What is counted, in RabbitMQ's words."""
LENGTHS: Final = ("messages_ready", "messages_unacknowledged", "messages")

VHOST_COUNTERS: Final = CHANNEL_COUNTERS
"""Of a vhost, what its channels count: `publish` is what was published to it, not its queues."""
EXCHANGE_COUNTERS: Final = ("publish_in", "publish_out")
EXCHANGE_NOTHING: Final = (0,) * len(EXCHANGE_COUNTERS)
CHURN: Final = (
    "connection_created",
    "connection_closed",
    "channel_created",
    "channel_closed",
    "queue_declared",
    "queue_created",
    "queue_deleted",
)
"""What comes and goes on a node."""

NODE_GAUGES: Final = ("mem_used", "disk_free", "fd_used", "sockets_used")
"""How a node is doing."""

QUEUES_MAX: Final = 1_000
"""Queues of which samples are kept: 19 MB where all of them are busy all the time."""
EXCHANGES_MAX: Final = 500
VHOSTS_MAX: Final = 200
TOTAL: Final = "total"
"""What the samples of a whole node are found by."""

Values = tuple[int, ...]
Rates = tuple[float, ...]
NOTHING: Final[Values] = (0,) * len(COUNTERS)
NO_RATES: Final[Rates] = (0.0,) * len(COUNTERS)
VHOST_NOTHING: Final[Values] = (0,) * len(VHOST_COUNTERS)
VHOST_NO_RATES: Final[Rates] = (0.0,) * len(VHOST_COUNTERS)
NO_LENGTHS: Final[Values] = (0,) * len(LENGTHS)
NO_LENGTH_RATES: Final[Rates] = (0.0,) * len(LENGTHS)


def counters_of(queue: Queue) -> Values:
    """What this node's clients did with a queue, in the order of `COUNTERS`."""
    polled, polled_automatic = int(queue.polled), int(queue.polled_automatic)
    automatic = int(queue.automatic)
    delivered = int(queue.delivered)
    return (
        # Of what another node's clients send, the part that waits is taken off already.
        max(int(queue.published), 0),
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
    return (0, 0, 0, 0) if traffic is None else published_values(traffic)


def rates_of(before: Values, now: Values, seconds: float) -> Rates:
    """How fast counters grew within so many seconds."""
    return tuple((new - old) / seconds for old, new in zip(before, now, strict=True))


def served_of(traffic: Traffic) -> Values:
    """What clients of a node got of queues, in the order of `COUNTERS` but for the first."""
    whole = ServedTraffic()
    for counts in traffic.served.values():
        whole.manual += counts.manual
        whole.automatic += counts.automatic
        whole.polled += counts.polled
        whole.polled_automatic += counts.polled_automatic
        whole.polled_empty += counts.polled_empty
        whole.acknowledged += counts.acknowledged
        whole.redelivered += counts.redelivered
    return served_values(whole)


def published_of(node: Node) -> Values:
    """What clients of a node published, in the order of `PUBLISHED`."""
    return published_values(node.vhosts.all_traffic())


def churn_of(traffic: Traffic) -> Values:
    """What came and went on a node, in the order of `CHURN`."""
    return (
        int(traffic.connections_opened),
        int(traffic.connections_closed),
        int(traffic.channels_opened),
        int(traffic.channels_closed),
        int(traffic.queues_declared),
        int(traffic.queues_created),
        int(traffic.queues_deleted),
    )


async def _worth_a_look(here: VirtualHost, seen: list[Queue], slices: Slices) -> list[Queue]:
    """The queues of a vhost that are in use, and those that had figures when it was looked last."""
    used: dict[Queue, None] = {}
    for lot in here.queues.lots():
        async for at, end in slices.stretches(len(lot)):
            used.update(dict.fromkeys(in_use(lot, at, end)))
    for queue in seen:
        if here.queues.get(queue.name) is queue:
            used[queue] = None
        await slices.breathe()
    return list(used)


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
        vhosts: Of all queues that each vhost has or had, by its name, in `VHOST_COUNTERS`; lengths
            are those of the queues that this node leads.
        exchanges: Of exchanges that were published to, by vhost and name, in `EXCHANGE_COUNTERS`.
        total: Of all clients of this node, in `VHOST_COUNTERS`; its lengths are those of the queues
            that this node leads, so that the nodes of a cluster can be added up.
        churn: Of what comes and goes, in `CHURN`.
        gauges: Of how the node is doing, in `NODE_GAUGES`.
        queue_samples, vhost_samples: Counters and lengths.
        exchange_samples: Counters.
        node_samples: By `TOTAL`, the counters and lengths of `total`, then those of `churn` and of
            `gauges`.
        clients: Of connections and channels.
        moment: When it was looked last, in seconds since the epoch.
    """

    def __init__(
        self,
        node: Node,
        leads: Callable[[Queue], bool],
        gauge: Callable[[], Awaitable[Values]],
    ) -> None:
        """Begin with no figures.

        Args:
            leads: Whether this node leads a queue, or is the only one to have it.
            gauge: Tells how the node is doing, in `NODE_GAUGES`.
        """
        self.queues: dict[Queue, Figures] = {}
        self.vhosts: dict[str, Figures] = {}
        self.exchanges: dict[tuple[str, str], Figures] = {}
        self.total = Figures(VHOST_NOTHING)
        self.churn = Figures((0,) * len(CHURN))
        self.gauges = Figures((0,) * len(NODE_GAUGES))
        self.clients = ClientFigures(node)
        self.forget()
        self._node = node
        self._leads = leads
        self._gauge = gauge
        self._sampled = time.monotonic()
        self.moment = int(time.time())

    def forget(self) -> None:
        """Begin with no samples."""
        lengths = len(LENGTHS)
        self.queue_samples = SampleStore(len(COUNTERS) + lengths, BASIC, QUEUES_MAX)
        self.vhost_samples = SampleStore(len(VHOST_COUNTERS) + lengths, GLOBAL, VHOSTS_MAX)
        self.exchange_samples = SampleStore(len(EXCHANGE_COUNTERS), BASIC, EXCHANGES_MAX)
        of_node = len(VHOST_COUNTERS) + lengths + len(CHURN) + len(NODE_GAUGES)
        self.node_samples = SampleStore(of_node, GLOBAL, 1)
        self.clients.forget()

    def of_vhost(self, name: str) -> Figures | None:
        """The figures of a vhost, which are not those of one that had its name before."""
        self._forget_former()
        return self.vhosts.get(name)

    def _forget_former(self) -> None:
        """Have no figures of vhosts that ended, also where one of the same name has begun."""
        former = self._node.vhosts.counted_anew
        if former:
            for name in former:
                self.vhosts.pop(name, None)
            former.clear()
            self.vhost_samples.keep(self.vhosts)

    async def run(self) -> None:
        """Look at everything every few seconds, for ever, at moments that all nodes share."""
        while True:
            pause = SAMPLE_SECONDS - time.time() % SAMPLE_SECONDS
            # Behind a sample that came late the next one would tell of a moment only.
            await asyncio.sleep(pause if pause > SAMPLE_SECONDS / 2 else pause + SAMPLE_SECONDS)
            await self.sample()

    async def sample(self) -> None:
        """Look at all queues and exchanges of this node, and at its clients if that is wanted."""
        now = time.monotonic()
        seconds = max(now - self._sampled, 0.001)
        self._sampled = now
        # A timer may end just before the step that it waits for: rounded down, that sample would
        # take the place of the one before.
        moment = self.moment = round(time.time())
        slices = Slices()
        self._forget_former()
        before, self.queues = self.queues, {}
        seen: dict[str, list[Queue]] = {}
        for queue in before:
            seen.setdefault(queue.vhost, []).append(queue)
            await slices.breathe()
        led = [0] * len(LENGTHS)
        for name, here in list(self._node.queues.vhosts.items()):
            grown = [0] * len(COUNTERS)
            lengths = [0] * len(LENGTHS)
            for queue in await _worth_a_look(here, seen.get(name, []), slices):
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
                leads = length != NO_LENGTHS and self._leads(queue)
                for place, count in enumerate(length if leads else NO_LENGTHS):
                    lengths[place] += count
                    led[place] += count
                was = figures.counters + figures.lengths
                self.queue_samples.note(queue, moment, was, counters + length)
                figures.look(counters, length, seconds)
                self.queues[queue] = figures
            of_vhost = self.vhosts.setdefault(name, Figures(VHOST_NOTHING))
            of_queues = of_vhost.counters[len(PUBLISHED) :]
            total = tuple(old + new for old, new in zip(of_queues, grown[1:], strict=True))
            published = traffic_of(self._node.vhosts.traffic.get(name))
            was = of_vhost.counters + of_vhost.lengths
            of_vhost.look(published + total, tuple(lengths), seconds)
            self.vhost_samples.note(name, moment, was, of_vhost.counters + of_vhost.lengths)
        for name in list(self.vhosts):
            if name not in self._node.queues.vhosts:
                del self.vhosts[name]
        self.queue_samples.keep(self.queues)
        self.vhost_samples.keep(self.vhosts)
        self._look_at_node(moment, tuple(led), await self._gauge(), seconds)
        await self._look_at_exchanges(moment, seconds)
        await self.clients.sample(moment, seconds)

    def _look_at_node(self, moment: int, led: Values, gauges: Values, seconds: float) -> None:
        """Look at what all clients of this node did, and at how it is doing."""
        before = self.of_node()
        traffic = self._node.traffic
        self.total.look(published_of(self._node) + served_of(traffic), led, seconds)
        self.churn.look(churn_of(traffic), NO_LENGTHS, seconds)
        self.gauges.look(gauges, NO_LENGTHS, seconds)
        self.node_samples.note(TOTAL, moment, before, self.of_node())

    def of_node(self) -> Values:
        total = self.total.counters + self.total.lengths
        return total + self.churn.counters + self.gauges.counters

    def want_exchange(self, vhost: str, name: str) -> None:
        """Keep samples of an exchange from now on, since it is asked for."""
        figures = self.exchanges.get((vhost, name)) or Figures(EXCHANGE_NOTHING)
        self.exchange_samples.wanted((vhost, name), self.moment, figures.counters)

    async def _look_at_exchanges(self, moment: int, seconds: float) -> None:
        """Look at what was published through each exchange."""
        slices = Slices()
        before, self.exchanges = self.exchanges, {}
        for key, exchange in list(self._node.traffic.exchanges.items()):
            await slices.breathe()
            counters = (int(exchange.counts.published), int(exchange.routed))
            figures = before.get(key)
            if figures is None or counters < figures.counters:
                figures = Figures(EXCHANGE_NOTHING)
            self.exchange_samples.note(key, moment, figures.counters, counters)
            figures.look(counters, NO_LENGTHS, seconds)
            self.exchanges[key] = figures
        self.exchange_samples.keep(self.exchanges)
