"""Nodes whose disks hang or crawl: what they take is bounded, and others lead in their place."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair, Station
from warren.limits import DISK_BEHIND_MS_MAX, DISK_STALL_MS_MAX, HAND_OVER_PAUSE_MS_MAX
from warren.log.config import LogConfig
from warren.node.cluster.disks import DiskWatch
from warren.protocols.broker import Settings
from warren.replication.member import Member
from warren.replication.throttle import READ_BYTES
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import HEARTBEAT_FRAME

WAITING_BYTES = 262_144
FILE_BYTES = 262_144
PINNED_FILES = 4
BODY = bytes(4_096)
CONFIRM_SELECT = spec.ConfirmSelect(False)


def small(settings: Settings) -> None:
    """Bounds that a test reaches soon."""
    settings.log = LogConfig(
        wal_max_size_bytes=FILE_BYTES,
        reserve_bytes=1 << 16,
        compact_interval_ms=100,
        waiting_bytes_max=WAITING_BYTES,
        pinned_bytes_max=PINNED_FILES * FILE_BYTES,
    )


def three() -> Pair:
    """Nodes a, b and c; queue q is led by a."""
    pair = Pair(configure=small)
    pair.add("c")
    client = pair.a.client()
    client.declare("q", kind="quorum")
    pair.until(lambda: all(leader(pair, name) == "a" for name in pair.stations))
    return pair


def member(station: Station) -> Member:
    """A node's member of queue q."""
    return station.node.cluster.members[int(station.queue("q").group_id)]


def leader(pair: Pair, name: str) -> str:
    """Who leads q, as a node knows."""
    return str(member(pair.stations[name]).raft.leader)


def confirming(station: Station) -> Client:
    """A client in confirm mode."""
    client = station.client()
    client.call(CONFIRM_SELECT)
    return client


def within(pair: Pair, seconds: int) -> None:
    """Let this much time pass."""
    until = pair.clock.monotonic_ms() + 1_000 * seconds
    while pair.clock.monotonic_ms() < until:
        pair.step()


def publish_some(pair: Pair, client: Client, count: int, body: bytes = BODY) -> None:
    """Publish, a little in each step."""
    for _ in range(count):
        client.publish("q", body)
        pair.step()


def waiting(station: Station) -> int:
    """Bytes that wait for a node's disk."""
    return int(station.node.log.waiting_bytes)


def test_a_leader_whose_disk_hangs_gives_the_lead_away_and_does_not_get_it_again() -> None:
    pair = three()
    client = confirming(pair.b)
    pair.a.hold_disk = True
    began = pair.clock.monotonic_ms()
    publish_some(pair, client, 5)
    pair.until(lambda: leader(pair, "b") in ("b", "c"))
    assert pair.clock.monotonic_ms() - began < DISK_STALL_MS_MAX + 1_500
    pair.until(lambda: len(client.acked) == 5)
    # Now the two that are left have to elect again, and again: never the one that hangs.
    for _ in range(3):
        old = leader(pair, "b")
        for other in ("a", "b", "c"):
            pair.blocked |= {(old, other), (other, old)}
            pair.cut(old, other)
            pair.cut(other, old)
        for _ in range(300):
            pair.step()
            assert not member(pair.a).raft.is_leader
        pair.blocked.clear()
        pair.until(lambda: leader(pair, "b") == leader(pair, "c") != "")
    publish_some(pair, client, 5)
    pair.until(lambda: len(client.acked) == 10)
    assert leader(pair, "b") in ("b", "c")
    pair.a.hold_disk = False
    consumer = pair.a.client()
    consumer.consume("q", no_ack=True)
    pair.until(lambda: len(consumer.messages) == 10)


def test_a_leader_whose_disk_hangs_takes_a_bounded_amount_from_clients_of_all_nodes() -> None:
    """Nobody can lead in its place here: the others are behind as well."""
    pair = three()
    clients = [confirming(station) for station in pair.stations.values()]
    for station in pair.stations.values():
        station.hold_disk = True
    for _ in range(600):
        for client in clients:
            if len(client.outbox) < 100_000:
                client.publish("q", BODY)
        pair.step()
        for station in pair.stations.values():
            assert waiting(station) < 2 * WAITING_BYTES
    assert all(client.held for client in clients)
    queues = [station.queue("q") for station in pair.stations.values()]
    assert sum(int(queue.unwritten_bytes) for queue in queues) < 4 * WAITING_BYTES
    for station in pair.stations.values():
        station.hold_disk = False
    pair.until(lambda: all(len(client.acked) == client.published for client in clients))


def test_what_is_kept_for_declining_leaders_is_bounded_on_the_node() -> None:
    """Each queue had a bound, and there may be thousands of them."""
    pair = three()
    names = [f"q{number}" for number in range(8)]
    for name in names:
        pair.a.client().declare(name, kind="quorum")
    pair.until(lambda: pair.b.knows(names[-1]))
    pair.settle()
    others = [pair.a, pair.stations["c"]]
    for station in others:
        station.hold_disk = True
    clients = [confirming(pair.b) for _ in names]
    sent = 0
    for _ in range(3 * WAITING_BYTES // len(BODY) // len(names)):
        for client, name in zip(clients, names, strict=True):
            if not client.held:
                client.publish(name, BODY)
                sent += 1
        pair.step()
    pair.settle()
    assert all(client.held for client in clients)
    assert sent * len(BODY) < 2 * WAITING_BYTES
    assert sum(len(client.acked) for client in clients) < sent
    for station in others:
        station.hold_disk = False
    pair.until(lambda: sum(len(client.acked) for client in clients) == sent)
    pair.until(lambda: not any(client.held for client in clients))


def test_submissions_that_a_leader_declined_are_taken_when_its_disk_keeps_up() -> None:
    pair = three()
    client = confirming(pair.b)
    own = confirming(pair.a)
    pair.a.hold_disk = True
    while not pair.a.node.disk_behind:
        own.publish("q", bytes(65_536))
        pair.step()
    publish_some(pair, client, 10)
    took = member(pair.a).client_sessions.next(member(pair.b).session())
    publish_some(pair, client, 10)
    assert member(pair.a).client_sessions.next(member(pair.b).session()) == took
    assert member(pair.a).raft.is_leader
    pair.a.hold_disk = False
    pair.until(lambda: len(client.acked) == 20 and len(own.acked) == own.published)
    assert member(pair.a).raft.is_leader


@pytest.mark.parametrize("size", [4_096, 60_000])
def test_a_follower_whose_disk_hangs_holds_nobody_up_and_takes_a_bounded_amount(size: int) -> None:
    pair = three()
    client = confirming(pair.a)
    consumer = pair.a.client()
    consumer.consume("q", no_ack=True)
    lagging = pair.stations["c"]
    lagging.hold_disk = True
    body = bytes(size)
    files = 0
    for at in range(6_000_000 // size):
        client.publish("q", body)
        pair.until(lambda: len(client.acked) >= at - 16)  # noqa: B023
        assert waiting(lagging) < WAITING_BYTES + 40 * size
        files = max(files, sum(name.endswith(".log") for name in pair.a.disk.list("log")))
    # Some 24 files were written, and all of it is consumed.
    assert 3 < files <= PINNED_FILES + 5
    pair.until(lambda: len(client.acked) == client.published)
    lagging.hold_disk = False
    pair.until(lambda: member(lagging).applied_index == member(pair.a).applied_index)
    late = lagging.client()
    late.consume("q", no_ack=True)
    client.publish("q", b"last")
    pair.until(lambda: [m.body for m in [*late.messages, *consumer.messages[-1:]]][-1] == b"last")


def test_a_node_whose_disk_hangs_takes_a_bounded_amount_for_classic_queues() -> None:
    pair = Pair(configure=small)
    near, far = confirming(pair.a), confirming(pair.b)
    near.declare("q")
    pair.a.hold_disk = True
    for _ in range(400):
        for client in (near, far):
            if len(client.outbox) < 100_000:
                client.publish("q", BODY)
        pair.step()
        assert waiting(pair.a) < 2 * WAITING_BYTES
    assert near.held and not near.over
    pair.a.hold_disk = False
    pair.until(lambda: all(len(client.acked) == client.published for client in (near, far)))


def test_a_disk_that_hangs_takes_a_bounded_part_of_a_snapshot() -> None:
    pair = three()
    client = confirming(pair.a)
    lagging = pair.stations["c"]
    lagging.kill()
    while member(pair.a).log.snapshot_index < 50:
        client.publish("q", bytes(60_000))
        pair.until(lambda: len(client.acked) == client.published)
    group_id = int(pair.a.queue("q").group_id)
    lagging.start()
    members = lagging.node.cluster.members
    pair.until(lambda: group_id in members and members[group_id].log.incomplete)
    lagging.hold_disk = True
    within(pair, 12)
    assert waiting(lagging) < WAITING_BYTES + 2 * READ_BYTES
    lagging.hold_disk = False
    pair.until(lambda: members[group_id].applied_index == member(pair.a).applied_index)


def test_somebody_leads_in_the_end_even_if_all_disks_are_slow() -> None:
    pair = three()
    others = pair.b, pair.stations["c"]
    for station in others:
        station.hold_disk = True
    within(pair, 3)
    for station in others:
        station.hold_disk = False
    pair.a.kill()
    within(pair, 1)
    assert not any(member(station).raft.is_leader for station in others)
    pair.until(lambda: any(member(station).raft.is_leader for station in others))


def test_a_stop_of_the_process_is_not_taken_for_a_slow_disk() -> None:
    pair = three()
    client = confirming(pair.a)
    for _ in range(20):
        publish_some(pair, client, 1)
        pair.clock.advance(DISK_STALL_MS_MAX + 1_000)
    pair.until(lambda: len(client.acked) == client.published)
    assert not any("disk" in line for s in pair.stations.values() for line in s.warnings)


def test_a_client_is_not_given_up_for_what_was_not_read_while_its_node_stood_still() -> None:
    pair = Pair(alone=True)
    node = pair.a.node
    client = pair.a.client(heartbeat_s=10)
    node.tick(0)
    for _ in range(3):
        pair.clock.advance(60_000)
        client.outbox += HEARTBEAT_FRAME
        # The clock is looked at before the socket is.
        node.tick_log()
        node.tick(0)
        client.exchange()
        assert not client.over
    for _ in range(30):
        pair.clock.advance(1_000)
        node.tick_log()
        node.tick(0)
    assert client.over


def test_snapshots_are_not_taken_again_and_again_before_a_disk_that_hangs() -> None:
    """A closed file whose entries no durable snapshot covers is asked about at each look."""
    pair = Pair(alone=True, configure=small)
    client = confirming(pair.a)
    client.declare("q")
    # Once a file is closed, its snapshot is what waits for the disk, and nothing else.
    while client.published < 3 or waiting(pair.a) == 0 or len(client.acked) < client.published:
        if len(client.acked) == client.published and waiting(pair.a) == 0:
            client.publish("q", bytes(60_000))
        pair.step()
    pair.a.hold_disk = True
    within(pair, 3)
    before = waiting(pair.a)
    within(pair, 6)
    assert waiting(pair.a) == before
    pair.a.hold_disk = False
    pair.until(lambda: waiting(pair.a) == 0)


def test_a_lead_that_nobody_can_take_is_offered_ever_more_rarely() -> None:
    """Each time, proposals stop for a second; and it is said once."""
    pair = three()
    for name in "bc":
        member(pair.stations[name]).raft.abstain(True)
    pair.a.hold_disk = True
    within(pair, 10)
    open_steps = 0
    for _ in range(3_000):
        open_steps += member(pair.a).raft.can_propose()
        pair.step()
    assert member(pair.a).raft.is_leader
    assert open_steps > 2_000
    said = [text for text in pair.a.warnings if "queue 'q' in vhost '/' cannot be led by b" in text]
    assert len(said) == 1
    for name in "bc":
        member(pair.stations[name]).raft.abstain(False)
    within(pair, HAND_OVER_PAUSE_MS_MAX // 1_000 + 2)
    assert leader(pair, "b") in ("b", "c")


def test_a_disk_that_crawls_has_others_lead_as_one_that_hangs_does() -> None:
    """Each write ends in time, and there is always more waiting than may."""
    watch = DiskWatch(WAITING_BYTES)
    for now in range(0, DISK_BEHIND_MS_MAX + 1, 500):
        watch.look(WAITING_BYTES + 1, 50, now)
        assert watch.behind and not watch.slow
    watch.look(WAITING_BYTES + 1, 50, DISK_BEHIND_MS_MAX + 501)
    assert watch.behind and watch.slow
