"""Damage in closed files: the queue has a problem, and mends it if it can; not the node."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import warren
from sim.disk import SimDisk
from tests.node.pair import Client, Pair, Station
from warren.errors import CorruptRecord, StorageError
from warren.log import salvage
from warren.log.batch import HEADER_BYTES, Batch
from warren.log.group import newest_snapshot, newest_state
from warren.log.manifest import SALVAGE_PATH
from warren.node import repairs
from warren.protocols.broker import Settings
from warren.queues.logged import GapCheck, LoggedQueue
from warren.replication.member import Member
from warren.wire.amqp091 import spec

QUEUE = "orders"
FILE_BYTES = 1 << 16
COUNT = 60
LOOK_MS = 70_000
"""An idle log is looked through once in that time."""


def body(number: int) -> bytes:
    return b"message %06d " % number + b"." * 4_000


def filled(nodes: int, kind: str, size: int = 0) -> tuple[Pair, Client]:
    """Some nodes, and a queue of a few closed files; nothing of it in memory."""
    pair = Pair(alone=True, file_bytes=FILE_BYTES)
    for name in "bcd"[: nodes - 1]:
        pair.add(name)
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind=kind, size=size), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    for number in range(1, COUNT + 1):
        client.publish(QUEUE, body(number))
        pair.until(lambda: len(client.acked) == client.published)
    holders = [station for station in pair.stations.values() if holds(station)]
    pair.until(lambda: all(closed_files(station) > 2 for station in holders))
    for station in holders:
        forget(station)
    return pair, client


def holds(station: Station) -> bool:
    """Whether a node has a copy of the queue."""
    return int(station.record(QUEUE).group_id) in station.node.queues.logged


def forget(station: Station) -> None:
    """Let a node have nothing in memory of what can be read from its disk."""
    queue = station.queue(QUEUE)
    queue.messages.store.cache.forget(queue.messages.share.recent)
    queue.messages.store.cache.forget(queue.messages.share.read_back)


def closed_files(station: Station) -> int:
    files = station.node.log._store.files
    return sum(file.closed and file.has_sidecar for file in files)


def place_of(disk: SimDisk, text: bytes) -> tuple[str, int]:
    """A closed file and the offset in it at which some text lies."""
    for path, content in disk.image().items():
        if path.endswith(".log") and text in content:
            return path, content.index(text)
    raise AssertionError("it is nowhere on the disk")


def damage(station: Station, number: int) -> None:
    """Flip a bit of a message's body."""
    assert is_closed(station, number), "the test is about closed files"
    path, offset = place_of(station.disk, b"message %06d" % number)
    station.disk.flip(path, offset + 100, 0x10)


def is_closed(station: Station, number: int) -> bool:
    """Whether a message lies in a closed file."""
    path, _ = place_of(station.disk, b"message %06d" % number)
    return path in [file.path for file in station.node.log._store.files if file.closed]


def member(station: Station) -> Member:
    """A node's copy of the queue."""
    return station.node.cluster.members[int(station.queue(QUEUE).group_id)]


def drained(pair: Pair, client: Client, count: int) -> list[int]:
    """Consume so many messages, a few at a time; their numbers."""
    client.qos(5)
    client.consume(QUEUE)
    acked = 0

    def enough() -> bool:
        nonlocal acked
        if len(client.messages) > acked:
            acked = len(client.messages)
            client.ack(client.messages[-1].tag, multiple=True)
        return acked >= count

    pair.until(enough)
    assert all(got.body[15:] == b"." * 4_000 for got in client.messages)
    return [int(got.body.split()[1]) for got in client.messages]


@pytest.mark.parametrize("reader", ["leader", "follower"])
def test_a_damaged_message_of_a_quorum_queue_comes_from_the_other_members(reader: str) -> None:
    pair, client = filled(3, "quorum")
    station = pair.a if reader == "leader" else pair.stations["c"]
    assert member(pair.a).raft.is_leader
    before = int(member(station).hard_state.incarnation)
    damage(station, 7)
    other = station.client()
    assert drained(pair, other, COUNT) == list(range(1, COUNT + 1))
    assert int(member(station).hard_state.incarnation) != before
    assert any("the copy of queue 'orders' in vhost '/'" in text for text in station.warnings)
    assert station.node.failure is None
    # It is a member like any other again.
    raft = member(station).raft
    pair.until(lambda: raft.state.is_voter() and raft.commit_index == raft.last_index)


def test_a_damaged_message_comes_from_the_others_to_a_node_that_holds_none() -> None:
    """The member that feeds it has what lies behind the hole, of which it can make nothing."""
    pair, _ = filled(4, "quorum")
    (far,) = [station for station in pair.stations.values() if not holds(station)]
    client = far.client()
    client.qos(1)
    client.consume(QUEUE)
    pair.until(lambda: len(client.messages) == 1)
    observer = far.node.observers.observer(far.record(QUEUE).group_id)
    assert observer is not None
    station = pair.stations[observer.serving]
    before = int(member(station).hard_state.incarnation)
    forget(station)
    damage(station, 30)
    client.vanish()
    assert drained(pair, far.client(), COUNT) == list(range(1, COUNT + 1))
    # And the member is mended.
    pair.until(lambda: int(member(station).hard_state.incarnation) != before)


def test_what_a_cancelled_consumer_holds_stays_its_own_while_its_copy_is_begun_anew() -> None:
    """The new copy hands it out once more, to a consumer that nothing is sent to any more."""
    pair, _ = filled(3, "quorum")
    station = pair.stations["c"]
    before = int(member(station).hard_state.incarnation)
    holder, other = station.client(), station.client()
    holder.qos(5)
    holder.consume(QUEUE)
    pair.until(lambda: len(holder.messages) == 5)
    holder.call(spec.BasicCancel(holder.messages[0].method.consumer_tag, False))
    forget(station)
    damage(station, 7)
    other.qos(5)
    other.consume(QUEUE)
    pair.until(lambda: int(member(station).hard_state.incarnation) != before)
    pair.until(lambda: len(other.messages) == 5)
    pair.settle()
    assert [int(got.body.split()[1]) for got in other.messages] == [6, 7, 8, 9, 10]
    holder.ack(holder.messages[-1].tag, multiple=True)
    other.vanish()
    last = pair.a.client()
    assert drained(pair, last, COUNT - 5) == list(range(6, COUNT + 1))
    pair.settle()
    assert len(last.messages) == COUNT - 5


def test_a_damaged_copy_is_kept_while_the_others_cannot_do_without() -> None:
    pair, client = filled(3, "quorum")
    station = pair.stations["c"]
    pair.stations["b"].kill()
    before = int(member(station).hard_state.incarnation)
    damage(station, 7)
    other = station.client()
    other.qos(COUNT)
    other.consume(QUEUE)
    pair.until(lambda: any("stays for now" in text for text in station.warnings))
    pair.settle(200)
    assert [int(got.body.split()[1]) for got in other.messages] == [1, 2, 3, 4, 5, 6]
    assert int(member(station).hard_state.incarnation) == before
    # Nobody else is held up, and what follows gets there.
    client.publish(QUEUE, body(COUNT + 1))
    pair.until(lambda: len(client.acked) == client.published)
    pair.stations["b"].start()
    pair.until(lambda: len(other.messages) == COUNT)
    assert int(member(station).hard_state.incarnation) != before


@pytest.mark.parametrize("way", ["consume", "get", "held", "consume far", "get far", "held far"])
def test_the_only_copy_says_which_messages_are_gone_and_serves_the_rest(way: str) -> None:
    """To clients of its node, and to those of nodes without a copy."""
    pair, client = filled(2 if "far" in way else 1, "quorum", 1)
    for number in (7, 8, 30):
        damage(pair.a, number)
    if "far" in way:
        pair.until(lambda: pair.stations["b"].knows(QUEUE))
        client = pair.stations["b"].client()
        assert not holds(pair.stations["b"])
        way = way.removesuffix(" far")
    expected = [n for n in range(1, COUNT + 1) if n not in (7, 8, 30)]
    if way == "get":
        numbers = []
        for _ in expected:
            got = client.get(QUEUE)
            assert got is not None
            numbers.append(int(got.body.split()[1]))
            client.ack(got.tag)
        assert client.get(QUEUE) is None
    elif way == "consume":
        numbers = drained(pair, client, len(expected))
    else:
        # Handed to a consumer as a whole before any of it was read.
        client.consume(QUEUE)
        pair.until(lambda: len(client.messages) == len(expected))
        numbers = [int(got.body.split()[1]) for got in client.messages]
        client.ack(client.messages[-1].tag, multiple=True)
    assert numbers == expected
    said = " ".join(text for text in pair.a.warnings if "are gone" in text)
    assert "of queue 'orders' in vhost '/' are gone, the others are served" in said
    stays_empty(pair)


def stays_empty(pair: Pair) -> None:
    """What is gone is gone for good, and that is on the disk."""
    pair.until(lambda: pair.a.queue(QUEUE).live() == [])
    pair.settle(40)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    assert pair.a.queue(QUEUE).ready_count() == 0


def test_another_copy_takes_the_place_of_the_only_voter() -> None:
    """One that has everything is given a vote for it; in the end there is one voter again."""
    pair = Pair(alone=True, file_bytes=FILE_BYTES)
    other = pair.add("b")
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    pair.add_member(QUEUE, "b", votes=False)
    client.call(spec.ConfirmSelect(False))
    for number in range(1, COUNT + 1):
        client.publish(QUEUE, body(number))
        pair.until(lambda: len(client.acked) == client.published)
    pair.until(lambda: is_closed(pair.a, 7) and closed_files(pair.a) > 2)
    forget(pair.a)
    before = int(member(pair.a).hard_state.incarnation)
    damage(pair.a, 7)
    assert drained(pair, pair.a.client(), COUNT) == list(range(1, COUNT + 1))
    assert int(member(pair.a).hard_state.incarnation) != before
    raft = member(other).raft
    pair.until(lambda: [(c.node, c.voter) for c in raft.members] == [("b", True), ("a", False)])
    assert not any("are gone" in text for text in pair.a.warnings)


@pytest.mark.parametrize("way", ["consume", "get", "consume far", "get far"])
def test_a_classic_queue_says_which_messages_are_gone_and_serves_the_rest(way: str) -> None:
    pair, client = filled(2 if "far" in way else 1, "classic")
    for number in (7, 8, 30):
        damage(pair.a, number)
    if "far" in way:
        far = pair.stations["b"]
        pair.until(lambda: far.node.remotes.line("a").number > 0)
        client = far.client()
    expected = [n for n in range(1, COUNT + 1) if n not in (7, 8, 30)]
    if way.startswith("get"):
        numbers = []
        for _ in expected:
            got = client.get(QUEUE)
            assert got is not None
            numbers.append(int(got.body.split()[1]))
            client.ack(got.tag)
        assert client.get(QUEUE) is None
    else:
        numbers = drained(pair, client, len(expected))
    assert numbers == expected
    said = " ".join(pair.a.warnings)
    assert (
        "messages 6 to 7" in said and "29 of queue 'orders' in vhost '/' are gone, the oth" in said
    )
    stays_empty(pair)


def test_a_leader_that_cannot_read_what_a_peer_needs_has_another_one_lead() -> None:
    pair, client = filled(3, "quorum")
    pair.stations["c"].kill()
    before = int(member(pair.a).hard_state.incarnation)
    for number in range(COUNT + 1, 2 * COUNT + 1):
        client.publish(QUEUE, body(number))
        pair.until(lambda: len(client.acked) == client.published)
    pair.until(lambda: is_closed(pair.a, COUNT + 7))
    member(pair.a).log.keep_recent(0)
    for number in (7, COUNT + 7):
        damage(pair.a, number)
    pair.stations["c"].start()
    pair.until(lambda: int(member(pair.a).hard_state.incarnation) != before)
    station = pair.stations["c"]
    other = station.client()
    assert drained(pair, other, 2 * COUNT) == list(range(1, 2 * COUNT + 1))


def test_damage_that_only_a_rewrite_meets_is_mended_as_well() -> None:
    pair, client = filled(3, "quorum")
    station = pair.stations["c"]
    before = int(member(station).hard_state.incarnation)
    damage(station, 7)
    other = pair.a.client()
    other.qos(COUNT)
    other.consume(QUEUE)
    pair.until(lambda: len(other.messages) == COUNT)
    # Most of the file is dead, and the damaged message in it is not.
    for got in other.messages:
        if int(got.body.split()[1]) != 7:
            other.ack(got.tag)
    pair.clock.advance(10_000)
    pair.until(lambda: int(member(station).hard_state.incarnation) != before)
    other.vanish()
    assert drained(pair, station.client(), 1) == [7]


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_damaged_snapshot_is_written_anew(kind: str) -> None:
    pair, client = filled(1, kind)
    client.consume(QUEUE)
    pair.until(lambda: len(client.messages) == COUNT)
    log = pair.a.queue(QUEUE).messages
    client.declare("another")
    place = newest_snapshot(log)
    assert place is not None
    while not place.file.closed:
        client.publish("another", bytes(4_000))
        pair.until(lambda: len(client.acked) == client.published)
        place = newest_snapshot(log)
        assert place is not None
    pair.a.disk.flip(place.file.path, int(place.snapshot_offset) + HEADER_BYTES + 3, 1)
    number = int(log.snapshot_index)
    client.ack(client.messages[-2].tag, multiple=True)
    # Little lives in that file now, beside the snapshot.
    client.call(spec.QueuePurge(0, "another", False))
    pair.settle()
    pair.clock.advance(LOOK_MS)
    pair.until(lambda: int(log.snapshot_index) > number)
    pair.until(lambda: pair.a.queue(QUEUE).live() == [(COUNT - 1, COUNT - 1)])
    pair.settle()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    assert drained(pair, client, 1) == [COUNT]


def copy_on(station: Station, name: str) -> int:
    """Which copy of the queue a node's tables name for a node."""
    row = station.record(QUEUE).member_on(name)
    assert row is not None
    return int(row.incarnation)


def rolled(pair: Pair, client: Client, station: Station, what: str) -> tuple[str, int]:
    """Where a queue's newest state or snapshot is, once it lies in a closed file of a node."""
    log = station.queue(QUEUE).messages
    client.declare("another", kind="quorum")

    def closed() -> bool:
        place = newest_state(log) if what == "state" else newest_snapshot(log)
        return place is not None and place.file.closed and place.file.has_sidecar

    while not closed():
        client.publish("another", bytes(4_000))
        pair.until(lambda: len(client.acked) == client.published)
        pair.settle(3)
    place = newest_state(log) if what == "state" else newest_snapshot(log)
    assert place is not None
    offset = place.state_offset if what == "state" else place.snapshot_offset
    return place.file.path, int(offset)


@pytest.mark.parametrize("what", ["state", "snapshot"])
def test_a_copy_that_cannot_be_started_is_brought_up_anew(what: str) -> None:
    pair, client = filled(3, "quorum")
    station = pair.stations["c"]
    before = int(member(station).hard_state.incarnation)
    path, offset = rolled(pair, client, station, what)
    station.kill()
    station.disk.flip(path, offset + HEADER_BYTES + 1, 1)
    station.start()
    # Others are served here meanwhile, and nobody counts on what this node had.
    pair.until(lambda: station.node.ready)
    group_id = int(pair.a.queue(QUEUE).group_id)
    pair.until(lambda: group_id in station.node.cluster.members)
    assert int(member(station).hard_state.incarnation) != before
    assert any("is not started" in text for text in station.warnings)
    raft = member(station).raft
    pair.until(lambda: raft.state.is_voter() and raft.commit_index == raft.last_index > 0)
    assert drained(pair, station.client(), COUNT) == list(range(1, COUNT + 1))
    # It stays so.
    station.kill()
    station.start()
    pair.until(lambda: station.node.ready)
    assert int(member(station).hard_state.incarnation) != before


@pytest.mark.parametrize("told", ["entries", "snapshot"])
def test_a_copy_that_cannot_be_started_is_replaced_while_its_node_is_down(told: str) -> None:
    """The tables name another one before they know the life that is to begin it."""
    pair, client = filled(3, "quorum")
    station = pair.stations["c"]
    before = copy_on(station, "c")
    client.declare("another", kind="quorum")
    while not is_closed(station, COUNT):
        # No snapshot is taken that would cover the damage.
        station.node.disk_behind = True
        client.publish("another", bytes(4_000))
        pair.until(lambda: len(client.acked) == client.published)
        pair.settle(3)
    # Behind the snapshot; what says which copy this is can be read.
    log = member(station).log
    assert log.snapshot_index < log.last_index
    damage(station, COUNT)
    station.kill()
    station.start()

    def granted() -> bool:
        # It hears no more of the tables once they know this life of it, and asks all the same.
        if station.node.cluster.session:
            for name in "ab":
                pair.withheld.setdefault((name, "c"), [])
        return copy_on(pair.a, "c") != before

    pair.until(granted)
    assert any("is not started" in text for text in station.warnings)
    assert copy_on(station, "c") == before
    station.kill()
    pair.withheld = {}
    if told == "snapshot":
        for name in "ab":
            store = pair.stations[name].node.store
            store.snapshot()
            store.member().log.keep_recent(0)
    station.start()
    group_id = int(pair.a.queue(QUEUE).group_id)
    pair.until(lambda: station.node.cluster.session > 0)
    assert group_id in station.node.cluster.members, "clients are let in at once"
    assert int(member(station).hard_state.incarnation) == copy_on(pair.a, "c") != before
    raft = member(station).raft
    pair.until(lambda: raft.state.is_voter() and raft.commit_index == raft.last_index > 0)
    assert drained(pair, station.client(), COUNT) == list(range(1, COUNT + 1))


def test_a_copy_that_cannot_be_started_never_votes_under_its_old_name() -> None:
    """Not even where the tables here are too old to know of a newer one; nothing is dropped."""
    pair, client = filled(3, "quorum")
    station = pair.stations["c"]
    path, offset = rolled(pair, client, station, "state")
    for name in "abc":
        pair.stations[name].kill()
    station.disk.flip(path, offset + HEADER_BYTES + 1, 1)
    image = station.disk.image()[path]
    station.start()
    pair.a.start()
    pair.until(lambda: station.node.ready)
    group_id = int(pair.a.queue(QUEUE).group_id)
    pair.settle(300)
    assert group_id not in station.node.cluster.members
    assert pair.a.node.cluster.members[group_id].raft.leader == ""
    assert station.disk.image()[path] == image
    pair.stations["b"].start()
    pair.until(lambda: group_id in station.node.cluster.members)
    assert drained(pair, station.client(), COUNT) == list(range(1, COUNT + 1))


def test_a_classic_queue_that_cannot_be_started_leaves_the_others_alone() -> None:
    pair, client = filled(1, "classic")
    path, offset = rolled(pair, client, pair.a, "snapshot")
    pair.a.kill()
    pair.a.disk.flip(path, offset + HEADER_BYTES + 1, 1)
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    answer = client.declare(QUEUE, passive=True)
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 404
    other = pair.a.client()
    assert other.get("another") is not None
    # What it had is kept, until somebody deletes it.
    assert pair.a.disk.exists(path)
    answer = other.call(spec.QueueDelete(0, QUEUE, False, False, False))
    assert isinstance(answer, spec.QueueDeleteOk)
    assert isinstance(other.declare(QUEUE), spec.QueueDeclareOk)
    other.publish(QUEUE, b"new")
    pair.until(lambda: other.get(QUEUE) is not None)
    other.vanish()
    pair.a.client().call(spec.QueuePurge(0, "another", False))
    pair.clock.advance(LOOK_MS)
    pair.until(lambda: not pair.a.disk.exists(path))


def halted() -> tuple[Pair, Client]:
    """A classic queue that its node cannot start, and a client of another node."""
    pair, client = filled(2, "classic")
    path, offset = rolled(pair, client, pair.a, "snapshot")
    pair.a.kill()
    pair.a.disk.flip(path, offset + HEADER_BYTES + 1, 1)
    pair.a.start()
    far = pair.stations["b"]
    pair.until(lambda: pair.a.node.ready and far.node.remotes.line("a").number > 0)
    return pair, far.client()


def test_who_uses_a_queue_that_cannot_be_started_from_another_node_is_answered() -> None:
    """Nobody waits for ever, and other queues of that node go on over the same line."""
    pair, client = halted()
    assert isinstance(pair.a.client().declare("whole"), spec.QueueDeclareOk)
    other = pair.stations["b"].client()
    pair.until(lambda: pair.stations["b"].knows("whole"))
    other.consume("whole")
    asked: list[spec.Method] = [
        spec.QueueDeclare(0, QUEUE, True),
        spec.QueuePurge(0, QUEUE, False),
        spec.BasicGet(0, QUEUE, False),
        spec.BasicConsume(0, QUEUE),
        spec.QueueDelete(0, QUEUE, True, False, False),
    ]
    for method in asked:
        answer = client.call(method)
        assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 404, method
        assert "home node 'a' of durable queue 'orders'" in answer.reply_text
    client.call(spec.ConfirmSelect(False))
    client.published = 0
    client.publish(QUEUE, b"lost")
    pair.until(lambda: client.nacked == {1})
    client.publish("whole", b"kept")
    pair.until(lambda: other.bodies() == [b"kept"] and client.acked == {2})


@pytest.mark.parametrize("node", "ab")
def test_a_queue_that_cannot_be_started_can_be_deleted_through_any_node(node: str) -> None:
    pair, _ = halted()
    client = pair.stations[node].client()
    answer = client.call(spec.QueueDelete(0, QUEUE, False, False, False))
    assert isinstance(answer, spec.QueueDeleteOk)
    pair.until(lambda: not pair.a.knows(QUEUE))
    assert isinstance(client.declare(QUEUE), spec.QueueDeclareOk)
    client.publish(QUEUE, b"new")
    far = pair.stations["b"].client()
    pair.until(lambda: pair.stations["b"].knows(QUEUE))
    got: list[bytes] = []

    def came() -> bool:
        found = far.get(QUEUE)
        if found is not None:
            got.append(found.body)
        return len(got) > 0

    pair.until(came)
    assert got == [b"new"]


def test_what_a_start_found_gone_is_said_once_the_queue_is_named() -> None:
    """A cluster's node reads its log before the others tell it which queues there are."""
    pair = Pair(file_bytes=FILE_BYTES)
    station = pair.b
    client = station.client()
    client.declare("another")
    assert isinstance(client.declare(QUEUE, kind="classic"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    for number in range(1, COUNT + 1):
        # No snapshot is taken that would cover what was published.
        station.node.disk_behind = False
        client.publish(QUEUE, body(number))
        client.exchange()
        pair.turn(station)
        station.node.disk_behind = True
        pair.until(lambda: len(client.acked) == client.published)
    pair.until(lambda: is_closed(station, 7) and closed_files(station) > 2)
    damage(station, 7)
    station.kill()
    station.warnings.clear()
    # It hears nothing of the tables for now.
    pair.withheld["a", "b"] = []
    station.start()
    pair.settle(100)
    assert not any("are gone" in text for text in station.warnings)
    assert station.node.metadata.queue("/", QUEUE) is None
    pair.release()
    pair.until(lambda: station.node.ready)
    said = [text for text in station.warnings if "are gone" in text]
    assert len(said) == 1
    assert "messages 6 of queue 'orders' in vhost '/' are gone" in said[0]
    got = drained(pair, station.client(), COUNT - 1)
    assert got == [number for number in range(1, COUNT + 1) if number != 7]


def salvaging(settings: Settings) -> None:
    """As a server with `--salvage` has it."""
    settings.salvage = True


def begin_file(pair: Pair, client: Client) -> None:
    """Have all nodes come to the file that they go on writing to."""
    for _ in range(3):
        client.publish(QUEUE, b"before")
        pair.settle(40)
    client.call(spec.QueuePurge(0, QUEUE, False))
    client.call(spec.ConfirmSelect(False))
    client.published = 0


def spoil(station: Station, text: bytes) -> None:
    """Flip a bit of some text in the file that a node was writing."""
    path = station.node.log._store.files[-1].path
    station.disk.flip(path, station.disk.image()[path].index(text) + 1, 0x10)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_node_that_is_alone_goes_on_with_what_is_whole_of_its_newest_file(kind: str) -> None:
    """When it is told to; else it is as it was."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare(QUEUE, kind=kind)
    begin_file(pair, client)
    for number in range(1, 11):
        client.publish(QUEUE, body(number))
        pair.until(lambda: len(client.acked) == client.published)
    pair.a.kill()
    spoil(pair.a, b"message 000004")
    image = pair.a.disk.image()
    with pytest.raises(CorruptRecord):
        pair.a.start()
    assert pair.a.disk.image() == image
    pair.configure = salvaging
    for life in range(2):
        pair.a.start()
        pair.until(lambda: pair.a.node.ready)
        client = pair.a.client()
        got = []
        while (message := client.get(QUEUE)) is not None:
            got.append(int(message.body.split()[1]))
        assert got == [1, 2, 3, 5, 6, 7, 8, 9, 10]
        # It is written down what there is, so that it is said once.
        said = " ".join(pair.a.warnings)
        assert said.count("messages 6 of queue 'orders' in vhost '/' are gone") == 1
        pair.settle(100)
        if life == 0:
            pair.a.kill()
            pair.configure = lambda settings: None


def test_a_node_that_is_alone_goes_on_without_some_entries_of_its_tables() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("first", "second", "third"):
        client.declare(name)
        client.publish(name, b"of the %s" % name.encode())
        pair.settle()
    pair.a.kill()
    spoil(pair.a, b"second")
    pair.configure = salvaging
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    for name in ("first", "third"):
        got = client.get(name)
        assert got is not None and got.body == b"of the %s" % name.encode()
    assert isinstance(client.declare("second", passive=True), spec.ChannelClose)
    said = " ".join(pair.a.warnings)
    assert "the tables names no queue for it" in said
    # A node may join, which cannot be sent what is lost.
    pair.configure = lambda settings: None
    other = pair.add("b")
    assert sorted(other.node.queues.vhosts["/"].queues) == ["first", "third"]
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)


def test_a_node_of_a_cluster_may_not_go_on_with_less() -> None:
    pair = Pair()
    pair.b.client().declare(QUEUE, kind="quorum")
    pair.until(lambda: pair.b.knows(QUEUE))
    client = pair.a.client()
    begin_file(pair, client)
    for number in range(1, 6):
        client.publish(QUEUE, body(number))
        pair.until(lambda: len(client.acked) == client.published)
    pair.settle(40)
    pair.b.kill()
    spoil(pair.b, b"message 000002")
    image = pair.b.disk.image()
    pair.configure = salvaging
    with pytest.raises(StorageError, match="in a cluster with a, b"):
        pair.b.start()
    assert pair.b.disk.image() == image


def salvaged(kind: str, others: Sequence[str] = ()) -> Pair:
    """A node that is alone, whose fourth message is in no file though its snapshot counts it."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare(QUEUE, kind=kind)
    for name in others:
        client.declare(name, kind=kind)
        client.publish(name, b"another")
    begin_file(pair, client)
    for number in range(1, 11):
        client.publish(QUEUE, body(number))
        pair.until(lambda: len(client.acked) == client.published)
    pair.a.queue(QUEUE).snapshot()
    pair.settle(40)
    pair.a.kill()
    spoil(pair.a, b"message 000004")
    pair.configure = salvaging
    pair.a.start()
    pair.configure = lambda settings: None
    return pair


@pytest.mark.parametrize("kind", ["quorum", "classic"])
@pytest.mark.parametrize("steps", [0, 1, 2, 4, 8, 12, 18, 25, 40])
def test_a_look_for_what_is_gone_that_a_crash_ended_goes_on(kind: str, steps: int) -> None:
    """Nobody waits for ever for a message that is counted and in no file."""
    pair = salvaged(kind)
    for _ in range(steps):
        pair.step()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    client = pair.a.client()
    client.consume(QUEUE)
    expected = [n for n in range(1, 11) if n != 4]
    pair.until(lambda: len(client.messages) == len(expected))
    assert [int(got.body.split()[1]) for got in client.messages] == expected
    said = " ".join(pair.a.warnings)
    assert "messages 6 of queue 'orders' in vhost '/' are gone" in said
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: not pair.a.node.log.salvaged)
    assert not pair.a.disk.exists(SALVAGE_PATH)
    stays_empty(pair)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_look_is_over_once_what_came_of_it_is_durable(kind: str) -> None:
    pair = salvaged(kind)
    assert pair.a.disk.exists(SALVAGE_PATH)
    pair.until(lambda: not pair.a.disk.exists(SALVAGE_PATH))
    pair.a.kill()
    pair.a.warnings.clear()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    assert pair.a.queue(QUEUE).ready_count() == 9
    assert not pair.a.warnings and not pair.a.node.log.salvaged


@pytest.mark.skipif(warren.COMPILED, reason="a bound is changed in uncompiled code only")
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_life_looks_at_no_queue_that_one_before_it_was_through_with(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short each of them is, all comes to an end, and nothing stays that is gone."""
    monkeypatch.setattr(repairs, "LOOKS_AT_ONCE", 1)
    looked: list[int] = []
    look = LoggedQueue.look_for_gaps

    def noted(queue: LoggedQueue) -> None:
        looked.append(int(queue.group_id))
        look(queue)

    monkeypatch.setattr(LoggedQueue, "look_for_gaps", noted)
    pair = salvaged(kind, [f"other{number}" for number in range(60)])
    lives, done = 1, -1
    while pair.a.disk.exists(SALVAGE_PATH):
        before = salvage.noted(pair.a.disk)
        pair.until(lambda before=before: noted_by(pair.a) != before)
        assert looked == sorted(looked) and looked[0] > done
        looked.clear()
        done = noted_by(pair.a)
        pair.a.kill()
        pair.a.start()
        lives += 1
        assert lives < 100
    assert lives > 2, "the second went on where the first had ended"
    pair.until(lambda: pair.a.node.ready)
    assert pair.a.queue(QUEUE).ready_count() == 9
    pair.settle(20)
    assert not looked


def noted_by(station: Station) -> int:
    """Up to which group a node's disk says that all were looked through; -2 if it says nothing."""
    disk = station.disk
    return salvage.noted(disk) if disk.exists(SALVAGE_PATH) else -2


@pytest.mark.parametrize(
    ("text", "group"),
    [
        (b"", -1),
        (b"damage\n", -1),
        (b"damage\nlooked through up to group 17\n", 17),
        (b"damage\nlooked through up to group 17", -1),
        (b"damage\nlooked through up to group 1x\n", -1),
        (b"looked through up to group 17\n", -1),
    ],
)
def test_a_note_that_is_not_whole_says_nothing(text: bytes, group: int) -> None:
    disk = SimDisk(1)
    disk.make_directory("log")
    disk.open(SALVAGE_PATH, create=True).write([text], 0)
    assert salvage.noted(disk) == group


@pytest.mark.skipif(warren.COMPILED, reason="an answer is changed in uncompiled code only")
def test_a_look_that_the_disk_ends_goes_on_a_while_later() -> None:
    pair = salvaged("classic")
    log = pair.a.queue(QUEUE).messages
    answer = GapCheck.batches_read
    failed = []

    def fails(check: GapCheck, batches: list[Batch], error: BaseException | None) -> None:
        if not failed:
            failed.append(check)
            batches, error = [], OSError(5, "simulated")
        answer(check, batches, error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GapCheck, "batches_read", fails)
        pair.until(lambda: not log.store.salvaged)
    assert failed and pair.a.queue(QUEUE).ready_count() == 9


@pytest.mark.parametrize("uses", ["before", "since"])
def test_what_a_start_found_gone_of_the_only_copy_is_gone_on_other_nodes(uses: str) -> None:
    """What they had of the queue is not what its log has now, and they do not wait for the rest.

    Args:
        uses: Whether the other node had used the queue before the damage.
    """
    pair = Pair()
    pair.minds_seconds = True
    station = pair.add("c")
    client = station.client()
    assert isinstance(client.declare(QUEUE, kind="quorum", size=1), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    for number in range(1, 9):
        client.publish(QUEUE, body(number))
        pair.until(lambda: len(client.acked) == client.published)
    far = pair.stations["b"]
    pair.until(lambda: far.knows(QUEUE))
    if uses == "before":
        user = far.client()
        got = user.get(QUEUE)
        assert got is not None and got.body == body(1)
        user.vanish()
    pair.settle(60)
    station.kill()
    path, offset = place_of(station.disk, b"message %06d" % 7)
    station.disk.flip(path, offset + 100, 0x10)
    with pytest.raises(CorruptRecord):
        station.start()
    station.begin_anew()
    pair.until(lambda: station.node.ready)
    assert any("messages 6 of queue 'orders'" in text for text in station.warnings)
    other = far.client()
    other.consume(QUEUE)
    pair.until(lambda: len(other.messages) == 7)
    assert sorted(int(got.body.split()[1]) for got in other.messages) == [1, 2, 3, 4, 5, 6, 8]
    other.ack(other.messages[-1].tag, multiple=True)
    pair.until(lambda: far.queue(QUEUE).fifo.sizes.count == 0)
    pair.until(lambda: station.queue(QUEUE).fifo.sizes.count == 0)
