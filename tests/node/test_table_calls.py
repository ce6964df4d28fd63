"""Class `table`: what nodes answer that are behind, how much a checkout takes, which queue."""

from __future__ import annotations

import random

import pytest

from tests.node.pair import Client, Pair
from warren.client.table import Runs, decode_groups, decode_held, decode_names, decode_runs
from warren.wire.amqp091 import spec
from warren.wire.amqp091.table import Table

NO_BOUND = (1 << 63) - 1


def restored(pair: Pair) -> None:
    """The node starts again, and has the queue from a snapshot."""
    pair.a.queue("q").snapshot()
    pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready and pair.a.knows("q") and pair.a.queue("q").log_ms() > 0)


def follower_behind(pair: Pair) -> Client:
    """A client of node b, which does not hear of the three messages that node a has confirmed."""
    pair.add("c")
    pair.a.client().declare("q", kind="quorum")
    client = pair.b.client()
    pair.until(lambda: pair.b.knows("q"))
    pair.settle()
    assert pair.a.queue("q").proposer().leads()
    pair.withheld_group = int(pair.a.record("q").group_id)
    pair.withheld = {("a", "b"): []}
    pair.a.client().publish_confirmed("q", 3)
    return client


def test_a_follower_that_is_behind_tells_the_status_as_it_is() -> None:
    pair = Pair()
    client = follower_behind(pair)
    seen = len(client.methods)
    client.send(spec.TableStatus(0, "q", ""))
    pair.settle()
    assert len(client.methods) == seen, "it cannot know yet"
    pair.release()
    pair.until(lambda: len(client.methods) > seen)
    status = client.methods[-1]
    assert isinstance(status, spec.TableStatusOk)
    assert (status.ready, status.next) == (3, 3)


def test_a_follower_that_is_behind_knows_each_open_checkout() -> None:
    pair = Pair()
    client = follower_behind(pair)
    leader = pair.a.client()
    acquired = leader.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)
    taken = leader.call(spec.TableCheckout(0, "q", "g", acquired.epoch, 0, 0, 0, NO_BOUND))
    assert isinstance(taken, spec.TableCheckoutOk) and taken.count == 3
    seen = len(client.methods)
    client.send(spec.TableCheckouts(0, "q", "g", 0, 9))
    pair.settle()
    pair.release()
    pair.until(lambda: len(client.methods) > seen)
    open_ = client.methods[-1]
    assert isinstance(open_, spec.TableCheckoutsOk) and open_.count == 1


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_checkout_goes_by_the_sizes_of_what_it_takes(kind: str) -> None:
    """Not by the mean of all that came: small ones before made it many times too large."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)
    client.call(spec.ConfirmSelect(False))
    for _ in range(200):
        client.publish("q", b"")
    pair.until(lambda: len(client.acked) == 200)
    for number in range(20):
        client.publish("q", b"x" * 10_000)
        pair.until(lambda count=201 + number: len(client.acked) == count)
    acquired = client.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)

    def take(after: int, size: int) -> spec.TableCheckoutOk:
        taken = client.call(
            spec.TableCheckout(0, "q", "g", acquired.epoch, after, 0, size, NO_BOUND)
        )
        assert isinstance(taken, spec.TableCheckoutOk)
        return taken

    first = take(0, 30_000)
    assert 200 <= first.count <= 203 and first.bytes <= 30_000
    second = take(1, 50_000)
    assert second.count == 4 and 40_000 < second.bytes <= 50_000
    assert take(2, 1).count == 1, "one is taken whatever its size"


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_queue_made_anew_is_another_one(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    found: list[int] = []
    for _ in range(2):
        client.declare("q", kind=kind)
        for _ in range(2):
            told = client.call(spec.TableIdentify(0, "q"))
            assert isinstance(told, spec.TableIdentifyOk)
            found.append(told.incarnation)
        client.call(spec.QueueDelete(0, "q", False, False, False))
    assert found[0] == found[1] != found[2] == found[3]


def test_a_follower_that_is_behind_knows_each_group() -> None:
    pair = Pair()
    client = follower_behind(pair)
    leader = pair.a.client()
    acquired = leader.call(spec.TableAcquire(0, "q", "later", 1_000))
    assert isinstance(acquired, spec.TableAcquireOk)
    seen = len(client.methods)
    client.send(spec.TableGroups(0, "q"))
    pair.settle()
    assert len(client.methods) == seen, "it cannot know yet"
    pair.release()
    pair.until(lambda: len(client.methods) > seen)
    groups = client.methods[-1]
    assert isinstance(groups, spec.TableGroupsOk) and groups.count == 1


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_checkouts_and_groups_say_how_long_they_have_been_open(kind: str) -> None:
    """Also after the node was killed and had a snapshot of the queue."""
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)
    client.publish_confirmed("q", 3)
    acquired = client.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)
    held = client.call(spec.TableHeld(0, "q", "g"))
    assert isinstance(held, spec.TableHeldOk) and held.count == 0
    for after in (0, 1):
        client.call(spec.TableCheckout(0, "q", "g", acquired.epoch, after, after + 1, 0, NO_BOUND))
        pair.clock.advance(40_000)
    for again in (False, True):
        if again:
            restored(pair)
            client = pair.a.client()
        held = client.call(spec.TableHeld(0, "q", "g"))
        assert isinstance(held, spec.TableHeldOk)
        first, second = decode_held(client.rows[-1], held.count, held.now_ms)
        assert (first.number, first.messages, second.number, second.messages) == (1, 1, 2, 2)
        assert 40_000 <= second.age_ms < 60_000 and 80_000 <= first.age_ms < 100_000
        groups = client.call(spec.TableGroups(0, "q"))
        assert isinstance(groups, spec.TableGroupsOk)
        (group,) = decode_groups(client.rows[-1], groups.count, groups.now_ms)
        assert (group.open, group.held) == (2, 3) and 80_000 <= group.oldest_ms < 100_000


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_the_backlog_tells_rows_bytes_and_what_comes_next(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)

    def backlog() -> spec.TableBacklogOk:
        told = client.call(spec.TableBacklog(0, "q", "g"))
        assert isinstance(told, spec.TableBacklogOk)
        return told

    empty = backlog()
    assert (empty.first, empty.next, empty.ready, empty.bytes) == (0, 0, 0, 0)
    client.publish_confirmed("q", 4)
    acquired = client.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)
    full = backlog()
    client.call(spec.TableCheckout(0, "q", "g", acquired.epoch, 0, 3, 0, NO_BOUND))
    rest = backlog()
    assert (rest.first, rest.next, rest.ready, rest.settled) == (3, 4, 1, 0)
    assert 0 < rest.bytes * 4 <= full.bytes
    client.call(spec.TableSettle(0, "q", "g", acquired.epoch, 1))
    assert backlog().settled == 1
    assert backlog().now_ms >= pair.clock.wall_ms() - 1_000


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_messages_are_told_of_whoever_has_them_up_to_bounds(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)

    def told(
        first: int = 0, last: int = NO_BOUND, rows: int = 0, size: int = 0
    ) -> tuple[spec.TableMessagesOk, Runs]:
        answer = client.call(spec.TableMessages(0, "q", first, last, rows, size))
        assert isinstance(answer, spec.TableMessagesOk)
        return answer, decode_runs(client.rows[-1])

    empty, runs = told()
    assert (empty.first, empty.end, empty.next, empty.count, runs) == (0, 0, 0, 0, [])
    client.publish_confirmed("q", 10)
    acquired = client.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)
    client.call(spec.TableCheckout(0, "q", "g", acquired.epoch, 0, 3, 0, NO_BOUND))
    whole, runs = told()
    assert (whole.first, whole.end, whole.next, whole.count, runs) == (0, 10, 10, 10, [(0, 9)])
    client.call(spec.TableSettle(0, "q", "g", acquired.epoch, 1))
    rest, runs = told()
    assert (rest.first, rest.end, rest.count, runs) == (3, 10, 7, [(3, 9)])
    assert abs(rest.bytes * 10 - whole.bytes * 7) <= 10
    assert rest.now_ms >= pair.clock.wall_ms() - 1_000
    few, runs = told(4, 7)
    assert (few.first, few.end, few.next, few.count, runs) == (3, 8, 10, 4, [(4, 7)])
    few, runs = told(4, NO_BOUND, rows=2)
    assert (few.end, few.count, runs) == (6, 2, [(4, 5)])
    few, runs = told(4, NO_BOUND, size=2 * whole.bytes // 10)
    assert (few.end, few.bytes, runs) == (6, 2 * whole.bytes // 10, [(4, 5)])
    one, runs = told(0, NO_BOUND, size=1)
    assert (one.end, one.count, runs) == (4, 1, [(3, 3)])
    all_, runs = told(0, NO_BOUND, rows=7)
    assert (all_.end, all_.count) == (10, 7)
    beyond, runs = told(50)
    assert (beyond.end, beyond.next, beyond.count, runs) == (50, 10, 0, [])


@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish"])
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_a_queue_leaves_out_no_number(overflow: str, kind: str) -> None:
    """So what is missing between its messages has left: a reader that follows it can tell."""
    pair = Pair(alone=True)
    client = pair.a.client()
    arguments: Table = {"x-queue-type": kind, "x-max-length": 5, "x-overflow": overflow}
    client.call(spec.QueueDeclare(0, "q", False, True, False, False, False, arguments))
    for _ in range(12):
        client.publish("q", b"x")
    pair.settle()
    told = client.call(spec.TableMessages(0, "q", 0, NO_BOUND, 0, 0))
    assert isinstance(told, spec.TableMessagesOk)
    first = 7 if overflow == "drop-head" else 0
    assert told.next == (12 if overflow == "drop-head" else 6 if kind == "quorum" else 5)
    assert decode_runs(client.rows[-1]) == [(first, told.next - 1)]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_messages_told_of_are_those_that_have_not_left(seed: int, kind: str) -> None:
    """Whatever became of each: got and held, back again, checked out, or given back."""
    chance = random.Random(seed)
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)
    pair.a.queue("q").fifo.part_runs = 4
    acquired = client.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)
    kept: set[int] = set()
    held: dict[int, int] = {}
    leases: dict[int, list[int]] = {}
    published = last = 0
    for _ in range(120):
        what = chance.choice(["publish", "get", "get", "ack", "nack", "checkout", "settle", "back"])
        if what == "publish":
            count = chance.randrange(1, 6)
            client.publish_confirmed("q", count)
            kept.update(range(published, published + count))
            published += count
        elif what == "get":
            got = client.get("q")
            if got is not None:
                held[got.tag] = int(got.body) - 1  # bodies count from 1 on
        elif what in ("ack", "nack") and held:
            tag = chance.choice(list(held))
            number = held.pop(tag)
            if what == "ack":
                client.ack(tag)
                kept.discard(number)
            else:
                client.send(spec.BasicNack(tag, False, True))
            pair.settle()
        elif what == "checkout":
            rows = chance.randrange(1, 5)
            taken = client.call(
                spec.TableCheckout(0, "q", "g", acquired.epoch, last, rows, 0, NO_BOUND)
            )
            assert isinstance(taken, spec.TableCheckoutOk)
            if taken.count:
                last = taken.number
                runs = decode_runs(client.rows[-1])
                leases[last] = [each for low, high in runs for each in range(low, high + 1)]
        elif what == "settle" and leases:
            number = chance.choice(list(leases))
            client.call(spec.TableSettle(0, "q", "g", acquired.epoch, number))
            for each in [each for each in leases if each <= number]:
                kept.difference_update(leases.pop(each))
        elif what == "back" and chance.random() < 0.3:
            client.call(spec.TableRelease(0, "q", "g", acquired.epoch))
            leases.clear()
        low = chance.randrange(published + 1)
        high = chance.randrange(low, published + 2)
        told = client.call(spec.TableMessages(0, "q", low, high, 0, 0))
        assert isinstance(told, spec.TableMessagesOk)
        runs = decode_runs(client.rows[-1])
        found = [each for first, behind in runs for each in range(first, behind + 1)]
        assert found == sorted(each for each in kept if low <= each <= high)
        assert (told.first, told.next) == (min(kept, default=published), published)
        assert told.count == len(found)


@pytest.mark.parametrize("kind", ["quorum", "classic"])
def test_messages_of_many_runs_are_told_of_in_parts(kind: str) -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("q", kind=kind)
    pair.a.queue("q").fifo.part_runs = 16
    client.publish_confirmed("q", 400)
    acquired = client.call(spec.TableAcquire(0, "q", "g", 0))
    assert isinstance(acquired, spec.TableAcquireOk)
    for number in range(200):
        client.call(spec.TableCheckout(0, "q", "g", acquired.epoch, number, 1, 0, NO_BOUND))
        client.call(spec.TableAcquire(0, "q", f"other-{number}", 0))
        client.call(spec.TableCheckout(0, "q", f"other-{number}", 1, 0, 1, 0, NO_BOUND))
    client.call(spec.TableSettle(0, "q", "g", acquired.epoch, 200))
    answer = client.call(spec.TableMessages(0, "q", 10, 301, 0, 0))
    assert isinstance(answer, spec.TableMessagesOk)
    kept = decode_runs(client.rows[-1])
    assert kept == [(number, number) for number in range(11, 302, 2)]
    assert (answer.first, answer.end, answer.count) == (1, 302, len(kept))
    answer = client.call(spec.TableMessages(0, "q", 10, NO_BOUND, 100, 0))
    assert isinstance(answer, spec.TableMessagesOk)
    assert decode_runs(client.rows[-1]) == [(number, number) for number in range(11, 211, 2)]
    assert (answer.end, answer.count) == (211, 100)


def test_queues_that_can_be_read_as_tables_are_named_once_for_each_change() -> None:
    pair = Pair(alone=True)
    root = pair.a.client()
    for number in range(600):
        root.declare(f"mine-{number}", kind=("quorum", "classic")[number % 2])
    root.declare("theirs", kind="quorum")
    root.declare("passing", durable=False)
    root.declare("own", exclusive=True)
    names = root.call(spec.TableQueues(0, 0))
    assert isinstance(names, spec.TableQueuesOk)
    found = decode_names(root.rows[-1], names.count)
    assert sorted(found) == sorted([f"mine-{number}" for number in range(600)] + ["theirs"])
    same = root.call(spec.TableQueues(0, names.version))
    assert isinstance(same, spec.TableQueuesOk)
    assert (same.version, same.count) == (names.version, 0)
    root.call(spec.QueueDelete(0, "theirs", False, False, False))
    changed = root.call(spec.TableQueues(0, names.version))
    assert isinstance(changed, spec.TableQueuesOk)
    assert changed.version > names.version and changed.count == 600
