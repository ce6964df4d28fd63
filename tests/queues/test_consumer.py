"""What a consumer holds, and the unsettled tags of a channel, against plain dictionaries."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warren.protocols.amqp091.unsettled import TagRun, Unsettled, runs_of
from warren.queues.fifo.consumers import Consumer, Limiter
from warren.queues.fifo.pieces import CHUNK_PIECES, SHARES_MAX, UNCOUNTED_CHUNKS
from warren.queues.fifo.runs import as_run
from warren.queues.queue import Host
from warren.queues.transient import TransientQueue


class ConsumerMachine(RuleBasedStateMachine):
    """A consumer that takes messages and gives up ranges of ids."""

    def __init__(self) -> None:
        super().__init__()
        self.consumer = Consumer(1, 1_000_000, 0)
        self.consumer.limiter = Limiter()
        self.model: dict[int, tuple[int, int]] = {}
        self.next_mid = 0
        self.next_number = 0

    @rule(gap=st.integers(0, 1), count=st.integers(1, 8), acquired=st.integers(0, 1))
    def hold(self, gap: int, count: int, acquired: int) -> None:
        first = self.next_number + gap
        self.next_number = first + count
        assert self.consumer.hold(first, count, acquired, 0) == self.next_mid
        for at in range(count):
            self.model[self.next_mid + at] = (first + at, acquired)
        self.next_mid += count

    @rule(data=st.data(), count=st.integers(0, 12))
    def release(self, data: st.DataObject, count: int) -> None:
        first = data.draw(st.integers(0, self.next_mid + 2))
        gone = {
            run.key + at: (run.first + at, run.acquired)
            for runs in self.consumer.release(first, first + count)
            for run in map(as_run, runs)
            for at in range(run.count)
        }
        expected = {mid: what for mid, what in self.model.items() if first <= mid <= first + count}
        assert gone == expected
        assert list(gone) == sorted(gone), "in the order of ids"
        for mid in gone:
            del self.model[mid]

    @invariant()
    def same(self) -> None:
        held = {
            run.key + at: (run.first + at, run.acquired)
            for run in self.consumer.holding()
            for at in range(run.count)
        }
        assert held == self.model
        assert list(held) == sorted(held)
        assert self.consumer.held == len(self.model)
        assert self.consumer.limiter is not None
        assert self.consumer.limiter.used == len(self.model)


class NoHost(Host):
    """A host that is never asked for anything."""


QUEUES = [TransientQueue(NoHost(), "/", name) for name in ("one", "two")]

Owed = tuple[int, int, int]
"""Queue, consumer, message id."""


class UnsettledMachine(RuleBasedStateMachine):
    """A channel's deliveries: from several consumers, settled one by one and in ranges."""

    def __init__(self) -> None:
        super().__init__()
        self.unsettled = Unsettled()
        self.model: dict[int, Owed] = {}
        self.mids = {(queue, consumer): 0 for queue in (0, 1) for consumer in (1, 2)}
        self.taken: list[TagRun] = []

    @rule(queue=st.integers(0, 1), consumer=st.integers(1, 2), count=st.integers(1, 6))
    def deliver(self, queue: int, consumer: int, count: int) -> None:
        mid = self.mids[queue, consumer]
        self.mids[queue, consumer] = mid + count
        tag = int(self.unsettled.next_tag)
        self.unsettled.next_tag += count
        self.unsettled.add(count, QUEUES[queue], consumer, mid)
        for at in range(count):
            self.model[tag + at] = (queue, consumer, mid + at)

    @rule(count=st.integers(1, 3))
    def deliver_settled(self, count: int) -> None:
        """Deliveries that need no ack use up tags."""
        self.unsettled.next_tag += count

    def expand(self, runs: list[TagRun]) -> dict[int, Owed]:
        return {
            run.key + at: (QUEUES.index(run.queue), int(run.consumer_id), run.mid + at)
            for run in runs
            for at in range(run.count)
        }

    @rule(data=st.data(), count=st.integers(0, 12))
    def take(self, data: st.DataObject, count: int) -> None:
        first = data.draw(st.integers(0, int(self.unsettled.next_tag) + 1))
        runs = runs_of(self.unsettled.take(first, first + count))
        gone = self.expand(runs)
        expected = {tag: owed for tag, owed in self.model.items() if first <= tag <= first + count}
        assert gone == expected
        assert list(gone) == sorted(gone), "in the order of tags"
        for tag in gone:
            del self.model[tag]
        self.taken = runs

    @rule(data=st.data())
    def take_up_to(self, data: st.DataObject) -> None:
        """All up to a tag: a run of ids for each consumer, with no id of a later tag in it."""
        last = data.draw(st.integers(0, int(self.unsettled.next_tag) + 1))
        spans = self.unsettled.spans(last)
        gone = {tag: owed for tag, owed in self.model.items() if tag <= last}
        assert self.expand(runs_of(self.unsettled.take(0, last))) == gone
        told = [
            (QUEUES.index(span.queue), int(span.consumer_id), span.mid + at)
            for span in spans
            for at in range(span.count)
        ]
        assert len({(id(span.queue), int(span.consumer_id)) for span in spans}) == len(spans)
        assert set(gone.values()) <= set(told)
        self.model = {tag: owed for tag, owed in self.model.items() if tag > last}
        self.taken = []
        if self.model:
            assert not set(told) & set(self.model.values())

    @precondition(lambda self: self.taken)
    @rule()
    def put_back(self) -> None:
        """A transaction that settled them is rolled back."""
        self.model.update(self.expand(self.taken))
        for run in self.taken:
            self.unsettled.put_back(run)
        self.taken = []

    @invariant()
    def same(self) -> None:
        unsettled = self.unsettled
        assert unsettled.count() == len(self.model)
        assert unsettled.first() == min(self.model, default=0)
        for tag in range(int(unsettled.next_tag) + 1):
            assert unsettled.holds(tag) == (tag in self.model)


class Channel:
    """What a channel has not settled, tag by tag, of consumers some of which may poll.

    The ids of a consumer that polls begin anew when it holds nothing any more.
    """

    def __init__(self, random: Random, consumers: int) -> None:
        self.random = random
        self.unsettled = Unsettled()
        self.consumers = consumers
        self.model: dict[int, Owed] = {}
        self.next_mids: dict[tuple[int, int], int] = {}

    def deliver(self, count: int) -> None:
        """Mostly the consumers take turns."""
        held = {owed[:2] for owed in self.model.values()}
        for turn in range(count):
            if self.random.random() < 0.1:
                turn = self.random.randrange(self.consumers)
            owner = (turn % 2, turn % self.consumers)
            mid = self.next_mids.get(owner, 0) if owner in held else 0
            held.add(owner)
            many = self.random.choice([1, 1, 1, 2])
            self.next_mids[owner] = mid + many
            tag = int(self.unsettled.next_tag)
            self.unsettled.next_tag += many
            self.unsettled.add(many, QUEUES[owner[0]], owner[1], mid)
            for at in range(many):
                self.model[tag + at] = (*owner, mid + at)

    def take(self, first: int, last: int) -> list[TagRun]:
        """Some are settled, each for itself."""
        taken = runs_of(self.unsettled.take(first, last))
        for run in taken:
            for at in range(run.count):
                owed = self.model.pop(int(run.key) + at)
                assert owed == (QUEUES.index(run.queue), run.consumer_id, run.mid + at)
        return taken

    def ends(self) -> list[int]:
        """The last tag of each chunk."""
        tails = [chunk.pieces[-1] for chunk in self.unsettled._pieces.chunks()]
        return [int(tail.key + tail.count - 1) for tail in tails]

    def roll_back(self, first: int, last: int) -> None:
        """A transaction that had acked these is rolled back."""
        before = dict(self.model)
        for run in self.take(first, last):
            self.unsettled.put_back(run)
        self.model = before

    def roll_back_later(self, first: int, last: int, count: int) -> None:
        """The same, and in between more is delivered."""
        before = {tag: owed for tag, owed in self.model.items() if first <= tag <= last}
        taken = self.take(first, last)
        # None of these consumers begins anew: they are not done with anything.
        held = self.model
        self.model = {**before, **held}
        self.deliver(count)
        for run in taken:
            self.unsettled.put_back(run)

    def check(self, last: int) -> None:
        """Each consumer with something up to a tag has one run, with all of that and no more."""
        up_to: dict[tuple[int, int], list[int]] = {}
        behind: dict[tuple[int, int], list[int]] = {}
        for tag, owed in self.model.items():
            (up_to if tag <= last else behind).setdefault(owed[:2], []).append(owed[2])
        spans = self.unsettled.spans(last)
        found = {(QUEUES.index(span.queue), int(span.consumer_id)): span for span in spans}
        assert len(found) == len(spans) and set(found) >= set(up_to)
        # Of many consumers some may be told of that have nothing any more.
        assert self.consumers > SHARES_MAX or set(found) == set(up_to)
        for owner, span in found.items():
            told = span.mid + span.count
            assert 0 <= span.mid <= min(up_to.get(owner, [told]))
            assert max(up_to.get(owner, [-1])) < told <= self.next_mids[owner]
            assert told <= min(behind.get(owner, [told]))
        owners = {
            (QUEUES.index(run.queue), int(run.consumer_id)) for run in self.unsettled.owners()
        }
        theirs = {owed[:2] for owed in self.model.values()}
        assert owners >= theirs if self.consumers > SHARES_MAX else owners == theirs
        assert self.unsettled.count() == len(self.model)


@pytest.mark.parametrize("consumers", [2, 9, SHARES_MAX + 1])
@pytest.mark.parametrize("seed", range(2))
def test_many_runs_of_consumers_that_take_turns(consumers: int, seed: int) -> None:
    """So many that the channel keeps count of them: the same as tag by tag."""
    random = Random(seed)
    channel = Channel(random, consumers)
    channel.unsettled.marks.runs_min = CHUNK_PIECES
    channel.unsettled.marks.clear()
    channel.deliver((UNCOUNTED_CHUNKS + 16) * CHUNK_PIECES)
    for _ in range(8):
        there = int(channel.unsettled.next_tag)
        choice = random.randrange(6)
        first = random.randrange(there)
        if choice == 0:
            channel.deliver(random.choice([1, 300, 3_000]))
        elif choice == 1:
            step = random.choice([2, 3, 9])
            for tag in range(first, min(first + 2_000, there)):
                if tag % step:
                    channel.take(tag, tag)
        elif choice == 2:
            channel.take(first, first + random.choice([0, 50, 4_000]))
        elif choice == 3:
            channel.roll_back(first, first + random.choice([40, 900]))
        elif choice == 4:
            # What is left of a chunk is the end, and more comes.
            for tag in range(first, first + 300, 2):
                channel.take(tag, tag)
            channel.take(first + 200, there)
            channel.deliver(CHUNK_PIECES)
        else:
            # All that some consumer has, or all of that up to a tag; it may begin anew.
            owner = channel.model[min(channel.model)][:2]
            behind = random.choice([there, first])
            for tag, owed in list(channel.model.items()):
                if owed[:2] == owner and tag < behind:
                    channel.take(tag, tag)
            channel.deliver(50)
        ends = channel.ends()
        at = bisect_left(ends, first)
        for last in (first - 1, *ends[max(0, at - 1) : at + 4], there):
            channel.check(last)
    last = random.choice(list(channel.model))
    left = {tag: owed for tag, owed in channel.model.items() if tag > last}
    channel.take(0, last)
    assert channel.model == left
    channel.deliver(300)
    channel.check(int(channel.unsettled.next_tag))


def test_consumers_come_back_that_a_mark_does_not_know() -> None:
    """The newest they had was taken out when a tag was marked; some of it goes on behind that."""
    channel = Channel(Random(2), SHARES_MAX + 6)
    channel.unsettled.marks.runs_min = CHUNK_PIECES
    channel.unsettled.marks.clear()
    for count in (UNCOUNTED_CHUNKS + 8, 2, 3):
        channel.deliver(count * CHUNK_PIECES)
        there = int(channel.unsettled.next_tag)
        channel.consumers = 5
        channel.roll_back_later(there - 400, there, 1_000)
        channel.consumers = SHARES_MAX + 6
        for last in range(there - 600, there + 1_500, 100):
            channel.check(last)


def test_some_of_many_runs_are_put_back() -> None:
    """At the beginning, in place of a whole chunk, and where one chunk ends and the next begins."""
    channel = Channel(Random(1), 9)
    channel.deliver((UNCOUNTED_CHUNKS + 16) * CHUNK_PIECES)
    channel.take(0, channel.ends()[UNCOUNTED_CHUNKS + 2])
    beginning = min(channel.model)
    channel.take(beginning + 50, beginning + 150)
    for first, last in (
        (beginning, beginning + 40),
        (beginning, channel.ends()[0] + 20),
        (channel.ends()[5] - 20, channel.ends()[5] + 20),
        (channel.ends()[3] - 20, channel.ends()[6] + 20),
    ):
        channel.roll_back(first, last)
        for end in (first - 1, *channel.ends()[:9]):
            channel.check(end)


@pytest.mark.parametrize("consumers", [1, 2])
def test_what_is_put_back_is_not_looked_through(consumers: int) -> None:
    """How far each consumer had come is known by the chunk again, also where some are longer."""
    unsettled = Unsettled()
    mids = [0, 0]
    count = 4 * (UNCOUNTED_CHUNKS + 8) * CHUNK_PIECES
    for tag in range(1, count + 1):
        consumer = tag // 2 % consumers
        unsettled.next_tag += 1
        unsettled.add(1, QUEUES[0], consumer, mids[consumer])
        mids[consumer] += 1
    for tag in range(1, count, 2):
        unsettled.take(tag, tag)
    for tag in range(2, count, 6):
        for run in runs_of(unsettled.take(tag, tag)):
            unsettled.put_back(run)
    assert len(unsettled.spans(count)) == consumers
    counted = [chunk.shares is not None for chunk in unsettled._pieces.chunks()]
    mixed = [chunk.mixed for chunk in unsettled._pieces.chunks()]
    assert sum(counted) >= len(counted) - UNCOUNTED_CHUNKS - 1 if consumers > 1 else not any(mixed)


TestConsumer = ConsumerMachine.TestCase
TestUnsettled = UnsettledMachine.TestCase
