"""Bodies of queues in memory go to disk while that is short, and come back in their turn."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from sim.disk import SimFile
from tests.node.pair import Client, Pair, Station
from warren.metadata.commands import SetPolicy
from warren.protocols.broker import Settings
from warren.queues.paging import DIRECTORY, FILE_BYTES, KEEP_BYTES, READ_BYTES, WRITE_BYTES
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

LIMIT_BYTES = 1 << 20
SIZE = 20_000
COUNT = 200


def configure(settings: Settings) -> None:
    # The alarm, which blocks publishers, is far above.
    settings.memory_limit_bytes = LIMIT_BYTES << 40
    settings.paging_share = 1 / (1 << 40)


def body(number: int) -> bytes:
    return b"%06d" % number + bytes(SIZE)


def fill(client: Client, name: str = "q", count: int = COUNT, first: int = 0) -> None:
    """Publish messages, some in a turn, so that they are several batches."""
    for number in range(first, first + count):
        client.published += 1
        method = spec.BasicPublish(0, "", name, False, False)
        client.outbox += content_frames(1, method, b"\x00\x00", body(number), 131_072)
        if number % 3 == 0:
            client.exchange()
            client.pair.turn(client.station)
    client.call(spec.BasicQos(0, 0, False))


def files(station: Station) -> list[str]:
    return station.disk.list(DIRECTORY)


def short(pair: Pair, station: Station, excess: int = 1 << 40) -> None:
    """Have memory be short until nothing more goes to disk."""
    station.node.tick(LIMIT_BYTES + excess)
    pair.until(lambda: station.executor.idle)


@pytest.fixture
def pair() -> Pair:
    return Pair(alone=True, configure=configure)


@pytest.fixture
def client(pair: Pair) -> Client:
    client = pair.a.client()
    client.declare("q", durable=False)
    return client


@pytest.mark.rule("CQ-04")
def test_bodies_leave_memory_while_it_is_short_and_are_delivered_in_order(
    pair: Pair, client: Client
) -> None:
    fill(client)
    queue = pair.a.queue("q")
    assert queue.resident_bytes > COUNT * SIZE
    pair.a.node.tick(LIMIT_BYTES)
    pair.settle()
    # There is enough: all of it stays.
    assert queue.resident_bytes > COUNT * SIZE and not files(pair.a)
    short(pair, pair.a)
    assert queue.resident_bytes <= KEEP_BYTES + 3 * (SIZE + 100)
    assert queue.body_bytes > COUNT * SIZE and queue.ready_count() == COUNT
    assert files(pair.a)
    reader = pair.a.client()
    reader.consume("q")
    pair.until(lambda: len(reader.messages) == COUNT)
    assert reader.bodies() == [body(number) for number in range(COUNT)]
    assert not any(got.redelivered for got in reader.messages)
    reader.ack(COUNT, multiple=True)
    pair.until(lambda: queue.body_bytes == 0 and pair.a.executor.idle)
    assert queue.resident_bytes == 0 and not files(pair.a)


def test_only_as_much_goes_as_memory_is_short_of(pair: Pair, client: Client) -> None:
    fill(client)
    queue = pair.a.queue("q")
    before = queue.resident_bytes
    short(pair, pair.a, 1_000_000)
    assert 1_000_000 <= before - queue.resident_bytes < 1_000_000 + 4 * SIZE
    short(pair, pair.a, 500_000)
    assert 1_500_000 <= before - queue.resident_bytes < 1_500_000 + 8 * SIZE


def test_files_are_bounded_and_go_one_by_one(pair: Pair, client: Client) -> None:
    count = 3 * FILE_BYTES // SIZE
    fill(client, count=count)
    short(pair, pair.a)
    sizes = [pair.a.disk.open(f"{DIRECTORY}/{name}").size_bytes() for name in files(pair.a)]
    assert len(sizes) > 2
    assert all(FILE_BYTES <= size < FILE_BYTES + WRITE_BYTES for size in sizes[:-1])
    reader = pair.a.client()
    reader.qos(50)
    reader.consume("q")
    seen = 0
    left = len(sizes)
    pair.until(lambda: len(reader.messages) == 50)
    while seen < count:
        for got in reader.messages:
            assert got.body == body(seen)
            seen += 1
        last = reader.messages[-1].tag
        reader.messages = []
        reader.ack(last, multiple=True)
        wanted = min(50, count - seen)
        pair.until(lambda wanted=wanted: len(reader.messages) == wanted)
        # What is delivered is not kept, and memory holds what was read ahead, not all.
        assert pair.a.queue("q").resident_bytes < KEEP_BYTES + 2 * READ_BYTES + 60 * SIZE
        assert len(files(pair.a)) <= left
        left = len(files(pair.a))
    pair.until(lambda: not files(pair.a))


def test_polls_and_returns_and_what_comes_meanwhile(pair: Pair, client: Client) -> None:
    fill(client)
    short(pair, pair.a)
    fill(client, count=5, first=COUNT)
    for number in range(60):
        got = client.get("q")
        assert got is not None and got.body == body(number)
        if number % 2:
            client.ack(got.tag)
    # What was read back goes again, without being written again.
    size = sum(pair.a.disk.open(f"{DIRECTORY}/{name}").size_bytes() for name in files(pair.a))
    short(pair, pair.a)
    assert pair.a.queue("q").resident_bytes <= KEEP_BYTES + 10 * SIZE
    again = sum(pair.a.disk.open(f"{DIRECTORY}/{name}").size_bytes() for name in files(pair.a))
    assert again <= size + 10 * SIZE
    client.call(spec.BasicRecover(True))
    reader = pair.a.client()
    reader.consume("q")
    wanted = [body(number) for number in range(0, 60, 2)]
    wanted += [body(number) for number in range(60, COUNT + 5)]
    pair.until(lambda: len(reader.messages) == len(wanted))
    assert reader.bodies() == wanted


def test_dead_letters_and_consumers_of_another_node_get_bodies_from_disk() -> None:
    pair = Pair(configure=configure)
    client = pair.a.client()
    client.declare("dead")
    client.declare("q", durable=False)
    arguments: Any = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    client.call(spec.QueueDeclare(0, "old", False, False, False, False, False, arguments))
    fill(client, count=50)
    fill(client, "old", 50)
    short(pair, pair.a)
    assert pair.a.queue("old").resident_bytes < 10 * SIZE
    reader = pair.b.client()
    reader.consume("q")
    pair.until(lambda: len(reader.messages) == 50)
    assert reader.bodies() == [body(number) for number in range(50)]
    for _ in range(50):
        got = client.get("old")
        assert got is not None
        client.send(spec.BasicReject(got.tag, False))
    other = pair.a.client()
    other.consume("dead")
    pair.until(lambda: len(other.messages) == 50)
    assert other.bodies() == [body(number) for number in range(50)]


@pytest.mark.parametrize("how", ["purge", "delete", "expire"])
def test_what_leaves_unread_leaves_the_disk(pair: Pair, client: Client, how: str) -> None:
    fill(client)
    short(pair, pair.a)
    assert files(pair.a)
    if how == "purge":
        client.call(spec.QueuePurge(0, "q", False))
    elif how == "delete":
        client.call(spec.QueueDelete(0, "q", False, False, False))
    else:
        change = SetPolicy("/", "p", False, "^q$", "queues", 0, {"max-length": 0})
        pair.a.node.store.submit(change, None)
    pair.until(lambda: not files(pair.a))


def test_a_queue_that_is_deleted_during_a_write_and_a_read(pair: Pair, client: Client) -> None:
    fill(client)
    pair.a.node.tick(LIMIT_BYTES * 100)
    client.call(spec.QueueDelete(0, "q", False, False, False))
    pair.until(lambda: pair.a.executor.idle)
    assert not files(pair.a)
    client.declare("q", durable=False)
    fill(client)
    short(pair, pair.a)
    reader = pair.a.client()
    pair.a.hold_disk = True
    reader.consume("q")
    pair.settle()
    assert len(reader.messages) < COUNT
    client.send(spec.QueueDelete(0, "q", False, False, False))
    pair.settle()
    pair.a.hold_disk = False
    pair.until(lambda: pair.a.executor.idle and not files(pair.a))
    assert isinstance(client.declare("other"), spec.QueueDeclareOk)


def test_another_life_removes_what_is_left(pair: Pair, client: Client) -> None:
    fill(client)
    short(pair, pair.a)
    assert files(pair.a)
    pair.a.alive = False
    pair.a.clients = []
    pair.a.disk.restart()
    pair.a.start()
    assert not files(pair.a)
    pair.until(lambda: pair.a.node.ready)


def test_a_disk_without_room_leaves_bodies_in_memory(pair: Pair, client: Client) -> None:
    fill(client)
    room = pair.a.disk.capacity_bytes
    pair.a.disk.capacity_bytes -= pair.a.disk.free_bytes()
    short(pair, pair.a)
    assert pair.a.queue("q").resident_bytes > COUNT * SIZE
    assert any("stay in memory" in text for text in pair.a.warnings)
    pair.a.disk.capacity_bytes = room
    pair.until(lambda: not pair.a.node.own_alarms())
    short(pair, pair.a)
    assert pair.a.queue("q").resident_bytes < 10 * SIZE
    reader = pair.a.client()
    reader.consume("q")
    pair.until(lambda: len(reader.messages) == COUNT)
    assert reader.bodies() == [body(number) for number in range(COUNT)]


def test_nothing_goes_to_a_disk_that_is_full(pair: Pair, client: Client) -> None:
    fill(client)
    pair.a.node.disk_full(True)
    short(pair, pair.a)
    assert pair.a.queue("q").resident_bytes > COUNT * SIZE and not files(pair.a)


def test_a_damaged_body_is_lost_and_no_other(pair: Pair, client: Client) -> None:
    fill(client)
    short(pair, pair.a)
    path = f"{DIRECTORY}/{files(pair.a)[0]}"
    pair.a.disk.flip(path, 30 * SIZE, 1)
    reader = pair.a.client()
    reader.consume("q")
    pair.until(lambda: len(reader.messages) >= COUNT - 4)
    pair.settle()
    got = reader.bodies()
    assert COUNT - 4 <= len(got) < COUNT
    assert got == [body(number) for number in range(COUNT) if body(number) in got]
    assert any("are gone" in text for text in pair.a.warnings)
    reader.ack(reader.messages[-1].tag, multiple=True)
    pair.until(lambda: not files(pair.a))
    assert pair.a.queue("q").ready_count() == 0


def failing(times: int) -> Callable[..., bytes]:
    """A read that fails so often."""
    left = [times]
    reads = SimFile.read

    def read(self: SimFile, offset_bytes: int, size_bytes: int) -> bytes:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(errno.ETIMEDOUT, "simulated: the disk does not answer")
        return reads(self, offset_bytes, size_bytes)

    return read


def test_a_read_that_fails_is_tried_again(
    pair: Pair, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(client)
    short(pair, pair.a)
    monkeypatch.setattr(SimFile, "read", failing(2))
    reader = pair.a.client()
    reader.consume("q")
    pair.until(lambda: len(reader.messages) == COUNT)
    assert reader.bodies() == [body(number) for number in range(COUNT)]
    assert any("cannot be read for now" in text for text in pair.a.warnings)


@pytest.mark.rule("CQ-06")
@pytest.mark.parametrize("by", ["argument", "policy"])
def test_a_lazy_queue_has_its_bodies_on_disk_at_any_time(pair: Pair, by: str) -> None:
    """A durable one has them there anyway, whatever their delivery mode."""
    client = pair.a.client()
    arguments: Any = {"x-queue-mode": "lazy"} if by == "argument" else {}
    client.call(spec.QueueDeclare(0, "lazy", False, False, False, False, False, arguments))
    client.declare("q", durable=False)
    for name in ("lazy", "q"):
        fill(client, name)
    if by == "policy":
        change = SetPolicy("/", "p", False, "^lazy$", "queues", 0, {"queue-mode": "lazy"})
        pair.a.node.store.submit(change, None)
        pair.until(lambda: bool(pair.a.queue("lazy").lazy))
    pair.a.node.tick(0)
    pair.until(lambda: pair.a.executor.idle)
    assert pair.a.queue("lazy").resident_bytes < 10 * SIZE
    assert pair.a.queue("q").resident_bytes > COUNT * SIZE
    reader = pair.a.client()
    reader.consume("lazy")
    pair.until(lambda: len(reader.messages) == COUNT)
    assert reader.bodies() == [body(number) for number in range(COUNT)]


def test_many_queues_go_in_turns(pair: Pair) -> None:
    client = pair.a.client()
    for number in range(100):
        client.declare(f"q{number}", durable=False)
        fill(client, f"q{number}", 12)
    short(pair, pair.a)
    queues = [pair.a.queue(f"q{number}") for number in range(100)]
    assert all(queue.resident_bytes < 12 * SIZE for queue in queues)
    for number in range(0, 100, 7):
        got = [client.get(f"q{number}") for _ in range(12)]
        assert [each.body for each in got if each] == [body(at) for at in range(12)]


def test_publishers_of_a_queue_that_is_drained_wait_whatever_is_on_disk(
    pair: Pair, client: Client
) -> None:
    fill(client, count=400)
    short(pair, pair.a)
    queue = pair.a.queue("q")
    queue.draining = True
    assert queue.congested()
    queue.draining = False
    assert not queue.congested()


@pytest.mark.rule("MET-01")
def test_what_is_on_disk_alone_is_told_apart(pair: Pair, client: Client) -> None:
    """By messages and bytes, while bodies go to disk, come back and leave."""
    fill(client)
    queue = pair.a.queue("q")

    def told() -> tuple[int, int, int]:
        counts = queue.counts()
        assert (counts.persistent, counts.persistent_bytes) == (0, 0)
        assert counts.resident_bytes <= counts.bytes
        return int(counts.ready + counts.held), int(counts.resident), int(counts.resident_bytes)

    assert told()[:2] == (COUNT, COUNT) and told()[2] == queue.counts().bytes
    short(pair, pair.a)
    messages, resident, size = told()
    assert messages == COUNT and 0 < resident < COUNT
    assert size == min(queue.counts().bytes, queue.resident_bytes)
    # Those that the queue keeps in memory are the next to be delivered, and about so many.
    assert resident <= KEEP_BYTES // SIZE + 4
    consumer = pair.a.client()
    consumer.qos(10)
    consumer.consume("q")
    done = 0
    while done < COUNT:
        pair.until(lambda done=done: len(consumer.messages) > done)
        messages, resident, _ = told()
        assert 0 <= resident <= messages == COUNT - done
        done = len(consumer.messages)
        consumer.ack(done, multiple=True)
        pair.settle(3)
    assert told() == (0, 0, 0)
