"""What a consumer holds, and the unsettled tags of a channel, against plain dictionaries."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warren.protocols.amqp091.unsettled import TagRun, Unsettled, runs_of
from warren.queues.consumers import Consumer, Limiter
from warren.queues.fifo import Fifo
from warren.queues.queue import Host, Queue
from warren.queues.runs import as_run


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


QUEUES = [Queue(NoHost(), "/", name, "classic", Fifo(-1, True)) for name in ("one", "two")]

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


TestConsumer = ConsumerMachine.TestCase
TestUnsettled = UnsettledMachine.TestCase
