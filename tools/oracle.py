"""Plays the oracle's scenarios to a broker: records its answers, or compares them to a record.

    python tools/oracle.py record HOST:PORT tests/oracle/rabbitmq-4.3.json
    python tools/oracle.py compare HOST:PORT tests/oracle/rabbitmq-4.3.json [NAME ...]

A real RabbitMQ is the oracle: the same scripts against both brokers, the same answers. What Warren
does otherwise on purpose is listed, with its reason, in `tests/oracle/deviations.py`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.clients.raw import Closed
from tests.oracle import scenarios_basic  # noqa: F401 (registers its scenarios)
from tests.oracle.scenarios import SCENARIOS
from tests.oracle.session import Session

Transcript = dict[str, list[Any]]


def play(name: str, address: tuple[str, int]) -> Transcript:
    """Play one scenario and return what the broker said, by connection and channel."""
    session = Session(address)
    try:
        SCENARIOS[name](session)
    finally:
        session.finish()
    return json.loads(json.dumps(session.transcript))  # type: ignore[no-any-return]


def lines(transcript: Transcript) -> list[str]:
    """Lay a transcript out one event a line; tables have no order, so keys are sorted."""
    out = []
    for place in sorted(transcript):
        for event in transcript[place]:
            out.append(f"{place} {json.dumps(event, ensure_ascii=False, sort_keys=True)}")
    return out


def difference(wanted: Transcript, got: Transcript) -> str:
    """Return a unified diff of two transcripts, empty when they agree."""
    return "\n".join(difflib.unified_diff(lines(wanted), lines(got), "oracle", "here", lineterm=""))


def dump(record: dict[str, Transcript]) -> str:
    """Lay out the record with one event a line, so that its own diffs can be read."""
    out = ["{"]
    for n, name in enumerate(sorted(record)):
        out.append(f" {json.dumps(name)}: {{")
        places = sorted(record[name])
        for p, place in enumerate(places):
            events = [f"   {json.dumps(e, ensure_ascii=False)}" for e in record[name][place]]
            out.append(f"  {json.dumps(place)}: [")
            out.append(",\n".join(events))
            out.append("  ]" + ("," if p + 1 < len(places) else ""))
        out.append(" }" + ("," if n + 1 < len(record) else ""))
    return "\n".join([*out, "}", ""])


def main() -> int:
    """Record or compare; the exit code says whether everything agreed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("address", help="HOST:PORT of a running broker")
    parser.add_argument("file", type=Path)
    parser.add_argument("names", nargs="*", help="scenarios (all)")
    options = parser.parse_args()
    host, port = options.address.rsplit(":", 1)
    record: dict[str, Transcript] = {}
    if options.file.exists():
        record = json.loads(options.file.read_text("utf-8"))
    failed = 0
    for name in options.names or SCENARIOS:
        try:
            got = play(name, (host, int(port)))
        except (OSError, Closed, AssertionError):
            traceback.print_exc()
            print(f"{name}: the scenario itself failed")
            failed += 1
            continue
        if options.action == "record":
            record[name] = got
        elif diff := difference(record.get(name, {}), got):
            print(f"{name}\n{diff}\n")
            failed += 1
    if options.action == "record":
        record = {name: said for name, said in record.items() if name in SCENARIOS}
        options.file.write_text(dump(record), "utf-8")
    print(f"{len(options.names or SCENARIOS)} scenarios, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
