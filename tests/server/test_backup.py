"""A copy of a running node's data directory is a backup, as docs/operating.md says."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest

from tests.clients.support import eventually
from tests.support.broker import HOST, Broker, free_port

KINDS = ("quorum", "classic")
BODY = b"x" * 2_000


class Publishing(threading.Thread):
    """Publishes to a queue, each message confirmed before the next, until it is told to stop.

    Attributes:
        confirmed: How many were.
    """

    def __init__(self, broker: Broker, queue: str) -> None:
        super().__init__(daemon=True)
        self.confirmed = 0
        self.over = threading.Event()
        self._port = broker.port
        self._queue = queue

    def run(self) -> None:
        """Publish."""
        with pika.BlockingConnection(pika.ConnectionParameters(HOST, self._port)) as connection:
            channel = connection.channel()
            channel.queue_declare(
                self._queue, durable=True, arguments={"x-queue-type": self._queue}
            )
            channel.confirm_delivery()
            persistent = pika.BasicProperties(delivery_mode=2)
            while not self.over.is_set():
                channel.basic_publish("", self._queue, BODY, persistent)
                self.confirmed += 1


@contextmanager
def publishing(broker: Broker) -> Iterator[list[Publishing]]:
    """One publisher to a queue of each kind."""
    publishers = [Publishing(broker, kind) for kind in KINDS]
    for publisher in publishers:
        publisher.start()
    try:
        yield publishers
    finally:
        for publisher in publishers:
            publisher.over.set()
        for publisher in publishers:
            publisher.join()


def test_a_copy_of_a_running_node_has_all_that_was_confirmed_before(
    make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = make_broker().start()
    with publishing(broker) as publishers:
        eventually(lambda: all(publisher.confirmed >= 50 for publisher in publishers))
        before = [publisher.confirmed for publisher in publishers]
        shutil.copytree(broker.data_dir, tmp_path / "copy")
        # It went on all the while: the copy is of a node at work.
        eventually(lambda: all(p.confirmed > n for p, n in zip(publishers, before, strict=True)))
    copy = Broker(free_port(), tmp_path / "copy")
    copy.start()
    try:
        with pika.BlockingConnection(pika.ConnectionParameters(HOST, copy.port)) as connection:
            channel = connection.channel()
            for publisher, kind, least in zip(publishers, KINDS, before, strict=True):
                found = channel.queue_declare(kind, passive=True).method.message_count
                assert least <= found <= publisher.confirmed + 1, kind
    finally:
        copy.stop()


def test_a_copy_without_a_file_of_the_log_does_not_start(
    make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """One went while the copy was made: it is named, and nothing is begun with less."""
    broker = make_broker().start()
    with publishing(broker) as publishers:
        eventually(lambda: all(publisher.confirmed >= 5 for publisher in publishers))
    broker.stop()
    shutil.copytree(broker.data_dir, tmp_path / "copy")
    (gone, *_) = sorted((tmp_path / "copy" / "log").glob("*.log"))
    gone.unlink()
    copy = Broker(free_port(), tmp_path / "copy")
    with pytest.raises(AssertionError, match=f"{gone.name} is missing"):
        copy.start()
