"""What a cluster's run is like, beside what `sim.swarm` draws for its clients and disks."""

from __future__ import annotations

from random import Random
from typing import Final, final

from sim.cluster.schedule import MS
from sim.swarm import DISK_FAILS, FAILING_SHARE, LATER_SHARE

KILL = "kill"
"""A process stops; what it wrote stays."""
POWER = "power"
"""A machine stops: what was not synced is lost, torn, reordered."""
POWER_IN_CALL = "power-in-call"
"""The same within a call to the disk."""
BLACKOUT = "blackout"
"""Several machines stop at once."""
STOP = "stop"
"""An orderly stop."""
PARTITION = "partition"
"""Some directions between nodes bring nothing for a while."""
CUT = "cut"
"""One link breaks."""
PAUSE = "pause"
"""A process stands still for a while."""
LOSE = "lose"
"""A client's connection is cut."""
DEAF = "deaf"
"""A client does not read for a while."""
SYNC_FAILS = "sync-fails"
"""A sync fails; the node has to stop."""
FULL = "full"
"""A disk is full for a while."""
CLOCK = "clock"
"""A wall clock jumps."""
REPLACE = "replace"
"""A machine is lost for good: its node is forgotten, and a fresh one joins."""
ROT = "rot"
"""A bit of a closed file flips: the node may stop, but never lie; then it is replaced likewise."""
TRANSFER = "transfer"
"""An operator has another member lead a group."""
MEMBERS = "members"
"""An operator gives a node a vote in a queue, or takes it away."""
POLICY = "policy"
"""An operator says how many members queues are to have, or says no more about it."""

GARBLE = "garble"
"""A client's frame comes damaged; its connection has to end."""
STALL = "stall"
"""A disk stands still for a while."""
CRAWL = "crawl"
"""A disk is slow for a while."""
DAMAGE = "damage"
"""A bit flips in a message on its way between nodes; the link has to end."""
OUTLIVE = "outlive"
"""A member that a snapshot is sent to stands still, while its group gets another leader."""
RESTORE = "restore"
"""A machine's disk is put back to an older copy: its node has to begin anew."""

SPOIL = "spoil"
"""A disk loses what nobody can name: its node has to wait for the others, and to begin anew."""
WIPE = "wipe"
"""A disk loses everything: its node has to be forgotten before it may join under its name."""
VHOSTS = "vhosts"
"""An operator deletes a vhost with all that is in it, or makes it anew."""

FAULTS: Final = (
    KILL,
    POWER,
    POWER_IN_CALL,
    BLACKOUT,
    STOP,
    PARTITION,
    CUT,
    PAUSE,
    LOSE,
    DEAF,
    SYNC_FAILS,
    FULL,
    CLOCK,
    REPLACE,
    ROT,
    TRANSFER,
    MEMBERS,
    POLICY,
)


LATER_FAULTS: Final = (GARBLE, STALL, CRAWL, DAMAGE, OUTLIVE, RESTORE, SPOIL, WIPE, VHOSTS)
"""Drawn apart, as all that came later is: runs without it are what they were before."""

MANY_SHARE: Final = 0.06
"""Seven nodes and nine take long."""
WEAK_SHARE: Final = 0.15
FORCED_SHARE: Final = 0.2
AIMS_SHARE: Final = 0.5
"""Of the runs with bits that flip."""
FAR_SHARE: Final = 0.9
RECENT_BYTES: Final = 1 << 22
"""More than there ever is in a run."""


@final
class ClusterOptions:
    """The configuration of one run, as far as nodes and network are concerned.

    Attributes:
        size: Nodes.
        many: So many it is in a run with more than five; 0 in others.
        many_members: So many members a quorum queue has in such a run, at least.
        faults: Which kinds of trouble there are, with weights.
        fault_us: Mean time from one to the next.
        gap_us: Mean time from one thing that clients do to the next.
        delay_us, jitter_us: Of the network.
        turn_us, disk_us, io_us: Most time until a turn, a step of a disk, a step of a client.
        silence_us: After so long without an answer a link is given up.
        longest_us: Bound on partitions and pauses, and on how long a node stays down.
        group_size: Members that a quorum queue begins with; other nodes use it without holding it.
        tables_voters: Nodes that vote in the group of the tables; others learn.
        aims: Whether a bit that flips is one of a live message that is not in memory.
        far_share: How often a client connects to a node that holds no queue, where there is one.
        strands: Whether in the end a queue loses its only node for a while; nodes keep little then.
        weak: Whether in the end a disk goes bad that a queue of one or two voters is on.
        forced: Whether in the end an operator changes a queue's members by force.
        recent_bytes: So much of a group's newest entries its members keep in memory, for observers
            and other members.
        feed_reads: So often they read a disk for observers; these get a state where that is too
            little.
        reconcile_ms: How often nodes see to it that queues have as many members as they are to
            have; 0 for never.
    """

    def __init__(self, random: Random, seed: int) -> None:
        self._random = random
        self.size = random.choice((3, 3, 3, 5))
        self.faults = {name: random.randrange(1, 6) for name in FAULTS if random.random() < 0.4}
        self.fault_us = random.choice((30, 100, 300)) * MS
        self.gap_us = random.choice((2, 6, 15)) * MS
        self.delay_us = random.choice((100, 1_000, 5_000))
        self.jitter_us = random.choice((100, 2_000, 30_000))
        self.turn_us = random.choice((1, 200))
        self.disk_us = random.choice((100, 1_000, 10_000))
        self.io_us = random.choice((100, 2_000))
        self.silence_us = random.choice((1_500, 4_000, 10_000)) * MS
        self.longest_us = random.choice((300, 2_000, 6_000)) * MS
        self.reconcile_ms = random.choice((0, 500, 3_000))

        later = Random(f"{seed} later in clusters")
        for name in LATER_FAULTS:
            if later.random() < LATER_SHARE:
                self.faults[name] = 3
        if Random(f"{seed} failing disks").random() < FAILING_SHARE:
            self.faults[DISK_FAILS] = 5
        members = Random(f"{seed} members of queues")
        losing = {REPLACE, RESTORE, ROT, SPOIL, WIPE} & set(self.faults)
        self.group_size = 3 if losing else members.choice((1, 2, 3, 3))
        self.tables_voters = members.choice((3, 7))
        aims = Random(f"{seed} aims")
        self.aims = ROT in self.faults and aims.random() < AIMS_SHARE
        if self.aims:
            self.size = max(self.size, self.group_size + 1)
        self.far_share = FAR_SHARE if self.aims else 0.0
        many = Random(f"{seed} many nodes")
        self.many = many.choice((7, 9)) if many.random() < MANY_SHARE else 0
        self.many_members = many.choice((3, 5, 7))
        self.strands = Random(f"{seed} stranded queues").random() < LATER_SHARE
        self.weak = Random(f"{seed} weak groups").random() < WEAK_SHARE
        self.forced = Random(f"{seed} forced").random() < FORCED_SHARE
        recent = Random(f"{seed} recent entries")
        self.recent_bytes = recent.choice((RECENT_BYTES, RECENT_BYTES, 0, 500, 5_000))
        self.feed_reads = recent.choice((16, 2, 0, 0))

    def settle_size(self) -> int:
        """Say how many nodes and members there are from now on; the number of nodes."""
        if self.many:
            self.size = self.many
            self.group_size = max(self.group_size, self.many_members)
        return self.size

    def down_us(self) -> int:
        """How long a node stays down."""
        return self._random.randrange(10 * MS, self.longest_us)

    def pick(self, random: Random) -> str:
        """A kind of trouble; there has to be one."""
        return random.choices(list(self.faults), list(self.faults.values()))[0]

    def calm(self) -> None:
        """From now on nothing goes wrong."""
        self.faults = {}
        self.longest_us = 100 * MS

    def __str__(self) -> str:
        parts = []
        for name, value in sorted(vars(self).items()):
            if name != "_random":
                text = "+".join(value) or "none" if isinstance(value, dict) else value
                parts.append(f"{name}={text}")
        return " ".join(parts)
