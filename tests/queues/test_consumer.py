"""What a consumer holds, and the unsettled tags of a channel, against plain dictionaries."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warren.protocols.amqp091.unsettled import TagRun, Unsettled
from warren.queues.consumers import Consumer, Limiter
from warren.queues.fifo import Fifo
from warren.queues.queue import Host, Queue


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
            segment.mid + at: (segment.first + at, segment.acquired)
            for segment in self.consumer.release(first, first + count)
            for at in range(segment.count)
        }
        expected = {mid: what for mid, what in self.model.items() if first <= mid <= first + count}
        assert gone == expected
        assert list(gone) == sorted(gone), "in the order of ids"
        for mid in gone:
            del self.model[mid]

    @invariant()
    def same(self) -> None:
        held = {
            segment.mid + at: (segment.first + at, segment.acquired)
            for segment in self.consumer.segments()
            for at in range(segment.count)
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
            run.tag + at: (QUEUES.index(run.queue), int(run.consumer_id), run.mid + at)
            for run in runs
            for at in range(run.count)
        }

    @rule(data=st.data(), count=st.integers(0, 12))
    def take(self, data: st.DataObject, count: int) -> None:
        first = data.draw(st.integers(0, int(self.unsettled.next_tag) + 1))
        runs = self.unsettled.take(first, first + count)
        gone = self.expand(runs)
        expected = {tag: owed for tag, owed in self.model.items() if first <= tag <= first + count}
        assert gone == expected
        assert list(gone) == sorted(gone), "in the order of tags"
        for tag in gone:
            del self.model[tag]
        self.taken = runs

    @precondition(lambda self: self.taken)
    @rule()
    def put_back(self) -> None:
        """A transaction that settled them is rolled back."""
        self.model.update(self.expand(self.taken))
        self.unsettled.put_back(self.taken)
        self.taken = []

    @invariant()
    def same(self) -> None:
        unsettled = self.unsettled
        assert unsettled.count == len(self.model)
        assert unsettled.first() == min(self.model, default=0)
        for tag in range(int(unsettled.next_tag) + 1):
            assert unsettled.holds(tag) == (tag in self.model)


TestConsumer = ConsumerMachine.TestCase
TestUnsettled = UnsettledMachine.TestCase
