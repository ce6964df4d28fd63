"""What a run is like, drawn from its seed: no two runs stress the same things.

Each kind of trouble and each way of settling is left out of about half of the runs, since a mixture
of everything reaches less than many lopsided ones do.
"""

from __future__ import annotations

from random import Random
from typing import final

SETTLINGS = ("ack", "multiple", "nack", "nack-multiple", "reject", "drop")

POWER = "power"
"""The machine stops: what was not synced is lost, torn, reordered."""
POWER_IN_CALL = "power-in-call"
"""The same within a call to the disk."""
KILL = "kill"
"""The process stops; what it wrote stays."""
STOP = "stop"
"""An orderly stop."""
LOSE = "lose"
"""A connection is cut."""
DEAF = "deaf"
"""A client does not read for a while."""
SYNC_FAILS = "sync-fails"
"""A sync fails; the node has to stop."""
FULL = "full"
"""The disk is full for a while."""
CLOCK = "clock"
"""The wall clock jumps, or the machine sleeps."""
MEMORY = "memory"
"""The process uses too much memory for a while."""

GARBLE = "garble"
"""A client's frame comes damaged; its connection has to end."""
STALL = "stall"
"""The disk stands still for a while."""
CRAWL = "crawl"
"""The disk is slow for a while."""

DISK_FAILS = "disk-fails"
"""Calls to the disk fail, once or for a while: the node has to stop, and is started again."""

TROUBLES = (POWER, POWER_IN_CALL, KILL, STOP, LOSE, DEAF, SYNC_FAILS, FULL, CLOCK, MEMORY)
LATER_TROUBLES = (GARBLE, STALL, CRAWL)
"""Drawn apart, as all that came later is: runs without it are what they were before."""
LATER_SHARE = 0.2
FAILING_SHARE = 0.4
KINDS_SHARE = 0.25
EXPIRING_SHARE = 0.5
"""Where a machine may be lost there is no queue that expires, which is so most of the time."""
OWN_LIMIT_SHARE = 0.25
ONCE_SHARE = 0.3
VARIES_SHARE = 0.8
EAGER_SHARE = 0.5
HOPS_SHARE = 0.12
TOLD_SHARE = 1 / 6
RENEWED = ("quorum", "classic", "transient")
"""Kinds of queues that are deleted and declared again, in clusters."""
PRIORITIES = (0, 3, 5, 9)
"""Of two levels, and within each of them."""
EDGE_BYTES = 30_000
"""Largest body in runs that try the limits."""
NAMES = {
    "q0": "q\u00e90",
    "q1": "qe\u03010",
    "c0": "c-\u043a\u0440\u043e\u043b\u0438\u043a0",
    "c1": "c-\U0001f407" * 28,
    "t": "t-\u517b\u5154\u573a",
    "v": "v\ufb01\u2126",
    "g": "\u0433\u0440\u0443\u043f\u043f\u0430\u00a0g",
}
"""Names beyond ASCII: two that look alike, a long one, and some that change when normalised."""


@final
class Options:
    """The configuration of one run. Shares are probabilities, sizes in bytes.

    Attributes:
        operations: Things that clients do before the run heals.
        troubles: Which kinds of trouble there are, with weights.
        trouble_share: Chance of trouble per step.
        settlings: Ways of settling, with weights.
        window: Unconfirmed publishes before a publisher waits.
        burst: Most publishes at a time.
        pace_ms: Most virtual milliseconds per step.
        prefetches: One of these is what a consumer has.
        delivery_limit: Of quorum queues.
        own_limit: Whether they are declared with it; else it is the nodes'.
        unicode: Whether names are beyond ASCII.
        edge_share: Share of messages whose size is near some limit.
        body_bytes_max: Largest body that the node takes; 0 for what it has by itself.
        exclusive: Whether connections have queues for themselves.
        renewed: Which of `RENEWED` there are.
        most: So many ready messages queues may have; they reject publishes beyond. -1 for no limit.
        most_bytes: So many bytes these may take; likewise.
        drops: Whether quorum queues drop their first messages instead.
        favours: Whether consumers have priorities.
        strict: Whether the highest priority always goes first in quorum queues.
        alternates: Whether what goes to several queues is published to an exchange that leads
            nowhere by itself.
        retry_ms: For how long what returns to quorum queues waits, for each failure; 0 for not at
            all.
        delays: Which kind of queue messages come to that waited; empty if there are none.
        priorities: One of these is what a message has; empty if messages have none.
        timeout_ms: How long consumers of quorum queues in clusters may hold a message; 0 for long.
        copies: Whether some publishers name further queues, as CC and BCC.
        replies: Whether some clients ask and are answered directly.
        expiring: Of which kind a queue is that goes when nobody uses it; empty if there is none.
        expires_ms: After what time it goes.
        spills: Which kind of queue they come to that another one has no room for; empty if there
            are none.
        spills_most: So many that other one may hold.
        eager: Whether readers of groups often rest until their lease is over, take checkouts again,
            give back, and delete their group, and have the first queue to themselves.
        eager_lease_ms: What these ask for.
        single_active: Whether a quorum queue in a cluster serves one consumer at a time.
        governed: Which kind of queue policies change again and again; empty if there is none.
        governed_varies: Whether these policies may say `reject-publish-dlx` and consumer timeouts.
        quits: Whether some clients close, and answer closes, in odd orders.
        hops: Whether messages die in one queue, and come back from another one; how they go,
            "at-most-once" or "at-least-once". Empty if they do not.
        hops_rounds: Whether they may go round with nobody rejecting them.
        told: Of which kind the queue of an events feed is; empty if there is no feed.
        told_most: So many blocks that queue may have; -1 for no limit.
        told_rejects: Whether it rejects those beyond, and does not drop its first ones.
        letters_ttl_ms: After what time what is to die expires, if nobody rejects it; 0 for never.
        letters: Which kind of queue dead letters of another one arrive in; empty if there are none.
        letters_source: Which kind of queue they die in.
        letters_lives: One of these is after what time a message to die expires by itself, 0 for
            never; empty if none does.
        letters_most: So many of them the queue may have; -1 for no limit.
        letters_change: Whether policies change what becomes of them.
        letters_once: Whether they arrive at most once.
        letters_limit: How often a delivery of what is to die may fail; negative for ever.
    """

    def __init__(self, random: Random, operations: int, seed: int) -> None:
        self.operations = operations
        self.troubles = self._some(random, TROUBLES, 0.5)
        self.trouble_share = random.choice((0.002, 0.005, 0.01))
        self.settlings = self._some(random, SETTLINGS, 0.5)
        if not {"ack", "multiple"} & set(self.settlings):
            self.settlings["ack"] = 5
        self.window = random.choice((5, 50, 500))
        self.burst = random.choice((1, 3, 10, 30))
        self.small_bytes = random.choice((20, 100, 400))
        self.large_bytes = random.choice((3_000, 9_000, 20_000))
        self.large_share = random.choice((0.0, 0.0, 0.02, 0.1))
        self.transient_share = random.choice((0.0, 0.0, 0.2, 0.5))
        self.close_share = random.choice((0.0, 0.01, 0.05))
        self.cancel_share = random.choice((0.0, 0.02, 0.1))
        self.recover_share = random.choice((0.0, 0.0, 0.03))
        self.spoil_share = random.choice((0.0, 0.0, 0.01))
        self.clear_share = random.choice((0.1, 0.5))
        self.pace_ms = random.choice((5, 30, 100))

        self.wal_max_bytes = random.choice((8_192, 16_384, 65_536))
        self.reserve_bytes = random.choice((4_096, 8_192))
        self.cache_bytes = random.choice((2_048, 16_384, 65_536))
        self.extent_bytes_max = random.choice((2_048, 8_192, 65_536))
        self.round_bytes_max = random.choice((4_096, 65_536))
        self.live_share_percent = random.choice((30, 50, 90))
        self.compact_interval_ms = random.choice((100, 1_000, 5_000))
        self.tick_ms = random.choice((100, 1_000))

        self.quorum_queues = random.choice((0, 1, 1, 2))
        self.classic_queues = random.choice((0, 1, 1, 2))
        if self.quorum_queues + self.classic_queues == 0:
            self.quorum_queues = 1
        self.transient_queue = random.random() < 0.2
        self.volatile = random.random() < 0.2
        self.purges = random.random() < 0.3
        self.fanout = random.random() < 0.3
        self.groups = random.random() < 0.4
        self.lease_ms = random.choice((0, 0, 5_000))
        self.clients = random.randrange(1, 4)
        self.reader_weight = random.choice((2, 6, 12))

        self.prefetches: tuple[int, ...] = (0, 1, 3, 20, 200)
        later = Random(f"{seed} later")
        self.troubles |= self._some(later, LATER_TROUBLES, LATER_SHARE)
        self.delivery_limit = later.choice((20, 20, 20, 2, 3))
        self.unicode = later.random() < LATER_SHARE
        self.edge_share = later.choice((0.0, 0.0, 0.0, 0.0, 0.3))
        self.body_bytes_max = EDGE_BYTES if self.edge_share else 0
        if later.random() < 0.05:
            # Some two megabytes.
            self.large_bytes = 300_000
            self.large_share = max(self.large_share, 0.1)
        kinds = Random(f"{seed} kinds")
        self.own_limit = Random(f"{seed} own limit").random() < OWN_LIMIT_SHARE
        self.exclusive = kinds.random() < KINDS_SHARE
        self.renewed = [kind for kind in RENEWED if kinds.random() < KINDS_SHARE]
        limits = Random(f"{seed} limits")
        self.most = limits.choice((1, 6, 40)) if limits.random() < LATER_SHARE else -1
        sizes = Random(f"{seed} kinds of limits")
        self.most_bytes = sizes.choice((300, 3_000)) if sizes.random() < LATER_SHARE else -1
        self.drops = sizes.random() < KINDS_SHARE
        self.favours = Random(f"{seed} favours").random() < LATER_SHARE
        self.strict = Random(f"{seed} strict").random() < KINDS_SHARE
        self.alternates = Random(f"{seed} alternates").random() < KINDS_SHARE
        letters = Random(f"{seed} dead letters")
        kind = letters.choice(("quorum", "classic"))
        self.letters = kind if letters.random() < LATER_SHARE else ""
        retries = Random(f"{seed} retries")
        self.retry_ms = retries.choice((20, 500)) if retries.random() < LATER_SHARE else 0
        delays = Random(f"{seed} delays")
        kind = delays.choice(("quorum", "classic"))
        self.delays = kind if delays.random() < LATER_SHARE else ""
        self.letters_ttl_ms = letters.choice((0, 50, 2_000))
        ways = Random(f"{seed} ways to die")
        self.letters_once = ways.random() < ONCE_SHARE
        self.letters_limit = ways.choice((-1, -1, 0, 1, 3))
        more = Random(f"{seed} more ways to die")
        self.letters_source = "classic" if more.random() < KINDS_SHARE else "quorum"
        self.letters_lives: tuple[int, ...] = (0, 50, 2_000) if more.random() < 0.5 else ()
        self.letters_most = more.choice((-1, -1, 3, 20))
        self.letters_change = more.random() < KINDS_SHARE
        self.priorities: tuple[int, ...] = ()
        if Random(f"{seed} priorities").random() < LATER_SHARE:
            self.priorities = PRIORITIES
        timeouts = Random(f"{seed} consumer timeouts")
        timeout_ms = timeouts.choice((200, 1_000, 3_000))
        self.timeout_ms = timeout_ms if timeouts.random() < LATER_SHARE else 0
        self.copies = Random(f"{seed} copies").random() < LATER_SHARE
        self.replies = Random(f"{seed} replies").random() < LATER_SHARE
        idle = Random(f"{seed} unused queues")
        kind = idle.choice(("quorum", "quorum", "classic", "transient"))
        self.expiring = kind if idle.random() < EXPIRING_SHARE else ""
        self.expires_ms = idle.choice((300, 600, 2_000))
        spills = Random(f"{seed} spilled messages")
        kind = spills.choice(("quorum", "classic"))
        self.spills = kind if spills.random() < LATER_SHARE else ""
        self.spills_most = spills.choice((0, 1, 3, 20))
        policies = Random(f"{seed} governed queues")
        self.governed = ""
        if policies.random() < KINDS_SHARE:
            self.governed = policies.choice(("quorum", "quorum", "classic"))
        self.governed_varies = Random(f"{seed} more policies").random() < VARIES_SHARE
        self.single_active = Random(f"{seed} single active").random() < LATER_SHARE
        eager = Random(f"{seed} eager readers")
        self.eager = eager.random() < EAGER_SHARE
        self.eager_lease_ms = eager.choice((0, 200, 600))
        self.quits = Random(f"{seed} quits").random() < LATER_SHARE
        hops = Random(f"{seed} hops")
        way = hops.choice(("at-most-once", "at-least-once"))
        self.hops = way if hops.random() < HOPS_SHARE else ""
        self.hops_rounds = hops.random() < 0.5
        told = Random(f"{seed} told")
        kind = told.choice(("quorum", "quorum", "classic"))
        self.told = kind if told.random() < TOLD_SHARE else ""
        self.told_most = told.choice((-1, -1, 1, 5))
        self.told_rejects = told.random() < 0.5
        if Random(f"{seed} failing disks").random() < FAILING_SHARE:
            self.troubles[DISK_FAILS] = 5

    def name(self, plain: str) -> str:
        """What something is called in this run."""
        return NAMES.get(plain, plain) if self.unicode else plain

    def has_eager_readers(self) -> bool:
        """Whether there are groups of readers that have a queue to themselves."""
        return self.groups and self.eager and self.quorum_queues > 0

    def calm(self) -> None:
        """From now on nothing goes wrong and everything is acked."""
        self.troubles = {}
        self.settlings = {"multiple": 1}
        self.close_share = 0.0
        self.cancel_share = 0.0
        self.recover_share = 0.0
        self.spoil_share = 0.0

    @staticmethod
    def _some(random: Random, names: tuple[str, ...], share: float) -> dict[str, int]:
        return {name: random.randrange(1, 6) for name in names if random.random() < share}

    def pick_settling(self, random: Random) -> str:
        """A way of settling."""
        return random.choices(list(self.settlings), list(self.settlings.values()))[0]

    def pick_trouble(self, random: Random) -> str:
        """A kind of trouble; there has to be one."""
        return random.choices(list(self.troubles), list(self.troubles.values()))[0]

    def __str__(self) -> str:
        parts = []
        for name, value in sorted(vars(self).items()):
            several = isinstance(value, (dict, list, tuple))
            text = "+".join(map(str, value)) or "none" if several else value
            parts.append(f"{name}={text}")
        return " ".join(parts)
