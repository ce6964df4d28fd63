"""Quorum queues used from a node that does not hold them."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from tests.node.pair import Client, Pair, Station, sealed
from warren.metadata.member_checks import delete_member
from warren.node.cluster.observers import REST_MS
from warren.replication import kinds
from warren.replication import observing_frames as said
from warren.replication.frames import SEAL_BYTES, group_of
from warren.replication.observer import Observer
from warren.wire.amqp091 import spec


def held_by_a() -> tuple[Pair, Client]:
    """A queue with one member, on `a`; and a client of node `b`."""
    pair = Pair()
    assert isinstance(pair.a.client().declare("q", kind="quorum", size=1), spec.QueueDeclareOk)
    pair.until(lambda: pair.b.knows("q"))
    return pair, pair.b.client()


def held_by_three() -> tuple[Pair, Client, str]:
    """A queue with three members of four nodes; a client of the fourth one, and its name."""
    pair = Pair()
    pair.add("c")
    pair.add("d")
    assert isinstance(pair.a.client().declare("q", kind="quorum"), spec.QueueDeclareOk)
    pair.until(lambda: all(station.knows("q") for station in pair.stations.values()))
    (name,) = set("abcd") - {row.node for row in pair.a.record("q").members}
    return pair, pair.stations[name].client(), name


def observer_of(station: Station, name: str = "q") -> Observer:
    found = station.node.observers.observer(station.record(name).group_id)
    assert found is not None
    return found


def holds(station: Station, name: str = "q") -> bool:
    group_id = int(station.record(name).group_id)
    return station.node.log.has_group(group_id) or group_id in station.node.cluster.members


def leader(pair: Pair) -> str:
    group_id = int(pair.a.record("q").group_id)
    for station in pair.stations.values():
        member = station.node.cluster.members.get(group_id) if station.alive else None
        if member is not None and member.raft.is_leader:
            return station.name
    return ""


def leads_now(pair: Pair, name: str) -> bool:
    group_id = int(pair.a.record("q").group_id)
    return bool(pair.stations[name].node.cluster.members[group_id].raft.is_leader)


def numbers(client: Client) -> list[int]:
    return [int(body) for body in client.bodies()]


def test_a_node_has_nothing_of_a_queue_that_others_hold() -> None:
    pair, _ = held_by_a()
    pair.settle()
    assert "q" not in pair.b.node.queues.vhosts["/"].queues
    assert [row.node for row in pair.b.record("q").members] == ["a"]
    assert not holds(pair.b)


def test_it_is_used_all_the_same() -> None:
    pair, client = held_by_a()
    client.publish_confirmed("q", 5)
    passive = client.declare("q", passive=True, kind="quorum")
    assert isinstance(passive, spec.QueueDeclareOk) and passive.message_count == 5
    got = client.get("q")
    assert got is not None and got.body == b"1"
    client.ack(got.tag)
    client.consume("q")
    pair.until(lambda: numbers(client) == [2, 3, 4, 5])
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: pair.a.queue("q").counts().held == 0)
    client.publish_confirmed("q", 1)
    pair.until(lambda: numbers(client) == [2, 3, 4, 5, 6])
    assert not holds(pair.b)


def test_what_is_known_of_it_first_is_asked_for() -> None:
    """A passive declare, a purge and a delete find what was there before this node used it."""
    pair, client = held_by_a()
    pair.a.client().publish_confirmed("q", 3)
    passive = client.declare("q", passive=True, kind="quorum")
    assert isinstance(passive, spec.QueueDeclareOk) and passive.message_count == 3
    purged = pair.b.client().call(spec.QueuePurge(0, "q", False))
    assert isinstance(purged, spec.QueuePurgeOk) and purged.message_count == 3
    pair.a.client().publish_confirmed("q", 2)
    pair.until(lambda: pair.b.queue("q").ready_count() == 2)
    deleted = client.call(spec.QueueDelete(0, "q", False, False, False))
    assert isinstance(deleted, spec.QueueDeleteOk) and deleted.message_count == 2


def test_snapshots_of_who_feeds_it_are_nothing_it_notices() -> None:
    """A sole member's log is covered by a snapshot behind each entry."""
    pair, client = held_by_a()
    client.publish_confirmed("q", 6)
    leading = pair.a.node.cluster.members[int(pair.a.record("q").group_id)]
    covered = 0
    for number in range(1, 7):
        client.send(spec.BasicGet(0, "q", False))
        client.methods.clear()
        while not client.messages and not client.methods:
            if leading.applied_index > covered:
                covered = int(leading.applied_index)
                leading.snapshot()
            pair.step()
        assert client.bodies() == [b"%d" % number]
        client.ack(client.messages.pop().tag)


def test_a_state_with_nothing_behind_it_is_all_there_is() -> None:
    """Who was told of entries and then got a state knows that it has them."""
    pair, client = held_by_a()
    client.publish_confirmed("q", 2)
    pair.settle()
    queue = pair.b.queue("q")
    assert queue.fed()
    leading = pair.a.node.cluster.members[int(queue.group_id)]
    pair.a.node.cluster.feed_reads_max = 0
    pair.blocked.add(("a", "b"))
    pair.cut("a", "b")
    # So that whoever is back is not fed from memory.
    leading.log.keep_recent(0)
    pair.a.client().publish_confirmed("q", 3)
    pair.settle()
    pair.blocked.clear()
    pair.until(lambda: int(queue.ready_count()) == 5)
    pair.settle()
    assert queue.fed()


def test_large_messages_and_a_backlog_come_in_order() -> None:
    pair, client = held_by_a()
    giver = pair.a.client()
    giver.call(spec.ConfirmSelect(False))
    bodies = [b"%d" % number + bytes(number * 997) for number in range(150)]
    for body in bodies:
        giver.publish("q", body)
    pair.until(lambda: len(giver.acked) == 150)
    client.consume("q")
    pair.until(lambda: len(client.messages) == 150)
    assert client.bodies() == bodies


def test_a_declare_through_a_node_that_gets_no_member() -> None:
    pair, client, name = held_by_three()
    assert isinstance(client.declare("q", kind="quorum"), spec.QueueDeclareOk)
    client.publish_confirmed("q", 1)
    assert not holds(pair.stations[name])


@pytest.mark.parametrize("who", ("leader", "serving"))
def test_who_feeds_it_may_die(who: str) -> None:
    """Publishers and consumers keep their channels, and nothing is lost, doubled or reordered."""
    pair, client, name = held_by_three()
    far = pair.stations[name].client()
    far.consume("q")
    client.publish_confirmed("q", 20)
    pair.until(lambda: len(far.messages) == 20)
    for _ in range(3):
        victim = leader(pair) if who == "leader" else observer_of(pair.stations[name]).serving
        pair.stations[victim].kill()
        for number in range(client.published + 1, client.published + 21):
            client.publish("q", b"%d" % number)
        count = client.published
        pair.until(lambda count=count: len(client.acked) == count)
        pair.until(lambda count=count: len(far.messages) == count)
        assert numbers(far) == list(range(1, count + 1))
        assert not any(got.redelivered for got in far.messages)
        pair.stations[victim].start()
        pair.until(lambda victim=victim: pair.stations[victim].node.ready)


def test_a_member_that_is_cut_off_is_left() -> None:
    """It says nothing any more, and knows of no end: what is committed comes from another one."""
    pair, client, name = held_by_three()
    client.consume("q")
    client.publish_confirmed("q", 3)
    serving = observer_of(pair.stations[name]).serving
    for other in pair.stations:
        if other not in (serving, name):
            pair.blocked |= {(serving, other), (other, serving)}
            pair.cut(serving, other)
            pair.cut(other, serving)
    client.publish_confirmed("q", 3)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4, 5, 6])
    assert observer_of(pair.stations[name]).serving != serving


def test_the_end_of_a_queue_is_seen() -> None:
    pair, client = held_by_a()
    client.consume("q")
    pair.a.client().call(spec.QueueDelete(0, "q", False, False, False))
    pair.until(lambda: any(isinstance(m, spec.BasicCancel) for m in client.methods))
    answer = client.declare("q", passive=True, kind="quorum")
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 404
    assert pair.b.node.observers.observer(pair.a.node.placing.new_group()) is None


def test_who_uses_it_no_more_hears_no_more_of_it() -> None:
    pair, client = held_by_a()
    client.publish_confirmed("q", 3)
    observer = observer_of(pair.b)
    group_id = int(pair.b.record("q").group_id)
    watchers = pair.a.node.cluster.members[group_id].observing.watchers
    assert list(watchers) == ["b"] and not observer.resting()
    pair.clock.advance(REST_MS)
    pair.until(observer.resting)
    pair.until(lambda: not watchers)
    assert pair.b.queue("q").ready_count() == 0
    client.publish_confirmed("q", 3)
    passive = client.declare("q", passive=True, kind="quorum")
    assert isinstance(passive, spec.QueueDeclareOk) and passive.message_count == 6
    client.consume("q")
    pair.until(lambda: numbers(client) == [1, 2, 3, 4, 5, 6])


def test_a_member_becomes_one_that_uses_it_and_back() -> None:
    """Its clients keep their channels, and what they hold."""
    pair, client, name = held_by_three()
    far = pair.stations[name]
    client.qos(2)
    client.consume("q")
    client.publish_confirmed("q", 6)
    pair.until(lambda: numbers(client) == [1, 2])
    pair.add_member("q", name)
    pair.until(lambda: len(far.record("q").members) == 4)
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4])
    client.publish_confirmed("q", 2)
    pair.delete_member("q", name)
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4, 5, 6])
    client.publish_confirmed("q", 2)
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4, 5, 6, 7, 8])
    assert not any(got.redelivered for got in client.messages)
    assert isinstance(observer_of(far), Observer)


@pytest.mark.parametrize("goes", (False, True))
def test_clients_go_on_while_a_new_copy_is_brought_up(goes: bool) -> None:
    """Nothing that a leader sends reaches the copy for a while; it may go again before."""
    pair, client, name = held_by_three()
    far = pair.stations[name]
    group_id = int(far.record("q").group_id)
    client.qos(2)
    client.consume("q")
    client.publish_confirmed("q", 6)
    pair.until(lambda: numbers(client) == [1, 2])

    def lost(message: bytes) -> bytes:
        is_raft = message[0] == kinds.RAFT and group_of(message) == group_id
        return sealed(bytes([kinds.PONG])) if is_raft else message

    pair.damage = {(source, name): lost for source in pair.stations}
    pair.add_member("q", name)
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4])
    client.publish_confirmed("q", 2)
    assert far.node.observers.is_observed(group_id)
    assert far.node.cluster.members[group_id].applied_index == 0
    if goes:
        pair.delete_member("q", name)
    pair.damage = {}
    pair.until(lambda: not far.node.observers.is_observed(group_id))
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4, 5, 6])
    client.publish_confirmed("q", 1)
    client.ack(client.messages[-1].tag, multiple=True)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4, 5, 6, 7, 8])
    assert not any(got.redelivered for got in client.messages)
    if goes:
        assert observer_of(far) is far.queue("q").group
    else:
        assert far.queue("q").group is far.node.cluster.members[group_id]
        pair.settle()
        holders = [row.node for row in far.record("q").members]
        assert len({pair.stations[node].queue("q").fifo.encode() for node in holders}) == 1


def test_a_leader_that_is_to_hold_it_no_more_hands_it_over() -> None:
    pair, client, _ = held_by_three()
    first = leader(pair)
    own = pair.stations[first].client()
    own.consume("q")
    client.publish_confirmed("q", 3)
    pair.until(lambda: numbers(own) == [1, 2, 3])
    pair.delete_member("q", first)
    client.publish_confirmed("q", 3)
    pair.until(lambda: numbers(own) == [1, 2, 3, 4, 5, 6])
    assert not any(got.redelivered for got in own.messages)


def test_a_copy_that_is_to_go_votes_on_until_it_is_counted_out() -> None:
    """Also after a start whose tables name the queue only when others have sent theirs."""
    pair = Pair()
    pair.add("c")
    c = pair.stations["c"]
    assert isinstance(c.client().declare("q", kind="quorum", size=2), spec.QueueDeclareOk)
    c.client().publish_confirmed("q", 1)
    record = pair.a.record("q")
    (left,) = {row.node for row in record.members} - {"c"}
    c.kill()
    command = delete_member(record, "c", ["a", "b"], True)
    assert command is not None
    pair.a.node.store.submit(command, None)
    pair.until(lambda: [row.node for row in pair.a.record("q").members] == [left])
    for station in (pair.a, pair.b):
        assert station.node.store.snapshot() > 0
    pair.settle()
    c.start()
    group_id = int(record.group_id)
    pair.until(lambda: c.node.ready and group_id not in c.node.cluster.members)
    pair.until(lambda: pair.stations[left].queue("q").group.is_alone())
    client = c.client()
    client.publish_confirmed("q", 1)
    passive = client.declare("q", passive=True, kind="quorum")
    assert isinstance(passive, spec.QueueDeclareOk) and passive.message_count == 2


@pytest.mark.parametrize("cut", (False, True))
def test_only_who_leads_still_lets_a_copy_go(cut: bool) -> None:
    """A leader that is cut off from its group does not know what the next one counts."""
    pair, _, name = held_by_three()
    first = leader(pair)
    others = [other for other in "abcd" if other not in (first, name)]
    group_id = int(pair.a.record("q").group_id)
    if cut:
        for other in others:
            for link in ((first, other), (other, first)):
                pair.blocked.add(link)
                pair.deaf.add(link)
    told: list[bytes] = []

    def listen(message: bytes) -> bytes:
        if message[0] == kinds.LEFT:
            told.append(message)
        return message

    pair.damage[first, name] = listen
    asked = bytes([kinds.LEAVE]) + msgspec.msgpack.encode([group_id, 1, 0])
    pair.stations[first].listener.received(name, sealed(asked))
    member = pair.stations[first].node.cluster.members[group_id]
    assert member.raft.is_leader
    pair.settle(4)
    assert member.raft.is_leader
    assert bool(told) is not cut
    if cut:
        pair.until(lambda: any(leads_now(pair, other) for other in others))
        pair.settle(20)
        assert not told


@pytest.mark.rule("R-20")
def test_a_copy_that_went_elects_nobody_after_a_start() -> None:
    """Tables name it again until the node has caught up; it is empty, and was part of a majority.

    The copy that it would elect was taken out before, and lacks what came since.
    """
    pair = Pair()
    pair.add("c")
    a, b, c = (pair.stations[name] for name in "abc")
    assert isinstance(a.client().declare("q", kind="quorum", size=3), spec.QueueDeclareOk)
    group_id = int(a.record("q").group_id)
    pair.until(lambda: a.node.cluster.members[group_id].raft.is_leader and c.knows("q"))
    for station in (b, c):
        assert station.node.store.snapshot() > 0
    pair.settle()
    c.kill()
    a.client().publish_confirmed("q", 3)
    for name, left in (("c", ["a", "b"]), ("b", ["a"])):
        command = delete_member(a.record("q"), name, left, True)
        assert command is not None
        a.node.store.submit(command, None)
        pair.until(lambda left=left: [row.node for row in a.record("q").members] == left)
    pair.until(lambda: group_id not in b.node.cluster.members)
    a.client().publish_confirmed("q", 3)
    pair.settle()
    a.kill()
    b.kill()
    pair.withheld = {("b", "c"): [], ("c", "b"): []}
    c.start()
    b.start()

    def leads() -> bool:
        member = c.node.cluster.members.get(group_id)
        return member is not None and member.raft.is_leader

    for _ in range(300):
        pair.step()
        assert not leads()
    assert group_id in b.node.cluster.members and group_id in c.node.cluster.members
    pair.release()
    a.start()
    pair.until(lambda: all(station.node.ready for station in (a, b, c)))
    client = b.client()
    client.consume("q")
    pair.until(lambda: numbers(client) == [1, 2, 3, 1, 2, 3])


def test_it_is_read_as_a_table() -> None:
    pair, client = held_by_a()
    pair.a.client().publish_confirmed("q", 4)
    status = client.call(spec.TableStatus(0, "q", ""))
    assert isinstance(status, spec.TableStatusOk) and status.ready == 4
    client.send(spec.TableRead(0, "q", 0, 3, 1_000_000))
    pair.until(lambda: len(client.rows) == 2)
    assert client.rows[1].count(b"WRB1") >= 1


@pytest.mark.parametrize("kind", (kinds.FEED, kinds.STATE, kinds.BODIES))
def test_damage_on_the_way_ends_the_link_and_nothing_else(kind: int) -> None:
    pair, client = held_by_a()
    damaged: list[bytes] = []

    def damage(message: bytes) -> bytes:
        if message[0] == kind and not damaged:
            damaged.append(message)
            return message[:-7] + bytes([message[-7] ^ 1]) + message[-6:]
        return message

    pair.damage["a", "b"] = damage
    client.consume("q")
    client.publish_confirmed("q", 5)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4, 5])
    assert damaged and [refusal[:2] for refusal in pair.refused] == [("a", "b")]


def test_a_count_that_is_not_what_was_committed_is_noticed() -> None:
    """A member that leaves out an entry, or says that one brought more, is not believed."""
    pair, client = held_by_a()
    client.publish_confirmed("q", 2)
    client.consume("q")
    pair.until(lambda: numbers(client) == [1, 2])
    changed: list[bytes] = []

    def more(message: bytes) -> bytes:
        if message[0] == kinds.FEED and b"WRB1" in message and not changed:
            changed.append(message)
            at = message.index(b"WRB1") + 40
            first = int.from_bytes(message[at : at + 8], "little") + 1
            return sealed(message[:at] + first.to_bytes(8, "little") + message[at + 8 : -4])
        return message

    pair.damage["a", "b"] = more
    client.publish_confirmed("q", 2)
    pair.until(lambda: numbers(client) == [1, 2, 3, 4])
    assert changed and "comes where" in pair.refused[0][2]


@pytest.mark.parametrize("seed", range(6))
def test_a_state_that_means_nothing_harms_its_link_only(seed: int) -> None:
    """It has the right checksum, and some bits of it are others."""
    pair, client = held_by_a()
    giver = pair.a.client()
    giver.publish_confirmed("q", 9)
    giver.call(spec.BasicQos(0, 3, False))
    giver.consume("q")
    pair.until(lambda: len(giver.messages) == 3)
    random = Random(seed)
    harmed = 0

    def harm(message: bytes) -> bytes:
        nonlocal harmed
        if message[0] != kinds.STATE or harmed == 3:
            return message
        harmed += 1
        at = random.randrange(said.STATE_BYTES, len(message) - SEAL_BYTES)
        changed = message[:at] + bytes([message[at] ^ 1 << random.randrange(8)])
        return sealed(changed + message[at + 1 : -SEAL_BYTES])

    pair.damage["a", "b"] = harm
    client.call(spec.ConfirmSelect(False))
    client.publish("q", b"one more")
    pair.until(lambda: len(client.acked) == 1)
    assert harmed and pair.b.node.failure is None
    pair.until(lambda: pair.a.queue("q").counts().ready == 7)
