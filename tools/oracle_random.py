"""Plays random sequences of requests to RabbitMQ and to Warren; tells where the answers differ.

    python tools/oracle_random.py HOST:PORT [--count 1000] [--first N] [--jobs 4] [--record]

HOST:PORT is the RabbitMQ; a Warren is started, or `WARREN_TEST_BROKER` names one. A sequence is
drawn by its number: `--first 4207 --count 1` plays one again. What differs is played again with
more time for everything, and told where it differs again, made as small as can be, or where it
differed before by more than time can explain. A sequence to which the RabbitMQ itself says now this
and now that is counted, and told of by its number. `--record` stores all others that do not differ,
with what the RabbitMQ said, beside those that are stored.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.clients.raw import Closed
from tests.oracle.conftest import LIKE_THE_ORACLE
from tests.oracle.sequences import stored
from tests.oracle.sequences.draw import drawn
from tests.oracle.sequences.play import BRISK, PATIENT, Answers, Pace, Pair, Play
from tests.oracle.sequences.shrink import shrink
from tests.oracle.sequences.steps import Sequence
from tests.oracle.sequences.stored import Stored
from tests.oracle.sequences.verdict import is_late
from tests.support.broker import Broker, free_port

AGREE, DIFFER, CHANCE = "agree", "differ", "chance"
"""How two brokers answer; by chance, if one of them answers now so and now otherwise."""


class Judged(NamedTuple):
    """A sequence, as small as can be where it differs, and what both brokers said."""

    number: int
    verdict: str
    steps: Sequence
    oracle: Answers
    warren: Answers


class Both:
    """Connections to both brokers."""

    def __init__(self, addresses: list[tuple[str, int]]) -> None:
        self.pairs = [Pair(address) for address in addresses]

    def play(self, steps: Sequence, pace: Pace) -> tuple[Answers, Answers]:
        """What both say."""
        oracle, warren = (self._play(pair, steps, pace) for pair in self.pairs)
        return oracle, warren

    @staticmethod
    def _play(pair: Pair, steps: Sequence, pace: Pace) -> Answers:
        try:
            return Play(pair, pace).run(steps)
        except (OSError, AssertionError, EOFError, LookupError, Closed) as error:
            pair.close()
            return [{"failed": f"{type(error).__name__}: {error}"[:300]} for _ in steps]

    def differ(self, steps: Sequence) -> bool:
        """Whether they differ when there is time."""
        oracle, warren = self.play(steps, PATIENT)
        return oracle != warren

    def varies(self, steps: Sequence, answers: Answers) -> bool:
        """Whether the oracle says something else when it is asked once more."""
        return self._play(self.pairs[0], steps, PATIENT) != answers


_both: list[Both] = []
"""Those of this process."""


def begin(addresses: list[tuple[str, int]]) -> None:
    """Begin a process that plays."""
    _both.append(Both(addresses))


def judge(number: int) -> Judged:
    """Play one."""
    steps, both = drawn(number), _both[0]
    oracle, warren = both.play(steps, BRISK)
    if oracle == warren:
        return Judged(number, AGREE, steps, oracle, warren)
    again, patient = both.play(steps, PATIENT)
    if again == patient and is_late(oracle, warren):
        return Judged(number, AGREE, steps, again, patient)
    if (oracle != again and not is_late(oracle, again)) or both.varies(steps, again):
        return Judged(number, CHANCE, steps, oracle, again)
    if again == patient:
        return Judged(number, DIFFER, steps, oracle, warren)
    small = shrink(steps, both.differ)
    return Judged(number, DIFFER, small, *both.play(small, PATIENT))


def tell(judged: Judged) -> None:
    """Print one that differs."""
    print(f"\n{judged.number} differs")
    for step, oracle, warren in zip(judged.steps, judged.oracle, judged.warren, strict=True):
        print("  " + json.dumps(step))
        if oracle != warren:
            print("    oracle " + json.dumps(oracle))
            print("    warren " + json.dumps(warren))
        else:
            print("           " + json.dumps(oracle))
    sys.stdout.flush()


def main() -> int:
    """Play; the exit code says whether all agreed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("oracle", help="HOST:PORT of a RabbitMQ")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=int(time.time()) % 1_000_000 * 1000)
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    host, _, port = options.oracle.rpartition(":")
    broker = Broker.from_environment()
    if broker is None:
        folder = tempfile.mkdtemp(prefix="warren-oracle-")
        broker = Broker(free_port(), Path(folder) / "broker", options=list(LIKE_THE_ORACLE)).start()
    addresses = [(host, int(port)), (broker.host, broker.port)]
    print(f"{options.count} sequences from --first {options.first}", flush=True)
    kept: list[Stored] = []
    differing, chance, begun = 0, 0, time.monotonic()
    try:
        with ProcessPoolExecutor(options.jobs, initializer=begin, initargs=(addresses,)) as pool:
            numbers = range(options.first, options.first + options.count)
            for judged in pool.map(judge, numbers):
                if judged.verdict == DIFFER:
                    differing += 1
                    tell(judged)
                elif judged.verdict == CHANCE:
                    chance += 1
                    print(f"{judged.number} is chance", flush=True)
                else:
                    kept.append(Stored(judged.number, judged.steps, judged.oracle))
    finally:
        if broker.ours:
            broker.stop()
    if options.record:
        stored.add(kept)
    speed = options.count / (time.monotonic() - begun)
    print(
        f"\n{options.count} from --first {options.first}: {differing} differ, {chance} are chance; "
        f"{speed:.1f} a second"
    )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
