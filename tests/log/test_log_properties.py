"""The log against a model: nothing persisted is lost or altered, nothing invented, order kept.

Hypothesis draws what the node does and where process, machine and disk fail; small sizes make files
roll over, die and be rewritten within a few dozen steps.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from sim.disk import Crash
from tests.log.driver import finish
from tests.log.model import World
from tests.log.replica import Replica
from tests.support.examples import examples


class LogMachine(RuleBasedStateMachine):
    """Steps of a node over a log on a faulty disk."""

    world: World

    @initialize(seed=st.integers(0, 2**32), groups=st.integers(1, 3), replicas=st.integers(0, 2))
    def begin(self, seed: int, groups: int, replicas: int) -> None:
        self.world = World(seed)
        for _ in range(groups):
            self.world.new_group()
        for _ in range(replicas):
            self.world.new_replica()

    def alive(self) -> bool:
        return self.world.failure is None

    def some_group(self, pick: int) -> int:
        groups = self.world.groups()
        return groups[pick % len(groups)] if groups else self.world.new_group()

    @precondition(alive)
    @rule(
        pick=st.integers(0, 5),
        sizes=st.lists(st.integers(0, 900), min_size=1, max_size=12),
        times=st.integers(1, 8),
    )
    def publish(self, pick: int, sizes: list[int], times: int) -> None:
        group_id = self.some_group(pick)
        for _ in range(times):
            self.world.publish(group_id, sizes)

    @precondition(alive)
    @rule(pick=st.integers(0, 5), share=st.sampled_from([0.1, 0.5, 0.9, 1.0]))
    def settle(self, pick: int, share: float) -> None:
        group_id = self.some_group(pick)
        live = sorted(self.world.machines[group_id].live)
        chosen = [n for n in live if self.world.random.random() < share]
        if chosen:
            self.world.settle(group_id, chosen)

    def some_replica(self, pick: int, usable: bool) -> Replica | None:
        found = [
            replica
            for _, replica in sorted(self.world.replicas.items())
            if not replica.dropping and replica.usable == usable
        ]
        return found[pick % len(found)] if found else None

    @precondition(alive)
    @rule(pick=st.integers(0, 5), count=st.integers(1, 8), received=st.booleans())
    def replicate(self, pick: int, count: int, received: bool) -> None:
        replica = self.some_replica(pick, True)
        if replica is not None:
            replica.append(count, received)

    @precondition(alive)
    @rule(pick=st.integers(0, 5))
    def truncate(self, pick: int) -> None:
        replica = self.some_replica(pick, True)
        if replica is not None:
            replica.truncate()

    @precondition(alive)
    @rule(pick=st.integers(0, 5), usable=st.booleans())
    def save_state(self, pick: int, usable: bool) -> None:
        replica = self.some_replica(pick, usable)
        if replica is not None:
            replica.save_state()

    @precondition(alive)
    @rule(pick=st.integers(0, 5), snapshot=st.booleans())
    def commit(self, pick: int, snapshot: bool) -> None:
        replica = self.some_replica(pick, True)
        if replica is not None:
            replica.advance()
            if snapshot:
                replica.take_snapshot()

    @precondition(alive)
    @rule(pick=st.integers(0, 5))
    def begin_read(self, pick: int) -> None:
        replica = self.some_replica(pick, True)
        if replica is not None:
            replica.begin_read()

    @precondition(alive)
    @rule(pick=st.integers(0, 5))
    def begin_install(self, pick: int) -> None:
        replica = self.some_replica(pick, True)
        if replica is not None:
            replica.begin_install()

    @precondition(alive)
    @rule(pick=st.integers(0, 5), how=st.integers(0, 9))
    def install(self, pick: int, how: int) -> None:
        replica = self.some_replica(pick, False)
        if replica is None:
            return
        if how == 0:
            replica.give_up()
        elif how == 1 or replica.offer is None:
            replica.begin_install()
        else:
            replica.go_on_installing()

    @precondition(alive)
    @rule(pick=st.integers(0, 5))
    def drop_replica(self, pick: int) -> None:
        replica = self.some_replica(pick, True)
        if replica is not None:
            self.world.drop(replica.group_id)
        self.world.new_replica()

    @precondition(alive)
    @rule()
    def flush(self) -> None:
        self.world.log.flush()

    @precondition(alive)
    @rule(count=st.integers(1, 10))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.world.executor.step()

    @precondition(alive)
    @rule(passed_ms=st.sampled_from([10, 60, 200]))
    def tick(self, passed_ms: int) -> None:
        self.world.tick(passed_ms)

    @precondition(alive)
    @rule()
    def answer_wanted(self) -> None:
        self.world.answer_wanted()

    @precondition(alive)
    @rule(pick=st.integers(0, 5))
    def take_snapshot(self, pick: int) -> None:
        self.world.take_snapshot(self.some_group(pick))

    @precondition(alive)
    @rule(pick=st.integers(0, 5))
    def drop(self, pick: int) -> None:
        self.world.drop(self.some_group(pick))
        self.world.new_group()

    @precondition(alive)
    @rule()
    def settle_down(self) -> None:
        self.world.settle_down()

    @precondition(alive)
    @rule()
    def check(self) -> None:
        self.world.check()

    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        self.world.restart(crash)
        self.world.check()

    @precondition(alive)
    @rule(calls=st.integers(0, 40))
    def crash_inside(self, calls: int) -> None:
        if self.world.step_into_crash(calls):
            self.world.restart(crash=True)
            self.world.check()

    @rule(calls=st.integers(0, 8))
    def crash_during_recovery(self, calls: int) -> None:
        self.world.disk.crash()
        self.world.disk.crash_after = calls
        try:
            self.world.start()
        except Crash:
            self.world.restart(crash=True)
        self.world.disk.crash_after = -1
        self.world.check()

    @precondition(alive)
    @rule(ahead=st.integers(1, 3))
    def fail_sync(self, ahead: int) -> None:
        self.world.disk.sync_fails_at = self.world.disk.syncs + ahead

    @precondition(alive)
    @rule()
    def fill_disk(self) -> None:
        disk = self.world.disk
        disk.capacity_bytes = disk.capacity_bytes - disk.free_bytes() + 2_048
        self.world.settle_down()
        # Old files may have died meanwhile and given space back.
        enough = disk.free_bytes() >= self.world.settings["disk_free_limit_bytes"]
        assert self.world.failure is not None or enough or self.world.log.full
        disk.capacity_bytes = 1 << 40
        self.world.settle_down()
        assert self.world.failure is not None or not self.world.log.full

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        finish(self.world)


LogMachine.TestCase.settings = settings(
    settings.default, max_examples=examples(40), stateful_step_count=40, deadline=None
)
TestLog = LogMachine.TestCase
