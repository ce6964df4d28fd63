"""What else there is in a cluster's run than its queues and their clients: what a seed may draw.

Each comes with clients of its own. What a machine that is lost for good would take with it is of
quorum queues there, or is left out.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from sim.cluster.swarm import CLOCK, RESTORE, ROT, SPOIL, VHOSTS
from sim.cluster.vhosts import Realms, add_realms
from sim.dead_letters import Letters, add_letters
from sim.delays import Delays, add_delays
from sim.expiring import Expiring, add_users
from sim.governed import Governed, add_governed
from sim.hops import Hops, add_hops
from sim.model import QueueState
from sim.rejecting import Spills, add_spills
from sim.replies import add_talks
from sim.short_lived import add_renewers
from sim.told import add_feed

if TYPE_CHECKING:
    from sim.cluster.world import ClusterWorld

MEMBERS_MIN: Final = 3
"""So many members that vote a queue keeps where a machine may be lost for good."""
CLASSIC_SHARE: Final = 0.5


def add_kinds(world: ClusterWorld) -> None:
    """Add all that the options of a run have, and its clients."""
    _add_renewers(world)
    _add_letters(world)
    _add_hops(world)
    _add_delays(world)
    _add_users(world)
    _add_spills(world)
    _add_governed(world)
    if world.options.replies:
        world.talks = add_talks(world, world.clients)
    _add_feed(world)
    _add_vhosts(world)


def _add_renewers(world: ClusterWorld) -> None:
    """Queues that are deleted and declared again, and clients that do so."""
    renewed: list[QueueState] = []
    for kind in world.options.renewed:
        if kind == "transient":
            renewed.append(QueueState("vt", "classic", False, True))
        elif kind == "classic" and {RESTORE, SPOIL} & set(world.faults.faults):
            # Nobody keeps what is known of it at the time of a copy, or can say what is left.
            continue
        elif kind == "classic" or world.voters_min() < MEMBERS_MIN:
            # What is declared while a node is down has too few members to lose one.
            renewed.append(QueueState(f"v{kind[0]}", kind, True, True))
    if renewed:
        add_renewers(world, world.clients, renewed)


def _add_letters(world: ClusterWorld) -> None:
    """A queue whose dead letters go to another one, and clients of both."""
    kind = world.options.letters
    if kind == "classic" and world.voters_min() == MEMBERS_MIN:
        # The machine that such a queue is on may be lost.
        kind = "quorum"
    if kind:
        # What a leader finds damaged when it is to go on is lost, at most once.
        sure = ROT not in world.faults.faults
        strict = CLOCK not in world.faults.faults
        source = world.options.letters_source
        if source == "classic" and world.voters_min() == MEMBERS_MIN:
            source = "quorum"
        random = Random(f"{world.seed} letters")
        world.letters = Letters(world, random, kind, source, sure, strict)
        add_letters(world, world.clients, world.letters)


def _add_hops(world: ClusterWorld) -> None:
    """Two queues each of which has the other one's dead letters, and clients of the first."""
    way = world.options.hops
    if way:
        once, rounds = way == "at-most-once", world.options.hops_rounds
        world.hops = Hops(world, Random(f"{world.seed} hops of"), once, rounds)
        add_hops(world, world.clients, world.hops)


def _add_delays(world: ClusterWorld) -> None:
    """An exchange whose messages wait, a queue that they come to, and clients of both."""
    kind = world.options.delays
    if kind == "classic" and world.voters_min() == MEMBERS_MIN:
        # As above.
        kind = "quorum"
    if kind:
        strict = CLOCK not in world.faults.faults
        world.delays = Delays(world, Random(f"{world.seed} delays of"), kind, strict)
        add_delays(world, world.clients, world.delays)


def _add_users(world: ClusterWorld) -> None:
    """A queue that goes when nobody uses it, unless the machine that it is on may be lost."""
    options = world.options
    if options.expiring and world.voters_min() < MEMBERS_MIN:
        strict = CLOCK not in world.faults.faults
        world.expiring = Expiring(world, options.expiring, options.expires_ms, strict)
        add_users(world, world.clients, world.expiring)


def _add_spills(world: ClusterWorld) -> None:
    """A full queue, and one for what it rejects, unless a machine may be lost."""
    if world.options.spills and world.voters_min() < MEMBERS_MIN:
        world.spills = Spills(world, world.options.spills, world.options.spills_most)
        add_spills(world, world.clients, world.spills)


def _add_governed(world: ClusterWorld) -> None:
    """A queue that policies change again and again, and those who use it and change them."""
    source = world.options.governed
    if source == "classic" and world.voters_min() == MEMBERS_MIN:
        source = "quorum"
    if world.options.governed_varies and world.voters_min() < MEMBERS_MIN:
        # In few runs it may be one.
        if Random(f"{world.seed} classic governed").random() < CLASSIC_SHARE:
            source = "classic"
    if source:
        faults = world.faults.faults
        random = Random(f"{world.seed} governed")
        sure, strict = ROT not in faults, CLOCK not in faults
        world.governed = Governed(world, random, source, "quorum", sure, strict)
        add_governed(world, world.clients, world.governed)


def _add_feed(world: ClusterWorld) -> None:
    """An events feed, whose queue stays where a machine is lost."""
    kind = world.options.told
    if kind == "classic" and world.voters_min() == MEMBERS_MIN:
        kind = "quorum"
    if kind:
        world.feed = add_feed(world, world.clients, kind)


def _add_vhosts(world: ClusterWorld) -> None:
    """Vhosts that are deleted and made anew, and clients of them."""
    faults = world.faults.faults
    if VHOSTS in faults:
        classic = world.voters_min() < MEMBERS_MIN
        world.realms = Realms(world, classic, ROT not in faults)
        add_realms(world, world.clients, world.realms)
