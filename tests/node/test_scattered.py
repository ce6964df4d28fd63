"""Messages that lie scattered: what is done to all of them at once, in parts, and in between."""

from __future__ import annotations

import gc
import struct
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.node.pair import Client, Pair
from warren.protocols.amqp091.tables import FRAMED_BYTES, Content
from warren.protocols.amqp091.transactions import ANSWERS_MAX, MESSAGES_MAX, RETURNS_MAX
from warren.protocols.amqp091.unsettled import TagRun, Unsettled
from warren.queues.fifo.pieces import CHUNK_PIECES, SPENT_LISTS
from warren.queues.queue import Queue
from warren.replication.wrapping import unwrap
from warren.wire.amqp091 import spec

KINDS = [("classic", True), ("classic", False), ("quorum", True)]
LASTING = [KINDS[0], KINDS[2]]

COUNT = 120
PART = 7
LEFT = [b"%d" % number for number in range(1, COUNT, 2)]
"""What is not acked, each between two that are."""


def consume(client: Client) -> None:
    method = spec.BasicConsume(0, "q", "c", False, False, False, False, {})
    assert isinstance(client.call(method), spec.BasicConsumeOk)


def scattered(kind: str, durable: bool, transactional: bool = False, count: int = COUNT) -> Client:
    """A client that holds every second message of a queue."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    if count > COUNT:
        client.qos(count)
    consume(client)
    for number in range(count):
        client.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == count)
    for got in client.messages[::2]:
        client.ack(got.tag)
    pair.settle(60)
    in_parts(pair)
    return client


def in_parts(pair: Pair) -> None:
    queue = pair.a.queue("q")
    queue.fifo.return_max = PART
    queue.freed.taken_max = PART


def all_got(client: Client) -> list[bytes]:
    """What is in the queue, one by one."""
    bodies = []
    while (got := client.get("q")) is not None:
        bodies.append(got.body)
        assert got.redelivered
    return bodies


def nack_all(client: Client) -> spec.BasicNack:
    return spec.BasicNack(client.messages[-1].tag, True, True)


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_what_is_nacked_comes_again_in_order(kind: str, durable: bool) -> None:
    client = scattered(kind, durable)
    client.send(nack_all(client))
    client.pair.until(lambda: len(client.messages) == COUNT + len(LEFT))
    assert client.bodies()[COUNT:] == LEFT
    assert all(got.redelivered for got in client.messages[COUNT:])


@pytest.mark.parametrize(("kind", "durable"), KINDS)
@pytest.mark.parametrize("way", ["channel", "connection", "recover"])
def test_what_returns_is_polled_in_order(kind: str, durable: bool, way: str) -> None:
    """By another client, which asks while some of it is still on its way."""
    client = scattered(kind, durable)
    pair = client.pair
    other = pair.a.client()
    if way == "channel":
        client.send(spec.ChannelClose(0, "", 0, 0))
    elif way == "connection":
        client.vanish()
    else:
        client.send(spec.BasicCancel("c", False))
        client.send(spec.BasicRecover(True))
    if way != "connection":
        client.exchange()
    pair.a.node.turn()
    if not (kind == "quorum"):
        assert pair.a.queue("q").fifo.returning()
    pair.until(lambda: pair.a.queue("q").ready_count() == len(LEFT))
    assert all_got(other) == LEFT


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_a_purge_takes_what_is_on_its_way_back(kind: str, durable: bool) -> None:
    client = scattered(kind, durable)
    pair = client.pair
    client.send(spec.BasicCancel("c", False))
    client.send(nack_all(client))
    client.send(spec.QueuePurge(0, "q", False))
    pair.until(lambda: isinstance(client.methods[-1], spec.QueuePurgeOk))
    purged = client.methods[-1]
    assert isinstance(purged, spec.QueuePurgeOk) and purged.message_count == len(LEFT)
    client.publish("q", b"new")
    pair.settle(60)
    assert not pair.a.queue("q").freed.lists
    if durable:
        pair.a.kill()
        pair.a.start()
        pair.until(lambda: pair.a.node.ready)
        client = pair.a.client()
    got = client.get("q")
    assert got is not None and got.body == b"new"
    assert client.get("q") is None


@pytest.mark.parametrize(("kind", "durable"), KINDS)
@pytest.mark.parametrize("requeue", [False, True])
def test_what_is_acked_or_discarded_is_gone(kind: str, durable: bool, requeue: bool) -> None:
    """All but the last, by one command; for good, where the queue is."""
    client = scattered(kind, durable)
    pair = client.pair
    last = client.messages[-3].tag
    client.send(spec.BasicNack(last, True, False) if requeue else spec.BasicAck(last, True))
    pair.settle(80)
    if durable:
        pair.a.kill()
        pair.a.start()
        pair.until(lambda: pair.a.node.ready)
    else:
        client.vanish()
    assert all_got(pair.a.client()) == LEFT[-1:]


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_a_queue_is_deleted_with_messages_on_their_way_back(kind: str, durable: bool) -> None:
    client = scattered(kind, durable)
    pair = client.pair
    other = pair.a.client()
    client.send(nack_all(client))
    client.exchange()
    pair.a.node.turn()
    assert isinstance(other.call(spec.QueueDelete(0, "q", False, False, False)), spec.QueueDeleteOk)
    assert isinstance(other.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    other.publish("q", b"new")
    pair.settle(30)
    got = other.get("q")
    assert got is not None and got.body == b"new" and other.get("q") is None


def test_a_queue_is_deleted_before_all_is_logged_that_left() -> None:
    """Nothing is logged any more, and the node goes on."""
    client = scattered("classic", True, count=10 * COUNT)
    pair = client.pair
    queue = pair.a.queue("q")
    queue.freed.taken_max = 1
    other = pair.a.client()
    for got in reversed(client.messages[1::2]):
        client.ack(got.tag)
    client.exchange()
    pair.a.node.turn()
    assert isinstance(other.call(spec.QueueDelete(0, "q", False, False, False)), spec.QueueDeleteOk)
    assert queue.freed.lists
    pair.settle(30)
    assert isinstance(other.declare("q"), spec.QueueDeclareOk)


@pytest.mark.parametrize(("kind", "durable"), LASTING)
@pytest.mark.parametrize("turns", range(1, 8))
def test_a_node_dies_between_two_parts(kind: str, durable: bool, turns: int) -> None:
    """Nothing is lost that was not acked, and nothing comes twice."""
    client = scattered(kind, durable)
    pair = client.pair
    client.send(nack_all(client))
    client.exchange()
    for _ in range(turns):
        pair.a.executor.step()
        pair.a.node.turn()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    in_parts(pair)
    pair.settle(30)
    assert all_got(pair.a.client()) == LEFT


@pytest.mark.parametrize("turns", range(1, 12))
def test_a_node_dies_between_two_parts_of_a_purge(turns: int) -> None:
    """Of what a classic queue had not logged as gone, all or some is there again, in order."""
    client = scattered("classic", True)
    pair = client.pair
    client.send(spec.BasicCancel("c", False))
    client.send(nack_all(client))
    pair.settle(30)
    client.send(spec.QueuePurge(0, "q", False))
    client.exchange()
    for _ in range(turns):
        pair.a.node.turn()
        pair.a.executor.step()
        live = pair.a.queue("q").live()
        pair.a.node.tick_log()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    again = all_got(pair.a.client())
    assert set(again) <= {b"%d" % n for first, last in live for n in range(first, last + 1)}
    assert again == [body for body in LEFT if body in again]


def test_another_leader_goes_on_where_the_last_one_stopped() -> None:
    """The leader is gone between two parts of what a third node's consumer gave back."""
    pair = Pair()
    pair.add("c")
    client = pair.b.client()
    assert isinstance(client.declare("q", kind="quorum", size=3), spec.QueueDeclareOk)
    pair.until(lambda: all(s.knows("q") for s in pair.stations.values()))
    queues = {name: station.queue("q") for name, station in pair.stations.items()}
    pair.settle(20)
    consume(client)
    for number in range(COUNT):
        client.publish("q", b"%d" % number)
    pair.until(lambda: len(client.messages) == COUNT)
    for got in client.messages[::2]:
        client.ack(got.tag)
    pair.until(lambda: all(len(queue.fifo.live()) == len(LEFT) for queue in queues.values()))
    for queue in queues.values():
        queue.fifo.return_max = PART
    leader = next(name for name, queue in queues.items() if queue.proposer().leads())
    client.send(nack_all(client))
    pair.until(lambda: any(queue.fifo.returning() for queue in queues.values()))
    if leader != "b":
        pair.stations[leader].kill()
    pair.until(lambda: len(client.messages) == COUNT + len(LEFT))
    assert client.bodies()[COUNT:] == LEFT
    others = [queue for name, queue in queues.items() if name != leader or leader == "b"]
    pair.settle(20)
    assert len({queue.state() for queue in others}) == 1, "members have the same state"


# --- transactions -------------------------------------------------------------------------------


def answered(kind: str, durable: bool) -> Client:
    """A transactional client that acked more, one by one, than is done in a turn."""
    client = transactional(kind, durable, ANSWERS_MAX + 100)
    ack_backwards(client)
    return client


def transactional(kind: str, durable: bool, count: int) -> Client:
    """A transactional client that was handed so many messages."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    assert isinstance(client.call(spec.TxSelect()), spec.TxSelectOk)
    other = pair.a.client()
    for number in range(count):
        other.publish("q", b"%d" % number)
    pair.until(lambda: pair.a.queue("q").ready_count() == count)
    if kind == "quorum":
        client.qos(count)
    consume(client)
    pair.until(lambda: len(client.messages) == count)
    return client


def ack_backwards(client: Client) -> None:
    """So that no two acks are one."""
    for got in reversed(client.messages):
        client.ack(got.tag)
    client.pair.settle(3)


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_a_long_transaction_is_rolled_back_and_committed_in_parts(kind: str, durable: bool) -> None:
    client = answered(kind, durable)
    channel = client.end.channels[1]
    assert channel.unsettled.count() == 0
    for method, part in ((spec.TxRollback(), ANSWERS_MAX), (spec.TxCommit(), 0)):
        seen = len(client.methods)
        client.send(method)
        # What comes behind it waits until it is done.
        client.send(spec.BasicQos(0, 1, False))
        client.exchange()
        assert 0 <= channel.unsettled.count() <= part
        assert channel.transaction.going_on() and len(client.methods) == seen
        client.pair.until(lambda seen=seen: len(client.methods) == seen + 2)
        done, behind = client.methods[seen:]
        assert done.NAME == method.NAME + "-ok" and isinstance(behind, spec.BasicQosOk)
        if part:
            assert channel.unsettled.count() == len(client.messages)
            ack_backwards(client)
    client.pair.settle(20)
    assert client.pair.a.queue("q").live() == []


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize(("kind", "durable"), LASTING)
def test_a_client_goes_before_its_commit_is_through(kind: str, durable: bool, moving: bool) -> None:
    """All of it is done: the answers in parts, once what was published is safe."""
    client = answered(kind, durable)
    pair = client.pair
    seen = len(client.methods)
    if moving:
        client.publish("q", b"moved")
    client.send(spec.TxCommit())
    client.exchange()
    assert len(client.methods) == seen
    assert client.end.channels[1].transaction.going_on() != moving
    client.vanish()
    pair.settle(20)
    assert pair.a.queue("q").ready_count() == moving
    got = pair.a.client().get("q")
    assert not moving or (got is not None and got.body == b"moved")
    assert not pair.a.node._works


@pytest.mark.parametrize(("kind", "durable"), LASTING)
def test_a_transactional_client_recovers_in_parts(kind: str, durable: bool) -> None:
    """What the transaction has acked between stays with it; what comes behind waits."""
    client = half_answered(kind, durable)
    pair, count = client.pair, len(client.messages)
    client.call(spec.BasicCancel("c", False))
    seen = len(client.methods)
    client.send(spec.BasicRecover(True))
    client.send(spec.TxCommit())
    client.exchange()
    assert len(client.methods) == seen
    assert pair.a.queue("q").ready_count() < count // 2
    pair.until(lambda: len(client.methods) == seen + 2)
    recovered, committed = client.methods[seen:]
    assert isinstance(recovered, spec.BasicRecoverOk) and isinstance(committed, spec.TxCommitOk)
    pair.until(lambda: pair.a.queue("q").ready_count() == count // 2)
    pair.settle(20)
    assert pair.a.queue("q").live() == [(number, number) for number in range(1, count, 2)]
    got = pair.a.client().get("q")
    assert got is not None and got.body == b"1"


def test_a_transactional_client_goes_before_it_has_recovered() -> None:
    client = half_answered("classic", True)
    pair, count = client.pair, len(client.messages)
    client.send(spec.BasicRecover(True))
    client.exchange()
    client.vanish()
    pair.until(lambda: pair.a.queue("q").ready_count() == count)
    pair.settle()
    assert not pair.a.node._works


@pytest.mark.parametrize("way", ["commits", "rolls back", "goes", "goes while it commits"])
def test_what_a_transaction_published_is_done_in_parts(way: str) -> None:
    """A commit that has come is carried out, whatever becomes of its client."""
    pair = Pair(alone=True)
    client = pair.a.client()
    for name in ("q", "r"):
        assert isinstance(client.declare(name, kind="quorum"), spec.QueueDeclareOk)
    client.call(spec.TxSelect())
    count = MESSAGES_MAX // 2 + 50
    for _ in range(count):
        # Each is a run of its own.
        client.publish("q", b"")
        client.publish("r", b"")
    client.exchange()
    # One turn takes some thousand messages that differ from those before.
    pair.settle(20)
    queues = [pair.a.queue(name) for name in ("q", "r")]
    seen = len(client.methods)
    if way == "rolls back":
        client.send(spec.TxRollback())
    elif way != "goes":
        client.send(spec.TxCommit())
    client.exchange()
    assert way == "goes" or client.end.channels[1].transaction.going_on()
    assert len(client.methods) == seen
    if way.startswith("goes"):
        client.vanish()
    else:
        pair.until(lambda: len(client.methods) > seen)
    pair.settle(20)
    done = way in ("commits", "goes while it commits")
    assert [queue.ready_count() for queue in queues] == [count if done else 0] * 2
    assert not pair.a.node._works


def half_answered(kind: str, durable: bool) -> Client:
    """A transactional client that acked every second message, and has the others in between."""
    client = transactional(kind, durable, 2 * RETURNS_MAX + 600)
    for got in client.messages[::2]:
        client.ack(got.tag)
    client.pair.settle(3)
    return client


# --- what takes several turns -------------------------------------------------------------------

CONSUMERS = 12


def taking_turns(pair: Pair, body: bytes = b"", kind: str = "classic", size: int = 0) -> Client:
    """A client with consumers of which each holds some of every second message, in a chunk."""
    client = pair.a.client()
    assert isinstance(client.declare("q", kind=kind, size=size), spec.QueueDeclareOk)
    for number in range(CONSUMERS):
        method = spec.BasicConsume(0, "q", f"c{number}", False, False, False, False, {})
        assert isinstance(client.call(method), spec.BasicConsumeOk)
    for number in range(COUNT):
        client.publish("q", b"%d" % number + body)
    pair.until(lambda: len(client.messages) == COUNT)
    for got in client.messages[::2]:
        client.ack(got.tag)
    pair.until(lambda: len(pair.a.queue("q").live()) == len(LEFT))
    pair.settle(30)
    return client


def within(pair: Pair, turns: int, done: Callable[[], bool]) -> None:
    """Some turns of the node are enough for something; its client gets nothing meanwhile."""
    for _ in range(turns):
        for client in pair.a.clients[1:]:
            client.exchange()
        pair.a.executor.step()
        pair.a.node.turn()
        if done():
            return
    raise AssertionError("it took more turns")


def looked_at_in_parts(pair: Pair) -> None:
    pair.a.queue("q").fifo.part_runs = 1


@pytest.mark.parametrize("kind", ["classic", "quorum"])
@pytest.mark.parametrize("turns", [1, 2, 3, 5])
def test_a_snapshot_is_written_over_many_turns(kind: str, turns: int) -> None:
    """What is done meanwhile is in the entries behind it: a node that dies begins with both."""
    pair = Pair(alone=True)
    client = taking_turns(pair, kind=kind)
    looked_at_in_parts(pair)
    queue, node = pair.a.queue("q"), pair.a.node
    written = int(queue.messages.snapshot_index)
    indexes = []
    left = list(LEFT)
    node.want_snapshot(int(queue.group_id))
    for turn in range(turns):
        got = client.messages[2 * turn + 31]
        client.ack(got.tag)
        left.remove(got.body)
        client.publish("q", b"new %d" % turn)
        left.append(b"new %d" % turn)
        client.exchange()
        node.turn()
        assert int(queue.group_id) in node.due_snapshots.groups, "it is not all written yet"
        indexes.append(int(queue.messages.last_index))
    pair.until(lambda: len(client.messages) == COUNT + turns)
    pair.until(lambda: not node.due_snapshots.groups)
    pair.settle(30)
    assert written <= queue.messages.snapshot_index <= indexes[0] <= queue.messages.last_index
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    pair.settle(30)
    assert sorted(all_got(pair.a.client())) == sorted(left)


def test_a_snapshot_that_is_being_written_goes_with_the_log() -> None:
    """A member that begins with nothing has no state of before to write any more."""
    pair = Pair()
    pair.add("c")
    taking_turns(pair, kind="quorum", size=3)
    looked_at_in_parts(pair)
    member = pair.a.node.cluster.members[int(pair.a.queue("q").group_id)]
    assert member.snapshot_part() < 0 and member.snapshot_part() < 0
    member.log.reset_for_install()
    member.begin_empty()
    assert member.snapshot_part() == 0
    pair.until(lambda: len(pair.a.queue("q").live()) == len(LEFT))
    size = member.snapshot_part()
    while size < 0:
        size = member.snapshot_part()
    live = pair.a.queue("q").live()
    assert size > 0

    def lives() -> list[tuple[int, int]]:
        found = member.machine.live_in(unwrap(member.snapshots.payload).state)
        while not found.go_on():
            pass
        return found.runs.pairs()

    pair.until(lambda: lives() == live)


def runs_of(rows: bytes) -> list[tuple[int, int]]:
    """A count of runs, and then these."""
    (count,) = struct.unpack_from(">I", rows)
    assert len(rows) == 4 + 16 * count
    return list(struct.iter_unpack(">qq", rows[4:]))


def ready_again(count: int) -> Client:
    """A client of a quorum queue in which every second message is ready, and was handed out."""
    client = scattered("quorum", True, count=count)
    pair = client.pair
    client.send(spec.BasicCancel("c", False))
    client.send(nack_all(client))
    pair.until(lambda: pair.a.queue("q").fifo.ready.count == count // 2)
    looked_at_in_parts(pair)
    return client


def test_what_is_ready_is_told_over_many_turns() -> None:
    """As it was when the client asked; what the client sends behind it waits, others do not."""
    count = 16 * CHUNK_PIECES
    client = ready_again(count)
    pair = client.pair
    other = pair.a.client()
    seen = len(client.methods)
    client.send(spec.TableStatus(queue="q", group="g"))
    client.send(spec.BasicQos(0, 1, False))
    client.exchange()
    other.send(spec.QueuePurge(0, "q", False))
    within(pair, 5, lambda: pair.a.queue("q").ready_count() == 0)
    assert len(client.methods) == seen
    pair.until(lambda: len(client.methods) == seen + 2)
    told, behind = client.methods[seen:]
    assert isinstance(told, spec.TableStatusOk) and isinstance(behind, spec.BasicQosOk)
    assert (told.first, told.next, told.ready) == (1, count, count // 2)
    assert runs_of(client.rows[-1]) == [(number, number) for number in range(1, count, 2)]
    told = client.call(spec.TableStatus(queue="q", group="g"))
    assert isinstance(told, spec.TableStatusOk)
    assert (told.first, told.ready, runs_of(client.rows[-1])) == (count, 0, [])


def test_a_long_answer_is_framed_in_parts() -> None:
    """And sent in one: what its channel is handed meanwhile comes before it, never within."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind="quorum")
    consume(client)
    channel = client.end.channels[1]
    body = bytes(range(256)) * (5 * FRAMED_BYTES // 512)
    content = Content(channel, spec.TableStatusOk(1, 2, 3, 4), body)
    assert not content.go_on()
    client.publish("q", b"meanwhile")
    pair.until(lambda: client.bodies() == [b"meanwhile"])
    assert not content.go_on() and not client.rows
    assert len(channel.connection.output.buffer) == 0
    assert content.go_on()
    client.publish("q", b"behind")
    pair.until(lambda: client.bodies() == [b"meanwhile", b"behind"])
    assert client.rows == [body]


def test_a_client_goes_before_it_is_told() -> None:
    client = ready_again(2 * CHUNK_PIECES)
    client.send(spec.TableStatus(queue="q", group="g"))
    client.exchange()
    client.pair.a.node.turn()
    assert client.pair.a.node._works
    client.vanish()
    client.pair.settle()
    assert not client.pair.a.node._works


def test_checkouts_are_told_over_many_turns() -> None:
    """Those of a range, as they were when the client asked."""
    client = ready_again(COUNT)
    pair = client.pair
    assert isinstance(client.call(spec.TableAcquire(queue="q", group="g")), spec.TableAcquireOk)
    for number in range(5):
        checkout = spec.TableCheckout(
            queue="q", group="g", epoch=1, after=number, max_rows=12, up_to=COUNT
        )
        assert isinstance(client.call(checkout), spec.TableCheckoutOk)
        expected = [(int(body), int(body)) for body in LEFT[12 * number : 12 * number + 12]]
        assert runs_of(client.rows[-1]) == expected
    other = pair.a.client()
    seen = len(client.methods)
    client.send(spec.TableCheckouts(queue="q", group="g", after=1, up_to=4))
    client.exchange()
    pair.a.node.turn()
    assert pair.a.node._works
    other.send(spec.TableSettle(queue="q", group="g", epoch=1, up_to=5))
    within(pair, 5, lambda: not pair.a.queue("q").fifo.groups["g"].open)
    assert len(client.methods) == seen
    pair.until(lambda: len(client.methods) > seen)
    told = client.methods[-1]
    assert isinstance(told, spec.TableCheckoutsOk) and told.count == 3
    rows, size = client.rows[-1], 8 + 4 + 12 * 16
    assert len(rows) == 3 * size
    for at in range(3):
        row = rows[at * size : (at + 1) * size]
        assert row[:8] == struct.pack(">q", 2 + at)
        expected = [(int(body), int(body)) for body in LEFT[12 * at + 12 : 12 * at + 24]]
        assert runs_of(row[8:]) == expected


def test_a_checkout_of_many_runs_has_fewer_rows() -> None:
    """What is left comes with the next ones; one that was made is told again as it is."""
    count = 8 * CHUNK_PIECES
    client = ready_again(count)
    assert isinstance(client.call(spec.TableAcquire(queue="q", group="g")), spec.TableAcquireOk)
    client.pair.a.queue("q").fifo.part_runs = CHUNK_PIECES + 1
    taken: list[tuple[int, int]] = []
    sizes = []
    for number in range(3):
        checkout = spec.TableCheckout(queue="q", group="g", epoch=1, after=number, up_to=count)
        for _ in range(2):
            told = client.call(checkout)
            assert isinstance(told, spec.TableCheckoutOk)
            assert told.number == (number + 1 if number < 2 else 2)
        if told.count:
            sizes.append(told.count)
            taken += runs_of(client.rows[-1])
    assert len(sizes) == 2 and sizes[0] <= 3 * CHUNK_PIECES
    assert taken == [(number, number) for number in range(1, count, 2)]


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_files_are_compacted_by_what_is_found_out_over_many_ticks(kind: str) -> None:
    """What is acked meanwhile may stay in a file for once; nothing else goes."""
    pair = Pair(alone=True, file_bytes=1 << 16)
    client = taking_turns(pair, bytes(2_000), kind)
    looked_at_in_parts(pair)
    queue = pair.a.queue("q")
    files = {place.file.path for place in queue.messages.places if place.file.closed}
    left = []
    for at, got in enumerate(client.messages):
        if at % 8 == 1:
            left.append(got.body)
        elif at % 2 == 1:
            client.ack(got.tag)
            pair.settle(1)
    pair.until(lambda: not {place.file.path for place in queue.messages.places} & files)
    pair.settle(30)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    pair.settle(30)
    assert all_got(pair.a.client()) == left


@pytest.mark.parametrize(("kind", "durable"), KINDS)
def test_what_was_unsettled_goes_in_parts(kind: str, durable: bool) -> None:
    """Letting go of an object costs some 40 ns, and of a million 40 ms."""
    pair = Pair(alone=True)
    client = pair.a.client()
    assert isinstance(client.declare("q", durable=durable, kind=kind), spec.QueueDeclareOk)
    channel = client.end.channels[1]
    queue = pair.a.queue("q")
    tags = (SPENT_LISTS + 2) * CHUNK_PIECES
    unsettled: Unsettled = channel.unsettled
    for tag in range(tags):
        # Each of another consumer, of which the queue has never heard.
        unsettled.next_tag += 1
        unsettled.add(1, queue, 1 + tag % 2, 9 * tag)
    assert tag_runs(queue) == tags
    client.send(spec.BasicAck(0, True))
    client.exchange()
    left = [tag_runs(queue)]
    while left[-1] > 0:
        pair.a.node.turn()
        left.append(tag_runs(queue))
    assert left[0] > 0
    assert all(0 < a - b <= SPENT_LISTS * CHUNK_PIECES for a, b in pairwise(left))


def tag_runs(queue: Queue) -> int:
    """Runs of tags of a queue that there are, wherever."""
    return sum(type(found) is TagRun and found.queue is queue for found in gc.get_objects())


@pytest.mark.parametrize("kind", ["classic", "transient"])
def test_batches_that_come_meanwhile_do_not_bring_a_long_end_on(kind: str) -> None:
    """However many of them a turn takes in, it does one part of what a purge has left to do."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", durable=kind == "classic", kind="classic")
    for number in range(200):
        # Each is a batch by itself, and a stretch of its own.
        client.publish("q", bytes(1 + number % 7), True, str(100_000 + number))
    queue = pair.a.queue("q")
    pair.until(lambda: queue.ready_count() == 200)
    pair.settle()
    fifo = queue.fifo
    fifo.return_max = 10
    client.send(spec.QueuePurge(0, "q", True))
    for number in range(50):
        client.publish("q", bytes(1 + number % 7), True, str(100_000 + number))
    before = fifo.steps
    client.exchange()
    pair.a.node.turn()
    assert fifo.steps - before <= fifo.return_max
    assert fifo.leaving.count > 0 and queue.ready_count() == 50
    pair.until(lambda: not fifo.unfinished())
    assert fifo.sizes.count == queue.ready_count() == 50
