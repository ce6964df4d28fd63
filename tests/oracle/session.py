"""Plays one scenario against a broker and writes down what the broker said, comparably.

A transcript holds, for each connection and channel, the events in the order in which they came.
Nothing is recorded about the order between channels: no broker promises one. What differs from run
to run without meaning is rewritten by the rules of `normal.py`.
"""

from __future__ import annotations

import time
from typing import Any

from tests.clients.raw import CONTENT, Closed, Event, RawClient
from tests.oracle.normal import Normal
from tests.support.patience import patient

WAIT_S = patient(10.0)
AGAIN_S = patient(1.0)
"""How long a returned message may take to come again, where it may also be dropped."""
SILENCE_S = 0.15
NOT_YET = "is not supported yet by this version of Warren"
"""How Warren names what it refuses because it is not there yet."""


class NotYet(Exception):
    """Warren named something of a scenario as not there yet."""


class Session:
    """What a scenario talks to: connections by letter, channels by number, and the transcript.

    Args:
        address: Host and port of the broker.
        lacking: Whether to raise NotYet as soon as the broker says that something is not there yet.

    Attributes:
        given: Which of many values the next events are about, for who reads the transcript.
    """

    def __init__(self, address: tuple[str, int], lacking: bool = False) -> None:
        self.address = address
        self.clients: dict[str, RawClient] = {}
        self.transcript: dict[str, list[Any]] = {}
        self._lacking = lacking
        self._normal = Normal()
        self.given: object = None
        self.opened: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {}
        self.closed: set[tuple[str, int]] = set()
        self.lost: set[str] = set()
        self.queues: list[str] = []
        self.exchanges: list[str] = []

    # What scenarios call

    def open(self, who: str = "a", *channels: int, **options: Any) -> RawClient:
        """Open a connection named `who` with its channels (1 when none is given)."""
        client = RawClient(self.address)
        self.clients[who] = client
        self.opened[who] = (channels or (1,), options)
        client.open(channels=channels or (1,), **options)
        return client

    def bare(self, who: str = "a") -> RawClient:
        """Connect the socket only."""
        self.clients[who] = RawClient(self.address)
        return self.clients[who]

    def call(self, channel: int, method: str, /, who: str = "a", **args: Any) -> Event | None:
        """Send a method and record the next event of its channel.

        What an earlier error closed, channel or connection, is opened again first, unrecorded.
        """
        self._ready(who, channel, method)
        self._remember(method, args)
        self.clients[who].send(channel, method, **args)
        return self.take(channel, who=who)

    def send(self, channel: int, method: str, /, who: str = "a", **args: Any) -> None:
        """Send a method and record nothing."""
        self._ready(who, channel, method)
        self._remember(method, args)
        self.clients[who].send(channel, method, **args)

    def queue(
        self,
        name: str = "o.q",
        arguments: dict[str, Any] | None = None,
        channel: int = 1,
        who: str = "a",
        **flags: bool,
    ) -> Event | None:
        """Declare a queue, durable where nothing else is said, and record the answer."""
        flags.setdefault("durable", True)
        return self.call(
            channel, "queue.declare", who, queue=name, arguments=arguments or {}, **flags
        )

    def put(self, queue: str, *bodies: bytes, **properties: Any) -> None:
        """Publish to an empty queue, persistent, and wait until all is ready; record nothing."""
        for body in bodies:
            self.publish(1, "", queue, body, {"delivery_mode": 2, **properties})
        self.until(queue, len(bodies))

    def get(self, queue: str = "o.q", channel: int = 1, who: str = "a", **flags: bool) -> int:
        """Get a message and record the answer; gives its delivery tag, 0 for none."""
        event = self.call(channel, "basic.get", who, queue=queue, **flags)
        return int(event.args.get("delivery_tag", 0)) if event is not None else 0

    def drain(self, *queues: str) -> None:
        """Get and record, with automatic acknowledgement, all that queues hold."""
        for queue in queues:
            while self.get(queue, no_ack=True):
                pass

    def publish(
        self,
        channel: int,
        exchange: str,
        routing_key: str,
        body: bytes = b"",
        properties: dict[str, Any] | None = None,
        who: str = "a",
        **flags: bool,
    ) -> None:
        """Send one message."""
        self._ready(who, channel, "basic.publish")
        self.clients[who].publish(channel, exchange, routing_key, body, properties, **flags)

    def take(
        self, channel: int, count: int = 1, who: str = "a", wait_s: float = WAIT_S
    ) -> Event | None:
        """Record the next `count` events of a channel; answer closes as a client must."""
        client, event = self.clients[who], None
        for _ in range(count):
            try:
                event = client.next(channel, wait_s)
            except Closed:
                self._record(who, channel, "socket closed")
                self.lost.add(who)
                return None
            except TimeoutError:
                self._record(who, channel, "no answer")
                return None
            self._event(who, event)
            if self._ended(who, event) and event.name == "connection.close":
                return event
        return event

    def take_any(self, channel: int, count: int, who: str = "a") -> None:
        """Record the next `count` events of a channel by kind, each kind in its order.

        For what comes from a queue and from the channel itself, in whichever order.
        """
        events = sorted(
            (self.clients[who].next(channel, WAIT_S) for _ in range(count)),
            key=lambda event: event.name,
        )
        for event in events:
            self._event(who, event)

    def confirmed(self, channel: int, count: int, who: str = "a") -> None:
        """Record which of the next `count` publishes are confirmed, and what else comes first."""
        outcome: dict[int, str] = {}
        client = self.clients[who]
        while len(outcome) < count:
            event = client.next(channel, WAIT_S)
            if event.name not in ("basic.ack", "basic.nack"):
                self._event(who, event)
                if self._ended(who, event):
                    return
                continue
            tag = event.args["delivery_tag"]
            tags = range(1, tag + 1) if event.args["multiple"] else (tag,)
            low = getattr(client, "confirmed_tags", set())
            for each in tags:
                if each not in low:
                    outcome[each] = event.name
            client.confirmed_tags = low | set(tags)  # type: ignore[attr-defined]
        self._record(who, channel, {"confirmed": {str(k): outcome[k] for k in sorted(outcome)}})

    def quiet(self, channel: int, who: str = "a", answer: bool = False) -> None:
        """Record that nothing comes for a while, or what does; `answer` closes as a client must."""
        client, end = self.clients[who], time.monotonic() + SILENCE_S
        while True:
            try:
                event = client.next(channel, max(0.0, end - time.monotonic()))
            except TimeoutError:
                self._record(who, channel, "quiet")
                return
            except Closed:
                self._record(who, channel, "socket closed")
                return
            self._event(who, event)
            if answer and self._ended(who, event) and event.name == "connection.close":
                return

    def gone(self, who: str = "a") -> None:
        """Record that the broker closes the socket."""
        try:
            self.clients[who].wait_closed(WAIT_S)
            self._record(who, 0, "socket closed")
        except TimeoutError:
            self._record(who, 0, "socket left open")

    def until(self, queue: str, ready: int, channel: int = 9, who: str = "watch") -> None:
        """Wait, unrecorded, until a queue is there and has so many ready messages."""
        if who not in self.clients:
            self.open(who, channel)
        end, client = time.monotonic() + WAIT_S, self.clients[who]
        while time.monotonic() < end:
            reply = client.call(channel, "queue.declare", queue=queue, passive=True)
            if reply.name == "channel.close":
                client.send(channel, "channel.close-ok")
                client.ask(channel, "channel.open")
            elif reply.args["message_count"] == ready:
                return
            self._look()
            time.sleep(0.01)
        self._record(who, channel, f"{queue} never had {ready} ready")

    def until_settled(self, queue: str) -> None:
        """Wait, unrecorded, until a queue's number of ready messages stands still for a while."""
        if "watch" not in self.clients:
            self.open("watch", 9)
        client, seen, since = self.clients["watch"], -1, time.monotonic()
        while time.monotonic() - since < SILENCE_S:
            reply = client.ask(9, "queue.declare", queue=queue, passive=True)
            if reply.args["message_count"] != seen:
                seen, since = reply.args["message_count"], time.monotonic()
            time.sleep(0.02)

    def until_unused(self, queue: str, seconds: float) -> None:
        """Leave a queue alone, at most so long, until a passive declare that follows misses it.

        Whoever declares it, if only passively, may keep it alive: it is asked for seldom.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(1.0)
            self._look()
            with RawClient(self.address) as client:
                client.open(channels=(1,))
                reply = client.call(1, "queue.declare", queue=queue, passive=True)
            if reply.name == "channel.close":
                return

    def until_gone(self, queue: str, channel: int = 9, who: str = "watch") -> None:
        """Wait, unrecorded, until there is no such queue."""
        if who not in self.clients:
            self.open(who, channel)
        end, client = time.monotonic() + WAIT_S, self.clients[who]
        while time.monotonic() < end:
            reply = client.call(channel, "queue.declare", queue=queue, passive=True)
            if reply.name == "channel.close":
                client.send(channel, "channel.close-ok")
                client.ask(channel, "channel.open")
                if reply.args["reply_code"] == 404:
                    return
            time.sleep(0.01)
        self._record(who, channel, f"{queue} did not go")

    def leave(self, who: str = "a") -> None:
        """Close a connection politely and forget it."""
        self.clients.pop(who).close()

    def cut(self, who: str = "a") -> None:
        """Drop a connection without a word."""
        self.clients.pop(who).socket.close()

    def note(self, what: Any) -> None:
        """Record something the scenario worked out."""
        self._record("a", 0, what)

    # Inside

    def _look(self) -> None:
        """Record what has come and says that something is not there yet."""
        if not self._lacking:
            return
        for who, client in self.clients.items():
            client.quiet(0.001)
            for event in client.waiting:
                if NOT_YET in event.args.get("reply_text", ""):
                    self._event(who, event)

    def _ended(self, who: str, event: Event) -> bool:
        """Answer a close of a channel or a connection as a client must."""
        if event.name == "channel.close":
            self.clients[who].send(event.channel, "channel.close-ok")
            self.closed.add((who, event.channel))
            return True
        if event.name == "connection.close":
            self.clients[who].send(0, "connection.close-ok")
            self.gone(who)
            self.lost.add(who)
            return True
        return False

    def _ready(self, who: str, channel: int, method: str) -> None:
        if who in self.lost and who in self.opened:
            self.lost.discard(who)
            self.closed = {place for place in self.closed if place[0] != who}
            channels, options = self.opened[who]
            self.open(who, *channels, **options)
        if (who, channel) in self.closed:
            self.closed.discard((who, channel))
            if method != "channel.open":
                self.clients[who].ask(channel, "channel.open")

    def _remember(self, method: str, args: dict[str, Any]) -> None:
        if method == "queue.declare" and args.get("queue"):
            self.queues.append(args["queue"])
        if method == "exchange.declare" and not args.get("exchange", "").startswith("amq."):
            self.exchanges.append(args.get("exchange", ""))

    def _record(self, who: str, channel: int, what: Any) -> None:
        self.transcript.setdefault(f"{who}/{channel}", []).append(what)

    def _event(self, who: str, event: Event) -> None:
        entry: dict[str, Any] = {} if self.given is None else {"given": self.given}
        entry["method"] = event.name
        entry.update({k: self._normal.clean(v) for k, v in event.args.items()})
        if event.name in CONTENT:
            entry["body"] = self._normal.clean(event.body)
            entry["properties"] = self._normal.clean(event.properties)
        self._record(who, event.channel, entry)
        if self._lacking and NOT_YET in event.args.get("reply_text", ""):
            raise NotYet(event.args["reply_text"])

    def finish(self) -> None:
        """Close every connection and delete what the scenario declared."""
        for client in self.clients.values():
            client.socket.close()
        with RawClient(self.address) as cleaner:
            cleaner.open()
            channel = 0
            for method, key, names in (
                ("queue.delete", "queue", self.queues),
                ("exchange.delete", "exchange", self.exchanges),
            ):
                for name in dict.fromkeys(names):
                    self._delete(cleaner, channel := channel + 1, method, {key: name})

    @staticmethod
    def _delete(cleaner: RawClient, channel: int, method: str, args: dict[str, Any]) -> None:
        """Delete once; a queue still held by a connection just dropped is tried again."""
        end = time.monotonic() + WAIT_S
        while True:
            cleaner.ask(channel, "channel.open")
            event = cleaner.call(channel, method, **args)
            if event.name != "channel.close":
                cleaner.ask(channel, "channel.close")
                return
            cleaner.send(channel, "channel.close-ok")
            if event.args["reply_code"] != 405 or time.monotonic() > end:
                return
            time.sleep(0.02)
