"""Plays the oracle's scenarios to brokers: records answers, or compares them with the stored ones.

    python tools/oracle.py record HOST:PORT [NAME ...]    store what a RabbitMQ answers
    python tools/oracle.py stale HOST:PORT [NAME ...]     where a RabbitMQ answers otherwise
    python tools/oracle.py warren [NAME ...]              where Warren does, but for its deviations

NAME is a scenario, or the beginning of some. A real RabbitMQ is the oracle: the same scripts
against both brokers, the same answers. What Warren does otherwise on purpose is listed, with its
reason, in `tests/oracle/deviations.py`; `warren` starts one, or takes `WARREN_TEST_BROKER`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.clients.raw import Closed
from tests.oracle import recorded
from tests.oracle.conftest import LIKE_THE_ORACLE, trace
from tests.oracle.recorded import Transcript, difference, play, play_at_once
from tests.oracle.registry import Scenario, load
from tests.oracle.verdict import verdict
from tests.support.broker import Broker, free_port


def play_all(
    scenarios: list[Scenario], address: tuple[str, int], lacking: bool
) -> dict[str, Transcript]:
    """Play scenarios, those that wait at once; those that fail are told and left out."""
    said: dict[str, Transcript] = {}
    for name, got in play_at_once([s for s in scenarios if s.waits], address, lacking).items():
        if isinstance(got, Exception):
            traceback.print_exception(got)
            print(f"{name}: the scenario itself failed")
        else:
            said[name] = got
    for scenario in scenarios:
        if scenario.waits:
            continue
        try:
            said[scenario.name] = play(scenario, address, lacking)
        except (OSError, Closed, AssertionError):
            traceback.print_exc()
            print(f"{scenario.name}: the scenario itself failed")
    return said


def _told(scenarios: list[Scenario], said: dict[str, Transcript], wrong: dict[str, str]) -> int:
    for name, text in wrong.items():
        print(f"{name}\n{text}\n")
    failed = len(scenarios) - len(said)
    print(f"{len(scenarios)} scenarios, {failed} failed, {len(wrong)} differ")
    return 1 if failed or wrong else 0


def main() -> int:
    """Record or compare; the exit code says whether everything agreed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "stale", "warren"))
    parser.add_argument("words", nargs="*", help="HOST:PORT of a RabbitMQ, but for `warren`; names")
    options = parser.parse_args()
    words = list(options.words)
    known, stored = load(), recorded.read()
    broker: Broker | None = None
    if options.action == "warren":
        broker = Broker.from_environment()
        if broker is None:
            folder = tempfile.mkdtemp(prefix="warren-oracle-")
            like = list(LIKE_THE_ORACLE)
            broker = Broker(free_port(), Path(folder) / "broker", options=like).start()
            trace(broker)
        address = (broker.host, broker.port)
    else:
        host, _, port = words.pop(0).rpartition(":")
        address = (host, int(port))
    chosen = [s for s in known.values() if not words or s.name.startswith(tuple(words))]
    try:
        if options.action != "warren":
            said = play_all(chosen, address, lacking=False)
        else:
            said = play_all([s for s in chosen if not s.lacking], address, lacking=False)
            said |= play_all([s for s in chosen if s.lacking], address, lacking=True)
    finally:
        if broker is not None and broker.ours:
            broker.stop()
    wrong: dict[str, str] = {}
    if options.action == "record":
        recorded.write({**stored, **said}, known)
    else:
        for scenario in chosen:
            if scenario.name in said:
                was, got = stored.get(scenario.name, {}), said[scenario.name]
                ours = options.action == "warren"
                diff = verdict(scenario, was, got) if ours else difference(was, got)
                if diff:
                    wrong[scenario.name] = diff
    return _told(chosen, said, wrong)


if __name__ == "__main__":
    sys.exit(main())
