"""Many seeds, on all cores, and what they add up to."""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import count, islice
from typing import NamedTuple

from sim.cluster.world import ClusterWorld
from sim.model import Violation
from sim.world import World

CHUNK = 10
"""Seeds that a worker takes at a time."""
ENOUGH = 100
"""So many seeds have to have met all there is to meet."""

SHORT_LIVED = (
    "exclusive queues",
    "queues named by nodes",
    "exclusive queues gone with their connections",
    "confirmed by short-lived queues",
    "delivered by short-lived queues",
    "returned by short-lived queues",
    "short-lived 404",
    "short-lived 405",
)
"""Of queues that come and go; see `incarnations`."""

NEEDED = (
    "confirmed",
    "delivered",
    "redelivered",
    "settled",
    "power failures",
    "kills",
    "stops",
    "sync failures",
    "full disks",
    "refused",
    "cuts",
    "full replays",
    "checkouts settled",
    "fenced",
    "retakes",
    "releases",
    "groups deleted",
    "commits",
    "purges",
    "returned",
    "too large",
    "copies named",
    "damaged frames",
    "disks stand still",
    "disks crawl",
    "disk calls failed: write",
    "disk calls failed: sync",
    "direct replies",
    "forged addresses",
    "empty queues have room again",
    "publishers by an alternate exchange",
    "closes in odd orders",
    "gone while it closes",
    "changes of feeds",
    "feeds that told all",
    *SHORT_LIVED,
)
"""What a set of seeds has to have met; otherwise it proves nothing."""

NEEDED_OF_CLUSTERS = (
    "confirmed",
    "delivered",
    "redelivered",
    "settled",
    "joins",
    "clusters of many nodes",
    "queues stranded",
    "weak groups",
    "elections",
    "sessions closed",
    "living sessions closed",
    "snapshots installed",
    "states compared",
    "observers compared",
    "states for observers",
    "partitions",
    "links cut",
    "last proposals cut off",
    "pauses",
    "power failures",
    "blackouts",
    "kills",
    "stops",
    "sync failures",
    "full disks",
    "replacements",
    "bits flipped",
    "damage found",
    "transfers",
    "votes moved",
    "members changed",
    "policies changed",
    "clock jumps",
    "slow readers",
    "cuts",
    "commits",
    "checkouts settled",
    "fenced",
    "retakes",
    "releases",
    "groups deleted",
    "lines given up",
    "delivered from classic queues",
    "purges",
    "too large",
    "copies named",
    "damaged frames",
    "disks stand still",
    "disks crawl",
    "disk calls failed: write",
    "disk calls failed: sync",
    "disk calls failed: open",
    "disk calls failed: rename",
    "disk calls failed: sync_directory",
    "links ended by damage",
    *SHORT_LIVED,
    "consumers of deleted queues",
    "transfers outlived",
    "disks put back",
    "begun anew",
    "disks spoiled",
    "begun anew for damage",
    "dead letters",
    "rejected to die",
    "dead letters arrived",
    "dead letters expired",
    "dead letters rejected",
    "dead letters delivery_limit",
    "dead letters maxlen",
    "policies of dead letters",
    "hops of messages",
    "messages that hop arrived",
    "direct replies",
    "forged addresses",
    "empty queues have room again",
    "closes in odd orders",
    "gone while it closes",
    "delayed messages",
    "delayed messages arrived",
    "messages with priorities",
    "consumers timed out",
    "active consumers followed",
    "expiring queues used",
    "expired queues",
    "policies of a governed queue",
    "trials of policies",
    "dropped by a policy's limit",
    "governed messages refused",
    "died by policy: expired",
    "died by policy: maxlen",
    "died by policy: rejected",
    "died by policy: delivery_limit",
    "nodes started again in a trial",
    "came again by policy",
    "dead letters kept meanwhile",
    "publishes rejected to die by a policy",
    "timed out in a trial",
    "rejected publishes spilled",
    "disks wiped",
    "wiped nodes back",
    "changes of feeds",
    "feeds that told all",
    "events of feeds compared",
    "members deleted by force",
    "queues that went on with one copy by force",
    "vhosts deleted",
    "connections of vhosts that went",
    "delivered in vhosts that come and go",
)
"""The same for clusters."""


class Outcome(NamedTuple):
    """What became of one seed.

    Attributes:
        complaint: Empty if all was well.
        checker: Module that complained, such as `sim.checkers.loss`; empty if all was well. For an
            exception that is no `Violation` it is the module that raised it.
    """

    seed: int
    complaint: str
    counts: Counter[str]
    checker: str = ""


Direct = Callable[[World | ClusterWorld], None]


def new_world(seed: int, operations: int, cluster: bool, traced: bool) -> World | ClusterWorld:
    """A run to be."""
    if cluster:
        return ClusterWorld(seed, operations, traced)
    return World(seed, operations, traced)


def raised_by(error: BaseException) -> str:
    """The module whose code raised an error."""
    at = error.__traceback__
    module = ""
    while at is not None:
        module = str(at.tb_frame.f_globals.get("__name__", ""))
        at = at.tb_next
    return module


def run_seed(
    seed: int, operations: int, cluster: bool = False, direct: Direct | None = None
) -> Outcome:
    """Run one seed. Whatever goes wrong in it, the simulator's own faults too, is an outcome.

    Args:
        direct: Changes what the seed has drawn, before the run.
    """
    world = new_world(seed, operations, cluster, False)
    if direct is not None:
        direct(world)
    try:
        world.run()
    except Violation as error:
        return Outcome(seed, str(error), world.counts, raised_by(error))
    except Exception as error:
        return Outcome(seed, traceback.format_exc(), world.counts, raised_by(error))
    if not cluster:
        world.counts["lives"] = world.life
        world.counts["steps"] = world.step_number
    return Outcome(seed, "", world.counts)


def trace(seed: int, operations: int, cluster: bool = False) -> tuple[list[str], str]:
    """The event lines of a seed, and what was wrong with it, if anything."""
    world = new_world(seed, operations, cluster, True)
    complaint = ""
    try:
        world.run()
    except Violation as error:
        complaint = str(error)
    except Exception:
        complaint = traceback.format_exc()
    assert world.lines is not None
    return world.lines, complaint


def run_chunk(seeds: list[int], operations: int, cluster: bool) -> list[Outcome]:
    """Run some seeds in a worker."""
    outcomes = [run_seed(seed, operations, cluster) for seed in seeds]
    gc.collect()
    return outcomes


def run_seeds(
    seeds: Iterable[int],
    operations: int,
    workers: int,
    report: Callable[[Outcome], None],
    cluster: bool = False,
) -> Counter[str]:
    """Run many seeds; `report` is called for each, in order of seeds.

    Seeds are taken as they are needed, so there may be no end to them until something stops them.
    """
    total: Counter[str] = Counter()
    left = iter(seeds)

    def take(outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            total.update(outcome.counts)
            report(outcome)

    if workers <= 1:
        while chunk := list(islice(left, CHUNK)):
            take(run_chunk(chunk, operations, cluster))
        return total
    with ProcessPoolExecutor(workers) as pool:
        running: deque[Future[list[Outcome]]] = deque()
        while True:
            while len(running) <= workers and (chunk := list(islice(left, CHUNK))):
                running.append(pool.submit(run_chunk, chunk, operations, cluster))
            if not running:
                return total
            take(running.popleft().result())


def seeds_for(first: int, seconds: float) -> Iterator[int]:
    """Seeds from `first` on, until so much time has passed."""
    end = time.perf_counter() + seconds
    for seed in count(first):
        if time.perf_counter() >= end:
            return
        yield seed


def missing(counts: Counter[str], cluster: bool = False) -> list[str]:
    """What a set of seeds should have met and did not."""
    return [name for name in (NEEDED_OF_CLUSTERS if cluster else NEEDED) if not counts[name]]


def summary(counts: Counter[str], seeds: int, failed: int, seconds: float) -> str:
    """A few lines on a set of seeds."""
    rate = int(seeds / seconds * 3600) if seconds > 0 else 0
    parts = ", ".join(f"{name} {counts[name]:,}" for name in sorted(counts))
    return f"{seeds} seeds, {failed} failed, {seconds:.0f} s, {rate:,} seeds per hour\nmet: {parts}"


def command_for(seed: int, operations: int, cluster: bool) -> str:
    """How to replay a seed."""
    kind = "--cluster " if cluster else ""
    return f"python -m sim {kind}--seed {seed} --operations {operations}"


def run_and_print(
    seeds: Iterable[int], operations: int, workers: int, cluster: bool, wanted: int = 0
) -> int:
    """Run seeds and print what they did; the status is that of the command.

    Args:
        wanted: How many they are; 0 if time decides.
    """
    failures: list[Outcome] = []
    done = 0

    def report(outcome: Outcome) -> None:
        nonlocal done
        done += 1
        if outcome.complaint:
            failures.append(outcome)
            print(f"seed {outcome.seed} FAILED: {outcome.complaint}")
            print(f"  replay: {command_for(outcome.seed, operations, cluster)}")
            sys.stdout.flush()
        elif done % 100 == 0:
            of = f" of {wanted}" if wanted else ""
            print(f"{done}{of} seeds, {len(failures)} failed", flush=True)

    started = time.perf_counter()
    counts = run_seeds(seeds, operations, workers, report, cluster)
    print(summary(counts, done, len(failures), time.perf_counter() - started))
    if failures:
        lines, _ = trace(failures[0].seed, operations, cluster)
        print(f"the last events of seed {failures[0].seed}:")
        print("\n".join(lines[-40:]))
        return 1
    lacking = missing(counts, cluster)
    if lacking and done >= ENOUGH:
        print(f"these seeds prove nothing, for they never met: {', '.join(lacking)}")
        return 1
    return 0
