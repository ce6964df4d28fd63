"""The answers that were recorded, one file for each module of scenarios, one event a line.

`answers/rabbitmq-4.3/AREA.json` has, by scenario and by place (`connection/channel`), the list of
events. It is laid out so that a change of one answer is a change of one line.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from tests.oracle.registry import Scenario
from tests.oracle.session import NotYet, Session

Transcript: TypeAlias = dict[str, list[Any]]

FOLDER = Path(__file__).parent / "answers" / "rabbitmq-4.3"


def play(scenario: Scenario, address: tuple[str, int], lacking: bool = False) -> Transcript:
    """Play one scenario and return what the broker said, by connection and channel.

    Args:
        address: Host and port of the broker.
        lacking: Whether to end as soon as the broker says that something is not there yet.
    """
    session = Session(address, lacking)
    try:
        with suppress(NotYet):
            scenario.play(session)
    finally:
        session.finish()
    return json.loads(json.dumps(session.transcript))  # type: ignore[no-any-return]


def play_at_once(
    scenarios: list[Scenario], address: tuple[str, int], lacking: bool = False
) -> dict[str, Transcript | Exception]:
    """Play scenarios that wait beside each other; gives transcripts, or what failed, by name."""

    def one(scenario: Scenario) -> Transcript | Exception:
        try:
            return play(scenario, address, lacking)
        except (OSError, AssertionError, EOFError, LookupError) as error:
            return error

    with ThreadPoolExecutor(max(1, len(scenarios))) as pool:
        return dict(zip([each.name for each in scenarios], pool.map(one, scenarios), strict=True))


def read() -> dict[str, Transcript]:
    """All recorded answers by scenario."""
    found: dict[str, Transcript] = {}
    for path in sorted(FOLDER.glob("*.json")):
        found.update(json.loads(path.read_text("utf-8")))
    return found


def write(answers: Mapping[str, Transcript], scenarios: Mapping[str, Scenario]) -> None:
    """Replace the files by what is given, but for what is of no scenario."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    areas: dict[str, dict[str, Transcript]] = {}
    for name, transcript in answers.items():
        if name in scenarios:
            areas.setdefault(scenarios[name].area, {})[name] = transcript
    for path in FOLDER.glob("*.json"):
        if path.stem not in areas:
            path.unlink()
    for area, part in areas.items():
        (FOLDER / f"{area}.json").write_bytes(_dump(part).encode())


def _dump(part: Mapping[str, Transcript]) -> str:
    scenarios = []
    for name in sorted(part):
        places = []
        for place in sorted(part[name]):
            events = ",\n".join(f"  {_line(event)}" for event in part[name][place])
            places.append(f"{json.dumps(place)}: [\n{events}]")
        scenarios.append(f" {_line(name)}: {{{', '.join(places)}}}")
    return "{\n" + ",\n".join(scenarios) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def lines(transcript: Transcript) -> list[str]:
    """Lay a transcript out one event a line; tables have no order, so keys are sorted."""
    return [
        f"{place} {json.dumps(event, ensure_ascii=False, sort_keys=True)}"
        for place in sorted(transcript)
        for event in transcript[place]
    ]


def difference(wanted: Transcript, got: Transcript) -> str:
    """A unified diff of two transcripts, empty when they agree."""
    return "\n".join(difflib.unified_diff(lines(wanted), lines(got), "oracle", "here", lineterm=""))
