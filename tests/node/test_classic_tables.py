"""Durable classic queues as tables: checkouts outlive the node, whatever else happened before.

Goal: what a group was told to have it has after a crash at any moment, with the same numbers and
the same rows; what it settled never comes again; what it gave back is not lost. Method: histories
of random calls against a plain model, with crashes, orderly restarts and snapshots in between, and
scenarios for what these meet seldom.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.node.pair import Client, Got, Pair
from warren.client.table import decode_checkouts, decode_groups, decode_names, decode_runs
from warren.metadata import commands
from warren.metadata.passwords import SHA256, hash_password
from warren.wire.amqp091 import spec
from warren.wire.amqp091.frame import content_frames
from warren.wire.amqp091.table import Table

QUEUE = "q"
NO_BOUND = (1 << 63) - 1
GROUPS = ("g", "h")


def numbers(runs: list[tuple[int, int]]) -> list[int]:
    return [number for first, last in runs for number in range(first, last + 1)]


def restart(pair: Pair, orderly: bool = False) -> Client:
    if orderly:
        pair.a.node.prepare_close()
        pair.settle(20)
    pair.a.kill()
    pair.a.start()
    pair.until(lambda: pair.a.node.ready)
    pair.until(lambda: pair.a.knows(QUEUE))
    return pair.a.client()


def declared(pair: Pair, **given: Any) -> Client:
    client = pair.a.client()
    arguments: Table = {"x-queue-type": "classic", **given}
    answer = client.call(spec.QueueDeclare(0, QUEUE, False, True, False, False, False, arguments))
    assert isinstance(answer, spec.QueueDeclareOk), answer
    client.call(spec.ConfirmSelect(False))
    return client


def publish(client: Client, count: int, persistent: bool = True) -> None:
    for _ in range(count):
        client.publish(QUEUE, b"%d" % client.published, persistent)
    client.pair.until(lambda: len(client.acked) == client.published)


def send(client: Client, body: bytes, persistent: bool, priority: int) -> None:
    """Publish a message with a priority."""
    client.published += 1
    properties = bytes([0x18, 0, 2 if persistent else 1, priority])
    method = spec.BasicPublish(0, "", QUEUE, False, False)
    client.outbox += content_frames(1, method, properties, body, 131_072)


def acquire(client: Client, group: str = "g", lease_ms: int = 0) -> int:
    answer = client.call(spec.TableAcquire(0, QUEUE, group, lease_ms))
    assert isinstance(answer, spec.TableAcquireOk), answer
    return int(answer.epoch)


def take(
    client: Client, epoch: int, rows: int, group: str = "g", after: int = 0
) -> tuple[int, list[int]]:
    call = spec.TableCheckout(0, QUEUE, group, epoch, after, rows, 0, NO_BOUND)
    answer = client.call(call)
    assert isinstance(answer, spec.TableCheckoutOk), answer
    found = numbers(decode_runs(bytes(client.rows[-1])))
    assert answer.count == len(found)
    return int(answer.number), found


def settle(client: Client, epoch: int, up_to: int, group: str = "g") -> None:
    answer = client.call(spec.TableSettle(0, QUEUE, group, epoch, up_to))
    assert isinstance(answer, spec.TableSettleOk), answer


def release(client: Client, epoch: int, group: str = "g") -> None:
    answer = client.call(spec.TableRelease(0, QUEUE, group, epoch))
    assert isinstance(answer, spec.TableReleaseOk), answer


def open_of(client: Client, group: str = "g") -> dict[int, list[int]]:
    answer = client.call(spec.TableCheckouts(0, QUEUE, group, 0, NO_BOUND))
    assert isinstance(answer, spec.TableCheckoutsOk)
    found = decode_checkouts(bytes(client.rows[-1]), int(answer.count))
    return {each.number: numbers(list(each.runs)) for each in found}


def ready_of(client: Client) -> list[int]:
    answer = client.call(spec.TableStatus(0, QUEUE, ""))
    assert isinstance(answer, spec.TableStatusOk), answer
    return numbers(decode_runs(bytes(client.rows[-1])))


def bodies_in_order(client: Client) -> list[int]:
    found = []
    while (got := client.get(QUEUE)) is not None:
        found.append(int(got.body))
        client.ack(got.tag)
    return found


class History:
    """Random calls, and what there has to be behind them.

    Attributes:
        ranks: The highest priority; messages go by them.
        live: Numbers of messages that are here, and whether each is persistent.
        held: By group and checkout, what is in it.
        doubts: Messages that left by an entry that a crash may lose.
        last: The number of each group's last checkout.
        used: No deleted group had an epoch or a checkout of a higher number.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pair = Pair(seed, alone=True, file_bytes=self.random.choice([1 << 14, 1 << 20]))
        self.ranks = seed % 3
        self.client = declared(self.pair, **({"x-max-priority": 4} if self.ranks else {}))
        self.live: dict[int, bool] = {}
        self.rank: dict[int, int] = {}
        self.held: dict[str, dict[int, list[int]]] = {group: {} for group in GROUPS}
        self.epochs: dict[str, int] = {}
        self.last: dict[str, int] = dict.fromkeys(GROUPS, 0)
        self.doubts: set[int] = set()
        self.got: list[tuple[Got, int]] = []
        self.next = 0
        self.used = 0

    def act(self) -> None:
        choice = self.random.randrange(100)
        if choice < 28:
            self.publish()
        elif choice < 42:
            self.take()
        elif choice < 50:
            self.settle()
        elif choice < 54:
            self.release()
        elif choice < 66:
            self.get()
        elif choice < 78:
            self.answer()
        elif choice < 82:
            self.acquire()
        elif choice < 84:
            self.delete()
        elif choice < 86:
            self.purge()
        elif choice < 92:
            self.snapshot()
        else:
            self.restart(orderly=choice >= 97)
        self.check()

    def publish(self) -> None:
        persistent = self.random.random() < 0.6
        count = self.random.randrange(1, 8)
        for _ in range(count):
            self.rank[self.next] = self.random.randrange(self.ranks + 1)
            send(self.client, b"%d" % self.next + b" " * 300, persistent, self.rank[self.next])
            self.live[self.next] = persistent
            self.next += 1
        self.pair.until(lambda: len(self.client.acked) == self.client.published)

    def all_held(self) -> set[int]:
        return {
            number
            for checkouts in self.held.values()
            for messages in checkouts.values()
            for number in messages
        }

    def ready(self) -> list[int]:
        away = self.all_held() | {number for _, number in self.got}
        there = sorted(self.live, key=lambda number: (-self.rank[number], number))
        return [number for number in there if number not in away]

    def take(self) -> None:
        group = self.random.choice(GROUPS)
        if group not in self.epochs:
            return
        rows = self.random.randrange(1, 10)
        expected = self.ready()[:rows]
        number, found = take(self.client, self.epochs[group], rows, group, self.last[group])
        assert found == expected, group
        if found:
            assert number == self.last[group] + 1
            self.last[group] = number
            self.held[group][number] = found
            for each in found:
                self.live[each] = True

    def settle(self) -> None:
        group = self.random.choice(GROUPS)
        if group not in self.epochs or not self.held[group]:
            return
        up_to = self.random.choice(list(self.held[group]))
        settle(self.client, self.epochs[group], up_to, group)
        for number in [each for each in self.held[group] if each <= up_to]:
            for each in self.held[group].pop(number):
                del self.live[each]

    def release(self) -> None:
        group = self.random.choice(GROUPS)
        if group in self.epochs:
            release(self.client, self.epochs[group], group)
            self.held[group] = {}

    def acquire(self) -> None:
        group = self.random.choice(GROUPS)
        if group not in self.epochs:
            # It goes on behind all that deleted ones had.
            self.epochs[group] = self.last[group] = self.used
        self.epochs[group] += 1
        assert acquire(self.client, group) == self.epochs[group]

    def delete(self) -> None:
        group = self.random.choice(GROUPS)
        if group in self.epochs:
            answer = self.client.call(spec.TableDelete(0, QUEUE, group))
            assert isinstance(answer, spec.TableDeleteOk), answer
            self.held[group] = {}
            self.used = max(self.used, self.last[group], self.epochs.pop(group))

    def get(self) -> None:
        expected = self.ready()
        got = self.client.get(QUEUE)
        if got is None:
            assert not expected
            return
        number = int(got.body)
        assert number == expected[0], "the queue's order"
        self.got.append((got, number))

    def answer(self) -> None:
        if not self.got:
            return
        got, number = self.got.pop(self.random.randrange(len(self.got)))
        if self.random.random() < 0.5:
            self.client.ack(got.tag)
            del self.live[number]
            self.doubts.add(number)
        else:
            self.client.send(spec.BasicReject(got.tag, True))
        self.pair.settle(3)

    def purge(self) -> None:
        gone = self.ready()
        answer = self.client.call(spec.QueuePurge(0, QUEUE, False))
        assert isinstance(answer, spec.QueuePurgeOk) and answer.message_count == len(gone)
        for number in gone:
            self.doubts.add(number)
            del self.live[number]

    def snapshot(self) -> None:
        queue = self.pair.a.queue(QUEUE)
        if self.random.random() < 0.5:
            queue.snapshot()
        else:
            queue.snapshot_part()

    def restart(self, orderly: bool) -> None:
        self.client = restart(self.pair, orderly)
        self.client.call(spec.ConfirmSelect(False))
        self.got = []
        found = ready_of(self.client)
        held = self.all_held()
        must = {number for number, persistent in self.live.items() if persistent}
        assert must <= set(found) | held, "nothing is lost"
        allowed = must if orderly else must | self.doubts
        assert set(found) <= allowed - held, "nothing comes again"
        self.live = dict.fromkeys(set(found) | held, True)
        self.doubts = set()
        status = self.client.methods[-1]
        assert isinstance(status, spec.TableStatusOk)
        # A crash loses the newest transient messages, and their numbers come again.
        assert status.next <= self.next
        self.next = int(status.next)

    def check(self) -> None:
        for group in GROUPS:
            if group in self.epochs:
                assert open_of(self.client, group) == self.held[group]
        assert ready_of(self.client) == sorted(self.ready())
        counts = self.pair.a.queue(QUEUE).counts()
        assert int(counts.held) == len(self.all_held()) + len(self.got)


@pytest.mark.parametrize("seed", range(30))
def test_histories(seed: int) -> None:
    history = History(seed)
    for _ in range(120):
        history.act()


class FleetingHistory:
    """The same where messages expire and leases run out: it is not known what is there, but who
    has what, and that nobody has anything twice.

    Attributes:
        held: By checkout of the one group, what is in it.
        lapsed: The same of what its lease ran out with, until it takes something new.
        settled: What the group is done with.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.pair = Pair(seed, alone=True, file_bytes=1 << 14)
        self.pair.minds_seconds = True
        self.client = declared(self.pair, **{"x-message-ttl": 60_000})
        self.held: dict[int, list[int]] = {}
        self.lapsed: dict[int, list[int]] = {}
        self.settled: set[int] = set()
        self.last = 0
        self.epoch = acquire(self.client, lease_ms=30_000)
        self.got: list[int] = []

    def act(self) -> None:
        choice = self.random.randrange(100)
        if choice < 35:
            publish(self.client, self.random.randrange(1, 6), self.random.random() < 0.6)
        elif choice < 55:
            number, found = take(
                self.client, self.epoch, self.random.randrange(1, 8), "g", self.last
            )
            assert not self.settled & set(found)
            if found:
                self.held[number] = found
                self.last = number
                self.lapsed = {}
        elif choice < 62 and self.held:
            up_to = self.random.choice(list(self.held))
            settle(self.client, self.epoch, up_to)
            for number in [each for each in self.held if each <= up_to]:
                self.settled |= set(self.held.pop(number))
            self.lapsed = {at: each for at, each in self.lapsed.items() if at > up_to}
        elif choice < 70:
            self.consume()
        elif choice < 78:
            self.wait()
        elif choice < 86 and self.lapsed:
            self.retake()
        elif choice < 92:
            self.pair.a.queue(QUEUE).snapshot()
        elif choice < 100:
            self.client = restart(self.pair, self.random.random() < 0.4)
            self.client.call(spec.ConfirmSelect(False))
            self.got = []
        self.check()

    def consume(self) -> None:
        if self.got and self.random.random() < 0.7:
            tag = self.got.pop()
            if self.random.random() < 0.5:
                self.client.ack(tag)
            else:
                self.client.send(spec.BasicReject(tag, True))
            self.pair.settle(3)
        elif (got := self.client.get(QUEUE)) is not None:
            self.got.append(got.tag)

    def wait(self) -> None:
        """Let time pass, perhaps more than the lease."""
        until = self.pair.clock.monotonic_ms() + self.random.choice([2_000, 45_000])
        while self.pair.clock.monotonic_ms() < until:
            self.pair.step()
        answer = self.client.call(spec.TableGroups(0, QUEUE))
        assert isinstance(answer, spec.TableGroupsOk)
        (group,) = decode_groups(self.client.rows[-1], answer.count, answer.now_ms)
        if group.epoch != self.epoch:
            assert group.open == 0
            self.lapsed |= self.held
            self.held = {}
            self.epoch = acquire(self.client, lease_ms=30_000)

    def retake(self) -> None:
        number = self.random.choice(list(self.lapsed))
        answer = self.client.call(spec.TableRetake(0, QUEUE, "g", self.epoch, number))
        assert isinstance(answer, spec.TableRetakeOk), answer
        found = numbers(decode_runs(bytes(self.client.rows[-1])))
        if answer.count:
            assert found == self.lapsed.pop(number)
            self.held[number] = found
        else:
            assert answer.gone == len(found) > 0 and set(found) <= set(self.lapsed[number])

    def check(self) -> None:
        assert open_of(self.client) == self.held
        away = {number for each in self.held.values() for number in each}
        assert not set(ready_of(self.client)) & (away | self.settled)


@pytest.mark.parametrize("seed", range(20))
def test_histories_with_leases_and_messages_that_expire(seed: int) -> None:
    history = FleetingHistory(seed)
    for _ in range(100):
        history.act()


@pytest.mark.parametrize("snapshots", [False, True])
@pytest.mark.parametrize("orderly", [False, True])
def test_a_checkout_that_lapsed_is_had_again_behind_a_restart(
    orderly: bool, snapshots: bool
) -> None:
    """Also where a snapshot in between says of all that is ready that it was never handed out."""
    pair = Pair(alone=True)
    pair.minds_seconds = True
    client = declared(pair)
    publish(client, 6)
    epoch = acquire(client, lease_ms=30_000)
    assert take(client, epoch, 2) == (1, [0, 1])
    assert take(client, epoch, 2, after=1) == (2, [2, 3])
    lapse(pair)
    assert ready_of(client) == [0, 1, 2, 3, 4, 5]
    got = client.get(QUEUE)
    assert got is not None and int(got.body) == 0 and got.redelivered
    client.send(spec.BasicReject(got.tag, True))
    pair.settle()
    if snapshots:
        pair.a.queue(QUEUE).snapshot()
        pair.settle()
    client = restart(pair, orderly)
    epoch = acquire(client)
    assert retake(client, epoch, 2) == (2, 0, [2, 3])
    if orderly or snapshots:
        # A crash forgets that somebody had it, where no snapshot has noted so.
        assert retake(client, epoch, 1) == (0, 1, [0])
    client = restart(pair, orderly)
    assert open_of(client) == {2: [2, 3]}
    settle(client, acquire(client), 2)
    client = restart(pair, orderly)
    assert open_of(client) == {} and ready_of(client) == [0, 1, 4, 5]


def retake(client: Client, epoch: int, number: int) -> tuple[int, int, list[int]]:
    answer = client.call(spec.TableRetake(0, QUEUE, "g", epoch, number))
    assert isinstance(answer, spec.TableRetakeOk), answer
    return int(answer.count), int(answer.gone), numbers(decode_runs(bytes(client.rows[-1])))


def lapse(pair: Pair) -> None:
    """Nobody hears of the group for longer than its lease."""
    until = pair.clock.monotonic_ms() + 40_000
    while pair.clock.monotonic_ms() < until:
        pair.step()
    assert int(pair.a.queue(QUEUE).counts().held) == 0


def test_what_was_published_in_the_same_turn_is_seen() -> None:
    pair = Pair(alone=True)
    client = declared(pair)
    for method in (spec.TableStatus(0, QUEUE, ""), spec.TableBacklog(0, QUEUE, "")):
        client.publish(QUEUE, b"x", persistent=False)
        answer = client.call(method)
        assert isinstance(answer, (spec.TableStatusOk, spec.TableBacklogOk))
        assert answer.next == answer.ready == client.published


def test_where_a_queue_is_that_may_not_be_read_is_not_told() -> None:
    pair = Pair()
    declared(pair)
    pair.until(lambda: pair.b.knows(QUEUE))
    for command in (
        commands.SetUser("u", hash_password(b"u", b"salt"), SHA256, [], False),
        commands.SetPermissions("u", "/", ".*", ".*", "^other$"),
    ):
        pair.a.node.store.submit(command, None)
    pair.until(lambda: "u" in pair.b.node.metadata.vhosts["/"].permissions)
    for user, code in (("u", 403), ("guest", 406)):
        answer = pair.b.client(user=user).call(spec.TableStatus(0, QUEUE, "g"))
        assert isinstance(answer, spec.ChannelClose) and answer.reply_code == code
        assert ("on node" in answer.reply_text) == (user == "guest")


def test_an_answer_waits_for_the_disk() -> None:
    pair = Pair(alone=True)
    client = declared(pair)
    publish(client, 4)
    epoch = acquire(client)
    pair.a.hold_disk = True
    seen = len(client.methods)
    client.send(spec.TableCheckout(0, QUEUE, "g", epoch, 0, 3, 0, NO_BOUND))
    pair.settle(20)
    assert len(client.methods) == seen, "it is not on disk"
    pair.a.hold_disk = False
    pair.until(lambda: len(client.methods) > seen)
    assert isinstance(client.methods[-1], spec.TableCheckoutOk)


def test_a_query_that_follows_sees_only_what_keeps_its_number() -> None:
    """After a crash the numbers of messages that were not on disk are given to others."""
    pair = Pair(alone=True)
    client = declared(pair)
    publish(client, 2)

    def told() -> tuple[spec.TableMessagesOk, list[int]]:
        answer = client.call(spec.TableMessages(0, QUEUE, 0, NO_BOUND, 0, 0))
        assert isinstance(answer, spec.TableMessagesOk)
        return answer, numbers(decode_runs(client.rows[-1]))

    pair.a.hold_disk = True
    client.publish(QUEUE, b"unsafe")
    pair.settle()
    answer, seen = told()
    assert (answer.next, answer.end, seen) == (2, 2, [0, 1])
    assert ready_of(client) == [0, 1, 2], "who browses sees it"
    pair.a.hold_disk = False
    pair.settle()
    answer, seen = told()
    assert (answer.next, answer.end, seen) == (3, 3, [0, 1, 2])
    client = restart(pair)
    answer, seen = told()
    assert (answer.next, seen) == (3, [0, 1, 2])


def test_transient_messages_that_a_group_has_survive_and_no_others_do() -> None:
    """Also while a snapshot is being written that began before the checkout."""
    for part in (False, True):
        pair = Pair(alone=True, configure=lambda settings: setattr(settings, "part_runs", 4))
        client = declared(pair)
        publish(client, 40, persistent=False)
        # What is ready is scattered, so that a snapshot takes several parts.
        got = [client.get(QUEUE) for _ in range(30)]
        for each in got[::2]:
            assert each is not None
            client.ack(each.tag)
        for each in got[1::2]:
            assert each is not None
            client.send(spec.BasicReject(each.tag, True))
        pair.settle(30)
        queue = pair.a.queue(QUEUE)
        if part:
            assert queue.snapshot_part() < 0
        epoch = acquire(client)
        number, had = take(client, epoch, 4)
        assert had == [1, 3, 5, 7]
        if part:
            while queue.snapshot_part() < 0:
                pair.settle(2)
            assert 1 not in [first for first, _ in queue.fifo.transient.pairs()]
        for _ in range(2):
            client = restart(pair)
            assert open_of(client) == {number: had} and ready_of(client) == []
        release(client, acquire(client))
        client = restart(pair, orderly=True)
        assert ready_of(client) == had, "what was once persistent stays so"


def test_purge_expiry_and_limits_leave_checkouts_alone() -> None:
    pair = Pair(alone=True)
    client = declared(pair, **{"x-message-ttl": 5_000, "x-max-length": 3})
    publish(client, 3)
    epoch = acquire(client)
    assert take(client, epoch, 2)[1] == [0, 1]
    publish(client, 4)
    assert ready_of(client) == [4, 5, 6], "three wait, and no more"
    assert isinstance(client.call(spec.QueuePurge(0, QUEUE, False)), spec.QueuePurgeOk)
    assert open_of(client) == {1: [0, 1]}
    publish(client, 2)
    until = pair.clock.monotonic_ms() + 20_000
    while pair.clock.monotonic_ms() < until:
        pair.step()
    assert ready_of(client) == [] and open_of(client) == {1: [0, 1]}
    client = restart(pair)
    assert ready_of(client) == [] and open_of(client) == {1: [0, 1]}
    release(client, acquire(client))
    pair.settle(20)
    assert ready_of(client) == [], "their time was over long ago"


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("priorities", [False, True])
def test_what_a_group_gives_back_has_its_place_among_what_a_crash_gave_back(
    orderly: bool, priorities: bool
) -> None:
    pair = Pair(alone=True)
    client = declared(pair, **({"x-max-priority": 4} if priorities else {}))
    publish(client, 8)
    consumer = pair.a.client()
    assert [int(got.body) for got in [consumer.get(QUEUE), consumer.get(QUEUE)] if got] == [0, 1]
    epoch = acquire(client)
    assert take(client, epoch, 3)[1] == [2, 3, 4]
    client = restart(pair, orderly)
    release(client, acquire(client))
    pair.settle()
    assert bodies_in_order(client) == list(range(8))


def test_groups_and_consumers_compete() -> None:
    pair = Pair(alone=True)
    client = declared(pair)
    consumer = pair.a.client()
    consumer.qos(3)
    consumer.consume(QUEUE)
    pair.settle(20)
    publish(client, 10)
    pair.until(lambda: len(consumer.messages) == 3)
    epoch = acquire(client)
    assert take(client, epoch, 5)[1] == [3, 4, 5, 6, 7]
    counts = pair.a.queue(QUEUE).counts()
    assert (int(counts.ready), int(counts.held)) == (2, 8)
    consumer.ack(3, multiple=True)
    pair.until(lambda: len(consumer.messages) == 5)
    release(client, epoch)
    consumer.ack(5, multiple=True)
    pair.until(lambda: len(consumer.messages) == 8)
    assert all(got.redelivered for got in consumer.messages[5:])


def test_queues_that_do_not_outlive_their_node_are_refused() -> None:
    pair = Pair(alone=True)
    client = pair.a.client()
    client.declare("passing", durable=False)
    client.declare("own", exclusive=True)
    for name in ("passing", "own"):
        for call in (
            spec.TableStatus(0, name, ""),
            spec.TableAcquire(0, name, "g", 0),
            spec.TableRead(0, name, 0, 1, 9),
        ):
            refused = client.call(call)
            assert isinstance(refused, spec.ChannelClose) and refused.reply_code == 406
            assert "is not durable and cannot be read as a table" in refused.reply_text
            assert "mode=staged" in refused.reply_text


def test_only_the_node_where_it_is_reads_it() -> None:
    pair = Pair()
    declared(pair)
    pair.until(lambda: pair.b.knows(QUEUE))
    other = pair.b.client()
    names = other.call(spec.TableQueues(0, 0))
    assert isinstance(names, spec.TableQueuesOk)
    assert decode_names(bytes(other.rows[-1]), int(names.count)) == [QUEUE]
    refused = other.call(spec.TableAcquire(0, QUEUE, "g", 0))
    assert isinstance(refused, spec.ChannelClose) and refused.reply_code == 406
    assert "is on node 'a': ask that node" in refused.reply_text
    pair.a.kill()
    pair.settle(40)
    refused = pair.b.client().call(spec.TableStatus(0, QUEUE, ""))
    assert isinstance(refused, spec.ChannelClose) and refused.reply_code == 406


def test_a_cluster_with_nodes_of_0_1_0_has_no_groups_of_theirs() -> None:
    pair = Pair(alone=True, configure=lambda settings: setattr(settings, "cluster_version_max", 3))
    client = declared(pair)
    publish(client, 2)
    assert ready_of(client) == [0, 1]
    refused = client.call(spec.TableAcquire(0, QUEUE, "g", 0))
    assert isinstance(refused, spec.ChannelClose)
    assert "this needs cluster version 4" in refused.reply_text


def test_a_deleted_queue_answers_those_who_wait_for_its_disk() -> None:
    pair = Pair(alone=True)
    client = declared(pair)
    publish(client, 4)
    epoch = acquire(client)
    pair.a.hold_disk = True
    seen = len(client.methods)
    client.send(spec.TableCheckout(0, QUEUE, "g", epoch, 0, 3, 0, NO_BOUND))
    pair.settle(5)
    pair.a.queue(QUEUE).close()
    pair.until(lambda: len(client.methods) > seen)
    refused = client.methods[-1]
    assert isinstance(refused, spec.ChannelClose) and refused.reply_code == 404


def test_a_queue_of_which_a_group_has_messages_does_not_expire() -> None:
    pair = Pair(alone=True)
    client = declared(pair, **{"x-expires": 10_000})
    publish(client, 1)
    epoch = acquire(client)
    take(client, epoch, 1)
    for _ in range(3):
        lapse_ms = pair.clock.monotonic_ms() + 20_000
        while pair.clock.monotonic_ms() < lapse_ms:
            pair.step()
        assert pair.a.knows(QUEUE)
    settle(client, epoch, 1)
    pair.until(lambda: not pair.a.knows(QUEUE))
