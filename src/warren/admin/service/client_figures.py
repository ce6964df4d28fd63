"""Rates and samples of connections and channels, looked at only while that is asked for.

Nothing is kept per connection before: when connections or channels are asked for, the next looks at
counters include them, until nothing has been asked about them for some minutes. Rates are known
from the second look on.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

import msgspec

from warren.admin.service.client_order import channels_of
from warren.admin.service.history import BASIC, DETAILED, SampleRange, SampleStore, Values
from warren.admin.service.slices import Slices
from warren.node.node import Node
from warren.protocols.client import ClientConnection
from warren.protocols.facts import ChannelFacts
from warren.queues.traffic import PublishedTraffic, ServedTraffic

WANTED_SECONDS: Final = 605.0
"""How long clients are looked at after they were asked for."""
CONNECTIONS_MAX: Final = 500
CHANNELS_MAX: Final = 500
"""Of so many there are samples: 2 MB and 7 MB where all of them are busy all the time."""

OCTETS: Final = ("recv_oct", "send_oct")
PUBLISHED: Final = ("publish", "confirm", "return_unroutable", "drop_unroutable")
SERVED: Final = (
    "deliver",
    "deliver_no_ack",
    "get",
    "get_no_ack",
    "get_empty",
    "ack",
    "redeliver",
    "deliver_get",
)
CHANNEL_COUNTERS: Final = (*PUBLISHED, *SERVED)
"""What is counted of a channel, in RabbitMQ's words: what it published, and what it got."""
KEPT_MAX: Final = 500
"""Of so many samples are kept because they are asked for."""
NAMES_MAX: Final = 20

Key = tuple[ClientConnection, int]
"""A connection and the number of a channel; 0 for the connection itself."""


class Seen(NamedTuple):
    """What was seen of a connection or a channel, and how fast that grows a second."""

    values: Values
    rates: tuple[float, ...]


class ClientFigure(msgspec.Struct, kw_only=True):
    """What one connection or one channel has counted.

    Attributes:
        pid: What names it.
        counters, rates: In the order of `OCTETS`, or of a channel `CHANNEL_COUNTERS`.
        samples: The counters over time, for each span that was asked for.
        client: What the connection's client calls itself; empty if it does not.
        queues, exchanges: Those that a channel consumes from or got of, and published to: the first
            `NAMES_MAX` of each.
    """

    pid: str
    counters: tuple[int, ...]
    rates: tuple[float, ...]
    samples: list[list[Values]] = []
    client: str = ""
    queues: list[str] = []
    exchanges: list[str] = []


def channel_values(facts: ChannelFacts) -> Values:
    """What a channel has counted, in the order of `CHANNEL_COUNTERS`."""
    published = [0] * len(PUBLISHED)
    for use in facts.published:
        for place, count in enumerate(published_values(use.own)):
            published[place] += count
    served = [0] * len(SERVED)
    for got in facts.served:
        for place, count in enumerate(served_values(got.own)):
            served[place] += count
    return (*published, *served)


def uses_of(facts: ChannelFacts) -> tuple[list[str], list[str]]:
    """The queues that a channel consumes from or got of, and the exchanges that it published to."""
    queues = dict.fromkeys(each.queue for each in facts.consumers[:NAMES_MAX])
    queues.update(dict.fromkeys(each.name for each in facts.served[:NAMES_MAX]))
    return list(queues)[:NAMES_MAX], [each.name for each in facts.published[:NAMES_MAX]]


def published_values(counts: PublishedTraffic) -> Values:
    """What was published, in the order of the first four of `CHANNEL_COUNTERS`."""
    return (
        int(counts.published),
        int(counts.confirmed),
        int(counts.returned),
        int(counts.dropped),
    )


def served_values(counts: ServedTraffic) -> Values:
    """What was got of queues, in the order of `CHANNEL_COUNTERS` from `deliver` on."""
    got = (
        int(counts.manual),
        int(counts.automatic),
        int(counts.polled),
        int(counts.polled_automatic),
    )
    return (
        *got,
        int(counts.polled_empty),
        int(counts.acknowledged),
        int(counts.redelivered),
        sum(got),
    )


class ClientFigures:
    """The figures of one node's clients.

    Attributes:
        connection_samples: Of connections, in `OCTETS`.
        channel_samples: Of channels, in `CHANNEL_COUNTERS`.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._seen: dict[Key, Seen] = {}
        self._until = 0.0
        self.forget()

    def forget(self) -> None:
        """Begin with no samples."""
        self.connection_samples = SampleStore(len(OCTETS), BASIC, CONNECTIONS_MAX)
        self.channel_samples = SampleStore(len(CHANNEL_COUNTERS), DETAILED, CHANNELS_MAX)

    def want(self) -> None:
        """Look at clients for some minutes from now on."""
        self._until = time.monotonic() + WANTED_SECONDS

    def figure(
        self, pid: str, key: Key, values: Values, spans: list[SampleRange], keep: int
    ) -> ClientFigure:
        """What a connection or a channel has counted; rates are 0.0 before they are known.

        Args:
            keep: What time it is, if samples of it are to be kept from now on; else negative.
        """
        samples = self.channel_samples if key[1] else self.connection_samples
        seen = self._seen.get(key)
        if seen is None:
            seen = self._seen[key] = Seen(values, (0.0,) * len(values))
        if keep >= 0 and spans:
            samples.wanted(key, keep, seen.values)
        return ClientFigure(
            pid=pid,
            counters=values,
            rates=seen.rates,
            samples=[samples.at(key, span, values) for span in spans],
        )

    async def sample(self, moment: int, seconds: float) -> None:
        """Look at all clients, if they were asked for lately.

        Args:
            moment: What time it is, in seconds since the epoch.
            seconds: Since the last look.
        """
        if time.monotonic() > self._until:
            if self._seen:
                self._seen = {}
                self.connection_samples.keep(())
                self.channel_samples.keep(())
            return
        slices = Slices()
        before, self._seen = self._seen, {}
        for connection in list(self._node.connections.values()):
            await slices.breathe()
            facts = connection.facts()
            octets = (int(facts.received_bytes), int(facts.sent_bytes))
            self._look(before, (connection, 0), octets, moment, seconds)
            for channel in channels_of(connection):
                key = (connection, int(channel.number))
                self._look(before, key, channel_values(channel), moment, seconds)
                await slices.breathe()
        self.connection_samples.keep(self._seen)
        self.channel_samples.keep(self._seen)

    def _look(
        self, before: dict[Key, Seen], key: Key, values: Values, moment: int, seconds: float
    ) -> None:
        was = before.get(key)
        if was is None or any(new < old for new, old in zip(values, was.values, strict=True)):
            # It was opened anew under the same number, or has begun to count anew.
            self._seen[key] = Seen(values, (0.0,) * len(values))
            return
        samples = self.channel_samples if key[1] else self.connection_samples
        samples.note(key, moment, was.values, values)
        rates = tuple((new - old) / seconds for new, old in zip(values, was.values, strict=True))
        self._seen[key] = Seen(values, rates)
