"""What the benchmarks' own client says that it did is what was done."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pika import frame, spec
from pika.adapters.blocking_connection import BlockingChannel

from bench.raw import CHANNEL, Reader, acks, nack, publish
from tests.clients.fixtures import Names
from tests.support.broker import Broker
from tests.support.patience import patient

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 3_000
AT_MOST_SECONDS = patient(60.0)


def begun(broker: Broker, what: str, queue: str, *words: str) -> subprocess.Popen[str]:
    """A process of that client; it ends by its `--count`."""
    command = [sys.executable, "-m", "bench.raw", what, f"{broker.host}:{broker.port}", queue]
    command += ["--count", str(MESSAGES), "--begin", "0", "--end", "1e12", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What it says at its end."""
    try:
        out, _ = process.communicate(timeout=AT_MOST_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0
    found: dict[str, Any] = json.loads(out)
    return found


def test_every_rejected_message_is_counted_where_it_comes_again(
    broker: Broker, channel: BlockingChannel, names: Names
) -> None:
    """One process publishes, one rejects, one takes the dead letters: each counts all of them."""
    source, dead = names.queue(), names.queue()
    channel.queue_declare(dead, durable=True, arguments={"x-queue-type": "quorum"})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    channel.queue_declare(source, durable=True, arguments=arguments)
    takes = begun(broker, "take", dead)
    rejects = begun(broker, "reject", source)
    publishes = begun(broker, "publish", source)
    assert told(publishes)["confirmed"] == MESSAGES
    assert told(rejects)["consumed"] == MESSAGES
    assert told(takes)["consumed"] == MESSAGES
    for queue in (source, dead):
        assert channel.queue_delete(queue).method.message_count == 0


def test_refused_publishes_are_told_from_confirmed_ones(
    broker: Broker, channel: BlockingChannel, names: Names
) -> None:
    """A full queue refuses all but as many as it has room for."""
    full = names.queue()
    arguments = {"x-max-length": 10, "x-overflow": "reject-publish"}
    channel.queue_declare(full, durable=True, arguments=arguments)
    found = told(begun(broker, "publish", full))
    assert found["confirmed"] + found["refused"] == MESSAGES
    assert found["confirmed"] == channel.queue_delete(full).method.message_count
    assert found["refused"] > MESSAGES / 2


def delivered(tag: int, body: bytes) -> bytes:
    """A delivery, as a broker sends it: what was published, behind another method."""
    asked = frame.Method(CHANNEL, spec.Basic.Publish(exchange="", routing_key="q")).marshal()
    deliver = spec.Basic.Deliver("ctag", tag, False, "", "q")
    content = publish("q", tag, body, 4_096)[len(asked) :]
    return bytes(frame.Method(CHANNEL, deliver).marshal() + content)


@pytest.mark.parametrize("part", [1, 7, 100, 100_000])
def test_what_comes_is_counted_however_it_is_cut(part: int) -> None:
    """Bodies of none, one and three frames, confirms out of order, one by one and many."""
    data = b"".join(delivered(tag, bytes(size)) for tag, size in enumerate((0, 9, 9_000), 1))
    data += acks(2, 2) + acks(4, 5) + acks(1, 1)
    data += nack(6) + delivered(9, b"last")
    reader = Reader()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for at in range(0, len(data), part):
            theirs.sendall(data[at : at + part])
            reader.receive(ours)
    assert (reader.deliveries, reader.last_tag) == (4, 9)
    assert (reader.confirmed, reader.refused) == (4, 2)
