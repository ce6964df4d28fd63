"""Classic queues used from another node than their own."""

from __future__ import annotations

import struct

import pytest

from tests.node.pair import Client, Pair, sealed
from warren.node.log_listener import NodeLogListener
from warren.node.remote import frames as line_frames
from warren.node.remote.serving import BACKLOG_BYTES
from warren.queues.proxy import FLOW_BYTES, WINDOW_BYTES
from warren.replication import kinds
from warren.replication.feeding import BACKLOG_BYTES as SENT_BYTES
from warren.sharded_dict import ShardedDict
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

HOME_DOWN = "home node 'a' of durable queue 'q' in vhost '/' is down or inaccessible"


def with_queue(name: str = "q") -> tuple[Pair, Client]:
    """A queue on node `a`, and a client of node `b`."""
    pair = Pair()
    owner = pair.a.client()
    assert isinstance(owner.declare(name), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows(name))
    return pair, pair.b.client()


def closed(answer: spec.Method, code: int, text: str) -> None:
    assert isinstance(answer, spec.ChannelClose)
    assert answer.reply_code == code
    assert text in answer.reply_text


def confirming(client: Client) -> Client:
    assert isinstance(client.call(spec.ConfirmSelect(False)), spec.ConfirmSelectOk)
    return client


# --- its node is up, and the way there is not ---------------------------------------------------


def test_publishes_wait_for_a_line_that_is_about_to_come() -> None:
    """They were nacked until it was up, as where a queue was just declared on another node."""
    pair, client = with_queue()
    confirming(client)
    pair.cut("b", "a")
    assert pair.b.node.remotes.line("a").number == 0
    for number in range(3):
        client.publish("q", b"%d" % number, persistent=number != 1)
        client.exchange()
        pair.turn(pair.b)
    assert pair.b.node.remotes.line("a").number == 0
    assert not client.acked and not client.nacked
    pair.until(lambda: client.acked == {1, 2, 3})
    got = [client.get("q") for _ in range(3)]
    assert [found.body for found in got if found is not None] == [b"0", b"1", b"2"]


def test_publishes_wait_for_a_line_for_a_bounded_time() -> None:
    pair, client = with_queue()
    confirming(client)
    # It is up, and takes no line.
    pair.a.node.remotes.stopping = True
    pair.cut("b", "a")
    client.publish("q", b"one")
    pair.until(lambda: pair.b.node.cluster.detector.is_up("a"))
    began = pair.clock.monotonic_ms()
    pair.until(lambda: client.nacked == {1})
    assert 3_000 <= pair.clock.monotonic_ms() - began <= 6_000
    client.publish("q", b"two")
    pair.settle(4)
    assert client.nacked == {1, 2}, "there is no hope left: at once"
    pair.a.node.remotes.stopping = False
    pair.until(pair.usable)
    client.publish("q", b"three")
    pair.until(lambda: client.acked == {3})


def test_what_waits_for_a_line_holds_its_publisher() -> None:
    pair, client = with_queue()
    confirming(client)
    pair.a.node.remotes.stopping = True
    pair.cut("b", "a")
    for _ in range(5):
        client.publish("q", bytes(FLOW_BYTES // 4))
    pair.until(lambda: client.held)
    pair.a.node.remotes.stopping = False
    pair.until(lambda: client.acked == {1, 2, 3, 4, 5} and not client.held)


def test_a_queue_that_is_deleted_while_publishes_wait_for_it_takes_them() -> None:
    pair, client = with_queue()
    confirming(client)
    pair.a.node.remotes.stopping = True
    pair.cut("b", "a")
    client.publish("q", b"one")
    client.exchange()
    other = pair.a.client()
    assert isinstance(other.call(spec.QueueDelete(0, "q", False, False, False)), spec.QueueDeleteOk)
    pair.until(lambda: client.acked == {1})


@pytest.mark.parametrize("queues", [1, 8])
def test_no_more_is_sent_to_a_queues_node_than_its_link_bears(queues: int) -> None:
    """A few publishes, each large, passed the bound of the link: it ended, and all were nacked."""
    pair, _ = with_queue("q0")
    owner = pair.a.client()
    for number in range(1, queues):
        assert isinstance(owner.declare(f"q{number}"), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows(f"q{queues - 1}"))
    clients = [confirming(pair.b.client()) for _ in range(8)]
    pair.deaf.add(("b", "a"))
    body = bytes(12 << 20)
    backlogs: list[int] = []
    for number, client in enumerate(clients):
        client.publish(f"q{number % queues}", body)
        # Behind it on the same channel: nothing overtakes it.
        client.send(spec.BasicGet(0, f"q{number % queues}", True))
        pair.settle(2)
        backlogs.append(pair.b.node.cluster.peers.backlog_bytes("a"))
    assert max(backlogs) <= SENT_BYTES + len(body) + (1 << 20)
    pair.deaf.clear()
    pair.until(lambda: all(client.acked == {1} for client in clients))
    pair.until(lambda: all(len(client.messages) == 1 for client in clients))
    assert not any(client.methods[1:] for client in clients)


# --- its node is down ---------------------------------------------------------------------------


def test_all_use_is_404_while_the_home_node_is_down() -> None:
    pair, client = with_queue()
    pair.a.kill()
    pair.until(lambda: pair.b.node.remotes.line("a").number == 0)
    closed(client.declare("q", passive=True), 404, HOME_DOWN)
    closed(client.declare("q"), 404, HOME_DOWN)
    closed(client.consume("q"), 404, HOME_DOWN)
    closed(client.call(spec.BasicGet(0, "q", False)), 404, HOME_DOWN)
    closed(client.call(spec.QueuePurge(0, "q", False)), 404, HOME_DOWN)
    closed(client.call(spec.QueueDelete(0, "q", False, False, False)), 404, HOME_DOWN)


def test_publishes_are_nacked_while_the_home_node_is_down() -> None:
    pair, client = with_queue()
    pair.a.kill()
    pair.until(lambda: pair.b.node.remotes.line("a").number == 0)
    confirming(client)
    for number in range(3):
        client.publish("q", b"%d" % number)
    pair.until(lambda: client.nacked == {1, 2, 3})
    assert not client.acked


def test_publishes_without_confirms_are_dropped_with_one_warning_a_minute() -> None:
    pair, client = with_queue()
    pair.a.kill()
    pair.until(lambda: pair.b.node.cluster.detector.suspected("a"))
    for number in range(5):
        client.publish("q", b"%d" % number)
        pair.settle(1)
    told = [text for text in pair.b.warnings if "dropped" in text]
    assert len(told) == 1
    pair.clock.advance(60_000)
    client.publish("q", b"again")
    pair.settle(2)
    told = [text for text in pair.b.warnings if "dropped" in text]
    assert len(told) == 2
    assert told[1].startswith("5 messages")


# --- use ----------------------------------------------------------------------------------------


def counts(client: Client, name: str = "q") -> tuple[int, int]:
    """Ready messages and consumers, as a passive declare reports them."""
    answer = client.declare(name, passive=True)
    assert isinstance(answer, spec.QueueDeclareOk)
    return answer.message_count, answer.consumer_count


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def fill(pair: Pair, client: Client, bodies: list[bytes], name: str = "q") -> None:
    confirming(client)
    before = client.published
    for body in bodies:
        client.publish(name, body)
    expected = set(range(1, before + len(bodies) + 1))
    pair.until(lambda: client.acked == expected)


def test_messages_go_there_and_back_in_order() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(100))
    assert counts(client) == (100, 0)
    assert isinstance(client.consume("q"), spec.BasicConsumeOk)
    pair.until(lambda: len(client.messages) == 100)
    assert client.bodies() == numbered(100)
    assert not any(got.redelivered for got in client.messages)
    assert counts(client) == (0, 1)
    client.ack(100, multiple=True)
    pair.settle()
    client.vanish()
    pair.settle()
    assert counts(pair.a.client()) == (0, 0)


def test_counts_are_those_behind_the_acks_before_them() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(4))
    client.qos(2)
    client.consume("q")
    pair.until(lambda: len(client.messages) == 2)
    for _ in range(2):
        client.ack(0, multiple=True)
        client.send(spec.BasicReject(client.messages[-1].tag + 1, True))
    closed(client.declare("q", passive=True), 406, "unknown delivery tag")
    here = pair.b.client()
    here.publish("q", b"4")
    assert counts(here) == (3, 0)
    got = here.get("q")
    assert got is not None
    here.ack(got.tag)
    assert counts(here) == (2, 0)


def test_a_confirm_waits_for_the_disk_of_the_home_node() -> None:
    pair, client = with_queue()
    confirming(client)
    stuck = pair.a.executor
    pair.a.hold_disk = True
    client.publish("q", b"persistent")
    pair.settle()
    assert not client.acked
    assert not stuck.idle
    pair.a.hold_disk = False
    pair.until(lambda: client.acked == {1})


def test_confirms_come_for_transient_messages_too() -> None:
    pair, client = with_queue()
    confirming(client)
    for number in range(6):
        client.publish("q", b"%d" % number, persistent=number % 2 == 0)
    pair.until(lambda: len(client.acked) == 6)
    assert [pair.a.queue("q").ready_count()] == [6]


def test_messages_without_acks_are_settled_as_they_are_written() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(10))
    client.consume("q", no_ack=True)
    pair.until(lambda: client.bodies() == numbered(10))
    pair.settle()
    client.vanish()
    pair.settle()
    assert counts(pair.b.client()) == (0, 0)


def test_get_brings_one_message_and_how_many_are_left() -> None:
    pair, client = with_queue()
    assert client.get("q") is None
    assert isinstance(client.methods[-1], spec.BasicGetEmpty)
    fill(pair, client, numbered(3))
    got = client.get("q")
    assert got is not None and got.body == b"0"
    assert isinstance(got.method, spec.BasicGetOk) and got.method.message_count == 2
    client.send(spec.BasicReject(got.tag, True))
    again = client.get("q")
    assert again is not None and again.body == b"0" and again.redelivered
    client.ack(again.tag)
    third = client.get("q")
    assert third is not None and third.body == b"1" and not third.redelivered


def test_get_reads_what_is_not_in_memory() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(3))
    pair.a.kill()
    pair.a.start()
    pair.until(pair.usable)
    got = client.get("q")
    assert got is not None and got.body == b"0"


def test_purge_and_delete_say_how_many() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(5))
    purged = client.call(spec.QueuePurge(0, "q", False))
    assert isinstance(purged, spec.QueuePurgeOk) and purged.message_count == 5
    fill(pair, client, numbered(2))
    closed(client.call(spec.QueueDelete(0, "q", False, True, False)), 406, "not empty")
    deleted = client.call(spec.QueueDelete(0, "q", False, False, False))
    assert isinstance(deleted, spec.QueueDeleteOk) and deleted.message_count == 2
    pair.until(lambda: not pair.a.knows("q"))
    again = client.call(spec.QueueDelete(0, "q", False, False, False))
    assert isinstance(again, spec.QueueDeleteOk) and again.message_count == 0


def test_a_queue_in_use_is_not_deleted_if_unused() -> None:
    pair, client = with_queue()
    pair.a.client().consume("q")
    closed(client.call(spec.QueueDelete(0, "q", True, False, False)), 406, "in use")


def test_prefetch_bounds_what_is_unsettled() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(10))
    client.qos(3)
    client.consume("q")
    pair.settle()
    assert client.bodies() == numbered(3)
    client.ack(2, multiple=True)
    pair.settle()
    assert client.bodies() == numbered(5)
    client.send(spec.BasicNack(3, False, True))
    pair.until(lambda: len(client.messages) == 6)
    assert client.messages[5].body == b"2" and client.messages[5].redelivered
    client.send(spec.BasicReject(4, False))
    pair.until(lambda: len(client.messages) == 7)
    assert client.messages[6].body == b"5"


def test_a_shared_prefetch_bounds_all_consumers_of_a_channel() -> None:
    pair, client = with_queue()
    pair.a.client().declare("r")
    pair.until(lambda: pair.b.knows("r"))
    fill(pair, client, numbered(10))
    fill(pair, client, numbered(10), "r")
    client.qos(4, shared=True)
    client.consume("q")
    client.consume("r")
    pair.settle()
    assert len(client.messages) == 4
    client.ack(client.messages[0].tag)
    client.ack(client.messages[1].tag)
    pair.settle()
    assert len(client.messages) == 6
    for _ in range(7):
        client.ack(0, multiple=True)
        pair.settle()
    assert len(client.messages) == 20


def test_a_cancelled_consumer_keeps_what_it_holds_and_the_rest_goes_on() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(6))
    client.qos(2)
    client.consume("q")
    pair.until(lambda: len(client.messages) == 2)
    tag = client.methods[-1]
    assert isinstance(tag, spec.BasicConsumeOk)
    assert isinstance(client.call(spec.BasicCancel(tag.consumer_tag, False)), spec.BasicCancelOk)
    client.ack(1)
    other = pair.a.client()
    other.consume("q")
    pair.until(lambda: len(other.messages) == 4)
    assert other.bodies() == numbered(4, 2)
    client.vanish()
    pair.until(lambda: len(other.messages) == 5)
    assert other.messages[4].body == b"1" and other.messages[4].redelivered


def test_a_client_that_vanishes_gives_all_back_in_order() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(20))
    client.consume("q")
    pair.until(lambda: len(client.messages) == 20)
    client.ack(5)
    pair.settle()
    client.vanish()
    other = pair.b.client()
    other.consume("q")
    pair.until(lambda: len(other.messages) == 19)
    assert other.bodies() == numbered(4) + numbered(15, 5)
    assert all(got.redelivered for got in other.messages)


def test_consumers_of_all_nodes_share_a_queue() -> None:
    pair, client = with_queue()
    here = pair.a.client()
    client.consume("q")
    here.consume("q")
    fill(pair, pair.b.client(), numbered(10))
    pair.until(lambda: len(client.messages) + len(here.messages) == 10)
    assert sorted(client.bodies() + here.bodies()) == sorted(numbered(10))
    assert len(here.messages) == 5


def test_an_exclusive_consumer_is_the_only_one_of_the_cluster() -> None:
    pair, client = with_queue()
    here = pair.a.client()
    here.consume("q", exclusive=True)
    closed(client.consume("q"), 403, "queue 'q' in vhost '/' in exclusive use")
    here.vanish()
    pair.settle()
    assert isinstance(client.consume("q", exclusive=True), spec.BasicConsumeOk)
    closed(pair.a.client().consume("q"), 403, "in exclusive use")
    closed(pair.b.client().consume("q"), 403, "in exclusive use")


def test_an_exclusive_queue_of_another_node_is_locked() -> None:
    pair = Pair()
    owner = pair.a.client()
    assert isinstance(owner.declare("mine", exclusive=True), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows("mine"))
    client = pair.b.client()
    text = "cannot obtain exclusive access to locked queue 'mine'"
    closed(client.declare("mine", passive=True), 405, text)
    closed(client.consume("mine"), 405, text)
    fill(pair, client, [b"to the owner"], "mine")
    owner.consume("mine")
    pair.until(lambda: owner.bodies() == [b"to the owner"])
    owner.vanish()
    pair.until(lambda: not pair.b.knows("mine"))


def test_an_auto_delete_queue_goes_with_its_last_consumer_on_whichever_node() -> None:
    pair = Pair()
    pair.a.client().declare("brief", auto_delete=True)
    pair.until(lambda: pair.b.knows("brief"))
    client = pair.b.client()
    client.consume("brief")
    here = pair.a.client()
    here.consume("brief")
    here.vanish()
    pair.settle()
    assert pair.a.knows("brief")
    client.vanish()
    for station in (pair.a, pair.b):
        pair.until(lambda station=station: not station.knows("brief"))


@pytest.mark.rule("PROP-04")
@pytest.mark.parametrize("last", [False, True])
def test_who_cancels_on_another_node_finds_the_queue_gone(last: bool) -> None:
    """A mandatory publish behind the cancel comes back if no other consumer is left anywhere."""
    pair = Pair()
    pair.a.client().declare("brief", auto_delete=True)
    pair.until(lambda: pair.b.knows("brief"))
    client, other = pair.b.client(), pair.a.client()
    tag = client.consume("brief").consumer_tag
    if not last:
        other.consume("brief")
    client.send(spec.BasicCancel(tag, False))
    publish = spec.BasicPublish(0, "", "brief", True, False)
    client.outbox += content_frames(1, publish, b"\0\0", b"behind", 131_072)
    client.send(spec.QueueDeclare(0, "", False, False, True, False, False, {}))
    pair.until(lambda: isinstance(client.methods[-1], spec.QueueDeclareOk))
    assert isinstance(client.methods[-2], spec.BasicCancelOk)
    if last:
        (returned,) = client.messages
        assert isinstance(returned.method, spec.BasicReturn)
        pair.until(lambda: not pair.a.knows("brief"))
    else:
        pair.until(lambda: other.bodies() == [b"behind"])
        assert pair.b.knows("brief") and not client.messages


@pytest.mark.rule("PROP-04")
def test_who_cancels_goes_on_when_the_node_that_was_asked_is_gone() -> None:
    pair = Pair()
    pair.a.client().declare("brief", auto_delete=True)
    pair.until(lambda: pair.b.knows("brief"))
    client = pair.b.client()
    tag = client.consume("brief").consumer_tag
    seen = len(client.methods)
    client.send(spec.BasicCancel(tag, False))
    client.exchange()
    pair.turn(pair.b)
    assert len(client.methods) == seen
    pair.a.kill()
    pair.until(lambda: len(client.methods) > seen)
    assert isinstance(client.methods[seen], spec.BasicCancelOk)


def test_deletion_cancels_consumers_and_counts_messages_as_safe() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(3))
    client.consume("q")
    pair.until(lambda: len(client.messages) == 3)
    pair.a.hold_disk = True
    client.publish("q", b"late")
    pair.settle(2)
    pair.a.hold_disk = False
    pair.a.client().call(spec.QueueDelete(0, "q", False, False, False))
    pair.until(lambda: isinstance(client.methods[-1], spec.BasicCancel))
    pair.until(lambda: client.acked == {1, 2, 3, 4})
    client.ack(1)
    pair.settle()
    closed(client.consume("q"), 404, "no queue 'q' in vhost '/'")


def test_a_queue_in_memory_is_used_like_any_other() -> None:
    pair = Pair()
    pair.a.client().declare("light", durable=False)
    pair.until(lambda: pair.b.knows("light"))
    client = pair.b.client()
    fill(pair, client, numbered(50), "light")
    client.consume("light")
    pair.until(lambda: client.bodies() == numbered(50))


# --- much at once -------------------------------------------------------------------------------


def test_a_client_that_does_not_read_takes_up_no_more_than_a_window() -> None:
    pair, client = with_queue()
    bodies = [b"%d:" % number + b"x" * 50_000 for number in range(200)]
    fill(pair, client, bodies)
    reader = pair.b.client()
    reader.consume("q", no_ack=True)
    reader.deaf = True
    pair.settle(20)
    queue = pair.b.queue("q")
    kept = sum(piece.size for inbox in queue._inboxes.values() for piece in inbox.pieces)
    assert 0 < kept <= 2 * WINDOW_BYTES
    reader.deaf = False
    pair.until(lambda: len(reader.messages) == 200)
    assert reader.bodies() == bodies
    assert not any(inbox.pieces or inbox.current for inbox in queue._inboxes.values())


def test_a_link_that_is_slow_takes_up_no_more_than_is_allowed() -> None:
    pair, client = with_queue()
    pair.deaf.add(("b", "a"))
    for number in range(200):
        client.publish("q", b"%d:" % number + b"x" * 100_000)
        pair.turn(pair.b)
        client.exchange()
    queue = pair.b.queue("q")
    assert queue.congested()
    assert queue.unsafe_bytes < 3 * FLOW_BYTES
    assert client.held
    pair.deaf.clear()
    pair.until(lambda: pair.a.queue("q").ready_count() == 200 and not client.held)


def test_a_congested_queue_holds_publishers_of_other_nodes_back() -> None:
    pair = Pair()
    here = pair.a.client()
    here.declare("light", durable=False)
    pair.until(lambda: pair.b.knows("light"))
    client = pair.b.client()
    here.qos(1)
    here.consume("light")
    client.publish("light", b"first")
    pair.until(lambda: len(here.messages) == 1)
    for _ in range(60):
        client.publish("light", b"x" * 100_000)
    pair.until(lambda: pair.b.queue("light").congested())
    pair.until(lambda: client.held)
    pair.settle(20)
    queue = pair.b.queue("light")
    assert queue.congested() and queue.unsafe_bytes == 0
    here.vanish()
    for _ in range(4):
        pair.a.node.tick(0)
        pair.settle(2)
    assert not client.held
    pair.until(lambda: pair.a.queue("light").ready_count() == 61)


def test_consumers_together_take_up_no_more_than_a_link_may_have() -> None:
    pair, _ = with_queue()
    readers = [pair.b.client() for _ in range(12)]
    for reader in readers:
        reader.consume("q", no_ack=True)
    here = pair.a.client()
    bodies = [b"%d:" % number + b"x" * 250_000 for number in range(80)]
    for body in bodies:
        here.publish("q", body)
    pair.deaf.add(("a", "b"))
    pair.settle(20)
    waiting = pair.a.node.cluster.peers.backlog_bytes("b")
    assert BACKLOG_BYTES < waiting < BACKLOG_BYTES + 1_000_000
    pair.deaf.clear()
    pair.until(lambda: sum(len(reader.messages) for reader in readers) == len(bodies))
    assert {body for reader in readers for body in reader.bodies()} == set(bodies)


def test_what_was_not_written_when_a_consumer_is_cancelled_goes_to_others() -> None:
    pair, client = with_queue()
    bodies = [b"%d:" % number + b"x" * 50_000 for number in range(60)]
    fill(pair, client, bodies)
    reader = pair.b.client()
    reader.consume("q")
    tag = reader.methods[-1]
    assert isinstance(tag, spec.BasicConsumeOk)
    reader.deaf = True
    reader.end.set_writable(False)
    pair.settle(6)
    reader.send(spec.BasicCancel(tag.consumer_tag, False))
    pair.settle(6)
    reader.deaf = False
    pair.settle(6)
    assert len(reader.messages) < 60
    here = pair.a.client()
    here.consume("q")
    pair.until(lambda: len(here.messages) + len(reader.messages) == 60)
    assert here.bodies() == bodies[len(reader.messages) :]
    assert reader.bodies() == bodies[: len(reader.messages)]


def test_what_is_under_way_when_a_consumer_is_cancelled_goes_back() -> None:
    pair, client = with_queue()
    client.consume("q")
    tag = client.methods[-1]
    assert isinstance(tag, spec.BasicConsumeOk)
    pair.deaf.add(("a", "b"))
    fill(pair, pair.a.client(), numbered(3))
    client.send(spec.BasicCancel(tag.consumer_tag, False))
    pair.settle(4)
    assert isinstance(client.methods[-1], spec.BasicCancelOk)
    pair.deaf.clear()
    here = pair.a.client()
    here.consume("q")
    pair.until(lambda: here.bodies() == numbered(3))


# --- lines that end -----------------------------------------------------------------------------


def test_when_the_home_node_goes_all_is_void_and_usable_when_it_is_back() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(3))
    client.consume("q")
    pair.until(lambda: len(client.messages) == 3)
    pair.a.hold_disk = True
    client.publish("q", b"never safe")
    asking = pair.b.client()
    pair.deaf.add(("a", "b"))
    asking.send(spec.QueuePurge(0, "q", False))
    pair.settle(2)
    pair.a.hold_disk = False
    pair.deaf.clear()
    pair.a.kill()
    pair.until(lambda: client.nacked == {4})
    assert isinstance(client.methods[-1], spec.BasicCancel)
    pair.until(lambda: len(asking.methods) > 0)
    closed(asking.methods[0], 404, HOME_DOWN)
    client.ack(1)
    pair.settle()
    pair.a.start()
    pair.until(pair.usable)
    again = pair.b.client()
    again.consume("q")
    pair.until(lambda: len(again.messages) >= 3)
    assert again.bodies()[:3] == numbered(3)
    assert all(got.redelivered for got in again.messages[:3])


def test_when_the_front_goes_what_its_consumers_held_returns_in_order() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(10))
    client.qos(4)
    client.consume("q")
    pair.until(lambda: len(client.messages) == 4)
    pair.b.kill()
    here = pair.a.client()
    here.consume("q")
    pair.until(lambda: len(here.messages) == 10)
    assert [int(body) for body in here.bodies()] == list(range(10))
    assert here.messages[0].redelivered and not here.messages[9].redelivered


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
def test_an_ack_of_another_line_settles_nothing(direction: tuple[str, str]) -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(2))
    first = client.get("q")
    assert first is not None
    pair.cut(*direction)
    pair.until(pair.usable)
    pair.settle()
    second = client.get("q")
    assert second is not None and second.body == b"0" and second.redelivered
    client.ack(first.tag)
    pair.settle()
    client.vanish()
    other = pair.b.client()
    other.consume("q")
    pair.until(lambda: other.bodies() == numbered(2))


def test_a_link_that_stays_away_makes_its_queues_unusable_until_it_is_back() -> None:
    pair, client = with_queue()
    client.consume("q")
    pair.blocked.add(("a", "b"))
    pair.cut("a", "b")
    assert isinstance(client.call(spec.ChannelFlow(True)), spec.BasicCancel)
    pair.settle()
    closed(client.declare("q", passive=True), 404, HOME_DOWN)
    pair.until(lambda: counts_here(pair) == 0)
    pair.blocked.clear()
    pair.until(pair.usable)
    assert isinstance(client.consume("q"), spec.BasicConsumeOk)


def counts_here(pair: Pair) -> int:
    return len(pair.a.queue("q").fifo.consumers)


def test_frames_of_a_line_that_is_no_more_are_ignored() -> None:
    pair, client = with_queue()
    client.consume("q")
    old = pair.a.node.remotes._serving("b").number
    pair.cut("a", "b")
    pair.until(pair.usable)
    group = pair.a.queue("q").group_id
    head = line_frames.line_head(kinds.MESSAGES, group, old).getvalue()
    late = head + struct.pack("<qBII", 1, 1, 1, 1) + b"x"
    pair.a.listener.received("b", sealed(late))
    pair.settle()
    assert pair.a.queue("q").ready_count() == 0
    assert pair.usable()


def test_answers_of_a_line_that_is_no_more_confirm_nothing() -> None:
    pair, client = with_queue()
    old = pair.b.node.remotes.line("a").number
    pair.cut("a", "b")
    pair.until(pair.usable)
    confirming(client)
    pair.a.hold_disk = True
    client.publish("q", b"not safe")
    pair.settle(4)
    group = pair.a.queue("q").group_id
    stored = line_frames.line_head(kinds.STORED, group, old).getvalue()
    pair.b.listener.received("a", sealed(stored + struct.pack("<qB", 1, 0)))
    pair.settle(4)
    assert not client.acked
    pair.a.hold_disk = False
    pair.until(lambda: client.acked == {1})


def test_what_comes_for_a_queue_before_the_queue_is_kept() -> None:
    pair, client = with_queue()
    owned = pair.a.node.remotes.owned
    queue = owned.pop(int(pair.a.queue("q").group_id))
    confirming(client)
    client.publish("q", b"early")
    client.publish("q", b"later")
    pair.settle()
    assert not client.acked and not client.nacked
    pair.a.node.remotes.started(queue)
    pair.until(lambda: client.acked == {1, 2})


def test_what_comes_for_a_queue_that_never_comes_is_refused() -> None:
    pair, client = with_queue()
    pair.a.node.remotes.owned = ShardedDict()
    confirming(client)
    client.publish("q", b"early")
    pair.settle()
    for _ in range(30):
        pair.clock.advance(400)
        pair.step()
    pair.until(lambda: client.nacked == {1})


def test_a_damaged_frame_is_told_and_dropped() -> None:
    pair, client = with_queue()
    for kind in range(kinds.OPEN, kinds.CLOSE + 1):
        for number in (0, int(pair.a.node.remotes._serving("b").number)):
            for size in range(0, 40, 3):
                head = line_frames.line_head(kind, pair.a.queue("q").group_id, number).getvalue()
                pair.a.listener.received("b", sealed((head + b"\xff" * size)[: 9 + size]))
    pair.settle()
    pair.until(pair.usable)
    assert counts(client) == (0, 0)


@pytest.mark.parametrize("direction", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("at", range(1, 41))
def test_a_link_lost_at_any_step_loses_nothing_confirmed(
    direction: tuple[str, str], at: int
) -> None:
    pair, client = with_queue()
    confirming(client)
    reader = pair.b.client()
    reader.qos(3)
    reader.send(spec.BasicConsume(0, "q", "", False, False, False, False, {}))
    done: list[bytes] = []
    pair.fuses[direction] = at
    published = 0
    for _ in range(40):
        if published < 30:
            client.publish("q", b"%d" % published)
            published += 1
        for got in reader.messages:
            done.append(got.body)
            reader.ack(got.tag)
        reader.messages.clear()
        pair.step()
    pair.until(lambda: pair.fuses[direction] <= 0)
    pair.until(pair.usable)
    pair.until(lambda: len(client.acked) + len(client.nacked) == 30)
    drain = pair.a.client()
    for got in reader.messages:
        done.append(got.body)
    reader.vanish()
    pair.settle()
    drain.consume("q")
    pair.until(lambda: counts(drain)[0] == 0)
    pair.settle()
    left = drain.bodies()
    assert left == sorted(left, key=int)
    assert {int(body) + 1 for body in done + left} >= client.acked
    fresh = pair.b.client()
    fill(pair, fresh, [b"after"])


# --- nodes that do not hear each other ----------------------------------------------------------


@pytest.mark.parametrize("deaf", [[("a", "b")], [("b", "a")], [("a", "b"), ("b", "a")]])
def test_a_silence_ends_a_line_on_both_sides(deaf: list[tuple[str, str]]) -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(3))
    client.consume("q")
    pair.until(lambda: len(client.messages) == 3)
    pair.deaf.update(deaf)
    pair.settle(400)
    pair.deaf.clear()
    pair.until(lambda: isinstance(client.methods[-1], spec.BasicCancel))
    pair.until(lambda: counts_here(pair) == 0)
    pair.until(pair.usable)
    again = pair.b.client()
    again.consume("q")
    pair.until(lambda: again.bodies() == numbered(3))
    assert all(got.redelivered for got in again.messages)


def test_a_front_that_hears_nothing_gives_back_what_it_holds() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(3))
    client.consume("q")
    pair.until(lambda: len(client.messages) == 3)
    pair.deaf.add(("a", "b"))
    pair.until(lambda: isinstance(client.methods[-1], spec.BasicCancel))
    here = pair.a.client()
    here.consume("q")
    pair.until(lambda: here.bodies() == numbered(3))


def test_what_fronts_hold_at_an_orderly_stop_is_there_at_the_start() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(3))
    client.consume("q")
    pair.until(lambda: len(client.messages) == 3)
    node = pair.a.node
    node.shut_down()
    node.prepare_close()
    while pair.a.executor.step() or node.needs_turn:
        node.turn()
    node.close()
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    here = pair.a.client()
    here.consume("q")
    pair.until(lambda: here.bodies() == numbered(3))
    assert all(got.redelivered for got in here.messages)


def test_a_full_disk_of_the_home_node_refuses_what_waits_for_it() -> None:
    pair, client = with_queue()
    pair.a.client().declare("light", durable=False)
    pair.until(lambda: pair.b.knows("light"))
    confirming(client)
    client.publish("q", b"no room")
    client.publish("light", b"needs none")
    client.exchange()
    # Those were on their way when it began; what is published now waits for the alarm's end.
    pair.a.node.disk_full(True)
    pair.until(lambda: client.nacked == {1} and client.acked == {2})
    pair.a.node.disk_full(False)
    client.publish("q", b"room")
    pair.until(lambda: client.acked == {2, 3})


def test_transactions_of_another_node() -> None:
    pair, client = with_queue()
    client.call(spec.TxSelect())
    client.publish("q", b"one")
    client.publish("q", b"two")
    pair.settle()
    assert pair.a.queue("q").ready_count() == 0
    assert isinstance(client.call(spec.TxCommit()), spec.TxCommitOk)
    assert pair.a.queue("q").ready_count() == 2


def test_what_a_queue_holds_is_kept_while_the_queue_is_yet_to_be_heard_of() -> None:
    pair, client = with_queue()
    fill(pair, client, numbered(5))
    group = int(pair.a.queue("q").group_id)
    pair.b.kill()
    pair.a.kill()
    pair.a.start()
    pair.settle()
    assert group not in pair.a.node.queues.logged
    live = NodeLogListener(pair.a.node).live_runs(group)
    assert live.go_on() and live.runs.pairs() == [(0, 4)]
    pair.b.start()
    pair.until(pair.usable)
    again = pair.b.client()
    again.consume("q")
    pair.until(lambda: again.bodies() == numbered(5))


@pytest.mark.parametrize("victim", ["a", "b"])
@pytest.mark.parametrize("at", range(0, 40, 2))
def test_a_node_that_dies_at_any_step_loses_nothing_confirmed(victim: str, at: int) -> None:
    pair, client = with_queue()
    confirming(client)
    reader = pair.b.client()
    reader.qos(3)
    reader.send(spec.BasicConsume(0, "q", "", False, False, False, False, {}))
    done: list[bytes] = []
    for step in range(60):
        if step < 30:
            client.publish("q", b"%d" % step)
        for got in reader.messages:
            done.append(got.body)
            reader.ack(got.tag)
        reader.messages.clear()
        if step == at:
            pair.stations[victim].kill()
        if step == at + 10:
            pair.stations[victim].start()
        pair.step()
    pair.until(lambda: pair.a.node.ready and pair.b.node.ready and pair.usable())
    if victim == "a":
        pair.until(lambda: len(client.acked) + len(client.nacked) == 30)
    done += reader.bodies()
    if not reader.over:
        reader.vanish()
    pair.settle()
    drain = pair.a.client()
    drain.consume("q")
    pair.until(lambda: counts(drain)[0] == 0)
    pair.settle()
    assert {int(body) + 1 for body in done + drain.bodies()} >= client.acked
    fill(pair, pair.b.client(), [b"after"])


def test_a_quorum_queue_without_a_member_here_refuses() -> None:
    pair = Pair()
    owner = pair.a.client()
    arguments: Table = {"x-queue-type": "quorum"}
    owner.call(spec.QueueDeclare(0, "three", False, True, False, False, False, arguments))
    pair.until(lambda: pair.b.knows("three"))
    record = pair.b.record("three")
    queues = pair.b.node.queues.vhosts["/"].queues
    real = queues["three"]
    queues["three"] = pair.b.node.hosting._proxy(record, pair.b.node.remotes.no_line(record.node))
    client = pair.b.client()
    closed(client.consume("three"), 404, "queue 'three' in vhost '/' has no member on this node")
    confirming(client)
    client.publish("three", b"refused")
    pair.until(lambda: client.nacked == {1})
    queues["three"] = real
    assert pair.usable()
