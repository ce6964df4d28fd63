"""What queues and messages take of memory and disk, and that it is given back."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from tests.node.pair import Client, Pair, Station
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

FILE_BYTES = 1 << 18


def fill(client: Client, name: str, count: int, size: int) -> None:
    """Publish persistent messages, many in a turn, and wait until they are there."""
    body = bytes(size)
    method = spec.BasicPublish(0, "", name, False, False)
    frames = content_frames(1, method, b"\x10\x00\x02", body, 131_072)
    queue = client.station.queue(name)
    for _ in range(0, count, 50):
        client.outbox += frames * 50
        client.exchange()
        client.pair.turn(client.station)
        client.pair.step()
    client.pair.until(lambda: queue.ready_count() == count)


def log_files(station: Station) -> list[str]:
    return [path for path in station.disk.image() if path.endswith(".log")]


@pytest.mark.rule("RES-01")
@pytest.mark.parametrize("size", [100, 10_000])
def test_a_backlog_takes_some_tens_of_bytes_a_message_whatever_their_size(size: int) -> None:
    def configure(settings: Settings) -> None:
        settings.log.cache_bytes = 1 << 18

    count = 4_000
    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    client.declare("q", kind="quorum")
    fill(client, "q", 500, size)
    without_disk = [
        tracemalloc.Filter(False, "*/sim/*"),
        tracemalloc.Filter(False, tracemalloc.__file__),
    ]
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot().filter_traces(without_disk)
        client.call(spec.QueuePurge(0, "q", False))
        fill(client, "q", count, size)
        gc.collect()
        after = tracemalloc.take_snapshot().filter_traces(without_disk)
    finally:
        tracemalloc.stop()
    grown = sum(stat.size_diff for stat in after.compare_to(before, "filename"))
    assert grown < (1 << 18) + 100 * count


@pytest.mark.rule("RES-03")
def test_all_queues_of_a_node_share_one_log_and_what_is_acknowledged_frees_it() -> None:
    pair = Pair(alone=True, file_bytes=FILE_BYTES)
    client = pair.a.client()
    names = [f"q{number}" for number in range(20)]
    for name in names:
        client.declare(name, kind="quorum")
    before = len(log_files(pair.a))
    for name in names:
        fill(client, name, 50, 1_000)
    # A megabyte, in files of a quarter of one, however many queues it is of.
    assert 4 <= len(log_files(pair.a)) - before <= 8
    most = 0
    for _ in range(6):
        for name in names:
            client.call(spec.QueuePurge(0, name, False))
            fill(client, name, 50, 1_000)
        pair.settle(40)
        most = max(most, len(log_files(pair.a)))
    assert most <= before + 20, "six more megabytes were written"
    for name in names:
        client.call(spec.QueuePurge(0, name, False))
    fill(client, "q0", 300, 1_000)
    pair.until(lambda: len(log_files(pair.a)) <= before + 12)


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.rule("RES-06")
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_names_that_come_and_go_leave_nothing_behind(kind: str) -> None:
    pair = Pair(alone=True, file_bytes=1 << 16)
    client = pair.a.client()

    def some(first: int, count: int) -> None:
        for number in range(first, first + count):
            client.declare(f"name-{number}", kind=kind)
            client.publish(f"name-{number}", b"x")
            client.call(spec.QueueDelete(0, f"name-{number}", False, False, False))
        client.methods.clear()
        pair.settle(40)

    some(0, 200)
    before = objects()
    snapshot = len(pair.a.node.metadata.snapshot())
    some(200, 600)
    assert objects() - before < 1_500
    assert len(pair.a.node.metadata.snapshot()) - snapshot < 300


@pytest.mark.rule("CQ-05")
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_persistent_messages_are_written_together_and_soon(kind: str) -> None:
    """Also where nobody waits for a confirm: a power cut a moment later loses none."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)
    pair.settle()
    before = pair.a.disk.syncs
    for number in range(200):
        client.publish("q", b"%d" % number)
    pair.until(lambda: pair.a.queue("q").ready_count() == 200)
    since = pair.clock.monotonic_ms()
    pair.until(lambda: pair.a.executor.idle)
    assert pair.clock.monotonic_ms() - since < 500
    assert 1 <= pair.a.disk.syncs - before <= 5
    pair.a.kill()
    pair.a.disk.restart()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    again = pair.a.client()
    ok: Any = again.declare("q", kind=kind)
    assert ok.message_count == 200
