"""A disk that hangs while clients are there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from tests.clients.raw import HEARTBEAT, WAIT_S, RawClient
from tests.support.broker import Broker
from tests.support.hanging import can_hang

HANGS_SECONDS = 3.2
"""More than two heartbeats of a second, after which a client that is not heard is given up."""


def not_yet(*clients: RawClient) -> bool:
    """Whether one of them was sent fewer heartbeats than the timeout of a second asks for."""
    return min(client.heartbeats for client in clients) < 4


def test_clients_get_heartbeats_while_the_disk_hangs(
    make_broker: Callable[..., Broker], tmp_path: Path
) -> None:
    """And are not given up for what they sent meanwhile was not read (rule 37)."""
    broker = make_broker()
    switch = tmp_path / "hang"
    can_hang(broker.prefix, broker.environment, switch)
    broker.start()
    address = (broker.host, broker.port)
    with RawClient(address) as publisher, RawClient(address) as consumer:
        for client in (publisher, consumer):
            client.open(heartbeat=1)
            client.ask(1, "channel.open")
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
    broker.check_alive()
