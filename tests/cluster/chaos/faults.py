"""What goes wrong, one thing at a time."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable

from tests.clients.support import eventually
from tests.cluster.chaos.lab import HEALED_S, Lab
from tests.cluster.nodes import Node, wait_s
from warren.versions import NEWEST, OLDEST

LEADER_SHARE = 0.5
OLDER = ("--set", f"cluster.version_max={OLDEST}")
"""Makes a node what an older release is to the others."""


class Fault:
    """A kind of fault.

    Args:
        lab: Where.
        dice: Draws victims and times.
        seconds_max: The longest that a node stands still.
    """

    options: tuple[str, ...] = ()
    """With which the nodes start at first."""

    def __init__(self, lab: Lab, dice: random.Random, seconds_max: float) -> None:
        self.lab, self.dice, self.seconds_max = lab, dice, seconds_max

    def over(self) -> None:
        """Look at what it all should have come to."""

    def strike(self, leader: Node) -> tuple[str, Callable[[], None]]:
        """Begin; gives what was done, and how to end it."""
        raise AssertionError("a fault defines strike")

    def victim(self, leader: Node) -> Node:
        """The leader half of the time, else any other node."""
        if self.dice.random() < LEADER_SHARE:
            return leader
        return self.dice.choice(self.lab.cluster.others(leader))


class Kill(Fault):
    """`kill -9`, of the leader at first, and another start after a moment."""

    def __init__(self, lab: Lab, dice: random.Random, seconds_max: float) -> None:
        super().__init__(lab, dice, seconds_max)
        self._killed = 0

    def strike(self, leader: Node) -> tuple[str, Callable[[], None]]:
        """Kill a node."""
        node = self.victim(leader)
        if not self._killed:
            # Few faults are to change the leader, too.
            node = leader
        self._killed += 1
        node.broker.kill()
        seconds = self.dice.uniform(0.0, 3.0)

        def restart() -> None:
            wait_s(seconds)
            # The cluster has to be whole soon after; nobody waits for this node alone.
            node.broker.launch()

        return f"kill {node.name}{' (leader)' if node is leader else ''}", restart


class Stop(Fault):
    """SIGSTOP of the leader for 1 s or more, short times more often than long ones."""

    def strike(self, leader: Node) -> tuple[str, Callable[[], None]]:
        """Stop it."""
        seconds = self.seconds_max ** self.dice.random()
        os.kill(leader.broker.pid, signal.SIGSTOP)
        self.lab.frozen.add(leader.name)

        def go_on() -> None:
            try:
                wait_s(seconds)
            finally:
                os.kill(leader.broker.pid, signal.SIGCONT)
                self.lab.frozen.discard(leader.name)

        return f"stop {leader.name} for {seconds:.1f} s", go_on


class Cut(Fault):
    """The network falls apart: into halves, into a ring, or one way only."""

    def __init__(self, lab: Lab, dice: random.Random, seconds_max: float) -> None:
        super().__init__(lab, dice, seconds_max)
        self._cycle = 0

    def strike(self, leader: Node) -> tuple[str, Callable[[], None]]:
        """Cut links."""
        shape = (self._halves, self._ring, self._one_way)[self._cycle % 3]
        self._cycle += 1
        what, pairs = shape(self.lab.place(leader))
        for sender, receiver in pairs:
            self.lab.net.cut(sender, receiver)
        seconds = self.dice.uniform(1.0, max(1.0, min(self.seconds_max, 6.0)))

        def heal() -> None:
            wait_s(seconds)
            self.lab.net.heal()

        return f"{what} for {seconds:.1f} s", heal

    def _places(self) -> list[int]:
        places = list(range(1, len(self.lab.cluster.nodes) + 1))
        self.dice.shuffle(places)
        return places

    def _halves(self, leader: int) -> tuple[str, list[tuple[int, int]]]:
        """A majority and the rest, with the leader among the rest half of the time."""
        places = self._places()
        if self.dice.random() < LEADER_SHARE:
            places.remove(leader)
            places.insert(0, leader)
        size = len(places) // 2
        few, many = places[:size], places[size:]
        pairs = [pair for a in few for b in many for pair in ((a, b), (b, a))]
        return f"halves {sorted(few)} and {sorted(many)}", pairs

    def _ring(self, leader: int) -> tuple[str, list[tuple[int, int]]]:
        """Each node sees its two neighbours; of three nodes, two see only the third."""
        places = self._places()
        size = len(places)
        if size == 3:
            return f"bridge {places[0]}", [(places[1], places[2]), (places[2], places[1])]
        pairs = [
            (places[a], places[b])
            for a in range(size)
            for b in range(size)
            if a != b and (a - b) % size not in (1, size - 1)
        ]
        return f"ring {places}", pairs

    def _one_way(self, leader: int) -> tuple[str, list[tuple[int, int]]]:
        """What one node says, or what it is told, is lost."""
        victim = leader if self.dice.random() < LEADER_SHARE else self._places()[0]
        others = [place for place in self._places() if place != victim]
        if self.dice.random() < 0.5:
            return f"{victim} unheard", [(victim, other) for other in others]
        return f"{victim} deaf", [(other, victim) for other in others]


class Upgrade(Fault):
    """One node after the other gets a newer release; the leader's is the second."""

    options = OLDER

    def __init__(self, lab: Lab, dice: random.Random, seconds_max: float) -> None:
        super().__init__(lab, dice, seconds_max)
        self._older = list(lab.cluster.nodes)

    def strike(self, leader: Node) -> tuple[str, Callable[[], None]]:
        """End a node of the older release, most of the time in good order."""
        assert self._versions() == {OLDEST}
        others = [node for node in self._older if node is not leader]
        node = (
            leader if len(self._older) < len(self.lab.cluster.nodes) else self.dice.choice(others)
        )
        if node not in self._older:
            node = self._older[0]
        self._older.remove(node)
        kills = self.dice.random() < 0.3
        if kills:
            node.broker.kill()
        else:
            node.broker.stop()

        def start() -> None:
            at = node.broker.options.index(OLDER[1]) - 1
            del node.broker.options[at : at + len(OLDER)]
            node.broker.launch()

        return f"upgrade {node.name}{' after a kill' if kills else ''}", start

    def over(self) -> None:
        """All have moved up, and no node goes back."""
        eventually(lambda: self._versions() == {NEWEST}, HEALED_S)
        node = self.lab.cluster.nodes[0]
        node.broker.stop()
        node.broker.options += OLDER
        node.broker.launch()
        node.says(f"this node knows versions up to {OLDEST}")
        node.broker.kill()
        del node.broker.options[-len(OLDER) :]
        node.broker.start()

    def _versions(self) -> set[int]:
        """The cluster version as each node sees it that answers."""
        seen = [self.lab.status(node) for node in self.lab.cluster.nodes]
        return {status["cluster_version"] for status in seen if status is not None}


KINDS: dict[str, type[Fault]] = {"kill": Kill, "stop": Stop, "cut": Cut, "upgrade": Upgrade}
