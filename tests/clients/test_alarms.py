"""A disk that fills up: publishers are stopped and told, consumers go on, nothing is lost."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clients.raw import Closed, RawClient
from tests.clients.support import eventually
from tests.support.broker import Broker
from tests.support.patience import patient

MIB = 1 << 20


def configured(broker: Broker, *lines: str) -> Broker:
    """Give a broker a configuration file."""
    assert broker.data_dir is not None
    file = broker.data_dir.with_name(broker.data_dir.name + ".conf")
    file.write_text("\n".join(lines) + "\n")
    broker.options = ["--config", str(file)]
    return broker


def test_blocked_and_unblocked(make_broker: Callable[..., Broker]) -> None:
    """Below the limit of free space a publisher is blocked and told; others are not."""
    broker = configured(make_broker(), "disk_free_limit.absolute = 1000TB")
    broker.start()
    address = (broker.host, broker.port)
    publisher, other = RawClient(address).open(channels=[1]), RawClient(address).open(channels=[1])
    queue = other.ask(1, "queue.declare", queue="q", durable=True).args["queue"]
    publisher.ask(1, "confirm.select")
    publisher.publish(1, "", queue, b"x", {"delivery_mode": 2})
    blocked = publisher.expect(0, "connection.blocked")
    assert blocked.args["reason"] == "low on disk"
    if not publisher.quiet(0.3):  # held back or refused, but never confirmed
        publisher.expect(1, "basic.nack")
    assert other.ask(1, "queue.declare", queue=queue, passive=True).args["message_count"] == 0
    other.ask(1, "basic.consume", queue=queue)
    publisher.socket.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 96 MiB, where the machine lets us make one."""
    place = tmp_path / "small"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "warren-test", str(place)],
        capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode:
        pytest.skip("may not mount a file system here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=False)


@pytest.mark.rule("BEH-09")
@pytest.mark.parametrize("limit", ["24MB", "1"], ids=["alarm", "no space left"])
def test_full_disk_loses_nothing(
    make_broker: Callable[..., Broker], small_disk: Path, kind: str, limit: str
) -> None:
    """Publishing stops (blocked or nacked); after room is made all that was confirmed is there."""
    broker = make_broker()
    broker.data_dir = small_disk / "data"
    configured(broker, f"disk_free_limit.absolute = {limit}", "raft.wal_max_size_bytes = 16000000")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(20 * MIB))
    broker.start()
    address = (broker.host, broker.port)
    client = RawClient(address).open(channels=[1])
    client.ask(1, "queue.declare", queue="q", durable=True, arguments={"x-queue-type": kind})
    client.ask(1, "confirm.select")
    client.socket.settimeout(5)
    confirmed, refused, sent, stopped = set(), set(), 0, False
    deadline = time.monotonic() + patient(60)
    try:
        while not stopped and time.monotonic() < deadline:
            sent += 1
            client.publish(1, "", "q", b"%7d" % sent + os.urandom(100_000), {"delivery_mode": 2})
            while True:
                event = client.next(timeout_s=patient(5))
                if event.name == "connection.blocked":
                    stopped = True
                elif event.name == "connection.close":
                    stopped = True
                    break
                elif event.name != "connection.unblocked":
                    tag = event.args["delivery_tag"]
                    (confirmed if event.name == "basic.ack" else refused).add(tag)
                    stopped |= event.name == "basic.nack"
                    break
    except (TimeoutError, OSError, Closed):
        stopped = True
    assert stopped and len(confirmed) > 100
    client.socket.close()
    if not broker.running:  # a failed write may stop the node, but not lose what it confirmed
        broker._process = None
    ballast.unlink()
    if broker.running:
        broker.restart(kill=True)
    else:
        broker.start()
    reader = RawClient(address).open(channels=[1])
    reader.ask(1, "basic.consume", queue="q", no_ack=True)
    count = eventually(
        lambda: reader_count(address), 20
    )  # no consumer can be counted before recovery has ended
    seen = set()
    while confirmed - seen:
        seen.add(int(reader.expect(1, "basic.deliver").body[:7]))
    assert confirmed <= seen and not seen - set(range(1, sent + 1))
    assert count


def reader_count(address: tuple[str, int]) -> int:
    """How many consumers the queue has."""
    with RawClient(address) as client:
        client.open(channels=[1])
        reply = client.ask(1, "queue.declare", queue="q", passive=True)
        consumers: int = reply.args["consumer_count"]
        return consumers
