"""A disk that hangs while clients are there."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clients.raw import HEARTBEAT, WAIT_S, RawClient
from tests.clients.support import eventually
from tests.support.broker import Broker
from tests.support.hanging import can_hang

HANGS_SECONDS = 3.2
"""More than two heartbeats of a second, after which a client that is not heard is given up."""


@contextmanager
def two_clients(
    make_broker: Callable[..., Broker], switch: Path, **opening: int
) -> Iterator[tuple[RawClient, RawClient]]:
    """Clients with a channel each of a broker that hangs while `switch` is there."""
    broker = make_broker()
    can_hang(broker.prefix, broker.environment, switch)
    broker.start()
    address = (broker.host, broker.port)
    with RawClient(address) as one, RawClient(address) as other:
        for client in (one, other):
            client.open(**opening)
            client.ask(1, "channel.open")
        yield one, other
    broker.check_alive()


def newest_write(folder: Path) -> int:
    """When a file of a log below a folder was written last, in nanoseconds."""
    return max(file.stat().st_mtime_ns for file in folder.rglob("*.log"))


def not_yet(*clients: RawClient) -> bool:
    """Whether one of them was sent fewer heartbeats than the timeout of a second asks for."""
    return min(client.heartbeats for client in clients) < 4


def test_clients_get_heartbeats_while_the_disk_hangs(
    make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """And are not given up for what they sent meanwhile was not read (R-37)."""
    switch = tmp_path / "hang"
    with two_clients(make_broker, switch, heartbeat=1) as (publisher, consumer):
        publisher.ask(1, "queue.declare", queue="q", durable=True)
        publisher.ask(1, "confirm.select")
        for count in range(3):
            # Whichever of these is written by the loop itself keeps it.
            publisher.publish(1, "", "q", b"%d" % count, {"delivery_mode": 2})
            publisher.expect(1, "basic.ack")
        switch.touch()
        publisher.publish(1, "", "q", b"hangs", {"delivery_mode": 2})
        for client in (publisher, consumer):
            client.heartbeats = 0
        began = time.monotonic()
        while time.monotonic() < began + HANGS_SECONDS or not_yet(publisher, consumer):
            assert time.monotonic() < began + WAIT_S, "no heartbeats come"
            for client in (publisher, consumer):
                client.send_bytes(client.frame(HEARTBEAT, 0, b""))
                assert client.quiet(0.2)
        switch.unlink()
        publisher.expect(1, "basic.ack")
        got = consumer.call(1, "basic.get", queue="q", no_ack=True)
        assert got.name == "basic.get-ok" and got.body == b"0"


@pytest.mark.parametrize("delivery_mode", [1, 2])
def test_messages_that_nobody_sees_confirmed_flow_while_the_disk_hangs(
    make_broker: Callable[..., Broker], tmp_path: Path, delivery_mode: int
) -> None:
    """Of a classic queue; what is confirmed waits, and is not lost."""
    switch = tmp_path / "hang"
    with two_clients(make_broker, switch) as (publisher, consumer):
        publisher.ask(1, "queue.declare", queue="q", durable=True)
        consumer.ask(1, "basic.consume", queue="q", consumer_tag="c")
        publisher.ask(2, "channel.open")
        publisher.ask(2, "confirm.select")
        # What the node writes for itself, after a declaration, would hang first.
        written = newest_write(tmp_path)
        while publisher.quiet(1.0) and newest_write(tmp_path) != written:
            written = newest_write(tmp_path)
        switch.touch()
        for count in range(50):
            body = b"%d" % count
            publisher.publish(1, "", "q", body, {"delivery_mode": delivery_mode})
            got = consumer.expect(1, "basic.deliver")
            assert got.body == body
            consumer.send(1, "basic.ack", delivery_tag=got.args["delivery_tag"])
        publisher.publish(2, "", "q", b"confirmed", {"delivery_mode": 2})
        assert consumer.expect(1, "basic.deliver").body == b"confirmed"
        assert publisher.quiet(0.3)
        switch.unlink()
        publisher.expect(2, "basic.ack")


def stopping(
    make_broker: Callable[..., Broker], switch: Path
) -> tuple[Broker, subprocess.Popen[bytes]]:
    """A broker that was told to stop, and whose disk hangs; and its process."""
    broker = make_broker()
    can_hang(broker.prefix, broker.environment, switch)
    process = broker.launch()
    broker.wait()
    with RawClient((broker.host, broker.port)) as client:
        client.open()
        client.ask(1, "channel.open")
        client.ask(1, "queue.declare", queue="q", durable=True)
        client.ask(1, "confirm.select")
        client.publish(1, "", "q", b"confirmed", {"delivery_mode": 2})
        client.expect(1, "basic.ack")
        switch.touch()
        client.publish(1, "", "q", b"hangs", {"delivery_mode": 2})
        assert client.quiet(0.2)
        process.send_signal(signal.SIGTERM)
    return broker, process


def test_a_stop_ends_although_the_disk_hangs(
    make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    switch = tmp_path / "hang"
    broker, process = stopping(make_broker, switch)
    assert process.wait(WAIT_S) == 1
    assert "the disk hangs" in broker.log_text()
    switch.unlink()
    broker.start()
    with RawClient((broker.host, broker.port)) as client:
        client.open()
        client.ask(1, "channel.open")
        assert client.call(1, "basic.get", queue="q", no_ack=True).body == b"confirmed"


def heard(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has taken its first signal: the next one has no handler any more."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return not int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1


def test_a_second_signal_ends_a_stop_at_once(
    make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    broker, process = stopping(make_broker, tmp_path / "hang")
    eventually(lambda: heard(process), WAIT_S)
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == -signal.SIGTERM
    assert "the disk hangs" not in broker.log_text()
