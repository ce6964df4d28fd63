"""What routing by topics costs, by how many bindings an exchange has.

    python -m bench.topics [--bindings 10 1000 100000]

Told are, in microseconds of the processor, what it takes to bind one more, to route a key for the
first time and again, and to unbind; and in milliseconds, to delete the exchange with all the
bindings that it has left. Patterns are of several kinds; there are 100 queues, and 2,000 keys, each
of which matches a binding.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable

from warren.metadata.commands import (
    Bind,
    Command,
    DeclareExchange,
    DeclareQueue,
    DeclareVhost,
    DeleteExchange,
    Unbind,
)
from warren.metadata.machine import MetadataMachine
from warren.metadata.outcome import Outcome

QUEUES = 100
KEYS = 2_000
PATTERNS: dict[str, Callable[[random.Random, int], tuple[str, str]]] = {
    "a.b.c": lambda _, i: (f"a{i % 100}.b{i % 77}.c{i}",) * 2,
    "a.*.c": lambda _, i: (f"a{i % 100}.*.c{i}", f"a{i % 100}.x.c{i}"),
    "a.#": lambda _, i: (f"a{i}.#", f"a{i}.b.c"),
    "#.c": lambda _, i: (f"#.c{i}", f"x.y.c{i}"),
    "#.b.#": lambda _, i: (f"#.b{i}.#", f"x.b{i}.y"),
    "mixed": lambda draw, _: mixed(draw),
}
"""A pattern and a key that it matches, for the binding of a number."""


def mixed(draw: random.Random) -> tuple[str, str]:
    """Four words of a thousand each, some of them wildcards, and a key that is likely to match."""
    words = [f"w{draw.randrange(1_000)}" for _ in range(4)]
    pattern = [word if draw.random() > 0.2 else "*" for word in words]
    if draw.random() < 0.2:
        pattern[draw.randrange(4)] = "#"
    return ".".join(pattern), ".".join(words)


def spent(work: Callable[[], object]) -> float:
    """The processor's seconds that something takes."""
    before = time.process_time()
    work()
    return time.process_time() - before


def measure(make: Callable[[random.Random, int], tuple[str, str]], count: int) -> list[str]:
    """All figures for one kind of pattern and one number of bindings."""
    draw, machine = random.Random(7), MetadataMachine()

    def apply(command: Command) -> Outcome:
        return machine.apply(machine.applied_index + 1, command)

    apply(DeclareVhost("/"))
    apply(DeclareExchange("/", "t", "topic", True, False, False, {}))
    for number in range(QUEUES):
        queue = f"q{number}"
        apply(DeclareQueue("/", queue, "classic", True, False, 0, {}, number + 1))
    made = [make(draw, number) for number in range(count)]
    ends = [f"q{number % QUEUES}" for number in range(count)]
    binds = [
        Bind("/", "t", end, False, pattern, {}, True)
        for end, (pattern, _) in zip(ends, made, strict=True)
    ]
    bound = spent(lambda: [apply(bind) for bind in binds]) / count
    keys = [key for _, key in draw.choices(made, k=KEYS)]
    router = machine.vhosts["/"].router
    first = spent(lambda: [router.route_keys("t", [key]) for key in keys]) / KEYS
    for key in keys:
        router.route("t", key)
    again = spent(lambda: [router.route("t", key) for key in keys]) / KEYS
    some = draw.sample(binds, min(count, 1_000))
    unbinds = [Unbind("/", "t", b.destination, False, b.routing_key, {}, True) for b in some]
    unbound = spent(lambda: [apply(unbind) for unbind in unbinds]) / len(some)
    deleted = spent(lambda: apply(DeleteExchange("/", "t", False, True)))
    return [f"{1e6 * each:.2f}" for each in (bound, first, again, unbound)] + [
        f"{1e3 * deleted:.1f}"
    ]


def main() -> None:
    """Print a row for each kind of pattern and number of bindings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bindings", type=int, nargs="+", default=[10, 1_000, 100_000])
    options = parser.parse_args()
    print("| patterns | bindings | bind | route | route again | unbind | delete all, ms |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, make in PATTERNS.items():
        for count in options.bindings:
            figures = " | ".join(measure(make, count))
            print(f"| `{name}` | {count:,} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
