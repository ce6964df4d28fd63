"""What drives a machine and `reference` alike, and compares them; see `test_reference`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant
from librt.strings import BytesWriter

from tests.queues import reference
from tests.queues.entries import Machine, column_of, fields_of
from tests.queues.reference import Consumer, Message, Reference
from warren.ids import consumer_of
from warren.queues.fifo import commands
from warren.queues.fifo.effects import PollReply, PurgeReply, Reply
from warren.queues.fifo.live import PART_RUNS
from warren.queues.fifo.machine import HAND_OUT_MAX, RETURN_MAX

SESSIONS = 3
POLLS = 900
"""The number of each session's consumer that polls."""

SIZES = st.sampled_from([0, 1, 7, 40])
PRIORITIES = st.sampled_from([None, 0, 3, 4, 5, 9, 31, 255])
LIVES = st.sampled_from([-1, -1, -1, 0, 5, 60])
LENGTHS = st.sampled_from([-1, -1, 0, 1, 5, 9])
BYTES = st.sampled_from([-1, -1, 0, 41, 90])
TIMEOUTS = st.sampled_from([-1, 10, 200])
WHO = st.integers(0, 9)
FIRST = st.sampled_from([0, 0, 0, 1, 3])
LAST = st.sampled_from([0, 0, 1, 2, 9])
SESSION = st.integers(1, SESSIONS)

Acts = dict[str, tuple[int, tuple[st.SearchStrategy[Any], ...]]]
"""By the name of a method: how often it is called among others, and what with."""

ACTS: Acts = {
    "enqueue": (5, (st.lists(st.tuples(SIZES, PRIORITIES), min_size=1, max_size=7), LIVES)),
    "enqueue_alike": (2, (st.integers(1, 9), SIZES)),
    "time_passes": (4, (st.sampled_from([1, 4, 10, 60, 300]),)),
    "attach": (
        3,
        (
            st.sampled_from([1, 2, 5, 9]),
            st.sampled_from([-1, 0, 0, 7]),
            TIMEOUTS,
            st.sampled_from([False, False, False, True]),
            SESSION,
        ),
    ),
    "cancel": (1, (WHO,)),
    "down": (1, (WHO,)),
    "settle": (3, (WHO, FIRST, LAST)),
    "give_back": (4, (WHO, FIRST, LAST, st.booleans())),
    "discard": (2, (WHO, FIRST, LAST, st.booleans())),
    "give_up": (3, (st.sampled_from(["settle", "return", "discard"]), st.integers(0, 8))),
    "get": (2, (SESSION, TIMEOUTS)),
    "pick": (2, (SESSION, TIMEOUTS, st.integers(0, 9))),
    "purge": (1, ()),
    "several": (
        3,
        (st.lists(st.tuples(st.integers(0, 8), WHO, FIRST, LAST), min_size=1, max_size=5),),
    ),
    "restore": (2, ()),
    "limit": (1, (LENGTHS, BYTES, st.booleans())),
    "live_for": (1, (st.sampled_from([-1, -1, 0, 5, 40]),)),
    "dead_letter": (1, (st.integers(0, 5),)),
    "serve_one": (1, ()),
}


def acts_of(acts: Acts) -> st.SearchStrategy[tuple[Any, ...]]:
    """A method's name and what it is called with."""
    names = [name for name, (weight, _) in acts.items() for _ in range(weight)]
    return st.sampled_from(names).flatmap(lambda name: st.tuples(st.just(name), *acts[name][1]))


class Step(NamedTuple):
    """A command, for the machine and for the reference.

    Attributes:
        asks: Whether it is answered with what is there, so that those who wait are served first.
    """

    write: Callable[[BytesWriter], None]
    do: Callable[[], object]
    asks: bool = False


class Held(RuleBasedStateMachine):
    """What is the same for both types; see the module's head."""

    classic = False

    def __init__(self) -> None:
        super().__init__()
        self.model = Reference(self.classic)
        self.machine = Machine(self.classic)
        self.twin = Machine(self.classic)
        self.now_ms = 1_000
        self.next_consumer = 1
        self.whole = True
        self.midway = False
        self.mortal = self.drops = True
        self.gone = 0

    @initialize(
        hand_out_max=st.sampled_from([1, 3, HAND_OUT_MAX, HAND_OUT_MAX]),
        return_max=st.sampled_from([1, 3, RETURN_MAX, RETURN_MAX, RETURN_MAX]),
        part_runs=st.sampled_from([1, 3, PART_RUNS]),
        midway=st.booleans(),
        single=st.sampled_from([False, False, True]),
        ranked=st.integers(0, 3),
        strategy=st.integers(0, 2),
        started=st.sampled_from([False, True, True]),
    )
    def begin(
        self,
        hand_out_max: int,
        return_max: int,
        part_runs: int,
        midway: bool,
        single: bool,
        ranked: int,
        strategy: int,
        started: bool,
    ) -> None:
        """A new queue, whose machine does so much in one go, and may be restored between."""
        for machine in (self.machine, self.twin):
            machine.bound(hand_out_max, return_max, part_runs)
        self.whole = hand_out_max == HAND_OUT_MAX and return_max == RETURN_MAX
        # What shows only when the first were dropped expires then, or is dropped as well: that goes
        # by how much a machine does at a time, and either is right.
        self.mortal = return_max == RETURN_MAX or midway
        self.drops = return_max == RETURN_MAX or not midway
        self.midway = midway and not self.classic
        self.set_up(ranked)
        if single:
            self.serve_one()
        if strategy:
            self.dead_letter(strategy)
        if started:
            self.attach(3, 0, 10 if ranked else -1, False, 1)
            self.attach(5, 7 if ranked == 1 else 0, 200, False, 2)
            self.enqueue([(7, None), (7, 5), (1, 0)], -1)

    def serve_one(self) -> None:
        """One consumer at a time is served from now on."""
        self.configure(self.model.serve_one, single_active=True)

    def set_up(self, ranked: int) -> None:
        """Say what only a new queue is told."""

    def act(self, what: tuple[Any, ...]) -> None:
        """Something happens."""
        getattr(self, what[0])(*what[1:])

    # --- entries --------------------------------------------------------------------------------

    def entry(self, steps: list[Step], session: int = 0) -> None:
        """Commands come in one entry; compare what comes of it."""
        out = BytesWriter()
        for step in steps:
            step.write(out)
        payload = out.getvalue()
        replies = [each.run(payload, self.now_ms, session) for each in (self.machine, self.twin)]
        self.model.now_ms = self.now_ms
        answer: object = None
        for at, step in enumerate(steps):
            if step.asks and at > 0:
                self.model.hand_out()
            answer = step.do()
        if steps[-1].asks:
            for reply in replies:
                assert said(reply) == answer
        self.follow()

    def follow(self) -> None:
        """Have done what follows from an entry, perhaps in parts, by both."""
        self.model.settle_down()
        pair = (self.machine, self.twin)
        busy = True
        while busy:
            parts = [each.dispatch() for each in pair]
            assert parts[0] == parts[1]
            if self.midway:
                self.restore()
            # A leader logs a further entry for either reason.
            busy = any(each.fifo.unfinished() or each.is_due(self.now_ms) for each in pair)
        assert not any(each.dispatch() for each in pair), "nobody waited for a further entry"
        self.compare()

    def compare(self) -> None:
        """Machine, twin and reference have done the same."""
        model = self.model
        for each in (self.machine, self.twin):
            assert each.deliveries == model.deliveries
            assert sorted(each.died) == sorted(model.died)
            assert each.told == model.told
            if self.classic:
                assert sorted(each.freed()) == sorted(model.gone[self.gone :])
            each.forget()
        model.deliveries, model.died, model.told = [], [], []
        self.gone = len(model.gone)

    def configure(self, do: Callable[[], object], **values: Any) -> None:
        """Settings change."""
        fields = fields_of(**values)
        self.entry([Step(lambda out: commands.config(out, fields), do)])

    def change(self, name: str, value: Any, **values: Any) -> None:
        """One setting changes, of which the reference only has to know the value."""
        self.configure(lambda: setattr(self.model.settings, name, value), **values)

    # --- messages -------------------------------------------------------------------------------

    def enqueue(self, each: list[tuple[int, int | None]], life_ms: int) -> None:
        """Messages arrive in one batch that says of each of them what there is to say."""
        if any(priority is not None for _, priority in each):
            # Those without one are written down with what they have by that.
            least = 0 if self.classic else reference.NORMAL
            each = [(size, least if priority is None else priority) for size, priority in each]
        self.arrive(each, life_ms)

    def enqueue_alike(self, count: int, size: int) -> None:
        """Messages arrive of which there is nothing to say."""
        self.arrive([(size, None)] * count, -1)

    def arrive(self, each: list[tuple[int, int | None]], life_ms: int, failed: int = 0) -> None:
        """Messages arrive, of which deliveries failed so often elsewhere."""
        first = self.model.next_number
        life_ms = life_ms if self.mortal else -1
        for machine in (self.machine, self.twin):
            machine.enqueue(first, column_of(each, failed), len(each), life_ms, self.now_ms)
        self.model.now_ms = self.now_ms
        self.model.enqueue(each, life_ms, failed)
        self.follow()

    def time_passes(self, passed_ms: int) -> None:
        """Somebody says how late it is."""
        self.now_ms += passed_ms
        self.entry([Step(commands.go_on, lambda: None)])

    # --- consumers ------------------------------------------------------------------------------

    def attach(
        self, prefetch: int, priority: int, timeout_ms: int, automatic: bool, session: int
    ) -> None:
        """A consumer arrives."""
        self.entry([self.attaching(prefetch, priority, timeout_ms, automatic, session)])

    def attaching(
        self, prefetch: int, priority: int, timeout_ms: int, automatic: bool, session: int
    ) -> Step:
        """A consumer is to arrive."""
        if self.classic or automatic:
            timeout_ms = -1
        consumer_id = consumer_of(session, self.next_consumer)
        self.next_consumer += 1
        consumer = Consumer(consumer_id, session, prefetch, priority, automatic, timeout_ms)

        def write(out: BytesWriter) -> None:
            if timeout_ms >= 0:
                commands.attach_timed(out, consumer_id, prefetch, priority, timeout_ms)
            else:
                commands.attach(out, consumer_id, prefetch, priority, automatic)

        return Step(write, lambda: self.model.attach(consumer))

    def who(self, at: int) -> int:
        """A consumer, mostly one that holds something; now and then one that never was."""
        known = [each.id for each in self.model.consumers.values() if each.held or each.late]
        if not known or at == 9:
            known = [*self.model.consumers, 99]
        return known[at % len(known)]

    def anybody(self, at: int) -> int:
        """A consumer, whether it holds anything or not."""
        known = [*self.model.consumers]
        return known[at % len(known)] if known else 99

    def near(self, consumer_id: int, first: int, count: int) -> tuple[int, int]:
        """A range of ids about where this consumer holds some, or held some lately."""
        consumer = self.model.consumers.get(consumer_id)
        if consumer is None:
            return first, first + count
        base = min([*consumer.held, *consumer.late], default=max(consumer.next_mid - 2, 0))
        return base + first, base + first + count

    def cancel(self, at: int) -> None:
        """A consumer wants no more."""
        self.entry([self.cancelling(at)])

    def cancelling(self, at: int) -> Step:
        """A consumer is to be cancelled."""
        who = self.anybody(at)
        return Step(lambda out: commands.cancel(out, who), lambda: self.model.cancel(who))

    def down(self, at: int) -> None:
        """A consumer is gone."""
        who = self.anybody(at)
        self.entry([Step(lambda out: commands.down(out, who), lambda: self.model.down([who]))])

    def settle(self, at: int, first: int, count: int) -> None:
        """Messages are done with."""
        self.entry([self.settling("settle", at, first, count, False)])

    def give_up(self, how: str, at: int) -> None:
        """A consumer is rid of all it holds."""
        self.entry([self.settling(how, at, 0, 1_000, at % 3 == 0)])

    def discard(self, at: int, first: int, count: int, failed: bool) -> None:
        """Messages are rejected for good."""
        self.entry([self.settling("discard", at, first, count, failed)])

    def give_back(self, at: int, first: int, count: int, failed: bool) -> None:
        """Messages go back."""
        self.entry([self.settling("return", at, first, count, failed)])

    def settling(self, how: str, at: int, first: int, count: int, failed: bool) -> Step:
        """A consumer is to be rid of some ids."""
        who = self.who(at)
        first, last = self.near(who, first, count)
        model = self.model
        if how == "settle":
            return Step(
                lambda out: commands.settle(out, who, first, last),
                lambda: model.settle(who, first, last),
            )
        if how == "discard":
            return Step(
                lambda out: commands.discard(out, who, first, last, failed),
                lambda: model.discard(who, first, last, failed),
            )
        return Step(
            lambda out: commands.return_(out, who, first, last, failed),
            lambda: model.return_(who, first, last, failed),
        )

    def get(self, session: int, timeout_ms: int) -> None:
        """One message for a channel that polls."""
        self.entry([self.polling(session, timeout_ms)])

    def polling(self, session: int, timeout_ms: int) -> Step:
        """A channel is to poll."""
        if self.classic:
            timeout_ms = -1
        who = consumer_of(session, POLLS)
        consumer = Consumer(who, session, 0, timeout_ms=timeout_ms)

        def write(out: BytesWriter) -> None:
            if timeout_ms >= 0:
                commands.get_timed(out, who, timeout_ms)
            else:
                commands.get(out, who)

        return Step(write, lambda: self.model.get(consumer), asks=True)

    def pick(self, session: int, timeout_ms: int, at: int) -> None:
        """One message for a channel that polls, wherever it lies; or one that is not ready."""
        if not self.whole:
            # What is on its way back is ready to the reference.
            return
        timeout_ms = -1 if self.classic else timeout_ms
        who = consumer_of(session, POLLS)
        consumer = Consumer(who, session, 0, timeout_ms=timeout_ms)
        ready = self.model.ready()
        number = ready[at].number if at < len(ready) else at
        self.entry(
            [
                Step(
                    lambda out: commands.pick(out, who, number, timeout_ms),
                    lambda: self.model.pick(consumer, number),
                    asks=True,
                )
            ]
        )

    def purge(self) -> None:
        """All ready messages go."""
        self.entry([self.purging()])

    def purging(self) -> Step:
        """All ready messages are to go."""
        return Step(commands.purge, self.model.purge, asks=True)

    def several(self, drawn: list[tuple[int, int, int, int]]) -> None:
        """Commands of several clients come in one entry."""
        if not self.whole:
            # A machine that does little at a time serves those who poll with what it got to.
            return
        steps: list[Step] = []
        for kind, at, first, count in drawn:
            if kind < 3:
                how = ("settle", "return", "discard")[kind]
                steps.append(self.settling(how, at, first, count, bool(at % 2)))
            elif kind < 5:
                steps.append(self.polling(1 + at % SESSIONS, -1 if at % 2 else 10))
            elif kind == 5:
                steps.append(self.cancelling(at))
            elif kind == 6:
                steps.append(self.purging())
            else:
                steps.append(self.attaching(1 + first, count % 3, -1, False, 1 + at % SESSIONS))
        self.entry(steps)

    # --- settings -------------------------------------------------------------------------------

    def limit(self, length: int, size: int, rejects: bool) -> None:
        """Only so many messages are to be ready, and bytes of them."""
        rejects = rejects or not self.drops

        def do() -> None:
            now = self.model.settings
            now.length, now.size, now.rejects = length, size, rejects

        self.configure(do, max_length=length, max_bytes=size, rejects=rejects)

    def live_for(self, ttl_ms: int) -> None:
        """What comes from now on lives so long."""
        ttl_ms = ttl_ms if self.mortal else -1
        self.change("ttl_ms", ttl_ms, message_ttl=ttl_ms)

    def strategies(self) -> list[str]:
        """What may become of what dies."""
        return [reference.FORGOTTEN, reference.AT_MOST_ONCE]

    def dead_letter(self, at: int) -> None:
        """What dies is to go elsewhere otherwise than before."""
        strategy = self.strategies()[at % len(self.strategies())]
        self.configure(lambda: self.model.dead_letter(strategy), dead_letters=strategy)

    # --- what always holds ----------------------------------------------------------------------

    def restore(self) -> None:
        """Go on with a machine restored from the snapshot; the twin goes on as it was."""
        self.machine.restore(self.now_ms)

    @invariant()
    def same(self) -> None:
        """Everything that is counted is as the reference has it."""
        model, fifo = self.model, self.machine.fifo
        held, waiting, kept = model.held(), model.waiting(), model.kept()
        ready = model.ready()
        numbers = [message.number for message in model.everything()]
        assert len(set(numbers)) == len(numbers), "no message is in two places"
        assert self.machine.live() == sorted(numbers)
        assert fifo.ready_count() == fifo.ready.count == len(ready)
        assert fifo.held_count() == len(held)
        assert fifo.delayed.count == len(waiting)
        assert fifo.discards.count == len(kept)
        assert fifo.ready.bytes == size_of(ready)
        assert fifo.delayed.bytes == size_of(waiting)
        assert fifo.discards.bytes == size_of(kept)
        assert fifo.held_bytes() == size_of(held) + size_of(kept)
        assert fifo.sizes.count == len(ready) + len(held) + len(waiting) + len(kept)
        assert fifo.dropped == model.dropped
        assert fifo.next_message == model.next_number
        assert fifo.blocked == model.blocked
        assert fifo.next_expiry() == model.next_expiry()

    @invariant()
    def consumers_are_the_same(self) -> None:
        """So is what consumers hold, and how much more they may be given."""
        model, fifo = self.model, self.machine.fifo
        assert [int(each) for each in fifo.consumers] == list(model.consumers)
        for known in model.consumers.values():
            consumer = fifo.consumers[known.id]
            found = {
                int(run.key) + at: (int(run.first) + at, int(run.acquired), int(run.failed))
                for run in consumer.holding()
                for at in range(int(run.count))
            }
            assert found == {
                mid: (message.number, message.acquired, message.failed)
                for mid, (message, _) in known.held.items()
            }
            assert consumer.active == known.active
            assert consumer.suspected == known.suspected
            if known.active:
                assert consumer.credit == known.credit
                assert 0 <= known.credit <= known.prefetch
                standing = [
                    reference.SERVED, reference.WAITING, reference.QUIESCING, reference.TIMED_OUT,
                ][int(consumer.standing)]  # fmt: skip
                assert standing == known.standing
        line = [consumer.id for consumer in fifo.service.order()]
        by_priority = sorted(model.line, key=lambda each: -each.priority)
        assert line == [consumer.id for consumer in by_priority]

    @invariant()
    def the_rules_hold(self) -> None:
        """What no command may break, said without the reference's own ways."""
        fifo = self.machine.fifo
        config = fifo.config
        if not config.rejects and config.max_length >= 0:
            assert fifo.ready.count + fifo.delayed.count <= config.max_length
        if not config.rejects and config.max_bytes >= 0:
            assert fifo.ready.bytes + fifo.delayed.bytes <= config.max_bytes
        if fifo.single is not None:
            served = [each for each in fifo.consumers.values() if each.active and each.willing()]
            assert len(served) <= 1
        if fifo.ready.count > 0:
            assert not any(consumer.room() > 0 for consumer in fifo.consumers.values())

    @invariant()
    def twins(self) -> None:
        """Snapshots and entries behind them give what all entries give."""
        assert self.machine.fifo.encode() == self.twin.fifo.encode()


def said(reply: Reply) -> object:
    """What the answer to a question says."""
    if isinstance(reply, PurgeReply):
        return int(reply.count)
    assert isinstance(reply, PollReply)
    found = reply.delivery
    if found is None:
        return None
    assert found.count == 1
    told = (found.consumer.id, found.mid, found.first, found.acquired, found.failed)
    return tuple(map(int, told))


def size_of(messages: list[Message]) -> int:
    """The bytes of messages."""
    return sum(message.size for message in messages)
