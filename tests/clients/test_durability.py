"""What is there after the broker was killed: with real processes, SIGKILL, and the same data.

SIGKILL leaves the kernel's page cache alone, so this proves the order of what is written, not that
it is fsynced: the simulator's disk does that. `WARREN_KILL_CYCLES` sets the number of kills.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import ChannelClosedByBroker

from tests.clients.raw import Closed, Event, RawClient
from tests.clients.support import PERSISTENT, Inbox, eventually, get, holds
from tests.support.broker import Broker

CYCLES = int(os.environ.get("WARREN_KILL_CYCLES", "5"))
WINDOW = 200
SEED = int(os.environ.get("WARREN_KILL_SEED", "20261121"))


def connect(broker: Broker) -> BlockingConnection:
    """A pika connection to a broker of the test's own."""
    return BlockingConnection(pika.ConnectionParameters(broker.host, broker.port, heartbeat=0))


def address(broker: Broker) -> tuple[str, int]:
    """Where it listens."""
    return (broker.host, broker.port)


def ready(broker: Broker, queue: str) -> int:
    """How many messages are ready; -1 where the queue is not there."""
    connection = connect(broker)
    try:
        found: int = connection.channel().queue_declare(queue, passive=True).method.message_count
    except ChannelClosedByBroker as reply:
        assert reply.reply_code == 404
        found = -1
    connection.close()
    return found


class Publisher(threading.Thread):
    """Publishes numbers with confirms, a window at a time, until its broker is gone.

    Attributes:
        sent: The next number; all below were given to the socket, the last perhaps in part.
        confirmed: The numbers that were confirmed.
    """

    def __init__(self, broker: Broker, queue: str, first: int, padding: bytes) -> None:
        super().__init__(daemon=True)
        self.client = RawClient(address(broker)).open(channels=[1])
        self.client.ask(1, "confirm.select")
        self.queue, self.first, self.sent, self.padding = queue, first, first, padding
        self.confirmed: set[int] = set()
        self.surprise: Event | None = None

    def run(self) -> None:
        """Publish until the socket breaks."""
        low = 0  # publish sequence number up to which all is confirmed
        loose: set[int] = set()
        try:
            while True:
                count = WINDOW - (self.sent - self.first - len(self.confirmed))
                numbers = range(self.sent, self.sent + max(count, 0))
                self.sent += len(numbers)
                self.client.send_bytes(
                    b"".join(
                        self.client.publish_bytes(
                            1, "", self.queue, b"%d %s" % (n, self.padding), {"delivery_mode": 2}
                        )
                        for n in numbers
                    )
                )
                event = self.client.next(1)
                if event.name != "basic.ack":
                    self.surprise = event
                    return
                tag = event.args["delivery_tag"]
                loose.update(range(low + 1, tag + 1) if event.args["multiple"] else (tag,))
                while low + 1 in loose:
                    low += 1
                    loose.discard(low)
                    self.confirmed.add(self.first + low - 1)
                self.confirmed.update(self.first + tag - 1 for tag in loose)
        except (Closed, OSError):
            return


def drain(channel: BlockingChannel, queue: str) -> list[tuple[int, bool]]:
    """Take and acknowledge everything: numbers and redelivered flags, in order of delivery."""
    count = channel.queue_declare(queue, passive=True).method.message_count
    inbox, got = Inbox(channel, queue), []
    while len(got) < count:
        got += inbox.take(min(500, count - len(got)))  # a quorum queue lends 2,000 at most
        channel.basic_ack(got[-1][0].delivery_tag, multiple=True)
    assert inbox.quiet()
    channel.basic_cancel(inbox.tag)
    return [(int(body.split()[0]), method.redelivered) for method, _, body in got]


@pytest.mark.rule("BEH-09", "DUR-03", "QQ-27", "ORD-01")
@pytest.mark.parametrize("padding_bytes", [10, 3000])
def test_kill_while_publishing(private_broker: Broker, kind: str, padding_bytes: int) -> None:
    """Every confirmed message survives, once, in order; none is invented.

    A consumer holds the first few unsettled at the kill: they come back marked. What was settled
    before a later confirm stays settled.
    """
    print(f"WARREN_KILL_SEED={SEED}")
    dice, queue, first = random.Random(SEED), "kill", 0
    connection = connect(private_broker)
    connection.channel().queue_declare(queue, durable=True, arguments={"x-queue-type": kind})
    for _ in range(CYCLES):
        holder = RawClient(address(private_broker)).open(channels=[1])
        holder.ask(1, "basic.qos", prefetch_count=7)
        holder.ask(1, "basic.consume", queue=queue)
        publisher = Publisher(private_broker, queue, first, b"x" * padding_bytes)
        publisher.start()
        held = [int(holder.expect(1, "basic.deliver").body.split()[0]) for _ in range(7)]
        enough = dice.randrange(1, 3000)
        eventually(lambda publisher=publisher, n=enough: len(publisher.confirmed) >= n, 60)
        private_broker.kill()
        publisher.join(30)
        assert not publisher.is_alive() and publisher.surprise is None, publisher.surprise
        private_broker.start()

        connection = connect(private_broker)
        got = drain(connection.channel(), queue)
        numbers = [number for number, _ in got]
        assert numbers == sorted(set(numbers)), "doubled or out of order"
        assert publisher.confirmed <= set(numbers), "confirmed and lost"
        assert set(numbers) <= set(range(first, publisher.sent)), "invented or back from settled"
        assert held == numbers[:7]
        assert [flag for _, flag in got[:7]] == [True] * 7, "held, back and not marked"
        first = publisher.sent
        connection.close()


@pytest.mark.rule("DUR-02", "DUR-03", "DUR-04", "DUR-05", "PROP-02", "QQ-09", "CQ-03")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_what_a_restart_keeps(private_broker: Broker, kind: str, kill: bool) -> None:
    """Durable queues with their persistent messages; quorum queues keep all they have."""
    connection = connect(private_broker)
    channel = connection.channel()
    channel.confirm_delivery()
    arguments = {"x-queue-type": kind}
    channel.queue_declare("durable", durable=True, arguments=arguments)
    channel.queue_declare("transient", durable=False)
    channel.queue_declare("mine", durable=True, exclusive=True)
    for n in range(20):
        mode = pika.BasicProperties(delivery_mode=1 + n % 2, headers={"n": n})
        channel.basic_publish("", "durable", b"%d" % n, mode)
    channel.basic_publish("", "transient", b"x", PERSISTENT)
    private_broker.restart(kill=kill)

    assert ready(private_broker, "transient") == -1
    eventually(lambda: ready(private_broker, "mine") == -1)
    again = connect(private_broker).channel()
    declared = again.queue_declare("durable", durable=True, arguments=arguments)
    kept = range(20) if kind == "quorum" else range(1, 20, 2)
    assert declared.method.message_count == len(kept)
    for n in kept:
        method, props, body = get(again, "durable")
        assert (body, props.headers) == (b"%d" % n, {"n": n})
        # A classic queue writes no deliveries down: after a crash any may have been one.
        assert not method.redelivered or (kind == "classic" and kill)


@pytest.mark.rule("DUR-01", "DUR-03")
@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_topology_comes_back(private_broker: Broker, kill: bool) -> None:
    """Durable exchanges and bindings between durable things are recovered, others are gone."""
    channel = connect(private_broker).channel()
    for kind in ("direct", "fanout", "topic", "headers"):
        channel.exchange_declare(f"keep.{kind}", kind, durable=True)
        channel.exchange_declare(f"lose.{kind}", kind)
    channel.queue_declare("keep", durable=True, arguments={"x-queue-type": "quorum"})
    channel.queue_declare("lose")
    channel.queue_bind("keep", "keep.direct", "k")
    channel.queue_bind("keep", "keep.topic", "a.#")
    channel.queue_bind("keep", "keep.headers", "", arguments={"x-match": "any", "h": 1, "ü": "v"})
    channel.queue_bind("lose", "keep.fanout")
    channel.queue_bind("keep", "lose.fanout")
    channel.exchange_bind("keep.direct", "keep.fanout")
    channel.exchange_bind("keep.direct", "lose.topic", "#")
    channel.queue_bind("keep", "keep.direct", "gone")
    channel.queue_unbind("keep", "keep.direct", "gone")
    channel.exchange_declare("deleted", "direct", durable=True)
    channel.exchange_delete("deleted")
    channel.queue_declare("deleted", durable=True)
    channel.queue_delete("deleted")
    private_broker.restart(kill=kill)

    connection = connect(private_broker)
    channel = connection.channel()
    for kind in ("direct", "fanout", "topic", "headers"):
        channel.exchange_declare(f"keep.{kind}", kind, durable=True)
        with pytest.raises(ChannelClosedByBroker):
            connection.channel().exchange_declare(f"lose.{kind}", passive=True)
    for name in ("lose", "deleted"):
        assert ready(private_broker, name) == -1
    with pytest.raises(ChannelClosedByBroker):
        connection.channel().exchange_declare("deleted", passive=True)
    channel.confirm_delivery()
    for exchange, key, headers, arrives in (
        ("keep.direct", "k", None, True), ("keep.direct", "gone", None, False),
        ("keep.topic", "a.b.c", None, True), ("keep.topic", "b", None, False),
        ("keep.headers", "", {"ü": "v"}, True), ("keep.headers", "", {"ü": 1}, False),
        ("keep.fanout", "k", None, True), ("keep.fanout", "other", None, False),
    ):  # fmt: skip
        channel.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers))
        assert channel.queue_purge("keep").method.message_count == arrives, (exchange, key)


@pytest.mark.rule("DUR-03")
def test_settled_stays_settled(private_broker: Broker, kind: str) -> None:
    """Acknowledged before a stop in good order: gone; requeued: still there, marked."""
    channel = connect(private_broker).channel()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    for n in range(10):
        channel.basic_publish("", "q", b"%d" % n, PERSISTENT)
    tags = [get(channel, "q", auto_ack=False)[0].delivery_tag for _ in range(6)]
    for tag in (tags[0], tags[2], tags[4]):
        channel.basic_ack(tag)
    channel.basic_nack(tags[1], requeue=True)
    channel.basic_publish("", "q", b"10", PERSISTENT)  # confirmed after what was settled
    private_broker.restart(kill=True)
    again = connect(private_broker).channel()
    holds(again, "q", 8)
    got = [(m.redelivered, int(body)) for m, _, body in (get(again, "q") for _ in range(8))]
    assert sorted(body for _, body in got) == [1, 3, 5, 6, 7, 8, 9, 10]
    marked = {body for redelivered, body in got if redelivered}
    assert marked == {1, 3, 5} or (kind == "classic" and marked >= {1, 3, 5})


def test_many_queues_and_large_bodies(private_broker: Broker) -> None:
    """Two hundred queues of both types, and bodies of many frames, come back whole."""
    channel = connect(private_broker).channel()
    channel.confirm_delivery()
    for n in range(200):
        kind = "quorum" if n % 2 else "classic"
        channel.queue_declare(f"q{n}", durable=True, arguments={"x-queue-type": kind})
        channel.basic_publish("", f"q{n}", b"%d" % n, PERSISTENT)
    large = os.urandom(5 << 20)
    for n in range(6):
        channel.basic_publish("", f"q{n}", large, PERSISTENT)
    private_broker.restart(kill=True)
    again = connect(private_broker).channel()
    for n in range(200):
        assert get(again, f"q{n}")[2] == b"%d" % n
    for n in range(6):
        assert get(again, f"q{n}")[2] == large


def test_restart_again_and_again(private_broker: Broker) -> None:
    """Recovery itself changes nothing: ten starts with no work between, a queue of each type."""
    kinds = ("classic", "quorum")
    channel = connect(private_broker).channel()
    channel.confirm_delivery()
    for kind in kinds:
        channel.queue_declare(kind, durable=True, arguments={"x-queue-type": kind})
        for n in range(50):
            channel.basic_publish("", kind, b"%d" % n, PERSISTENT)
    for n in range(10):
        private_broker.restart(kill=bool(n % 2))
    again = connect(private_broker).channel()
    for kind in kinds:
        got = [get(again, kind) for _ in range(50)]
        assert [body for _, _, body in got] == [b"%d" % n for n in range(50)], kind
        assert kind == "classic" or not any(method.redelivered for method, _, _ in got)


def files(broker: Broker) -> dict[str, bytes]:
    """Every file of the data directory with its content."""
    assert broker.data_dir is not None
    return {str(p): p.read_bytes() for p in sorted(broker.data_dir.rglob("*")) if p.is_file()}


def test_torn_tail_is_cut(private_broker: Broker, kind: str) -> None:
    """Bytes of a write that never ended are dropped; everything before stays."""
    channel = connect(private_broker).channel()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    channel.confirm_delivery()
    for n in range(100):
        channel.basic_publish("", "q", b"%d" % n, PERSISTENT)
    private_broker.kill()
    newest = max(files(private_broker), key=lambda path: os.stat(path).st_mtime_ns)
    with open(newest, "ab") as log:
        log.write(os.urandom(37))
    private_broker.start()
    again = connect(private_broker).channel()
    assert [get(again, "q")[2] for _ in range(100)] == [b"%d" % n for n in range(100)]


def test_damaged_data_is_refused_and_left_alone(private_broker: Broker) -> None:
    """Damage before the end is never cut away: the node says where and does not start."""
    channel = connect(private_broker).channel()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": "quorum"})
    channel.confirm_delivery()
    for _ in range(100):
        channel.basic_publish("", "q", b"find me" * 100, PERSISTENT)
    private_broker.kill()
    content = files(private_broker)
    log = max(content, key=lambda path: content[path].count(b"find me"))
    place = content[log].index(b"find me")
    with open(log, "r+b") as file:
        file.seek(place)
        file.write(b"FIND")
    damaged = files(private_broker)
    process = private_broker.launch()
    assert process.wait(30) not in (0, None)
    assert os.path.basename(log) in private_broker.log_text()
    assert "Traceback" not in private_broker.log_text()
    assert files(private_broker) == damaged
    private_broker._process = None


def test_data_directory_that_is_none(make_broker: Callable[..., Broker]) -> None:
    """A file where the directory should be: a clear error, and the file stays."""
    broker = make_broker()
    assert broker.data_dir is not None
    broker.data_dir.write_text("mine")
    process = broker.launch()
    assert process.wait(30) not in (0, None)
    assert str(broker.data_dir) in broker.log_text()
    assert "Traceback" not in broker.log_text()
    assert broker.data_dir.read_text() == "mine"


def test_data_directory_with_a_file_in_the_way(make_broker: Callable[..., Broker]) -> None:
    """A file where the log's directory should be: the same."""
    broker = make_broker()
    assert broker.data_dir is not None
    broker.data_dir.mkdir(parents=True)
    (broker.data_dir / "log").write_text("mine")
    process = broker.launch()
    assert process.wait(30) not in (0, None)
    assert f"data directory {broker.data_dir}: " in broker.log_text()
    assert "Traceback" not in broker.log_text()
    assert (broker.data_dir / "log").read_text() == "mine"


def test_data_directory_in_use(private_broker: Broker, make_broker: Callable[..., Broker]) -> None:
    """Two nodes never write to one directory."""
    second = make_broker()
    second.data_dir = private_broker.data_dir
    process = second.launch()
    assert process.wait(30) not in (0, None)
    connect(private_broker).channel().queue_declare("q", durable=True)
