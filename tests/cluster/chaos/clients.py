"""Clients that go on through every fault, and write down what happens to them.

Each is a thread that connects, works until its connection is lost or does nothing for too long,
and connects again, to another node if there is no getting through to its own. Publishers connect
anew after a while in any case, so that they are where they belong when their node is back. A
connection is a process of its own in the history, and a publisher of its own: no message is
published twice.
"""

from __future__ import annotations

import asyncio
import random
import select
import threading
import time
from collections.abc import Sequence

import aio_pika
import pika
import pika.exceptions
from aio_pika.exceptions import AMQPError, DeliveryError
from pika.adapters.select_connection import SelectConnection
from pika.adapters.utils.connection_workflow import AMQPConnectorException

from sim.history.events import History, Log, body_of, read_body
from tests.clients.raw import Closed, RawClient

CONNECT_S = 3.0
HEARTBEAT_S = 5
STALL_S = 10.0
"""A publisher without an answer for so long tries another node."""
PAUSE_S = 0.2
LIFE_S = 20.0
"""A publisher's connection publishes for so long."""
PREFETCH = 100
BEHIND_MAX = 20_000
"""Publishers wait while so many confirmed messages were not delivered."""
PERSISTENT = 2


class Work:
    """What all clients share.

    Attributes:
        pace: What the rates of publishers are multiplied by.
        confirmed, delivered: How many messages, roughly: all threads add to them.
        stopping: Set when publishers are to come to an end.
        over: Set when consumers are to.
    """

    def __init__(
        self, history: History, nodes: Sequence[tuple[str, int]], seed: int, pace: float = 1.0
    ) -> None:
        self.history = history
        self.nodes = list(nodes)
        self.seed = seed
        self.pace = pace
        self.confirmed = 0
        self.delivered = 0
        self.stopping = threading.Event()
        self.over = threading.Event()

    def waits(self) -> bool:
        """Whether consumers are too far behind."""
        return self.confirmed - self.delivered > BEHIND_MAX


class Client(threading.Thread):
    """One client.

    Attributes:
        done: Confirms or deliveries so far.
    """

    def __init__(self, work: Work, name: str, queue: str, home: int, end: threading.Event) -> None:
        super().__init__(daemon=True, name=name)
        self.work, self.queue, self.end = work, queue, end
        self.done = 0
        self.home = self.node = work.nodes[home % len(work.nodes)]
        self.log: Log = work.history.log(f"{name}.0")
        self.failure: BaseException | None = None
        self._dice = random.Random(f"{work.seed} {name}")
        self._lives = 0

    @property
    def process(self) -> str:
        """The present connection."""
        return self.log.process

    def run(self) -> None:
        """Live until the end."""
        try:
            while not self.end.is_set():
                self._lives += 1
                self.log.close()
                self.log = self.work.history.log(f"{self.name}.{self._lives}")
                before = self.done
                self.live()
                lost = self.done == before
                self.node = self._dice.choice(self.work.nodes) if lost else self.home
                if not self.end.is_set():
                    self.end.wait(PAUSE_S)
        except BaseException as error:
            self.failure = error
            raise

    def live(self) -> None:
        """Connect and work until the connection is lost."""
        raise AssertionError("a client defines live")

    def surprised(self, what: object) -> None:
        """A channel or connection was closed for some reason."""
        self.log.note("surprise", "info", self.queue, what=str(what)[:200])


class Publisher(Client):
    """Keeps the books of one connection's messages.

    Attributes:
        rate: At most so many messages a second.
        window: At most so many unanswered.
    """

    rate = 500
    window = 100

    def __init__(self, work: Work, name: str, queue: str, home: int) -> None:
        super().__init__(work, name, queue, home, work.stopping)
        self.sent = 0
        self.open: set[int] = set()
        self.returned: set[int] = set()
        self._low = 0
        self._began = self._answered = 0.0

    def begin(self) -> None:
        """A channel is open: count from 1."""
        self.sent = self._low = 0
        self.open.clear()
        self.returned.clear()
        self._began = self._answered = time.monotonic()

    def may_send(self) -> int:
        """How many messages may be published now."""
        since_s = time.monotonic() - self._began
        if self.end.is_set() or since_s > LIFE_S or self.work.waits():
            return 0
        due = int(since_s * self.rate * self.work.pace) + 1 - self.sent
        return max(0, min(due, self.window - len(self.open)))

    def next_body(self) -> bytes:
        """Another message is about to be sent."""
        self.sent += 1
        if not self.open:
            self._answered = time.monotonic()
        self.open.add(self.sent)
        self.log.note("publish", "invoke", self.queue, self.process, self.sent)
        return body_of(self.process, self.sent)

    def stalled(self) -> bool:
        """Whether an answer is overdue."""
        return bool(self.open) and time.monotonic() - self._answered > STALL_S

    def finished(self) -> bool:
        """Whether it is to end, or old, and all is answered."""
        aged = time.monotonic() - self._began > LIFE_S
        return (aged or self.end.is_set()) and not self.open

    def came_back(self, body: bytes) -> None:
        """A message was returned: no queue took it."""
        self.returned.add(read_body(body)[1])

    def answered(self, tag: int, multiple: bool, good: bool) -> None:
        """A confirm or its refusal."""
        self._answered = time.monotonic()
        tags = range(self._low + 1, tag + 1) if multiple else (tag,)
        if multiple:
            self._low = tag
        for one in tags:
            if one in self.open:
                self.settled(one, "ok" if good and one not in self.returned else "fail")

    def settled(self, sequence: int, kind: str) -> None:
        """What became of a message is known."""
        self.open.discard(sequence)
        self.log.note("publish", kind, self.queue, self.process, sequence)
        if kind == "ok":
            self.done += 1
            self.work.confirmed += 1

    def lost(self) -> None:
        """The connection is gone: nobody knows about the rest."""
        for sequence in sorted(self.open):
            self.log.note("publish", "info", self.queue, self.process, sequence)
        self.open.clear()


class Consumer(Client):
    """Notes what comes."""

    def __init__(self, work: Work, name: str, queue: str, home: int) -> None:
        super().__init__(work, name, queue, home, work.over)

    def got(self, body: bytes, redelivered: bool) -> None:
        """A message came."""
        publisher, sequence = read_body(body)
        self.log.note("deliver", "ok", self.queue, publisher, sequence, redelivered)
        self.done += 1
        if not redelivered:
            self.work.delivered += 1

    def settles(self, tag: int) -> None:
        """An acknowledgement is about to be sent."""
        self.log.note("settle", "info", self.queue, sequence=tag)


# --- the raw client of these tests --------------------------------------------------------------


class RawPublisher(Publisher):
    """Publishes in bursts."""

    rate = 1_500

    def live(self) -> None:
        """Connect and publish."""
        client = None
        try:
            client = raw(self.node, self.log)
            client.ask(1, "confirm.select")
            self.begin()
            while not self.finished() and not self.stalled():
                self._burst(client)
                self._hear(client)
        except (Closed, OSError, AssertionError) as error:
            self.surprised(type(error).__name__)
        finally:
            self.lost()
            if client is not None:
                client.socket.close()

    def _burst(self, client: RawClient) -> None:
        count = self.may_send()
        if count:
            frames = [
                client.publish_bytes(
                    1,
                    "",
                    self.queue,
                    self.next_body(),
                    {"delivery_mode": PERSISTENT},
                    mandatory=True,
                )
                for _ in range(count)
            ]
            client.send_bytes(b"".join(frames))

    def _hear(self, client: RawClient) -> None:
        while readable(client, 0.02):
            event = client.next(None, STALL_S)
            if event.name == "basic.return":
                self.came_back(event.body)
            elif event.name in ("basic.ack", "basic.nack"):
                good = event.name == "basic.ack"
                self.answered(event.args["delivery_tag"], event.args["multiple"], good)
            else:
                self.surprised(f"{event.name} {event.args.get('reply_text', '')}")
                raise Closed


class RawConsumer(Consumer):
    """Has no heartbeats: it stays with a node that stands still.

    Each message is held until the next one is there, so that whatever comes between the two of
    them has something to give back.
    """

    def live(self) -> None:
        """Connect and consume."""
        client = None
        held = 0
        try:
            client = raw(self.node, self.log)
            client.ask(1, "basic.qos", prefetch_count=PREFETCH)
            client.ask(1, "basic.consume", queue=self.queue, consumer_tag="c")
            while not self.end.is_set():
                if not readable(client, 0.1):
                    continue
                event = client.next(None, STALL_S)
                if event.name != "basic.deliver":
                    self.surprised(f"{event.name} {event.args.get('reply_text', '')}")
                    raise Closed
                self.got(event.body, event.args["redelivered"])
                if held:
                    self.settles(held)
                    client.send(1, "basic.ack", delivery_tag=held)
                held = event.args["delivery_tag"]
        except (Closed, OSError, AssertionError) as error:
            self.surprised(type(error).__name__)
        finally:
            if client is not None:
                client.socket.close()


def raw(node: tuple[str, int], log: Log) -> RawClient:
    """A connection with a channel."""
    client = RawClient(node)
    try:
        return client.open(channels=[1])
    except BaseException:
        client.socket.close()
        raise


def readable(client: RawClient, wait_s: float) -> bool:
    """Whether something came, or comes soon."""
    if client.waiting or client.buffer:
        return True
    return bool(select.select([client.socket], [], [], wait_s)[0])


# --- pika ---------------------------------------------------------------------------------------


def pika_parameters(node: tuple[str, int]) -> pika.ConnectionParameters:
    """How pika connects."""
    return pika.ConnectionParameters(
        *node,
        heartbeat=HEARTBEAT_S,
        socket_timeout=CONNECT_S,
        stack_timeout=CONNECT_S + 2,
        blocked_connection_timeout=STALL_S,
    )


class PikaPublisher(Publisher):
    """Pika's callbacks."""

    rate = 500

    def live(self) -> None:
        """Connect and publish."""
        connection = SelectConnection(
            pika_parameters(self.node),
            on_open_callback=lambda made: made.channel(on_open_callback=self._opened),
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )
        self._connection = connection
        self.begin()
        connection.ioloop.start()
        self.lost()

    def _opened(self, channel: pika.channel.Channel) -> None:
        channel.add_on_close_callback(self._channel_closed)
        channel.add_on_return_callback(lambda _c, _m, _p, body: self.came_back(body))
        channel.confirm_delivery(self._confirm, lambda _ok: self._turn(channel))

    def _channel_closed(self, _channel: object, error: Exception) -> None:
        if not (self._connection.is_closing or self._connection.is_closed):
            self.surprised(error)
            self._connection.close()

    def _closed(self, connection: SelectConnection, error: object) -> None:
        self.surprised(type(error).__name__)
        connection.ioloop.stop()

    def _confirm(self, frame: pika.frame.Method) -> None:
        method = frame.method
        self.answered(method.delivery_tag, method.multiple, isinstance(method, pika.spec.Basic.Ack))

    def _turn(self, channel: pika.channel.Channel) -> None:
        if not channel.is_open:
            return
        if self.finished() or self.stalled():
            self._connection.close()
            # A node that stands still does not answer that.
            self._connection.ioloop.call_later(CONNECT_S, self._connection.ioloop.stop)
            return
        properties = pika.BasicProperties(delivery_mode=PERSISTENT)
        for _ in range(self.may_send()):
            channel.basic_publish("", self.queue, self.next_body(), properties, mandatory=True)
        self._connection.ioloop.call_later(0.02, lambda: self._turn(channel))


class PikaConsumer(Consumer):
    """Pika's blocking connection."""

    def live(self) -> None:
        """Connect and consume."""
        connection = None
        try:
            connection = pika.BlockingConnection(pika_parameters(self.node))
            channel = connection.channel()
            channel.basic_qos(prefetch_count=PREFETCH)
            for method, _, body in channel.consume(self.queue, inactivity_timeout=0.2):
                if method is not None:
                    self.got(body, method.redelivered)
                    self.settles(method.delivery_tag)
                    channel.basic_ack(method.delivery_tag)
                if self.end.is_set():
                    break
            if self.end.is_set():
                channel.cancel()
                connection.close()
        except (pika.exceptions.AMQPError, AMQPConnectorException, OSError) as error:
            self.surprised(type(error).__name__ if not isinstance(error, CLOSED) else error)
        finally:
            if connection is not None and connection.is_open:
                connection.close()


CLOSED = (pika.exceptions.ChannelClosedByBroker, pika.exceptions.ConnectionClosedByBroker)


# --- aio-pika -----------------------------------------------------------------------------------

AIO_ERRORS = (AMQPError, OSError, asyncio.TimeoutError, RuntimeError)


async def aio_connect(node: tuple[str, int]) -> aio_pika.abc.AbstractConnection:
    """A connection of aio-pika."""
    host, port = node
    url = f"amqp://guest:guest@{host}:{port}/?heartbeat={HEARTBEAT_S}"
    return await asyncio.wait_for(aio_pika.connect(url, timeout=CONNECT_S), CONNECT_S + 2)


async def aio_close(connection: aio_pika.abc.AbstractConnection | None) -> None:
    """End it, if it lets itself be ended."""
    if connection is not None:
        try:
            await asyncio.wait_for(connection.close(), CONNECT_S)
        except AIO_ERRORS:
            pass


class AioPublisher(Publisher):
    """One task a message, many at once."""

    rate = 300

    def live(self) -> None:
        """Connect and publish."""
        asyncio.run(self._live())

    async def _live(self) -> None:
        connection = None
        try:
            connection = await aio_connect(self.node)
            channel = await asyncio.wait_for(
                connection.channel(publisher_confirms=True, on_return_raises=True), STALL_S
            )
            self.begin()
            failed = False
            while not self.finished() and not failed and not channel.is_closed:
                tasks = [self._publish(channel, self.next_body()) for _ in range(self.may_send())]
                results = await asyncio.gather(*tasks)
                failed = not all(results)
                await asyncio.sleep(0.02)
        except AIO_ERRORS as error:
            self.surprised(type(error).__name__)
        finally:
            self.lost()
            await aio_close(connection)

    async def _publish(self, channel: aio_pika.abc.AbstractChannel, body: bytes) -> bool:
        """Publish one; False if the connection is of no use any more."""
        sequence = read_body(body)[1]
        message = aio_pika.Message(body, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        try:
            sending = channel.default_exchange.publish(message, self.queue, timeout=STALL_S)
            await asyncio.wait_for(sending, STALL_S + 1)
        except DeliveryError:
            self.settled(sequence, "fail")
        except (*AIO_ERRORS, asyncio.CancelledError):
            return False
        else:
            self.settled(sequence, "ok")
        return True


class AioConsumer(Consumer):
    """aio-pika's callbacks."""

    def live(self) -> None:
        """Connect and consume."""
        asyncio.run(self._live())

    async def _live(self) -> None:
        connection = None
        try:
            connection = await aio_connect(self.node)
            channel = await asyncio.wait_for(connection.channel(), STALL_S)
            await asyncio.wait_for(channel.set_qos(prefetch_count=PREFETCH), STALL_S)
            queue = await asyncio.wait_for(channel.get_queue(self.queue, ensure=False), STALL_S)
            await asyncio.wait_for(queue.consume(self._delivered), STALL_S)
            while not (self.end.is_set() or connection.is_closed or channel.is_closed):
                await asyncio.sleep(0.1)
        except AIO_ERRORS as error:
            self.surprised(type(error).__name__)
        finally:
            await aio_close(connection)

    async def _delivered(self, message: aio_pika.abc.AbstractIncomingMessage) -> None:
        self.got(message.body, bool(message.redelivered))
        self.settles(message.delivery_tag or 0)
        try:
            await message.ack()
        except (*AIO_ERRORS, asyncio.CancelledError):
            pass


PUBLISHERS = (RawPublisher, PikaPublisher, AioPublisher)
CONSUMERS = (RawConsumer, PikaConsumer, AioConsumer)
