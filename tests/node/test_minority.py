"""What a node without a majority tells its clients: never a lie, and in bounded time."""

from __future__ import annotations

import pytest

from tests.node.pair import Client, Pair, Station
from warren.protocols.broker import Settings
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

WAIT_MS = 3_000
QUORUM: Table = {"x-queue-type": "quorum"}
MAJORITY = "; no majority without b, c"


def declare(name: str, arguments: Table = QUORUM, exclusive: bool = False) -> spec.Method:
    return spec.QueueDeclare(0, name, False, True, exclusive, False, False, arguments)


def pass_time(pair: Pair, milliseconds: int) -> None:
    """Let time pass, with what nodes do once a second."""
    for _ in range(milliseconds // 1_000):
        until = pair.clock.monotonic_ms() + 1_000
        while pair.clock.monotonic_ms() < until:
            pair.step()
        for station in pair.stations.values():
            if station.alive:
                station.node.tick(0)
    pair.step()


def minority() -> Pair:
    """`a`, which knows a quorum queue and a classic one, without `b` and `c`."""

    def configure(settings: Settings) -> None:
        settings.majority_wait_ms = WAIT_MS

    pair = Pair(configure=configure)
    pair.add("c")
    client = pair.a.client()
    assert isinstance(client.call(declare("q")), spec.QueueDeclareOk)
    assert isinstance(client.call(declare("classic", {})), spec.QueueDeclareOk)
    kill_all_but(pair, pair.a)
    return pair


def back(pair: Pair) -> None:
    """The others come back."""
    for name in ("b", "c"):
        pair.stations[name].start()
    pair.until(lambda: bool(pair.a.node.store.member().raft.leader))


def refusal(pair: Pair, client: Client, method: spec.Method) -> spec.ConnectionClose:
    """How a method is refused: not before its time, and not long after."""
    seen = len(client.methods)
    client.send(method)
    pass_time(pair, WAIT_MS)
    assert len(client.methods) == seen
    pass_time(pair, 3_000)
    (answer,) = client.methods[seen:]
    assert isinstance(answer, spec.ConnectionClose)
    assert (answer.class_id, answer.method_id) == (method.CLASS_ID, method.METHOD_ID)
    assert answer.reply_code == 541
    return answer


TOPOLOGY: list[tuple[spec.Method, str]] = [
    (
        declare("new"),
        "Could not declare quorum queue 'new' in vhost '/' on node 'a' because the metadata store "
        "operation timed out",
    ),
    (
        declare("new", {}),
        "Could not declare queue 'new' in vhost '/' on node 'a' because the metadata store "
        "operation timed out",
    ),
    (
        spec.QueueDelete(0, "q", False, False, False),
        "The operation to delete the queue from the metadata store timed out",
    ),
    (
        spec.QueueBind(0, "q", "amq.direct", "k", False, {}),
        "Could not add binding due to timeout",
    ),
    (
        spec.ExchangeDeclare(0, "x", "fanout", False, True, False, False, False, {}),
        "failed to declare exchange 'x' in vhost '/' because the operation timed out",
    ),
]


@pytest.mark.parametrize(("method", "text"), TOPOLOGY)
def test_topology_is_refused(method: spec.Method, text: str) -> None:
    pair = minority()
    assert refusal(pair, pair.a.client(), method).reply_text == f"INTERNAL_ERROR - {text}{MAJORITY}"
    # Whoever asks for nothing new is served.
    other = pair.a.client()
    assert isinstance(other.call(declare("q")), spec.QueueDeclareOk)
    assert isinstance(other.declare("classic"), spec.QueueDeclareOk)
    # It did not come about later, and what was asked for behind it does.
    other.send(declare("later"))
    back(pair)
    tables = pair.a.node.metadata.vhosts["/"]
    pair.until(lambda: "later" in tables.queues)
    assert sorted(tables.queues) == ["classic", "later", "q"]
    assert "x" not in tables.exchanges and not tables.exchanges["amq.direct"].bound


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (
            spec.BasicConsume(0, "q", "c", False, False, False, False, {}),
            "timed out consuming from quorum queue 'q' in vhost '/'",
        ),
        (spec.BasicGet(0, "q", False), "Cannot get a message from queue 'q' in vhost '/': timeout"),
        (
            spec.QueuePurge(0, "q", False),
            "failed to perform operation on queue 'q' in vhost '/' due to timeout",
        ),
        *(
            (method, "failed to perform operation on queue 'q' in vhost '/' due to timeout")
            for method in (
                spec.TableAcquire(0, "q", "g", 1_000),
                spec.TableCheckout(0, "q", "g", 1),
                spec.TableSettle(0, "q", "g", 1, 1),
                spec.TableRelease(0, "q", "g", 1),
                spec.TableRetake(0, "q", "g", 1, 1),
                spec.TableDelete(0, "q", "g"),
            )
        ),
    ],
)
def test_use_of_a_queue_is_refused(method: spec.Method, text: str) -> None:
    pair = minority()
    answer = refusal(pair, pair.a.client(), method)
    assert answer.reply_text == f"INTERNAL_ERROR - {text}{MAJORITY}"
    # What was asked for comes late, and has no effect on anybody.
    back(pair)
    client = pair.a.client()
    client.publish("q", b"m")
    found: list[object] = []
    pair.until(lambda: found.append(client.get("q")) or found[-1] is not None)


def test_a_commit_is_refused() -> None:
    """It never counts as done; it may come about all the same, once and whole."""
    pair = minority()
    client = pair.a.client()
    assert isinstance(client.call(spec.TxSelect()), spec.TxSelectOk)
    client.publish("classic", b"c")
    for number in range(3):
        client.publish("q", b"%d" % number)
    answer = refusal(pair, client, spec.TxCommit())
    text = "queue 'q' in vhost '/' has not confirmed the commit in time, which may yet come about"
    assert answer.reply_text == f"INTERNAL_ERROR - {text}{MAJORITY}"
    back(pair)
    other = pair.a.client()
    found: list[bytes] = []

    def come() -> bool:
        got = other.get("q")
        if got is not None:
            found.append(got.body)
        return len(found) == 3

    pair.until(come)
    assert found == [b"0", b"1", b"2"] and other.get("q") is None


def test_a_slow_commit_is_no_failed_one() -> None:
    """There is a majority, and only the disk takes its time."""

    def configure(settings: Settings) -> None:
        settings.majority_wait_ms = WAIT_MS

    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    assert isinstance(client.call(declare("q")), spec.QueueDeclareOk)
    assert isinstance(client.call(spec.TxSelect()), spec.TxSelectOk)
    client.publish("q", b"m")
    pair.a.hold_disk = True
    seen = len(client.methods)
    client.send(spec.TxCommit())
    pass_time(pair, 3 * WAIT_MS)
    assert len(client.methods) == seen
    pair.a.hold_disk = False
    pair.until(lambda: len(client.methods) > seen)
    assert isinstance(client.methods[seen], spec.TxCommitOk)


def test_publishes_wait_and_are_confirmed_later() -> None:
    """Nothing is confirmed that a majority does not have, and nothing is given up either."""
    pair = minority()
    client = pair.a.client()
    assert isinstance(client.call(spec.ConfirmSelect(False)), spec.ConfirmSelectOk)
    for number in range(3):
        client.publish("q", b"%d" % number)
    client.publish("classic", b"c")
    pass_time(pair, 3 * WAIT_MS)
    assert client.acked == {4} and not client.nacked
    back(pair)
    pair.until(lambda: client.acked == {1, 2, 3, 4})
    got = [client.get("q") for _ in range(3)]
    assert [message.body for message in got if message is not None] == [b"0", b"1", b"2"]


def test_a_late_exclusive_queue_goes_at_once() -> None:
    """Its connection has ended before it came about."""
    pair = Pair()
    owner = pair.a.client()
    pair.a.hold_disk = True
    owner.send(declare("mine", {}, exclusive=True))
    pair.settle(3)
    owner.vanish()
    pair.settle(3)
    assert pair.a.node.metadata.queue("/", "mine") is None
    pair.a.hold_disk = False
    pair.until(lambda: pair.a.node.store.in_force)
    assert pair.a.node.metadata.queue("/", "mine") is None
    assert isinstance(pair.a.client().declare("mine"), spec.QueueDeclareOk)


def test_nobody_waits_for_a_queue_that_cannot_go() -> None:
    """An exclusive queue stays when its connection ends; other channels do not mind."""
    pair = Pair()
    pair.add("c")
    owner, other = pair.a.client(), pair.a.client()
    assert isinstance(owner.declare("mine", exclusive=True), spec.QueueDeclareOk)
    assert isinstance(other.declare("classic"), spec.QueueDeclareOk)
    kill_all_but(pair, pair.a)
    owner.vanish()
    assert isinstance(other.declare("classic"), spec.QueueDeclareOk)
    back(pair)
    pair.until(lambda: pair.a.node.metadata.queue("/", "mine") is None)


def test_those_who_wait_for_a_queue_to_go_are_let_go() -> None:
    """The majority is lost while they wait."""
    pair = Pair()
    pair.add("c")
    owner, other = pair.a.client(), pair.a.client()
    assert isinstance(owner.declare("mine", exclusive=True), spec.QueueDeclareOk)
    for name in ("b", "c"):
        pair.deaf |= {("a", name), (name, "a")}
    owner.vanish()
    seen = len(other.methods)
    other.send(declare("mine", {}))
    pair.settle(3)
    assert len(other.methods) == seen
    pair.until(lambda: len(other.methods) > seen)
    answer = other.methods[seen]
    assert isinstance(answer, spec.ChannelClose) and answer.reply_code == 405


def kill_all_but(pair: Pair, left: Station) -> None:
    for station in pair.stations.values():
        if station is not left:
            station.kill()
    pair.until(lambda: not left.node.store.member().raft.leader)


def test_what_a_leader_may_have_heard_of_is_not_given_up() -> None:
    """It was sent before the majority was lost, and nobody knows what became of it."""

    def configure(settings: Settings) -> None:
        settings.majority_wait_ms = WAIT_MS

    pair = Pair(configure=configure)
    pair.add("c")
    client = pair.a.client()
    for name in ("b", "c"):
        pair.deaf |= {("a", name), (name, "a")}
    refusal(pair, client, declare("q"))
    pair.deaf.clear()
    pair.until(lambda: "q" in pair.a.node.metadata.vhosts["/"].queues)


def test_a_machine_that_slept_refuses_nothing() -> None:
    """What a method waited for may be there in a moment: that time was nobody's."""
    pair = Pair(alone=True)
    client = pair.a.client()
    pair.a.hold_disk = True
    client.send(declare("q"))
    pass_time(pair, 2_000)
    pair.clock.advance(3_600_000)
    pass_time(pair, 2_000)
    assert not client.methods
    pair.a.hold_disk = False
    pair.until(lambda: bool(client.methods))
    assert isinstance(client.methods[-1], spec.QueueDeclareOk)


def test_a_reader_that_has_its_answer_does_not_wait() -> None:
    """Nor is it refused for that later, however long it asks for nothing."""

    def configure(settings: Settings) -> None:
        settings.majority_wait_ms = WAIT_MS

    pair = Pair(alone=True, configure=configure)
    client = pair.a.client()
    client.declare("q", kind="quorum")
    client.publish("q", b"0")
    pair.until(lambda: pair.a.queue("q").ready_count() == 1)
    client.send(spec.TableRead(0, "q", 0, 0, 1_000_000))
    pair.until(lambda: len(client.rows) == 1)
    seen = len(client.methods)
    pass_time(pair, 3 * WAIT_MS)
    assert client.methods[seen:] == []
    assert isinstance(client.call(declare("q")), spec.QueueDeclareOk)
