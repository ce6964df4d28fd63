"""`python -m sim`: run seeds, or replay one with its event lines."""

from __future__ import annotations

import argparse
import os
import secrets
import sys

from sim.runner import run_and_print, seeds_for, trace

OPERATIONS = 300
SEEDS = 1_000
SEED_MAX = 10**9


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m sim", description="Whole nodes under faults, replayed from seeds."
    )
    parser.add_argument("--seeds", type=int, help=f"how many seeds to run ({SEEDS})")
    parser.add_argument(
        "--for",
        type=float,
        dest="seconds",
        metavar="SECONDS",
        help="run seeds for so long instead, new ones each time",
    )
    parser.add_argument("--first", type=int, help="the first of them (1; with --for any)")
    parser.add_argument("--seed", type=int, help="replay this one and print its events")
    parser.add_argument(
        "--operations", type=int, default=OPERATIONS, help=f"what clients do ({OPERATIONS})"
    )
    parser.add_argument("--cluster", action="store_true", help="clusters instead of one node")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    operations, cluster = options.operations, options.cluster
    if options.seed is None:
        if options.seconds is None:
            first, wanted = options.first or 1, options.seeds or SEEDS
            seeds = range(first, first + wanted)
            return run_and_print(seeds, operations, options.workers, cluster, wanted)
        if options.seeds is not None:
            parser.error("--seeds says how many, --for how long: one of them")
        first = options.first or 1 + secrets.randbelow(SEED_MAX)
        print(f"seeds from {first} on, for {options.seconds:g} s", flush=True)
        return run_and_print(
            seeds_for(first, options.seconds), operations, options.workers, cluster
        )
    lines, complaint = trace(options.seed, options.operations, options.cluster)
    print("\n".join(lines))
    print(f"seed {options.seed} FAILED: {complaint}" if complaint else "all was well")
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
