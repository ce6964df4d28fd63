"""Machines of classic and quorum queues against a queue that is nothing but its rules.

Random commands, changes of settings and steps of time go to a machine as they would lie in its log,
and to `reference`. Behind each entry both have to have done the same: who was handed what, what
died of what, whom publishers and clients are told of, and everything that is counted. At any point
the machine is replaced by one that is restored from its snapshot, or that of a classic queue by a
replay of what its log says; a twin that applied every entry has to be the same for ever after.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.queues import reference
from tests.queues.held import ACTS, FIRST, SESSION, Acts, Held, Step, acts_of
from tests.queues.reference import Message
from tests.support.examples import chosen, examples
from warren.queues.fifo import commands

RETRIES = st.sampled_from(["disabled", "all", "failed", "returned"])

OF_QUORUM: Acts = {
    "time_out": (3, (st.sampled_from([0, 5, 10, 200]),)),
    "count_failures": (1, ()),
    "rank": (1, (st.booleans(),)),
    "limit_deliveries": (1, (st.sampled_from([-1, 0, 0, 1, 3]),)),
    "expire_unused": (1, (st.sampled_from([-1, 100, 5_000]),)),
    "retry_later": (1, (RETRIES, st.integers(1, 20), st.integers(1, 60))),
    "delivered": (2, (FIRST, st.integers(1, 4))),
    "suspect": (2, (SESSION, st.booleans())),
    "close_session": (1, (SESSION, st.booleans())),
    "doubt": (1, ()),
    "submit_late": (1, (SESSION, SESSION)),
    "enqueue_failed": (1, (st.integers(1, 4), st.integers(1, 3))),
}
OF_CLASSIC: Acts = {
    "snapshot": (1, ()),
    "enqueue_transient": (1, (st.integers(1, 4),)),
    "restart": (1, ()),
    "reset": (1, ()),
}


class HeldQuorum(Held):
    """What only quorum queues have."""

    @rule(what=acts_of(ACTS | OF_QUORUM))
    def act(self, what: tuple[Any, ...]) -> None:
        """Something happens."""
        super().act(what)

    def set_up(self, ranked: int) -> None:
        """Whether it counts failures and has priorities, which a release before did not."""
        if ranked:
            self.count_failures()
            self.limit_deliveries(1)
        if ranked > 1:
            self.rank(ranked == 2)
        if ranked == 3:
            self.retry_later("all", 4, 10)

    def count_failures(self) -> None:
        """Failed deliveries count alone from now on."""
        self.change("failures", True, failures=True)

    def rank(self, fair: bool) -> None:
        """Messages go by their priorities from now on."""
        ranking = "fair" if fair else "strict"
        self.configure(lambda: self.model.rank(ranking), ranking=ranking)

    def limit_deliveries(self, limit: int) -> None:
        """What returns from now on may have failed so often."""
        self.change("delivery_limit", limit, delivery_limit=limit)

    def expire_unused(self, expires_ms: int) -> None:
        """The queue is to go when it was not used for so long."""

        def do() -> None:
            if self.model.settings.expires_ms < 0:
                self.model.used_ms = self.now_ms
            self.model.settings.expires_ms = expires_ms

        self.configure(do, expires=expires_ms)

    def retry_later(self, kind: str, least: int, most: int) -> None:
        """What returns from now on waits for so long."""

        def do() -> None:
            now = self.model.settings
            now.retry, now.retry_min_ms, now.retry_max_ms = kind, least, most

        self.configure(do, retry=(kind, least, most))

    def strategies(self) -> list[str]:
        """A quorum queue can keep them."""
        return [*super().strategies(), reference.AT_LEAST_ONCE]

    def delivered(self, skipped: int, count: int) -> None:
        """Some dead letters are where they belong."""
        first = min(self.model.dead, default=0) + skipped
        last = first + count - 1
        step = Step(
            lambda out: commands.delivered(out, first, last),
            lambda: self.model.delivered(first, last),
        )
        self.entry([step])

    def suspect(self, session: int, heard: bool) -> None:
        """Nobody hears a node, or it is heard again."""
        if heard:
            step = Step(lambda out: commands.trust(out, session), lambda: self.model.trust(session))
        else:
            step = Step(
                lambda out: commands.suspect(out, session), lambda: self.model.suspect(session)
            )
        self.entry([step])

    def close_session(self, session: int, lost: bool) -> None:
        """The session of a node is closed."""
        for machine in (self.machine, self.twin):
            machine.close(session, lost, self.now_ms)
        self.model.now_ms = self.now_ms
        self.model.close(session, lost)
        self.follow()

    def time_out(self, passed_ms: int) -> None:
        """What is held for too long is to return."""
        self.now_ms += passed_ms
        self.entry([Step(commands.time_out, self.model.time_out)])

    def enqueue_failed(self, count: int, failed: int) -> None:
        """Messages arrive that failed in other queues."""
        self.arrive([(7, None)] * count, -1, failed)

    def doubt(self) -> None:
        """A sole copy does not know any more what was handed out."""
        self.entry([Step(commands.doubt, self.model.doubt)])

    def submit_late(self, session: int, other: int) -> None:
        """A consumer of a session that is over does not come back in the next one."""
        step = self.attaching(2, 0, -1, False, session)
        if session != other:
            step = Step(step.write, lambda: None)
        self.entry([step], session=other)

    @invariant()
    def dead_letters_are_the_same(self) -> None:
        """Each is kept under its number, with what is told of it."""
        assert self.machine.deaths() == {
            death: (reason, message.number, failed)
            for death, (reason, message, failed) in self.model.dead.items()
        }

    @invariant()
    def use_is_the_same(self) -> None:
        """Since when nobody uses the queue, where that counts."""
        if self.model.settings.expires_ms >= 0:
            assert self.machine.fifo.unused_since() == self.model.unused_since()

    @invariant()
    def nobody_is_late_unseen(self) -> None:
        """The leader looks after locks before any is over."""
        until = self.model.locked_until()
        due = self.machine.fifo.locks_due
        assert due == 0 if not until and not due else (0 < due <= until or not until)


class HeldClassic(Held):
    """What only classic queues have: one node, that is killed and started again."""

    classic = True

    @rule(what=acts_of(ACTS | OF_CLASSIC))
    def act(self, what: tuple[Any, ...]) -> None:
        """Something happens."""
        super().act(what)

    def set_up(self, ranked: int) -> None:
        """It may have priorities."""
        if ranked:
            most = (0, 1, 5, 255)[ranked]
            self.model.settings.max_priority = most
            for machine in (self.machine, self.twin):
                machine.set_up(max_priority=most)
        else:
            for machine in (self.machine, self.twin):
                machine.set_up()

    def snapshot(self) -> None:
        """What the log has so far is a snapshot from now on."""
        for machine in (self.machine, self.twin):
            machine.write_durable()

    def enqueue_transient(self, count: int) -> None:
        """Messages arrive that do not outlive the process."""
        first = self.model.next_number
        for machine in (self.machine, self.twin):
            machine.transient(first, count)
        self.transient |= set(range(first, first + count))
        self.arrive([(7, None)] * count, -1)

    @property
    def transient(self) -> set[int]:
        """Their numbers."""
        return self.__dict__.setdefault("_transient", set())

    @transient.setter
    def transient(self, value: set[int]) -> None:
        self.__dict__["_transient"] = value

    def restart(self) -> None:
        """The node is killed, and replays the log."""
        for machine in (self.machine, self.twin):
            machine.replay(self.now_ms)
        there = set(self.machine.live())

        def lost(message: Message) -> bool:
            if message.number in self.transient or message.number in there:
                return message.number in self.transient
            # What was held expired on its way back when nobody was to be told, or need not be: at
            # most once, a dead letter may be lost with its node.
            assert 0 < message.expires_ms <= self.now_ms
            return True

        self.model.restart(lost)
        self.model.dropped = int(self.machine.fifo.dropped)
        self.model.now_ms = self.now_ms
        self.gone = len(self.model.gone)
        self.follow()

    def reset(self) -> None:
        """The node was stopped in order and started again."""
        step = Step(commands.reset, lambda: self.model.down(list(self.model.consumers)))
        self.entry([step])

    @precondition(lambda self: self.model.settings.max_priority == 0)
    @invariant()
    def places_are_kept(self) -> None:
        """What is ready is in the order in which it came, whatever came back."""
        numbers = [message.number for message in self.model.ready()]
        assert numbers == sorted(numbers)
        assert self.machine.ready() == numbers


RULES = ("ORD-08", "QL-02", "MET-04", "CQ-08", "QQ-11", "QQ-18", "PRI-06")
QUORUM_RULES = ("QL-04", "DL-09", "DL-15", "PRI-03", "PRI-04", "POI-02", "POI-11", "POI-12",
                "CT-13", "CT-15", "CT-16")  # fmt: skip

HOW = settings(max_examples=examples(chosen(80, 200)), stateful_step_count=chosen(40, 200))

TestClassic = pytest.mark.rule(*RULES)(HeldClassic.TestCase)
TestClassic.settings = HOW
TestQuorum = pytest.mark.rule(*RULES, *QUORUM_RULES)(HeldQuorum.TestCase)
TestQuorum.settings = HOW
