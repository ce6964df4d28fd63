"""Publishers and consumers in threads of their own, which note all that they were promised."""

from __future__ import annotations

import itertools
import select
import threading
from collections import Counter

from tests.clients.raw import Closed, Event, RawClient
from tests.clients.support import eventually
from tests.cluster.nodes import WAIT_S, Node

WINDOW = 100
PREFETCH = 50
PATIENCE_S = 30.0


class Publisher(threading.Thread):
    """Publishes `name:number` with confirms, a window at a time, until it is told to stop.

    Attributes:
        sent: How many were given to the socket, the last perhaps in part.
        confirmed: The numbers that were confirmed.
        broken: Whether the connection was lost.
        surprise: What came instead of a confirm.
    """

    def __init__(self, node: Node, queue: str, name: str) -> None:
        super().__init__(daemon=True)
        self.name, self.queue = name, queue
        self.client = RawClient(node.address).open(channels=[1])
        self.client.ask(1, "confirm.select")
        self.sent = 0
        self.confirmed: set[int] = set()
        self.broken = False
        self.surprise: Event | None = None
        self._stop_now = threading.Event()

    def run(self) -> None:
        """Publish."""
        low = 0
        try:
            while not self._stop_now.is_set() or len(self.confirmed) < self.sent:
                if not self._stop_now.is_set():
                    self._fill()
                event = self.client.next(1, PATIENCE_S)
                if event.name != "basic.ack":
                    self.surprise = event
                    return
                tag = event.args["delivery_tag"]
                if event.args["multiple"]:
                    self.confirmed.update(range(low + 1, tag + 1))
                    low = tag
                else:
                    self.confirmed.add(tag)
        except (Closed, OSError):
            self.broken = True

    def _fill(self) -> None:
        first, last = self.sent + 1, len(self.confirmed) + WINDOW
        self.sent = max(last, self.sent)
        body = b"".join(
            self.client.publish_bytes(
                1, "", self.queue, b"%s:%d" % (self.name.encode(), number), {"delivery_mode": 2}
            )
            for number in range(first, last + 1)
        )
        self.client.send_bytes(body)

    def stop(self) -> None:
        """Publish no more, and wait for what is not confirmed."""
        self._stop_now.set()
        self.join(PATIENCE_S + 5)
        assert not self.is_alive()
        self.client.socket.close()

    def goes_on(self, count: int = 200) -> None:
        """Wait until so many more are confirmed on the same channel."""
        wanted = len(self.confirmed) + count
        eventually(lambda: self.broken or len(self.confirmed) >= wanted, WAIT_S)
        self.check()

    def check(self) -> None:
        """Its channel is open."""
        assert not self.broken and self.surprise is None, self.surprise


class Consumer(threading.Thread):
    """Takes and acknowledges messages until it is told to stop.

    Attributes:
        got: Bodies with whether they were marked as redelivered, in order.
        broken, surprise: As for publishers.
    """

    def __init__(self, node: Node, queue: str) -> None:
        super().__init__(daemon=True)
        self.client = RawClient(node.address).open(channels=[1])
        self.client.ask(1, "basic.qos", prefetch_count=PREFETCH)
        self.client.ask(1, "basic.consume", queue=queue, consumer_tag="c")
        self.got: list[tuple[bytes, bool]] = []
        self.broken = False
        self.surprise: Event | None = None
        self._stop_now = threading.Event()

    def run(self) -> None:
        """Consume."""
        try:
            while not self._stop_now.is_set():
                if not self.client.buffer and not self.client.waiting:
                    if not select.select([self.client.socket], [], [], 0.1)[0]:
                        continue
                event = self.client.next(1, PATIENCE_S)
                if event.name != "basic.deliver":
                    self.surprise = event
                    return
                self.got.append((event.body, event.args["redelivered"]))
                self.client.send(1, "basic.ack", delivery_tag=event.args["delivery_tag"])
        except (Closed, OSError):
            self.broken = True

    def stop(self) -> None:
        """Consume no more. What it had was acknowledged, if its node was there to hear it."""
        self._stop_now.set()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if not self.broken:
            # An answer says that the acknowledgements before it were read.
            self.client.send(1, "basic.cancel", consumer_tag="c")
            while (event := self.client.next(1)).name == "basic.deliver":
                pass
            assert event.name == "basic.cancel-ok", event
            self.client.ask(1, "channel.close", reply_code=200)
        self.client.socket.close()

    def goes_on(self, count: int = 200) -> None:
        """Wait until so many more have come on the same channel."""
        wanted = len(self.got) + count
        eventually(lambda: self.broken or len(self.got) >= wanted, WAIT_S)
        self.check()

    def gets(self, count: int) -> None:
        """Wait until it has so many, and never long for the next ones.

        How many there are depends on how fast the machine was before.
        """
        while len(self.got) < count:
            self.goes_on(min(200, count - len(self.got)))

    def check(self) -> None:
        """Its channel is open."""
        assert not self.broken and self.surprise is None, self.surprise


def all_taken(publishers: list[Publisher], consumers: list[Consumer]) -> bool:
    """Whether all that was confirmed has come: what is handed out may be on its way yet."""
    return promised(publishers) <= {body for each in consumers for body, _ in list(each.got)}


def promised(publishers: list[Publisher]) -> set[bytes]:
    """The bodies of all messages that were confirmed."""
    return {
        b"%s:%d" % (publisher.name.encode(), number)
        for publisher in publishers
        for number in publisher.confirmed
    }


def check_books(publishers: list[Publisher], consumers: list[Consumer]) -> None:
    """Nothing confirmed was lost, nothing invented, and nothing doubled without a mark."""
    first: Counter[bytes] = Counter()
    every: set[bytes] = set()
    for consumer in consumers:
        for body, redelivered in consumer.got:
            every.add(body)
            if not redelivered:
                first[body] += 1
        for publisher in publishers:
            mark = publisher.name.encode() + b":"
            numbers = [
                int(body[len(mark) :])
                for body, redelivered in consumer.got
                if not redelivered and body.startswith(mark)
            ]
            late = [two for one, two in itertools.pairwise(numbers) if two < one]
            names = [mark + b"%d" % number for number in late]
            everywhere = [
                (place, place_in_row, *delivery)
                for place, other in enumerate(consumers)
                for place_in_row, delivery in enumerate(other.got)
                if delivery[0] in names
            ]
            assert not late, f"late, of {len(numbers)}: (consumer, place, body, again) {everywhere}"
    sent = {
        b"%s:%d" % (publisher.name.encode(), number)
        for publisher in publishers
        for number in range(1, publisher.sent + 1)
    }
    assert not every - sent, "invented"
    lost = promised(publishers) - every
    assert not lost, f"{len(lost)} confirmed messages were lost, such as {sorted(lost)[:5]}"
    doubled = [body for body, count in first.items() if count > 1]
    assert not doubled, f"delivered twice without a mark: {doubled[:5]}"
