"""Deletions over connections that are cut: the simulator knows when they may still be done."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from sim.model import QueueState, Violation
from sim.world import World
from warren.metadata.commands import DeleteQueue

OPERATIONS = 300
RUNS = 8
STANDSTILL_STEPS = 300
ASKED_STEP = 400

Step = Callable[[World, QueueState], bool]


def runs(monkeypatch: pytest.MonkeyPatch, step: Step) -> list[str]:
    """Run seeds with a queue that clients delete, until in `RUNS` of them `step` came to act.

    Args:
        step: Called before each step until it is True.

    Returns:
        What was complained of.
    """
    complaints: list[str] = []
    original = World.step
    struck = 0
    for seed in count(1):
        world = World(seed, OPERATIONS)
        queues = [queue for queue in world.queues if queue.volatile]
        if not queues:
            continue
        done = False

        def each(self: World, queue: QueueState = queues[0]) -> None:
            nonlocal done
            done = done or (self.node is not None and step(self, queue))
            original(self)

        monkeypatch.setattr(World, "step", each)
        try:
            world.run()
        except Violation as violation:
            complaints.append(f"seed {seed}: {violation}")
        struck += done
        if struck == RUNS:
            break
    return complaints


def test_a_deletion_may_be_done_long_after_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk stands still, and with it what a client had written down that is gone."""

    def cut(world: World, queue: QueueState) -> bool:
        node = world.entry()
        if not queue.is_being_deleted() or not node.store.submitted():
            return False
        world.stalled_until = world.step_number + STANDSTILL_STEPS
        for connection in world.connections:
            if connection.name == "a":
                world.disconnect(connection)
                return True
        return False

    assert runs(monkeypatch, cut) == []


def test_a_queue_that_goes_unasked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator sees it whether messages were in the queue or not."""

    def delete(world: World, queue: QueueState) -> bool:
        node = world.entry()
        vhost = node.metadata.vhosts.get("/")
        record = None if vhost is None else vhost.queues.get(queue.name)
        if record is None or queue.is_being_deleted() or world.step_number < ASKED_STEP:
            return False
        node.store.submit(DeleteQueue("/", queue.name, record.group_id, True), None)
        return True

    complaints = runs(monkeypatch, delete)
    assert len(complaints) > RUNS // 2
    assert all("not deleted" in each or "came back" in each for each in complaints), complaints
