"""Nodes that are forgotten, and what becomes of quorum queues that needed them."""

from __future__ import annotations

import pytest

from sim.disk import SimDisk
from tests.node.pair import Client, Pair, Station
from tests.node.test_minority import WAIT_MS, pass_time, refusal
from warren.errors import Refusal
from warren.metadata.commands import RemoveNode
from warren.metadata.member_checks import voters
from warren.metadata.node_checks import Needs
from warren.protocols.broker import Settings
from warren.protocols.peer import refusal as codes
from warren.wire.amqp091 import spec

QUEUE = "orders"


def declare(size: int) -> spec.QueueDeclare:
    arguments = {"x-queue-type": "quorum", "x-quorum-initial-group-size": size}
    return spec.QueueDeclare(0, QUEUE, False, True, False, False, False, arguments)


def three(size: int) -> tuple[Pair, list[str]]:
    """Nodes a, b and c with a queue of so many members; who they are, its own node first."""

    def configure(settings: Settings) -> None:
        settings.majority_wait_ms = WAIT_MS

    pair = Pair(configure=configure)
    pair.add("c")
    assert isinstance(pair.a.client().call(declare(size)), spec.QueueDeclareOk)
    queue = pair.a.node.metadata.queue("/", QUEUE)
    assert queue is not None
    return pair, sorted(voters(queue), key=lambda name: name != "a")


def forget(pair: Pair, name: str) -> None:
    """By force, from node b or c: the one that is left."""
    left = next(station for key, station in pair.stations.items() if key != name and station.alive)
    left.node.store.submit(RemoveNode(name, True), None)
    for station in pair.stations.values():
        if station.alive:
            pair.until(lambda station=station: name not in station.node.metadata.nodes)


def needs(station: Station, name: str) -> Needs:
    """What keeps a node from being removed, as another one knows."""
    node = station.node
    found = Needs(name, node.queue_members.running())
    for queue in node.metadata.vhosts["/"].queues_in_order():
        found.look(queue)
    return found


def works(pair: Pair, client: Client, size: int = 2) -> None:
    """The queue can be declared, and used."""
    assert isinstance(client.call(declare(size)), spec.QueueDeclareOk)
    client.call(spec.ConfirmSelect(False))
    client.publish(QUEUE, b"new")
    pair.until(lambda: client.acked == {1})
    got = client.get(QUEUE)
    assert got is not None and got.body == b"new"


@pytest.mark.rule("MEM-06", "MEM-07")
def test_a_queue_whose_only_member_is_forgotten_is_gone() -> None:
    """It was told that force would delete it; nothing of it is left that could hang."""
    pair, names = three(1)
    assert names == ["a"]
    client = pair.b.client()
    assert isinstance(client.consume(QUEUE), spec.BasicConsumeOk)
    pair.a.kill()
    machine = pair.b.node.metadata
    pair.until(lambda: "a" not in pair.b.node.queue_members.running())
    with pytest.raises(Refusal, match="by force, which deletes them with their messages"):
        needs(pair.b, "a").check_last()
    forget(pair, "a")
    pair.until(lambda: any(isinstance(one, spec.BasicCancel) for one in client.methods))
    assert machine.queue("/", QUEUE) is None
    works(pair, client)


@pytest.mark.rule("MEM-06", "MEM-07")
def test_of_two_members_the_other_one_goes_on_when_one_is_forgotten_by_force() -> None:
    """Half of two members is no majority; but it has all that was confirmed."""
    pair, (_, gone) = three(2)
    client = pair.a.client()
    client.publish_confirmed(QUEUE, 1)
    pair.stations[gone].kill()
    running = pair.a.node.queue_members.running
    pair.until(lambda: gone not in running())
    with pytest.raises(Refusal, match="1 quorum queue.s. have no majority .*errors for answers"):
        needs(pair.a, gone).check_majorities()
    assert needs(pair.a, gone).said_by_force() == ""
    pair.until(lambda: not pair.a.queue(QUEUE).proposer().has_leader())
    forget(pair, gone)
    pair.until(lambda: pair.a.queue(QUEUE).proposer().leads())
    assert any("goes on with the copy on this node" in text for text in pair.a.warnings)
    got = client.get(QUEUE)
    assert got is not None and got.body == b"1"
    client.publish_confirmed(QUEUE, 1)


@pytest.mark.rule("MEM-06", "MEM-07", "BEH-14")
def test_a_queue_that_loses_its_majority_by_force_says_so_and_can_be_deleted() -> None:
    pair, _ = three(2)
    for name in "de":
        pair.add(name)
    client = pair.a.client()
    client.declare("third", kind="quorum", size=3)
    record = pair.a.record("third")
    gone = [row.node for row in record.members if row.node != "a"]
    for name in gone:
        pair.stations[name].kill()
    running = pair.a.node.queue_members.running
    pair.until(lambda: not set(gone) & set(running()))
    assert "among them 'third' in vhost '/'" in needs(pair.a, gone[0]).said_by_force()
    for name in gone:
        forget(pair, name)
    answer = refusal(pair, pair.a.client(), spec.BasicGet(0, "third", False))
    assert "timeout; no majority" in answer.reply_text
    publisher = pair.a.client()
    publisher.call(spec.ConfirmSelect(False))
    publisher.publish("third", b"1")
    pass_time(pair, WAIT_MS)
    assert not publisher.acked and not publisher.nacked
    client = pair.a.client()
    deleted = client.call(spec.QueueDelete(0, "third", False, False, False))
    assert isinstance(deleted, spec.QueueDeleteOk)
    client.declare("third", kind="quorum", size=3)
    client.publish_confirmed("third", 1)


@pytest.mark.rule("D-07")
@pytest.mark.rule("MEM-07")
def test_a_queue_with_a_majority_goes_on() -> None:
    pair, names = three(3)
    pair.a.kill()
    running = pair.b.node.queue_members.running
    pair.until(lambda: "a" not in running())
    needs(pair.b, "a").check_majorities()
    forget(pair, "a")
    assert len(names) == 3
    works(pair, pair.b.client(), 3)


def test_a_node_that_lost_its_disk_does_not_pass_for_the_one_it_was() -> None:
    """It links with those that begin before they know who bears its name."""
    pair, _ = three(3)
    left = [pair.a, pair.stations["c"]]
    for station in pair.stations.values():
        station.kill()
    lost = pair.b
    lost.disk, lost.uid, lost.cluster_id = SimDisk(9), b"another".ljust(16, b"."), b""
    lost.boot, lost.lives = 0, []
    lost.start()
    for station in left:
        station.start()
    pair.until(lambda: ("b", "a") in pair.links)
    pair.until(lambda: all(station.node.cluster.session for station in left))
    pair.minds_seconds = True
    pair.until(lambda: all("b" not in station.node.queue_members.running() for station in left))
    forget(pair, "b")
    pair.until(lambda: "b" not in pair.a.node.metadata.nodes)


@pytest.mark.parametrize("others_first", [False, True])
def test_a_node_that_missed_a_joining_hears_of_it_from_the_one_that_joined(
    others_first: bool,
) -> None:
    """That may lead the tables by now, so that nobody else can tell."""
    pair, _ = three(3)
    for name in ("a", "c", "d"):
        pair.blocked |= {("b", name), (name, "b")}
        pair.cut("b", name)
        pair.cut(name, "b")
    for name in ("a", "c"):
        pair.b.listener.gone(name)
    pair.add("d")
    member = pair.stations["d"].node.store.member()
    leaders = [pair.a, pair.stations["c"]]
    pair.until(lambda: "d" in [copy.node for copy in member.raft.members if copy.voter])
    leader = next(each for each in leaders if each.node.store.member().raft.is_leader)
    leader.node.queue_members.hand_over(leader.node.store.member(), "d", False)
    pair.until(lambda: bool(member.raft.is_leader))
    pair.minds_seconds = True
    if others_first:
        pair.blocked = {("b", "d"), ("d", "b")}
        pair.settle(100)
    pair.blocked.clear()
    pair.until(lambda: "d" in pair.b.node.metadata.nodes)


def test_a_forgotten_node_is_told_once_its_link_is_seen_for_what_it_is() -> None:
    """One without a majority takes the link, as the node may have joined since."""
    pair, _ = three(3)
    gone = pair.stations["c"]
    gone.kill()
    pair.until(lambda: "c" not in pair.b.node.queue_members.running())
    forget(pair, "c")
    pair.a.kill()
    pair.b.listener.gone("a")
    pair.minds_seconds = True
    pair.until(lambda: not pair.b.node.store.has_majority_without("c"))
    gone.start()
    pair.until(lambda: ("c", "b") in pair.links)
    pair.blocked |= {("a", "c"), ("c", "a")}
    pair.a.start()
    pair.until(lambda: codes.FORGOTTEN in gone.refusals and ("c", "b") not in pair.links)
