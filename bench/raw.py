"""A client in bytes, for what the load generator cannot do and a client library is too slow for.

    python -m bench.raw publish HOST:PORT QUEUE [--window 256] [--size 1024]
    python -m bench.raw take    HOST:PORT QUEUE [--prefetch 256]    acks each message
    python -m bench.raw reject  HOST:PORT QUEUE [--prefetch 2000]   all that came, for good
    python -m bench.raw probe   HOST:PORT QUEUE [--rate 1000]       publishes, takes, tells delays
    python -m bench.raw speed                                       how fast this client is itself

Each is a process with one connection (a probe has two). `--begin` and `--end` say when to count, in
seconds of the monotonic clock, which all processes of a machine share; without them it is 10
seconds from the start. `--count` ends it after as many messages. All end with one JSON object, a
probe's has each message's time of publishing and its delay. Queues are there already.

Messages are encoded once, each with properties of its own, and many go out in one call, as far as
the window of unconfirmed ones allows. What comes is walked from frame to frame by their headers.
So this client is not what bounds a broker: `speed`, messages of 1 KB over a pair of sockets, shows
1,000,000 published, 1,250,000 taken and acked one by one, or 1,600,000 rejected in a second of its
processor time (AMD EPYC, CPython 3.11).
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from pika import frame, spec

BLOCK = 4_096
"""Messages that differ; the next ones are the same again."""
RECEIVE_BYTES = 1 << 20
SPEED_MESSAGES = 1_000_000
FOREVER = 1e18
BOUND_SECONDS = 600.0

HEAD = struct.Struct(">BHI")
METHOD_ID = struct.Struct(">I")
TAG = struct.Struct(">Q")
CONTENT = struct.Struct(">IQB")
ACK = struct.Struct(">BHIIQBB")
NACK = struct.Struct(">BHIIQBB")
STAMP = struct.Struct(">d")

CHANNEL = 1
FRAME_METHOD = 1
FRAME_END = 0xCE
OVERHEAD = 8
"""Of a frame: seven bytes before what it carries, and one behind."""
ACK_ID = 60 << 16 | 80
NACK_ID = 60 << 16 | 120
DELIVER_ID = 60 << 16 | 60
MULTIPLE = 1
"""Of a nack with these bits alone, messages do not come back."""


class Closed(Exception):
    """The broker has closed the connection or the channel."""


class Reader:
    """Counts what a broker sends, by walking over its frames.

    Attributes:
        deliveries: How many messages came.
        last_tag: The delivery tag of the last of them.
        confirmed, refused: Publishes that the broker acked, and nacked.
        answer: The last method that is none of these, decoded.
        bodies: What is told of each body that came, where it is set.
    """

    def __init__(self) -> None:
        self.deliveries = 0
        self.last_tag = 0
        self.confirmed = 0
        self.refused = 0
        self.answer: Any = None
        self.bodies: Callable[[bytes], None] | None = None
        self._buffer = bytearray(2 * RECEIVE_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._answered = 0
        self._ahead: set[int] = set()

    def receive(self, stream: socket.socket) -> None:
        """Take what a socket has, and count it."""
        count = stream.recv_into(self._view[self._filled : self._filled + RECEIVE_BYTES])
        if not count:
            raise Closed("the connection is gone")
        end = self._filled + count
        at = self._walk(end)
        self._filled = end - at
        if at and self._filled:
            self._buffer[: self._filled] = self._buffer[at:end]
        if self._filled > RECEIVE_BYTES:
            raise Closed("a frame is too large for this client")

    def _walk(self, end: int) -> int:
        """Count whole frames; gives where the rest begins."""
        data, at, last = self._buffer, 0, -1
        head, method_id = HEAD.unpack_from, METHOD_ID.unpack_from
        deliveries = 0
        while at + OVERHEAD <= end:
            kind, _, size = head(data, at)
            after = at + size + OVERHEAD
            if after > end:
                break
            if kind == FRAME_METHOD:
                (method,) = method_id(data, at + 7)
                if method == DELIVER_ID:
                    deliveries += 1
                    last = at
                elif method == ACK_ID or method == NACK_ID:
                    (tag,) = TAG.unpack_from(data, at + 11)
                    self._settle(tag, bool(data[at + 19] & MULTIPLE), method == ACK_ID)
                else:
                    self._method(bytes(data[at:after]))
            elif kind == 3 and self.bodies is not None:
                self.bodies(bytes(data[at + 7 : after - 1]))
            at = after
        if deliveries:
            self.deliveries += deliveries
            (self.last_tag,) = TAG.unpack_from(data, last + 12 + data[last + 11])
        return at

    def _settle(self, tag: int, multiple: bool, confirmed: bool) -> None:
        """Count the publishes that an answer is for."""
        if not multiple:
            count = 1
            self._ahead.add(tag)
        else:
            count = 0
            for each in range(self._answered + 1, tag + 1):
                if each not in self._ahead:
                    self._ahead.add(each)
                    count += 1
        while self._answered + 1 in self._ahead:
            self._answered += 1
            self._ahead.remove(self._answered)
        if confirmed:
            self.confirmed += count
        else:
            self.refused += count

    def _method(self, data: bytes) -> None:
        _, found = frame.decode_frame(data)
        self.answer = found.method
        if isinstance(self.answer, (spec.Connection.Close, spec.Channel.Close)):
            raise Closed(f"{self.answer.reply_code} {self.answer.reply_text}")
        if isinstance(self.answer, spec.Basic.Cancel):
            raise Closed("the queue is gone")


class Link(Reader):
    """A connection with one channel."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self.stream = socket.create_connection((host, port), BOUND_SECONDS)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream.sendall(frame.ProtocolHeader().marshal())
        self._await(spec.Connection.Start)
        self._send(
            0,
            spec.Connection.StartOk(
                client_properties={
                    "product": "bench.raw",
                    "capabilities": {"publisher_confirms": True, "basic.nack": True},
                },
                mechanism="PLAIN",
                response="\0guest\0guest",
                locale="en_US",
            ),
        )
        tune = self._await(spec.Connection.Tune)
        self.frame_max = tune.frame_max
        self._send(0, spec.Connection.TuneOk(tune.channel_max, tune.frame_max, 0))
        self._send(0, spec.Connection.Open("/"))
        self._await(spec.Connection.OpenOk)
        self.call(spec.Channel.Open(), spec.Channel.OpenOk)

    def call(self, request: Any, answer: type) -> Any:
        """Send a request on the channel and wait for its answer."""
        self._send(CHANNEL, request)
        return self._await(answer)

    def cast(self, requests: list[Any]) -> None:
        """Send requests that have no answer."""
        self.stream.sendall(b"".join(frame.Method(CHANNEL, each).marshal() for each in requests))

    def consume(self, queue: str, prefetch: int) -> None:
        """Have messages of a queue delivered, as many as that before they are settled."""
        self.call(spec.Basic.Qos(prefetch_count=prefetch), spec.Basic.QosOk)
        self.call(spec.Basic.Consume(queue=queue), spec.Basic.ConsumeOk)

    def close(self) -> None:
        """Leave politely: a broker that loses a connection looks after it."""
        self.stream.settimeout(BOUND_SECONDS)
        self._send(0, spec.Connection.Close(200, "", 0, 0))
        self._await(spec.Connection.CloseOk)
        self.stream.close()

    def _send(self, channel: int, request: Any) -> None:
        self.stream.sendall(frame.Method(channel, request).marshal())

    def _await(self, answer: type) -> Any:
        self.answer = None
        while not isinstance(self.answer, answer):
            self.receive(self.stream)
        return self.answer


class Messages:
    """Publishes to a queue, encoded once: any run of them lies in one piece."""

    def __init__(self, queue: str, size: int, frame_max: int, count: int = BLOCK) -> None:
        parts: list[bytes] = []
        self._ends = [0]
        for number in range(2 * count):
            parts.append(publish(queue, number % count, bytes(size), frame_max))
            self._ends.append(self._ends[-1] + len(parts[-1]))
        self._data = memoryview(b"".join(parts))
        self._count = count
        self._next = 0

    def run(self, count: int) -> memoryview:
        """The next messages, at most as many as there are."""
        first = self._next
        self._next = (first + count) % self._count
        return self._data[self._ends[first] : self._ends[first + count]]


def publish(queue: str, number: int, body: bytes, frame_max: int) -> bytes:
    """One publish, with properties as applications send them."""
    properties = spec.BasicProperties(
        content_type="application/json",
        headers={"tenant": "north-7", "attempt": 1},
        delivery_mode=2,
        correlation_id=f"{os.getpid():08}-0000-0000-{number:016}",
        message_id=f"{os.getpid():08}-0001-0000-{number:016}",
        timestamp=1_700_000_000 + number,
    )
    frames = [
        frame.Method(CHANNEL, spec.Basic.Publish(exchange="", routing_key=queue)),
        frame.Header(CHANNEL, len(body), properties),
    ]
    most = frame_max - OVERHEAD
    frames += [frame.Body(CHANNEL, body[at : at + most]) for at in range(0, len(body), most)]
    return b"".join(each.marshal() for each in frames)


def acks(first: int, last: int) -> bytes:
    """An ack for each of these messages."""
    pack = ACK.pack
    return b"".join(
        [
            pack(FRAME_METHOD, CHANNEL, 13, ACK_ID, tag, 0, FRAME_END)
            for tag in range(first, last + 1)
        ]
    )


def nack(last: int) -> bytes:
    """A nack of all messages until this one, which are not to come back."""
    return NACK.pack(FRAME_METHOD, CHANNEL, 13, NACK_ID, last, MULTIPLE, FRAME_END)


class Span:
    """The time that counts, and what was counted when it began and ended."""

    def __init__(self, begin: float, end: float, counts: Callable[[], tuple[int, ...]]) -> None:
        self.begin = begin
        self.end = end
        self._counts = counts
        self._first: tuple[float, float, tuple[int, ...]] | None = None
        self._last = self._look()

    def _look(self) -> tuple[float, float, tuple[int, ...]]:
        return time.monotonic(), time.process_time(), self._counts()

    def over(self) -> bool:
        """Note how far it is; whether it is over."""
        now = time.monotonic()
        if self._first is None and now >= self.begin:
            self._first = self._look()
        return now >= self.end

    def told(self) -> dict[str, float]:
        """Counts of the whole, rates of the time that counts."""
        began, cpu, first = self._first or self._last
        ended, cpu_after, last = self._look()
        seconds = max(1e-9, ended - began)
        names = ("confirmed", "refused", "consumed")
        found: dict[str, float] = dict(zip(names, last, strict=True))
        rates = ("confirm_rate", "refuse_rate", "con_rate")
        for name, before, after in zip(rates, first, last, strict=True):
            found[name] = round((after - before) / seconds)
        return found | {"secs": round(seconds, 3), "gen_cpu": round((cpu_after - cpu) / seconds, 2)}


def wait(link: Link, seconds: float) -> None:
    """Take what comes, if anything comes in so many seconds."""
    link.stream.settimeout(max(0.001, min(seconds, 0.1)))
    try:
        link.receive(link.stream)
    except TimeoutError:
        return


def run_publish(words: argparse.Namespace, link: Link, span: Span) -> None:
    """Publish as fast as the window allows."""
    messages = Messages(words.queue, words.size, link.frame_max)
    link.call(spec.Confirm.Select(), spec.Confirm.SelectOk)
    sent, answered = 0, 0
    while not span.over() and answered < words.count:
        room = min(words.window - (sent - answered), words.count - sent)
        if room > 0:
            link.stream.settimeout(BOUND_SECONDS)
            link.stream.sendall(messages.run(room))
            sent += room
        wait(link, span.end - time.monotonic())
        answered = link.confirmed + link.refused


def run_take(words: argparse.Namespace, link: Link, span: Span) -> None:
    """Take messages, and ack each of them or reject them."""
    link.consume(words.queue, words.prefetch)
    settled = 0
    while not span.over() and settled < words.count:
        wait(link, span.end - time.monotonic())
        last = link.last_tag
        if last > settled:
            link.stream.settimeout(BOUND_SECONDS)
            rejects = words.what == "reject"
            link.stream.sendall(nack(last) if rejects else acks(settled + 1, last))
            settled = last


def run_probe(words: argparse.Namespace) -> dict[str, Any]:
    """Publish at a fixed rate and take, until the standard input ends; tells each delay."""
    sends, takes = Link(*words.address), Link(*words.address)
    found: list[tuple[float, float]] = []

    def came(body: bytes) -> None:
        (sent,) = STAMP.unpack_from(body)
        found.append((sent, time.monotonic() - sent))

    takes.bodies = came
    takes.consume(words.queue, words.prefetch)
    model = publish(words.queue, 0, bytes(words.size), sends.frame_max)
    before = model[: -1 - words.size]
    after = bytes(words.size - STAMP.size) + bytes([FRAME_END])
    ready = selectors.DefaultSelector()
    ready.register(sends.stream, selectors.EVENT_READ, sends)
    ready.register(takes.stream, selectors.EVENT_READ, takes)
    ready.register(sys.stdin, selectors.EVENT_READ, None)
    settled, sent, ending = 0, 0, False
    due = time.monotonic()
    until = FOREVER
    while time.monotonic() < until and (not ending or takes.deliveries < sent):
        for key, _ in ready.select(max(0.0, due - time.monotonic())):
            if key.data is None:
                ready.unregister(sys.stdin)
                ending, due, until = True, FOREVER, time.monotonic() + BOUND_SECONDS
                due = until
            else:
                key.data.receive(key.data.stream)
        if takes.last_tag > settled:
            takes.stream.sendall(acks(settled + 1, takes.last_tag))
            settled = takes.last_tag
        while not ending and due <= time.monotonic():
            # The stamp is when it was to be sent: what waits for this process counts as delay.
            sends.stream.sendall(before + STAMP.pack(due) + after)
            sent += 1
            due += 1 / words.rate
    sends.close()
    takes.close()
    return {"sent": sent, "delays": found}


# --- how fast this client is --------------------------------------------------------------------


class Loop(Link):
    """A link with a peer that answers at once, in a process of its own."""

    def __init__(self, peer: Callable[[socket.socket], None]) -> None:
        Reader.__init__(self)
        self.stream, theirs = socket.socketpair()
        for each in (self.stream, theirs):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, RECEIVE_BYTES)
        self.frame_max = 131_072
        self._peer = os.fork()
        if not self._peer:
            self.stream.close()
            try:
                peer(theirs)
            except OSError:
                pass
            os._exit(0)
        theirs.close()

    def call(self, request: Any, answer: type) -> Any:
        """Nothing is asked here."""
        return None

    def end(self) -> None:
        """Leave, and wait for the peer's end."""
        self.stream.close()
        os.waitpid(self._peer, 0)


def delivering(stream: socket.socket) -> None:
    """Send messages as a broker delivers them, whatever comes back."""
    asked = len(frame.Method(CHANNEL, spec.Basic.Publish(exchange="", routing_key="q")).marshal())
    contents = [publish("q", number, bytes(1_024), 131_072)[asked:] for number in range(256)]
    deliver = frame.Method(CHANNEL, spec.Basic.Deliver("ctag", 0, False, "", "q")).marshal()
    at = 12 + deliver[11]
    before, after = deliver[:at], deliver[at + TAG.size :]
    stream.setblocking(False)
    ready = selectors.DefaultSelector()
    ready.register(stream, selectors.EVENT_READ | selectors.EVENT_WRITE)
    tag, out = 0, memoryview(b"")
    while True:
        for _, events in ready.select():
            if events & selectors.EVENT_READ and not stream.recv(RECEIVE_BYTES):
                return
            if events & selectors.EVENT_WRITE:
                if not out:
                    parts: list[bytes] = []
                    for content in contents:
                        tag += 1
                        parts += [before, TAG.pack(tag), after, content]
                    out = memoryview(b"".join(parts))
                out = out[stream.send(out) :]


def confirming(stream: socket.socket) -> None:
    """Confirm one publish after the other, as they come."""
    size = len(publish("q", 0, bytes(1_024), 131_072))
    taken, told = 0, 0
    while data := stream.recv(RECEIVE_BYTES):
        taken += len(data)
        if taken // size > told:
            stream.sendall(acks(told + 1, taken // size))
            told = taken // size


def speed() -> dict[str, int]:
    """Messages a second of processor time."""
    rows = {"publish": confirming, "take": delivering, "reject": delivering}
    found = {}
    for what, peer in rows.items():
        words = parsed([what, "h:1", "q", "--count", str(SPEED_MESSAGES)])
        link = Loop(peer)
        span = Span(0.0, FOREVER, lambda: ())
        began = time.process_time()
        (run_publish if what == "publish" else run_take)(words, link, span)
        found[what] = round(SPEED_MESSAGES / (time.process_time() - began))
        link.end()
    return found


def address(text: str) -> tuple[str, int]:
    """Where a broker listens."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """What the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m bench.raw")
    parser.add_argument("what", choices=("publish", "take", "reject", "probe", "speed"))
    parser.add_argument("address", type=address, nargs="?", metavar="HOST:PORT")
    parser.add_argument("queue", nargs="?")
    parser.add_argument("--size", type=int, default=1_024)
    parser.add_argument("--window", type=int, default=256, help="unconfirmed publishes")
    parser.add_argument("--prefetch", type=int)
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--begin", type=float, help="when to count from")
    parser.add_argument("--end", type=float, help="when to end")
    parser.add_argument(
        "--count", type=int, default=sys.maxsize, help="messages after which to end"
    )
    words = parser.parse_args(arguments)
    if words.what != "speed" and not words.queue:
        parser.error("where, and which queue?")
    if words.prefetch is None:
        words.prefetch = 2_000 if words.what == "reject" else 256
    words.window = min(words.window, BLOCK)
    return words


def main() -> int:
    """Do what is asked for, and tell in JSON what came of it."""
    words = parsed()
    if words.what == "speed":
        print(json.dumps(speed()))
        return 0
    if words.what == "probe":
        print(json.dumps(run_probe(words)))
        return 0
    link = Link(*words.address)
    begin = time.monotonic() if words.begin is None else words.begin
    end = begin + 10.0 if words.end is None else words.end
    span = Span(begin, end, lambda: (link.confirmed, link.refused, link.deliveries))
    (run_publish if words.what == "publish" else run_take)(words, link, span)
    told = span.told()
    link.close()
    print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
