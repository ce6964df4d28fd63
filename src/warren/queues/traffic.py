"""What a node counts of messages that pass through it, by protocol, queue type and exchange.

Counts go up by runs of messages, where the protocol hands a run on, and are read when somebody
scrapes metrics. They are those of this node's clients, whichever node a queue is on, so that the
nodes of a cluster can be added up.

Source: the global counters of RabbitMQ 4.3.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from warren.queue_types import QueueType

SIZE_BOUNDS: Final = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
"""Upper bounds of the classes of message sizes, in bytes."""
LARGEST: Final = (1 << 62) - 1
"""Above all sizes."""
EXCHANGES_MAX: Final = 16_384
"""Exchanges of which counts are kept; past that all begin anew."""
USES_MAX: Final = 1_024
"""Exchanges, and queues, of which one channel keeps counts; past that all begin anew."""
REASONS: Final = 4
"""Why messages die, see `message.dead_letters`."""


@final
class ServedTraffic:
    """What clients got of queues: of one type on this node, or of one queue on a channel.

    Attributes:
        manual, automatic: Messages that consumers were sent, to be settled or settled as sent.
        polled, polled_automatic: The same of those that were asked for one by one.
        polled_empty: How often there was none.
        redelivered: Those of all these that had come back.
        acknowledged: Messages that clients acknowledged.
    """

    def __init__(self) -> None:
        self.manual: i64 = 0
        self.automatic: i64 = 0
        self.polled: i64 = 0
        self.polled_automatic: i64 = 0
        self.polled_empty: i64 = 0
        self.redelivered: i64 = 0
        self.acknowledged: i64 = 0


@final
class QueueUse:
    """What one channel got of one queue.

    Attributes:
        name: The queue's, in the channel's vhost.
        own: What it got.
        whole: What all clients of this node got of queues of its type.
    """

    def __init__(self, name: str, whole: ServedTraffic) -> None:
        self.name: str = name
        self.own: ServedTraffic = ServedTraffic()
        self.whole: ServedTraffic = whole

    def consumed(self, count: i64, redelivered: bool, automatic: bool) -> None:
        """A consumer was sent messages."""
        if automatic:
            self.own.automatic += count
            self.whole.automatic += count
        else:
            self.own.manual += count
            self.whole.manual += count
        if redelivered:
            self.own.redelivered += count
            self.whole.redelivered += count

    def got(self, redelivered: bool, automatic: bool) -> None:
        """The client was sent a message that it asked for."""
        if automatic:
            self.own.polled_automatic += 1
            self.whole.polled_automatic += 1
        else:
            self.own.polled += 1
            self.whole.polled += 1
        if redelivered:
            self.own.redelivered += 1
            self.whole.redelivered += 1

    def got_none(self) -> None:
        """The client asked for a message, and there was none."""
        self.own.polled_empty += 1
        self.whole.polled_empty += 1

    def acknowledged(self, count: i64) -> None:
        """The client acknowledged messages."""
        self.own.acknowledged += count
        self.whole.acknowledged += count


@final
class PublishedTraffic:
    """What clients published: to one vhost, or through one exchange on a channel or on this node.

    Attributes:
        published: Messages; those of a transaction when it is committed.
        confirmed: Those of them that were confirmed.
        returned, dropped: Those that reached no queue, of clients that wanted to know or did not.
    """

    def __init__(self) -> None:
        self.published: i64 = 0
        self.confirmed: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0

    def add(self, other: PublishedTraffic) -> None:
        """Count what is counted elsewhere, too."""
        self.published += other.published
        self.confirmed += other.confirmed
        self.returned += other.returned
        self.dropped += other.dropped


@final
class ExchangeTraffic:
    """What all clients of this node published through one exchange.

    Attributes:
        routed: To how many queues these messages went, all counts added up.
        forgotten: Whether it is counted anew elsewhere.
    """

    def __init__(self) -> None:
        self.counts: PublishedTraffic = PublishedTraffic()
        self.routed: i64 = 0
        self.forgotten: bool = False


@final
class ExchangeUse:
    """What one channel published through one exchange.

    Attributes:
        name: The exchange's, in the channel's vhost.
        own: What it published.
        exchange: What all clients of this node did.
        whole: The same through all exchanges of the vhost.
    """

    def __init__(self, name: str, exchange: ExchangeTraffic, whole: PublishedTraffic) -> None:
        self.name: str = name
        self.own: PublishedTraffic = PublishedTraffic()
        self.exchange: ExchangeTraffic = exchange
        self.whole: PublishedTraffic = whole

    def published(self, count: i64) -> None:
        """Messages came."""
        self.own.published += count
        self.exchange.counts.published += count
        self.whole.published += count

    def confirmed(self, count: i64) -> None:
        """Messages are confirmed."""
        self.own.confirmed += count
        self.exchange.counts.confirmed += count
        self.whole.confirmed += count

    def unroutable(self, count: i64, returned: bool) -> None:
        """Messages reached no queue."""
        if returned:
            self.own.returned += count
            self.exchange.counts.returned += count
            self.whole.returned += count
        else:
            self.own.dropped += count
            self.exchange.counts.dropped += count
            self.whole.dropped += count


@final
class MessageSizes:
    """How many messages of which sizes were published.

    Attributes:
        bytes: All of them.
    """

    def __init__(self) -> None:
        self.bytes: i64 = 0
        self._counts: list[int] = [0] * (len(SIZE_BOUNDS) + 1)
        self._class: i64 = 0
        """That of the last message: it is above `_floor` and not above `_ceiling`."""
        self._floor: i64 = -1
        self._ceiling: i64 = SIZE_BOUNDS[0]
        self._newest: i64 = 0
        """How many came since another class was; `_counts` does not have them yet."""

    def add(self, size: i64, count: i64 = 1) -> None:
        """Count messages of one size; neighbours are mostly of one class: this takes little."""
        self.bytes += size * count
        if size <= self._floor or size > self._ceiling:
            self._change(size)
        self._newest += count

    def by_class(self) -> list[int]:
        """The counts by class of `SIZE_BOUNDS`, and then of those that are larger than all."""
        self._fold()
        return list(self._counts)

    def _fold(self) -> None:
        self._counts[self._class] += int(self._newest)
        self._newest = 0

    def _change(self, size: i64) -> None:
        """Go over to the class of a size."""
        self._fold()
        self._class = 0
        self._floor = -1
        for bound in SIZE_BOUNDS:
            self._ceiling = bound
            if size <= bound:
                return
            self._floor = bound
            self._class += 1
        self._ceiling = LARGEST


@final
class DeathTraffic:
    """Messages that died in queues of one type, and that went elsewhere in one of the ways.

    Attributes:
        by_reason: As `message.dead_letters` numbers why.
        confirmed: Those of them that are where they belong, if that was waited for.
    """

    def __init__(self) -> None:
        self.by_reason: list[int] = [0] * REASONS
        self.confirmed: i64 = 0


@final
class Traffic:
    """All that one node counts.

    Attributes:
        received: Messages that were published, in a transaction or not.
        with_confirms: Those of publishers that want a confirm, or are in a transaction.
        routed: To how many queues these messages went, all counts added up.
        sizes: How large their bodies are.
        served: What was got of queues, by the name of their type.
        exchanges: What was published through each exchange, by vhost and name.
        deaths: By the name of the queues' type, and whether the messages stayed there until they
            were elsewhere.
        connections_opened, connections_closed: Connections to vhosts.
        channels_opened, channels_closed: Of clients.
        queues_declared: Declares that clients asked for, of queues that were there or not.
        queues_created, queues_deleted: Queues that began and ended, of this node's home.
        logins, logins_failed: Clients that said who they are, and that were not let in.
    """

    def __init__(self) -> None:
        self.received: i64 = 0
        self.with_confirms: i64 = 0
        self.routed: i64 = 0
        self.sizes: MessageSizes = MessageSizes()
        self.served: dict[str, ServedTraffic] = {}
        self.exchanges: dict[tuple[str, str], ExchangeTraffic] = {}
        self.deaths: dict[tuple[str, bool], DeathTraffic] = {}
        self.connections_opened: i64 = 0
        self.connections_closed: i64 = 0
        self.channels_opened: i64 = 0
        self.channels_closed: i64 = 0
        self.queues_declared: i64 = 0
        self.queues_created: i64 = 0
        self.queues_deleted: i64 = 0
        self.logins: i64 = 0
        self.logins_failed: i64 = 0

    def of_type(self, queue_type: QueueType) -> ServedTraffic:
        """What was got of queues of a type."""
        found = self.served.get(queue_type.name)
        if found is None:
            found = self.served[queue_type.name] = ServedTraffic()
        return found

    def of_exchange(self, vhost: str, name: str) -> ExchangeTraffic:
        """What was published through an exchange."""
        found = self.exchanges.get((vhost, name))
        if found is None:
            if len(self.exchanges) >= EXCHANGES_MAX:
                for each in self.exchanges.values():
                    each.forgotten = True
                self.exchanges.clear()
            found = self.exchanges[(vhost, name)] = ExchangeTraffic()
        return found

    def forget_exchange(self, vhost: str, name: str) -> None:
        """Count anew what is published through an exchange of a name: the former one is gone."""
        gone = self.exchanges.pop((vhost, name), None)
        if gone is not None:
            gone.forgotten = True

    def forget_vhost(self, vhost: str) -> None:
        """The same of all exchanges of a vhost."""
        for of, name in list(self.exchanges):
            if of == vhost:
                self.forget_exchange(of, name)

    def of_deaths(self, queue_type: QueueType, kept: bool) -> DeathTraffic:
        """What died in queues of a type; kept there until it was elsewhere, or not."""
        key = (queue_type.name, kept)
        found = self.deaths.get(key)
        if found is None:
            found = self.deaths[key] = DeathTraffic()
        return found
