"""What a data directory says of a node's queues without a node, as far as the log can tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.pair import Client, Pair, Station
from tests.queues.test_scattered import tangled
from warren.config.identity import Identity
from warren.offline.directory import open_directory
from warren.offline.states import MessageRun, in_doubt, live_runs, pairs, without
from warren.offline.view import DiskView
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table


def store(station: Station, folder: Path) -> Path:
    """A node's data directory as it lies on disk now."""
    for name, content in station.disk.image().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    identity = Identity(folder / "node", station.name)
    identity.save()
    return folder


def stored(station: Station, folder: Path) -> dict[str, list[MessageRun]]:
    """The messages of each queue of a directory, by the queue's name."""
    with open_directory(store(station, folder)) as directory:
        assert not directory.problems
        assert not any(queue.damage for queue in directory.queues)
        return {queue.name: queue.runs() for queue in directory.queues}


def spread(runs: list[MessageRun]) -> dict[int, tuple[str, str]]:
    return {
        number: (run.state, run.reason) for run in runs for number in range(run.first, run.last + 1)
    }


def three(pair: Pair, name: str, count: int) -> Client:
    """Three nodes with a queue of three members that have all of some messages."""
    pair.add("c")
    client = pair.a.client()
    client.declare(name, kind="quorum", size=3)
    stations = list(pair.stations.values())
    pair.until(lambda: all(station.knows(name) for station in stations))
    client.publish_confirmed(name, count)
    pair.until(lambda: all(s.queue(name).ready_count() == count for s in stations))
    return client


@pytest.mark.parametrize("node", ["a", "b"])
def test_what_a_member_knows_is_committed_is_certain(node: str, tmp_path: Path) -> None:
    """All that the others may have undone is in doubt, and all else is as the machine has it."""
    pair = Pair()
    client = three(pair, "q", 20)
    delivery = client.get("q")
    assert delivery is not None
    client.ack(delivery.tag)
    station = pair.stations[node]
    pair.until(lambda: station.queue("q").ready_count() == 19)
    pair.settle(40)
    found = spread(stored(station, tmp_path)["q"])
    assert set(found) | {0} == set(range(20))
    for number, (state, reason) in found.items():
        assert state == "ready" or (state == "unknown" and "may not be committed" in reason), number


def test_what_no_other_node_has_is_in_doubt(tmp_path: Path) -> None:
    pair = Pair()
    client = three(pair, "q", 10)
    station = pair.a
    log = station.node.log.group(int(station.record("q").group_id))
    # A snapshot covers what is committed so far.
    station.queue("q").snapshot()
    pair.settle(20)
    held = client.get("q")
    assert held is not None
    pair.until(lambda: station.queue("q").ready_count() == 9)
    station.queue("q").snapshot()
    pair.settle(20)
    pair.stations["b"].kill()
    pair.stations["c"].kill()
    before = int(log.persisted_index)
    client.ack(held.tag)
    client.publish("q", b"late")
    pair.until(lambda: int(log.persisted_index) >= before + 2)
    found = spread(stored(station, tmp_path)["q"])
    assert found[0] == ("unknown", "it leaves by an entry that may not be committed")
    assert found[10] == ("unknown", "it came with an entry that may not be committed")
    assert {found[number][0] for number in range(1, 10)} == {"ready"}


def test_a_sole_node_is_in_no_doubt(tmp_path: Path) -> None:
    """Whatever it has on disk is committed, also over several files with snapshots between."""
    pair = Pair(file_bytes=1 << 16)
    client = pair.a.client()
    client.declare("q", kind="quorum", size=1)
    client.declare("c", durable=True)
    for _ in range(6):
        client.publish_confirmed("q", 20)
        client.publish_confirmed("c", 20)
        for name in ("q", "c"):
            delivery = client.get(name)
            assert delivery is not None
            client.ack(delivery.tag)
    pair.settle(40)
    found = stored(pair.a, tmp_path)
    assert {name: set(spread(runs).values()) for name, runs in found.items()} == {
        "q": {("ready", "")},
        "c": {("ready", "")},
    }
    for name, runs in found.items():
        ready = pair.a.queue(name).fifo.ready.quadruples()
        live = {n for first, last, _, _ in ready for n in range(first, last + 1)}
        assert set(spread(runs)) == live and len(live) == 114


def run(first: int, last: int, state: str = "ready") -> MessageRun:
    return MessageRun(first, last, state)


@pytest.mark.parametrize(
    ("runs", "taken", "left"),
    [
        ([], [(1, 2)], []),
        ([(0, 9)], [], [(0, 9)]),
        ([(0, 9)], [(0, 9)], []),
        ([(0, 9)], [(3, 4)], [(0, 2), (5, 9)]),
        ([(0, 9)], [(0, 0), (9, 20)], [(1, 8)]),
        ([(0, 3), (5, 9)], [(2, 6)], [(0, 1), (7, 9)]),
        ([(0, 3), (5, 9)], [(1, 1), (3, 5), (7, 7)], [(0, 0), (2, 2), (6, 6), (8, 9)]),
        ([(5, 9)], [(0, 1), (20, 30)], [(5, 9)]),
    ],
)
def test_numbers_are_taken_out(
    runs: list[tuple[int, int]], taken: list[tuple[int, int]], left: list[tuple[int, int]]
) -> None:
    found = without([run(*pair) for pair in runs], taken)
    assert [(each.first, each.last) for each in found] == left


def test_what_is_on_its_way_back_is_ready() -> None:
    """A state may be between the parts in which what a consumer had returns."""
    fifo = tangled("quorum", 2_000).fifo
    runs = live_runs(fifo)
    coming = [each for each in runs if each.reason == "on its way back"]
    assert sum(each.last - each.first + 1 for each in coming) == fifo.coming.count > 0
    assert {each.state for each in coming} == {"ready"}
    assert pairs(runs) == fifo.live()


def test_ways_by_which_failed_messages_leave(tmp_path: Path) -> None:
    """One that failed too often without dead letters is dropped, however it failed."""
    pair = Pair(alone=True)
    more: Table = {"x-queue-type": "quorum", "x-delivery-limit": 0}
    for name in ("returned", "lost"):
        client = pair.a.client()
        client.call(spec.QueueDeclare(0, name, False, True, False, False, False, more))
        client.publish_confirmed(name, 2)
        got = client.get(name)
        assert got is not None
        if name == "returned":
            client.send(spec.BasicReject(got.tag, True))
        else:
            client.vanish()
        pair.until(lambda name=name: pair.a.queue(name).counts().held == 0)
        assert pair.a.queue(name).ready_count() == 1
    found = {}
    with open_directory(store(pair.a, tmp_path)) as directory:
        for queue in directory.queues:
            found[queue.name] = spread(queue.runs(gone=True))
    way = {0: ("dropped", "delivery_limit"), 1: ("ready", "")}
    assert found == {"returned": way, "lost": way}


def test_doubts() -> None:
    found = in_doubt([run(0, 5)], [run(2, 3), run(6, 8)])
    assert [(each.first, each.last, each.state) for each in found] == [
        (0, 1, "unknown"),
        (2, 3, "ready"),
        (4, 5, "unknown"),
        (6, 8, "unknown"),
    ]


def test_a_view_keeps_what_is_written_to_itself(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "old").write_bytes(b"0123456789")
    view = DiskView(tmp_path)
    file = view.open("log/old")
    file.write([b"ab", b"c"], 4)
    file.write_durable([b"XY"], 9)
    assert file.read(0, 100) == b"0123abc78XY"
    assert file.read(5, 3) == b"bc7"
    file.truncate(6)
    file.allocate(0, 8)
    assert (file.read(0, 100), file.size_bytes()) == (b"0123ab\0\0", 8)
    file.write([b"long"], 12)
    file.truncate(11)
    file.allocate(0, 16)
    assert file.read(8, 8) == bytes(8), "what was cut off does not come again"
    new = view.open("log/new", create=True)
    new.write([b"n"], 0)
    view.rename("log/new", "log/old")
    assert view.open("log/old").read(0, 9) == b"n"
    assert view.list("log") == ["old"] and view.list("nowhere") == []
    view.remove("log/old")
    assert not view.exists("log/old") and view.list("log") == []
    with pytest.raises(FileNotFoundError):
        view.open("log/old")
    assert (tmp_path / "log" / "old").read_bytes() == b"0123456789"
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["old"]


@pytest.mark.parametrize("snapshot", [False, True])
def test_what_a_group_has_of_a_classic_queue(snapshot: bool, tmp_path: Path) -> None:
    """Also of transient messages, which a restart keeps for it."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q")
    client.publish_confirmed("q", 2)
    for _ in range(3):
        client.publish("q", b"x", persistent=False)
    pair.until(lambda: len(client.acked) == 5)
    assert isinstance(client.call(spec.TableAcquire(0, "q", "g", 0)), spec.TableAcquireOk)
    for number, rows in ((0, 1), (1, 2)):
        call = spec.TableCheckout(0, "q", "g", 1, number, rows, 0, (1 << 63) - 1)
        assert isinstance(client.call(call), spec.TableCheckoutOk)
    assert isinstance(client.call(spec.TableSettle(0, "q", "g", 1, 1)), spec.TableSettleOk)
    if snapshot:
        pair.a.queue("q").snapshot()
        pair.settle()
    found = spread(stored(pair.a, tmp_path)["q"])
    held = ("unacked", "group g has it in checkout 2")
    assert found == {1: held, 2: held}
