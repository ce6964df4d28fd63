"""`python -m tests.raft.simulate --seeds N`: run seeds; `--seed N` replays one with its events."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable

from tests.raft.world import Swarm, World


def run_seed(
    seed: int, trace: bool = False, tune: Callable[[Swarm], None] | None = None
) -> tuple[World, str]:
    """One run, and what was wrong with it; `tune` may make the world another one."""
    world = World(seed, trace=trace)
    if tune is not None:
        tune(world.swarm)
    try:
        world.run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error}"
        return world, f"{text} ({where.name}:{where.lineno}) at {world.now_ms} ms"
    return world, ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.raft.simulate")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    if options.seed is not None:
        world, complaint = run_seed(options.seed, trace=True)
        print("\n".join(world.lines))
        print(complaint or "all was well")
        print(world.counts, world.summary())
        return 1 if complaint else 0
    begun = time.monotonic()
    failed = 0
    total: dict[str, int] = {}
    for seed in range(options.first, options.first + options.seeds):
        world, complaint = run_seed(seed)
        for name, count in world.counts.items():
            total[name] = total.get(name, 0) + count
        if complaint:
            failed += 1
            print(f"seed {seed}: {complaint}")
    print(f"{options.seeds} seeds, {failed} failed, {time.monotonic() - begun:.1f} s: {total}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
