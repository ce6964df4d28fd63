"""A node to which nothing happens rests, and is roused by whatever does happen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from tests.clients.support import eventually
from tests.node.pair import Pair
from tests.support.broker import Broker
from warren.server.turns import NodeTurns

WAKES_MAX = 25
"""A second: ticks of the log alone were 20, of two rounds of the loop each."""


class Loop:
    """An event loop whose calls are made by hand."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Not while the test lasts."""


def test_what_happens_rouses_a_node_once_and_the_clock_does_not() -> None:
    loop = Loop()
    turns = NodeTurns(cast(Any, loop), lambda status: None, lambda: True, lambda: True)
    node = Pair().a.node
    turns.serve(node)
    roused: list[bool] = []

    def rouse() -> None:
        roused.append(True)

    assert turns.rest(rouse)
    turns.after_tick()
    assert turns.rest(rouse)
    assert not roused
    node.tick_log()
    turns.after_event()
    loop.calls.pop()()
    assert roused == [True]
    turns.after_jobs()
    assert roused == [True]
    assert not turns.rest(rouse)
    turns.after_jobs()
    assert roused == [True]
    assert not turns.rest(rouse)
    assert turns.rest(rouse)


def test_operators_give_way_to_turns_with_messages_and_not_to_the_nodes_own_work() -> None:
    loop = Loop()
    turns = NodeTurns(cast(Any, loop), lambda status: None, lambda: True, lambda: True)
    pair = Pair(alone=True)
    node = pair.a.node
    client = pair.a.client()
    client.declare("q")
    turns.serve(node)
    assert not turns.messages_wait()
    node.tick_log()
    turns.after_event()
    assert len(loop.calls) == 1 and not turns.messages_wait()
    client.publish("q", b"message")
    client.exchange()
    assert turns.messages_wait()
    while loop.calls:
        loop.calls.pop()()
    assert not turns.messages_wait()


def test_a_node_with_others_does_not_rest() -> None:
    pair = Pair()
    assert len(pair.a.node.metadata.nodes) == 2
    assert not pair.a.node.at_rest(1)


def wakes(pid: int) -> int:
    """How often the main thread of a process has waited for something."""
    for line in Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines():
        name, value = line.split(":")
        if name == "voluntary_ctxt_switches":
            return int(value)
    raise AssertionError("the kernel counts them")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="counted by Linux")
def test_an_idle_node_on_its_own_wakes_seldom(private_broker: Broker) -> None:
    if not private_broker.ours:
        pytest.skip("only of a process on this machine")

    def rests() -> bool:
        began, before = time.monotonic(), wakes(private_broker.pid)
        while time.monotonic() - began < 1:
            time.sleep(0.05)
        return wakes(private_broker.pid) - before < WAKES_MAX

    eventually(rests)
