"""What a broker does when there are more sockets than descriptors, or more log files."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.support.broker import PROTOCOL_HEADER, Broker, free_port
from tests.support.patience import patient
from warren.server.descriptors import shares
from warren.server.disk import RESERVE, OsDisk

LIMIT = 140
BODY = bytes(64_000)
COUNT = 200
"""Some 13 MB: a dozen files of 1 MiB."""


def limited(tmp_path: Path, *options: str) -> Broker:
    """A broker that may have few descriptors, with small log files."""
    small = ["--set", "raft.wal_max_size_bytes=8MiB", "--cluster-port", str(free_port())]
    broker = Broker(free_port(), tmp_path / "data", options=[*small, *options])
    broker.prefix = ["sh", "-c", f'ulimit -n {LIMIT}; exec "$@"', "sh"]
    return broker.start()


@contextlib.contextmanager
def channel_of(broker: Broker) -> Iterator[BlockingChannel]:
    """A channel with confirms, tried again while the broker sheds."""
    deadline = time.monotonic() + patient(20.0)
    while True:
        try:
            connection = pika.BlockingConnection(pika.URLParameters(broker.url))
            break
        except pika.exceptions.AMQPError:
            assert time.monotonic() < deadline, "nobody can log in"
    with connection:
        channel = connection.channel()
        channel.confirm_delivery()
        yield channel


def fill_and_drain(channel: BlockingChannel) -> None:
    """Messages to a queue, over many files of the log, and back."""
    channel.queue_declare("backlog", durable=True)
    lasting = pika.BasicProperties(delivery_mode=2)
    for number in range(COUNT):
        channel.basic_publish("", "backlog", b"%06d" % number + BODY, lasting)
    channel.basic_qos(prefetch_count=10)
    numbers = []
    for method, _, body in channel.consume("backlog", inactivity_timeout=patient(20.0)):
        assert body is not None, "the backlog does not come"
        numbers.append(int(body[:6]))
        channel.basic_ack(method.delivery_tag)
        if len(numbers) == COUNT:
            break
    channel.cancel()
    assert numbers == list(range(COUNT))


def descriptors(broker: Broker) -> list[str]:
    """What the broker's descriptors are."""
    found = []
    for entry in os.scandir(f"/proc/{broker.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(entry.path))
    return found


PACE_S = 0.01
"""A new socket comes in so many seconds: who logs in has to do so before it is the oldest."""


class Idlers:
    """Sockets that come again and again and say nothing, or no more than a greeting."""

    def __init__(self, broker: Broker, count: int) -> None:
        self._address = (broker.host, broker.port)
        self._over = threading.Event()
        self._sockets: list[socket.socket] = []
        self._count = count
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(PACE_S):
            try:
                stream = socket.create_connection(self._address, 5.0)
                if len(self._sockets) % 2:
                    stream.sendall(PROTOCOL_HEADER)
            except OSError:
                continue
            self._sockets.append(stream)
            if len(self._sockets) > self._count:
                self._sockets.pop(0).close()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        for stream in self._sockets:
            stream.close()


def test_silent_sockets_neither_end_a_broker_nor_keep_clients_out(tmp_path: Path) -> None:
    broker = limited(tmp_path)
    idlers = Idlers(broker, 3 * LIMIT)
    try:
        deadline = time.monotonic() + patient(20.0)
        while "closed before they were opened" not in broker.log_text():
            assert time.monotonic() < deadline, "the bound is never reached"
            time.sleep(0.01)
        with channel_of(broker) as channel:
            for _ in range(2):
                fill_and_drain(channel)
        found = descriptors(broker)
        logs = [name for name in found if "/log/" in name and name.endswith(".log")]
        assert len(logs) <= shares(LIMIT).log_files + 1 and len(found) < LIMIT
        broker.check_alive()
    finally:
        idlers.end()
    # What was written is there.
    with channel_of(broker) as channel:
        channel.basic_publish("", "backlog", b"last", pika.BasicProperties(delivery_mode=2))
    broker.restart(kill=True)
    with channel_of(broker) as channel:
        assert channel.basic_get("backlog", auto_ack=True)[2] == b"last"
    assert broker.stop() == 0


def test_connection_max_refuses_who_comes_too_many(tmp_path: Path) -> None:
    broker = limited(tmp_path, "--set", "connection_max=2")
    parameters = pika.URLParameters(broker.url)
    connections = [pika.BlockingConnection(parameters) for _ in range(2)]
    text = r"\(530\) 'NOT_ALLOWED - connection refused: node connection limit \(2\) is reached'"
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=text):
        pika.BlockingConnection(parameters)
    connections[0].close()
    pika.BlockingConnection(parameters).close()
    connections[1].close()
    assert broker.stop() == 0


@pytest.mark.parametrize("limit", [64, 128, 256, 1_024, 1_048_576])
def test_shares_leave_something_for_everybody(limit: int) -> None:
    found = shares(limit)
    assert found.log_files >= 8 and found.connections >= 8
    if limit >= 128:
        assert found.log_files + found.connections + RESERVE < limit


@pytest.fixture
def exhausted() -> Iterator[None]:
    """No descriptor can be had any more, until the test ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1_024), hard))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        assert error.errno == errno.EMFILE
    try:
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_files_than_descriptors(tmp_path: Path) -> None:
    disk = OsDisk(tmp_path, 3)
    files = [disk.open(f"f{number}", create=True) for number in range(20)]
    for number, file in enumerate(files):
        file.write_durable([b"%d" % number], 0)
    assert sum(file.descriptor >= 0 for file in files) <= 3
    # They keep their content under whatever name, and without one.
    disk.rename("f1", "g1")
    disk.remove("f2")
    disk.rename("f3", "f4")
    for _ in range(2):
        for number, file in enumerate(files):
            assert file.read(0, 10) == b"%d" % number
    # What was written and not synced stays where an error would be told.
    files[7].write([b"more"], 0)
    for file in files:
        file.size_bytes()
    assert files[7].descriptor >= 0
    files[7].sync()
    for file in files:
        file.close()
    assert disk.list("") == sorted(["g1", "f0", *(f"f{n}" for n in range(4, 20))])


def test_a_file_can_be_opened_when_there_are_no_descriptors(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    disk = OsDisk(tmp_path)
    first = disk.open("first", create=True)
    disk.sync_directory("")
    request.getfixturevalue("exhausted")
    more = [disk.open(f"more{number}", create=True) for number in range(RESERVE)]
    more[-1].write_durable([b"x"], 0)
    disk.sync_directory("")
    # Beyond that others have to give theirs up; a file that is used gets its own back.
    more.append(disk.open("one too many", create=True))
    assert first.read(0, 1) == b"" and more[-2].read(0, 1) == b"x"
    for file in [first, *more]:
        file.close()
