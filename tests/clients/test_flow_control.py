"""Publishers are told that they have to wait and that they may go on, and consumers go on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.clients.raw import RawClient
from tests.clients.support import eventually
from tests.support.broker import Broker
from tests.support.patience import patient

MB = 1_000_000
BODY = 100_000
COUNT = 2_000
MORE = 60 * MB
"""Memory beyond that of a broker with nothing to do: less than a third of what is published."""


def connect(broker: Broker) -> Any:
    wait = patient(120)
    return pika.BlockingConnection(
        pika.ConnectionParameters(
            broker.host, broker.port, blocked_connection_timeout=wait, socket_timeout=wait
        )
    )


def watched(broker: Broker) -> tuple[Any, list[str]]:
    """A connection, and what it is told of being blocked: the reason, or "" for its end."""
    connection = connect(broker)
    told: list[str] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: told.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda *_: told.append(""))
    return connection, told


def resident(broker: Broker) -> int:
    """Memory of a broker's process."""
    lines = Path(f"/proc/{broker.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.rule("CQ-04", "R-38")
def test_memory_gets_short_and_there_is_enough_again(make_broker: Callable[..., Broker]) -> None:
    """What a queue holds in memory goes to disk then, and the process lets go of that memory."""
    broker = make_broker().start()
    limit = resident(broker) + MORE
    broker.options = [
        *("--set", f"vm_memory_high_watermark.absolute={limit}"),
        *("--set", "vm_memory_high_watermark_paging_ratio=1.0"),
    ]
    broker.restart()
    connection, told = watched(broker)
    channel = connection.channel()
    channel.queue_declare("q", exclusive=False, durable=False)
    for number in range(COUNT):
        channel.basic_publish("", "q", b"%8d" % number + bytes(BODY))
        if number % 10 == 0:
            connection.process_data_events(0)

    def settled() -> bool:
        connection.process_data_events(0.05)
        held: int = channel.queue_declare("q", passive=True).method.message_count
        return held == COUNT and bool(told) and told[-1] == ""

    eventually(settled, 60)
    assert told[0] == "low on memory"
    assert limit < COUNT * BODY
    # What came last may be more than there was room for, until the node has looked again.
    eventually(lambda: resident(broker) < limit, 30)
    reader = connect(broker).channel()
    reader.basic_qos(prefetch_count=50)
    for number, (method, _, body) in enumerate(reader.consume("q")):
        assert body[:8] == b"%8d" % number and len(body) == BODY + 8
        reader.basic_ack(method.delivery_tag)
        if number == COUNT - 1:
            break
    reader.connection.close()
    assert broker.data_dir is not None
    paging = broker.data_dir / "paging"
    eventually(lambda: not list(paging.iterdir()), 20)
    connection.close()


@pytest.mark.rule("R-38")
def test_consumers_go_on_while_memory_is_short(
    make_broker: Callable[..., Broker], kind: str
) -> None:
    broker = make_broker().start()
    channel = connect(broker).channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(20):
        channel.basic_publish("", "q", b"%d" % number, persistent)
    channel.connection.close()
    broker.options = ["--set", "vm_memory_high_watermark.absolute=1"]
    broker.restart()
    publisher, told = watched(broker)
    channel = publisher.channel()

    def blocked() -> bool:
        channel.basic_publish("", "q", b"waits", persistent)
        publisher.process_data_events(0.05)
        return told == ["low on memory"]

    eventually(blocked, 20)
    reader = connect(broker).channel()
    reader.basic_qos(prefetch_count=3)
    got = []
    for method, _, body in reader.consume("q"):
        reader.basic_ack(method.delivery_tag)
        got.append(body)
        if body == b"19":
            break
    assert [body for body in got if body != b"waits"] == [b"%d" % number for number in range(20)]
    reader.cancel()
    reader.queue_declare("other", durable=True)
    reader.connection.close()
    assert told == ["low on memory"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 MiB, where the machine lets us make one."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128m", "warren-test", str(place)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


@pytest.mark.rule("R-38")
def test_a_disk_gets_full_and_has_room_again(
    make_broker: Callable[..., Broker], small_disk: Path, kind: str
) -> None:
    broker = make_broker()
    broker.data_dir = small_disk / "data"
    broker.options = [
        *("--set", "disk_free_limit.absolute=40MB"),
        *("--set", "raft.wal_max_size_bytes=16MB"),
    ]
    broker.start()
    publisher, told = watched(broker)
    channel = publisher.channel()
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    channel.basic_publish("", "q", b"first", pika.BasicProperties(delivery_mode=2))
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(80 * MB))

    def blocked() -> bool:
        # Told when it publishes, as others are not held up.
        channel.basic_publish("", "q", b"waits", pika.BasicProperties(delivery_mode=1))
        publisher.process_data_events(0.05)
        return told == ["low on disk"]

    eventually(blocked, 30)
    reader = connect(broker).channel()
    method, _, body = next(reader.consume("q"))
    assert body == b"first"
    reader.basic_ack(method.delivery_tag)
    ballast.unlink()

    def unblocked() -> bool:
        publisher.process_data_events(0.05)
        return told == ["low on disk", ""]

    eventually(unblocked, 30)
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"goes on", pika.BasicProperties(delivery_mode=2))
    for method, _, body in reader.consume("q"):
        reader.basic_ack(method.delivery_tag)
        if body == b"goes on":
            break
    reader.connection.close()
    publisher.close()


@pytest.mark.rule("CFG-02")
def test_few_publishes_under_way_to_a_quorum_queue_are_enough(
    make_broker: Callable[..., Broker],
) -> None:
    """With a bound that one burst is far beyond, its publisher waits, and all are confirmed."""
    broker = make_broker("--set", "quorum_queue.commands_soft_limit=4").start()
    with RawClient((broker.host, broker.port)) as client:
        client.open(channels=[1])
        arguments = {"x-queue-type": "quorum"}
        client.ask(1, "queue.declare", queue="q", durable=True, arguments=arguments)
        client.ask(1, "confirm.select")
        for number in range(1_000):
            client.publish(1, "", "q", b"%d" % number, {"delivery_mode": 2})
        confirmed = 0
        while confirmed < 1_000:
            event = client.expect(1, "basic.ack")
            confirmed = event.args["delivery_tag"]
        passive = client.ask(1, "queue.declare", queue="q", passive=True)
        assert passive.args["message_count"] == 1_000
