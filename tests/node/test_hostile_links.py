"""Links that bring damage: they end, their nodes and the other links go on, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from tests.node.pair import Pair, Station, sealed
from warren.errors import CorruptRecord
from warren.log.batch import HEADER_BYTES, KIND_COMMAND, KIND_MESSAGES, Batch
from warren.node.early import BYTES_MAX
from warren.node.store import METADATA_GROUP
from warren.queues.fifo import commands
from warren.raft import messages as ms
from warren.raft import wire
from warren.raft.members import GroupConfig, Replica
from warren.replication.feeding import BACKLOG_BYTES
from warren.replication.frames import (
    RAFT,
    RAFT_BYTES,
    SEAL_BYTES,
    group_of,
    propose_frame,
    raft_frame,
    read_proposal,
)
from warren.replication.hard_state import HardState
from warren.replication.member import Member
from warren.replication.proposals import Proposal
from warren.replication.recovered import Recovered
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames

QUEUE = "orders"


def flipped(message: bytes, at: int, bit: int = 0) -> bytes:
    """The message with one bit changed."""
    return message[:at] + bytes([message[at] ^ 1 << bit]) + message[at + 1 :]


def batches_at(message: bytes) -> int:
    """Where the batches behind a message of Raft begin; 0 if there are none."""
    if message[0] != RAFT:
        return 0
    at = RAFT_BYTES + int.from_bytes(message[9:13], "little")
    return at if at < len(message) else 0


class Once:
    """Changes one message of a group, the first of which there is something to change."""

    def __init__(self, group: int, change: Callable[[bytes], bytes]) -> None:
        self.done = False
        self._group = group
        self._change = change

    def __call__(self, message: bytes) -> bytes:
        if self.done or group_of(message) != self._group or not batches_at(message):
            return message
        changed = self._change(message)
        self.done = changed != message
        return changed


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "a bit of a body": lambda message: flipped(message, len(message) - 3),
    "a bit of an index": lambda message: flipped(message, batches_at(message) + 24),
    "a bit of a size": lambda message: flipped(message, batches_at(message) + 5),
    "a bit of the message": lambda message: flipped(message, RAFT_BYTES + 30, 2),
    "a bit of the group in the frame": lambda message: flipped(message, 3),
    "cut off": lambda message: message[:-1],
    "cut off in a header": lambda message: message[: batches_at(message) + HEADER_BYTES // 2],
    "without its batches": lambda message: message[: batches_at(message)],
    "bytes behind it": lambda message: message + b"more",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_corrupt_append_ends_its_link_and_wedges_nobody(change: str) -> None:
    """Raft once took the entries before their bytes were looked at; none that followed fitted."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    leader = pair.a
    pair.until(lambda: leads(leader) and all_have(pair, b""))
    damage = Once(int(leader.queue(QUEUE).group_id), CHANGES[change])
    pair.damage["a", "b"] = damage
    for number in range(4):
        client.publish(QUEUE, b"body %d" % number)
        pair.settle(3)
    group_changed = change == "a bit of the group in the frame"
    assert damage.done and (group_changed or [row[:2] for row in pair.refused] == [("a", "b")])
    pair.until(lambda: len(client.acked) == 4 and all_have(pair, b"body 3"))
    assert not client.nacked and pair.b.node.failure is None
    entries = {tuple(log_of(station)) for station in pair.stations.values()}
    assert len(entries) == 1


def leads(station: Station) -> bool:
    return bool(station.queue(QUEUE).group.raft.can_propose())


def all_have(pair: Pair, body: bytes) -> bool:
    """Whether all members have applied an entry with this in it."""
    for station in pair.stations.values():
        queue = station.node.queues.vhosts["/"].queues.get(QUEUE)
        if queue is None or not queue.type.replicated or getattr(queue, "group", None) is None:
            return False
        member = queue.group
        if body and not any(body in entry for entry in log_of(station)):
            return False
        if member.applied_index != member.raft.last_index:
            return False
    return True


def log_of(station: Station) -> list[bytes]:
    """The entries of the queue that a member has in memory."""
    log = station.queue(QUEUE).messages
    found: list[Batch | None] = [log.recent(at) for at in range(1, log.last_index + 1)]
    return [bytes(batch.encoded()) for batch in found if batch is not None]


# --- what no node would say ---------------------------------------------------------------------

EDGES = (-(1 << 63), -1, 0, 1, 2, 3, 7, 1 << 31, (1 << 62) - 1, 1 << 62, (1 << 63) - 1)
ROUNDS = 4_000


def hostile(random: Random, group: int, incarnation: int, term: int, last: int) -> ms.Message:
    """A message of Raft that is well formed and means nothing."""
    near = (0, 1, max(0, last - 1), last, last + 1, 1 << 40, 1 << 62)
    terms = (0, 1, term - 1, term, term, term + 1, 1 << 61)

    def index() -> int:
        return random.choice(near)

    kind = random.randrange(10)
    head = ("b", random.choice((incarnation, 0, 77)), "a", incarnation, random.choice(terms))
    members = [
        Replica(random.choice("ab"), random.choice((0, incarnation)), random.random() < 0.5)
        for _ in range(random.randrange(3))
    ]
    if kind < 4:
        prev = index()
        message = ms.Append(*head, prev, random.choice(terms), prev + random.randrange(3), index())
        if message.last_index > prev:
            message.firsts.append(prev + 1)
            message.terms.append(max(message.prev_term, min(message.term, random.choice(terms))))
            if random.random() < 0.3:
                message.configs.append(GroupConfig(prev + 1, members))
        return message
    if kind < 6:
        reply = ms.AppendReply(*head)
        reply.accepted = random.random() < 0.7
        reply.prev_index, reply.match_index, reply.received_index = index(), index(), index()
        reply.commit_index, reply.hint_index = index(), index()
        reply.hint_term = random.choice(terms)
        return reply
    if kind == 6:
        return ms.SnapshotOffer(*head, index(), random.choice(terms), members)
    probe = ms.ReadProbe(*head) if kind == 7 else ms.ReadAck(*head)
    probe.round = index()
    return ms.Vote(*head) if kind == 9 else probe


def noise(random: Random, groups: list[int], seen: list[bytes]) -> bytes:
    """A frame with anything in it, or one that was said before with a change."""
    if seen and random.random() < 0.6:
        frame = bytearray(random.choice(seen))
        if frame[0] != RAFT:
            del frame[-SEAL_BYTES:]
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(frame))
            change = random.randrange(3)
            if change == 0:
                frame[at] ^= 1 << random.randrange(8)
            elif change == 1:
                del frame[at:]
                break
            else:
                frame[at : at + 8] = random.choice(EDGES).to_bytes(8, "little", signed=True)
        if frame:
            return bytes(frame) if frame[0] == RAFT else sealed(bytes(frame))
    kind = random.choice((1, 2, 16, 17, 18, 19, *range(32, 44), 200))
    group = random.choice([*groups, *(edge for edge in EDGES if edge != METADATA_GROUP)])
    frame = bytearray([kind]) + group.to_bytes(8, "little", signed=True)
    for _ in range(random.randrange(7)):
        frame += random.choice(EDGES).to_bytes(8, "little", signed=True)
    frame = frame[: random.randint(1, len(frame))]
    return bytes(frame) if kind == RAFT or random.random() < 0.05 else sealed(bytes(frame))


def proposed(random: Random, group: int, expected: Callable[[int], int], session: int) -> bytes:
    """The next proposal of a session, whatever that says."""
    opcode = random.randrange(20)
    payload = bytearray([opcode])
    for _ in range(random.randrange(5)):
        payload += random.choice(EDGES).to_bytes(8, "big", signed=True)
    payload += random.choice((b"", b"\0\0\0\1g", b"\0\0\0\1\xff", b"\xff\xff\xff\xff", b"\0"))
    if group == METADATA_GROUP:
        row = [random.choice((2, 2, 2, 1, 3, "2")), random.randrange(28)]
        values = ("/", "a", b"", b"\xff", True, 0, -1, 1 << 63, 1.5, None, ["a"], {"a": 1}, [["a"]])
        row += random.choices(values, k=random.randrange(12))
        payload = bytearray(msgspec.msgpack.encode(row))
    if random.random() < 0.2:
        del payload[random.randrange(len(payload)) :]
    proposal = Proposal(expected(session), KIND_COMMAND, 0, b"", bytes(payload), None)
    return sealed(b"".join(propose_frame(group, session, proposal)))


def session_of(station: Station) -> int:
    """Under which a node submits to the queue."""
    return int(station.queue(QUEUE).group.proposals.session)


def tables_session_of(station: Station) -> int:
    """Under which it submits to the tables."""
    return int(station.node.store.member().proposals.session)


EXPIRE = bytes([commands.EXPIRE]) + bytes(8)

MALFORMED = {
    "an opcode that there is not": b"\x13",
    "none": b"\0" + bytes(30),
    "cut off": bytes([commands.SETTLE]) + bytes(23),
    "behind a good one": bytes([commands.GO_ON, commands.CANCEL]) + bytes(7),
    "a name that is cut off": EXPIRE + b"\0\0\0\2g",
    "a name of negative size": EXPIRE + b"\xff\xff\xff\xff",
    "a name that is no text": EXPIRE + b"\0\0\0\1\xff",
    "for a queue of one node": bytes([commands.RESET]),
    "backwards": bytes([commands.SETTLE]) + bytes(15) + b"\x09" + bytes(8),
    "credit below zero": bytes([commands.ATTACH]) + bytes(8) + b"\xff" + bytes(15),
}


@pytest.mark.parametrize("command", MALFORMED)
def test_a_submission_that_is_no_command_ends_its_link(command: str) -> None:
    """It was appended, and every member's machine failed with it, again after each start."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    pair.until(lambda: leads(pair.a) and all_have(pair, b""))
    member = pair.a.queue(QUEUE).group
    last = member.log.last_index
    submit(pair, int(member.group_id), member, session_of(pair.b), MALFORMED[command])
    assert [row[:2] for row in pair.refused] == [("b", "a")]
    assert member.log.last_index == last
    pair.cut("b", "a")
    works_on(pair)


TABLE_COMMANDS = {
    "nothing": b"",
    "no array": b"\x80\x02\x01",
    "a version that there is not": msgspec.msgpack.encode([3, 1, "v"]),
    "a tag that there is not": msgspec.msgpack.encode([2, 99, "v"]),
    "fields that are missing": msgspec.msgpack.encode([2, 3, "user"]),
    "a field of another type": msgspec.msgpack.encode([2, 1, 7]),
    "a name that is no text": b"\x93\x02\x01\xa1\xff",
    "a number that is too large": msgspec.msgpack.encode([2, 10, "/", "q", 1 << 63, True]),
    "a table that is cut off": msgspec.msgpack.encode(
        [2, 7, "/", "x", "topic", True, False, False, b"\x05a"]
    ),
    "an exchange type that there is not": msgspec.msgpack.encode(
        [2, 7, "/", "x", "random", True, False, False, b""]
    ),
}
UNMEANT = {
    "the default exchange": msgspec.msgpack.encode([2, 8, "/", "", False, True]),
    "a binding of it": msgspec.msgpack.encode([2, 11, "/", "", "q", False, "k", b"", True]),
    "a pattern that is none": msgspec.msgpack.encode(
        [2, 21, "/", "p", False, "(", "all", 0, {"target-group-size": 3}]
    ),
    "a policy without sense": msgspec.msgpack.encode(
        [2, 21, "/", "p", False, ".", "all", 0, {"target-group-size": "many"}]
    ),
    "a name that is too long": msgspec.msgpack.encode(
        [2, 7, "/", "x" * 256, "topic", True, False, False, b""]
    ),
    "the tables' own group": msgspec.msgpack.encode(
        [2, 9, "/", "q", "classic", True, False, 0, b"", METADATA_GROUP, "a", []]
    ),
    "two copies on a node": msgspec.msgpack.encode(
        [2, 19, 1 << 40, "/", "q", [["a", 1, True], ["a", 2, True]], 0]
    ),
    "an address that is none": msgspec.msgpack.encode([2, 18, "b", "b", 70_000]),
}


@pytest.mark.parametrize("command", [*TABLE_COMMANDS, *UNMEANT])
def test_a_submission_to_the_tables_that_means_nothing_ends_its_link(command: str) -> None:
    pair = Pair()
    pair.until(pair.a.node.store.member().raft.can_propose)
    member = pair.a.node.store.member()
    last = member.log.last_index
    payload = (TABLE_COMMANDS | UNMEANT)[command]
    submit(pair, METADATA_GROUP, member, tables_session_of(pair.b), payload)
    assert [row[:2] for row in pair.refused] == [("b", "a")]
    assert member.log.last_index == last
    pair.cut("b", "a")
    client = pair.b.client()
    assert isinstance(client.declare("another"), spec.QueueDeclareOk)


def test_a_node_submits_in_its_own_name_only() -> None:
    """Else the node whose session it is would find applied what it never submitted."""
    pair = Pair()
    pair.add("c")
    assert isinstance(pair.a.client().declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    pair.until(lambda: leads(pair.a) and all_have(pair, b""))
    member = pair.a.queue(QUEUE).group
    proposal = Proposal(1, KIND_COMMAND, 0, b"", bytes([commands.GO_ON]), None)
    for session in (session_of(pair.b), session_of(pair.a)):
        frame = b"".join(propose_frame(int(member.group_id), session, proposal))
        pair.a.listener.received("c", sealed(frame))
    assert [row[:2] for row in pair.refused] == [("c", "a")] * 2
    works_on(pair)


RECORD = content_frames(1, spec.BasicPublish(0, "", "q", False, False), b"\0\0", b"body", 99)
RECORDS = {
    "no frame": b"x",
    "cut off": RECORD[:-1],
    "more behind it": RECORD + b"x",
    "another method": RECORD[:10] + b"\x3c" + RECORD[11:],
    "a name that is too long": RECORD[:13] + b"\x7f" + RECORD[14:],
    "less than it says": RECORD[: -len(b"body") - 8],
    "no end of a frame": RECORD[:-1] + b"\0",
    "properties that are none": RECORD.replace(b"\4\0\0\xce", b"\4\x80\0\xce"),
}


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_messages_that_are_none_end_their_link(kind: str, record: str) -> None:
    """Whoever was to deliver one failed."""
    assert RECORDS[record] != RECORD
    assert_refused(kind, RECORDS[record], 0)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_messages_of_an_unknown_flavour_end_their_link(kind: str) -> None:
    """A later release's publishers are refused, in words that say why; nothing is stored."""
    assert "are of flavour 7, which this release of Warren does not know" in assert_refused(
        kind, RECORD, 7
    )


def assert_refused(kind: str, payload: bytes, flavour: int) -> str:
    """Have b publish to a queue that a leads; the link ends, and this is why."""
    pair = Pair()
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind=kind), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows(QUEUE))
    queue = pair.b.queue(QUEUE)
    lengths = len(payload).to_bytes(4, "little")
    if kind == "quorum":
        pair.until(lambda: leads(pair.a) and all_have(pair, b""))
        sequence = pair.a.queue(QUEUE).group.client_sessions.next(session_of(pair.b))
        proposal = Proposal(sequence, KIND_MESSAGES, 1, lengths, payload, None, flavour)
        frame = b"".join(propose_frame(int(queue.group_id), session_of(pair.b), proposal))
        pair.a.listener.received("b", sealed(frame))
    else:
        pair.b.node.remotes.line("a").send_messages(
            queue.group_id, 1, 1, True, False, lengths, payload, flavour
        )
        pair.settle(2)
    assert [row[:2] for row in pair.refused] == [("b", "a")]
    assert pair.a.queue(QUEUE).ready_count() == 0
    return pair.refused[0][2]


def submit(pair: Pair, group: int, leader: Member, session: int, payload: bytes) -> None:
    """Have b submit a command to the leader on a."""
    proposal = Proposal(leader.client_sessions.next(session), KIND_COMMAND, 0, b"", payload, None)
    frame = b"".join(propose_frame(group, session, proposal))
    pair.a.listener.received("b", sealed(frame))
    pair.turn(pair.a)


def works_on(pair: Pair) -> None:
    """The queue takes messages, and all members have the same state."""
    client = pair.a.client()
    client.call(spec.ConfirmSelect(False))
    client.publish(QUEUE, b"after")
    pair.until(lambda: client.acked == {1} and all_have(pair, b"after"))
    states = {station.queue(QUEUE).fifo.encode() for station in pair.stations.values()}
    assert len(states) == 1
    assert all(station.node.failure is None for station in pair.stations.values())


def test_what_a_lying_leader_logs_ends_no_member() -> None:
    """All members leave the same out, now and when they start again."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    pair.until(lambda: leads(pair.a) and all_have(pair, b""))
    for payload in MALFORMED.values():
        assert pair.a.queue(QUEUE).group.propose_plain(payload)
    pair.until(pair.a.node.store.member().raft.can_propose)
    for number, payload in enumerate(TABLE_COMMANDS.values()):
        if number != 2:
            # Of a later version it may be what this one must not leave out.
            assert pair.a.node.store.member().propose_plain(payload)
    works_on(pair)
    for station in pair.stations.values():
        station.kill()
    for station in pair.stations.values():
        station.start()
    pair.until(lambda: all(station.node.ready for station in pair.stations.values()))
    pair.until(lambda: leads(pair.a))
    works_on(pair)
    tables = {station.node.metadata.state_hash() for station in pair.stations.values()}
    assert len(tables) == 1


@pytest.mark.parametrize("seed", range(4))
def test_a_peer_that_talks_nonsense_harms_its_own_links_only(seed: int) -> None:
    """It has the right secret. Its link ends, again and again; all else goes on."""
    pair = Pair(seed)
    random = pair.random
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    assert isinstance(client.declare("near"), spec.QueueDeclareOk)
    there = pair.b.client()
    assert isinstance(there.declare("far"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    assert isinstance(client.consume("far"), spec.BasicConsumeOk)
    pair.until(lambda: leads(pair.a) and all_have(pair, b""))
    seen: list[bytes] = []
    groups = [int(pair.a.queue(QUEUE).group_id), int(pair.a.queue("near").group_id)]

    def remember(message: bytes) -> bytes:
        if message[0] < RAFT or group_of(message) in groups:
            seen.append(message)
        return message

    pair.damage["b", "a"] = remember
    for number in range(20):
        for queue in (QUEUE, "near", "far"):
            client.publish(queue, b"%d" % number)
        pair.settle(2)
    pair.until(lambda: len(client.acked) == 60)
    del seen[200:]
    pair.damage.clear()
    member = pair.a.queue(QUEUE).group
    kinds: set[str] = set()
    for number in range(ROUNDS):
        chance = random.random()
        if chance < 0.2:
            sessions = member.client_sessions
            frame = proposed(random, groups[0], sessions.next, (1 << 50) + number)
        elif chance < 0.25:
            sessions = pair.a.node.store.member().client_sessions
            frame = proposed(random, METADATA_GROUP, sessions.next, (1 << 50) + number)
        elif chance < 0.6:
            state = member.raft.state
            said = hostile(
                random,
                groups[0],
                int(state.incarnation),
                int(state.term),
                int(state.log.last_index),
            )
            frame = raft_frame(groups[0], wire.encode(said))
        else:
            frame = noise(random, groups, seen)
        before = len(pair.refused)
        pair.a.listener.received("b", frame)
        if len(pair.refused) > before:
            kinds.add(pair.refused[-1][2].rpartition(":")[2])
            pair.cut("b", "a")
        pair.turn(pair.a)
        if number % 50 == 0:
            pair.step()
    assert pair.a.node.failure is None and len(kinds) > 12, sorted(kinds)
    # Another client, and another queue: nothing of what happened is in their way.
    other = pair.a.client()
    other.call(spec.ConfirmSelect(False))
    other.publish("near", b"after")
    pair.until(lambda: other.acked == {1})
    third = pair.add("c")
    assert third.node.ready


@pytest.mark.parametrize(
    ("session", "kind", "lengths", "payload"),
    [
        (0, 1, [1], b"x"),
        (-1, 3, [], b"a command as if Raft had made it"),
        (1, 0, [1], b"x"),
        (1, 4, [], b"a snapshot"),
        (1, 3, [1], b"x"),
        (1, 1, [], b"x"),
        (1, 1, [2], b"x"),
        (1, 1, [1], b"xx"),
        (1, 1, [3, -2], b"x"),
    ],
)
def test_a_submission_that_no_node_makes_is_refused(
    session: int, kind: int, lengths: list[int], payload: bytes
) -> None:
    """The leader's log would take it for a defect of its own, or the machines of all members."""
    head = b"".join(length.to_bytes(4, "little", signed=True) for length in lengths)
    proposal = Proposal(1, kind, len(lengths), head, payload, None)
    with pytest.raises(CorruptRecord):
        read_proposal(sealed(b"".join(propose_frame(7, session, proposal))))


def test_early_frames_are_bounded_in_bytes() -> None:
    """For a group that this node has not heard of a few frames may be as large as many."""
    pair = Pair()
    large = raft_frame(1 << 40, bytes(1 << 20))
    for _ in range(40):
        pair.a.listener.received("b", large)
    cluster = pair.a.node.cluster
    assert 8 << 20 < cluster._early.size_bytes <= BYTES_MAX and not pair.refused
    assert cluster._early.size_bytes == cluster._early.count * len(large)
    pair.until(lambda: cluster._early.count == 0)
    assert cluster._early.size_bytes == 0
    pair.a.listener.received("b", large)
    assert cluster._early.count == 1, "there is room again"


def test_no_more_is_queued_for_a_slow_link_than_is_good() -> None:
    """Sixteen appends of any size may be out to a peer; memory is bounded by the link's queue."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    pair.until(lambda: leads(pair.a) and all_have(pair, b""))
    pair.deaf.add(("a", "b"))
    body = bytes(5 << 20)
    for _ in range(10):
        client.publish(QUEUE, body)
        pair.step()
    pair.until(lambda: len(client.acked) == 10)
    queued = pair.a.node.cluster.peers.backlog_bytes("b")
    assert queued <= BACKLOG_BYTES + (6 << 20) < 50 << 20
    pair.deaf.clear()
    pair.until(lambda: pair.b.queue(QUEUE).ready_count() == 10)


def test_the_time_of_entries_never_goes_back() -> None:
    """A leader's clock may be behind that of the one before it; leases depend on these times."""
    pair = Pair()
    pair.add("c")
    assert isinstance(pair.a.client().declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    began_ms = pair.clock.wall_ms()

    def publish(count: int) -> None:
        """Publish, with a clock that is set back a minute behind each."""
        client = pair.a.client()
        client.call(spec.ConfirmSelect(False))
        for number in range(1, count + 1):
            client.publish(QUEUE, b"body")
            pair.until(lambda number=number: len(client.acked) == number)
            pair.clock.jump(-60_000)

    publish(3)
    # A snapshot alone tells of it behind the start.
    pair.a.queue(QUEUE).group.snapshot()
    pair.settle()
    for station in pair.stations.values():
        station.kill()
    for station in pair.stations.values():
        station.start()
    pair.until(lambda: all(station.node.ready for station in pair.stations.values()))
    publish(2)
    log = pair.a.queue(QUEUE).messages
    found = [log.recent(at) for at in range(1, log.last_index + 1)]
    stamps = [int(batch.stamp_ms) for batch in found if batch is not None]
    assert len(stamps) > 2 and stamps == sorted(stamps)
    assert pair.clock.wall_ms() < began_ms - 60_000 < began_ms <= stamps[0]


@pytest.mark.parametrize(("voter", "applied"), [("a", True), ("b", False)])
def test_only_a_sole_voter_itself_takes_its_log_for_committed(voter: str, applied: bool) -> None:
    """A copy that left the group may have entries that the one that is left never had."""
    recovered = Recovered(HardState(7, [Replica(voter, 7, True)]), "a")
    entry = Batch(None, 3, 1, 1, 0, 0, 0, b"", 0, b"x", 0, 1, None, 5, 1)
    assert recovered.take(entry) == applied
    assert (recovered.pending == []) == applied


@pytest.mark.parametrize("at", [16, 30, -9, -1])
def test_a_flipped_bit_in_what_raft_says_ends_the_link(at: int) -> None:
    """A term, an index, a vote: no look at what it means would find it (R-20)."""
    pair = Pair()
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.declare(QUEUE, kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    pair.until(lambda: leads(pair.a) and all_have(pair, b""))
    group = int(pair.a.queue(QUEUE).group_id)
    done = False

    def answers(message: bytes) -> bytes:
        nonlocal done
        if done or message[0] != RAFT or group_of(message) != group:
            return message
        done = True
        place = at if at < 0 else RAFT_BYTES + at
        return flipped(message, place % len(message))

    pair.damage["b", "a"] = answers
    client.publish(QUEUE, b"body")
    pair.until(lambda: done and bool(pair.refused))
    assert [row[:2] for row in pair.refused] == [("b", "a")]
    pair.until(lambda: client.acked == {1} and all_have(pair, b"body"))
