"""The FIFO machine against a model that knows every message by itself.

Random commands go to the machine as they would lie in the log. Each delivery is checked against
the model: the right message, to a consumer with room, none of a higher priority passed over. At any
point the machine is replaced by one restored from its snapshot, and a twin that never was has to
answer the same for ever after.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from librt.strings import BytesWriter

from tests.queues.driver import Driven, size_of, waiting
from tests.support.examples import examples
from warren.ids import consumer_of, session_of_consumer
from warren.message.dead_letters import DELIVERY_LIMIT, MAXLEN, REJECTED
from warren.queues.fifo import commands
from warren.queues.fifo.config import (
    FAIR,
    STRICT,
    Limits,
    write_dead_letters,
    write_failures,
    write_limits,
    write_max_priority,
    write_ranking,
    write_retry,
    write_single_active,
)
from warren.queues.fifo.dead_letters import AT_LEAST_ONCE, AT_MOST_ONCE, FORGOTTEN
from warren.queues.fifo.delayed import ALL, DISABLED, FAILED, RETURNED, Retry
from warren.queues.fifo.effects import (
    FENCED,
    OK,
    UNKNOWN_GROUP,
    AcquireReply,
    FencedReply,
    GoneReply,
    LeaseReply,
    PollReply,
    PurgeReply,
    Reply,
)
from warren.queues.fifo.live import PART_RUNS
from warren.queues.fifo.machine import HAND_OUT_MAX, RETURN_MAX, SHARE_MAX, Fifo

Message = tuple[int, int, int]
"""Number, times acquired, times failed."""

KINDS = {
    "quorum": (3, False, False), "unlimited": (-1, False, False), "classic": (-1, True, False),
    "single quorum": (3, False, True), "single classic": (-1, True, True),
    "priorities": (-1, True, False), "fair": (3, False, False), "strict": (-1, False, False),
    "fair unlimited": (-1, False, False), "delayed": (3, False, False),
    "delayed strict": (-1, False, False),
}  # fmt: skip
"""Delivery limit, whether returned messages keep their place, and whether one consumer is served
at a time."""

RETRIES = {
    "disabled": int(DISABLED), "all": int(ALL), "failed": int(FAILED), "returned": int(RETURNED),
}  # fmt: skip

Told = tuple[int, int, int, int, int, int]
"""A delivery: the consumer, its id for the first message, that one, how many there are, how often
they came back, and how often that counts."""

GROUPS = st.sampled_from(["a", "b"])
SMALL = st.integers(0, 3)


class ModelConsumer:
    """What the model knows of a consumer."""

    def __init__(self, credit: int, priority: int, automatic: bool = False) -> None:
        self.credit = credit
        self.automatic = automatic
        self.priority = priority
        self.active = True
        self.suspected = False
        self.standing = "served"
        self.next_mid = 0
        self.held: dict[int, Message] = {}

    def takes(self) -> bool:
        """Whether it may be handed a message."""
        if self.suspected:
            return False
        return self.active and self.credit > 0 and self.standing == "served"


class ModelGroup:
    """What the model knows of a group of readers."""

    def __init__(self) -> None:
        self.epoch = 0
        self.settled = 0
        self.last = 0
        self.lease_ms = 0
        self.seen_ms = 0
        self.open: dict[int, list[Message]] = {}
        self.keeps = False
        self.lapsed: dict[int, list[Message]] = {}


class FifoMachine(RuleBasedStateMachine):
    """See the module's head."""

    def __init__(self) -> None:
        super().__init__()
        self.ready: list[Message] = []
        self.returned: list[Message] = []
        self.waiting: dict[int, list[Message]] = {}
        self.suspects: set[int] = set()
        self.retry: tuple[str, int, int] = ("disabled", 1, 1)
        self.consumers: dict[int, ModelConsumer] = {}
        self.groups: dict[str, ModelGroup] = {}
        self.used = 0
        self.dropped = 0
        self.died: list[tuple[int, int, int]] = []
        self.kept: list[tuple[int, int, int]] = []
        self.next_message = 0
        self.sizes: list[int] = []
        self.next_consumer = 1
        self.now_ms = 1_000
        self.most = (-1, -1)
        self.ranked = self.fair = self.strict = False
        self.told: list[Told] | None = None
        """Deliveries that were made and that the model has not heard of."""
        self.turn = 0
        self.ranks: dict[int, int] = {}
        self.rejects = False
        self.blocked = False

    @initialize(
        kind=st.sampled_from(sorted(KINDS)),
        hand_out_max=st.sampled_from([1, 3, HAND_OUT_MAX]),
        return_max=st.sampled_from([1, 3, RETURN_MAX]),
        part_runs=st.sampled_from([1, 3, PART_RUNS]),
        midway=st.booleans(),
        strategy=st.sampled_from([FORGOTTEN, AT_MOST_ONCE, AT_LEAST_ONCE]),
        failures=st.booleans(),
    )
    def begin(
        self,
        kind: str,
        hand_out_max: int,
        return_max: int,
        part_runs: int,
        midway: bool,
        strategy: int,
        failures: bool,
    ) -> None:
        """A new queue, whose machine does so much in one go, and may be restored between."""
        self.limit, self.keeps_place, self.single = KINDS[kind]
        self.ranked = kind == "priorities"
        self.fair = kind.startswith("fair")
        self.strict = kind.endswith("strict")
        self.delays = kind.startswith("delayed")
        self.midway = midway
        # Only a classic queue that is in use drops anything, and that reports what left.
        self.driven = Driven(self.limit, self.keeps_place, self.keeps_place)
        self.twin = Driven(self.limit, self.keeps_place, self.keeps_place)
        for driven in (self.driven, self.twin):
            driven.hand_out_max = hand_out_max
            driven.return_max = return_max
            driven.part_runs = part_runs
            if self.single:
                driven.write(lambda out: commands.config(out, single_active()))
            if self.ranked:
                fields = BytesWriter()
                write_max_priority(fields, 3)
                driven.write(lambda out, f=fields: commands.config(out, f.getvalue()))
            if self.fair or self.strict:
                fields = BytesWriter()
                write_ranking(fields, FAIR if self.fair else STRICT)
                driven.write(lambda out, f=fields: commands.config(out, f.getvalue()))
            if failures:
                driven.write(lambda out: commands.config(out, failures_alone()))
        self.failures = failures
        self.strategy = FORGOTTEN
        self.change_strategy(strategy)
        if self.delays:
            self.change_retry("all", 3, 40)
        self.attach(4, 0)
        self.enqueue(6)

    @property
    def fifo(self) -> Fifo:
        """The machine."""
        return self.driven.fifo

    # --- commands -------------------------------------------------------------------------------

    def apply(self, write: Callable[[BytesWriter], None]) -> Reply:
        """Apply a command batch to the machine and its twin, and compare their answers."""
        reply = self.driven.write(write, now_ms=self.now_ms)
        other = self.twin.write(write, now_ms=self.now_ms)
        assert said(reply) == said(other)
        return reply

    def dispatch(self) -> None:
        """Hand out all that is ready, and check who got what."""
        for due in sorted(due for due in self.waiting if due <= self.now_ms):
            self.returned += self.waiting.pop(due)
        if self.single:
            self.elect()
        self.dispatch_some()
        while self.fifo.unfinished():
            if self.midway:
                self.restore()
            self.dispatch_some()
        assert not self.twin.unfinished()
        while self.too_much() and not self.rejects:
            number, _, fails = self.pop_dropped()
            self.dropped += 1
            self.die(MAXLEN, number, fails)
        length, most = self.most
        count, size = self.limited()
        if not self.rejects or self.keeps_place or self.most == (-1, -1):
            self.blocked = False
        elif self.too_much():
            self.blocked = True
        elif (length < 0 or count <= int(length * 0.8)) and (most < 0 or size <= int(most * 0.8)):
            self.blocked = False

    def dispatch_some(self) -> None:
        """Hand out as much as is handed out in one go."""
        told = self.served() if self.told is None else self.told
        self.told = None
        assert len(told) <= self.fifo.hand_out_max
        for delivery in told:
            self.take(delivery)

    def served(self) -> list[Told]:
        """What the machine and its twin hand out in one go, and have since the one before."""
        for driven in (self.driven, self.twin):
            driven.dispatch()
        told = [
            [
                (int(d.consumer.id), d.mid, d.first, d.count, d.acquired, d.failed)
                for d in each.deliveries
            ]
            for each in (self.driven, self.twin)
        ]
        assert told[0] == told[1]
        self.driven.deliveries = []
        self.twin.deliveries = []
        return told[0]

    def take(self, delivery: Told) -> None:
        """Some messages were handed out to a consumer."""
        consumer_id, mid, first, count, acquired, failed = delivery
        for at in range(count):
            self.deliver(self.consumers[consumer_id], mid + at, (first + at, acquired, failed))

    def elect(self) -> None:
        """One consumer is active; in a quorum queue the highest priority, as soon as may be."""
        there = [consumer for consumer in self.consumers.values() if consumer.active]
        before = next((c for c in there if c.standing != "waiting"), None)
        rank = (lambda c: -c.priority) if self.keeps_place else lambda c: (-c.priority, -c.credit)
        if before is not None and not before.held:
            if before.standing == "quiescing" or before.suspected:
                before.standing = "waiting"
                before = None
        waiting = [c for c in there if c.standing == "waiting" and not c.suspected]
        waiting.sort(key=rank)
        if before is None:
            if waiting:
                waiting[0].standing = "served"
        elif before.suspected:
            pass
        elif not self.keeps_place and waiting and waiting[0].priority > before.priority:
            if before.held:
                before.standing = "quiescing"
            elif before.standing == "served":
                before.standing, waiting[0].standing = "waiting", "served"

    def deliver(self, consumer: ModelConsumer, mid: int, message: Message) -> None:
        """One message was handed out."""
        assert self.counted(self.first()) == message, "the first in line"
        assert consumer.takes(), "to one with room"
        assert not any(
            other.takes() and other.priority > consumer.priority
            for other in self.consumers.values()
        ), "and nobody with a higher priority was passed over"
        self.hold(consumer, mid, self.pop_first())

    def counted(self, message: Message) -> Message:
        """A message, and what is told of it: how often it came back, and what of that counts."""
        number, acquired, failed = message
        return number, acquired, failed if self.failures else acquired

    def rank_of(self, message: Message) -> int:
        """How a message ranks."""
        return self.ranks.get(message[0], 4 if self.strict else 0)

    def levels(self) -> tuple[list[Message], list[Message]]:
        """What was not handed out of the higher one of two levels, and of the lower one."""
        high = [message for message in self.ready if self.rank_of(message)]
        return high, [message for message in self.ready if not self.rank_of(message)]

    def first(self) -> Message:
        """The message that is next."""
        if not self.keeps_place and self.returned:
            return self.returned[0]
        high, normal = self.levels()
        if self.fair and high and normal:
            return high[0] if self.turn < 2 or high[0][0] < normal[0][0] else normal[0]
        line = self.returned + self.ready
        return sorted(line, key=lambda message: -self.rank_of(message))[0]

    def pop_first(self) -> Message:
        """Take it."""
        message = self.first()
        if self.fair and not self.returned:
            self.turn = self.turn + 1 if all(self.levels()) and self.turn < 2 else 0
        (self.returned if message in self.returned else self.ready).remove(message)
        return message

    def pop_dropped(self) -> Message:
        """Take what is next, or if nothing is what will be."""
        if self.returned or self.ready:
            return self.pop_first()
        due = min(self.waiting)
        message = self.waiting[due].pop(0)
        if not self.waiting[due]:
            del self.waiting[due]
        return message

    def hold(self, consumer: ModelConsumer, mid: int, message: Message) -> None:
        """A consumer has a message."""
        assert mid == consumer.next_mid, "ids are dense"
        consumer.held[mid] = message
        consumer.next_mid += 1
        consumer.credit -= 1

    def put_back(
        self, messages: list[Message], given: bool = False, failed: bool | None = None
    ) -> None:
        """Messages return to where this kind of queue wants them, now or when they have waited.

        Args:
            given: Whether a client gave them.
            failed: Whether a delivery failed; None if they come from readers, who make nobody wait.
        """
        kind, least, most = self.retry
        if failed is not None and kind in ("all", "failed" if failed else "returned"):
            for message in messages:
                delay = min(most, least * max(1, message[2]))
                due = sorted([*self.waiting.setdefault(self.now_ms + delay, []), message])
                self.waiting[self.now_ms + delay] = due
        elif self.keeps_place:
            self.returned = sorted(self.returned + messages)
        elif self.limit < 0 and (not self.failures or (given and not self.strict)):
            self.ready += messages
        else:
            self.returned += messages

    def failed(self, messages: list[Message], failed: bool) -> list[Message]:
        """Count a return; those past the limit are dropped."""
        kept = []
        for number, acquired, fails in messages:
            if 0 <= self.limit < (fails + failed if self.failures else acquired + 1):
                self.dropped += 1
                self.die(DELIVERY_LIMIT, number, fails + failed)
            else:
                kept.append((number, acquired + 1, fails + failed))
        return kept

    def left_by(self, consumer: ModelConsumer, failed: bool = True) -> list[Message]:
        """What returns of what a consumer held that is gone."""
        if consumer.automatic:
            self.dropped += len(consumer.held)
            return []
        return self.failed([consumer.held[mid] for mid in sorted(consumer.held)], failed)

    def release(self, consumer_id: int, first: int, last: int) -> list[Message]:
        """A consumer gives up ids; it may be forgotten by that."""
        consumer = self.consumers.get(consumer_id)
        if consumer is None:
            return []
        gone = [consumer.held.pop(mid) for mid in sorted(consumer.held) if first <= mid <= last]
        if consumer.active:
            consumer.credit += len(gone)
        elif not consumer.held:
            del self.consumers[consumer_id]
        return gone

    def pick(self, data: st.DataObject) -> int:
        """A consumer, now and then one that never was."""
        return data.draw(st.sampled_from([*self.consumers, 99]))

    def sizes_of(self, count: int) -> list[int]:
        """The bytes of the next messages."""
        return [size_of(number) for number in range(self.next_message, self.next_message + count)]

    def shares(self, count: int) -> list[int]:
        """What each of the next messages counts for, if only the bytes of all are known."""
        size, longer = divmod(sum(self.sizes_of(count)), count)
        return [size + (at < longer) for at in range(count)]

    @rule(
        each=st.lists(
            st.tuples(st.sampled_from([0, 1, 7, 40]), st.sampled_from([0, 3, 4, 5, 40])),
            min_size=1,
            max_size=9,
        )
    )
    def enqueue_each(self, each: list[tuple[int, int]]) -> None:
        """Messages arrive in one batch that says how large each of them is, and its priority."""
        sizes = [size for size, _ in each]
        priorities = [priority for _, priority in each]
        for driven in (self.driven, self.twin):
            driven.enqueue_each(self.next_message, sizes, priorities)
        for at, priority in enumerate(priorities):
            number = self.next_message + at
            if self.ranked:
                self.ranks[number] = min(priority, 3)
            elif self.strict:
                self.ranks[number] = min(priority, 31)
            elif self.fair:
                self.ranks[number] = int(priority > 4)
        self.come_one_by_one(sizes)

    @rule(
        length=st.sampled_from([-1, 0, 3, 9]),
        most=st.sampled_from([-1, 0, 10, 90]),
        rejects=st.booleans(),
    )
    def limit_length(self, length: int, most: int, rejects: bool) -> None:
        """Only so many messages are to be ready, and bytes of them; or no more are to come."""
        self.most = (length, most)
        self.rejects = rejects
        out = BytesWriter()
        write_limits(out, Limits(length, most, rejects))
        self.apply(lambda to: commands.config(to, out.getvalue()))
        self.dispatch()

    def wait(self) -> list[Message]:
        """The messages that wait, in the order in which they are due."""
        return [message for due in sorted(self.waiting) for message in self.waiting[due]]

    @rule(
        kind=st.sampled_from(["disabled", "all", "failed", "returned"]),
        least=st.integers(1, 20),
        most=st.integers(1, 60),
    )
    def change_retry(self, kind: str, least: int, most: int) -> None:
        """What returns from now on is to wait otherwise; what waits goes on as it was."""
        if not self.delays:
            return
        self.retry = (kind, least, most)
        out = BytesWriter()
        write_retry(out, Retry(RETRIES[kind], least, most))
        self.apply(lambda to: commands.config(to, out.getvalue()))
        self.dispatch()

    @rule(passed_ms=st.sampled_from([1, 3, 10, 60]))
    def time_passes(self, passed_ms: int) -> None:
        """Somebody says how late it is."""
        self.now_ms += passed_ms
        self.apply(commands.go_on)
        self.dispatch()

    def too_much(self) -> bool:
        """Whether more is ready than there may be."""
        length, most = self.most
        count, size = self.limited()
        return 0 <= length < count or 0 <= most < size

    def limited(self) -> tuple[int, int]:
        """How many messages count for a limit, and their bytes."""
        numbers = [message[0] for message in self.returned + self.ready + self.wait()]
        if self.rejects:
            numbers += [number for _, number, _ in self.kept]
        return len(numbers), sum(self.sizes[number] for number in numbers)

    def come_one_by_one(self, sizes: list[int]) -> None:
        """The model hears of messages of these sizes; who waits has those before a change of rank.

        One behind it does not go before them, though they came in one batch.
        """
        told = self.served()
        ranks = [self.ranks.get(self.next_message + at, 0) for at in range(len(sizes))]
        looked = 0
        for at, size in enumerate(sizes):
            if at > 0 and ranks[at] != ranks[at - 1]:
                for _ in range(at - looked):
                    takes = any(consumer.takes() for consumer in self.consumers.values())
                    if told and takes and (self.returned or self.ready):
                        self.take(told.pop(0))
                looked = at
            self.sizes.append(size)
            self.ready.append((self.next_message + at, 0, 0))
        self.next_message += len(sizes)
        self.told = told
        self.dispatch()

    @rule(count=st.integers(1, 9), together=st.booleans())
    def enqueue(self, count: int, together: bool = False) -> None:
        """Messages arrive, in one batch or each in its own."""
        for driven in (self.driven, self.twin):
            if together:
                driven.enqueue(self.next_message, count, sum(self.sizes_of(count)))
            else:
                driven.enqueue(self.next_message, count)
        self.came(self.shares(count) if together else self.sizes_of(count))

    def came(self, sizes: list[int]) -> None:
        """The model hears of messages of these sizes."""
        self.sizes += sizes
        self.ready += [(self.next_message + at, 0, 0) for at in range(len(sizes))]
        self.next_message += len(sizes)
        self.dispatch()

    @rule(credit=st.integers(1, 5), priority=st.integers(-1, 1), automatic=st.booleans())
    def attach(self, credit: int, priority: int, automatic: bool = False) -> None:
        """A consumer arrives."""
        consumer_id = consumer_of(self.next_consumer % 2, self.next_consumer)
        self.next_consumer += 1
        self.consumers[consumer_id] = ModelConsumer(credit, priority, automatic)
        self.consumers[consumer_id].suspected = session_of_consumer(consumer_id) in self.suspects
        if self.single:
            self.consumers[consumer_id].standing = "waiting"
        self.apply(lambda out: commands.attach(out, consumer_id, credit, priority, automatic))
        self.dispatch()

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """A consumer wants no more."""
        consumer_id = self.pick(data)
        consumer = self.consumers.get(consumer_id)
        if consumer is not None:
            consumer.active = False
            if not consumer.held:
                del self.consumers[consumer_id]
        self.apply(lambda out: commands.cancel(out, consumer_id))
        self.dispatch()

    @rule(session=st.integers(0, 1), heard=st.booleans())
    def suspect(self, session: int, heard: bool) -> None:
        """Nobody hears the node of some consumers, or it is heard again."""
        if heard:
            self.suspects.discard(session)
        else:
            self.suspects.add(session)
        for consumer_id, consumer in self.consumers.items():
            consumer.suspected = session_of_consumer(consumer_id) in self.suspects
        said = commands.trust if heard else commands.suspect
        self.apply(lambda out: said(out, session))
        self.dispatch()

    @rule(data=st.data())
    def down(self, data: st.DataObject) -> None:
        """A consumer is gone."""
        consumer_id = self.pick(data)
        consumer = self.consumers.pop(consumer_id, None)
        if consumer is not None:
            self.put_back(self.left_by(consumer), failed=True)
        self.apply(lambda out: commands.down(out, consumer_id))
        self.dispatch()

    @rule(data=st.data(), first=SMALL, count=SMALL)
    def settle(self, data: st.DataObject, first: int, count: int) -> None:
        """Messages are done with."""
        consumer_id = self.pick(data)
        first, last = self.near(consumer_id, first, count)
        self.release(consumer_id, first, last)
        self.apply(lambda out: commands.settle(out, consumer_id, first, last))
        self.dispatch()

    @rule(data=st.data(), first=SMALL, count=SMALL, failed=st.booleans())
    def discard(self, data: st.DataObject, first: int, count: int, failed: bool) -> None:
        """Messages are rejected for good."""
        consumer_id = self.pick(data)
        first, last = self.near(consumer_id, first, count)
        for number, _, fails in self.release(consumer_id, first, last):
            self.die(REJECTED, number, fails + failed)
        self.apply(lambda out: commands.discard(out, consumer_id, first, last, failed))
        self.dispatch()

    def die(self, reason: int, number: int, fails: int) -> None:
        """A message is not for anybody here any more."""
        (self.kept if self.strategy == AT_LEAST_ONCE else self.died).append((reason, number, fails))

    @rule(strategy=st.sampled_from([FORGOTTEN, AT_MOST_ONCE, AT_LEAST_ONCE]))
    def change_strategy(self, strategy: int) -> None:
        """What dies is to go elsewhere otherwise than before; what was kept goes nowhere."""
        if self.keeps_place and strategy == AT_LEAST_ONCE:
            return
        self.strategy = strategy
        if strategy != AT_LEAST_ONCE:
            self.kept = []
        self.apply(lambda out: commands.config(out, dead_letters(strategy)))
        self.dispatch()

    def deaths(self) -> dict[int, tuple[int, int, int]]:
        """What the machine keeps, by death: why, its number and its failed deliveries."""
        found = {}
        death = 0
        while True:
            run, reason = self.fifo.discards.from_death(death)
            if run is None:
                return found
            for at in range(run.count):
                found[int(run.key) + at] = (int(reason), int(run.first) + at, int(run.failed))
            death = int(run.key + run.count)

    @rule(skipped=SMALL, count=st.integers(1, 4))
    def delivered(self, skipped: int, count: int) -> None:
        """Some dead letters are where they belong."""
        deaths = self.deaths()
        first = min(deaths, default=0) + skipped
        for death, message in deaths.items():
            if first <= death < first + count:
                self.kept.remove(message)
        self.apply(lambda out: commands.delivered(out, first, first + count - 1))
        self.dispatch()

    @rule(data=st.data(), first=SMALL, count=SMALL, failed=st.booleans())
    def give_back(self, data: st.DataObject, first: int, count: int, failed: bool) -> None:
        """Messages go back."""
        consumer_id = self.pick(data)
        first, last = self.near(consumer_id, first, count)
        back = self.failed(self.release(consumer_id, first, last), failed)
        self.put_back(back, given=True, failed=failed)
        self.apply(lambda out: commands.return_(out, consumer_id, first, last, failed))
        self.dispatch()

    def near(self, consumer_id: int, first: int, count: int) -> tuple[int, int]:
        """A range of ids about where this consumer holds some."""
        consumer = self.consumers.get(consumer_id)
        base = min(consumer.held, default=0) if consumer is not None else 0
        return base + first, base + first + count

    @rule(polls=st.sampled_from([50, 51]))
    def get(self, polls: int) -> None:
        """One message for a channel that polls."""
        reply = self.apply(lambda out: commands.get(out, polls))
        assert isinstance(reply, PollReply)
        if not self.returned and not self.ready:
            assert reply.delivery is None
            return
        consumer = self.consumers.setdefault(polls, ModelConsumer(0, 0))
        consumer.suspected = session_of_consumer(polls) in self.suspects
        consumer.active = False
        delivery = reply.delivery
        assert delivery is not None and delivery.count == 1
        told = (delivery.first, delivery.acquired, delivery.failed)
        assert told == self.counted(self.first())
        self.hold(consumer, int(delivery.mid), self.pop_first())

    @rule()
    def purge(self) -> None:
        """All ready messages go."""
        reply = self.apply(commands.purge)
        assert isinstance(reply, PurgeReply)
        assert reply.count == len(self.ready) + len(self.returned) + len(self.kept + self.wait())
        self.kept = []
        self.waiting = {}
        self.ready = []
        self.returned = []
        self.dispatch()

    @rule(data=st.data(), lost=st.booleans())
    def session_closed(self, data: st.DataObject, lost: bool) -> None:
        """The consumers of one node are gone at once, or not heard, and others are left."""
        gone = data.draw(st.lists(st.sampled_from([*self.consumers]), unique=True, max_size=3)
                         if self.consumers else st.just([]))  # fmt: skip
        for driven in (self.driven, self.twin):
            driven.down_all(list(gone), not lost, self.now_ms)
        back = merged([self.left_by(self.consumers.pop(each), not lost) for each in gone])
        self.put_back(back, failed=not lost)
        self.dispatch()

    @rule()
    def reset(self) -> None:
        """The node of all consumers restarted."""
        self.apply(commands.reset)
        back = [self.left_by(consumer) for consumer in self.consumers.values()]
        self.consumers = {}
        self.put_back(merged(back), failed=True)
        self.dispatch()

    @rule()
    def doubt(self) -> None:
        """Nobody knows any more what of the ready messages was handed out before."""
        self.apply(commands.doubt)
        self.ready = [(n, max(acquired, 1), failed) for n, acquired, failed in self.ready]
        self.returned = [(n, max(acquired, 1), failed) for n, acquired, failed in self.returned]
        self.dispatch()

    # --- groups of readers ----------------------------------------------------------------------

    def allowed(self, name: str, epoch: int, reply: Reply) -> bool:
        """Whether a group's call had to pass; checks that the machine thinks the same."""
        group = self.groups.get(name)
        if group is None:
            assert reply.code == UNKNOWN_GROUP
            return False
        if group.epoch != epoch:
            assert isinstance(reply, FencedReply)
            assert (reply.code, reply.epoch) == (FENCED, group.epoch)
            return False
        assert reply.code == OK
        group.seen_ms = self.now_ms
        return True

    def an_epoch(self, name: str, stale: bool) -> int:
        """The group's epoch, or one that is over."""
        group = self.groups.get(name)
        return 0 if group is None or stale else group.epoch

    @rule(name=GROUPS, lease_ms=st.sampled_from([0, 100]), keeps=st.booleans())
    def acquire(self, name: str, lease_ms: int, keeps: bool) -> None:
        """A reader takes a group over."""
        if name not in self.groups:
            self.groups[name] = ModelGroup()
            self.groups[name].epoch = self.used
            self.groups[name].settled = self.groups[name].last = self.used
        group = self.groups[name]
        group.epoch += 1
        group.keeps = keeps
        if not keeps:
            group.lapsed = {}
        group.lease_ms = lease_ms
        group.seen_ms = self.now_ms
        reply = self.apply(lambda out: commands.acquire(out, name, lease_ms, keeps))
        assert isinstance(reply, AcquireReply)
        assert (reply.code, reply.epoch, reply.settled) == (OK, group.epoch, group.settled)

    @rule(
        name=GROUPS,
        stale=st.booleans(),
        back=st.integers(0, 2),
        rows=st.integers(1, 9),
        bound=st.sampled_from([-1, 0, 3, 8, 20, (1 << 63) - 1]),
    )
    def checkout(self, name: str, stale: bool, back: int, rows: int, bound: int) -> None:
        """A reader takes messages, or asks again for what it took."""
        epoch = self.an_epoch(name, stale)
        group = self.groups.get(name)
        after = max(0, group.last - back) if group is not None else 0
        reply = self.apply(lambda out: commands.checkout(out, name, epoch, after, rows, bound))
        if not self.allowed(name, epoch, reply):
            return
        assert group is not None
        assert isinstance(reply, LeaseReply)
        numbers = [number for number in sorted(group.open) if number > after]
        if numbers:
            taken = group.open[numbers[0]]
        else:
            taken = []
            while (self.returned or self.ready) and len(taken) < rows:
                if 0 <= bound < self.first()[0]:
                    break
                taken.append(self.pop_first())
            if taken:
                group.last += 1
                group.open[group.last] = taken
                group.lapsed = {}
        if not taken:
            assert (reply.number, reply.count, reply.checkout) == (after, 0, None)
            return
        assert (reply.number, reply.count) == (numbers[0] if numbers else group.last, len(taken))
        assert reply.checkout is not None
        runs = reply.checkout.messages.pairs()
        found = [number for first, last in runs for number in range(first, last + 1)]
        assert found == [message[0] for message in taken]

    @rule(name=GROUPS, stale=st.booleans(), up_to=st.integers(0, 9))
    def group_settle(self, name: str, stale: bool, up_to: int) -> None:
        """A reader is done with checkouts."""
        epoch = self.an_epoch(name, stale)
        reply = self.apply(lambda out: commands.group_settle(out, name, epoch, up_to))
        if self.allowed(name, epoch, reply):
            group = self.groups[name]
            for number in [n for n in sorted(group.open) if n <= up_to]:
                del group.open[number]
                group.settled = number
                group.lapsed = {n: rows for n, rows in group.lapsed.items() if n > number}
        self.dispatch()

    @rule(name=GROUPS, stale=st.booleans())
    def group_release(self, name: str, stale: bool) -> None:
        """A reader gives everything back."""
        epoch = self.an_epoch(name, stale)
        reply = self.apply(lambda out: commands.group_release(out, name, epoch))
        if self.allowed(name, epoch, reply):
            self.give_up(self.groups[name])
        self.dispatch()

    @rule(name=GROUPS)
    def group_delete(self, name: str) -> None:
        """A group is gone."""
        reply = self.apply(lambda out: commands.group_delete(out, name))
        group = self.groups.pop(name, None)
        assert reply.code == (UNKNOWN_GROUP if group is None else OK)
        if group is not None:
            self.used = max(self.used, group.epoch, group.last)
            self.give_up(group)
        self.dispatch()

    @rule(name=GROUPS, stale=st.booleans(), back=st.integers(0, 2))
    def retake(self, name: str, stale: bool, back: int) -> None:
        """A reader asks again for what its lease ran out with."""
        epoch = self.an_epoch(name, stale)
        group = self.groups.get(name)
        number = max(0, group.last - back) if group is not None else 0
        reply = self.apply(lambda out: commands.retake(out, name, epoch, number))
        if isinstance(reply, GoneReply):
            assert group is not None and group.epoch == epoch
            group.seen_ms = self.now_ms
            there = self.ready + self.returned
            gone = [n for n, a, f in group.lapsed[number] if (n, a, f) not in there]
            assert gone, "it could be taken"
            found = [n for first, last in reply.gone for n in range(first, last + 1)]
            assert found == sorted(gone)
            return
        if not self.allowed(name, epoch, reply):
            return
        assert group is not None and isinstance(reply, LeaseReply) and reply.number == number
        if number in group.lapsed and number not in group.open:
            rows = group.open[number] = group.lapsed.pop(number)
            for message in rows:
                (self.ready if message in self.ready else self.returned).remove(message)
        held = group.open.get(number, [])
        assert reply.count == len(held)
        if held:
            assert reply.checkout is not None
            pairs = reply.checkout.messages.pairs()
            rows_now = [n for first, last in pairs for n in range(first, last + 1)]
            assert rows_now == [message[0] for message in held]
        self.dispatch()

    @rule(name=GROUPS, passed_ms=st.sampled_from([1, 60, 200]), knows=st.booleans())
    def expire(self, name: str, passed_ms: int, knows: bool) -> None:
        """The node thinks that a lease ran out, which it may not know was renewed."""
        self.now_ms += passed_ms
        group = self.groups.get(name)
        seen_ms = 0 if group is None else group.seen_ms - (0 if knows else 1)
        if group is not None and knows and 0 < group.lease_ms < self.now_ms - group.seen_ms:
            group.epoch += 1
            group.lease_ms = 0
            self.give_up(group, group.keeps)
        self.apply(lambda out: commands.expire(out, name, seen_ms))
        self.dispatch()

    def give_up(self, group: ModelGroup, lapses: bool = False) -> None:
        """What a group holds returns; if its lease ran out, it remembers that."""
        back = {
            number: [(n, a + 1, f + 1) for n, a, f in group.open[number]]
            for number in sorted(group.open)
        }
        self.put_back([message for rows in back.values() for message in rows])
        group.lapsed = {**group.lapsed, **back} if lapses else {}
        group.open = {}

    # --- what always holds ----------------------------------------------------------------------

    @rule()
    def restore(self) -> None:
        """Go on with a machine restored from the snapshot; the twin goes on as it was."""
        state = self.fifo.encode()
        restored = Driven()
        restored.hand_out_max = self.fifo.hand_out_max
        restored.return_max = self.fifo.return_max
        restored.reports_freed = self.fifo.reports_freed
        restored.died = self.driven.died
        restored.part_runs = self.fifo.part_runs
        restored.restore(state)
        assert restored.encode() == state
        # The next entry says how late it is.
        restored.pass_time(self.now_ms)
        self.driven = restored

    @invariant()
    def same(self) -> None:
        """Machine and model agree on every message and counter."""
        if not hasattr(self, "driven"):
            return
        fifo = self.fifo
        returned, fresh = waiting(fifo)
        assert spread(fresh) == sorted(self.ready, key=lambda each: -self.rank_of(each))
        if self.keeps_place:
            assert spread(returned) == sorted(self.returned, key=lambda each: -self.rank_of(each))
        else:
            assert spread(returned) == self.returned
        assert fifo.ready.turn == self.turn
        assert fifo.dropped == self.dropped
        assert fifo.blocked == self.blocked
        assert fifo.next_message == self.next_message
        assert sorted(fifo.consumers) == sorted(self.consumers)
        held: list[int] = []
        for consumer_id, model in self.consumers.items():
            consumer = fifo.consumers[consumer_id]
            found = {
                run.key + at: (run.first + at, run.acquired, run.failed)
                for run in consumer.holding()
                for at in range(run.count)
            }
            assert found == model.held
            assert consumer.held == len(model.held)
            assert consumer.active == model.active
            assert consumer.suspected == model.suspected
            if model.active:
                assert consumer.credit == model.credit
            held += [message[0] for message in model.held.values()]
        for group in self.groups.values():
            held += [message[0] for rows in group.open.values() for message in rows]
        assert fifo.held_count() == len(held)
        assert fifo.ready_count() == len(self.ready) + len(self.returned)
        dead = [number for _, number, _ in self.kept]
        waits = self.wait()
        assert spread(fifo.delayed.quadruples()) == waits
        assert fifo.delayed.count == len(waits)
        assert fifo.delayed.bytes == sum(self.sizes[message[0]] for message in waits)
        there = self.ready + self.returned + waits
        live = sorted(held + dead + [message[0] for message in there])
        assert [n for first, last in fifo.live() for n in range(first, last + 1)] == live
        assert len(set(live)) == len(live), "no message is in two places"
        fifo.check()
        assert fifo.ready.bytes == sum(self.sizes[m[0]] for m in self.ready + self.returned)
        assert fifo.sizes.count == len(live) and not fifo.leaving.count
        assert fifo.held_bytes() == sum(self.sizes[number] for number in held + dead)
        deaths = list(self.deaths().values())
        assert sorted(deaths) == sorted(self.kept)
        assert (fifo.discards.count, fifo.discards.bytes) == (
            len(dead),
            sum(self.sizes[number] for number in dead),
        )

    @invariant()
    def dead_letters_are_told_of(self) -> None:
        """What died since the last step, each once, in whatever parts the machine did it."""
        if hasattr(self, "driven"):
            told = self.driven.died
            assert sorted(told) == (sorted(self.died) if self.strategy == AT_MOST_ONCE else [])
            assert told == self.twin.died
            self.died = []
            self.driven.died = []
            self.twin.died = []

    @invariant()
    def nobody_waits_beside_a_message(self) -> None:
        """If a message is ready, no consumer has room for it."""
        if self.ready or self.returned:
            assert not any(c.takes() for c in self.consumers.values())

    @invariant()
    def one_is_active(self) -> None:
        """Where one consumer is served at a time, one is whenever there are any."""
        there = [c for c in self.consumers.values() if c.active]
        if there and self.single:
            served = sum(c.standing != "waiting" for c in there)
            assert served == 1 or (served == 0 and all(c.suspected for c in there))
            for consumer_id, model in self.consumers.items():
                if model.active:
                    standing = int(self.fifo.consumers[consumer_id].standing)
                    assert standing == ["served", "waiting", "quiescing"].index(model.standing)

    @invariant()
    def twins(self) -> None:
        """A machine that was restored cannot be told from one that was not."""
        if hasattr(self, "driven"):
            assert self.fifo.encode() == self.twin.encode()


def single_active() -> bytes:
    """The fields of a CONFIG that has one consumer at a time served."""
    out = BytesWriter()
    write_single_active(out)
    return out.getvalue()


def dead_letters(strategy: int) -> bytes:
    """The fields of a CONFIG that says what becomes of what dies."""
    out = BytesWriter()
    write_dead_letters(out, strategy)
    return out.getvalue()


def failures_alone() -> bytes:
    """The fields of a CONFIG that has failed deliveries count alone."""
    out = BytesWriter()
    write_failures(out)
    return out.getvalue()


def said(reply: Reply) -> tuple[type[Reply], list[object]]:
    """What an answer says, but for objects of the machine that gave it."""
    names = ("code", "count", "epoch", "settled", "number")
    return type(reply), [getattr(reply, name, None) for name in names]


def merged(held: list[list[Message]]) -> list[Message]:
    """What several consumers held, each in its order, the lowest of the first ones each time."""
    back: list[Message] = []
    while any(held):
        back.append(min((one for one in held if one), key=lambda one: one[0]).pop(0))
    return back


def spread(runs: list[tuple[int, int, int, int]]) -> list[Message]:
    """Runs as single messages."""
    return [(n, a, f) for first, last, a, f in runs for n in range(first, last + 1)]


TestFifo = pytest.mark.rule("POI-01", "POI-03", "ORD-01", "ORD-09", "MET-04")(FifoMachine.TestCase)
TestFifo.settings = settings(max_examples=examples(150), stateful_step_count=50)


@pytest.mark.rule("ORD-08")
@pytest.mark.parametrize("messages", [1, 7, 30])
@pytest.mark.parametrize("consumers", [2, 3, 5])
def test_equal_consumers_take_turns(messages: int, consumers: int) -> None:
    """Of equal consumers with room, none gets two messages more than another."""
    fifo = Driven()
    for consumer_id in range(consumers):
        fifo.attach(consumer_id, 1_000, 0)
    for number in range(messages):
        fifo.enqueue(number, 1)
        fifo.dispatch()
    shares = [int(consumer.held) for consumer in fifo.consumers.values()]
    assert sum(shares) == messages
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize(("keeps_place", "most"), [(True, SHARE_MAX), (False, 1)])
def test_shares_of_a_long_backlog_are_equal(keeps_place: bool, most: int) -> None:
    """Consumers of a classic queue take some messages at a time while a great many are ready."""
    fifo = Driven(20, keeps_place)
    for consumer_id in range(1, 4):
        fifo.attach(consumer_id, 100_000, 0)
    fifo.enqueue(0, 12_288, 122_880)
    while fifo.unfinished():
        fifo.dispatch()
    taken = fifo.deliveries
    assert [delivery.first for delivery in taken] == sorted(delivery.first for delivery in taken)
    assert sum(delivery.count for delivery in taken) == 12_288
    assert max(delivery.count for delivery in taken) == most and taken[-1].count == 1
    counts = [0, 0, 0, 0]
    for at, delivery in enumerate(taken):
        assert delivery.consumer.id == at % 3 + 1
        counts[delivery.consumer.id] += int(delivery.count)
        assert max(counts[1:]) - min(counts[1:]) <= most


def test_a_snapshot_leaves_out_who_has_gone() -> None:
    """A consumer that left while it stood in line does not stop a node from starting."""
    fifo = Driven(20)
    fifo.attach(1, 5, 0)
    fifo.attach(2, 5, 0)
    fifo.down(1)
    restored = Driven()
    restored.restore(fifo.encode())
    assert sorted(restored.consumers) == [2]


@pytest.mark.parametrize("leave", [Driven.cancel, Driven.down])
def test_who_left_the_line_is_gone_from_it(leave: Callable[[Driven, int], None]) -> None:
    """A machine that lived on hands out in the same runs as one restored from its snapshot.

    A consumer that left while it stood in line made the other one look as if it had company, so
    that two messages went out one by one here and together there.
    """
    lived = Driven(-1, True)
    lived.attach(1, 2, 0)
    lived.attach(2, 1, 0)
    leave(lived, 2)
    restored = Driven()
    restored.restore(lived.encode())
    for fifo in (lived, restored):
        fifo.enqueue(0, 2, 20)
        fifo.dispatch()
        assert [(d.consumer.id, d.first, d.count) for d in fifo.deliveries] == [(1, 0, 2)]


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_the_others_keep_their_turns(gone: int) -> None:
    """Whoever leaves the line, first, last or between, the rest are served in the same order."""
    fifo = Driven(-1, True)
    for consumer_id, priority in enumerate([0, 5, 0, 0]):
        fifo.attach(consumer_id, 1, priority)
    fifo.cancel(gone)
    fifo.attach(4, 1, 5)
    fifo.enqueue(0, 4, 40)
    fifo.dispatch()
    order = [consumer_id for consumer_id in (1, 4, 0, 2, 3) if consumer_id != gone]
    assert [d.consumer.id for d in fifo.deliveries] == order


def test_a_later_version_is_refused() -> None:
    """A snapshot of a version that this build does not know is not guessed at."""
    state = Driven(20).encode()
    with pytest.raises(ValueError, match="version 99"):
        Driven().restore(b"\x63" + state[1:])
