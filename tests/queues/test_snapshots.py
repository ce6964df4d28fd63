"""A machine that was there all the time, and ones restored from its snapshots, are the same.

Random entries, with several commands each, go to a quorum queue's machine, to one that is restored
from its snapshot before each of them, and to one that was restored at some time and has gone on
since. All have to do and to answer the same, and have to have the same snapshot again. There is no
model here, so anything may come: settings change while consumers are there, ids are used twice,
readers call with epochs that are over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from tests.queues.entries import Machine, column_of, fields_of
from tests.support.examples import chosen, examples
from warren.ids import consumer_of
from warren.queues.fifo import commands
from warren.queues.fifo.effects import (
    AcquireReply,
    FencedReply,
    GoneReply,
    LeaseReply,
    PollReply,
    PurgeReply,
    Reply,
)

Write = Callable[[BytesWriter], None]
Values = dict[str, Any]

POLLS = 900
"""What the ids of consumers that poll have more, unless it is one that is served."""

PARTS_MAX = 200
"""So many further entries are more than enough for what one brings about."""

MS = st.sampled_from([0, 1, 5, 10, 60, 300])
LIMIT = st.sampled_from([-1, -1, 0, 1, 5])
TIMEOUT = st.sampled_from([-1, 10, 10, 200])
WHO = st.integers(0, 5)
FEW = st.integers(0, 3)
GROUP = st.sampled_from(["g", "h"])
RETRY = st.tuples(
    st.sampled_from(["disabled", "all", "failed", "returned"]),
    st.integers(1, 9),
    st.integers(1, 30),
)

SETTINGS = st.one_of(
    st.just({"single_active": True}),
    st.just({"single_active": True}),
    st.just({"failures": True}),
    st.fixed_dictionaries({"ranking": st.sampled_from(["fair", "strict"])}),
    st.fixed_dictionaries({"delivery_limit": st.sampled_from([-1, 0, 2])}),
    st.fixed_dictionaries({"max_length": LIMIT, "max_bytes": st.sampled_from([-1, -1, 30])}),
    st.fixed_dictionaries({"rejects": st.booleans()}),
    st.fixed_dictionaries({"message_ttl": st.sampled_from([-1, 0, 10])}),
    st.fixed_dictionaries({"expires": st.sampled_from([-1, 100])}),
    st.fixed_dictionaries({"retry": RETRY}),
    st.fixed_dictionaries(
        {"dead_letters": st.sampled_from(["forgotten", "at-most-once", "at-least-once"])}
    ),
)

COMMANDS = st.one_of(
    st.tuples(st.just("attach"), WHO, st.integers(1, 4), st.sampled_from([0, 0, 5]), TIMEOUT),
    st.tuples(st.just("attach_auto"), WHO, st.integers(1, 4), st.sampled_from([0, 0, 5])),
    st.tuples(st.sampled_from(["cancel", "down"]), WHO),
    st.tuples(
        st.sampled_from(["settle", "return", "discard", "reject", "fail"]),
        WHO,
        FEW,
        st.integers(0, 5),
    ),
    st.tuples(st.just("settle"), WHO, st.just(0), st.just(9)),
    st.tuples(st.just("get"), WHO, TIMEOUT, st.sampled_from([True, True, False])),
    st.tuples(st.just("pick"), WHO, TIMEOUT, st.integers(0, 9)),
    st.tuples(st.sampled_from(["purge", "doubt", "go_on", "time_out", "time_out"])),
    st.tuples(st.just("delivered"), FEW, FEW),
    st.tuples(st.just("free"), st.integers(0, 9), FEW),
    st.tuples(st.sampled_from(["suspect", "trust"]), st.integers(1, 2)),
    st.tuples(st.just("acquire"), GROUP, st.sampled_from([0, 10]), st.booleans()),
    st.tuples(st.just("checkout"), GROUP, FEW, st.integers(1, 4)),
    st.tuples(st.sampled_from(["group_settle", "retake"]), GROUP, FEW),
    st.tuples(st.sampled_from(["group_release", "group_delete"]), GROUP),
    st.tuples(st.just("expire"), GROUP),
    st.tuples(st.just("config"), SETTINGS),
)

ENTRIES = st.one_of(
    st.tuples(
        st.just("enqueue"),
        st.lists(
            st.tuples(st.integers(0, 9), st.sampled_from([0, 4, 5, 9])), min_size=1, max_size=5
        ),
        st.sampled_from([-1, -1, -1, 0, 10]),
        st.sampled_from([0, 0, 2]),
    ),
    st.tuples(st.just("commands"), st.lists(COMMANDS, min_size=1, max_size=4)),
    st.tuples(st.just("commands"), st.lists(COMMANDS, min_size=1, max_size=4)),
    st.tuples(st.just("commands"), st.lists(COMMANDS, min_size=1, max_size=4)),
    st.tuples(st.just("close"), st.integers(1, 2), st.booleans()),
    st.tuples(st.just("restore")),
)


class Lives:
    """One machine that lives through everything, and what is restored from its snapshots.

    Attributes:
        all_along: The one that was there all the time.
        since: One that was restored at some time.
        now_ms: The time of the log.
    """

    def __init__(self, hand_out_max: int, return_max: int, part_runs: int) -> None:
        self.all_along = Machine(False)
        self.all_along.bound(hand_out_max, return_max, part_runs)
        self.since = self.restored()
        self.now_ms = 1_000

    def restored(self) -> Machine:
        """One more machine, from the snapshot of now."""
        machine = Machine(False)
        state = self.all_along.fifo.encode()
        machine.fifo = self.all_along.fifo.anew()
        machine.fifo.restore(state)
        assert machine.fifo.encode() == state
        return machine

    def entry(self, do: Callable[[Machine], object]) -> None:
        """All have an entry, and those behind it that finish what it began."""
        for _ in range(PARTS_MAX):
            fifo = self.all_along.fifo
            self._part(do)
            if not (fifo.unfinished() or self.all_along.is_due(self.now_ms)):
                return
            do = self._go_on
        raise AssertionError("it does not come to an end")

    def _go_on(self, machine: Machine) -> object:
        return self._answer(machine, [commands.go_on])

    def _part(self, do: Callable[[Machine], object]) -> None:
        machines = [self.all_along, self.since, self.restored()]
        did: list[tuple[object, ...]] = []
        for machine in machines:
            answer = do(machine)
            machine.dispatch()
            told = (machine.deliveries, sorted(machine.died), machine.told, sorted(machine.freed()))
            did.append((answer, *told, bool(machine.fifo.blocked)))
            machine.forget()
        states = [machine.fifo.encode() for machine in machines]
        assert did[1] == did[0] and states[1] == states[0], "one that was restored some time ago"
        assert did[2] == did[0] and states[2] == states[0], "one that was restored just now"

    # --- entries --------------------------------------------------------------------------------

    def enqueue(self, each: list[tuple[int, int]], life_ms: int, failed: int) -> None:
        """Messages arrive."""
        first = int(self.all_along.fifo.next_message)
        facts = column_of([*each], failed)
        self.entry(lambda machine: machine.enqueue(first, facts, len(each), life_ms, self.now_ms))

    def close(self, session: int, lost: bool) -> None:
        """A session is over."""
        self.entry(lambda machine: machine.close(session, lost, self.now_ms))

    def restore(self) -> None:
        """Have another one go on that is restored now."""
        self.since = self.restored()

    def commands(self, drawn: list[tuple[Any, ...]]) -> None:
        """Several commands come in one entry."""
        writes = [getattr(self, f"write_{name}", self.write_plain(name))(*v) for name, *v in drawn]
        self.entry(lambda machine: self._answer(machine, writes))

    def _answer(self, machine: Machine, writes: list[Write]) -> object:
        out = BytesWriter()
        for write in writes:
            write(out)
        return said(machine.run(out.getvalue(), self.now_ms))

    # --- commands -------------------------------------------------------------------------------

    @staticmethod
    def write_plain(name: str) -> Callable[..., Write]:
        """A command with fields that are as they were drawn."""
        write = getattr(commands, name, None)
        return lambda *fields: lambda out: write(out, *fields)  # type: ignore[misc]

    @staticmethod
    def who(at: int) -> int:
        """The id of a consumer: of one of two sessions, whether it is there or not."""
        return consumer_of(1 + at % 2, 1 + at // 2)

    def ids(self, at: int, first: int, count: int) -> tuple[int, int, int]:
        """A consumer, and message ids about those that it holds."""
        consumer = self.all_along.fifo.consumers.get(self.who(at))
        lowest = 0 if consumer is None else max(int(consumer.first_held()), 0)
        return self.who(at), lowest + first, lowest + first + count

    def write_attach(self, at: int, credit: int, priority: int, timeout_ms: int) -> Write:
        """A consumer that may hold messages for so long, or for ever."""
        who = self.who(at)
        if timeout_ms < 0:
            return lambda out: commands.attach(out, who, credit, priority)
        return lambda out: commands.attach_timed(out, who, credit, priority, timeout_ms)

    def write_attach_auto(self, at: int, credit: int, priority: int) -> Write:
        """A consumer with automatic acknowledgement."""
        return lambda out: commands.attach(out, self.who(at), credit, priority, True)

    def write_cancel(self, at: int) -> Write:
        """A consumer wants no more."""
        return lambda out: commands.cancel(out, self.who(at))

    def write_down(self, at: int) -> Write:
        """A consumer is gone."""
        return lambda out: commands.down(out, self.who(at))

    def write_settle(self, at: int, first: int, count: int) -> Write:
        """Messages are done with."""
        ids = self.ids(at, first, count)
        return lambda out: commands.settle(out, *ids)

    def write_return(self, at: int, first: int, count: int, failed: bool = False) -> Write:
        """Messages go back."""
        ids = self.ids(at, first, count)
        return lambda out: commands.return_(out, *ids, failed)

    def write_fail(self, at: int, first: int, count: int) -> Write:
        """They do since they could not be worked on."""
        return self.write_return(at, first, count, True)

    def write_discard(self, at: int, first: int, count: int, failed: bool = False) -> Write:
        """Messages are rejected for good."""
        ids = self.ids(at, first, count)
        return lambda out: commands.discard(out, *ids, failed)

    def write_reject(self, at: int, first: int, count: int) -> Write:
        """They are, and that counts as a failure."""
        return self.write_discard(at, first, count, True)

    def write_get(self, at: int, timeout_ms: int, apart: bool = True) -> Write:
        """A channel polls, under an id of its own or, as no node has it, a consumer's."""
        who = self.who(at) + (POLLS if apart else 0)
        if timeout_ms < 0:
            return lambda out: commands.get(out, who)
        return lambda out: commands.get_timed(out, who, timeout_ms)

    def write_pick(self, at: int, timeout_ms: int, back: int) -> Write:
        """A channel asks for one message of those that came last."""
        number = max(int(self.all_along.fifo.next_message) - 1 - back, 0)
        return lambda out: commands.pick(out, self.who(at) + POLLS, number, timeout_ms)

    def write_delivered(self, skipped: int, count: int) -> Write:
        """Dead letters are where they belong."""
        run, _ = self.all_along.fifo.discards.from_death(0)
        first = (0 if run is None else int(run.key)) + skipped
        return lambda out: commands.delivered(out, first, first + count)

    def write_free(self, back: int, count: int) -> Write:
        """No copy has some of the messages that came last."""
        first = max(int(self.all_along.fifo.next_message) - 1 - back, 0)
        return lambda out: commands.free(out, first, first + count)

    def write_config(self, values: Values) -> Write:
        """Settings change."""
        return lambda out: commands.config(out, fields_of(**values))

    def group(self, name: str) -> tuple[int, int, int]:
        """A group's epoch, its last checkout, and when it last called."""
        group = self.all_along.fifo.groups.get(name)
        return (0, 0, 0) if group is None else (group.epoch, group.last, group.seen_ms)

    def write_acquire(self, name: str, lease_ms: int, kept: bool) -> Write:
        """A reader takes a group over."""
        return lambda out: commands.acquire(out, name, lease_ms, kept)

    def write_checkout(self, name: str, back: int, rows: int) -> Write:
        """A reader takes messages, or asks again for what it took."""
        epoch, last, _ = self.group(name)
        return lambda out: commands.checkout(out, name, epoch, max(last - back, 0), rows, -1)

    def write_group_settle(self, name: str, back: int) -> Write:
        """A reader is done with checkouts."""
        epoch, last, _ = self.group(name)
        return lambda out: commands.group_settle(out, name, epoch, last - back)

    def write_group_release(self, name: str) -> Write:
        """A reader gives all back."""
        epoch = self.group(name)[0]
        return lambda out: commands.group_release(out, name, epoch)

    def write_retake(self, name: str, back: int) -> Write:
        """A reader asks for what its lease ran out with."""
        epoch, last, _ = self.group(name)
        return lambda out: commands.retake(out, name, epoch, last - back)

    def write_expire(self, name: str) -> Write:
        """A lease ran out."""
        seen_ms = self.group(name)[2]
        return lambda out: commands.expire(out, name, seen_ms)


def said(reply: Reply) -> object:
    """All that an answer says."""
    if isinstance(reply, PollReply):
        found = reply.delivery
        told = None
        if found is not None:
            told = (found.consumer.id, found.mid, found.first, found.acquired, found.failed)
        return reply.code, reply.left, told
    if isinstance(reply, PurgeReply):
        return reply.code, reply.count
    if isinstance(reply, AcquireReply):
        return reply.code, reply.epoch, reply.settled
    if isinstance(reply, FencedReply):
        return reply.code, reply.epoch
    if isinstance(reply, LeaseReply):
        lease = reply.checkout
        rows = None if lease is None else lease.messages.pairs()
        opened_ms = None if lease is None else lease.opened_ms
        return reply.code, reply.number, reply.count, rows, opened_ms
    if isinstance(reply, GoneReply):
        return reply.code, reply.gone
    return reply.code


@pytest.mark.rule("QQ-18")
@settings(max_examples=examples(chosen(150, 400)))
@given(
    bounds=st.sampled_from([(1, 1, 1), (3, 2, 3), (4_096, 4_096, 8_192), (4_096, 4_096, 8_192)]),
    first=st.lists(SETTINGS, max_size=3),
    history=st.lists(st.tuples(MS, ENTRIES), min_size=25, max_size=60),
)
def test_restored_machines_go_on_as_the_one_that_was_there(
    bounds: tuple[int, int, int], first: list[Values], history: list[tuple[int, tuple[Any, ...]]]
) -> None:
    lives = Lives(*bounds)
    for values in first:
        lives.commands([("config", values)])
    for passed_ms, (name, *values) in history:
        lives.now_ms += passed_ms
        getattr(lives, name)(*values)


def test_a_group_that_is_to_remember_no_leases_forgets_those_that_ran_out() -> None:
    """Whoever took it over last knew of no such thing; a snapshot has none of them either."""
    lives = Lives(4_096, 4_096, 8_192)
    lives.enqueue([(1, 4)] * 3, -1, 0)
    lives.commands([("acquire", "g", 10, True), ("go_on",)])
    lives.commands([("checkout", "g", 0, 2)])
    lives.now_ms += 60
    lives.commands([("expire", "g")])
    lives.commands([("acquire", "g", 0, False)])
    lives.restore()
    lives.commands([("retake", "g", 0)])
    assert lives.all_along.fifo.held_count() == 0


def test_who_polls_under_the_id_of_the_active_consumer_is_active_no_more() -> None:
    lives = Lives(4_096, 4_096, 8_192)
    lives.commands([("config", {"single_active": True})])
    lives.commands([("attach", 0, 1, 0, -1), ("attach", 2, 1, 0, -1)])
    lives.enqueue([(1, 4)] * 3, -1, 0)
    lives.commands([("get", 0, -1, False)])
    lives.commands([("settle", 0, 0, 9)])
    fifo = lives.all_along.fifo
    assert [(int(each.id), int(each.held)) for each in fifo.consumers.values()] == [
        (lives.who(2), 1)
    ]


def test_one_at_a_time_is_served_from_any_point_of_a_history_on() -> None:
    """Consumers wait, have cancelled, hold too much for too long, or are of a node that is lost."""
    before: list[tuple[int, tuple[Any, ...]]] = [
        (0, ("commands", [("attach", 0, 2, 0, 10), ("attach", 1, 3, 5, -1)])),
        (0, ("enqueue", [(1, 4)] * 7, -1, 0)),
        (0, ("commands", [("attach", 2, 2, 0, 10), ("attach", 4, 4, 0, -1)])),
        (0, ("commands", [("settle", 1, 0, 0), ("cancel", 4)])),
        (60, ("commands", [("time_out",)])),
        (0, ("commands", [("suspect", 2)])),
        (0, ("commands", [("settle", 0, 0, 9), ("fail", 2, 0, 0)])),
        (0, ("commands", [("trust", 2)])),
        (0, ("enqueue", [(1, 4)] * 3, -1, 0)),
        (0, ("commands", [("settle", 0, 0, 9), ("settle", 1, 0, 9), ("settle", 2, 0, 9)])),
        (0, ("close", 1, False)),
        (0, ("enqueue", [(1, 4)] * 3, -1, 0)),
    ]
    for at in range(len(before)):
        lives = Lives(4_096, 4_096, 8_192)
        for number, (passed_ms, (name, *values)) in enumerate(before):
            lives.now_ms += passed_ms
            if number == at:
                lives.commands([("config", {"single_active": True})])
                lives.restore()
            getattr(lives, name)(*values)
        served = [each for each in lives.all_along.fifo.consumers.values() if each.willing()]
        assert len(served) <= 1
