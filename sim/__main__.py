"""`python -m sim`: run seeds, or replay one with its event lines."""

from __future__ import annotations

import argparse
import os
import sys

from sim.runner import run_and_print, trace

OPERATIONS = 300


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m sim", description="Whole nodes under faults, replayed from seeds."
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds to run (1000)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--seed", type=int, help="replay this one and print its events")
    parser.add_argument(
        "--operations", type=int, default=OPERATIONS, help=f"what clients do ({OPERATIONS})"
    )
    parser.add_argument("--cluster", action="store_true", help="clusters instead of one node")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is None:
        return run_and_print(
            options.first, options.seeds, options.operations, options.workers, options.cluster
        )
    lines, complaint = trace(options.seed, options.operations, options.cluster)
    print("\n".join(lines))
    print(f"seed {options.seed} FAILED: {complaint}" if complaint else "all was well")
    return 1 if complaint else 0


if __name__ == "__main__":
    sys.exit(main())
