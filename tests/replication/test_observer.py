"""A node that uses a group without being a member, among members that a test speaks for."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

import warren
from warren.errors import CorruptRecord
from warren.log.batch import KIND_COMMAND, KIND_MESSAGES, Batch
from warren.log.cache import Cache
from warren.log.listener import BatchReader
from warren.ports import Work
from warren.queues.fifo import commands
from warren.queues.fifo.config import NOT_SET_UP
from warren.queues.fifo.effects import Delivery
from warren.queues.fifo.entry import Encoded, Enqueue, Meta
from warren.queues.fifo.machine import Fifo
from warren.queues.links import Link
from warren.queues.queue import Host, Queue
from warren.queues.quorum import QuorumQueue
from warren.queues.waiting import Applied
from warren.replication import frames, kinds
from warren.replication import observer as observers
from warren.replication import observing_frames as said
from warren.replication.machine import NoMachine
from warren.replication.observer import Observer, ObserverHost
from warren.replication.proposals import Load, Proposals
from warren.replication.raft_entries import RAFT_SESSION
from warren.replication.wrapping import wrap_head
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

GROUP = 77
SESSION = 7 << 8
RECORD = content_frames(1, spec.BasicPublish(0, "", "q", False, False), b"\0\0", b"m", 131_072)


class Members(ObserverHost):
    """The nodes that hold the group, and the links to them."""

    def __init__(self) -> None:
        self.now = 0
        self.nodes = ["a", "b", "c"]
        self.unlinked: set[str] = set()
        self.sent: list[tuple[str, bytes]] = []
        self.number = 0
        self.works: list[Work] = []
        self.refused: list[tuple[str, str]] = []

    def do_in_parts(self, work: Work) -> None:
        self.works.append(work)

    def refuse(self, node: str, reason: str) -> None:
        self.refused.append((node, reason))

    def turn(self) -> bool:
        """One part of what takes long; whether there is more."""
        self.works = [work for work in self.works if not work.go_on()]
        return bool(self.works)

    def monotonic_ms(self) -> int:
        return self.now

    def send(self, node: str, message: list[bytes]) -> bool:
        if node in self.unlinked:
            return False
        frames.seal(message)
        self.sent.append((node, b"".join(message)))
        return True

    def backlog_bytes(self, node: str) -> int:
        return 0

    def new_number(self) -> int:
        self.number += 1
        return self.number

    def holders(self, group_id: int) -> list[str]:
        return self.nodes

    def mind(self, observer: Observer) -> None:
        """A test calls `tick` by itself."""

    def session_closed(self, observer: Observer) -> int:
        return 7

    def taken(self, kind: int) -> list[tuple[str, bytes]]:
        """What was sent of one kind since the last look."""
        found = [(node, frame) for node, frame in self.sent if frame[0] == kind]
        self.sent = [(node, frame) for node, frame in self.sent if frame[0] != kind]
        return found


class Kept(BatchReader):
    """Keeps what was read."""

    def __init__(self) -> None:
        self.firsts: list[int] | None = None
        self.error: BaseException | None = None

    def batches_read(self, batches: list[Batch], error: BaseException | None) -> None:
        self.firsts = [int(batch.first) for batch in batches]
        self.error = error


class Scene:
    """An observer that was asked to submit something, and so has begun."""

    def __init__(self) -> None:
        self.members = Members()
        self.machine = NoMachine()
        proposals = Proposals(SESSION, Load(Host(), 1 << 20))
        self.observer = Observer(
            self.members, GROUP, self.machine, proposals, Cache(1 << 20, 1 << 20)
        )
        self.observer.submit(KIND_COMMAND, 0, b"", b"c1", None)

    def say(self, head: bytes, node: str = "") -> None:
        self.observer.received(node or self.observer.serving, head + bytes(4))

    def feed(self, *entries: Batch, leader: str = "a", term: int = 1, applied: int = 0) -> None:
        applied = applied or (int(entries[-1].index) if entries else 0)
        number = self.members.number
        writer = said.feed_head(GROUP, number, applied, term, leader)
        for entry in entries:
            said.write_entry(writer, entry)
        self.say(writer.getvalue())

    def offered(self) -> list[tuple[str, int]]:
        found = self.members.taken(kinds.PROPOSE)
        return [(node, int(frames.read_proposal(frame)[1].sequence)) for node, frame in found]

    def asked(self) -> list[str]:
        return [node for node, _ in self.members.taken(kinds.OBSERVE)]


def messages(index: int, first: int, count: int = 2) -> Batch:
    lengths = len(RECORD).to_bytes(4, "little") * count
    payload = RECORD * count
    batch = Batch(
        None, KIND_MESSAGES, index, 1, first, count, 5, lengths, 0, payload, 0, len(payload), None
    )
    batch.group_id = GROUP
    return batch


def command(index: int, first: int, session: int = 0, sequence: int = 0, term: int = 1) -> Batch:
    batch = Batch(
        None, KIND_COMMAND, index, term, first, 0, 5, b"", 0, b"c", 0, 1, None, session, sequence
    )
    batch.group_id = GROUP
    return batch


def test_it_proposes_when_it_has_what_was_committed_before() -> None:
    scene = Scene()
    assert scene.asked() == ["a"] and scene.offered() == []
    scene.feed(messages(1, 0), applied=2)
    assert scene.offered() == [], "there is more"
    scene.feed(command(2, 2))
    assert scene.offered() == [("a", 1)]
    scene.feed(command(3, 2, SESSION, 1))
    assert not scene.observer.proposals


def test_it_offers_again_where_another_leads_or_the_same_in_a_later_term() -> None:
    scene = Scene()
    scene.feed(applied=0)
    assert scene.offered() == [("a", 1)]
    scene.feed(command(1, 0))
    assert scene.offered() == []
    scene.feed(leader="b", term=2, applied=1)
    assert scene.offered() == [("b", 1)]
    scene.feed(leader="b", term=4, applied=1)
    assert scene.offered() == [("b", 1)]
    scene.feed(leader="", term=5, applied=1)
    assert scene.offered() == []


def test_what_it_has_is_applied_once() -> None:
    scene = Scene()
    scene.feed(messages(1, 0), messages(2, 2))
    scene.feed(messages(1, 0), messages(2, 2), messages(3, 4))
    assert (scene.observer.applied_index, scene.observer.messages_end()) == (3, 6)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (messages(4, 4), "entry 4 comes behind entry 2"),
        (messages(3, 5), "message 5 comes where 4 belongs"),
        (command(3, 4, term=0), "term 0 comes behind term 1"),
        (command(3, 4, SESSION, 2), "proposal 2 comes where 1 is the next"),
        (command(3, 4, RAFT_SESSION), "entry 3 is none of Raft's own"),
    ],
)
def test_what_does_not_follow_is_refused(entry: Batch, problem: str) -> None:
    scene = Scene()
    scene.feed(messages(1, 0), messages(2, 2))
    with pytest.raises(CorruptRecord, match=problem):
        scene.feed(entry)
    assert scene.observer.applied_index == 0, "what came before may be wrong, too"


def test_it_goes_on_with_another_member_behind_what_it_has() -> None:
    scene = Scene()
    scene.feed(messages(1, 0), messages(2, 2))
    scene.asked()
    scene.observer.lost("a")
    ((node, frame),) = scene.members.taken(kinds.OBSERVE)
    assert (node, int.from_bytes(frame[17:25], "little")) == ("b", 2)
    scene.feed(messages(3, 4))
    assert scene.observer.applied_index == 3
    # What the one before sends still is not for it.
    late = said.feed_head(GROUP, 1, 4, 1, "a").getvalue()
    scene.say(late, "a")
    assert [node for node, _ in scene.members.taken(kinds.UNOBSERVE)] == ["a"]


def test_a_member_that_does_not_answer_is_left() -> None:
    scene = Scene()
    scene.asked()
    scene.members.now = observers.ANSWER_MS - 1
    assert scene.observer.tick(scene.members.now) and scene.asked() == []
    scene.members.now += 1
    scene.observer.tick(scene.members.now)
    assert scene.asked() == ["b"]
    scene.say(said.unobserve_frame(GROUP, scene.members.number))
    assert scene.asked() == ["c"], "one without all of its copy says so"


def test_a_member_that_says_that_it_prepares_is_waited_for() -> None:
    """Though its state takes long, and nothing that was proposed is applied meanwhile."""
    scene = Scene()
    assert scene.asked() == ["a"]
    for _ in range(20):
        scene.feed(applied=7)
        scene.members.now += observers.PREPARES_MS - 1
        assert scene.observer.tick(scene.members.now) and scene.asked() == []
        if scene.members.now + 2 * observers.PREPARES_MS >= observers.PREPARES_MS_MAX:
            break
    assert not scene.observer.fed() and scene.offered() == []
    state = wrap_head(0, [], {}).getvalue()
    scene.say(said.state_head(GROUP, scene.members.number, 7, 1) + state)
    assert scene.observer.applied_index == 7 and scene.observer.fed()
    assert scene.offered() == [("a", 1)]


def test_a_member_that_prepares_is_not_waited_for_for_ever() -> None:
    """Neither if it is silent, nor if it says nothing else."""
    scene = Scene()
    assert scene.asked() == ["a"]
    scene.feed(applied=7)
    scene.members.now += observers.PREPARES_MS
    scene.observer.tick(scene.members.now)
    assert scene.asked() == ["b"]
    began = scene.members.now
    while scene.members.now - began < observers.PREPARES_MS_MAX:
        assert scene.asked() == []
        scene.feed(applied=7)
        scene.members.now += 1_000
        scene.observer.tick(scene.members.now)
    assert scene.asked() == ["c"]


def test_a_member_without_a_leader_is_left() -> None:
    scene = Scene()
    scene.feed(leader="")
    scene.asked()
    scene.members.now = observers.LEADERLESS_MS
    scene.observer.tick(scene.members.now)
    assert scene.asked() == ["b"]


def test_silence_is_not_taken_for_the_end_while_something_is_under_way() -> None:
    """The member may be cut off with a leader that is none any more."""
    scene = Scene()
    scene.feed()
    scene.asked()
    scene.offered()
    scene.observer.tick(0)
    scene.members.now = observers.STUCK_MS
    scene.observer.tick(scene.members.now)
    assert scene.asked() == ["b"]
    scene.feed()
    assert scene.offered() == [("a", 1)], "what it was offered may be lost"


def test_a_state_takes_the_place_of_what_is_not_to_be_had() -> None:
    scene = Scene()
    head = said.state_head(GROUP, scene.members.number, 40, 3)
    state = wrap_head(25, [], {SESSION: 1}).getvalue()
    scene.say(head + state)
    assert (scene.observer.applied_index, scene.observer.messages_end()) == (40, 25)
    assert not scene.observer.proposals, "it is part of the state"


class Idle(Host):
    """Nothing is done for a queue."""

    def queue_dirty(self, queue: Queue) -> None:
        pass

    def appended(self, awaited: bool) -> None:
        pass

    def monotonic_ms(self) -> int:
        return 0


def with_messages(count: int) -> bytes:
    """The state of a queue that got some messages."""
    fifo = Fifo(NOT_SET_UP, False)
    fifo.apply(Meta(0, 0), Enqueue(0, count, 100))
    return fifo.encode()


@pytest.mark.parametrize(
    "state",
    [b"", b"\xff" * 100, with_messages(3)[:-9], with_messages(5)],
    ids=("empty", "unknown", "cut off", "ahead"),
)
def test_a_state_that_is_none_leaves_nothing(state: bytes) -> None:
    """It is cut off, or of an unknown version, or has messages that the group has not."""
    scene = Scene()
    observer = scene.observer
    queue = QuorumQueue(Idle(), "/", "q", observer, GROUP, Fifo(NOT_SET_UP, False), -1)
    queue.group = observer
    observer.machine = queue
    head = said.state_head(GROUP, scene.members.number, 40, 3)
    scene.say(head + wrap_head(4, [], {}).getvalue() + with_messages(4))
    assert (observer.applied_index, queue.fifo.ready_count()) == (40, 4)
    with pytest.raises(CorruptRecord, match="a state"):
        scene.say(head + wrap_head(4, [], {}).getvalue() + state)
    assert (observer.applied_index, queue.fifo.ready_count()) == (0, 0)
    scene.asked()
    observer.lost("a")
    ((node, frame),) = scene.members.taken(kinds.OBSERVE)
    assert (node, int.from_bytes(frame[17:25], "little")) == ("b", 0)


class Busy(Idle):
    """Little is done in one turn."""

    def __init__(self) -> None:
        self.part_runs = 2


def of_many_parts(count: int) -> bytes:
    """The same, of messages that came one by one and differ in size."""
    fifo = Fifo(NOT_SET_UP, False)
    for number in range(count):
        fifo.apply(Meta(0, 0), Enqueue(number, 1, 100 + number % 7))
    return fifo.encode()


def reading(count: int, state: bytes) -> tuple[Scene, QuorumQueue]:
    """An observer that a member has sent a state with so many messages, of which some was read."""
    scene = Scene()
    queue = QuorumQueue(Busy(), "/", "q", scene.observer, GROUP, Fifo(NOT_SET_UP, False), -1)
    queue.group = scene.observer
    scene.observer.machine = queue
    head = said.state_head(GROUP, scene.members.number, 40, 1)
    scene.say(head + wrap_head(count, [], {SESSION: 0}).getvalue() + state)
    assert scene.members.turn() and scene.observer.applied_index == 0
    return scene, queue


def test_what_comes_behind_a_state_waits_until_that_is_read() -> None:
    """And is taken in its order, however much comes with each turn."""
    scene, queue = reading(20, of_many_parts(20))
    index = 41
    seen = []
    while scene.members.works:
        if index < 60:
            scene.feed(messages(index, 2 * index - 62), messages(index + 1, 2 * index - 60))
            index += 2
        scene.members.turn()
        seen.append((int(scene.observer.applied_index), int(queue.fifo.ready_count())))
        assert not (scene.observer.fed() and scene.observer.applied_index < index - 1)
    assert seen[:8] == [(0, 0)] * 8 and (40, 20) in seen
    assert seen == sorted(seen)
    assert (scene.observer.applied_index, queue.fifo.ready_count()) == (60, 60)
    assert not scene.members.refused and scene.observer.fed()


def test_who_reads_a_state_asks_nobody_else() -> None:
    """However long that takes: whoever sent it goes on."""
    scene, _ = reading(20, of_many_parts(20))
    scene.asked()
    for _ in range(5):
        scene.members.now += observers.STUCK_MS
        assert scene.observer.tick(scene.members.now)
    assert scene.asked() == []
    while scene.members.turn():
        pass
    assert scene.observer.applied_index == 40


@pytest.mark.parametrize("way", ["lost", "unobserved", "stopped"])
def test_a_state_is_not_read_to_its_end_if_it_is_void(way: str) -> None:
    scene, queue = reading(20, of_many_parts(20))
    scene.asked()
    if way == "lost":
        scene.observer.lost(scene.observer.serving)
        assert scene.asked() == ["b"]
    elif way == "unobserved":
        scene.say(said.unobserve_frame(GROUP, scene.members.number))
        assert scene.asked() == ["b"]
    else:
        scene.observer.stop()
    assert not scene.members.turn()
    assert (scene.observer.applied_index, queue.fifo.ready_count()) == (0, 0)


@pytest.mark.parametrize(
    ("state", "count"),
    [(of_many_parts(20)[:-9], 20), (of_many_parts(20), 19)],
    ids=("cut off", "ahead"),
)
def test_a_state_that_turns_out_to_be_none_ends_the_link(state: bytes, count: int) -> None:
    scene, queue = reading(count, state)
    serving = scene.observer.serving
    while scene.members.turn():
        assert not scene.members.refused
    ((node, reason),) = scene.members.refused
    assert node == serving and reason.startswith("a state")
    assert (scene.observer.applied_index, queue.fifo.ready_count()) == (0, 0)


class Client(Link):
    """A consumer that takes everything."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int, int]] = []

    def delivered(self, delivery: Delivery) -> None:
        self.taken.append((int(delivery.mid), int(delivery.first), int(delivery.count)))

    def renumbered(self, consumer_id: int) -> None:
        raise AssertionError("its session goes on")

    def cancelled(self) -> None:
        raise AssertionError("its queue is there")


def handed_out(consumer_id: int, first: int, count: int) -> bytes:
    """The state of a queue whose messages from one on are a consumer's."""
    fifo = Fifo(NOT_SET_UP, False)
    out = BytesWriter()
    commands.attach(out, consumer_id, 10, 0)
    fifo.apply(Meta(0, SESSION), Encoded(out.getvalue(), 0, len(out)))
    fifo.apply(Meta(0, 0), Enqueue(first, count, 100))
    fifo.dispatch()
    return fifo.encode()


@pytest.mark.skipif(warren.COMPILED, reason="the link of a test derives from compiled code")
def test_nobody_is_handed_messages_of_a_state_that_is_none() -> None:
    """It has more of them than the group; the next one says what a consumer really has."""
    scene = Scene()
    observer = scene.observer
    queue = QuorumQueue(Idle(), "/", "q", observer, GROUP, Fifo(NOT_SET_UP, False), -1)
    queue.group = observer
    observer.machine = queue
    client = Client()
    consumer_id = queue.new_consumer()
    queue.subscribe(client, consumer_id, 10, 0, None, Applied())
    number = scene.members.number
    void = handed_out(int(consumer_id), 0, 5)
    with pytest.raises(CorruptRecord, match="messages that the group has not"):
        scene.say(said.state_head(GROUP, number, 40, 3) + wrap_head(4, [], {}).getvalue() + void)
    assert client.taken == []
    state = handed_out(int(consumer_id), 2, 2)
    scene.say(said.state_head(GROUP, number, 40, 3) + wrap_head(4, [], {}).getvalue() + state)
    queue.dispatch()
    assert client.taken == [(0, 2, 2)]


def test_messages_that_one_member_does_not_have_are_asked_of_the_next() -> None:
    scene = Scene()
    scene.feed(messages(1, 0), messages(2, 2))
    reader = Kept()
    scene.observer.read(0, 3, 1_000, reader)
    ((node, frame),) = scene.members.taken(kinds.FETCH)
    number = int.from_bytes(frame[9:17], "little")
    assert node == "a"
    scene.say(said.bodies_head(GROUP, number, said.NOT_HERE, 0), "a")
    assert reader.firsts is None
    scene.observer.tick(0)
    assert [node for node, _ in scene.members.taken(kinds.FETCH)] == ["b"]
    head = said.bodies_head(GROUP, number, said.FOUND, 4)
    scene.say(head + messages(1, 0).encoded() + messages(2, 2).encoded(), "b")
    assert reader.firsts == [0, 2] and reader.error is None
    assert scene.observer.cached(3) is not None and scene.observer.cached(4) is None


def test_messages_that_are_none_are_refused() -> None:
    scene = Scene()
    scene.feed(messages(1, 0))
    scene.observer.read(0, 1, 1_000, Kept())
    ((_, frame),) = scene.members.taken(kinds.FETCH)
    number = int.from_bytes(frame[9:17], "little")
    bad = Batch(None, KIND_MESSAGES, 1, 1, 0, 1, 5, b"\5\0\0\0", 0, b"hello", 0, 5, None)
    bad.group_id = GROUP
    with pytest.raises(CorruptRecord, match="this is no message"):
        scene.say(said.bodies_head(GROUP, number, said.FOUND, 1) + bad.encoded())


def test_who_rests_needs_nothing_and_counts_on() -> None:
    scene = Scene()
    scene.feed()
    scene.feed(command(1, 0, SESSION, 1))
    scene.observer.rest()
    assert [node for node, _ in scene.members.taken(kinds.UNOBSERVE)] == ["a"]
    assert not scene.observer.tick(0)
    scene.asked()
    scene.offered()
    scene.observer.submit(KIND_COMMAND, 0, b"", b"c2", None)
    assert scene.asked() == ["a"]
    scene.feed(command(1, 0, SESSION, 1))
    assert scene.offered() == [("a", 2)], "the leader waits for the number after the last"
